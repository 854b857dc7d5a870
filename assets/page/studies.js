// The views behind the main one, in groups, as bert/studies/__init__.py lists them.
//
// options: what can be chosen in a study, each a parameter of the address; uses: whether layer and
// head matter to it; local: options that its numbers do not depend on, so that nobody is asked when
// they change. Its script, studies/NAME.js, is loaded when it is first opened and exports
// build(place, choose), which makes the elements once and returns draw(data, answer, {width, height});
// data is what the server's study of that name computed.

import { STUDY_GROUPS } from "./boot.js";

export const STUDIES = Object.assign({}, ...Object.values(STUDY_GROUPS));

export const GROUPS = [
  { name: "attention", views: ["heatmap", "lines", "heads", "layers", "ends"] },
  ...Object.entries(STUDY_GROUPS).map(([name, studies]) => ({ name, views: Object.keys(studies) })),
];

/** Every view there is, in the order of the tabs. */
export const VIEW_NAMES = GROUPS.flatMap(({ views }) => views);

export function groupOf(view) {
  return GROUPS.find(({ views }) => views.includes(view));
}
