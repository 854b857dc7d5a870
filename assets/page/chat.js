// The conversation: messages with their answers, the box "Your text", examples.

import { LIMIT, say } from "./boot.js";
import { fill, make } from "./dom.js";
import { listen, state } from "./store.js";
import { answerText } from "./words.js";

/** Build the panel; `actions` are send(text), show(id), remove(id), clear(), retry(id). */
export function chatPanel(actions) {
  const title = make("h2");
  const clear = make("button", { type: "button", class: "quiet", onclick: () => actions.clear() });
  const list = make("ol", { class: "messages" });
  const heard = make("p", { class: "unseen", role: "status" });
  const label = make("label", { for: "your-text" });
  const box = make("textarea", { id: "your-text", rows: 2, dir: "auto", autocomplete: "off",
    "aria-describedby": "your-text-keys" });
  const send = make("button", { type: "submit", class: "main" });
  const keys = make("span", { id: "your-text-keys", class: "unseen" });
  const examples = make("div", { class: "examples", role: "group" });
  const privacy = make("p", { class: "privacy" });
  const form = make("form", { class: "compose" }, label,
    make("div", { class: "box" }, box, send), keys, examples, privacy);
  const panel = make("section", { class: "panel chat" }, make("header", {}, title, clear), list, heard,
    form);

  function submit() {
    const text = box.value;
    if (!text.trim()) {
      box.focus();
      return;
    }
    box.value = "";
    actions.send(text);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  box.addEventListener("keydown", (event) => {
    // While an input method is composing a syllable, Enter belongs to it.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    submit();
  });

  function drawTexts() {
    title.textContent = say("chat");
    panel.setAttribute("aria-label", say("chat"));
    clear.textContent = say("clear");
    label.textContent = say("your_text");
    box.placeholder = say("placeholder");
    send.textContent = say("send");
    keys.textContent = say("keys");
    privacy.textContent = say("privacy");
    examples.setAttribute("aria-label", say("examples"));
    fill(examples, ...say("example_texts").map((text) => make("button",
      { type: "button", class: "chip", title: text, onclick: () => actions.send(text) }, text)));
  }

  function drawMessages() {
    clear.disabled = state.messages.length === 0;
    const held = heldFocus();
    fill(list, ...(state.messages.length ? state.messages.map((message) => drawMessage(message, actions))
      : [make("li", { class: "empty" }, say("chat_empty"))]));
    if (held) (list.querySelector(held) ?? box).focus();
    scrollToCurrent();
    heard.textContent = list.querySelector(".current .answer")?.textContent ?? "";
  }

  function scrollToCurrent() {
    const current = list.querySelector(".current");
    if (current === list.lastElementChild) list.scrollTop = list.scrollHeight;
    else if (current) list.scrollTop = current.offsetTop - list.offsetTop;
  }

  /** Where the keyboard was in the list, which is drawn anew; null when it was elsewhere. */
  function heldFocus() {
    const at = document.activeElement;
    if (!list.contains(at)) return null;
    return `[data-id="${at.closest(".message").dataset.id}"] .${at.classList[0]}`;
  }

  new ResizeObserver(scrollToCurrent).observe(list); // a note beside the bars takes height from it
  listen(["language"], drawTexts);
  listen(["language", "messages", "current", "offline"], drawMessages);
  return panel;
}

function drawMessage(message, actions) {
  const isCurrent = message.id === state.current;
  return make("li", { class: isCurrent ? "message current" : "message", "data-id": message.id },
    make("button", { type: "button", class: "said", dir: "auto", title: say("show_message"),
      "aria-current": isCurrent ? "true" : null, onclick: () => actions.show(message.id) },
    message.text),
    make("button", { type: "button", class: "remove quiet", title: say("delete"),
      "aria-label": `${say("delete")}: ${message.text.slice(0, 40)}`,
      onclick: () => actions.remove(message.id) }, "×"),
    make("div", { class: `answer ${message.status}` }, ...answerParts(message, actions)));
}

function answerParts(message, actions) {
  if (message.status === "waiting") {
    return [make("span", { class: "progress", role: "status" },
      say(state.offline ? "offline" : "reading"))];
  }
  if (message.status === "failed") {
    return [make("span", { role: "alert" }, message.reason || say("offline_given_up")), " ",
      make("button", { type: "button", class: "retry quiet",
        onclick: () => actions.retry(message.id) }, say("retry"))];
  }
  const { summary } = message;
  const parts = [make("span", { class: "sentence" }, answerText(summary))];
  if (message.cut) parts.push(make("small", {}, say("too_long", { limit: LIMIT })));
  if (summary.truncated) {
    parts.push(make("small", {}, say("truncated", { pieces: summary.pieces.length,
      end: [...summary.read].slice(-12).join("") })));
  }
  return parts;
}
