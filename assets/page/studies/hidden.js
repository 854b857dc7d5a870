// Hidden states: the vector of a token after every layer, or of every token after one layer.

import { range } from "../common/answer.js";
import { SIGNED, say } from "../common/boot.js";
import { FONT, colour, fill, make, onLeave, surface } from "../common/dom.js";
import { paintBand } from "../common/paint.js";
import { figure, fillTokenRow, paintHistogram, paintSigned } from "../common/charts.js";
import { unpack, valueOf } from "../common/matrix.js";
import { chosenNumber } from "../common/options.js";

const ROW = 20;             // pixels
const NARROWEST_COLUMN = 4;
const TICK = 16;            // dimensions between two numbers on the axis
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function build(place, choose) {
  const finding = make("p", { class: "finding" });
  const tokens = make("div", { role: "group" });
  const at = make("select", { id: "hidden-at",
    onchange: () => choose({ at: at.value === "" ? null : at.value }) });
  const atLabel = make("label", { for: "hidden-at" });
  const back = make("button", { type: "button", class: "step" }, "‹");
  const forth = make("button", { type: "button", class: "step" }, "›");
  const shownBlock = make("span", { class: "block-name" });
  const ramp = make("span", { class: "ramp", "aria-hidden": "true" });
  ramp.style.setProperty("--stops", range(17).map((i) => `rgb(${SIGNED[Math.round(i * 255 / 16)].join(" ")})`).join(", "));
  const limitText = make("span", { class: "muted" });
  const readout = make("p", { class: "readout", role: "status" });
  const names = make("div", { class: "names" });
  const axis = make("canvas", { "aria-hidden": "true" });
  const canvas = make("canvas", { role: "img" });
  const over = make("canvas", { class: "over", "aria-hidden": "true" });
  const pad = make("div", { class: "pad", tabindex: 0, role: "application" }, canvas, over);
  const scroll = make("div", { class: "wide" }, axis, pad);
  const figures = make("div", { class: "figures" });
  const sheet = make("div", { class: "sheet" }, names, scroll, figures);
  sheet.style.setProperty("--row", `${ROW}px`);
  const distributionsTitle = make("h3");
  const distributions = make("div", { class: "multiples" });
  place.append(finding, make("div", { class: "tools" },
    make("span", {}, atLabel, " ", at), make("span", { class: "stepper" }, back, shownBlock, forth),
    make("span", { class: "ramp-row" }, ramp, limitText)), tokens, readout, sheet, distributionsTitle,
  distributions);

  let shown = null;   // what is on the screen: rows of {layer, token}, first, columns, cell, values
  let point = null;   // {row, column} that is read out
  let turn = 0;

  pad.addEventListener("pointermove", (event) => pointAt(event));
  pad.addEventListener("pointerdown", (event) => pointAt(event));
  onLeave(pad, () => drawPoint(null));
  pad.addEventListener("blur", () => drawPoint(null));
  pad.addEventListener("keydown", (event) => {
    const move = ARROWS[event.key];
    if (!move || !shown) return;
    event.preventDefault();
    const inside = (value, count) => Math.max(0, Math.min(count - 1, value));
    drawPoint(point ? { row: inside(point.row + move[0], shown.rows.length),
      column: inside(point.column + move[1], shown.columns) } : { row: 0, column: 0 });
  });

  function pointAt(event) {
    if (!shown) return;
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / ROW);
    const column = Math.floor((event.clientX - box.left) / shown.cell);
    drawPoint(row >= 0 && row < shown.rows.length && column >= 0 && column < shown.columns
      ? { row, column } : null);
  }

  function drawPoint(next) {
    point = next;
    if (!shown) return;
    const pen = surface(over, shown.columns * shown.cell, shown.rows.length * ROW);
    readout.textContent = say("hidden_hint");
    if (!point || !shown.values) return;
    paintBand(pen, point.column * shown.cell, point.row * ROW, shown.cell, ROW);
    const { layer, token } = shown.rows[point.row];
    readout.textContent = say("hidden_value", { layer, token: shown.tokens[token],
      dimension: shown.first + point.column,
      value: figure(shown.values[point.row * shown.columns + point.column]) });
  }

  /** Names and figures of the rows, which need no picture. */
  function drawRows({ tokens: pieces, cosines, norms }, rows, isToken) {
    const hadFocus = names.contains(document.activeElement);
    fill(names, make("span"), ...rows.map(({ layer, token }) => make("button", { type: "button",
      "aria-label": isToken ? say("hidden_open_layer", { layer })
        : say("hidden_open_token", { token: pieces[token] }),
      onclick: () => choose(isToken ? { at: layer } : { token, at: null }) },
    isToken ? say("layer_n", { n: layer }) : pieces[token])));
    if (hadFocus) names.querySelector("button").focus({ preventScroll: true });
    fill(figures, make("span", { title: say("hidden_cosine_title") }, say("hidden_cosine")),
      make("span", { title: say("hidden_norm_title") }, say("hidden_norm")),
      ...rows.flatMap(({ layer, token }) => [
        make("span", { class: "cosine" }, layer ? cosines[layer - 1][token].toFixed(4).replace("-", "−") : "–"),
        make("span", { class: "norm" }, figure(norms[layer][token]))]));
  }

  function drawFinding({ tokens: pieces, cosines }, token, layerShown) {
    const isToken = layerShown === null;
    if (layerShown === 0) {
      finding.textContent = say("hidden_start");
      return;
    }
    const candidates = isToken ? cosines.map((row) => row[token]) : cosines[layerShown - 1];
    const least = candidates.indexOf(Math.min(...candidates));
    finding.textContent = isToken
      ? say("hidden_most", { layer: least + 1, token: pieces[token], cosine: figure(candidates[least]) })
      : say("hidden_most_at", { layer: layerShown, token: pieces[least], cosine: figure(candidates[least]) });
  }

  function drawDistributions(layers) {
    distributionsTitle.textContent = say("hidden_distributions");
    fill(distributions, ...layers.map((found, layer) => {
      const histogram = make("canvas", { role: "img", "aria-label": say("hidden_distribution", { layer,
        mean: figure(found.mean), std: figure(found.std), low: figure(found.low),
        high: figure(found.high) }) });
      paintHistogram(histogram, found, 104, 62);
      return make("figure", {}, make("figcaption", {}, make("b", {}, say("layer_n", { n: layer })),
        ` ${figure(found.mean)} ± ${figure(found.std)}`), histogram);
    }));
  }

  /** The numbers along the top. */
  function drawAxis(first, columns, cell) {
    const pen = surface(axis, columns * cell, 16);
    pen.font = `11px ${FONT}`;
    pen.fillStyle = colour("--muted");
    for (let i = 0; i < columns; i += TICK) {
      pen.fillRect(i * cell, 12, 1, 4);
      pen.fillText(String(first + i), i * cell + 3, 11);
    }
  }

  return async function draw(data, answer, { width }) {
    const mine = ++turn;
    const { tokens: pieces, width: dimensions, block, limit, states } = data;
    const last = states.length - 1;
    const token = chosenNumber("token", 0, pieces.length - 1, 0);
    const layerShown = chosenNumber("at", 0, last, null);
    const first = block * Math.floor(Math.min(chosenNumber("first", 0, 1e9, 0), dimensions - 1) / block);
    const columns = Math.min(block, dimensions - first);
    const isToken = layerShown === null;
    const rows = isToken ? range(last + 1).map((layer) => ({ layer, token }))
      : range(pieces.length).map((other) => ({ layer: layerShown, token: other }));

    atLabel.textContent = say("hidden_show");
    fill(at, make("option", { value: "" }, say("hidden_one_token")), ...range(last + 1).map(
      (layer) => make("option", { value: layer }, say("hidden_all_tokens", { layer }))));
    at.value = isToken ? "" : String(layerShown);
    shownBlock.textContent = say("hidden_dimensions", { first, last: first + columns - 1,
      width: dimensions });
    back.setAttribute("aria-label", say("hidden_earlier"));
    forth.setAttribute("aria-label", say("hidden_later"));
    back.disabled = first === 0;
    forth.disabled = first + block >= dimensions;
    back.onclick = () => choose({ first: first > block ? first - block : null });
    forth.onclick = () => choose({ first: first + block });
    limitText.textContent = say("hidden_colours", { limit: figure(limit) });
    tokens.setAttribute("aria-label", say("hidden_token"));
    tokens.hidden = !isToken;
    fillTokenRow(tokens, pieces, token, (chosen) => choose({ token: chosen || null }));
    drawFinding(data, token, layerShown);
    drawRows(data, rows, isToken);
    drawDistributions(data.distributions);

    const room = scroll.clientWidth || width - 180;
    const cell = Math.max(NARROWEST_COLUMN, room / Math.min(block, dimensions));
    shown = { rows, first, columns, cell, tokens: pieces, values: null };
    drawAxis(first, columns, cell);
    surface(canvas, columns * cell, rows.length * ROW);
    canvas.setAttribute("aria-label", say("hidden_picture"));
    pad.setAttribute("aria-label", `${say("hidden_picture")}. ${say("hidden_hint")}`);
    const layers = await Promise.all(states.map(unpack));
    if (mine !== turn) return;
    shown.values = new Float32Array(rows.length * columns);
    const bytes = shown.values.map((_, i) => {
      const { layer, token: other } = rows[Math.floor(i / columns)];
      shown.values[i] = valueOf(layers[layer],
        layers[layer].bytes[other * dimensions + first + i % columns]);
      return Math.max(0, Math.min(255, Math.round(128 + 127 * shown.values[i] / limit)));
    });
    paintSigned(canvas, { rows: rows.length, columns, bytes }, columns * cell, rows.length * ROW);
    drawPoint(null);
    pad.dataset.painted = `${layerShown ?? ""}/${token}/${first}`;
  };
}
