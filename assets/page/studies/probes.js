// Layer probes: a claim about early, middle and late layers, the figures that decide it, and what the
// layers do with this text and with a fixed set of texts.

import { percent, say } from "../common/boot.js";
import { colour, fill, make } from "../common/dom.js";
import { legend, paintLines } from "../common/charts.js";

const INKS = { form: "--accent", relation: "--for", meaning: "--against" };
const SHARES = ["self", "cls", "sep"];

export function build(place) {
  const verdicts = make("ul", { class: "verdicts" });
  const rule = make("p", { class: "aside" });
  const probesTitle = make("h3");
  const probes = make("canvas", { role: "img" });
  const names = make("div", { class: "beside" });
  const measuresTitle = make("h3");
  const which = make("div");
  const measures = make("div", { class: "measures" });
  place.append(verdicts, rule, probesTitle, make("div", { class: "chart-row" }, probes, names),
    measuresTitle, which, measures);

  return function draw(data, answer, { width }) {
    const isNarrow = width < 560;
    fill(verdicts, ...data.probes.map(verdict));
    rule.textContent = [say("probes_rule", { texts: data.texts }), thirds(data)].join(" ");
    drawProbes(data, isNarrow ? width : width - 270);
    drawMeasures(data, isNarrow ? width : Math.floor((width - 28) / 3));
  };

  function drawProbes(data, width) {
    const tested = data.probes.filter(({ accuracy }) => accuracy);
    const lines = tested.map(({ name, accuracy, chance }) => ({ ...namesOf(name), values: accuracy,
      colour: colour(INKS[name]), strong: true, figure: percent(accuracy.at(-1)), chance }));
    const chances = [...new Set(tested.map(({ chance }) => chance))].map((chance) => ({
      values: tested[0].accuracy.map(() => chance), colour: colour("--muted"), dashed: true,
      figure: percent(chance, 0), name: say("probes_chance", { names: lines.filter((line) => line.chance === chance)
        .map(({ name }) => name).join(", ") }) }));
    probesTitle.textContent = say("probes_accuracy");
    probes.setAttribute("aria-label", lines.map(({ name, figure }) => `${name} ${figure}`).join(", "));
    paintLines(probes, [...lines, ...chances], { width, height: 220,
      label: (value) => percent(value, 0), marks: data.thirds.slice(0, -1).map((layers) => layers.at(-1) + 0.5) });
    fill(names, legend([...lines, ...chances]), make("p", { class: "aside" }, say("probes_last")), ...lines.map(({ name, what }) => make("p", { class: "aside" },
      make("b", {}, `${name}: `), what)));
  }

  function drawMeasures(data, width) {
    const kinds = [{ of: "text", name: say("probes_text"), colour: colour("--accent"), strong: true },
      { of: "set", name: say("probes_set", { texts: data.texts }), colour: colour("--muted"), dashed: true }];
    measuresTitle.textContent = say("probes_measures");
    fill(which, legend(kinds));
    const titles = { distance: say("probes_distance"), effective_tokens: say("probes_effective_tokens"), self: say("probes_self"),
      cls: say("probes_cls"), sep: say("probes_sep"), change: say("probes_change") };
    fill(measures, ...Object.entries(titles).map(([name, title]) => {
      const canvas = make("canvas", { role: "img", "data-measure": name });
      const lines = kinds.map((kind) => ({ ...kind, values: data.measures[name][kind.of] }));
      const show = (value) => (SHARES.includes(name) ? percent(value, 0) : value.toFixed(name === "change" ? 3 : 1));
      canvas.setAttribute("aria-label", `${title}: ${lines[0].values.map(show).join(", ")}`);
      paintLines(canvas, lines, { width, height: 132, high: roundUp(Math.max(...lines.flatMap(({ values }) => values)), SHARES.includes(name) ? 1 : Infinity),
        names: lines[0].values.map((_, i) => i + 1), label: show });
      return make("figure", {}, make("figcaption", {}, title), canvas);
    }));
  }
}

function namesOf(probe) {
  return { form: { name: say("probes_form"), what: say("probes_form_what"), claim: say("probes_form_claim") },
    relation: { name: say("probes_relation"), what: say("probes_relation_what"), claim: say("probes_relation_claim") },
    meaning: { name: say("probes_meaning"), what: say("probes_meaning_what"), claim: say("probes_meaning_claim") },
  }[probe];
}

function verdict({ name, supported, by_third: byThird, lead, error }) {
  const { claim } = namesOf(name);
  if (supported === null) {
    return make("li", { "data-probe": name }, make("b", {}, `${claim}: `), say("probes_untested"));
  }
  const [early, middle, late] = byThird.map((share) => percent(share));
  const sign = lead < 0 ? "−" : "+";
  return make("li", { "data-probe": name, class: supported ? "supported" : null },
    make("b", {}, `${claim}: `), make("strong", {}, supported ? say("probes_supported") : say("probes_unsupported")),
    make("span", { class: "figures" }, say("probes_figures", { early, middle, late,
      lead: sign + (100 * Math.abs(lead)).toFixed(1), error: (100 * error).toFixed(1) })));
}

function thirds({ thirds: layers }) {
  if (!layers.length) return "";
  const [early, middle, late] = layers.map((third) => `${third[0]}\u2060–\u2060${third.at(-1)}`);
  return say("probes_thirds", { early, middle, late });
}

/** The end of an axis that is not below the value and has round quarters. */
function roundUp(value, most) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return Math.min(most, power * [1.2, 1.6, 2, 4, 8, 12].find((step) => step * power >= value));
}
