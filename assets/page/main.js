// The page: puts the panels together and wires what happens between them.

import { possible, readAddress, viewAddress, writeAddress } from "./address.js";
import { Answer } from "./answer.js";
import { barsPanel } from "./bars.js";
import { LANGUAGES, LIMIT, say, speak } from "./boot.js";
import { chatPanel } from "./chat.js";
import { make } from "./dom.js";
import { Refused, ask } from "./server.js";
import { groupButtons, stagePanel } from "./stage.js";
import { currentAnswer, currentMessage, listen, state, update } from "./store.js";

const KEPT_ANSWERS = 12; // older messages are read again when they are clicked
const { asked, text: askedText, explain: askedClass } = readAddress();
let nextId = 1;

// ------------------------------------------------------------------------------ what can happen

const actions = {
  send(text) {
    const cut = text.length > LIMIT;
    const message = { id: nextId++, text: cut ? text.slice(0, LIMIT) : text, cut, status: "waiting",
      answer: null, summary: null, reason: "" };
    update({ messages: [...state.messages, message], current: message.id, attribution: null,
      point: null });
    return read(message);
  },

  show(id) {
    update({ current: id, attribution: null, point: null });
    const message = currentMessage();
    if (message.answer) update(possible(message.answer, state));
    else if (message.status === "done") read(change(id, { status: "waiting" }));
  },

  remove(id) {
    const messages = state.messages.filter((message) => message.id !== id);
    const wasShown = state.current === id;
    const last = messages.at(-1)?.id ?? null;
    update({ messages });
    if (wasShown && last !== null) actions.show(last);
    else if (wasShown) update({ current: null, attribution: null, point: null });
  },

  clear() {
    update({ messages: [], current: null, attribution: null, point: null, options: {} });
    document.getElementById("your-text").focus();
  },

  retry(id) {
    update({ current: id });
    read(change(id, { status: "waiting", reason: "" }));
  },

  async explain(key) {
    if (key === null || state.attribution?.key === key) return update({ attribution: null });
    const message = currentMessage();
    if (!message?.answer) return undefined;
    const waiting = { key, status: "waiting" };
    update({ attribution: waiting });
    let found;
    try {
      found = { key, status: "done", ...await ask("attribute", [message.text, key]) };
    } catch (error) {
      found = { key, status: "failed", reason: reasonOf(error) };
    }
    if (state.attribution === waiting) update({ attribution: found });
    return undefined;
  },
};

function change(id, changes) {
  const messages = state.messages.map(
    (message) => (message.id === id ? { ...message, ...changes } : message));
  update({ messages });
  return messages.find((message) => message.id === id);
}

function reasonOf(error) {
  return error instanceof Refused ? error.message : say("offline_given_up");
}

/** Ask the server about a message's text and keep what it answers. */
async function read(message) {
  let changes;
  try {
    const payload = await ask("look", [message.text], (offline) => update({ offline }));
    const answer = await Answer.from(payload);
    const { matrices, tags, ...summary } = payload;
    changes = { status: "done", answer, summary };
    const chosen = possible(answer, state.layer === null ? { ...asked, view: state.view } : state);
    if (state.layer === null || state.current === message.id) Object.assign(state, chosen);
  } catch (error) {
    changes = { status: "failed", reason: reasonOf(error) };
  }
  if (!state.messages.some(({ id }) => id === message.id)) return;
  change(message.id, changes);
  forgetOldAnswers();
}

/** Keep memory bounded: only the answer on show keeps what was computed from it. */
function forgetOldAnswers() {
  const full = state.messages.filter(({ answer, id }) => answer && id !== state.current);
  full.forEach(({ answer }) => answer.kept.clear());
  for (const { id } of full.slice(0, Math.max(0, full.length - KEPT_ANSWERS))) {
    change(id, { answer: null });
  }
}

// ------------------------------------------------------------------------------ the frame

function pageHeader() {
  const title = make("h1");
  const tagline = make("p", { class: "tagline" });
  const model = make("span", { class: "model" });
  const language = make("button", { type: "button", class: "quiet", id: "language", onclick: () => {
    const next = LANGUAGES[(LANGUAGES.indexOf(state.language) + 1) % LANGUAGES.length];
    changeLanguage(next);
  } });
  const theme = make("button", { type: "button", class: "quiet", id: "theme",
    onclick: () => document.body.classList.toggle("dark") }, "◐");
  const copy = make("button", { type: "button", class: "quiet", id: "copy-link", onclick: copyLink });
  const copied = make("span", { class: "copied", role: "status" });

  async function copyLink() {
    const address = viewAddress();
    copied.textContent = "";
    if (await copyText(address)) copied.textContent = say("copied");
    else {
      const field = make("input", { value: address, readonly: true, "aria-label": say("copy_failed") });
      copied.append(say("copy_failed"), field);
      field.select();
    }
    setTimeout(() => copied.replaceChildren(), 6000);
  }

  listen(["language", "messages", "current"], () => {
    title.textContent = say("title");
    tagline.textContent = say("tagline");
    language.textContent = say("language");
    language.setAttribute("aria-label", say("language_label"));
    theme.title = say("theme");
    theme.setAttribute("aria-label", say("theme"));
    copy.textContent = say("copy_link");
    const answer = currentAnswer();
    if (!answer) return;
    const { name, hash } = answer.model;
    model.textContent = `${say("shape", answer)} · ${say("checkpoint", { name, hash })}`;
  });
  return make("header", { class: "masthead" }, make("div", { class: "names" }, title, tagline),
    groupButtons(), model,
    copied, copy, language, theme);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

function changeLanguage(language) {
  speak(language);
  document.documentElement.lang = language;
  document.title = say("title");
  update({ language });
}

function watchTheme() {
  const tell = () => update({ theme: document.body.classList.contains("dark") ? "dark" : "light" });
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["class"] });
  tell();
}

// ------------------------------------------------------------------------------ the start

const root = make("div", { id: "microscope-root" }, pageHeader(), make("main", {},
  make("div", { class: "left" }, chatPanel(actions), barsPanel(actions.explain)),
  stagePanel(actions)));

/** Gradio makes the place for the page when it is ready, and may make it again. */
function settle() {
  const place = document.getElementById("microscope");
  if (!place || root.parentElement === place) return;
  const isFirst = !root.parentElement;
  place.append(root);
  if (isFirst) start();
}

async function start() {
  const browser = LANGUAGES.find((name) => navigator.language?.toLowerCase().startsWith(name));
  Object.assign(state, { ...asked, layer: null, head: "mean" });
  state.language = null;
  changeLanguage(asked.language ?? browser ?? "en");
  watchTheme();
  // Until the first answer a link stays as it came: it can be opened again if there is none.
  listen(["view", "options", "layer", "head", "words", "hideSpecial", "fade", "stretch", "messages",
    "current", "language", "attribution"], () => (state.layer !== null || !state.messages.length) && writeAddress());
  document.fonts.load('12px "Microscope Gothic"', "가").then(() => update({ theme: state.theme + " " }))
    .catch(() => {});
  await actions.send(askedText?.trim() ? askedText : say("example_texts")[0]);
  if (askedClass && currentAnswer()?.model.classes.some(({ key }) => key === askedClass)) {
    actions.explain(askedClass);
  }
}

new MutationObserver(settle).observe(document.documentElement, { childList: true, subtree: true });
settle();
