// What is chosen in the studies: parameters of the address, strings by their names.

import { state, update } from "./store.js";
import { STUDIES } from "./studies.js";

/** What a study adds to the options of its files, by its name: numbers that the server does not keep. */
export const sentAlong = new Map();

/** Everything chosen in the current study. */
export function studyOptions() {
  const { options, uses } = STUDIES[state.view];
  return Object.fromEntries([
    ...options.filter((name) => name in state.options).map((name) => [name, state.options[name]]),
    ...uses.filter((name) => typeof state[name] === "number").map((name) => [name, state[name]])]);
}

/** What of it the server must know: not the options that are local. */
export function askedOptions() {
  const { local } = STUDIES[state.view];
  return Object.fromEntries(Object.entries(studyOptions()).filter(([name]) => !local.includes(name)));
}

/** A whole number chosen in a study, read as the server reads it (bert/studies/base.py). */
export function chosenNumber(name, low, high, otherwise) {
  const value = state.options[name];
  return /^\d{1,9}$/.test(value) && value >= low && value <= high ? Number(value) : otherwise;
}

/** Change what is chosen in a study: choose({token: 3}). */
export function choose(changes) {
  const chosen = { ...state.options };
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete chosen[name];
    else chosen[name] = String(value);
  }
  update({ options: chosen });
}
