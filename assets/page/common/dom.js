// Small helpers for building elements. Text always goes in as text, never as HTML.

/** make("button", {class: "x", onclick: f}, "label", child) builds one element. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Replace everything inside an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Call `act` when a pointer leaves an element; a finger that is lifted leaves what it touched. */
export function onLeave(element, act) {
  element.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && act());
}

/** A drawing surface of a size in CSS pixels, sharp on every screen. */
export function surface(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

/** The value of one of the page's CSS colours, e.g. colour("--ink"). */
export function colour(name) {
  return getComputedStyle(document.querySelector(".microscope")).getPropertyValue(name).trim();
}

export const FONT = '"Microscope Gothic", system-ui, sans-serif';

/** What a person sees of a text on a canvas: no control or invisible characters, cut to fit. */
export function fitted(pen, text, width) {
  const visible = text.replace(/[\p{Cc}\p{Cf}]/gu, "");
  if (pen.measureText(visible).width <= width) return visible;
  const characters = [...visible];
  while (characters.length > 1 && pen.measureText(characters.join("") + "…").width > width) {
    characters.pop();
  }
  return characters.join("") + "…";
}
