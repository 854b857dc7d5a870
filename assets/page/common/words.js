// Sentences that several panels need, in the current language.

import { percent, say } from "./boot.js";

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

/** A weight as people read it; what is drawn is rounded to 1/255. */
export function weightText(weight) {
  return weight > 0 && weight < 0.005 ? "< 0.01" : weight.toFixed(2);
}
