// Examples worth a look, one click each: the text is sent and the view that shows it opens.

import { GALLERY, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { showExample } from "../common/examples.js";
import { listen, state } from "../common/store.js";

export function mount(element) {
  const title = make("h2");
  const cards = make("div", { class: "cards" });
  element.append(make("section", { class: "gallery" }, title, cards));

  function show(card) {
    showExample(card);
    window.scrollTo({ top: 0 });
  }

  function draw() {
    title.textContent = say("gallery_title");
    fill(cards, ...GALLERY.map((card) => make("button", { type: "button", class: "card",
      "data-card": card.key, onclick: () => show(card) },
    make("b", {}, card.title[state.language]), make("span", {}, card.says[state.language]),
    make("q", { dir: "auto" }, card.text))));
  }

  listen(["language"], draw);
  draw();
}
