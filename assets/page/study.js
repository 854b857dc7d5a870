// The frame around a study: asks the server for its numbers, explains it, says what went wrong.

import { say } from "./boot.js";
import { fill, make } from "./dom.js";
import { Refused, ask } from "./server.js";
import { currentAnswer, isEmpty, listen, state, update } from "./store.js";
import { STUDIES } from "./studies.js";

const DRAWN_FROM = ["view", "language", "theme", "layer", "head", "options", "messages", "current"];

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
function askedOptions() {
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

/** The numbers of a study for an answer; asked for once and kept with the answer. */
function numbersOf(answer, name, options) {
  const key = `study/${name}/${JSON.stringify(options)}`;
  if (!answer.kept.has(key)) {
    const asked = ask("study", [answer.text, name, options]);
    asked.catch(() => answer.kept.delete(key));
    answer.kept.set(key, asked);
  }
  return answer.kept.get(key);
}

/** Build the panel that shows whichever study is chosen. */
export function studyPanel() {
  const what = make("p", { class: "study-what" });
  const note = make("p", { class: "study-note" });
  const problem = make("p", { class: "study-problem", role: "status", hidden: true });
  const frame = make("div", { class: "study-frame", role: "tabpanel", id: "study-frame" });
  const panel = make("div", { class: "study", hidden: true }, what, problem, frame, note);
  const built = new Map();
  let turn = 0;

  async function builtStudy(name) {
    if (!built.has(name)) {
      const place = make("div", { class: "study-place", "data-study": name, hidden: true });
      const { build } = await import(`./studies/${name}.js`);
      if (!built.has(name)) {
        frame.append(place);
        built.set(name, { place, draw: build(place, choose) });
      }
    }
    return built.get(name);
  }

  async function draw() {
    const mine = ++turn; // whatever is still on its way was asked for something else
    const name = state.view;
    const answer = currentAnswer();
    panel.hidden = !(name in STUDIES);
    if (panel.hidden) return;
    what.textContent = say(`study_${name}_what`);
    note.textContent = say(`study_${name}_note`);
    frame.setAttribute("aria-labelledby", `tab-${name}`);
    for (const [other, { place }] of built) place.hidden = other !== name || isEmpty();
    if (isEmpty()) {
      problem.hidden = true;
      frame.classList.remove("waiting");
    }
    if (!answer) return;
    frame.classList.add("waiting");
    let data;
    let study;
    try {
      [data, study] = await Promise.all([
        numbersOf(answer, name, askedOptions()), builtStudy(name)]);
    } catch (error) {
      if (mine === turn) complain(error);
      return;
    }
    if (mine !== turn) return;
    problem.hidden = true;
    study.place.hidden = false;
    study.draw(data, answer, { width: frame.clientWidth, height: frame.clientHeight });
    frame.classList.remove("waiting");
    frame.dataset.drawn = name;
  }

  function complain(error) {
    const reason = error instanceof Refused ? error.message : say("offline_given_up");
    fill(problem, reason, " ", make("button", { type: "button", class: "quiet", onclick: draw },
      say("retry")));
    problem.hidden = false;
    const shown = built.get(state.view);
    if (shown) shown.place.hidden = true;
    frame.classList.remove("waiting");
  }

  listen(DRAWN_FROM, draw);
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  }).observe(frame);
  return panel;
}
