// Switch off heads: a button for every head, coloured by what it does alone, and the answer without
// those that are off.

import { range } from "../common/answer.js";
import { className, percent, say } from "../common/boot.js";
import { fill, make, surface } from "../common/dom.js";
import { cssColour } from "../common/paint.js";
import { pairedBars, signedColour } from "../common/charts.js";
import { stepThrough } from "../common/head_grid.js";

const LABEL = 34;                // pixels beside the grid for the numbers of the layers
const SMALLEST = 24, LARGEST = 30;

export function build(place, choose) {
  const finding = make("p", { class: "finding" });
  const grid = make("div", { class: "switches", role: "group" });
  const ramp = make("div", { class: "ramp" });
  const ends = make("div", { class: "ramp-ends" });
  const scale = make("p", { class: "aside" });
  const allOn = make("button", { type: "button", class: "quiet", onclick: () => send(new Set()) });
  const allOff = make("button", { type: "button", class: "quiet", onclick: () => send(everyHead()) });
  const by = make("div", { class: "by" });
  const byName = make("span", { id: "ablation-by" });
  const choices = ["zero", "mean"].map((name) => make("button", { type: "button", "data-by": name,
    onclick: () => choose({ by: name === "zero" ? null : name }) }));
  const noMeans = make("p", { class: "aside" });
  const answers = make("div");
  const gradient = new Importance();
  const rankedTitle = make("h3");
  const ranked = make("ol", { class: "ranked" });
  let off = new Set();             // "layer.head" of the heads that are off
  let shape = [0, 0];
  let cells = [];                  // rows of buttons: the layer's own, then its heads

  by.append(byName, make("div", { class: "switch", role: "group", "aria-labelledby": "ablation-by" }, ...choices));
  place.append(finding, by, noMeans, make("div", { class: "chart-row" },
    make("div", { class: "map" }, make("div", { class: "scroll" }, grid), ramp, ends, scale,
      make("div", { class: "all" }, allOn, allOff)),
    make("div", { class: "beside" }, answers, gradient.element)), rankedTitle, ranked);
  grid.addEventListener("keydown", (event) => stepThrough(event, cells));

  function headsOf(layer) {
    return range(shape[1]).map((head) => `${layer}.${head + 1}`);
  }

  function everyHead() {
    return new Set(range(shape[0]).flatMap((layer) => headsOf(layer + 1)));
  }

  /** Show the choice at once and ask for its numbers; whole layers are written as "5.*". */
  function send(chosen) {
    off = chosen;
    drawPressed();
    const parts = range(shape[0]).flatMap((i) => {
      const mine = headsOf(i + 1).filter((name) => off.has(name));
      return mine.length === shape[1] ? [`${i + 1}.*`] : mine;
    });
    choose({ heads_off: parts.length ? parts.join(",") : null });
  }

  function toggle(names) {
    const chosen = new Set(off);
    const isOn = names.some((name) => !chosen.has(name));
    for (const name of names) (isOn ? chosen.add(name) : chosen.delete(name));
    send(chosen);
  }

  function buildGrid(layers, heads) {
    shape = [layers, heads];
    cells = range(layers).map((i) => [
      make("button", { type: "button", class: "row", "data-row": i + 1, tabindex: -1,
        onclick: () => toggle(headsOf(i + 1)) }, String(i + 1)),
      ...headsOf(i + 1).map((name) => make("button", { type: "button", class: "cell",
        "data-head": name, tabindex: -1, onclick: () => toggle([name]) }))]);
    cells[0][1].tabIndex = 0;
    fill(grid, make("span", { class: "corner" }),
      ...range(heads).map((i) => make("span", { "aria-hidden": "true" }, String(i + 1))), ...cells.flat());
  }

  function drawPressed() {
    for (const cell of cells.flat()) {
      const names = cell.dataset.row ? headsOf(cell.dataset.row) : [cell.dataset.head];
      cell.setAttribute("aria-pressed", String(names.every((name) => off.has(name))));
    }
    for (const chip of ranked.querySelectorAll("button")) {
      chip.setAttribute("aria-pressed", String(off.has(chip.dataset.head)));
    }
    allOn.disabled = off.size === 0;
    allOff.disabled = off.size === shape[0] * shape[1];
  }

  function drawMap({ effects, importance, limit }, name, width) {
    const side = Math.floor((width - LABEL) / effects[0].length) - 2;
    grid.style.gridTemplateColumns = `${LABEL}px repeat(${effects[0].length}, ${
      Math.max(SMALLEST, Math.min(LARGEST, side))}px)`;
    grid.setAttribute("aria-label", say("ablation_grid"));
    grid.querySelector(".corner").textContent = say("layer");
    effects.forEach((row, i) => {
      cells[i][0].setAttribute("aria-label", say("ablation_row", { layer: i + 1 }));
      row.forEach((effect, j) => {
        const cell = cells[i][j + 1];
        cell.style.background = signedColour(effect, limit);
        cell.classList.toggle("dark", Math.abs(effect) > limit / 2);
        cell.title = say("ablation_cell", { layer: i + 1, head: j + 1, points: signed(effect),
          importance: importance[i][j].toFixed(2) });
        cell.setAttribute("aria-label", cell.title);
      });
    });
    ramp.style.background = `linear-gradient(to right, ${
      range(9).map((i) => signedColour(i - 4, 4)).join(", ")})`;
    fill(ends, ...[-limit, 0, limit].map((value) => make("span", {}, signed(value))));
    scale.textContent = say("ablation_scale", { name });
  }

  return function draw(data, answer, { width }) {
    const { classes, before, after, best, effects } = data;
    if (shape[0] !== effects.length || shape[1] !== effects[0].length) {
      buildGrid(effects.length, effects[0].length);
    }
    const name = className(classes[best]);
    const leading = after.indexOf(Math.max(...after));
    const said = { name, count: data.off.length, all: shape[0] * shape[1], before: percent(before[best]),
      after: percent(after[best]), other: className(classes[leading]), percent: percent(after[leading]),
      margin: plain(data.margin), margin_after: plain(data.margin_after), found: foundText(data, name) };
    finding.textContent = !data.off.length ? say("ablation_none", said)
      : leading === best ? say("ablation_stays", said) : say("ablation_turns", said);
    drawMap(data, name, width < 640 ? width : Math.min(430, width / 2 - 8));
    byName.textContent = say("ablation_by");
    choices.forEach((button) => {
      button.textContent = say(`ablation_by_${button.dataset.by}`);
      button.setAttribute("aria-pressed", String(button.dataset.by === data.by));
      button.disabled = button.dataset.by === "mean" && !data.has_means;
    });
    noMeans.hidden = data.has_means;
    noMeans.textContent = say("ablation_no_means");
    gradient.draw(data);
    allOn.textContent = say("ablation_all_on");
    allOff.textContent = say("ablation_all_off");
    fill(answers, pairedBars(classes, [{ name: say("ablation_before"), shares: before },
      { name: say("ablation_after"), shares: after }], say("ablation_points")));
    rankedTitle.textContent = say("ablation_ranked");
    const focused = ranked.contains(document.activeElement) ? document.activeElement.dataset.head : null;
    fill(ranked, ...data.ranked.map(([layer, head]) => make("li", {}, make("button", { type: "button",
      "data-head": `${layer}.${head}`, onclick: () => toggle([`${layer}.${head}`]) },
    make("span", {}, say("ablation_chip", { layer, head })),
    make("b", { class: "figure" }, signed(effects[layer - 1][head - 1]))))));
    ranked.querySelector(`[data-head="${focused}"]`)?.focus();
    off = new Set(data.off.map(([layer, head]) => `${layer}.${head}`));
    drawPressed();
  };
}

/** What the map shows: the head that matters most, or that none does. */
function foundText({ matter, ranked: [[layer, head]], effects, margin, turning }, name) {
  const effect = effects[layer - 1][head - 1];
  if (!matter) {
    return say("ablation_no_head", { name, margin: plain(margin), most: plain(Math.abs(effect)) });
  }
  const text = say("ablation_top_head", { name, layer, head, margin: plain(margin), after: plain(margin + effect) });
  if (!turning.length) return text;
  return `${text} ${turning.length === 1 ? say("ablation_turning_one")
    : say("ablation_turning", { count: turning.length })}`;
}

/** The small map of what one backward pass says of every head. */
class Importance {
  constructor() {
    this.title = make("h3");
    this.canvas = make("canvas", { role: "img" });
    this.note = make("p", { class: "aside" });
    this.element = make("section", { class: "importance" }, this.title, this.canvas, this.note);
  }

  draw({ importance, agreement }) {
    const [side, most] = [13, Math.max(...importance.flat()) || 1];
    const pen = surface(this.canvas, side * importance[0].length, side * importance.length);
    importance.forEach((row, i) => row.forEach((value, j) => {
      pen.fillStyle = cssColour(value / most);
      pen.fillRect(side * j, side * i, side - 1, side - 1);
    }));
    this.title.textContent = say("ablation_importance");
    this.note.textContent = say("ablation_agreement", { value: plain(agreement) });
    this.canvas.setAttribute("aria-label", `${this.title.textContent}. ${this.note.textContent}`);
  }
}

function plain(value) {
  return value.toFixed(2).replace("-", "−");
}

/** −0.0123 → "−0.01": a change in logits. */
function signed(change) {
  const text = Math.abs(change).toFixed(2);
  return text === "0.00" ? text : `${change < 0 ? "−" : "+"}${text}`;
}
