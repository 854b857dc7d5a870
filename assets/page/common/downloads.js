// Files to take away: drawn or written by the server from exact numbers, saved by the browser.

import { say } from "./boot.js";
import { fill, make } from "./dom.js";
import { Refused, ask } from "./server.js";
import { currentAnswer, listen, state } from "./store.js";
import { STUDIES } from "./studies.js";
import { sentAlong, studyOptions } from "./options.js";

const PICTURES = ["png", "svg", "pdf"];
const NUMBERS = ["csv", "npz", "json"];
const OF_A_STUDY = [...PICTURES, "csv", "json"];

/** A button that opens a small menu of files: of a study, or of whichever view of attention is open. */
export function downloadMenu(study = null) {
  const summary = make("summary");
  const menu = make("div", { class: "menu" });
  const status = make("p", { role: "status" });
  const details = make("details", { class: "download" }, summary, menu);
  document.addEventListener("click", (event) => {
    if (!details.contains(event.target)) details.open = false;
  });
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    details.open = false;
    summary.focus();
  });

  async function fetchFile(what, format) {
    status.textContent = say("download_wait");
    try {
      const file = await ask("export", [currentAnswer().text, what, format, options()]);
      save(file);
      status.textContent = file.name;
    } catch (error) {
      status.textContent = error instanceof Refused ? error.message : say("offline_given_up");
    }
  }

  function row(title, what, formats) {
    return make("div", { class: "row" }, make("span", {}, title), ...formats.map((format) => make(
      "button", { type: "button", "data-file": `${what}.${format}`,
        "aria-label": `${title} ${format.toUpperCase()}`, disabled: !currentAnswer(),
        onclick: () => fetchFile(what, format) },
      format.toUpperCase())));
  }

  function draw() {
    const answer = currentAnswer();
    summary.textContent = say("download");
    const hasClasses = Boolean(answer?.model.has_classifier);
    if (study ? state.view !== study : state.view in STUDIES) return;
    fill(menu, row(say("download_view"), state.view, study ? OF_A_STUDY : PICTURES),
      hasClasses ? row(say("download_bars"), "bars", PICTURES) : null,
      row(say("download_card"), "card", PICTURES),
      row(say("download_numbers"), "numbers", NUMBERS),
      row(say("download_page"), "answer", ["html"]), status);
    status.textContent = "";
  }

  listen(["language", "view", "answer"], draw);
  draw();
  return details;
}

/** What the server must know to draw what is on the screen. */
function options() {
  return { ...(state.view in STUDIES ? studyOptions() : {}), ...sentAlong.get(state.view),
    layer: state.layer, head: state.head, words: state.words, hide_special: state.hideSpecial,
    fade: state.fade, stretch: state.stretch, lang: state.language, moved: state.moved, view: state.view,
    link: window.location.href };
}

function save({ name, type, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
