// Words for everything: a term of the field gives its one-sentence meaning when it is hovered or focused.

import { say, terms } from "./boot.js";
import { make } from "./dom.js";

let known = null; // of the language that was asked for last
let language = null;

function pattern(now) {
  if (language !== now.language) {
    language = now.language;
    const names = Object.keys(now.terms).sort((a, b) => b.length - a.length)
      .map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    known = names.length ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${names.join("|")})(?![a-z])`, "iu") : null;
  }
  return known;
}

/** A sentence as text and terms; each term is explained where it first appears. */
export function glossed(sentence) {
  const now = terms();
  const search = pattern(now);
  const parts = [];
  const seen = new Set();
  let rest = sentence;
  let kept = "";
  while (search && rest) {
    const found = search.exec(rest);
    if (!found) break;
    const [word] = found;
    const key = now.terms[word.toLowerCase()];
    kept += rest.slice(0, found.index);
    rest = rest.slice(found.index + word.length);
    if (seen.has(key)) kept += word;
    else {
      seen.add(key);
      parts.push(kept, term(word, key));
      kept = "";
    }
  }
  return [...parts, kept + rest].filter((part) => part !== "");
}

function term(word, key) {
  return make("span", { class: "term", tabindex: 0, role: "note",
    "aria-label": `${word}: ${say(`meaning_${key}`)}`, "data-meaning": say(`meaning_${key}`) }, word);
}
