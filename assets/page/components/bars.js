// Ten bars in per cent, always in class order; a click asks which words speak for the class.
//
// Its value is the whole answer of a text (bert/page/answer.py), packed: the bars are always on the
// page, and everything else draws from the same copy.

import { Answer } from "../common/answer.js";
import { className, percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { currentAnswer, listen, state, update } from "../common/store.js";
import { possible } from "../common/studies.js";
import { explain } from "./strip.js";

export function mount(element, { props, watch }) {
  const title = make("h2");
  const hint = make("span", { class: "hint" });
  const care = make("p", { class: "care", role: "note", hidden: true });
  const copy = make("p", { class: "copy", role: "note", hidden: true });
  const list = make("div", { class: "bars", role: "group" });
  const panel = make("section", { class: "feelings" }, make("header", {}, title, hint), copy, care, list);
  element.append(panel);
  const summaries = new Map(); // text -> what compare shows of an earlier message
  let rows = [];

  async function receive() {
    if (!props.value) return clear();
    const { answer: payload, messages, current } = JSON.parse(props.value);
    const answer = await Answer.from(payload);
    const { matrices, tags, ...summary } = payload;
    summaries.set(answer.text, summary);
    const isFollowed = state.isChosen && state.layer !== null;
    const wanted = isFollowed ? state : { view: state.view };
    update({ answer, point: null, attribution: null, moved: state.moved && Boolean(answer.movedBytes),
      messages: messages.map((text, id) => ({ id, text, status: "done", summary: summaries.get(text) })),
      current, ...possible(answer, { ...wanted, view: state.view }) });
    return undefined;
  }

  watch("value", receive);

  function clear() {
    update({ answer: null, messages: [], current: null, attribution: null, point: null, options: {} });
  }

  function build(classes) {
    rows = classes.map((item) => {
      const row = make("button", { type: "button", class: "bar", "data-class": item.key,
        onclick: () => explain(item.key) });
      row.style.setProperty("--class", item.colour);
      row.append(make("span", { class: "name" }, make("b"), make("small")),
        make("span", { class: "track" }, make("span", { class: "filled" })),
        make("span", { class: "figure" }));
      return row;
    });
    fill(list, ...rows);
  }

  function draw() {
    title.textContent = say("feelings");
    panel.setAttribute("aria-label", say("feelings"));
    list.setAttribute("aria-label", say("feelings"));
    const answer = currentAnswer();
    care.hidden = !answer?.care;
    care.textContent = answer?.care ? say("care") : "";
    hint.textContent = "";
    copy.hidden = !state.taught;
    fill(copy, say("copy_answers"), " ", make("button", { type: "button", class: "quiet",
      onclick: () => window.microscope.talkTo("") }, say("copy_leave")));
    if (!answer) {
      rows = [];
      fill(list, ...Array.from({ length: 10 }, () => make("div", { class: "bar" })));
      return;
    }
    const { classes, has_classifier: hasClassifier } = answer.model;
    if (!hasClassifier) {
      rows = [];
      fill(list, make("p", { class: "none" }, say("no_classifier")));
      return;
    }
    hint.textContent = say("feelings_hint");
    if (rows.length !== classes.length) build(classes);
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    rows.forEach((row, i) => drawRow(row, classes[i], answer.probabilities[i], i === best));
  }

  function drawRow(row, item, share, isBest) {
    const other = state.language === "ko" ? item.en : item.ko;
    row.querySelector("b").textContent = className(item);
    row.querySelector("small").textContent = other === className(item) ? "" : other;
    row.querySelector(".filled").style.width = `${100 * share}%`;
    row.querySelector(".figure").textContent = percent(share);
    row.classList.toggle("best", isBest);
    row.setAttribute("aria-pressed", String(state.attribution?.key === item.key));
    row.setAttribute("aria-label", say("bar_label", { name: `${className(item)} ${other}`,
      percent: percent(share) }) + (isBest ? ` (${say("best")})` : ""));
  }

  listen(["language", "answer", "attribution", "taught"], draw);
  draw();
  if (props.value) receive(); // the answer was faster than this script
}
