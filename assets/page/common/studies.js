// What can be opened: the views of attention, and the studies in the groups of
// bert/studies/__init__.py.
//
// options: what can be chosen in a study, each a parameter of the address; uses: whether layer and
// head matter to it; local: options that its numbers do not depend on, so that nobody is asked when
// they change. Its script, studies/NAME.js, is loaded when it is first opened and exports
// build(place, choose), which makes the elements once and returns draw(data, answer, {width, height});
// data is what the server's study of that name computed.

import { STUDY_GROUPS } from "./boot.js";
import { currentAnswer, state, update } from "./store.js";

export const ATTENTION_VIEWS = ["heatmap", "lines", "heads", "layers", "ends"];
export const STUDIES = Object.assign({}, ...Object.values(STUDY_GROUPS));

/** The group of tabs that a study is in. */
export function groupOf(study) {
  return Object.keys(STUDY_GROUPS).find((group) => study in STUDY_GROUPS[group]);
}

export function isView(name) {
  return ATTENTION_VIEWS.includes(name) || name in STUDIES;
}

/** Layer and head as this checkpoint has them; anything else falls back to the ones that matter most
 * for the answer, and a study that looks at one layer or one head gets one. */
export function possible(answer, { layer, head, view }) {
  const uses = STUDIES[view]?.uses ?? [];
  const isWhole = ["mean", "rollout"].includes(layer) && !uses.includes("layer");
  const isLayer = isWhole || (layer >= 1 && layer <= answer.layers);
  const chosen = isLayer ? layer : answer.matters[0];
  const isHead = (typeof chosen === "number" || view === "ends") && head >= 1 && head <= answer.heads;
  if (isHead) return { layer: chosen, head };
  if (uses.includes("head")) return { layer: chosen, head: 1 };
  return { layer: chosen, head: isLayer ? "mean" : answer.matters[1] };
}

/** Open a view, with options of its own; a study that looks at one layer or head gets one. */
export function open(view, options = {}) {
  if (!isView(view)) return;
  const { layer = state.layer, head = state.head, ...others } = options;
  const answer = currentAnswer();
  update({ view, isChosen: state.isChosen || "layer" in options || "head" in options,
    options: { ...state.options, ...Object.fromEntries(
      Object.entries(others).map(([name, value]) => [name, String(value)])) },
    ...(answer ? possible(answer, { layer, head, view }) : { layer, head }) });
}
