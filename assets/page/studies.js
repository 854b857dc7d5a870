// The views behind the main one, in groups. A study's script is loaded when it is first opened.
//
// options: what can be chosen in it, each a parameter of the address; uses: whether layer and head
// matter to it; local: options that its numbers do not depend on, so that nobody is asked when they
// change. Its module exports build(place, choose), which makes the elements once and returns
// draw(data, answer, {width, height}); data is what the server's study of that name computed.

export const STUDIES = {
  way: { options: ["token"], uses: [], load: () => import("./study_way.js") },
  block: { options: ["token", "step"], local: ["step"], uses: ["layer", "head"], load: () => import("./study_block.js") },
  hidden: { options: ["token", "first", "at"], local: ["token", "first", "at"], uses: [], load: () => import("./study_hidden.js") },
  qkv: { options: ["query", "key"], local: ["query", "key"], uses: ["layer", "head"], load: () => import("./study_qkv.js") },
  lens: { options: [], uses: [], load: () => import("./study_lens.js") },
  off: { options: ["off"], uses: [], load: () => import("./study_off.js") },
  pair: { options: ["second", "joined", "at"], local: ["at"], uses: ["layer", "head"], load: () => import("./study_pair.js") },
  order: { options: ["order"], uses: [], load: () => import("./study_order.js") },
  lives: { options: [], uses: ["layer", "head"], load: () => import("./study_lives.js") },
  blank: { options: ["blank"], uses: [], load: () => import("./study_blank.js") },
  next: { options: ["second"], uses: [], load: () => import("./study_next.js") },
  teach: { options: [], uses: [], load: () => import("./study_teach.js") },
  bands: { options: [], uses: [], load: () => import("./study_bands.js") },
  report: { options: ["results"], local: ["results"], uses: [], load: () => import("./study_report.js") },
};

export const GROUPS = [
  { name: "attention", views: ["heatmap", "lines", "heads", "layers", "ends"] },
  { name: "inside", views: ["way", "block", "hidden", "qkv"] },
  { name: "answer", views: ["lens", "off"] },
  { name: "compare", views: ["pair", "order"] },
  { name: "training", views: ["lives", "blank", "next", "teach"] },
  { name: "model", views: ["bands", "report"] },
];

/** Every view there is, in the order of the tabs. */
export const VIEW_NAMES = GROUPS.flatMap(({ views }) => views);

export function groupOf(view) {
  return GROUPS.find(({ views }) => views.includes(view));
}
