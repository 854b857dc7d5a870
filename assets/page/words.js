// Sentences that several panels need, in the current language.

import { className, percent, say } from "./boot.js";

const TORN = { both: 0.75, second: 0.2 }; // shares at which the model is torn between two, not blind

/** "[SEP] sink" for a tag; with figures: "[SEP] sink · 61 %". */
export function tagText(tag, withFigure = false) {
  const text = say(`tag_${tag.name}`, { token: tag.token });
  if (!withFigure) return text;
  return ["broad", "mixed"].includes(tag.name)
    ? say("tag_tokens", { tag: text, tokens: tag.share.toFixed(1) })
    : say("tag_share", { tag: text, percent: percent(tag.share, 0) });
}

/** "9 of 12 heads rest on [SEP]" */
export function summaryText(answer, layer) {
  const { name, count } = answer.summaries[layer - 1];
  return say(`summary_${name}`, { count, heads: answer.heads });
}

/** The name of what is selected: "Layer 3 · Head 5". */
export function selectionText(layer, head) {
  if (layer === "rollout") return say("rollout");
  if (layer === "mean") return say("mean_layers");
  return `${say("layer_n", { n: layer })} · ${head === "mean" ? say("mean_heads")
    : say("head_n", { n: head })}`;
}

/** The answer of the chat: the classes worth naming, or why there is no clear one. */
export function answerText(answer) {
  const { classes, threshold, has_classifier: hasClassifier } = answer.model;
  if (!hasClassifier) return say("no_classifier_answer");
  const ranked = classes.map((item, i) => ({ item, share: answer.probabilities[i] }))
    .sort((a, b) => b.share - a.share);
  const [first, second] = ranked;
  if (!answer.confident && second?.share >= TORN.second
    && first.share + second.share >= TORN.both) {
    return say("torn", { first: className(first.item), first_percent: percent(first.share, 0),
      second: className(second.item), second_percent: percent(second.share, 0) });
  }
  if (!answer.confident) {
    return say("unsure", { name: className(ranked[0].item), percent: percent(ranked[0].share, 0),
      threshold: percent(threshold, 0) });
  }
  return ranked.filter(({ share }, i) => i === 0 || (i < 3 && share >= 0.05))
    .map(({ item, share }) => say("answer_rest", { name: className(item),
      percent: percent(share, 0) }))
    .join(" · ");
}

/** A weight as people read it; what is drawn is rounded to 1/255. */
export function weightText(weight) {
  return weight > 0 && weight < 0.005 ? "< 0.01" : weight.toFixed(2);
}
