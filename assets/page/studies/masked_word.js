// Fill the blank: words become [MASK], the pre-trained network guesses what stood there.

import { say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { barList, shareText } from "../common/charts.js";

const MASK = "[MASK]";

function truth({ piece, rank, probability }) {
  if (piece === null) return say("masked_word_typed");
  if (rank === null) return say("masked_word_unknown", { piece });
  return say("masked_word_truth", { piece, rank: rank.toLocaleString("en"), percent: shareText(probability) });
}

/** What became of a drawn piece: "mask", "random" or "same". */
function fate(piece, became) {
  return became === MASK ? "mask" : became === piece ? "same" : "random";
}

function fateText(piece, became) {
  const what = fate(piece, became);
  if (what === "mask") return say("masked_word_became_mask", { piece });
  return what === "same" ? say("masked_word_became_same", { piece })
    : say("masked_word_became_random", { piece, became });
}

export function build(place, choose) {
  const hint = make("h3");
  const words = make("div", { class: "token-row words-row", role: "group" });
  const finding = make("p", { class: "finding" });
  const readsTitle = make("h3");
  const reads = make("p", { class: "reads" });
  const cards = make("div", { class: "blanks" });
  const scheme = make("h3");
  const schemeWhat = make("p");
  const again = make("button", { type: "button", class: "quiet" });
  const drawn = make("p", { class: "drawn", role: "status" });
  const lot = make("p", { class: "reads lot" });
  const keys = make("p", { class: "keys" });
  place.append(hint, words, finding, readsTitle, reads, cards, make("section", { class: "scheme" },
    scheme, schemeWhat, make("div", { class: "draw-row" }, again, drawn), lot, keys));
  let shown = null;   // what is on the screen
  let number = 0;     // which of the draws
  let wordsOf = null; // the words that the buttons were made for

  function toggle(word) {
    const { chosen, blanks } = shown;
    const wanted = chosen.includes(word) ? chosen.filter((other) => other !== word)
      : [...chosen, word].sort((a, b) => a - b);
    const hasTyped = blanks.some(({ piece }) => piece === null);
    if (wanted.length || hasTyped) choose({ masked: wanted.length ? wanted.join(".") : null });
  }

  function drawWords({ words: all, chosen }) {
    const names = JSON.stringify(all);
    if (wordsOf !== names) {
      wordsOf = names;
      fill(words, ...all.map(({ name }, word) => make("button", { type: "button", "data-word": word,
        onclick: () => toggle(word) }, name)));
    }
    words.setAttribute("aria-label", say("masked_word_words"));
    [...words.children].forEach((button, word) => {
      const isHidden = chosen.includes(word);
      button.setAttribute("aria-pressed", String(isHidden));
      button.title = say(isHidden ? "masked_word_hidden" : "masked_word_shown", { word: all[word].name });
    });
  }

  function drawFinding({ blanks, vocabulary }) {
    const known = blanks.filter(({ rank }) => rank !== null);
    const figures = { vocabulary: vocabulary.toLocaleString("en") };
    finding.textContent = blanks.length > 1 && known.length
      ? say("masked_word_finding", { ...figures, count: known.length,
        right: known.filter(({ rank }) => rank === 1).length })
      : say("masked_word_finding_one", { ...figures, best: blanks[0].best[0][0],
        percent: shareText(blanks[0].best[0][1]) });
  }

  function drawLot() {
    const { pieces, special, draws } = shown;
    const draw = draws[number % draws.length];
    const became = new Map(draw.map((one) => [one.place, one.became]));
    const count = (what) => draw.filter((one) => fate(pieces[one.place], one.became) === what).length;
    drawn.textContent = say("masked_word_drawn", { n: number % draws.length + 1, count: draw.length,
      pieces: special.filter((is) => !is).length, masked: count("mask"), random: count("random"),
      kept: count("same") });
    fill(lot, ...pieces.flatMap((piece, at) => {
      if (!became.has(at)) return [make("span", { class: special[at] ? "special" : null }, piece), " "];
      const now = became.get(at);
      const what = fate(piece, now);
      return [make("span", { class: `lot-${what}`, title: fateText(piece, now) },
        what === "same" ? null : make("s", {}, piece), what === "same" ? null : " ", now), " "];
    }));
  }
  again.addEventListener("click", () => {
    number += 1;
    drawLot();
  });

  return function draw(data) {
    shown = data;
    const { pieces, special, blanks } = data;
    hint.textContent = say("masked_word_words");
    readsTitle.textContent = say("masked_word_reads");
    scheme.textContent = say("masked_word_scheme");
    schemeWhat.textContent = say("masked_word_scheme_what");
    again.textContent = say("masked_word_draw");
    drawWords(data);
    drawFinding(data);
    const numbers = new Map(blanks.map((blank, i) => [blank.place, i + 1]));
    fill(reads, ...pieces.flatMap((piece, at) => [numbers.has(at)
      ? make("span", { class: "mask" }, MASK, blanks.length > 1 ? make("sub", {}, numbers.get(at)) : null)
      : make("span", { class: special[at] ? "special" : null }, piece), " "]));
    fill(cards, ...blanks.map((blank, i) => make("section", { class: "blank", "data-place": blank.place },
      make("h3", {}, say("masked_word_place", { n: i + 1 })), make("p", { class: "truth" }, truth(blank)),
      barList(blank.best.map(([piece, share]) => {
        const isTruth = blank.rank !== null && piece === blank.piece;
        return { name: piece, share, strong: isTruth, mark: isTruth ? say("masked_word_candidate") : null };
      })))));
    fill(keys, make("span", { class: "lot-mask" }, say("masked_word_key_mask")), " ",
      make("span", { class: "lot-random" }, say("masked_word_key_random")), " ",
      make("span", { class: "lot-same" }, say("masked_word_key_same")));
    drawLot();
  };
}
