// A walk through the network on the visitor's own sentence: each step opens the real view.

import { TOUR, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { currentAnswer, listen, state, update } from "../common/store.js";
import { ATTENTION_VIEWS, STUDIES, open } from "../common/studies.js";

const OFFERED = "microscope-tour";
const PARTS = { strip: ".strip-frame", bars: ".feelings" }; // what a step speaks of, if not its study

export function mount(element) {
  const box = make("section", { class: "tour", role: "dialog", hidden: true, tabindex: -1 });
  element.append(box);
  let marked = null;

  const at = () => (state.tour ?? 0) - 1; // −1: not on the way
  const go = (step) => update({ tour: step + 1 });
  const leave = () => update({ tour: null });

  function show() {
    draw();
    mark();
    if (at() < 0) return;
    localStorage.setItem(OFFERED, "seen");
    const { tab, options: { tokens, ...options } } = TOUR[at()];
    if (tokens) update({ words: tokens === "words" });
    const [layer, head] = currentAnswer()?.matters ?? [];
    const isOneHead = STUDIES[tab]?.uses.includes("head");
    open(tab === "attention" ? ATTENTION_VIEWS[0] : tab, isOneHead ? { layer, head, ...options } : options);
    mark();
    box.focus();
  }

  /** Show where the step is; a view that is still being opened is found a moment later. */
  function mark(tries = 20) {
    marked?.classList.remove("tour-target");
    marked = null;
    if (at() < 0) return;
    const { tab, part } = TOUR[at()];
    const found = document.querySelector(PARTS[part] ?? `[data-study="${tab}"]`);
    if (!found || !found.offsetParent) {
      if (tries) setTimeout(() => mark(tries - 1), 100);
      return;
    }
    marked = found;
    marked.classList.add("tour-target");
    marked.scrollIntoView({ block: "nearest" });
  }

  function button(text, act, name) {
    return make("button", { type: "button", class: name === "next" ? "main" : "quiet",
      "data-step": name, onclick: act }, text);
  }

  function draw() {
    const step = at();
    box.hidden = step < 0;
    if (box.hidden) return;
    const isLast = step === TOUR.length - 1;
    box.setAttribute("aria-label", say(`tour_${step + 1}_title`));
    box.dataset.step = step + 1;
    fill(box, make("small", {}, say("tour_step", { n: step + 1, all: TOUR.length })),
      make("h2", {}, say(`tour_${step + 1}_title`)), make("p", {}, say(`tour_${step + 1}_text`)),
      make("div", { class: "row" }, button(say(isLast ? "tour_done" : "tour_leave"), leave, "leave"),
        step ? button(say("tour_back"), () => go(step - 1), "back") : null,
        isLast ? null : button(say("tour_next"), () => go(step + 1), "next")));
  }

  function offer() {
    box.hidden = false;
    box.setAttribute("aria-label", say("tour_name"));
    fill(box, make("p", {}, say("tour_offer", { all: TOUR.length })), make("div", { class: "row" },
      button(say("tour_decline"), () => {
        localStorage.setItem(OFFERED, "seen");
        box.hidden = true;
      }, "leave"), button(say("tour_name"), () => go(0), "next")));
  }

  document.addEventListener("keydown", (event) => {
    if (at() < 0) return;
    if (event.key === "Escape") leave();
    if (!box.contains(document.activeElement)) return; // arrows belong to whatever has the focus
    if (event.key === "ArrowRight" && at() < TOUR.length - 1) go(at() + 1);
    if (event.key === "ArrowLeft" && at() > 0) go(at() - 1);
  });
  listen(["tour"], show);
  listen(["language"], () => (at() < 0 ? null : draw()));
  // Offered once, after a first text of one's own.
  listen(["answer"], () => {
    const isOwn = state.answer && state.messages.length > 1;
    if (isOwn && at() < 0 && !localStorage.getItem(OFFERED)) offer();
  });
  if (state.tour) show();
}
