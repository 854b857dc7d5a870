// The attention heatmap: rows look, columns are looked at.

import { say } from "../common/boot.js";
import { FONT, colour, fitted, make, onLeave, surface } from "../common/dom.js";
import { brightest, paintBand, paintMatrix } from "../common/paint.js";
import { state, update } from "../common/store.js";
import { selectionText, weightText } from "../common/words.js";

const LONGEST_LABEL = 96;
const MARGIN = 6;

/** One heatmap inside `frame`; used by the heatmap view and, twice, by first beside last. */
export class Heatmap {
  constructor(caption = null) {
    this.canvas = make("canvas", { role: "img", class: "matrix" });
    this.over = make("canvas", { class: "over", "aria-hidden": "true" });
    this.pad = make("div", { class: "pad", tabindex: 0, role: "application" }, this.canvas, this.over);
    this.element = make("figure", { class: "heatmap" }, caption, this.pad);
    this.pad.addEventListener("pointermove", (event) => this.pointAt(event));
    this.pad.addEventListener("pointerdown", (event) => this.pointAt(event));
    onLeave(this.pad, () => update({ point: null }));
    this.pad.addEventListener("keydown", (event) => this.step(event));
    // A heatmap beside this one that is touched next has put its own point already.
    this.pad.addEventListener("blur", ({ relatedTarget }) => relatedTarget?.matches(".pad")
      || update({ point: null }));
  }

  /** Draw a matrix as large as width and height allow; the weight `top` is brightest. */
  draw(shown, layer, head, width, height, top = 1) {
    this.shown = shown;
    const { tokens, size, weights } = shown;
    const fontSize = 12;
    const measure = this.canvas.getContext("2d");
    measure.font = `${fontSize}px ${FONT}`;
    const widest = Math.min(LONGEST_LABEL, Math.max(...tokens.map(
      ({ name }) => measure.measureText(name).width)));
    this.titleRoom = 18;
    this.left = this.titleRoom + widest + 2 * MARGIN;
    const guess = (Math.min(width, height) - this.left) / size;
    this.slanted = guess >= 18; // closer together, slanted labels would touch
    const rise = this.slanted ? 0.72 * widest + 10 : widest;
    this.top = this.titleRoom + rise + MARGIN;
    this.right = this.slanted ? overhang(measure, tokens, guess, widest) : 2;
    this.side = Math.max(60, Math.floor(Math.min(width - this.left - this.right,
      height - this.top - 2)));
    this.cell = this.side / size;
    this.width = this.left + this.side + this.right;
    this.height = this.top + this.side + 2;
    const pen = surface(this.canvas, this.width, this.height);
    pen.font = `${fontSize}px ${FONT}`;
    paintMatrix(pen, this.left, this.top, this.side, size, weights, state.fade, top);
    this.label(pen, tokens, widest, fontSize);
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 1;
    pen.strokeRect(this.left - 0.5, this.top - 0.5, this.side + 1, this.side + 1);
    const title = `${say("attention")}: ${selectionText(layer, head)}`;
    this.canvas.setAttribute("aria-label", title);
    this.pad.setAttribute("aria-label", `${title}. ${say("cell_hint")}`);
    this.drawPoint();
  }

  label(pen, tokens, widest, fontSize) {
    const every = Math.max(1, Math.ceil((fontSize + 1) / this.cell));
    pen.textBaseline = "middle";
    tokens.forEach(({ name, special }, i) => {
      if (i % every) return;
      const middle = (i + 0.5) * this.cell;
      pen.fillStyle = colour(special ? "--muted" : "--ink");
      pen.textAlign = "right";
      const text = fitted(pen, name, widest + 1);
      pen.fillText(text, this.left - MARGIN, this.top + middle);
      pen.save();
      pen.translate(this.left + middle, this.top - MARGIN);
      pen.rotate(this.slanted ? -Math.PI / 4 : -Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(text, 0, 0);
      pen.restore();
    });
    pen.fillStyle = colour("--muted");
    pen.textAlign = "center";
    pen.fillText(say("key"), this.left + this.side / 2, this.titleRoom / 2);
    pen.save();
    pen.translate(this.titleRoom / 2, this.top + this.side / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(say("query"), 0, 0);
    pen.restore();
  }

  /** The bands around the row and the column that are pointed at. */
  drawPoint() {
    const pen = surface(this.over, this.width, this.height);
    const { point } = state;
    if (!point || !this.shown || point.row >= this.shown.size) return;
    const column = point.column ?? point.row;
    paintBand(pen, this.left, this.top + point.row * this.cell, this.side, this.cell);
    paintBand(pen, this.left + column * this.cell, this.top, this.cell, this.side);
    if (this.cell < 13) this.nameTokens(pen, point.row, column);
  }

  /** Labels that were left out for want of room are shown for the cell pointed at. */
  nameTokens(pen, row, column) {
    const { tokens } = this.shown;
    pen.font = `12px ${FONT}`;
    pen.textBaseline = "middle";
    const plate = (text, x, y, align) => {
      const width = pen.measureText(text).width + 8;
      pen.fillStyle = colour("--ink");
      pen.fillRect(align === "right" ? x - width : x - width / 2, y - 9, width, 18);
      pen.fillStyle = colour("--panel");
      pen.textAlign = align;
      pen.fillText(text, align === "right" ? x - 4 : x, y);
    };
    plate(fitted(pen, tokens[row].name, LONGEST_LABEL), this.left - 2,
      this.top + (row + 0.5) * this.cell, "right");
    plate(fitted(pen, tokens[column].name, LONGEST_LABEL), this.left + (column + 0.5) * this.cell,
      this.top - 11, "center");
  }

  pointAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - this.left) / this.cell);
    const row = Math.floor((event.clientY - box.top - this.top) / this.cell);
    const inside = (i) => i >= 0 && i < this.shown.size;
    if (inside(row) && inside(column)) this.choose(row, column);
    else if (inside(row) || inside(column)) this.choose(inside(row) ? row : column, null);
    else update({ point: null });
  }

  choose(row, column) {
    if (state.point?.row === row && state.point?.column === column) return;
    update({ point: { row, column } });
  }

  step(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const last = this.shown.size - 1;
    const at = (now, by) => Math.max(0, Math.min(last, now + by));
    const { point } = state;
    if (!point) this.choose(0, 0);
    else this.choose(at(point.row, move[0]), at(point.column ?? point.row, move[1]));
  }
}

/** How far slanted column labels reach beyond the last column. */
function overhang(pen, tokens, cell, widest) {
  const reach = tokens.map(({ name }, i) => 0.72 * Math.min(widest, pen.measureText(name).width) + 6
    - (tokens.length - i - 0.5) * cell);
  return Math.max(2, ...reach);
}

/** The sentence about what is pointed at. */
export function pointText(shown) {
  const { point } = state;
  if (!point || point.row >= shown.size || point.column >= shown.size) return "";
  const { tokens, size, weights } = shown;
  if (point.column !== null) {
    return say("cell", { query: tokens[point.row].name, key: tokens[point.column].name,
      value: weightText(weights[point.row * size + point.column]) });
  }
  const row = [...weights.subarray(point.row * size, (point.row + 1) * size)];
  const list = row.map((weight, i) => ({ weight, name: tokens[i].name }))
    .sort((a, b) => b.weight - a.weight).slice(0, 3)
    .map(({ weight, name }) => `${name} ${weightText(weight)}`).join(", ");
  return say("token_looks", { token: tokens[point.row].name, list });
}

/** The view "heatmap". */
export const heatmapView = {
  name: "heatmap",
  build(frame) {
    this.heatmap = new Heatmap();
    frame.append(this.heatmap.element);
  },
  draw(answer, { width, height }) {
    const shown = answer.shown(state.layer, state.head, state.words, state.hideSpecial);
    const top = brightest([shown.weights]);
    this.heatmap.draw(shown, state.layer, state.head, width, height, top);
    return top;
  },
  point() {
    this.heatmap.drawPoint();
  },
};
