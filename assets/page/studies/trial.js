// Explanations on trial: how each method ranks the words, and what the answer does when they are masked.

import { range } from "../common/answer.js";
import { className, percent, say } from "../common/boot.js";
import { colour, fill, make } from "../common/dom.js";
import { ask } from "../common/server.js";
import { figure, paintLines } from "../common/charts.js";
import { state } from "../common/store.js";
import { sentAlong, studyOptions } from "../common/options.js";

const MEASURES = ["comprehensiveness", "sufficiency", "deletion", "insertion"];
const MORE_IS_BETTER = ["comprehensiveness", "insertion"];
const RANKED = 3; // words of a strip that carry their rank

/** The methods that take longer, asked for once and kept with the answer. */
function restOf(answer, options) {
  const key = `study/trial/rest/${JSON.stringify(options)}`;
  if (!answer.kept.has(key)) {
    const asked = ask("study", [answer.text, "trial", { ...options, part: "all" }]);
    asked.catch(() => answer.kept.delete(key));
    answer.kept.set(key, asked);
  }
  return answer.kept.get(key);
}

export function build(place, choose) {
  const chooser = new Chooser(choose);
  const verdict = make("p", { class: "finding", role: "status" });
  const strips = new Strips();
  const curves = new Curves(choose);
  const figures = new Figures(choose);
  place.append(chooser.element, verdict, strips.element, curves.element, figures.element);
  sentAlong.set("trial", { part: "all" }); // a file holds all methods
  let turn = 0;

  function show(data, width) {
    chooser.draw(data);
    verdict.textContent = verdictText(data);
    strips.draw(data);
    const chosen = data.methods.find(({ name }) => name === state.options.method)?.name
      ?? data.verdict?.best ?? data.methods[0].name;
    curves.draw(data, chosen, width);
    figures.draw(data, chosen);
  }

  return async function draw(data, answer, { width }) {
    const mine = ++turn; // whatever is still on its way belongs to another choice
    const { target, against } = studyOptions();
    const asked = restOf(answer, { target, against });
    show(data, width);
    const all = await asked.catch(() => null);
    if (all && mine === turn) show(all, width);
  };
}

function verdictText({ verdict, pending, truncated }) {
  if (!verdict) return say("trial_wait", { count: pending.length });
  const text = say(`trial_verdict_${verdict.kind}`, { best: say(`trial_${verdict.best}`) });
  return truncated ? `${text} ${say("trial_cut")}` : text;
}

// ------------------------------------------------------------------------------ the class

/** Why this class, and rather than which other one. */
class Chooser {
  constructor(choose) {
    this.target = make("select", { id: "trial-target",
      onchange: () => choose({ target: this.target.value || null }) });
    this.against = make("select", { id: "trial-against",
      onchange: () => choose({ against: this.against.value || null }) });
    this.labels = [make("label", { for: "trial-target" }), make("label", { for: "trial-against" })];
    this.element = make("div", { class: "chooser" },
      make("span", {}, this.labels[0], " ", this.target),
      make("span", {}, this.labels[1], " ", this.against));
  }

  draw({ classes, target, against, answer }) {
    const options = (items, first) => [first, ...items.map((item) => make("option", { value: item.key },
      className(item)))];
    this.labels[0].textContent = say("trial_target");
    this.labels[1].textContent = say("trial_against");
    fill(this.target, ...options(classes.filter((_, i) => i !== answer), make("option", { value: "" },
      className(classes[answer]))));
    this.target.value = target === answer ? "" : classes[target].key;
    fill(this.against, ...options(classes.filter((_, i) => i !== target), make("option", { value: "" },
      say("trial_anything"))));
    this.against.value = against === null ? "" : classes[against].key;
  }
}

// ------------------------------------------------------------------------------ strips

/** A row of words for each method, coloured by what it says of them. */
class Strips {
  constructor() {
    this.title = make("h3");
    this.table = make("table", { class: "strips" });
    this.hint = make("p", { class: "aside" });
    this.element = make("section", {}, this.title, make("div", { class: "scroll", tabindex: 0 }, this.table), this.hint);
  }

  draw({ words, methods }) {
    this.title.textContent = say("trial_strips");
    this.hint.textContent = say("trial_strips_hint");
    const heading = make("tr", {}, make("td"), ...words.map((word) => make("th",
      { scope: "col", dir: "auto", title: word }, make("span", {}, word))));
    fill(this.table, make("thead", {}, heading), make("tbody", {}, ...methods.map(
      ({ name, scores }) => strip(name, scores, words))));
  }
}

function strip(name, scores, words) {
  const method = say(`trial_${name}`);
  const largest = Math.max(...scores.map(Math.abs)) || 1;
  const order = range(scores.length).sort((a, b) => scores[b] - scores[a] || a - b);
  return make("tr", { "data-method": name },
    make("th", { scope: "row", title: say(`trial_${name}_is`) }, method),
    ...scores.map((score, i) => {
      const rank = order.indexOf(i) + 1;
      const cell = make("td", { class: score >= 0 ? "for" : "against",
        title: say("trial_cell", { method, word: words[i], score: figure(score), rank,
          count: scores.length }) }, rank <= RANKED ? String(rank) : "");
      cell.style.setProperty("--strength", `${Math.round(85 * Math.abs(score) / largest)}%`);
      return cell;
    }));
}

// ------------------------------------------------------------------------------ curves

/** Deletion and insertion of every method in one chart; one of them stands out. */
class Curves {
  constructor(choose) {
    this.title = make("h3");
    this.canvas = make("canvas", { role: "img" });
    this.across = make("p", { class: "aside across" });
    this.kinds = make("p", { class: "aside kinds" });
    this.scales = ["probability", "margin"].map((curve) => make("button", { type: "button",
      "data-curve": curve, onclick: () => choose({ curve: curve === "margin" ? curve : null }) }));
    this.scale = make("div", { class: "switch", role: "group" }, ...this.scales);
    this.element = make("section", {}, make("div", { class: "over" }, this.title, this.scale),
      this.kinds, this.canvas, this.across);
  }

  draw(data, chosen, width) {
    const { methods, chance, shares } = data;
    const isMargin = state.options.curve === "margin";
    const suffix = isMargin ? "_margin" : "";
    const lines = ["deletion", "insertion"].flatMap((curve) => methods.map((method) => ({
      colour: method.colour, values: method.curves[curve + suffix], dashed: curve === "insertion",
      strong: method.name === chosen })));
    const bands = chance ? ["deletion", "insertion"].map((curve) => ({ colour: colour("--muted"),
      low: chance.low[curve + suffix], high: chance.high[curve + suffix] })) : [];
    const values = [...lines.map((line) => line.values), ...bands.flatMap(({ low, high }) => [low, high])].flat();
    const low = isMargin ? Math.floor(Math.min(0, ...values)) : 0;
    const high = isMargin ? low + 4 * Math.ceil((Math.max(1, ...values) - low) / 4) : 1;
    paintLines(this.canvas, lines, { width, height: 300, low, high, bands, at: shares,
      names: shares.map((share) => Math.round(100 * share)), room: 34,
      label: (value) => (isMargin ? value.toFixed(0).replace("-", "−") : percent(value, 0)) });
    this.title.textContent = say("trial_curves");
    this.across.textContent = say("trial_across");
    const kind = (look, text) => make("span", {}, make("i", { class: look }), text);
    fill(this.kinds, kind("line", say("trial_deletion")), kind("line dashed", say("trial_insertion")),
      chance && kind("line band", say("trial_band", { n: chance.rankings })));
    this.scale.setAttribute("aria-label", say("trial_scale"));
    this.scales.forEach((button, i) => {
      button.textContent = say(`trial_${button.dataset.curve}`);
      button.setAttribute("aria-pressed", String(isMargin === (i === 1)));
    });
    this.canvas.setAttribute("aria-label", `${say("trial_curves")}. ${verdictText(data)}`);
  }
}

// ------------------------------------------------------------------------------ figures

/** A row of figures for each method: its name picks its curves, the best of a column stands out. */
class Figures {
  constructor(choose) {
    this.choose = choose;
    this.element = make("div", { class: "scroll", tabindex: 0 });
  }

  draw({ methods, chance }, chosen) {
    const focused = this.element.contains(document.activeElement)
      ? document.activeElement.dataset.method : null;
    const best = Object.fromEntries(MEASURES.map((name) => {
      const values = methods.map(({ measures }) => measures[name]);
      return [name, MORE_IS_BETTER.includes(name) ? Math.max(...values) : Math.min(...values)];
    }));
    const cells = (measures) => MEASURES.map((name) => make("td", { "data-measure": name,
      class: measures[name] === best[name] ? "best" : null }, figure(measures[name])));
    const heading = make("tr", {}, make("th", { scope: "col" }, say("trial_method")),
      ...MEASURES.map((name) => make("th", { scope: "col", title: say(`trial_full_${name}`) },
        say(`trial_short_${name}`))),
      make("th", { scope: "col", title: say("trial_full_beats") }, say("trial_beats")));
    const rows = methods.map(({ name, colour: ink, measures, beats }) => make("tr", { "data-row": name },
      make("th", { scope: "row" }, this.button(name, ink, name === chosen)), ...cells(measures),
      make("td", { "data-measure": "beats" }, beats === null ? "…" : percent(beats, 0))));
    const random = chance ? [make("tr", { "data-row": "random" }, make("th", { scope: "row" },
      say("trial_random_mean", { n: chance.rankings })), ...cells(chance.measures), make("td"))] : [];
    fill(this.element, make("table", { class: "measures" }, make("thead", {}, heading),
      make("tbody", {}, ...rows, ...random)));
    this.element.querySelector(`button[data-method="${focused}"]`)?.focus();
  }

  button(name, ink, isChosen) {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = ink;
    return make("button", { type: "button", "data-method": name, title: say(`trial_${name}_is`),
      "aria-pressed": String(isChosen), onclick: () => this.choose({ method: name }) }, swatch,
    say(`trial_${name}`));
  }
}
