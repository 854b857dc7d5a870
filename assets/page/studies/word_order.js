// Order matters: the words in another order, or the positions left out; what of the answer remains.

import { range } from "../common/answer.js";
import { className, percent, say } from "../common/boot.js";
import { colour, fill, make } from "../common/dom.js";
import { cosineAxis, figure, legend, paintLines, paintPicture, pairedBars } from "../common/charts.js";

export function build(place, choose) {
  const orders = ["reverse", "shuffle", "nopos"].map((order) => make("button", { type: "button",
    "data-order": order, onclick: () => choose({ order }) }));
  const how = make("div", { class: "switch", role: "group" }, ...orders);
  let seed = 1;
  const again = make("button", { type: "button", class: "quiet", "data-again": "",
    onclick: () => choose({ order: `shuffle.${seed + 1}` }) });
  const changed = make("p", { class: "changed" });
  const finding = make("p", { class: "finding" });
  const answers = make("div", { class: "answers" });
  const similarity = new LineChart();
  const bag = make("p", { class: "aside" });
  const pizza = make("section", { class: "pizza scroll", tabindex: 0 });
  const tables = make("section", { class: "tables" });
  const neighbours = new LineChart();
  const pictures = make("div", { class: "pictures" });
  place.append(make("div", { class: "chooser" }, how, again), changed, finding,
    make("div", { class: "columns" }, answers, make("div", {}, similarity.element, bag)), pizza, tables);

  return function draw(data, answer, { width }) {
    how.setAttribute("aria-label", say("word_order_how"));
    const names = [say("word_order_reverse"), say("word_order_shuffle"), say("word_order_nopos")];
    orders.forEach((button, i) => {
      button.textContent = names[i];
      button.setAttribute("aria-pressed", String(button.dataset.order === data.order));
    });
    seed = data.seed;
    again.textContent = say("word_order_again");
    again.hidden = data.order !== "shuffle";
    fill(changed, make("b", {}, `${say("word_order_read")}: `), make("span", { dir: "auto" }, data.changed));
    finding.textContent = findingText(data);
    const isNarrow = width < 560;
    answers.hidden = data.classes.length === 0;
    fill(answers, pairedBars(data.classes, [{ name: say("word_order_before"), shares: data.before },
      { name: say("word_order_after"), shares: data.after }], say("word_order_points")));
    const lineWidth = isNarrow ? width : width / 2 - 10;
    similarity.draw(say("word_order_similarity"), similarityLines(data), lineWidth);
    bag.textContent = data.in_bag ? say("word_order_bag") : "";
    fill(pizza, make("h3", {}, say("word_order_pizza")), pizzaTable(data.pizza));
    drawPositions(data.positions, isNarrow, width, lineWidth);
  };

  function drawPositions(positions, isNarrow, width, lineWidth) {
    const kinds = [["learned", say("word_order_learned"), colour("--accent")],
      ["sinusoidal", say("word_order_sinusoidal"), colour("--against")]]
      .filter(([kind]) => positions[kind]).map(([kind, name, ink]) => ({ ...positions[kind], name, ink }));
    fill(pictures, ...kinds.map(({ picture, name }) => {
      const canvas = make("canvas", { role: "img", "aria-label": name });
      paintPicture(canvas, picture, isNarrow ? width : width / 2 - 10, 150);
      return make("figure", {}, canvas, make("figcaption", {}, say("word_order_picture", { name,
        positions: picture.rows, width: picture.columns, limit: figure(picture.limit) })));
    }));
    const lines = kinds.map(({ neighbours: values, name, ink }) => ({ name, colour: ink, values }));
    fill(tables, make("h3", {}, say("word_order_tables")),
      positions.learned ? null : make("p", {}, say("word_order_no_learned")), pictures);
    if (lines[0].values.length === 0) return;
    tables.append(neighbours.element);
    neighbours.draw(say("word_order_neighbours"), lines, isNarrow ? lineWidth : width - 10,
      range(lines[0].values.length).map((i) => i + 1));
  }
}

/** Lines of cosines under a title, with their names. */
class LineChart {
  constructor() {
    this.title = make("h3");
    this.canvas = make("canvas", { role: "img" });
    this.names = make("div");
    this.element = make("div", { class: "line-chart" }, this.title, this.canvas, this.names);
  }

  draw(title, lines, width, names = undefined) {
    this.title.textContent = title;
    paintLines(this.canvas, lines, { width, height: 190, ...cosineAxis(lines), names });
    this.canvas.setAttribute("aria-label", `${title}: ${lines.map(({ name, values }) => (
      `${name} ${figure(values.at(-1))}`)).join(", ")}`);
    fill(this.names, legend(lines.map((line) => ({ ...line, figure: figure(line.values.at(-1)) }))));
    lines.forEach(({ dashed }, i) => this.names.querySelectorAll(".swatch")[i].classList.toggle("dashed", Boolean(dashed)));
  }
}

function similarityLines({ similarity, in_bag: inBag }) {
  const [blue, red] = [colour("--accent"), colour("--against")];
  const lines = [{ name: say("word_order_cls"), colour: blue, values: similarity.cls, strong: true },
    { name: say("word_order_mean"), colour: red, values: similarity.mean, strong: true }];
  return inBag ? [...lines, { name: say("word_order_cls_off"), colour: blue, values: inBag.cls, dashed: true },
    { name: say("word_order_mean_off"), colour: red, values: inBag.mean, dashed: true }] : lines;
}

function findingText({ classes, before, after, similarity, same, truncated }) {
  if (same) return say("word_order_same");
  const parts = [];
  if (classes.length) {
    const [one, other] = [before, after].map((shares) => shares.indexOf(Math.max(...shares)));
    const words = { name: className(classes[one]), before: percent(before[one]),
      name2: className(classes[other]), after: percent(after[other]) };
    parts.push(one === other ? say("word_order_answer_stays", words) : say("word_order_answer_changes", words));
  }
  const [cls, mean] = [similarity.cls.at(-1), similarity.mean.at(-1)];
  const cosines = { cls: figure(cls), mean: figure(mean) };
  parts.push(cls < mean ? say("word_order_cls_moves", cosines) : say("word_order_mean_moves", cosines));
  if (truncated) parts.push(say("word_order_cut"));
  return parts.join(" ");
}

/** 0.31 → "0.3100", 0.0000003 → "3·10⁻⁷" */
function smallNumber(value) {
  if (value === 0 || value >= 0.001) return value.toFixed(4);
  const [digit, power] = value.toExponential(0).split("e-");
  return `${digit}·10⁻${[...power].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join("")}`;
}

function pizzaTable(examples) {
  const switches = [["on", say("word_order_on")], ["off", say("word_order_off")]];
  const kinds = [["cls", say("word_order_cosine_cls"), (value) => value.toFixed(4).replace("-", "−")],
    ["mean", say("word_order_cosine_mean"), (value) => value.toFixed(4).replace("-", "−")],
    ["pooled", say("word_order_pooled"), smallNumber]];
  return make("table", {}, make("thead", {},
    make("tr", {}, make("th", { rowspan: 2, scope: "col" }, say("word_order_texts")),
      ...kinds.map(([, name]) => make("th", { colspan: 2, scope: "colgroup" }, name))),
    make("tr", {}, ...kinds.flatMap(() => switches.map(([, name]) => make("th", { scope: "col" }, name))))),
  make("tbody", {}, ...examples.map((example) => make("tr", {}, make("th", { scope: "row" },
    example.texts.join(" / "), make("small", {}, example.same_pieces ? say("word_order_pizza_same")
      : say("word_order_pizza_other"))),
  ...kinds.flatMap(([kind, , write]) => switches.map(([name]) => make("td",
    { "data-figure": `${kind}-${name}` }, write(example[name][kind]))))))));
}
