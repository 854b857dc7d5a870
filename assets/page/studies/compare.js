// Two texts: side by side or joined in one input, how alike their vectors are, and how the feelings
// of the conversation go.

import { range } from "../common/answer.js";
import { className, percent, say } from "../common/boot.js";
import { FONT, colour, fill, fitted, make, onLeave, surface } from "../common/dom.js";
import { paintBand, paintMatrix } from "../common/paint.js";
import {
  cosineAxis, figure, legend, paintLines, paintSigned, pairedBars, points,
} from "../common/charts.js";
import { unpack, valuesOf } from "../common/matrix.js";
import { PatchMaps } from "../common/patching.js";
import { state } from "../common/store.js";
import { chosenNumber } from "../common/options.js";
import { selectionText, tagText, weightText } from "../common/words.js";

const LONGEST_LABEL = 64;
const OFFERED = 8; // texts to compare with

export function build(place, choose) {
  const chooser = new Chooser(choose);
  const care = make("p", { class: "care", role: "note" });
  const finding = make("p", { class: "finding" });
  const matrices = make("div", { class: "matrices" });
  const readout = make("p", { class: "readout", role: "status" });
  const answers = make("div", { class: "answers" });
  const alike = new Alike(choose);
  const patching = new PatchMaps(choose);
  const timeline = new Timeline();
  const maps = range(3).map(() => new TokenMatrix((text) => { readout.textContent = text; }));
  place.append(chooser.element, care, finding, matrices, readout,
    make("div", { class: "columns" }, answers, alike.element), patching.element, timeline.element);
  let turn = 0;

  return async function draw(data, answer, { width }) {
    if (chooser.followConversation(answer)) return;
    const mine = ++turn;
    const drawn = await (data.joined ? joinedMaps(data) : separateMaps(data));
    if (mine !== turn) return;
    chooser.draw(data, answer);
    care.hidden = !data.care;
    care.textContent = say("care");
    readout.textContent = say("cell_hint");
    const isNarrow = width < 560;
    const side = isNarrow ? width : Math.floor(data.joined ? 0.5 * width : (width - 24) / 3);
    const edge = labelRoom(drawn);
    drawn.forEach((map, i) => maps[i].draw(map, side, edge));
    fill(matrices, ...drawn.map((_, i) => maps[i].element), data.difference ? null
      : make("div", { class: "instead" }, ...(data.joined ? [sharesTable(data), headsTable(data)]
        : patterns(data))));
    const shown = [...data.sides, ...(data.joined ? [data.joined] : [])];
    answers.hidden = data.classes.length === 0;
    fill(answers, pairedBars(data.classes, shown.map(({ probabilities }, i) => ({
      name: ["A", "B", say("compare_both")][i], shares: probabilities })), say("compare_points")));
    finding.textContent = alike.draw(data, isNarrow || answers.hidden ? width : width / 2 - 10);
    if (data.joined) finding.textContent = withinText(data);
    patching.draw(data);
    timeline.draw();
  };
}

// ------------------------------------------------------------------------------ the second text

/** The box for the second text, texts to pick from, and how both are read. */
class Chooser {
  constructor(choose) {
    this.choose = choose;
    this.label = make("label", { for: "compare-second" });
    this.box = make("input", { type: "text", id: "compare-second", dir: "auto", autocomplete: "off" });
    this.compare = make("button", { type: "submit", class: "quiet" });
    this.modes = ["", "1"].map((joined) => make("button", { type: "button", "data-joined": joined,
      onclick: () => choose({ joined: joined || null }) }));
    this.how = make("div", { class: "switch", role: "group" }, ...this.modes);
    this.chips = make("div", { class: "chips", role: "group" });
    const form = make("form", {}, this.label, this.box, this.compare, this.how);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.written = this.box.value.trim();
      this.choose({ second: this.written || null });
    });
    this.element = make("div", { class: "chooser" }, form, this.chips);
    this.written = null;  // what was last put into the box; typing is left alone until another is read
    this.followed = null; // a second text that nobody chose: it goes with the conversation
  }

  /** Compare with the message before this one until somebody chooses another text. */
  followConversation(answer) {
    const at = state.messages.findIndex(({ id }) => id === state.current);
    const before = state.messages.slice(0, at).findLast(({ status, text }) => status === "done"
      && text !== answer.text)?.text ?? null;
    const isChosen = state.options.second && state.options.second !== this.followed;
    if (isChosen || before === (state.options.second ?? null)) return false;
    this.followed = before;
    this.choose({ second: before });
    return true;
  }

  draw({ sides, joined }, answer) {
    this.label.textContent = say("compare_second");
    this.compare.textContent = say("compare_button");
    this.how.setAttribute("aria-label", say("compare_how"));
    this.modes[0].textContent = say("compare_apart");
    this.modes[1].textContent = say("compare_together");
    this.modes.forEach((button, i) => button.setAttribute("aria-pressed", String(Boolean(joined) === (i === 1))));
    if (this.written !== sides[1].text) {
      this.written = sides[1].text;
      this.box.value = this.written;
    }
    const others = state.messages.filter(({ status }) => status === "done").map(({ text }) => text).reverse();
    const offered = [...new Set([...others, ...say("example_texts")])]
      .filter((text) => text !== answer.text).slice(0, OFFERED);
    this.chips.setAttribute("aria-label", say("compare_choices"));
    const focused = [...this.chips.children].indexOf(document.activeElement);
    fill(this.chips, ...offered.map((text) => make("button", { type: "button", class: "chip",
      title: text, dir: "auto", "aria-pressed": String(text === sides[1].text),
      onclick: () => {
        this.written = null;
        this.choose({ second: text });
      } }, text)));
    this.chips.children[focused]?.focus();
  }
}

// ------------------------------------------------------------------------------ heatmaps

async function separateMaps(data) {
  const { sides, difference, layer, head } = data;
  const maps = await Promise.all(sides.map(async (side, i) => ({
    title: `${"AB"[i]} · ${selectionText(layer, head)} · ${tagText(side.tag, true)}`,
    names: side.tokens, weights: valuesOf(await unpack(side.weights)) })));
  if (!difference) return maps;
  const signed = await unpack(difference.picture);
  const [one, other] = sides.map(({ tokens }) => tokens);
  return [...maps, { title: say("compare_moved", { percent: percent(difference.moved) }), signed,
    names: one.map((token, i) => (token === other[i] ? token : `${token}/${other[i]}`)),
    weights: valuesOf(signed) }];
}

async function joinedMaps({ joined, layer, head }) {
  const ends = [0, 1].map((part) => [joined.parts.indexOf(part), joined.parts.lastIndexOf(part) + 1]);
  return [{ title: `${say("compare_both")} · ${selectionText(layer, head)}`, names: joined.tokens,
    weights: valuesOf(await unpack(joined.weights)), ends }];
}

/** Pixels for the names of the tokens, the same for all maps so that they stand in line. */
function labelRoom(maps) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `12px ${FONT}`;
  const widths = maps.flatMap(({ names }) => names.map((name) => pen.measureText(name).width));
  return 8 + Math.min(LONGEST_LABEL, Math.max(...widths));
}

/** A square of tokens × tokens; tells the value pointed at, by pointer or by arrow keys. */
class TokenMatrix {
  constructor(tell) {
    this.tell = tell;
    this.title = make("figcaption");
    this.canvas = make("canvas", { role: "img" });
    this.over = make("canvas", { class: "over", "aria-hidden": "true" });
    this.pad = make("div", { class: "pad", tabindex: 0, role: "application" }, this.canvas, this.over);
    this.pad.addEventListener("pointermove", (event) => this.follow(event));
    this.pad.addEventListener("pointerdown", (event) => this.follow(event));
    onLeave(this.pad, () => this.point(null));
    this.pad.addEventListener("blur", () => this.point(null));
    this.pad.addEventListener("keydown", (event) => this.step(event));
    this.element = make("figure", { class: "token-matrix" }, this.title, this.pad);
  }

  /** Draw {title, names, weights}: in signed colours when it is a signed matrix, with the quadrants of two
   * texts when there are their ends. */
  draw(map, width, room) {
    this.map = map;
    this.at = null;
    this.edge = room;
    const size = map.names.length;
    this.title.textContent = map.title;
    this.side = Math.floor(Math.max(80, width - room - 2));
    this.cell = this.side / size;
    const pen = surface(this.canvas, width, room + this.side + 2);
    this.paint(pen, size);
    this.nameTokens(pen, room);
    for (const [from, to] of map.ends ?? []) {
      for (const [start, end] of map.ends) {
        paintBand(pen, room + start * this.cell, room + from * this.cell,
          (end - start) * this.cell, (to - from) * this.cell);
      }
    }
    surface(this.over, width, room + this.side + 2);
    this.canvas.setAttribute("aria-label", map.title);
    this.pad.setAttribute("aria-label", `${map.title}. ${say("cell_hint")}`);
  }

  paint(pen, size) {
    if (!this.map.signed) {
      paintMatrix(pen, this.edge, this.edge, this.side, size, this.map.weights, 0);
      return;
    }
    const small = document.createElement("canvas");
    paintSigned(small, this.map.signed, size, size);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, this.edge, this.edge, this.side, this.side);
  }

  nameTokens(pen, room) {
    const every = Math.max(1, Math.ceil(11 / this.cell));
    pen.font = `12px ${FONT}`;
    pen.fillStyle = colour("--ink");
    pen.textBaseline = "middle";
    this.map.names.forEach((name, i) => {
      if (i % every) return;
      const text = fitted(pen, name, room - 6);
      const middle = room + (i + 0.5) * this.cell;
      pen.textAlign = "right";
      pen.fillText(text, room - 5, middle);
      pen.save();
      pen.translate(middle, room - 5);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(text, 0, 0);
      pen.restore();
    });
  }

  follow(event) {
    const box = this.canvas.getBoundingClientRect();
    const [column, row] = [event.clientX - box.left, event.clientY - box.top].map(
      (at) => Math.floor((at - this.edge) / this.cell));
    const isInside = [row, column].every((i) => i >= 0 && i < this.map.names.length);
    this.point(isInside ? { row, column } : null);
  }

  step(event) {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const within = (i) => Math.max(0, Math.min(this.map.names.length - 1, i));
    this.point(this.at ? { row: within(this.at.row + move[0]), column: within(this.at.column + move[1]) }
      : { row: 0, column: 0 });
  }

  point(at) {
    this.at = at;
    const pen = surface(this.over, parseFloat(this.canvas.style.width), parseFloat(this.canvas.style.height));
    if (!at) return;
    const { names, weights, signed } = this.map;
    paintBand(pen, this.edge, this.edge + at.row * this.cell, this.side, this.cell);
    paintBand(pen, this.edge + at.column * this.cell, this.edge, this.cell, this.side);
    const value = weights[at.row * names.length + at.column];
    const words = { query: names[at.row], key: names[at.column] };
    this.tell(signed ? say("compare_cell_difference", { ...words, value: figure(value) })
      : say("cell", { ...words, value: weightText(value) }));
  }
}

// ------------------------------------------------------------------------------ tables

function table(caption, heading, rows, kind) {
  return make("table", { class: kind }, caption ? make("caption", {}, caption) : null,
    make("thead", {}, make("tr", {}, ...heading.map((cell) => make("th", { scope: "col" }, cell)))),
    make("tbody", {}, ...rows.map(({ cells: [first, ...rest], chosen }) => make("tr",
      { "aria-current": chosen ? "true" : null }, make("th", { scope: "row" }, first),
      ...rest.map((cell) => make("td", {}, cell))))));
}

/** What the chosen head does with each text, when the pictures cannot be subtracted. */
function patterns({ sides: [one, other] }) {
  const names = Object.keys({ ...one.patterns, ...other.patterns });
  const share = (value) => (value === undefined ? "–" : percent(value));
  const change = (name) => {
    if (!(name in one.patterns && name in other.patterns)) return "–";
    return points(100 * (other.patterns[name] - one.patterns[name]));
  };
  return [make("p", {}, say("compare_unequal", { a: one.tokens.length, b: other.tokens.length })),
    table(null, [say("compare_pattern"), "A", "B", say("compare_points")], [
      ...names.map((name) => ({ cells: [tagText({ name }), share(one.patterns[name]),
        share(other.patterns[name]), change(name)] })),
      { cells: [say("compare_effective_tokens"), one.effective_tokens.toFixed(1),
        other.effective_tokens.toFixed(1), points(other.effective_tokens - one.effective_tokens)] }],
    "patterns")];
}

/** Who looks where, for the chosen head. */
function sharesTable({ joined, head, layer }) {
  const names = ["A", "B", say("compare_special")];
  return table(selectionText(layer, head), ["", ...names], [
    ...joined.shares[head - 1].map((row, i) => ({
      cells: [say("compare_looks", { part: names[i] }), ...row.map((share) => percent(share))] })),
    { cells: [say("compare_even"), ...joined.even.map((share) => percent(share))] }], "shares");
}

function headsTable({ joined, head, layer }) {
  const part = say("compare_special");
  return make("div", { class: "scroll", tabindex: 0 }, table(say("compare_heads", { layer }),
    [say("head"), "A → A", "A → B", `A → ${part}`, "B → A", "B → B", `B → ${part}`],
    joined.shares.map(([a, b], i) => ({ chosen: i + 1 === head,
      cells: [i + 1, ...[...a, ...b].map((share) => percent(share))] })), "heads"));
}

function withinText({ joined, layer, head }) {
  const [[stays, over], [over2, stays2]] = joined.shares[head - 1];
  const text = say("compare_within", { place: selectionText(layer, head), stays: percent(stays),
    over: percent(over), stays2: percent(stays2), over2: percent(over2) });
  return joined.truncated ? `${text} ${say("compare_cut", { pieces: joined.tokens.length })}` : text;
}

// ------------------------------------------------------------------------------ similarity

/** Cosines after every layer, and exact figures after one of them. */
class Alike {
  constructor(choose) {
    this.title = make("h3");
    this.canvas = make("canvas", { role: "img" });
    this.names = make("div");
    this.label = make("label", { for: "compare-at" });
    this.select = make("select", { id: "compare-at", onchange: () => choose({ at: this.select.value }) });
    this.figures = make("div");
    this.element = make("div", { class: "alike" }, this.title, this.canvas, this.names,
      make("p", {}, this.label, " ", this.select), this.figures);
  }

  /** Draws, and returns the finding in a sentence. */
  draw({ similarity, usual }, width) {
    const last = similarity.cls.length - 1;
    const at = chosenNumber("at", 0, last, last);
    const kinds = [["cls", say("compare_cls"), colour("--accent")], ["mean", say("compare_mean"), colour("--against")]];
    const lines = kinds.flatMap(([kind, name, ink]) => [
      { name, colour: ink, values: similarity[kind], strong: true },
      { name: `${name}, ${say("compare_usual")}`, colour: ink, values: usual[kind], dashed: true }]);
    this.title.textContent = say("compare_similarity");
    paintLines(this.canvas, lines, { width, height: 210, ...cosineAxis(lines) });
    fill(this.names, legend(lines));
    this.names.querySelectorAll("li:not(.strong) .swatch").forEach((swatch) => swatch.classList.add("dashed"));
    this.label.textContent = say("compare_at");
    fill(this.select, ...range(last + 1).map((layer) => make("option", { value: layer },
      say("layer_n", { n: layer }))));
    this.select.value = at;
    fill(this.figures, table(null, [say("compare_vector"), say("compare_these"), say("compare_usual")],
      kinds.map(([kind, name]) => ({ cells: [name, similarity[kind][at].toFixed(4).replace("-", "−"),
        usual[kind][at].toFixed(4).replace("-", "−")] })), "cosines"));
    const finding = say("compare_alike", { layer: at, cls: figure(similarity.cls[at]), usual: figure(usual.cls[at]) });
    this.canvas.setAttribute("aria-label", `${this.title.textContent}. ${finding}`);
    return finding;
  }
}

// ------------------------------------------------------------------------------ the conversation

/** The feelings of every message, one stacked bar each; nobody is asked. */
class Timeline {
  constructor() {
    this.title = make("h3");
    this.more = make("p", { class: "more" });
    this.list = make("ol");
    this.names = make("div");
    this.element = make("section", { class: "timeline" }, this.title, this.more, this.list, this.names);
  }

  draw() {
    const told = state.messages.filter(({ summary }) => summary?.probabilities.length);
    this.element.hidden = told.length === 0;
    if (this.element.hidden) return;
    const { classes } = told[0].summary.model;
    this.title.textContent = say("compare_timeline");
    this.list.setAttribute("aria-label", say("compare_timeline"));
    this.more.textContent = say("compare_timeline_more");
    this.more.hidden = told.length > 1;
    fill(this.list, ...told.map(({ id, text, summary: { probabilities } }, i) => {
      const best = probabilities.indexOf(Math.max(...probabilities));
      const said = `${i + 1}. ${text}: ${className(classes[best])} ${percent(probabilities[best])}`;
      const bar = make("span", { class: "stack", "aria-hidden": "true" }, ...classes.map((item, c) => {
        const part = make("span");
        part.style.height = `${100 * probabilities[c]}%`;
        part.style.background = item.colour;
        return part;
      }));
      return make("li", { title: said, "aria-current": id === state.current ? "true" : null }, bar,
        make("span", { "aria-hidden": "true" }, String(i + 1)), make("span", { class: "unseen" }, said));
    }));
    fill(this.names, legend(classes.map((item) => ({ name: className(item), colour: item.colour }))));
  }
}
