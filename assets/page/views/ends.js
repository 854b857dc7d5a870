// First layer beside last layer: the figure this project began with.

import { percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { Heatmap } from "../views/heatmap.js";
import { brightest } from "../common/paint.js";
import { state } from "../common/store.js";

function verdict({ diagonal_early: diagonal, sep_late: sep }) {
  if (diagonal && sep) return say("ends_both");
  if (diagonal) return say("ends_diagonal");
  return say(sep ? "ends_sep" : "ends_neither");
}

/** The view "ends". */
export const endsView = {
  name: "ends",
  build(frame) {
    this.captions = [make("figcaption"), make("figcaption")];
    this.heatmaps = this.captions.map((caption) => new Heatmap(caption));
    this.note = make("p", { class: "ends-note" });
    this.pair = make("div", { class: "pair" }, ...this.heatmaps.map(({ element }) => element));
    frame.append(make("div", { class: "ends" }, this.note, this.pair));
  },
  draw(answer, { width, height }) {
    const head = state.head;
    const headName = head === "mean" ? say("mean_heads") : say("head_n", { n: head });
    const { near, sep } = answer.ends;
    fill(this.note, say("ends_what"), " ", say("ends_figures", { near0: percent(near[0], 0),
      near1: percent(near[1], 0), sep0: percent(sep[0], 0), sep1: percent(sep[1], 0) }), " ",
    make("b", {}, verdict(answer.ends)));
    const beside = width >= 560;
    const room = beside ? (width - 16) / 2 : width;
    const high = beside ? height - this.note.offsetHeight - 40 : width;
    this.pair.classList.toggle("stacked", !beside);
    const ends = [1, answer.layers];
    const shown = ends.map((layer) => answer.shown(layer, head, state.words, state.hideSpecial));
    const top = brightest(shown.map(({ weights }) => weights));
    ends.forEach((layer, i) => {
      this.captions[i].textContent = `${say(i ? "last_layer" : "first_layer")}: `
        + `${say("layer_n", { n: layer })} · ${headName}`;
      this.heatmaps[i].draw(shown[i], layer, head, room, high, top);
    });
    return top;
  },
  point() {
    this.heatmaps.forEach((heatmap) => heatmap.drawPoint());
  },
};
