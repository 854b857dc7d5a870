// The address of the page is the view. This component has no face: it keeps the address, the history
// of the browser and the memory of the tab in step with what is on the page, and tells Python what to
// show when somebody opens a link, goes back or reloads.
//
// Its value is what Python is told, the visit {texts, current, lang}, or where Python leads the
// visitor, {go: {tab, layer, …}}.

import { LANGUAGES, TOUR, say, speak } from "../common/boot.js";
import { currentAnswer, listen, state, update } from "../common/store.js";
import { ATTENTION_VIEWS, STUDIES, groupOf, isView, open } from "../common/studies.js";
import { explain } from "./strip.js";

const LONGEST = 6000;  // characters of an address that every server and chat program takes
const PATIENCE = 400; // milliseconds that a bubble waits for the picture of its text
const LATE = 3000;    // milliseconds until a reply waits for no bubble any more
const MEMORY = "microscope-texts";
const PREFERENCES = ["microscope-language", "microscope-theme"];
const KEPT_TEXTS = 12; // of the conversation, through a reload
const DRAWN_FROM = ["view", "options", "layer", "head", "words", "hideSpecial", "fade", "stretch",
  "moved", "current", "language", "attribution", "answer", "tour"];

// ------------------------------------------------------------------------------ the fragment

/** What an address asks for; what is impossible is left out. */
export function readAddress(location = window.location) {
  const given = new URLSearchParams(location.hash.length > 1 ? location.hash.slice(1) : location.search);
  const asked = { options: {}, text: given.get("text"), key: given.get("class"),
    tour: Number(given.get("tour")) };
  if (!TOUR[asked.tour - 1]) asked.tour = null;
  if (LANGUAGES.includes(given.get("lang"))) asked.language = given.get("lang");
  const tab = given.get("tab") ?? given.get("view");
  const view = tab === "attention" ? given.get("view") : tab;
  if (isView(view)) asked.view = view;
  for (const name of STUDIES[asked.view]?.options ?? []) {
    if (given.has(name)) asked.options[name] = given.get(name);
  }
  for (const name of ["layer", "head"]) {
    const value = given.get(name);
    if (/^[1-9]\d{0,3}$/.test(value)) asked[name] = Number(value);
    else if (value === "mean" || (name === "layer" && value === "rollout")) asked[name] = value;
  }
  asked.words = given.get("tokens") === "words";
  asked.hideSpecial = given.get("special") === "hidden";
  const fade = Number(given.get("fade"));
  asked.fade = fade > 0 && fade <= 0.5 ? fade : 0;
  asked.stretch = given.get("scale") !== "one";
  asked.moved = given.get("weights") === "value";
  return asked;
}

/** The address of what is on the screen. */
export function viewAddress() {
  const kept = new URLSearchParams();
  const answer = currentAnswer();
  if (answer) kept.set("text", answer.truncated ? answer.read : answer.text);
  const isAttention = ATTENTION_VIEWS.includes(state.view);
  kept.set("tab", isAttention ? "attention" : state.view);
  if (isAttention) kept.set("view", state.view);
  if (state.layer !== null) {
    kept.set("layer", state.layer);
    kept.set("head", state.head);
  }
  for (const name of STUDIES[state.view]?.options ?? []) {
    if (name in state.options) kept.set(name, state.options[name]);
  }
  if (state.words) kept.set("tokens", "words");
  if (state.hideSpecial) kept.set("special", "hidden");
  if (state.fade) kept.set("fade", state.fade);
  if (!state.stretch) kept.set("scale", "one");
  if (state.moved) kept.set("weights", "value");
  if (state.attribution?.isAsked) kept.set("class", state.attribution.key);
  if (state.tour) kept.set("tour", state.tour);
  kept.set("lang", state.language);
  const address = new URL(window.location.href);
  address.search = "";
  address.hash = kept.toString();
  if (address.href.length > LONGEST) {
    kept.delete("text");
    address.hash = kept.toString();
  }
  return address.href;
}

// ------------------------------------------------------------------------------ the component

export function mount(element, { props, watch, trigger }) {
  let isApplying = true; // while an address is being put in place none is written
  let pending = null;    // what an address asks for once its text is on show
  let loaded;            // Gradio has all its parts on the page: they may be renamed, hidden, switched
  const isLoaded = new Promise((resolve) => { loaded = resolve; });
  if (window.isPageLoaded) loaded();
  const asked = readAddress();
  const texts = remembered();

  const visit = (changes = {}) => JSON.stringify({ texts: state.messages.map(({ text }) => text),
    current: state.current, lang: state.language, taught: state.taught, ...changes });

  // A reply costs more than the picture: it is asked for when that is painted and every text that was
  // sent has its bubble, or a bubble too long in coming.
  let [sent, told] = [0, 0];
  let [isPainted, needsReply] = [false, false];
  let lastSent = "";
  function askForReply(isLate = false) {
    if (!needsReply || !isPainted || (told < sent && !isLate)) return;
    needsReply = false;
    trigger("reply");
  }

  function sends() {
    told = Math.min(told, sent); // of two events at once Gradio may drop either
    sent += 1;
    isPainted = false;
  }

  function ask(event, changes) {
    if (event === "say") sends();
    props.value = visit(changes);
    trigger(event);
  }

  /** The conversation again, in another language. */
  async function retell(changes) {
    ask("open", changes);
    await isLoaded;
    trigger("speak");
  }

  watch("value", () => {
    const { go, is_new: isNew } = JSON.parse(props.value || "{}");
    if (isNew) [needsReply, isPainted] = [true, false];
    if (go?.text) ask("say", { text: go.text });
    else if (go) navigate(go);
  });

  listen(["answer"], () => requestAnimationFrame(() => setTimeout(() => {
    isPainted = true;
    askForReply();
    const number = sent;
    setTimeout(() => number === sent && askForReply(true), LATE);
  })));

  listen(["messages"], () => sessionStorage.setItem(MEMORY,
    JSON.stringify(state.messages.slice(-KEPT_TEXTS).map(({ text }) => text))));

  window.microscope = {
    loaded,
    /** Gradio says that a bubble has come before it is in the chat; a reply that was asked for then
     * could be written over by it. */
    told: () => requestAnimationFrame(() => setTimeout(() => {
      told += 1;
      askForReply();
    })),
    /** A tab was opened: by hand it brings the view that was last open behind it. Gradio also says
     * so of tabs that are open at the start, and of those that follow us. */
    selected(name) {
      if (!isByHand) return;
      if (name === "attention") {
        if (!ATTENTION_VIEWS.includes(state.view)) open(lastView);
      } else if (name in STUDIES) {
        if (state.view !== name) open(name);
      } else if (groupOf(state.view) !== name) open(lastOf.get(name) ?? firstOf(name));
    },
    /** Which tabs must be open for the current view: of the page, then of each group. */
    tabs: () => tabUpdates(),
    visit,
    sent(text) {
      lastSent = text;
      sends();
      return [text, visit()];
    },
    /** The bubble of a text follows its picture, or comes without one. */
    async bubble(_, chat) {
      const text = lastSent; // the box may hold the next one already
      for (const end = performance.now() + PATIENCE; !isPainted && performance.now() < end;) {
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      return [text, chat, visit()];
    },
    say: (text) => ask("say", { text }),
    show: (id) => ask("show", { current: id }),
    /** Let a copy that has learned answer, or, without a name, the model again. */
    talkTo(taught) {
      update({ taught });
      ask("open");
    },
  };
  function navigate({ tab, ...options }) {
    open(tab === "attention" ? ATTENTION_VIEWS[0] : tab, options);
    if (window.innerWidth < 900) document.querySelector(".right").scrollIntoView(); // below the chat
  }

  let isByHand = false;
  for (const event of ["click", "keydown"]) {
    document.addEventListener(event, ({ target }) => {
      if (target.closest?.(".right") && !target.closest(".microscope")) isByHand = true;
    }, { capture: true });
  }

  const lastOf = new Map();
  let lastView = ATTENTION_VIEWS[0];

  listen(["view"], () => {
    if (ATTENTION_VIEWS.includes(state.view)) lastView = state.view;
    else lastOf.set(groupOf(state.view), state.view);
    isByHand = false;
    isLoaded.then(() => trigger("go"));
  });

  function settle() {
    isApplying = false;
    if (!pending) return;
    const { key, tour } = pending;
    pending = null;
    const isClass = currentAnswer()?.model.classes.some((item) => item.key === key);
    if (isClass && !(state.attribution?.isAsked && state.attribution.key === key)) explain(key);
    update({ tour });
  }

  listen(["answer"], settle);

  // Another message or view is a step that Back undoes; another layer or option is not.
  let written = "";
  listen(DRAWN_FROM, () => {
    if (isApplying) return;
    const step = JSON.stringify([state.view, currentAnswer()?.text]);
    const how = written && currentAnswer() && step !== written ? "pushState" : "replaceState";
    written = step;
    window.history[how](null, "", viewAddress());
    // Inside huggingface.co the address of the page around us is kept in step.
    if (window.parent !== window) {
      window.parent.postMessage({ queryString: "", hash: window.location.hash }, "https://huggingface.co");
    }
  });

  window.addEventListener("popstate", () => apply(readAddress()));

  /** Back, Forward, or another address in the bar. */
  function apply({ text, key, tour, language = state.language, ...others }) {
    const texts = state.messages.map((message) => message.text);
    const isShown = !text?.trim() || [currentAnswer()?.text, currentAnswer()?.read].includes(text);
    isApplying = true;
    update({ ...others, layer: others.layer ?? state.layer, head: others.head ?? state.head,
      view: others.view ?? state.view, isChosen: "layer" in others });
    written = JSON.stringify([state.view, isShown ? currentAnswer()?.text : text]);
    pending = { key, tour };
    const isOtherLanguage = language !== state.language;
    if (isOtherLanguage) changeLanguage(language);
    if (isShown) settle();
    else if (!texts.includes(text)) texts.push(text);
    const current = isShown ? state.current : texts.lastIndexOf(text);
    if (isOtherLanguage) retell({ texts, current });
    else if (!isShown && current < state.messages.length) ask("show", { current });
    else if (!isShown) ask("say", { text });
  }

  // -------------------------------------------------------------------------- language and theme

  function changeLanguage(language) {
    speak(language);
    document.documentElement.lang = language;
    document.title = say("title");
    update({ language });
  }

  async function copyLink() {
    try {
      await navigator.clipboard.writeText(viewAddress());
    } catch { // without a secure connection there is no clipboard: the address bar has the same
      return say("copy_failed");
    }
    return say("link_copied");
  }

  Object.assign(window.microscope, {
    copyLink,
    tour: () => update({ tour: 1 }),
    switchLanguage() {
      changeLanguage(LANGUAGES[(LANGUAGES.indexOf(state.language) + 1) % LANGUAGES.length]);
      localStorage.setItem(PREFERENCES[0], state.language);
      retell();
    },
    switchTheme() {
      document.body.classList.toggle("dark");
      localStorage.setItem(PREFERENCES[1], document.body.classList.contains("dark") ? "dark" : "light");
    },
  });

  function watchTheme() {
    const tell = () => update({ theme: document.body.classList.contains("dark") ? "dark" : "light" });
    new MutationObserver(tell).observe(document.body, { attributeFilter: ["class"] });
    const kept = localStorage.getItem(PREFERENCES[1]);
    if (kept) document.body.classList.toggle("dark", kept === "dark");
    tell();
  }

  function start() {
    const browser = LANGUAGES.find((name) => navigator.language?.toLowerCase().startsWith(name));
    const { text, key, tour, language, ...others } = asked;
    pending = { key, tour };
    update({ ...others, layer: others.layer ?? null, head: others.head ?? "mean",
      isChosen: "layer" in others });
    changeLanguage(language ?? localStorage.getItem(PREFERENCES[0]) ?? browser ?? "en");
    watchTheme();
    document.fonts.load('12px "Microscope Gothic"', "가")
      .then(() => update({ theme: `${state.theme} ` })).catch(() => {});
    const said = text?.trim() && !texts.includes(text) ? [...texts, text] : texts;
    const shown = said.length ? said : [say("example_texts")[0]];
    const current = text ? shown.lastIndexOf(text) : shown.length - 1;
    if (state.language === "en") ask("open", { texts: shown, current }); // Gradio's parts speak it
    else retell({ texts: shown, current });
  }

  start();
}

function remembered() {
  try {
    const texts = JSON.parse(sessionStorage.getItem(MEMORY) ?? "[]");
    return texts.filter((text) => typeof text === "string");
  } catch {
    return [];
  }
}

function firstOf(group) {
  return Object.keys(STUDIES).find((name) => groupOf(name) === group);
}

/** Updates for Gradio's tabs: the outer ones, then those of each group. */
function tabUpdates() {
  const group = groupOf(state.view);
  const groups = [...new Set(Object.keys(STUDIES).map(groupOf))];
  const select = (id) => ({ __type__: "update", selected: id });
  return [select(group ?? "attention"),
    ...groups.map((name) => (name === group ? select(state.view) : { __type__: "update" }))];
}
