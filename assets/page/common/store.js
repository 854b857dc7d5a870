// The state of the page, in one place. Components listen to the names they care about.

export const state = {
  language: "en",
  view: "heatmap",    // what is open: a view of attention or a study
  layer: null,        // a number from 1, "mean" or "rollout"; null until the first answer
  head: "mean",       // a number from 1 or "mean"
  isChosen: false,    // whether somebody chose layer and head, or the page took those that matter most
  words: false,
  hideSpecial: false,
  fade: 0,
  stretch: true,      // colours up to the largest weight in the picture instead of up to 1
  moved: false,       // value-weighted attention instead of plain weights
  messages: [],       // the conversation: {id, text, status: "done", summary}
  current: null,      // id of the message whose answer is on show
  answer: null,
  point: null,        // {row, column} among the shown tokens; column null: one token
  options: {},        // what is chosen in the studies: strings, by the name of their parameter
  attribution: null,  // {key, status, values}
  tour: null,         // the step of the tour, from 1
  taught: "",         // name of the visitor's own copy, when it answers instead of the model
  theme: "",          // changes when light and dark change places
};

const listeners = [];

/** Call `act` whenever one of the named parts of the state changes. */
export function listen(names, act) {
  listeners.push({ names: new Set(names), act });
}

/** Change parts of the state, then tell those who listen. */
export function update(changes) {
  const changed = Object.keys(changes).filter((name) => state[name] !== changes[name]);
  Object.assign(state, changes);
  for (const { names, act } of listeners) {
    if (changed.some((name) => names.has(name))) act();
  }
}

/** The answer that is on show, or null while there is none. */
export function currentAnswer() {
  return state.answer;
}
