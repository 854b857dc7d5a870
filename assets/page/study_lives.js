// Three lives: one head and the answers of the untrained, pre-trained and fine-tuned network.

import { inflate } from "./answer.js";
import { className, say } from "./boot.js";
import { barList, shareText } from "./charts.js";
import { fill, make } from "./dom.js";
import { Heatmap } from "./heatmap.js";
import { listen, state } from "./store.js";
import { tagText, weightText } from "./words.js";

const GAP = 16;
const SLANT = 20; // pixels that slanted labels reach beyond the last column

const nameOf = (stage) => ({ untrained: say("lives_untrained"), pretrained: say("lives_pretrained"),
  finetuned: say("lives_finetuned") })[stage];
const bandOf = (stage) => ({ untrained: say("lives_untrained_band"),
  pretrained: say("lives_pretrained_band"), finetuned: say("lives_finetuned_band") })[stage];

/** Weights of 0–1 from a matrix of bert.views.pack. */
async function weightsOf({ matrix }) {
  return Float32Array.from(await inflate(matrix), (byte) => byte / 255);
}

function column(name) {
  const parts = { name, title: make("h3"), band: make("p", { class: "band" }), heatmap: new Heatmap(),
    missing: make("p", { class: "none" }), tag: make("p", { class: "tag" }),
    feelings: make("div", { class: "feelings-of" }), guesses: make("div", { class: "guesses" }) };
  parts.element = make("section", { class: "life", "data-life": name }, parts.title, parts.band,
    make("div", { class: "map" }, parts.heatmap.element, parts.missing), parts.tag, parts.feelings,
    parts.guesses);
  return parts;
}

function feelings({ shares }, classes) {
  if (!shares) return [make("h3", {}, say("lives_feelings")), make("p", { class: "none" }, say("lives_no_feelings"))];
  const best = shares.indexOf(Math.max(...shares));
  return [make("h3", {}, say("lives_feelings")), barList(classes.map((item, i) => ({
    name: className(item), share: shares[i], colour: item.colour, strong: i === best })))];
}

function guesses({ name, guesses: places }, word) {
  if (!places) {
    return [make("p", { class: "none" }, say(name === "finetuned" ? "lives_no_guesses" : "lives_no_mlm"))];
  }
  return [make("h3", {}, say("lives_guesses", { word })), ...places.map(({ piece, best }) => make("p", {},
    make("small", {}, say("lives_guess", { piece })), ...best.map((guess) => make("span", { class: "guess" },
      make("b", {}, guess.piece), ` ${shareText(guess.share)}`))))];
}

export function build(place) {
  const finding = make("p", { class: "finding" });
  const readout = make("p", { class: "point", role: "status" });
  const columns = ["untrained", "pretrained", "finetuned"].map(column);
  const row = make("div", { class: "lives" }, ...columns.map(({ element }) => element));
  place.append(finding, readout, row);
  let turn = 0;
  let here = []; // the columns that show a matrix

  function drawPoint() {
    if (state.view !== "lives") return;
    here.forEach(({ heatmap }) => heatmap.drawPoint());
    const { point } = state;
    const shown = here.map(({ heatmap }) => heatmap.shown);
    const across = point?.column ?? point?.row;
    if (!point || shown.some(({ size }) => point.row >= size || across >= size)) {
      readout.textContent = say("lives_hint");
      return;
    }
    const { tokens } = shown.at(-1);
    readout.textContent = say("lives_point", { query: tokens[point.row].name, key: tokens[across].name,
      list: here.map(({ name }, i) => say("lives_readout", { stage: nameOf(name),
        value: weightText(shown[i].weights[point.row * shown[i].size + across]) })).join(" · ") });
  }
  listen(["point", "language"], drawPoint);

  return async function draw({ layer, head, word, classes, stages }, answer, { width }) {
    const mine = ++turn;
    const matrices = await Promise.all(stages.map((stage) => (stage.matrix ? weightsOf(stage) : null)));
    if (mine !== turn) return;
    const isNarrow = width < 560;
    const room = isNarrow ? width : (width - 2 * GAP) / 3;
    const whole = stages.filter(({ missing }) => !missing);
    finding.textContent = say("lives_finding", { size: whole.at(-1).pieces.length,
      list: whole.map(({ spread }) => spread.toFixed(1)).join(" → ") });
    here = columns.filter((_, i) => !stages[i].missing);
    columns.forEach((parts, i) => {
      const stage = stages[i];
      parts.title.textContent = nameOf(stage.name);
      parts.band.textContent = bandOf(stage.name);
      parts.heatmap.element.hidden = Boolean(stage.missing);
      parts.missing.hidden = !stage.missing;
      for (const part of [parts.tag, parts.feelings, parts.guesses]) part.hidden = Boolean(stage.missing);
      if (stage.missing) {
        parts.missing.textContent = say(stage.missing === "folder" ? "lives_no_folder" : "lives_no_head");
        return;
      }
      const tokens = stage.pieces.map((name, at) => ({ name, special: stage.special[at] }));
      parts.heatmap.draw({ tokens, size: tokens.length, weights: matrices[i] }, layer, head, room,
        room - SLANT);
      const { canvas, pad } = parts.heatmap;
      for (const part of [canvas, pad]) {
        part.setAttribute("aria-label", `${nameOf(stage.name)}. ${part.getAttribute("aria-label")}`);
      }
      fill(parts.tag, make("b", {}, tagText(stage.tag)), " · ", say("lives_spread",
        { tokens: stage.spread.toFixed(1), size: tokens.length }));
      fill(parts.feelings, ...feelings(stage, classes));
      fill(parts.guesses, ...guesses(stage, word));
    });
    drawPoint();
    row.dataset.drawn = `${layer}/${head}`;
  };
}
