// Charts that several studies share: pictures of tensors, histograms, lines, a row of tokens.

import { range } from "./answer.js";
import { SIGNED, className, percent } from "./boot.js";
import { FONT, colour, fill, fitted, make, surface } from "./dom.js";
import { unpack } from "./matrix.js";

/** 0.0312 → "0.031", −12.3456 → "−12.35": three or four digits that a person can take in. */
export function figure(value) {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 2 : 3;
  return value.toFixed(digits).replace(/^-(?=0\.0+$)/, "").replace("-", "−");
}

/** The first few numbers of a vector: "0.120  −0.034  …". */
export function firstNumbers(values, count = 6) {
  return values.slice(0, count).map(figure).join("\u2002") + (values.length > count ? "\u2002…" : "");
}

/** A vector as a strip of signed colours, one cell a value; its size on the page is CSS. */
export function vectorStrip(values, limit) {
  const canvas = make("canvas", { class: "vector-strip", "aria-hidden": "true" });
  canvas.width = values.length;
  canvas.height = 1;
  const pen = canvas.getContext("2d");
  values.forEach((value, i) => {
    pen.fillStyle = signedColour(value, limit);
    pen.fillRect(i, 0, 1, 1);
  });
  return canvas;
}

const DARK_ENDS = [[63, 138, 205], [214, 84, 66]]; // −limit and limit where the ground is dark
const signedTables = new Map();

/** The 256 signed colours of the current theme: on a dark ground nothing is the ground, not white. */
function signedTable() {
  const ground = colour("--panel");
  if (!signedTables.has(ground)) {
    const base = [1, 3, 5].map((at) => parseInt(ground.slice(at, at + 2), 16));
    const isLight = base.reduce((sum, part) => sum + part) > 384;
    signedTables.set(ground, isLight ? SIGNED : SIGNED.map((_, i) => {
      const share = Math.min(1, Math.abs(i - 128) / 127);
      return base.map((part, c) => Math.round(part + share * (DARK_ENDS[i < 128 ? 0 : 1][c] - part)));
    }));
  }
  return signedTables.get(ground);
}

/** The CSS colour of a value on the signed scale. */
export function signedColour(value, limit) {
  const [r, g, b] = signedTable()[Math.max(0, Math.min(255, Math.round(128 + 127 * value / limit)))];
  return `rgb(${r} ${g} ${b})`;
}

/** Paint the bytes of a signed matrix into a canvas of width × height CSS pixels. */
export function paintSigned(canvas, { rows, columns, bytes }, width, height) {
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const image = new ImageData(columns, rows);
  const table = signedTable();
  bytes.forEach((byte, i) => image.data.set([...table[byte], 255], 4 * i));
  small.getContext("2d").putImageData(image, 0, 0);
  const pen = surface(canvas, width, height);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, width, height);
}

/** A packed signed matrix on a canvas; resolves when it is painted. */
export async function paintPicture(canvas, packed, width, height) {
  paintSigned(canvas, await unpack(packed), width, height);
}

/** The histogram of a tensor's summary. */
export function paintHistogram(canvas, { counts, start, end }, width, height) {
  const pen = surface(canvas, width, height);
  const most = Math.max(...counts);
  const step = width / counts.length;
  const floor = height - 14;
  pen.fillStyle = colour("--accent");
  counts.forEach((count, i) => {
    const tall = (floor - 2) * count / most;
    pen.fillRect(i * step, floor - tall, Math.max(1, step - 1), tall);
  });
  pen.fillStyle = colour("--muted");
  pen.font = `11px ${FONT}`;
  pen.textAlign = "left";
  pen.fillText(figure(start), 0, height - 2);
  pen.textAlign = "right";
  pen.fillText(figure(end), width, height - 2);
}

/** Lines over numbered places: lines of {values, colour, name, strong}, values from low to high;
 * marks are places with an upright line, room is the width that a place's name needs. Where places are
 * not evenly spaced, `at` has their share of the width. Bands are areas of {low, high, colour}. */
export function paintLines(canvas, lines, { width, height, low = 0, high = 1, names, label, marks = [],
  room = 26, at, bands = [] }) {
  const pen = surface(canvas, width, height);
  const [left, right, top, bottom] = [44, 8, 8, 34];
  const count = lines[0].values.length;
  const x = (i) => left + (width - left - right) * (at ? at[i] : count > 1 ? i / (count - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  pen.font = `12px ${FONT}`;
  pen.lineWidth = 1;
  for (const part of range(5)) {
    const value = low + (high - low) * part / 4;
    pen.strokeStyle = colour("--line");
    pen.beginPath();
    pen.moveTo(left, y(value));
    pen.lineTo(width - right, y(value));
    pen.stroke();
    pen.fillStyle = colour("--muted");
    pen.textAlign = "right";
    pen.fillText(label ? label(value) : figure(value), left - 6, y(value) + 4);
  }
  pen.strokeStyle = colour("--muted");
  for (const place of marks) {
    pen.beginPath();
    pen.moveTo(x(place), top);
    pen.lineTo(x(place), height - bottom);
    pen.stroke();
  }
  pen.textAlign = "center";
  const every = Math.ceil(count * room / (width - left - right));
  range(count).filter((i) => i % every === 0).forEach((i) => {
    const name = fitted(pen, names ? String(names[i]) : String(i), 60);
    pen.fillText(name, Math.min(x(i), width - pen.measureText(name).width / 2), height - bottom + 18);
  });
  pen.globalAlpha = 0.16;
  for (const { low: under, high: over, colour: ink } of bands) {
    pen.fillStyle = ink;
    pen.beginPath();
    over.forEach((value, i) => pen.lineTo(x(i), y(value)));
    [...under.entries()].reverse().forEach(([i, value]) => pen.lineTo(x(i), y(value)));
    pen.fill();
  }
  pen.globalAlpha = 1;
  for (const { values, colour: ink, strong, dashed } of [...lines].sort((a, b) => !!a.strong - !!b.strong)) {
    pen.strokeStyle = ink;
    pen.lineWidth = strong ? 3 : 1.5;
    pen.setLineDash(dashed ? [5, 4] : []);
    pen.beginPath();
    values.forEach((value, i) => (i ? pen.lineTo(x(i), y(value)) : pen.moveTo(x(i), y(value))));
    pen.stroke();
  }
  pen.setLineDash([]);
}

/** Names of lines beside their colours. */
export function legend(lines) {
  return make("ul", { class: "legend" }, ...lines.map(({ name, colour: ink, strong, dashed, figure: value }) => {
    const swatch = make("span", { class: dashed ? "swatch dashed" : "swatch" });
    swatch.style.background = ink;
    return make("li", { class: strong ? "strong" : null }, swatch, make("span", {}, name),
      value === undefined ? null : make("span", { class: "figure" }, value));
  }));
}

/** A row of tokens to choose from; onpick(place) is called with the place of the clicked one. */
export function fillTokenRow(row, pieces, chosen, onpick) {
  const focused = row.contains(document.activeElement) ? document.activeElement.dataset.place : null;
  row.classList.add("token-row");
  fill(row, ...pieces.map((piece, place) => make("button", { type: "button",
    "data-place": place, "aria-pressed": String(place === chosen), onclick: () => onpick(place) },
  piece)));
  const mark = row.children[chosen];
  const top = mark ? mark.offsetTop - row.offsetTop : row.scrollTop;
  const isSeen = top >= row.scrollTop && top <= row.scrollTop + row.clientHeight - 30;
  if (!isSeen) row.scrollTop = top - 30;
  row.children[focused]?.focus({ preventScroll: true });
  return row;
}

/** 0.8731 → "87.3 %", 0.00006 → "< 0.1 %" */
export function shareText(share) {
  return share > 0 && share < 0.0005 ? `< ${percent(0.001)}` : percent(share);
}

/** Bars of 0 to 1 in a list: {name, share, colour, strong, mark}; a mark is a word behind the name. */
export function barList(rows) {
  return make("ul", { class: "bar-list" }, ...rows.map(({ name, share, colour: ink, strong, mark }) => {
    const filled = make("span", { class: "filled" });
    filled.style.width = `${100 * share}%`;
    if (ink) filled.style.background = ink;
    return make("li", { class: strong ? "strong" : null },
      make("span", { class: "name", title: name }, name, mark ? make("small", {}, mark) : null),
      make("span", { class: "track" }, filled), make("span", { class: "figure" }, shareText(share)));
  }));
}

/** A difference to one digit, with its sign: 2.31 → "+2.3", −0.01 → "0.0". */
export function points(by) {
  const text = by.toFixed(1).replace(/^-(?=0\.0$)/, "").replace("-", "−");
  return by >= 0.05 ? `+${text}` : text;
}

/** A table of the classes with a bar for each answer of {name, shares}; of two answers also the
 * difference in points, under the heading `change`. */
export function pairedBars(classes, answers, change) {
  const isPair = answers.length === 2;
  const heading = make("tr", {}, make("td"), make("td"),
    ...answers.map(({ name }) => make("th", { scope: "col" }, name)),
    isPair ? make("th", { scope: "col" }, change) : null);
  const rows = classes.map((item, i) => {
    const shares = answers.map((answer) => answer.shares[i]);
    const bars = make("td", { class: "bars-of" }, ...shares.map((share) => {
      const bar = make("span");
      bar.style.width = `${100 * share}%`;
      bar.style.background = item.colour;
      return bar;
    }));
    const by = 100 * (shares.at(-1) - shares[0]);
    return make("tr", { "data-class": item.key }, make("th", { scope: "row" }, className(item)), bars,
      ...shares.map((share) => make("td", {}, percent(share))),
      isPair ? make("td", { class: "change" }, points(by)) : null);
  });
  return make("table", { class: "paired" }, make("thead", {}, heading), make("tbody", {}, ...rows));
}

/** The axis of some lines of cosines: from 1 down to below the lowest, in four round steps. */
export function cosineAxis(lines) {
  const lowest = Math.min(...lines.flatMap(({ values }) => values));
  const step = [0.025, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4].find((size) => 1 - 4 * size <= lowest) ?? 0.5;
  return { low: 1 - 4 * step, high: 1, label: (value) => String(+value.toFixed(3)).replace("-", "−") };
}
