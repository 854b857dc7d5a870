// Layer bands: a claim about early, middle and late layers, the figures that decide it, and what the
// layers do with this text and with a fixed set of texts.

import { percent, say } from "./boot.js";
import { legend, paintLines } from "./charts.js";
import { colour, fill, make } from "./dom.js";

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
    rule.textContent = [say("bands_rule", { texts: data.texts }), thirds(data)].join(" ");
    drawProbes(data, isNarrow ? width : width - 270);
    drawMeasures(data, isNarrow ? width : Math.floor((width - 28) / 3));
  };

  function drawProbes(data, width) {
    const tested = data.probes.filter(({ accuracy }) => accuracy);
    const lines = tested.map(({ name, accuracy, chance }) => ({ ...namesOf(name), values: accuracy,
      colour: colour(INKS[name]), strong: true, figure: percent(accuracy.at(-1)), chance }));
    const chances = [...new Set(tested.map(({ chance }) => chance))].map((chance) => ({
      values: tested[0].accuracy.map(() => chance), colour: colour("--muted"), dashed: true,
      figure: percent(chance, 0), name: say("bands_chance", { names: lines.filter((line) => line.chance === chance)
        .map(({ name }) => name).join(", ") }) }));
    probesTitle.textContent = say("bands_probes");
    probes.setAttribute("aria-label", lines.map(({ name, figure }) => `${name} ${figure}`).join(", "));
    paintLines(probes, [...lines, ...chances], { width, height: 220,
      label: (value) => percent(value, 0), marks: data.thirds.slice(0, -1).map((layers) => layers.at(-1) + 0.5) });
    fill(names, legend([...lines, ...chances]), make("p", { class: "aside" }, say("bands_last")), ...lines.map(({ name, what }) => make("p", { class: "aside" },
      make("b", {}, `${name}: `), what)));
  }

  function drawMeasures(data, width) {
    const kinds = [{ of: "text", name: say("bands_text"), colour: colour("--accent"), strong: true },
      { of: "set", name: say("bands_set", { texts: data.texts }), colour: colour("--muted"), dashed: true }];
    measuresTitle.textContent = say("bands_measures");
    fill(which, legend(kinds));
    const titles = { distance: say("bands_distance"), spread: say("bands_spread"), self: say("bands_self"),
      cls: say("bands_cls"), sep: say("bands_sep"), change: say("bands_change") };
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
  return { form: { name: say("bands_form"), what: say("bands_form_what"), claim: say("bands_form_claim") },
    relation: { name: say("bands_relation"), what: say("bands_relation_what"), claim: say("bands_relation_claim") },
    meaning: { name: say("bands_meaning"), what: say("bands_meaning_what"), claim: say("bands_meaning_claim") },
  }[probe];
}

function verdict({ name, supported, bands, lead, error }) {
  const { claim } = namesOf(name);
  if (supported === null) {
    return make("li", { "data-probe": name }, make("b", {}, `${claim}: `), say("bands_untested"));
  }
  const [early, middle, late] = bands.map((share) => percent(share));
  const sign = lead < 0 ? "−" : "+";
  return make("li", { "data-probe": name, class: supported ? "supported" : null },
    make("b", {}, `${claim}: `), make("strong", {}, supported ? say("bands_supported") : say("bands_unsupported")),
    make("span", { class: "figures" }, say("bands_figures", { early, middle, late,
      lead: sign + (100 * Math.abs(lead)).toFixed(1), error: (100 * error).toFixed(1) })));
}

function thirds({ thirds: bands }) {
  if (!bands.length) return "";
  const [early, middle, late] = bands.map((layers) => `${layers[0]}\u2060–\u2060${layers.at(-1)}`);
  return say("bands_thirds", { early, middle, late });
}

/** The end of an axis that is not below the value and has round quarters. */
function roundUp(value, most) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return Math.min(most, power * [1.2, 1.6, 2, 4, 8, 12].find((step) => step * power >= value));
}
