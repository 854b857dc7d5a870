// A study of the microscope: asks the server for its numbers, explains it, says what went wrong.

import { EXAMPLES, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { downloadMenu } from "../common/downloads.js";
import { showExample } from "../common/examples.js";
import { glossed } from "../common/glossary.js";
import { Refused, ask } from "../common/server.js";
import { askedOptions, choose } from "../common/options.js";
import { currentAnswer, listen, state } from "../common/store.js";
import { STUDIES } from "../common/studies.js";
import { stepper } from "../common/stepper.js";

const DRAWN_FROM = ["view", "language", "theme", "layer", "head", "options", "answer"];

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

/** One study: what it shows, its controls, its picture, what to doubt. */
export function mount(element, { name }) {
  const what = make("p", { class: "study-what" });
  const note = make("p", { class: "study-note" });
  const problem = make("p", { class: "study-problem", role: "status", hidden: true });
  const examples = make("div", { class: "study-examples", hidden: !(name in EXAMPLES) });
  const place = make("div", { class: "study-place", "data-study": name });
  const frame = make("div", { class: "study-frame" }, place);
  const controls = make("div", { class: "controls" },
    ...STUDIES[name].uses.map((part) => stepper(part, true)), downloadMenu(name));
  element.append(make("div", { class: "study" }, make("div", { class: "study-head" }, what, controls),
    examples, problem, frame, note));
  let turn = 0;
  let built = null;

  async function draw() {
    if (state.view !== name) return;
    const mine = ++turn; // whatever is still on its way was asked for something else
    const answer = currentAnswer();
    fill(what, ...glossed(say(`study_${name}_what`)));
    fill(note, ...glossed(say(`study_${name}_note`)));
    fill(examples, ...(EXAMPLES[name]?.[state.language] ?? []).map((example) => make("button",
      { type: "button", class: "chip", "data-example": example.key, title: example.says[state.language],
        onclick: () => showExample(example) }, make("b", {}, example.title[state.language]), " ",
      example.text)));
    place.hidden = !answer;
    if (!answer) {
      problem.hidden = true;
      frame.classList.remove("waiting");
      delete frame.dataset.drawn;
      return;
    }
    frame.classList.add("waiting");
    let data;
    try {
      built ??= import(`../studies/${name}.js`).then(({ build }) => build(place, choose));
      [data] = await Promise.all([numbersOf(answer, name, askedOptions()), built]);
    } catch (error) {
      if (mine === turn) complain(error);
      return;
    }
    if (mine !== turn) return;
    problem.hidden = true;
    place.hidden = false;
    (await built)(data, answer, { width: frame.clientWidth, height: frame.clientHeight });
    frame.classList.remove("waiting");
    frame.dataset.drawn = name;
  }

  function complain(error) {
    const reason = error instanceof Refused ? error.message : say("offline_given_up");
    fill(problem, reason, " ", make("button", { type: "button", class: "quiet", onclick: draw },
      say("retry")));
    problem.hidden = false;
    place.hidden = true;
    frame.classList.remove("waiting");
  }

  listen(DRAWN_FROM, draw);
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    draw();
  }).observe(frame);
  draw();
}
