// The state of the page, in one place. Panels listen to the names they care about.

export const state = {
  language: "en",
  view: "heatmap",
  layer: null,        // a number from 1, "mean" or "rollout"; null until the first answer
  head: "mean",       // a number from 1 or "mean"
  words: false,
  hideSpecial: false,
  fade: 0,
  stretch: false,     // colours up to the largest weight in the picture instead of up to 1
  messages: [],       // {id, text, status: "waiting" | "done" | "failed", answer, reason}
  current: null,      // id of the message whose charts are shown
  point: null,        // {row, column} among the shown tokens; column null: one token
  options: {},        // what is chosen in the studies: strings, by the name of their parameter
  attribution: null,  // {key, status, values, total, gained, error}
  theme: "",          // changes when light and dark change places
  offline: false,
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

/** The message whose charts are shown. */
export function currentMessage() {
  return state.messages.find((message) => message.id === state.current) ?? null;
}

/** The answer that is on show, or null while there is none. */
export function currentAnswer() {
  return currentMessage()?.answer ?? null;
}

/** Whether no answer is on show and none is on its way: nothing of an earlier one may stay then. */
export function isEmpty() {
  const message = currentMessage();
  return !message || message.status === "failed";
}
