// The map of activation patching: what comes back of the difference between two answers, for each kind of
// vector, layer and place. Nothing is computed until somebody chooses two texts.

import { className, percent, say } from "./boot.js";
import { fill, make } from "./dom.js";
import { figure, signedColour } from "./charts.js";

const KINDS = ["residual", "attention", "feed_forward"];
const NAMED_SHARE = 0.2; // a cell with this much has its number written in it

export class PatchMaps {
  constructor(choose) {
    this.choose = choose;
    this.title = make("h3");
    this.what = make("p");
    this.choices = make("div", { class: "chips", role: "group" });
    this.texts = make("div");
    this.finding = make("p", { class: "finding", role: "status" });
    this.maps = make("div", { class: "maps" });
    this.note = make("p", { class: "aside" });
    this.element = make("section", { class: "patching" }, this.title, this.what, this.choices, this.texts,
      this.finding, this.maps, this.note);
  }

  draw({ pairs, patch, patching, classes }) {
    this.title.textContent = say("compare_patching");
    this.what.textContent = say("compare_patching_what");
    this.note.textContent = say("compare_patching_note");
    this.drawChoices(pairs, patch);
    const isDrawn = Boolean(patching && !patching.problem);
    for (const part of [this.texts, this.maps, this.note]) part.hidden = !isDrawn;
    this.finding.hidden = !patching;
    if (patching?.problem) this.finding.textContent = say(`compare_patch_problem_${patching.problem}`);
    if (isDrawn) this.drawMaps(patching, classes);
  }

  drawChoices(pairs, patch) {
    const focused = [...this.choices.children].indexOf(document.activeElement);
    const offered = [["own", say("compare_patch_own")],
      ...pairs.map(([one, other], i) => [String(i + 1), `${one} / ${other}`])];
    this.choices.setAttribute("aria-label", say("compare_patch_choices"));
    fill(this.choices, ...offered.map(([name, text]) => make("button", { type: "button", class: "chip",
      "data-patch": name, title: text, "aria-pressed": String(name === patch),
      onclick: () => this.choose({ patch: name === patch ? null : name }) }, text)));
    this.choices.children[focused]?.focus();
  }

  drawMaps({ texts, places, target, against, margins, shares, carriers }, classes) {
    const names = places.map(({ receiver, donor }) => (receiver === donor ? receiver : `${receiver}/${donor}`));
    const limit = Math.max(1, ...shares.flat(2).map(Math.abs));
    const other = against === null ? say("compare_patch_next") : className(classes[against]);
    const question = `${className(classes[target])} − ${other}`;
    const [a, b] = margins.map((margin) => `${margin > 0 ? "+" : ""}${figure(margin)}`);
    fill(this.texts, ...texts.map((text, i) => make("p", { dir: "auto" }, make("b", {}, `${"AB"[i]}: `), text)),
      make("p", { class: "aside" }, say("compare_patch_margins", { question, a, b })));
    const [[layer, at], [last, end]] = carriers;
    this.finding.textContent = say("compare_patch_found", { layer: layer + 1, place: names[at],
      share: percent(shares[0][layer][at], 0), other: names[end],
      other_share: percent(shares[0][last][end], 0) });
    fill(this.maps, ...KINDS.map((name, i) => map(say(`compare_patch_${name}`), names, shares[i], limit)));
  }
}

/** One kind of vector: a row for each layer, a column for each place. */
function map(kind, names, shares, limit) {
  const heading = make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col", title: name },
    make("span", {}, name))));
  const rows = shares.map((row, i) => make("tr", {}, make("th", { scope: "row" }, String(i + 1)),
    ...row.map((share, j) => {
      const cell = make("td", { title: say("compare_patch_cell", { layer: i + 1, kind, place: names[j],
        share: percent(share) }), class: Math.abs(share) > limit / 2 ? "strong" : null },
      Math.abs(share) >= NAMED_SHARE ? (100 * share).toFixed(0).replace("-", "−") : "");
      cell.style.background = signedColour(share, limit);
      return cell;
    })));
  return make("figure", {}, make("figcaption", {}, kind), make("div", { class: "scroll" },
    make("table", { class: "cells" }, make("thead", {}, heading), make("tbody", {}, ...rows))));
}
