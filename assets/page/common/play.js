// ▶: walk through the layers, one after the other; not for those who want nothing to move.

import { say } from "./boot.js";
import { make } from "./dom.js";
import { listen } from "./store.js";

const PAUSE = 700; // milliseconds on a layer

/** A button that plays. `begin()` goes to the first layer, if there is need; `next()` takes a step and
 * says whether there was one to take. */
export function playButton(begin, next) {
  let timer = null;
  const button = make("button", { type: "button", class: "quiet play", onclick: () => (timer ? stop() : play()) });

  function play() {
    begin();
    timer = setInterval(() => next() || stop(), PAUSE);
    draw();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    draw();
  }

  function draw() {
    button.textContent = timer ? "❚❚" : "▶";
    button.setAttribute("aria-label", say(timer ? "pause" : "play"));
    button.title = say(timer ? "pause" : "play");
  }

  button.hidden = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  listen(["language"], draw);
  draw();
  return button;
}
