// Lines between tokens, as in BertViz's head view, laid out left to right: above looks, below is
// looked at.

import { say } from "../common/boot.js";
import { FONT, colour, fitted, make, onLeave, surface } from "../common/dom.js";
import { brightest, cssColour } from "../common/paint.js";
import { state, update } from "../common/store.js";
import { selectionText } from "../common/words.js";

const SETTINGS = [[14, 14], [13, 9], [12, 6], [11, 4]]; // font size and gap, the first that fits
const LONGEST_LABEL = 120;
const FAINTEST = 0.02;

/** The view "lines". */
export const linesView = {
  name: "lines",
  build(frame) {
    this.canvas = make("canvas", { role: "img", class: "lines" });
    this.pad = make("div", { class: "pad scroll", tabindex: 0, role: "application" }, this.canvas);
    frame.append(this.pad);
    this.pad.addEventListener("pointermove", (event) => this.pointAt(event));
    this.pad.addEventListener("pointerdown", (event) => this.pointAt(event));
    onLeave(this.pad, () => update({ point: null }));
    this.pad.addEventListener("blur", () => update({ point: null }));
    this.pad.addEventListener("keydown", (event) => this.step(event));
  },

  draw(answer, { width, height }) {
    const shown = answer.shown(state.layer, state.head, state.words, state.hideSpecial);
    this.shown = shown;
    const pen = this.canvas.getContext("2d");
    let widths;
    let needed;
    for ([this.fontSize, this.gap] of SETTINGS) {
      pen.font = `${this.fontSize}px ${FONT}`;
      widths = shown.tokens.map(({ name }) => Math.min(LONGEST_LABEL, pen.measureText(name).width));
      needed = widths.reduce((sum, w) => sum + w + this.gap, this.gap);
      if (needed <= width - 4) break;
    }
    this.width = Math.max(needed, width - 4);
    this.height = Math.max(220, Math.min(height - 18, 460));
    const spare = (this.width - needed) / (shown.size + 1);
    let x = this.gap;
    this.places = widths.map((w) => {
      x += spare;
      const place = { left: x, width: w, middle: x + w / 2 };
      x += w + this.gap;
      return place;
    });
    const title = `${say("attention")}: ${selectionText(state.layer, state.head)}`;
    this.canvas.setAttribute("aria-label", title);
    this.pad.setAttribute("aria-label", `${title}. ${say("cell_hint")}`);
    this.top = brightest([shown.weights]);
    this.paint();
    return this.top;
  },

  paint() {
    const pen = surface(this.canvas, this.width, this.height);
    const { tokens, size, weights } = this.shown;
    const [high, low] = [44, this.height - 44];
    const { point } = state;
    pen.lineCap = "round";
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        const weight = weights[row * size + column];
        if (weight < FAINTEST) continue;
        const isChosen = !point || (point.row === row && (point.column === null
          || point.column === column));
        if (!isChosen) continue;
        const share = weight / this.top;
        pen.globalAlpha = weight < state.fade ? 0.06 : Math.min(1, 0.1 + share);
        pen.lineWidth = 0.5 + 5 * share;
        pen.strokeStyle = point ? cssColour(share) : colour("--accent");
        pen.beginPath();
        pen.moveTo(this.places[row].middle, high + 12);
        pen.bezierCurveTo(this.places[row].middle, (high + low) / 2, this.places[column].middle,
          (high + low) / 2, this.places[column].middle, low - 12);
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    this.label(pen, tokens, high, low);
  },

  label(pen, tokens, high, low) {
    const { point } = state;
    pen.font = `${this.fontSize}px ${FONT}`;
    pen.textBaseline = "middle";
    tokens.forEach(({ name, special }, i) => {
      const { left, width, middle } = this.places[i];
      for (const [y, isChosen] of [[high, point?.row === i], [low, point && (point.column === i)]]) {
        if (isChosen) {
          pen.fillStyle = colour("--accent");
          pen.beginPath();
          pen.roundRect(left - 5, y - 12, width + 10, 24, 6);
          pen.fill();
        }
        pen.fillStyle = isChosen ? colour("--panel") : colour(special ? "--muted" : "--ink");
        pen.textAlign = "center";
        pen.fillText(fitted(pen, name, width + 1), middle, y);
      }
    });
    pen.fillStyle = colour("--muted");
    pen.font = `12px ${FONT}`;
    pen.textAlign = "left";
    pen.fillText(say("query"), 8, 14);
    pen.fillText(say("key"), 8, this.height - 12);
  },

  point() {
    this.paint();
  },

  pointAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const at = this.places.findIndex(({ left, width }) => x >= left - this.gap / 2
      && x <= left + width + this.gap / 2);
    if (at < 0) return update({ point: null });
    if (y < this.height / 2) return update({ point: { row: at, column: null } });
    return state.point && update({ point: { row: state.point.row, column: at } });
  },

  step(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const row = state.point ? state.point.row + move : 0;
    update({ point: { row: Math.max(0, Math.min(this.shown.size - 1, row)), column: null } });
    this.pad.scrollTo({ left: this.places[state.point.row].left - 80 });
  },
};
