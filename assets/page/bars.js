// Ten bars in per cent, always in class order; a click asks which words speak for the class.

import { className, percent, say } from "./boot.js";
import { fill, make } from "./dom.js";
import { currentAnswer, isEmpty, listen, state } from "./store.js";

/** Build the panel; `explain(key)` is called with the class of a clicked bar. */
export function barsPanel(explain) {
  const title = make("h2");
  const hint = make("span", { class: "hint" });
  const care = make("p", { class: "care", role: "note", hidden: true });
  const list = make("div", { class: "bars", role: "group" });
  const panel = make("section", { class: "panel feelings" }, make("header", {}, title, hint), care, list);
  let rows = [];

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
    if (!answer) {
      if (rows.length && !isEmpty()) return;
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

  listen(["language", "messages", "current", "attribution"], draw);
  return panel;
}
