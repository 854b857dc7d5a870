// What every script knows before it asks (bert/page/boot.py): texts in both languages, the colour
// table, limits.

const boot = globalThis.microscopeBoot;

const table = (hexes) => hexes.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

export const COLOURS = table(boot.colours.viridis); // weights of 0 to 1
export const SIGNED = table(boot.colours.signed);   // −limit to limit
export const LIMIT = boot.limit;
export const STUDY_GROUPS = boot.studies;           // bert/studies/__init__.py: options of each study
export const LANGUAGES = Object.keys(boot.texts);

let language = "en";

export function speak(chosen) {
  language = chosen;
}

/** A text of the page in the current language: say("layer_n", {n: 3}). */
export function say(key, values = {}) {
  const template = boot.texts[language][key];
  if (typeof template !== "string") return template;
  // 슬픔이(가) → 슬픔이, 분노이(가) → 분노가: whether the last syllable ends in a consonant.
  return template.replace(/\{(\w+)\}/g, (_, name) => values[name])
    .replace(/([가-힣])(”?)([이은을])\(([가는를])\)/g, (_, syllable, quote, closed, opened) =>
      syllable + quote + ((syllable.codePointAt(0) - 0xac00) % 28 ? closed : opened));
}

/** 0.8731 → "87.3 %" */
export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** The class's name in the current language. */
export function className(item) {
  return item[language] ?? item.key;
}

/** The glossary of the current language: shown names, in small letters, and their keys. */
export function terms() {
  const table = boot.texts[language];
  return { language, terms: Object.fromEntries(Object.keys(table).filter((key) => key.startsWith("term_"))
    .map((key) => [table[key].toLowerCase(), key.slice("term_".length)])) };
}

export const TOUR = boot.tour;       // bert/page/tour.py: which view each step opens
export const GALLERY = boot.gallery; // assets/page/data/gallery.json
export const EXAMPLES = boot.examples; // assets/page/data/study_examples.json, by tab and language
