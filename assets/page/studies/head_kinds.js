// Kinds of heads: a map of all of them, and what one does in general beside what it does in this text.

import { range } from "../common/answer.js";
import { percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { cssColour } from "../common/paint.js";
import { stepThrough } from "../common/head_grid.js";
import { state, update } from "../common/store.js";
import { selectionText, weightText } from "../common/words.js";

const HERE = "here";
const FIGURES = ["effective_tokens", "entropy", "distance", "importance"];
const SCALES = ["kind", "importance", "effective_tokens", "distance"]; // what the map can be coloured by

export function build(place, choose) {
  const finding = make("p", { class: "finding", role: "status" });
  const missing = make("p", { class: "aside" });
  const title = make("h3");
  const grid = make("div", { class: "kinds-grid", role: "group" });
  const names = make("ul", { class: "kinds-names" });
  const byName = make("span", { id: "head-kinds-by" });
  const by = make("select", { "aria-labelledby": "head-kinds-by",
    onchange: () => choose({ figure: by.value === "kind" ? null : by.value }) });
  const ramp = make("div", { class: "ramp" });
  const scale = make("p", { class: "aside" });
  const facts = make("div", { class: "facts" });
  const agreement = make("p", { class: "aside" });
  const looks = make("section", { class: "looks" });
  let cells = []; // rows of buttons
  place.append(finding, missing, make("div", { class: "chart-row" },
    make("div", { class: "map" }, title, make("div", { class: "by" }, byName, by),
      make("div", { class: "scroll" }, grid), names, ramp, scale),
    make("div", { class: "beside" }, facts, agreement)), looks);
  grid.addEventListener("keydown", (event) => stepThrough(event, cells));

  function buildGrid(layers, heads) {
    cells = range(layers).map((i) => range(heads).map((j) => make("button", { type: "button",
      "data-head": `${i + 1}.${j + 1}`, tabindex: -1, onclick: () => update({ layer: i + 1, head: j + 1 }) })));
    grid.style.gridTemplateColumns = `auto repeat(${heads}, minmax(24px, 30px))`;
    fill(grid, make("span", { class: "corner" }), ...range(heads).map((j) => make("span", { "aria-hidden": "true" },
      String(j + 1))), ...cells.flatMap((row, i) => [make("span", { "aria-hidden": "true" }, String(i + 1)), ...row]));
  }

  /** Colours of all heads by one of their figures. */
  function drawFigure(data, languages, figure) {
    const values = meanOf(languages.map((name) => data.figures[name][figure]));
    const [low, high] = [Math.min(...values.flat()), Math.max(...values.flat())];
    cells.forEach((row, i) => row.forEach((cell, j) => {
      cell.style.background = cssColour((values[i][j] - low) / (high - low || 1));
      cell.textContent = "";
      cell.title = `${cell.title} · ${say(`head_kinds_${figure}`)} ${values[i][j].toFixed(2)}`;
      cell.setAttribute("aria-label", cell.title);
    }));
    ramp.style.background = `linear-gradient(to right, ${range(9).map((i) => cssColour(i / 8)).join(", ")})`;
    scale.textContent = say("head_kinds_scale", { name: say(`head_kinds_${figure}`), low: low.toFixed(2),
      high: high.toFixed(2) });
  }

  function drawKinds(data, languages) {
    const { kinds, colours, marks, layer, head } = data;
    grid.setAttribute("aria-label", say("head_kinds_map"));
    grid.querySelector(".corner").textContent = say("layer");
    cells.forEach((row, i) => row.forEach((cell, j) => {
      const own = [...new Set(languages.map((name) => kinds[name][i][j]))];
      const inks = own.map((kind) => colours[kind]);
      cell.style.background = inks.length > 1
        ? `linear-gradient(135deg, ${inks[0]} 50%, ${inks[1]} 50%)` : inks[0];
      cell.textContent = own.map((kind) => marks[kind]).join("");
      cell.classList.toggle("neutral", own.every((kind) => ["broad", "mixed"].includes(kind)));
      cell.title = say("head_kinds_cell", { layer: i + 1, head: j + 1,
        kind: own.map((kind) => say(`head_kinds_${kind}`)).join(" / ") });
      cell.setAttribute("aria-label", cell.title);
      const isChosen = i + 1 === layer && j + 1 === head;
      cell.setAttribute("aria-pressed", String(isChosen));
      cell.tabIndex = isChosen ? 0 : -1;
    }));
  }

  return function draw(data) {
    const languages = data.has_survey ? Object.keys(data.kinds).filter((name) => name !== HERE) : [HERE];
    const shape = [data.kinds[HERE].length, data.kinds[HERE][0].length];
    if (cells.length !== shape[0] || cells[0].length !== shape[1]) buildGrid(...shape);
    missing.hidden = data.has_survey;
    missing.textContent = say("head_kinds_no_survey");
    title.textContent = say("head_kinds_map");
    finding.textContent = findingText(data, languages);
    const offered = SCALES.filter((name) => name === "kind" || name in data.figures[HERE]);
    const figure = offered.slice(1).find((name) => name === state.options.figure);
    drawKinds(data, languages);
    if (figure) drawFigure(data, languages, figure);
    names.hidden = Boolean(figure);
    for (const part of [ramp, scale]) part.hidden = !figure;
    byName.textContent = say("head_kinds_by");
    fill(by, ...offered.map((name) => make("option", { value: name },
      say(name === "kind" ? "head_kinds_by_kind" : `head_kinds_${name}`))));
    by.value = figure ?? "kind";
    fill(names, ...kindNames(data, languages));
    fill(facts, factsTable(data, languages));
    agreement.hidden = languages.length < 2;
    agreement.textContent = languages.length < 2 ? "" : agreementText(data, languages);
    looks.hidden = data.strongest.length === 0;
    fill(looks, make("h3", {}, say("head_kinds_strongest")), looksList(data.strongest));
  };
}

function meanOf(tables) {
  return tables[0].map((row, i) => row.map((_, j) => tables.reduce((sum, table) => sum + table[i][j], 0)
    / tables.length));
}

function findingText({ layer, head, kinds, has_survey: hasSurvey }, languages) {
  const kindOf = (name) => say(`head_kinds_${kinds[name][layer - 1][head - 1]}`);
  const said = { place: selectionText(layer, head), here: kindOf(HERE) };
  if (!hasSurvey) return say("head_kinds_found_here", said);
  const [one, other] = languages.map(kindOf);
  const general = other === undefined || one === other ? one : say("head_kinds_both", { one, other,
    first: say(`head_kinds_${languages[0]}`), second: say(`head_kinds_${languages[1]}`) });
  return say("head_kinds_found", { ...said, general });
}

function agreementText({ layer, head, same_kind: same, largest_difference: differences }, [first, second]) {
  const isSame = same[layer - 1][head - 1];
  return say(isSame ? "head_kinds_agree" : "head_kinds_disagree", { first: say(`head_kinds_${first}`),
    second: say(`head_kinds_${second}`), points: (100 * differences[layer - 1][head - 1]).toFixed(1) });
}

/** The kinds on the map with how many heads each has. */
function kindNames({ kinds, colours, marks }, languages) {
  const count = (name, kind) => kinds[name].flat().filter((other) => other === kind).length;
  return Object.keys(colours).filter((kind) => languages.some((name) => count(name, kind))).map((kind) => {
    const swatch = make("span", { class: "swatch", "aria-hidden": "true" }, marks[kind]);
    swatch.style.background = colours[kind];
    return make("li", {}, swatch, say("head_kinds_counts", { kind: say(`head_kinds_${kind}`),
      count: [...new Set(languages.map((name) => count(name, kind)))].join(" / ") }));
  });
}

/** The chosen head: a column for each language and one for this text. */
function factsTable({ layer, head, patterns, kinds, shares, figures, texts }, languages) {
  const columns = [...new Set([...languages, HERE])];
  const of = (table) => table?.[layer - 1][head - 1];
  const row = (name, values) => make("tr", { "data-fact": name }, make("th", { scope: "row" },
    say(`head_kinds_${name}`)), ...values.map((value) => make("td", {}, value)));
  const heading = make("tr", {}, make("th", { scope: "col" }, say("head_kinds_what")), ...columns.map((name) => make(
    "th", { scope: "col" }, name === HERE ? say("head_kinds_here") : say("head_kinds_general",
      { name: say(`head_kinds_${name}`), texts: texts[name].toLocaleString() }))));
  return make("table", {}, make("thead", {}, heading), make("tbody", {},
    row("kind", columns.map((name) => say(`head_kinds_${of(kinds[name])}`))),
    ...patterns.map((pattern, i) => row(pattern, columns.map((name) => {
      const share = of(shares[name])[i];
      return share === null ? "–" : percent(share);
    }))),
    ...FIGURES.filter((name) => name in figures[HERE]).map((name) => row(name, columns.map((column) => {
      const value = of(figures[column][name]);
      return value === undefined ? "–" : value.toFixed(name === "importance" ? 3 : 2);
    })))));
}

function looksList(strongest) {
  return make("ul", {}, ...strongest.map(({ language, text, source, seen, weight }) => make("li",
    { "data-language": language, dir: "auto" },
    make("b", {}, say("head_kinds_look", { source, seen, weight: weightText(weight) })), " ",
    make("span", { class: "aside" }, text))));
}
