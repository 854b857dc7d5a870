// Many heads at once: all heads of a layer, or all heads of all layers; a click selects one.

import { range } from "../common/answer.js";
import { say } from "../common/boot.js";
import { fill, make, surface } from "../common/dom.js";
import { brightest, paintBand, pixels } from "../common/paint.js";
import { state, update } from "../common/store.js";
import { tagText } from "../common/words.js";

/** A grid of small heatmaps with a roving focus: arrow keys move, Enter selects. */
class HeadGrid {
  constructor(className) {
    this.element = make("div", { class: className, role: "group" });
    this.element.addEventListener("keydown", (event) => this.step(event));
    this.cells = [];
  }

  /** `heads` is a list of [layer, head]; `columns` per row; `side` of one picture in pixels. Returns
   * the weight that is brightest in all of them. */
  draw(answer, heads, columns, side, withCaption) {
    this.columns = columns;
    this.element.style.setProperty("--columns", columns);
    if (this.cells.length !== heads.length || this.withCaption !== withCaption) {
      this.withCaption = withCaption;
      this.cells = heads.map(() => this.makeCell());
      fill(this.element, ...this.cells.map(({ button }) => button));
    }
    const shown = heads.map(([layer, head]) => answer.shown(layer, head, state.words,
      state.hideSpecial));
    const top = brightest(shown.map(({ weights }) => weights));
    heads.forEach(([layer, head], i) => this.drawCell(this.cells[i], answer, layer, head, side,
      shown[i], top));
    if (!this.cells.some(({ button }) => button.tabIndex === 0)) this.cells[0].button.tabIndex = 0;
    return top;
  }

  makeCell() {
    const canvas = make("canvas", { "aria-hidden": "true" });
    const caption = this.withCaption ? make("span", { class: "caption" }, make("b"), make("small"))
      : null;
    const cell = { canvas, caption };
    cell.button = make("button", { type: "button", class: "head",
      onclick: () => this.choose(cell) },
    canvas, caption);
    return cell;
  }

  choose({ layer, head }) {
    update({ layer, head, view: "heatmap", isChosen: true });
    this.element.closest(".stage").querySelector('[data-view="heatmap"]').focus();
  }

  drawCell(cell, answer, layer, head, side, shown, top) {
    Object.assign(cell, { layer, head, side, size: shown.size,
      image: pixels(shown.size, shown.weights, state.fade, top) });
    paintCell(cell);
    const tag = answer.tag(layer, head);
    const isChosen = state.layer === layer && state.head === head;
    cell.button.classList.toggle("chosen", isChosen);
    cell.button.tabIndex = isChosen ? 0 : -1;
    cell.button.dataset.layer = layer;
    cell.button.dataset.head = head;
    cell.button.title = `${say("layer_n", { n: layer })} · ${say("head_n", { n: head })}: `
      + tagText(tag, true);
    cell.button.setAttribute("aria-label", say("head_button", { layer, head,
      tag: tagText(tag, true) }));
    cell.button.setAttribute("aria-pressed", String(isChosen));
    if (cell.caption) {
      cell.caption.firstChild.textContent = say("head_n", { n: head });
      cell.caption.lastChild.textContent = tagText(tag, true);
    }
  }

  /** Only the token pointed at has changed. */
  drawPoint() {
    this.cells.forEach(paintCell);
  }

  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
    const at = this.cells.findIndex(({ button }) => button === document.activeElement);
    const next = this.cells[at + by];
    if (!by || at < 0 || !next) return;
    event.preventDefault();
    this.cells[at].button.tabIndex = -1;
    next.button.tabIndex = 0;
    next.button.focus();
  }
}

function paintCell({ canvas, image, side, size }) {
  const pen = surface(canvas, side, side);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(image, 0, 0, side, side);
  const { point } = state;
  if (!point || point.row >= size) return;
  const cell = side / size;
  const column = point.column ?? point.row;
  paintBand(pen, 0, point.row * cell, side, cell);
  paintBand(pen, column * cell, 0, cell, side);
}

/** The layer whose heads are shown: the selected one, or the last for means. */
export function gridLayer(answer) {
  return typeof state.layer === "number" ? state.layer : answer.layers;
}

/** The view "heads": every head of the selected layer. */
export const headsView = {
  name: "heads",
  build(frame) {
    this.grid = new HeadGrid("head-grid");
    frame.append(this.grid.element);
  },
  draw(answer, { width, height }) {
    const layer = gridLayer(answer);
    const columns = bestColumns(answer.heads, width, height, 44);
    const rows = Math.ceil(answer.heads / columns);
    const wide = (width - 10 * (columns - 1)) / columns - 12;
    const high = (height - 10 * (rows - 1)) / rows - 56;
    const side = Math.floor(width < 480 ? wide : Math.min(wide, high));
    return this.grid.draw(answer, range(answer.heads).map((h) => [layer, h + 1]), columns,
      Math.max(64, Math.min(side, 260)), true);
  },
  point() {
    this.grid.drawPoint();
  },
};

function bestColumns(count, width, height, caption) {
  if (width < 480) return Math.min(count, 3);
  const side = (columns) => Math.min(width / columns,
    height / Math.ceil(count / columns) - caption);
  return range(Math.min(count, 12)).map((i) => i + 1)
    .reduce((best, columns) => (side(columns) > side(best) ? columns : best), 1);
}

/** The view "layers": every head of every layer, one row for each layer. */
export const layersView = {
  name: "layers",
  build(frame) {
    this.heads = make("div", { class: "axis of-heads", "aria-hidden": "true" });
    this.layers = make("div", { class: "axis of-layers", "aria-hidden": "true" });
    this.grid = new HeadGrid("layer-grid");
    this.corner = make("span", { class: "corner" });
    frame.append(make("div", { class: "overview" }, this.corner, this.heads, this.layers,
      this.grid.element));
  },
  draw(answer, { width, height }) {
    const side = Math.floor(Math.min((width - 76) / answer.heads, (height - 40) / answer.layers)) - 4;
    const cell = Math.max(16, Math.min(side, 96));
    fill(this.heads, ...range(answer.heads).map((h) => make("span", {}, String(h + 1))));
    fill(this.layers, ...range(answer.layers).map((l) => make("span", {}, String(l + 1))));
    this.corner.textContent = `${say("layer")} ↓ ${say("head")} →`;
    this.grid.element.parentElement.style.setProperty("--cell", `${cell + 4}px`);
    return this.grid.draw(answer, range(answer.layers).flatMap((l) => range(answer.heads)
      .map((h) => [l + 1, h + 1])), answer.heads, cell, false);
  },
  point() {
    this.grid.drawPoint();
  },
};
