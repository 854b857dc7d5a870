// Matrices to pixels: one colour table, one scale for all matrices of a picture.

import { COLOURS } from "./boot.js";
import { colour } from "./dom.js";
import { state } from "./store.js";

/** The weight that gets the brightest colour: 1, so that pictures can be compared, or, if asked for,
 * the largest weight among all matrices of the picture. */
export function brightest(matrices) {
  if (!state.stretch) return 1;
  return matrices.reduce((top, weights) => weights.reduce((a, b) => Math.max(a, b), top), 0) || 1;
}

/** A canvas of size × size pixels, one for each cell: `top` is brightest, weights under `fade` fall
 * back. */
export function pixels(size, weights, fade, top = 1) {
  const canvas = document.createElement("canvas");
  canvas.width = size;
  canvas.height = size;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(size, size);
  const ground = rgb(colour("--panel"));
  for (let i = 0; i < size * size; i++) {
    const weight = weights[i];
    const [r, g, b] = shade(weight / top);
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
export function paintMatrix(pen, x, y, side, size, weights, fade, top = 1) {
  pen.imageSmoothingEnabled = false;
  pen.drawImage(pixels(size, weights, fade, top), x, y, side, side);
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

function shade(share) {
  return COLOURS[Math.max(0, Math.min(255, Math.round(255 * share)))];
}

export function cssColour(weight) {
  const [r, g, b] = shade(weight);
  return `rgb(${r} ${g} ${b})`;
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
