// Matrices to pixels: one colour table, one fixed scale from 0 to 1.

import { COLOURS } from "./boot.js";
import { colour } from "./dom.js";

/** A canvas of size × size pixels, one for each cell; weights under `fade` fall back. */
export function pixels(size, weights, fade) {
  const canvas = document.createElement("canvas");
  canvas.width = size;
  canvas.height = size;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(size, size);
  const ground = rgb(colour("--panel"));
  for (let i = 0; i < size * size; i++) {
    const weight = weights[i];
    const [r, g, b] = COLOURS[Math.max(0, Math.min(255, Math.round(255 * weight)))];
    const keep = weight < fade ? 0.12 : 1;
    image.data[4 * i] = keep * r + (1 - keep) * ground[0];
    image.data[4 * i + 1] = keep * g + (1 - keep) * ground[1];
    image.data[4 * i + 2] = keep * b + (1 - keep) * ground[2];
    image.data[4 * i + 3] = 255;
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** Draw the whole matrix into a square of a surface. */
export function paintMatrix(pen, x, y, side, size, weights, fade) {
  pen.imageSmoothingEnabled = false;
  pen.drawImage(pixels(size, weights, fade), x, y, side, side);
}

/** A band around a row or column: light and dark, so that it shows on every colour. */
export function paintBand(pen, x, y, width, height) {
  pen.lineWidth = 3;
  pen.strokeStyle = "#000";
  pen.strokeRect(x, y, width, height);
  pen.lineWidth = 1.5;
  pen.strokeStyle = "#fff";
  pen.strokeRect(x, y, width, height);
}

export function cssColour(weight) {
  const [r, g, b] = COLOURS[Math.max(0, Math.min(255, Math.round(255 * weight)))];
  return `rgb(${r} ${g} ${b})`;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
