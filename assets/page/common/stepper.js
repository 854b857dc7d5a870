// Layer and head, chosen from a list or step by step.

import { range } from "./answer.js";
import { say } from "./boot.js";
import { fill, make } from "./dom.js";
import { currentAnswer, listen, state, update } from "./store.js";

function options(answer, what, isStudy) {
  const numbers = range(answer[`${what}s`]).map((i) => [i + 1, say(`${what}_n`, { n: i + 1 })]);
  if (isStudy) return numbers;
  return what === "head" ? [["mean", say("mean_heads")], ...numbers]
    : [...numbers, ["mean", say("mean_layers")], ["rollout", say("rollout")]];
}

/** A selector with a step to either side; a study has no means to choose. */
export function stepper(what, isStudy = false) {
  const select = make("select", { class: `choose-${what}` });
  const back = make("button", { type: "button", class: "step" }, "‹");
  const forth = make("button", { type: "button", class: "step" }, "›");
  const choose = (value) => {
    const chosen = /^\d+$/.test(value) ? Number(value) : value;
    const wholeModel = what === "layer" && typeof chosen !== "number";
    update({ [what]: chosen, isChosen: true, ...(wholeModel ? { head: "mean" } : {}) });
  };
  const step = (by) => {
    const next = select.options[select.selectedIndex + by];
    if (next) choose(next.value);
  };
  back.addEventListener("click", () => step(-1));
  forth.addEventListener("click", () => step(1));
  select.addEventListener("change", () => choose(select.value));
  let drawnFor = "";
  function draw() {
    const answer = currentAnswer();
    select.setAttribute("aria-label", say(what));
    back.setAttribute("aria-label", say(`previous_${what}`));
    forth.setAttribute("aria-label", say(`next_${what}`));
    if (!answer) return;
    const signature = `${state.language}/${answer.layers}/${answer.heads}`;
    if (drawnFor !== signature) {
      drawnFor = signature;
      fill(select, ...options(answer, what, isStudy).map(([value, text]) => make("option", { value }, text)));
    }
    select.value = String(state[what]);
    const isIdle = !isStudy && (what === "head"
      ? typeof state.layer !== "number" && state.view !== "ends" : state.view === "ends");
    select.disabled = isIdle;
    back.disabled = isIdle || select.selectedIndex <= 0;
    forth.disabled = isIdle || select.selectedIndex >= select.options.length - 1;
  }
  listen(["language", "answer", "layer", "head", "view"], draw);
  draw();
  return make("div", { class: "stepper" }, back, select, forth);
}
