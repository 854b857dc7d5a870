// A walk through the network on the visitor's own sentence: each step opens the real view.

import { TOUR, say } from "../shared/boot.js";
import { fill, make } from "../shared/dom.js";
import { currentAnswer, listen, state, update } from "../shared/store.js";
import { ATTENTION_VIEWS, STUDIES, open } from "../shared/studies.js";

const OFFERED = "microscope-tour";
const PARTS = { strip: ".strip-frame", bars: ".feelings" }; // what a step speaks of, if not its study

export function mount(element) {
  const box = make("section", { class: "tour", role: "dialog", hidden: true, tabindex: -1 });
  element.append(box);
  let at = -1; // −1: not on the way
  let marked = null;

  function go(step) {
    at = step;
    localStorage.setItem(OFFERED, "seen");
    const { tab, options: { tokens, ...options } } = TOUR[at];
    if (tokens) update({ words: tokens === "words" });
    const [layer, head] = currentAnswer()?.matters ?? [];
    const isOneHead = STUDIES[tab]?.uses.includes("head");
    open(tab === "attention" ? ATTENTION_VIEWS[0] : tab, isOneHead ? { layer, head, ...options } : options);
    draw();
    mark();
    box.focus();
  }

  function leave() {
    at = -1;
    box.hidden = true;
    mark();
  }

  /** Show where the step is; a view that is still being opened is found a moment later. */
  function mark(tries = 20) {
    marked?.classList.remove("tour-target");
    marked = null;
    if (at < 0) return;
    const { tab, part } = TOUR[at];
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
    box.hidden = at < 0;
    if (box.hidden) return;
    const isLast = at === TOUR.length - 1;
    box.setAttribute("aria-label", say(`tour_${at + 1}_title`));
    box.dataset.step = at + 1;
    fill(box, make("small", {}, say("tour_step", { n: at + 1, all: TOUR.length })),
      make("h2", {}, say(`tour_${at + 1}_title`)), make("p", {}, say(`tour_${at + 1}_text`)),
      make("div", { class: "row" }, button(say(isLast ? "tour_done" : "tour_leave"), leave, "leave"),
        at ? button(say("tour_back"), () => go(at - 1), "back") : null,
        isLast ? null : button(say("tour_next"), () => go(at + 1), "next")));
  }

  function offer() {
    box.hidden = false;
    fill(box, make("p", {}, say("tour_offer", { all: TOUR.length })), make("div", { class: "row" },
      button(say("tour_decline"), () => {
        localStorage.setItem(OFFERED, "seen");
        leave();
      }, "leave"), button(say("tour_name"), () => go(0), "next")));
  }

  document.addEventListener("keydown", (event) => {
    if (at < 0) return;
    if (event.key === "Escape") leave();
    if (!box.contains(document.activeElement)) return; // arrows belong to whatever has the focus
    if (event.key === "ArrowRight" && at < TOUR.length - 1) go(at + 1);
    if (event.key === "ArrowLeft" && at > 0) go(at - 1);
  });
  window.microscopeTour = () => go(0);
  listen(["language"], () => (at < 0 ? null : draw()));
  let isOffered = Boolean(localStorage.getItem(OFFERED));
  listen(["answer"], () => {
    if (isOffered || !state.answer) return;
    isOffered = true;
    if (at < 0 && state.messages.length > 1) offer(); // after a first text of one's own
    else isOffered = false;
  });
}
