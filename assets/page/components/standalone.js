// One answer in a file of its own: the components of the page, fed from what the file holds.

import { speak } from "../common/boot.js";
import { make } from "../common/dom.js";
import { update } from "../common/store.js";
import { mount as attention } from "./attention.js";
import { mount as bars } from "./bars.js";
import { mount as strip } from "./strip.js";

const { visit, chosen } = globalThis.microscopeAnswer;
const { language, view, layer, head } = chosen;

speak(language);
const isDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
document.body.classList.toggle("dark", isDark);
update({ language, view, layer, head: head ?? "mean", isChosen: layer !== null });

const text = make("h1", { dir: "auto" }, visit.answer.text);
const left = make("div", { class: "microscope" });
const right = make("div", { class: "microscope" });
const words = make("div", { class: "microscope" });
document.body.append(make("div", { class: "microscope" }, text), make("main", {}, left,
  make("div", {}, words, right)));

/** A component draws what it is given, once. */
function give(mount, element, value) {
  const props = { value: "" };
  let draw = () => {};
  mount(element, { props, watch: (_, act) => { draw = act; }, trigger() {} });
  props.value = JSON.stringify(value);
  return draw();
}

give(attention, right, null);
give(strip, words, null);
await give(bars, left, visit);
const { attributions, probabilities, model } = visit.answer;
if (probabilities.length) {
  const { key } = model.classes[probabilities.indexOf(Math.max(...probabilities))];
  update({ attribution: { key, status: "done", ...attributions[key] } });
}
document.body.dataset.ready = "true";
