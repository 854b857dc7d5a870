// Q, K, V: the matrices of one head, and the sum behind one of its attention weights.

import { range } from "../common/answer.js";
import { say } from "../common/boot.js";
import { FONT, colour, fill, fitted, make, onLeave, surface } from "../common/dom.js";
import { paintBand, paintMatrix } from "../common/paint.js";
import { figure, paintSigned } from "../common/charts.js";
import { unpack, valuesOf } from "../common/matrix.js";
import { chosenNumber } from "../common/options.js";

const SQUARE = ["scores", "attention"];           // tokens × tokens; the others tokens × dimensions
const NAMES = ["query", "key", "value", ...SQUARE, "context"];
const NARROW = 0.42;                              // width of a tokens × dimensions picture to a square
const [GAP, LONGEST_LABEL, SMALLEST_CELL, LARGEST_CELL] = [12, 76, 5, 24];
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function title(name, width) {
  return { query: () => say("qkv_query"), key: () => say("qkv_key"), value: () => say("qkv_value"),
    scores: () => say("qkv_scores", { width }), attention: () => say("qkv_attention"),
    context: () => say("qkv_context") }[name]();
}

/** Every matrix of an answer as {rows, columns, values}; unpacked once. */
const unpacked = new WeakMap();
async function matricesOf(data) {
  if (!unpacked.has(data)) {
    unpacked.set(data, Promise.all(NAMES.map(async (name) => {
      const matrix = await unpack(data.matrices[name]);
      return [name, { ...matrix, values: valuesOf(matrix) }];
    })).then(Object.fromEntries));
  }
  return unpacked.get(data);
}

/** Which pictures stand side by side: all of them, or the squares by themselves for more room. */
function arranged(width, size) {
  const ofTokens = NAMES.filter((name) => !SQUARE.includes(name));
  const inOneRow = (width - LONGEST_LABEL - 6 * GAP) / (2 + 4 * NARROW);
  if (inOneRow / size >= SMALLEST_CELL && width >= 640) return [NAMES];
  return width >= 560 ? [ofTokens, SQUARE] : [ofTokens, ...SQUARE.map((name) => [name])];
}

/** The weight of a cell, step by step, from the numbers that the model used. */
export function workedOut({ query, key, scores, attention }, from, to) {
  const width = query.columns;
  const q = [...query.values.subarray(from * width, (from + 1) * width)];
  const k = [...key.values.subarray(to * width, (to + 1) * width)];
  const products = q.map((value, i) => value * k[i]);
  const sum = products.reduce((total, value) => total + value, 0);
  const row = [...scores.values.subarray(from * scores.columns, (from + 1) * scores.columns)];
  const highest = Math.max(...row);
  const powers = row.map((score) => Math.exp(score - highest));
  const total = powers.reduce((all, power) => all + power, 0);
  return { width, q, k, products, sum, score: sum / Math.sqrt(width), row, highest, powers, total,
    weight: powers[to] / total, heatmap: attention.values[from * attention.columns + to] };
}

export function build(place, choose) {
  const [from, to] = ["query", "key"].map((name) => make("select", { id: `qkv-${name}`,
    onchange: (event) => choose({ [name]: event.target.value }) }));
  const [fromLabel, toLabel] = ["query", "key"].map((name) => make("label", { for: `qkv-${name}` }));
  const readout = make("p", { class: "readout", role: "status" });
  const gallery = make("div", { class: "gallery" });
  const sums = make("div", { class: "sums" });
  place.append(make("div", { class: "tools" }, make("span", {}, fromLabel, " ", from),
    make("span", {}, toLabel, " ", to), readout), gallery, sums);

  const pictures = Object.fromEntries(NAMES.map((name) => [name, picture(name)]));
  let shown = null;   // {tokens, matrices, query, key}
  let turn = 0;

  /** The elements of one picture and what is done with them. */
  function picture(name) {
    const canvas = make("canvas", { role: "img" });
    const over = make("canvas", { class: "over", "aria-hidden": "true" });
    const isSquare = SQUARE.includes(name);
    const pad = make("div", { class: "pad", "data-matrix": name, ...(isSquare
      ? { tabindex: 0, role: "application" } : {}) }, canvas, over);
    const caption = make("figcaption");
    const scale = make("small");
    const made = { name, canvas, over, pad, caption, scale, element: make("figure", {}, caption, pad, scale) };
    pad.addEventListener("pointermove", (event) => readOut(made, cellAt(made, event)));
    pad.addEventListener("pointerdown", (event) => readOut(made, cellAt(made, event)));
    onLeave(pad, () => readOut(made, null));
    if (isSquare) {
      pad.addEventListener("click", (event) => pick(cellAt(made, event)));
      pad.addEventListener("keydown", (event) => {
        const move = ARROWS[event.key];
        if (!move || !shown) return;
        event.preventDefault();
        pick({ row: shown.query + move[0], column: shown.key + move[1] });
      });
    }
    return made;
  }

  function cellAt({ name, canvas }, event) {
    if (!shown) return null;
    const box = canvas.getBoundingClientRect();
    const { rows, columns } = shown.matrices[name];
    const row = Math.floor((event.clientY - box.top) / box.height * rows);
    const column = Math.floor((event.clientX - box.left) / box.width * columns);
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  }

  function pick(cell) {
    if (!cell) return;
    const last = shown.tokens.length - 1;
    const inside = (value) => Math.max(0, Math.min(last, value));
    choose({ query: inside(cell.row), key: inside(cell.column) });
  }

  function readOut({ name }, cell) {
    if (!shown || !cell) {
      readout.textContent = say("qkv_hint");
      return;
    }
    const { tokens, matrices } = shown;
    const value = figure(matrices[name].values[cell.row * matrices[name].columns + cell.column]);
    const named = title(name, matrices.query.columns);
    readout.textContent = SQUARE.includes(name)
      ? say("qkv_cell", { name: named, query: tokens[cell.row], key: tokens[cell.column], value })
      : say("qkv_entry", { name: named, token: tokens[cell.row], dimension: cell.column, value });
  }

  function drawPictures(width) {
    const { tokens, matrices } = shown;
    const groups = arranged(width, tokens.length);
    const focused = document.activeElement;
    fill(gallery, ...groups.map((names) => drawGroup(names, width)));
    if (gallery.contains(focused) && focused !== document.activeElement) focused.focus({ preventScroll: true });
    for (const { name, pad, canvas } of Object.values(pictures)) {
      const named = title(name, matrices.query.columns);
      canvas.setAttribute("aria-label", named);
      if (SQUARE.includes(name)) pad.setAttribute("aria-label", say("qkv_pick", { name: named }));
    }
  }

  /** Pictures side by side, with the tokens once on their left. */
  function drawGroup(names, width) {
    const { tokens, matrices } = shown;
    const labels = make("canvas", { class: "row-names", "aria-hidden": "true" });
    const measure = labels.getContext("2d");
    measure.font = `12px ${FONT}`;
    const widest = Math.min(LONGEST_LABEL, Math.max(...tokens.map(
      (token) => measure.measureText(token).width))) + 4;
    const shares = names.map((name) => (SQUARE.includes(name) ? 1 : NARROW));
    const room = width - widest - names.length * GAP;
    const unit = room / Math.max(2 * NARROW, shares.reduce((sum, share) => sum + share, 0));
    const height = Math.floor(Math.max(96, Math.min(unit, LARGEST_CELL * tokens.length,
      names.some((name) => SQUARE.includes(name)) ? Infinity : 260)));
    names.forEach((name, i) => drawPicture(pictures[name], matrices[name],
      Math.floor(SQUARE.includes(name) ? Math.min(unit, height) : unit * shares[i]), height));
    drawNames(labels, tokens, widest, height);
    return make("div", { class: "group" }, labels, ...names.map((name) => pictures[name].element));
  }

  function drawNames(labels, tokens, width, height) {
    const pen = surface(labels, width, height);
    const cell = height / tokens.length;
    const size = Math.min(12, Math.max(10, cell));
    pen.font = `${size}px ${FONT}`;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const every = Math.ceil((size + 1) / cell);
    tokens.forEach((token, i) => {
      if (i % every) return;
      pen.fillStyle = colour(i === shown.query ? "--accent" : "--ink");
      pen.fillText(fitted(pen, token, width - 4), width - 4, Math.max(size / 2, (i + 0.5) * cell));
    });
  }

  function drawPicture({ name, canvas, over, caption, scale }, matrix, width, height) {
    const { rows, columns, values } = matrix;
    if (name === "attention") {
      paintMatrix(surface(canvas, width, height), 0, 0, width, rows, values, 0);
      scale.textContent = "0–1";
    } else {
      const limit = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
      const bytes = Uint8Array.from(values, (value) => Math.round(128 + 127 * value / limit));
      paintSigned(canvas, { rows, columns, bytes }, width, height);
      scale.textContent = say("qkv_limit", { limit: figure(limit) });
    }
    caption.textContent = title(name, shown.matrices.query.columns);
    const pen = surface(over, width, height);
    const [tall, wide] = [height / rows, width / columns];
    if (SQUARE.includes(name)) paintBand(pen, shown.key * wide, shown.query * tall, wide, tall);
    else if (name === "query" || name === "context") paintBand(pen, 1, shown.query * tall, width - 2, tall);
    else if (name === "key") paintBand(pen, 1, shown.key * tall, width - 2, tall);
  }

  function table(rows, chosen) {
    return make("div", { class: "wide", tabindex: 0 }, make("table", {}, ...rows.map(([heading, ...cells]) => make(
      "tr", {}, make("th", { scope: "row" }, heading), ...cells.map((cell, i) => make("td",
        { class: i === chosen ? "chosen" : null }, cell))))));
  }

  function drawSums() {
    const { tokens, matrices, query, key } = shown;
    const found = workedOut(matrices, query, key);
    const named = { query: tokens[query], key: tokens[key] };
    const { width } = found;
    const exact = (value) => value.toFixed(7);
    const signed = (value) => value.toFixed(4).replace("-", "−");
    fill(sums, make("h3", {}, say("qkv_title", named)),
      make("p", {}, `${say("qkv_multiply")}: q · k = `, make("b", { class: "dot" }, signed(found.sum))),
      table([[say("qkv_dimension"), ...range(width)],
        [say("qkv_q", named), ...found.q.map(figure)], [say("qkv_k", named), ...found.k.map(figure)],
        [say("qkv_product"), ...found.products.map(figure)]]),
      make("p", {}, `${say("qkv_divide", { width })}: ${signed(found.sum)} ÷ √${width} = `,
        make("b", { class: "score" }, signed(found.score))),
      make("p", {}, `${say("qkv_softmax", named)}:`),
      table([[say("qkv_key_row"), ...tokens], [say("qkv_score"), ...found.row.map(figure)],
        [say("qkv_power", { highest: figure(found.highest) }),
          ...found.powers.map((power) => power.toFixed(4))]], key),
      make("p", {}, `exp(${signed(found.row[key])} − ${signed(found.highest)}) ÷ Σ = `
        + `${found.powers[key].toFixed(6)} ÷ ${found.total.toFixed(6)} = `,
      make("b", { class: "weight" }, exact(found.weight))),
      make("p", { class: "heatmap-value" }, say("qkv_heatmap", { value: exact(found.heatmap),
        difference: Math.abs(found.weight - found.heatmap).toExponential(1) })));
  }

  return async function draw(data, answer, { width }) {
    const mine = ++turn;
    const matrices = await matricesOf(data);
    if (mine !== turn) return;
    const { tokens } = data;
    const last = tokens.length - 1;
    const query = chosenNumber("query", 0, last, 0);
    const row = [...matrices.attention.values.subarray(query * tokens.length, (query + 1) * tokens.length)];
    const key = chosenNumber("key", 0, last, row.indexOf(Math.max(...row)));
    shown = { tokens, matrices, query, key };
    fromLabel.textContent = say("qkv_from");
    toLabel.textContent = say("qkv_to");
    for (const [select, chosen] of [[from, query], [to, key]]) {
      fill(select, ...tokens.map((token, i) => make("option", { value: i }, `${i} · ${token}`)));
      select.value = String(chosen);
    }
    readout.textContent = say("qkv_hint");
    drawPictures(width);
    drawSums();
    place.dataset.cell = `${query}/${key}`;
  };
}
