// Charts that several studies share: pictures of tensors, histograms, lines, a row of tokens.

import { inflate, range } from "./answer.js";
import { SIGNED } from "./boot.js";
import { FONT, colour, fill, fitted, make, surface } from "./dom.js";

/** 0.0312 → "0.031", −12.3456 → "−12.35": three or four digits that a person can take in. */
export function figure(value) {
  const size = Math.abs(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 2 : 3;
  return value.toFixed(digits).replace("-", "−");
}

/** The bytes of a picture made by bert.lab.picture: 128 is zero, 1 and 255 are ∓limit. */
export function bytesOf(picture) {
  return inflate(picture.packed);
}

/** The CSS colour of a value on the signed scale. */
export function signedColour(value, limit) {
  const [r, g, b] = SIGNED[Math.max(0, Math.min(255, Math.round(128 + 127 * value / limit)))];
  return `rgb(${r} ${g} ${b})`;
}

/** Paint a picture's bytes into a canvas of width × height CSS pixels. */
export function paintBytes(canvas, bytes, rows, columns, width, height) {
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const image = new ImageData(columns, rows);
  bytes.forEach((byte, i) => image.data.set([...SIGNED[byte], 255], 4 * i));
  small.getContext("2d").putImageData(image, 0, 0);
  const pen = surface(canvas, width, height);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, width, height);
}

/** A picture of bert.lab.picture on a canvas; resolves when it is painted. */
export async function paintPicture(canvas, picture, width, height) {
  paintBytes(canvas, await bytesOf(picture), picture.rows, picture.columns, width, height);
}

/** The histogram of bert.lab.summary. */
export function paintHistogram(canvas, { counts, from, to }, width, height) {
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
  pen.fillText(figure(from), 0, height - 2);
  pen.textAlign = "right";
  pen.fillText(figure(to), width, height - 2);
}

/** Lines over numbered places: lines of {values, colour, name, strong}, values from low to high. */
export function paintLines(canvas, lines, { width, height, low = 0, high = 1, names, label }) {
  const pen = surface(canvas, width, height);
  const [left, right, top, bottom] = [44, 8, 8, 34];
  const count = lines[0].values.length;
  const x = (i) => left + (width - left - right) * (count > 1 ? i / (count - 1) : 0.5);
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
  pen.textAlign = "center";
  const every = Math.ceil(count * 26 / (width - left - right));
  range(count).filter((i) => i % every === 0).forEach((i) => pen.fillText(
    fitted(pen, names ? String(names[i]) : String(i), 60), x(i), height - bottom + 18));
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
  return make("ul", { class: "legend" }, ...lines.map(({ name, colour: ink, strong, figure: value }) => {
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = ink;
    return make("li", { class: strong ? "strong" : null }, swatch, make("span", {}, name),
      value === undefined ? null : make("span", { class: "figure" }, value));
  }));
}

/** A row of tokens to choose from; onpick(place) is called with the place of the clicked one. */
export function fillTokenRow(row, pieces, chosen, onpick) {
  row.classList.add("token-row");
  return fill(row, ...pieces.map((piece, place) => make("button", { type: "button",
    "data-place": place, "aria-pressed": String(place === chosen), onclick: () => onpick(place) },
  piece)));
}
