// Next sentence: does a second text follow the first? And how the model reads the two.

import { LIMIT, percent, say } from "../common/boot.js";
import { colour, fill, make } from "../common/dom.js";
import { barList } from "../common/charts.js";

export function build(place, choose) {
  const label = make("label", { for: "next-sentence-second" });
  const box = make("textarea", { id: "next-sentence-second", rows: 2, dir: "auto", autocomplete: "off",
    maxlength: LIMIT, "aria-describedby": "next-sentence-keys" });
  const send = make("button", { type: "submit", class: "main" });
  const keys = make("span", { id: "next-sentence-keys", class: "unseen" });
  const chips = ["follows", "random", "same"].map((kind) => make("button", { type: "button",
    class: "chip", "data-example": kind, onclick: () => ask(shown.examples[kind]) }));
  const examples = make("div", { class: "examples", role: "group" }, ...chips);
  const form = make("form", { class: "second" }, label, make("div", { class: "box" }, box, send), keys,
    examples);
  const finding = make("p", { class: "finding", role: "status" });
  const bars = make("div", { class: "probabilities" });
  const pairTitle = make("h3");
  const pair = make("p", { class: "pair-read" });
  const legend = make("p", { class: "keys" });
  const cut = make("p", { class: "cut" });
  const scheme = make("h3");
  const schemeWhat = make("p");
  place.append(form, finding, bars, pairTitle, pair, legend, cut, scheme, schemeWhat);
  let shown = null;
  let written = null; // what was last put into the box; typing is left alone until the next answer

  /** Ask about a second text; without one the server takes its example. */
  function ask(text) {
    written = null;
    choose({ second: text.trim() ? text : null });
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(box.value);
  });
  box.addEventListener("keydown", (event) => {
    // While an input method is composing a syllable, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    ask(box.value);
  });

  return function draw(data) {
    shown = data;
    const { second, pieces, segments, special, probabilities, examples: texts, truncated } = data;
    const [follows, random] = probabilities;
    label.textContent = say("next_sentence_second");
    send.textContent = say("next_sentence_ask");
    keys.textContent = say("next_sentence_keys");
    examples.setAttribute("aria-label", say("next_sentence_examples"));
    [say("next_sentence_example_follows"), say("next_sentence_example_random"), say("next_sentence_example_same")]
      .forEach((text, i) => {
        chips[i].textContent = text;
        chips[i].title = texts[chips[i].dataset.example];
        chips[i].setAttribute("aria-pressed", String(chips[i].title === second));
      });
    if (written !== second) {
      written = second;
      box.value = second;
    }
    finding.textContent = follows >= random
      ? say("next_sentence_finding_follows", { percent: percent(follows) })
      : say("next_sentence_finding_random", { percent: percent(random) });
    fill(bars, barList([
      { name: say("next_sentence_follows"), share: follows, colour: colour("--for"), strong: follows >= random },
      { name: say("next_sentence_random"), share: random, colour: colour("--against"), strong: random > follows }]));
    pairTitle.textContent = say("next_sentence_pair");
    fill(pair, ...pieces.flatMap((piece, at) => [make("span", { "data-segment": segments[at],
      class: special[at] ? "special" : null }, piece), " "]));
    fill(legend, make("span", { "data-segment": 0 }, say("next_sentence_segment_a")), " ",
      make("span", { "data-segment": 1 }, say("next_sentence_segment_b")));
    cut.hidden = !truncated;
    cut.textContent = truncated ? say("next_sentence_truncated", { pieces: pieces.length }) : "";
    scheme.textContent = say("next_sentence_scheme");
    schemeWhat.textContent = say("next_sentence_scheme_what");
  };
}
