// The address of the page is the view: read once at the start, kept current from then on.

import { LANGUAGES } from "./boot.js";
import { currentAnswer, currentMessage, state } from "./store.js";
import { STUDIES, VIEW_NAMES } from "./studies.js";

const LONGEST = 6000; // characters of an address that every server and chat program takes

const OURS = ["text", "layer", "head", "view", "lang", "tokens", "special", "fade", "scale",
  "class",
  ...Object.values(STUDIES).flatMap(({ options }) => options)];

/** What the address asks for; what is impossible is left out. */
export function readAddress() {
  const given = new URLSearchParams(window.location.search);
  const asked = {};
  if (LANGUAGES.includes(given.get("lang"))) asked.language = given.get("lang");
  if (VIEW_NAMES.includes(given.get("view"))) asked.view = given.get("view");
  asked.options = Object.fromEntries((STUDIES[asked.view]?.options ?? [])
    .filter((name) => given.has(name)).map((name) => [name, given.get(name)]));
  for (const name of ["layer", "head"]) {
    const value = given.get(name);
    if (/^[1-9]\d{0,3}$/.test(value)) asked[name] = Number(value);
    else if (value === "mean" || (name === "layer" && value === "rollout")) asked[name] = value;
  }
  asked.words = given.get("tokens") === "words";
  asked.hideSpecial = given.get("special") === "hidden";
  const fade = Number(given.get("fade"));
  asked.fade = fade > 0 && fade <= 0.5 ? fade : 0;
  asked.stretch = given.get("scale") === "max";
  return { asked, text: given.get("text"), explain: given.get("class") };
}

/** Layer and head as this checkpoint has them; anything else falls back to the defaults, and a study
 * that looks at one layer or one head gets one. */
export function possible(answer, { layer, head, view }) {
  const uses = STUDIES[view]?.uses ?? [];
  const isWhole = ["mean", "rollout"].includes(layer) && !uses.includes("layer");
  const isLayer = isWhole || (layer >= 1 && layer <= answer.layers);
  const chosen = isLayer ? layer : answer.layers;
  const isHead = (typeof chosen === "number" || view === "ends") && head >= 1 && head <= answer.heads;
  return { layer: chosen, head: isHead ? head : uses.includes("head") ? 1 : "mean" };
}

/** The address of what is on the screen. */
export function viewAddress() {
  const read = currentAnswer() ?? currentMessage(); // of what waits or failed there is the text
  const kept = new URLSearchParams(window.location.search);
  for (const name of OURS) kept.delete(name);
  if (read) kept.set("text", read.truncated ? read.read : read.text);
  if (state.layer !== null) {
    kept.set("layer", state.layer);
    kept.set("head", state.head);
  }
  kept.set("view", state.view);
  for (const name of STUDIES[state.view]?.options ?? []) {
    if (name in state.options) kept.set(name, state.options[name]);
  }
  if (state.words) kept.set("tokens", "words");
  if (state.hideSpecial) kept.set("special", "hidden");
  if (state.fade) kept.set("fade", state.fade);
  if (state.stretch) kept.set("scale", "max");
  if (state.attribution) kept.set("class", state.attribution.key);
  kept.set("lang", state.language);
  const address = new URL(window.location.href);
  address.search = kept.toString();
  if (address.href.length > LONGEST) {
    kept.delete("text");
    address.search = kept.toString();
  }
  return address.href;
}

/** Write the address into the browser's bar without leaving a trail in its history. */
export function writeAddress() {
  window.history.replaceState(window.history.state, "", viewAddress());
}
