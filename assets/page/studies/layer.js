// Inside a layer: the eight steps of one layer as a diagram; the chosen one is opened beside it.

import { percent, say } from "../common/boot.js";
import { FONT, colour, fill, fitted, make, surface } from "../common/dom.js";
import { paintBand, paintMatrix } from "../common/paint.js";
import { figure, fillTokenRow, firstNumbers, paintHistogram, paintSigned, vectorStrip } from "../common/charts.js";
import { unpack, valuesOf } from "../common/matrix.js";
import { chosenNumber } from "../common/options.js";

const PADDING = 24; // CSS pixels left and right in the opened box
const LABELS = 74;  // and for the tokens beside a picture

export function build(place, choose) {
  const order = make("p", { class: "finding" });
  const tokens = make("div", { role: "group" });
  const diagram = make("div", { class: "diagram", role: "group" });
  const opened = make("section", { class: "opened" });
  const columns = make("div", { class: "columns" }, diagram, opened);
  place.append(order, tokens, columns);
  let turn = 0;

  return function draw(data) {
    const step = chosenNumber("step", 1, data.steps.length, 1);
    order.textContent = data.norm === "pre" ? say("layer_pre") : say("layer_post");
    tokens.setAttribute("aria-label", say("layer_tokens"));
    fillTokenRow(tokens, data.pieces, data.token, (token) => choose({ token }));
    diagram.setAttribute("aria-label", say("layer_diagram", { n: data.layer }));
    fillDiagram(diagram, data, step, (number) => choose({ step: number }));
    const mine = ++turn;
    open(opened, data, step, opened.clientWidth - PADDING, () => mine === turn);
  };
}

function stepName(kind) {
  return { norm: say("layer_norm"), attention: say("layer_attention"), dropout: say("layer_dropout"),
    residual: say("layer_residual"), feed: say("layer_feed") }[kind];
}

function stepText(kind, dropout) {
  return { norm: say("layer_norm_what"), attention: say("layer_attention_what"),
    dropout: say("layer_dropout_what", { percent: percent(dropout, 0) }),
    residual: say("layer_residual_what"), feed: say("layer_feed_what") }[kind];
}

// ------------------------------------------------------------------------------ the diagram

/** Boxes from top to bottom, row 1 being the input; the residual lines run beside them. */
function fillDiagram(diagram, { layer, layers, entering, steps }, chosen, onopen) {
  const focused = diagram.contains(document.activeElement) ? document.activeElement.dataset.step : null;
  const from = layer === 1 ? say("layer_from_embeddings") : say("layer_from_layer", { n: layer - 1 });
  const boxes = [
    box("div", { class: "box", "data-step": 0 }, say("layer_entering"), from, entering),
    ...steps.map((step, i) => box("button", { type: "button", class: `box ${step.kind}`,
      "data-step": i + 1, "aria-pressed": String(i + 1 === chosen), onclick: () => onopen(i + 1) },
    `${i + 1} ${stepName(step.kind)}`, step.kind === "dropout" ? say("layer_off") : "", step))];
  boxes.forEach((element, i) => { element.style.gridRow = i + 1; });
  const leaving = make("p", { class: "leaving" },
    layer === layers ? say("layer_to_end") : say("layer_to_layer", { n: layer + 1 }));
  leaving.style.gridRow = boxes.length + 1;
  fill(diagram, ...bypasses(steps), ...boxes, leaving);
  if (focused) diagram.querySelector(`[data-step="${focused}"]`).focus();
}

function box(tag, attributes, name, aside, { shape, mean, std }) {
  return make(tag, attributes,
    make("span", { class: "name" }, name),
    make("span", { class: "stats" }, say("layer_mean_std", { mean: figure(mean),
      std: figure(std) })),
    make("code", { class: "shape" }, shape.replaceAll(", ", ",\u00a0")),
    aside ? make("span", { class: "aside" }, aside) : "");
}

/** The side lines: from the input to the first sum, from the middle of the layer to the second. */
function bypasses(steps) {
  const ends = steps.flatMap(({ kind }, i) => (kind === "residual" ? [i + 1] : []));
  return [0, steps.length / 2].map((start, i) => {
    const line = make("span", { class: "bypass", "aria-hidden": "true", "data-from": start,
      "data-to": ends[i] });
    line.style.gridRow = `${start + 1} / ${ends[i] + 2}`;
    return line;
  });
}

// ------------------------------------------------------------------------------ the opened box

function open(place, data, number, width, isCurrent) {
  const step = data.steps[number - 1];
  const shown = step.kind === "dropout" ? data.steps[number - 2] : step;
  const piece = data.pieces[data.token];
  const histogram = make("canvas", { role: "img", "aria-label": say("layer_histogram") });
  paintHistogram(histogram, step, width, 84);
  const pictures = [tensor(data, shown.picture, width, isCurrent, say("layer_picture", {
    columns: shown.picture.shape[1], limit: figure(shown.picture.limit) }))];
  if (step.kind === "attention") {
    pictures.push(headWeights(data, width, isCurrent), tensor(data, data.context, width, isCurrent,
      say("layer_context", { n: data.head, columns: data.context.shape[1],
        limit: figure(data.context.limit) })));
  }
  fill(place,
    make("h3", {}, `${number} ${stepName(step.kind)}`),
    make("p", {}, stepText(step.kind, data.dropout)),
    make("p", { class: "stats" }, say("layer_figures", { mean: figure(step.mean),
      std: figure(step.std), low: figure(step.low), high: figure(step.high) })),
    histogram,
    make("div", { class: "own" }, make("b", {}, say("layer_row", { piece })),
      make("span", { class: "numbers" }, firstNumbers(shown.row)),
      vectorStrip(shown.row, shown.picture.limit)),
    ...pictures);
}

/** A (T, n) picture with its tokens; the chosen token's row is marked. */
function tensor(data, packed, width, isCurrent, caption) {
  return pictureFrame(data, width, caption, async (canvas, high) => {
    const [rows, columns] = packed.shape;
    const wide = Math.max(width - LABELS, columns);
    canvas.style.height = `${high * rows}px`; // keeps its place until it is painted
    const matrix = await unpack(packed);
    if (!isCurrent()) return;
    paintSigned(canvas, matrix, wide, high * rows);
    paintBand(canvas.getContext("2d"), 1, high * data.token, wide - 2, high);
  });
}

/** The chosen head's attention on the page's fixed scale of 0 to 1. */
function headWeights(data, width, isCurrent) {
  const caption = say("layer_weights", { n: data.head });
  return pictureFrame(data, width, caption, async (canvas, high) => {
    const side = high * data.pieces.length;
    canvas.style.height = `${side}px`;
    const matrix = await unpack(data.weights);
    if (!isCurrent()) return;
    const pen = surface(canvas, side, side);
    paintMatrix(pen, 0, 0, side, matrix.rows, valuesOf(matrix), 0);
    paintBand(pen, 1, high * data.token, side - 2, high);
  });
}

/** Caption, tokens and a canvas that scrolls by itself when it is wide. */
function pictureFrame({ pieces, token }, width, caption, paint) {
  const high = Math.max(2, Math.min(15, Math.floor(260 / pieces.length)));
  const labels = make("canvas", { class: "labels", "aria-hidden": "true" });
  const pen = surface(labels, LABELS - 6, Math.max(high * pieces.length, 12));
  pen.font = `${Math.min(12, Math.max(10, high - 2))}px ${FONT}`;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pieces.forEach((piece, i) => {
    if (high < 9 && i !== token) return;
    pen.fillStyle = colour(i === token ? "--accent" : "--muted");
    const y = Math.max(6, Math.min(high * pieces.length - 6, high * (i + 0.5)));
    pen.fillText(fitted(pen, piece, LABELS - 10), LABELS - 8, y);
  });
  const canvas = make("canvas", { role: "img", "aria-label": caption });
  paint(canvas, high);
  return make("figure", {}, make("figcaption", {}, caption),
    make("div", { class: "tensor" }, labels, make("div", { class: "scroll", tabindex: 0 }, canvas)));
}
