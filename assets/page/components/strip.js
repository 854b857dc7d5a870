// The text as the model reads it: pieces or words, linked with every view, coloured by how much each
// speaks for a class. Its value is the attribution of the answer itself, which follows the answer.

import { className, say } from "../common/boot.js";
import { fill, make, onLeave } from "../common/dom.js";
import { glossed } from "../common/glossary.js";
import { Refused, ask } from "../common/server.js";
import { currentAnswer, listen, state, update } from "../common/store.js";

/** Colour the words for a class, or, if they are, no longer. */
export async function explain(key) {
  if (key === null || (state.attribution?.key === key && state.attribution.isAsked)) {
    return update({ attribution: null });
  }
  const answer = currentAnswer();
  if (!answer) return undefined;
  const waiting = { key, status: "waiting", isAsked: true };
  update({ attribution: waiting });
  document.querySelector(".strip-frame").scrollIntoView({ block: "nearest" });
  let found;
  try {
    const values = answer.attributions?.[key] ?? await ask("attribute", [answer.text, key]);
    found = { ...waiting, status: "done", ...values };
  } catch (error) {
    found = { ...waiting, status: "failed",
      reason: error instanceof Refused ? error.message : say("offline_given_up") };
  }
  if (state.attribution === waiting) update({ attribution: found });
  return undefined;
}

export function mount(element, { props, watch }) {
  const line = make("div", { class: "strip", role: "list" });
  const note = make("p", { class: "strip-note", role: "status" });
  let marks = [];

  function colourForAnswer() {
    const found = JSON.parse(props.value || "null");
    if (!found || found.text !== currentAnswer()?.text || state.attribution?.isAsked) return;
    update({ attribution: { status: "done", ...found } });
  }

  watch("value", colourForAnswer);
  listen(["answer"], colourForAnswer); // of a text that is sent twice the value stays the same

  function draw() {
    line.setAttribute("aria-label", say("text_read"));
    const answer = currentAnswer();
    marks = [];
    if (!answer) {
      fill(line);
      fill(note);
      return;
    }
    const shown = answer.tokens(state.words, state.hideSpecial);
    const values = attributionValues(shown);
    const largest = strongest(values ?? []);
    let previousWord = null;
    const children = [];
    shown.forEach((token, i) => {
      const word = wordOf(answer, token.places[0]);
      if (i && word !== previousWord) children.push(" ");
      previousWord = word;
      // A tap takes the focus from a heatmap, which gives up its point, and only then is a click.
      const pointHere = () => update({ point: { row: i, column: null } });
      const mark = make("span", { class: token.special ? "token special" : "token", role: "listitem",
        dir: "auto", onpointerenter: pointHere, onclick: pointHere },
      state.words || token.special ? token.name : answer.sources[token.places[0]] || token.name);
      if (values && !token.special) colourMark(mark, values[i], largest);
      onLeave(mark, () => update({ point: null }));
      marks.push(mark);
      children.push(mark);
    });
    fill(line, ...children);
    drawNote(answer);
    drawPoint();
  }

  function attributionValues(shown) {
    if (state.attribution?.status !== "done") return null;
    return shown.map(({ places }) => places.reduce(
      (sum, place) => sum + state.attribution.values[place], 0));
  }

  function colourMark(mark, value, largest) {
    const strength = Math.round(6 + 62 * Math.min(1, Math.abs(value) / largest));
    mark.classList.add(value >= 0 ? "for" : "against");
    mark.style.setProperty("--strength", `${strength}%`);
    const signed = `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(2)}`;
    mark.title = `${signed} (${say(value >= 0 ? "for" : "against")})`;
    mark.setAttribute("aria-label", `${mark.textContent}: ${mark.title}`);
  }

  function drawNote(answer) {
    const { attribution } = state;
    if (!attribution) {
      fill(note, say("counts", { pieces: answer.special.filter((special) => !special).length,
        words: answer.words.filter(({ places }) => !answer.special[places[0]]).length,
        limit: answer.model.limit }));
      return;
    }
    const name = className(answer.model.classes.find((item) => item.key === attribution.key));
    const back = make("button", { type: "button", class: "quiet", onclick: () => explain(null) },
      say("attribution_close"));
    if (attribution.status === "waiting") fill(note, say("attribution_wait", { name }));
    else if (attribution.status === "failed") fill(note, attribution.reason, " ", back);
    else {
      fill(note, make("b", {}, say("attribution", { name })), " ",
        make("span", { class: "key for" }, `+ ${say("for")}`), " ",
        make("span", { class: "key against" }, `− ${say("against")}`), " ",
        ...glossed(say("attribution_method")), " ", back);
    }
  }

  function drawPoint() {
    marks.forEach((mark, i) => {
      mark.classList.toggle("looking", state.point?.row === i);
      mark.classList.toggle("looked-at", state.point?.column === i);
    });
  }

  listen(["language", "answer", "words", "hideSpecial", "attribution"], draw);
  listen(["point"], drawPoint);
  element.append(make("div", { class: "strip-frame" }, line, note));
  draw();
  colourForAnswer(); // it may have come before this script
}

/** The value with the full colour: one outlier does not bleach all the others. */
function strongest(values) {
  const sizes = values.map(Math.abs).sort((a, b) => b - a);
  return Math.max(Math.min(sizes[0] ?? 0, 2 * (sizes[1] ?? sizes[0] ?? 0)), 1e-6);
}

function wordOf(answer, place) {
  return answer.words.findIndex(({ places }) => places.includes(place));
}
