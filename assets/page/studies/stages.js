// Training stages: one head and the answers of the untrained, pre-trained and fine-tuned network.

import { className, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { Heatmap } from "../views/heatmap.js";
import { barList, shareText } from "../common/charts.js";
import { unpack, valuesOf } from "../common/matrix.js";
import { listen, state } from "../common/store.js";
import { tagText, weightText } from "../common/words.js";

const GAP = 16;
const SLANT = 20; // pixels that slanted labels reach beyond the last column

const nameOf = (stage) => ({ untrained: say("stages_untrained"), pretrained: say("stages_pretrained"),
  finetuned: say("stages_finetuned") })[stage];
const whatOf = (stage) => ({ untrained: say("stages_untrained_what"),
  pretrained: say("stages_pretrained_what"), finetuned: say("stages_finetuned_what") })[stage];

function column(name) {
  const parts = { name, title: make("h3"), what: make("p", { class: "what" }), heatmap: new Heatmap(),
    missing: make("p", { class: "none" }), tag: make("p", { class: "tag" }),
    feelings: make("div", { class: "feelings-of" }), guesses: make("div", { class: "guesses" }) };
  parts.element = make("section", { class: "stage-column", "data-stage": name }, parts.title, parts.what,
    make("div", { class: "map" }, parts.heatmap.element, parts.missing), parts.tag, parts.feelings,
    parts.guesses);
  return parts;
}

function feelings({ probabilities }, classes) {
  if (!probabilities) return [make("h3", {}, say("stages_feelings")), make("p", { class: "none" }, say("stages_no_feelings"))];
  const best = probabilities.indexOf(Math.max(...probabilities));
  return [make("h3", {}, say("stages_feelings")), barList(classes.map((item, i) => ({
    name: className(item), share: probabilities[i], colour: item.colour, strong: i === best })))];
}

function guesses({ name, guesses: places }, word) {
  if (!places) {
    return [make("p", { class: "none" }, say(name === "finetuned" ? "stages_no_guesses" : "stages_no_mlm"))];
  }
  return [make("h3", {}, say("stages_guesses", { word })), ...places.map(({ piece, best }) => make("p", {},
    make("small", {}, say("stages_guess", { piece })), ...best.map(([guess, share]) => make("span", { class: "guess" },
      make("b", {}, guess), ` ${shareText(share)}`))))];
}

export function build(place) {
  const finding = make("p", { class: "finding" });
  const readout = make("p", { class: "point", role: "status" });
  const columns = ["untrained", "pretrained", "finetuned"].map(column);
  const row = make("div", { class: "stages" }, ...columns.map(({ element }) => element));
  place.append(finding, readout, row);
  let turn = 0;
  let here = []; // the columns that show a matrix

  function drawPoint() {
    if (state.view !== "stages") return;
    here.forEach(({ heatmap }) => heatmap.drawPoint());
    const { point } = state;
    const shown = here.map(({ heatmap }) => heatmap.shown);
    const across = point?.column ?? point?.row;
    if (!point || shown.some(({ size }) => point.row >= size || across >= size)) {
      readout.textContent = say("stages_hint");
      return;
    }
    const { tokens } = shown.at(-1);
    readout.textContent = say("stages_point", { query: tokens[point.row].name, key: tokens[across].name,
      list: here.map(({ name }, i) => say("stages_readout", { stage: nameOf(name),
        value: weightText(shown[i].weights[point.row * shown[i].size + across]) })).join(" · ") });
  }
  listen(["point", "language"], drawPoint);

  return async function draw({ layer, head, word, classes, stages }, answer, { width }) {
    const mine = ++turn;
    const matrices = await Promise.all(stages.map(async ({ weights }) => (
      weights ? valuesOf(await unpack(weights)) : null)));
    if (mine !== turn) return;
    const isNarrow = width < 560;
    const room = isNarrow ? width : (width - 2 * GAP) / 3;
    const whole = stages.filter(({ missing }) => !missing);
    finding.textContent = say("stages_finding", { size: whole.at(-1).pieces.length,
      list: whole.map((stage) => stage.effective_tokens.toFixed(1)).join(" → ") });
    here = columns.filter((_, i) => !stages[i].missing);
    columns.forEach((parts, i) => {
      const stage = stages[i];
      parts.title.textContent = nameOf(stage.name);
      parts.what.textContent = whatOf(stage.name);
      parts.heatmap.element.hidden = Boolean(stage.missing);
      parts.missing.hidden = !stage.missing;
      for (const part of [parts.tag, parts.feelings, parts.guesses]) part.hidden = Boolean(stage.missing);
      if (stage.missing) {
        parts.missing.textContent = say(stage.missing === "folder" ? "stages_no_folder" : "stages_no_head");
        return;
      }
      const tokens = stage.pieces.map((name, at) => ({ name, special: stage.special[at] }));
      parts.heatmap.draw({ tokens, size: tokens.length, weights: matrices[i] }, layer, head, room,
        room - SLANT);
      const { canvas, pad } = parts.heatmap;
      for (const part of [canvas, pad]) {
        part.setAttribute("aria-label", `${nameOf(stage.name)}. ${part.getAttribute("aria-label")}`);
      }
      fill(parts.tag, make("b", {}, tagText(stage.tag)), " · ", say("stages_effective_tokens",
        { tokens: stage.effective_tokens.toFixed(1), size: tokens.length }));
      fill(parts.feelings, ...feelings(stage, classes));
      fill(parts.guesses, ...guesses(stage, word));
    });
    drawPoint();
    row.dataset.drawn = `${layer}/${head}`;
  };
}
