// The right-hand side: choose a view, a layer, a head and the token options; everything is drawn
// here from the answer at hand, without asking the server.

import { possible } from "./address.js";
import { range } from "./answer.js";
import { percent, say } from "./boot.js";
import { fill, make } from "./dom.js";
import { downloadMenu } from "./downloads.js";
import { endsView } from "./ends.js";
import { gridLayer, headsView, layersView } from "./grid.js";
import { heatmapView, pointText } from "./heatmap.js";
import { linesView } from "./lines.js";
import { cssColour } from "./paint.js";
import { currentAnswer, isEmpty, listen, state, update } from "./store.js";
import { textStrip } from "./strip.js";
import { GROUPS, STUDIES, groupOf } from "./studies.js";
import { studyPanel } from "./study.js";
import { selectionText, summaryText, tagText } from "./words.js";

// A view has a name (the address's view=NAME, the text "view_NAME"), build(frame) to make its
// elements once, draw(answer, {width, height}), which returns the weight that is brightest, and
// point() when the pointed-at token changes. To add one, add it here.
export const VIEWS = [heatmapView, linesView, headsView, layersView, endsView];
const DRAWN_FROM = ["view", "language", "theme", "layer", "head", "words", "hideSpecial", "fade",
  "stretch", "messages", "current"];

/** Build the panel; `actions.explain(null)` gives up the colouring by class. */
export function stagePanel(actions) {
  const tabs = viewTabs();
  const frame = make("div", { class: "frame", role: "tabpanel", id: "view-frame" });
  const info = make("p", { class: "info" });
  const readout = make("p", { class: "readout", role: "status" });
  const scale = colourScale();
  const built = new Map();
  const ofAttention = []; // what a study does not need

  function room() {
    const isPhone = window.matchMedia("(max-width: 640px)").matches;
    return { width: frame.clientWidth, height: isPhone ? frame.clientWidth + 40 : frame.clientHeight };
  }

  function draw() {
    const answer = currentAnswer();
    const view = VIEWS.find(({ name }) => name === state.view);
    for (const part of ofAttention) part.hidden = !view;
    if (!view) return;
    frame.setAttribute("aria-labelledby", `tab-${view.name}`);
    if (!built.has(view.name)) {
      const place = make("div", { class: "view", "data-view": view.name });
      frame.append(place);
      built.set(view.name, place);
      view.build(place);
    }
    for (const [name, place] of built) place.hidden = name !== view.name || !answer;
    if (isEmpty()) [info, readout].forEach((part) => fill(part));
    if (!answer) return;
    scale.show(view.draw(answer, room()));
    drawInfo(answer);
    drawReadout();
  }

  function drawInfo(answer) {
    const parts = [];
    const isEnds = state.view === "ends";
    const isOneHead = typeof state.layer === "number" && state.head !== "mean";
    if (["heatmap", "lines"].includes(state.view) || (state.view === "layers" && isOneHead)) {
      parts.push(make("b", {}, selectionText(state.layer, state.head)));
      if (state.layer === "rollout") parts.push(say("rollout_note"));
      else if (state.layer === "mean") parts.push(say("mean_layers_note"));
      else if (state.head === "mean") parts.push(say("mean_note"));
      else parts.push(tagText(answer.tag(state.layer, state.head), true));
    }
    const summarised = isEnds ? [1, answer.layers]
      : [state.view === "heads" ? gridLayer(answer) : state.layer];
    for (const layer of summarised.filter((number) => typeof number === "number")) {
      parts.push(`${say("layer_n", { n: layer })}: ${summaryText(answer, layer)}`);
    }
    fill(info, ...parts.flatMap((part, i) => (i ? [make("i", {}, "·"), part] : [part])));
  }

  function drawReadout() {
    const answer = currentAnswer();
    if (!answer) return;
    const shown = answer.shown(state.layer, state.head, state.words, state.hideSpecial);
    const lost = state.hideSpecial
      ? say("hidden_share", { percent: percent(shown.hiddenShare) }) : "";
    readout.textContent = (state.view === "ends" ? endsPoint(answer) : pointText(shown)) || lost
      || say(["heads", "layers"].includes(state.view) ? "grid_hint" : "cell_hint");
  }

  function endsPoint(answer) {
    return [1, answer.layers].map((layer) => {
      const text = pointText(answer.shown(layer, state.head, state.words, state.hideSpecial));
      return text && `${say("layer_n", { n: layer })} ${text}`;
    }).filter(Boolean).join("  |  ");
  }

  listen(DRAWN_FROM, draw);
  listen(["point"], () => {
    const answer = currentAnswer();
    if (!answer) return;
    VIEWS.find(({ name }) => name === state.view)?.point();
    if (!(state.view in STUDIES)) drawReadout();
  });
  new ResizeObserver(() => draw()).observe(frame);
  const picture = make("div", { class: "picture" }, frame,
    make("div", { class: "side" }, scale.element, stretchSwitch(), fadeSlider()));
  const footer = make("footer", {}, info, readout);
  ofAttention.push(picture, footer);
  const panel = make("section", { class: "panel stage" }, make("header", {}, tabs, downloadMenu()),
    controls(), textStrip(() => actions.explain(null)), picture, studyPanel(), footer);
  listen(["language"], () => panel.setAttribute("aria-label", say("attention")));
  return panel;
}

/** Open a view; a study that looks at one layer or head gets one. */
function open(view) {
  const answer = currentAnswer();
  update({ view, ...(answer ? possible(answer, { ...state, view }) : {}) });
}

/** The groups of views; the one that was last open in a group opens again. */
export function groupButtons() {
  const last = Object.fromEntries(GROUPS.map(({ name, views }) => [name, views[0]]));
  const buttons = GROUPS.map(({ name }) => make("button", { type: "button", "data-group": name,
    onclick: () => open(last[name]) }));
  const row = make("nav", { class: "groups" }, ...buttons);
  listen(["view", "language"], () => {
    row.setAttribute("aria-label", say("groups"));
    const current = groupOf(state.view).name;
    last[current] = state.view;
    buttons.forEach((button, i) => {
      button.textContent = say(`group_${GROUPS[i].name}`);
      button.setAttribute("aria-pressed", String(GROUPS[i].name === current));
    });
  });
  return row;
}

function viewTabs() {
  const row = make("div", { class: "tabs", role: "tablist" });
  row.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const { views } = groupOf(state.view);
    open(views[(views.indexOf(state.view) + by + views.length) % views.length]);
    row.querySelector('[aria-selected="true"]').focus();
  });
  let shown = null;
  listen(["view", "language"], () => {
    row.setAttribute("aria-label", say("views"));
    const group = groupOf(state.view);
    if (shown !== group) {
      fill(row, ...group.views.map((name) => make("button", { type: "button", role: "tab",
        id: `tab-${name}`, "data-view": name, onclick: () => open(name),
        "aria-controls": name in STUDIES ? "study-frame" : "view-frame" })));
      shown = group;
    }
    for (const tab of row.children) {
      const { view } = tab.dataset;
      const isChosen = view === state.view;
      tab.textContent = say(view in STUDIES ? `study_${view}` : `view_${view}`);
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
      if (isChosen) row.scrollLeft = tab.offsetLeft - row.offsetLeft - row.clientWidth / 3;
    }
  });
  return row;
}

// ------------------------------------------------------------------------------ the controls

/** Layer and head for whatever uses them; how tokens are shown, for attention only. */
function controls() {
  const layer = stepper("layer", (answer, isStudy) => [
    ...range(answer.layers).map((i) => [i + 1, say("layer_n", { n: i + 1 })]),
    ...(isStudy ? [] : [["mean", say("mean_layers")], ["rollout", say("rollout")]])]);
  const head = stepper("head", (answer, isStudy) => [
    ...(isStudy ? [] : [["mean", say("mean_heads")]]),
    ...range(answer.heads).map((i) => [i + 1, say("head_n", { n: i + 1 })])]);
  const ofTokens = [unitSwitch(), specialSwitch()];
  const row = make("div", { class: "controls" }, layer, head, ...ofTokens);
  listen(["view", "language"], () => {
    const study = STUDIES[state.view];
    layer.hidden = study ? !study.uses.includes("layer") : false;
    head.hidden = study ? !study.uses.includes("head") : false;
    row.hidden = layer.hidden && head.hidden;
    for (const part of ofTokens) part.hidden = Boolean(study);
  });
  return row;
}

/** A selector with a step to either side. */
function stepper(what, options) {
  const label = make("label", { for: `choose-${what}`, class: "unseen" });
  const select = make("select", { id: `choose-${what}` });
  const back = make("button", { type: "button", class: "step" }, "‹");
  const forth = make("button", { type: "button", class: "step" }, "›");
  const choose = (value) => {
    const chosen = /^\d+$/.test(value) ? Number(value) : value;
    const wholeModel = what === "layer" && typeof chosen !== "number";
    update({ [what]: chosen, ...(wholeModel ? { head: "mean" } : {}) });
  };
  const step = (by) => {
    const next = select.options[select.selectedIndex + by];
    if (next) choose(next.value);
  };
  back.addEventListener("click", () => step(-1));
  forth.addEventListener("click", () => step(1));
  select.addEventListener("change", () => choose(select.value));
  let drawnFor = "";
  listen(["language", "messages", "current", "layer", "head", "view"], () => {
    const answer = currentAnswer();
    label.textContent = say(what);
    back.setAttribute("aria-label", say(`previous_${what}`));
    forth.setAttribute("aria-label", say(`next_${what}`));
    if (!answer) return;
    const isStudy = state.view in STUDIES;
    const signature = `${state.language}/${answer.layers}/${answer.heads}/${isStudy}`;
    if (drawnFor !== signature) {
      drawnFor = signature;
      fill(select, ...options(answer, isStudy).map(([value, text]) => make("option", { value }, text)));
    }
    select.value = String(state[what]);
    const isIdle = what === "head" ? typeof state.layer !== "number" && state.view !== "ends"
      : state.view === "ends";
    select.disabled = isIdle;
    back.disabled = isIdle || select.selectedIndex <= 0;
    forth.disabled = isIdle || select.selectedIndex >= select.options.length - 1;
  });
  return make("div", { class: "stepper" }, label, back, select, forth);
}

function unitSwitch() {
  const [pieces, words] = ["pieces", "words"].map((name) => make("button", { type: "button",
    "data-unit": name, onclick: () => update({ words: name === "words", point: null }) }));
  const group = make("div", { class: "switch", role: "group" }, pieces, words);
  listen(["language", "words"], () => {
    group.setAttribute("aria-label", say("token_unit"));
    pieces.textContent = say("pieces");
    words.textContent = say("words");
    pieces.setAttribute("aria-pressed", String(!state.words));
    words.setAttribute("aria-pressed", String(state.words));
  });
  return group;
}

function specialSwitch() {
  const box = make("input", { type: "checkbox", id: "hide-special",
    onchange: () => update({ hideSpecial: box.checked, point: null }) });
  const text = make("span");
  listen(["language", "hideSpecial"], () => {
    text.textContent = say("hide_special");
    box.checked = state.hideSpecial;
  });
  return make("label", { class: "check" }, box, text);
}

function fadeSlider() {
  const slider = make("input", { type: "range", id: "fade", min: 0, max: 0.5, step: 0.01,
    oninput: () => update({ fade: Number(slider.value) }) });
  const text = make("span");
  const figure = make("output", { for: "fade" });
  listen(["language", "fade"], () => {
    text.textContent = say("fade");
    slider.value = state.fade;
    figure.textContent = state.fade.toFixed(2);
  });
  return make("label", { class: "fade" }, text, slider, figure);
}

function stretchSwitch() {
  const box = make("input", { type: "checkbox", id: "stretch",
    onchange: () => update({ stretch: box.checked }) });
  const text = make("span");
  const label = make("label", { class: "stretch" }, box, text);
  listen(["language", "stretch"], () => {
    text.textContent = say("stretch");
    label.title = say("stretch_note");
    box.checked = state.stretch;
  });
  return label;
}

/** The colour scale with its numbers, from 0 to the weight that is brightest. */
function colourScale() {
  const bar = make("span", { class: "ramp" });
  bar.style.setProperty("--stops", range(17).map((i) => cssColour(i / 16)).join(", "));
  const figures = make("span", { class: "figures" });
  const name = make("span", { class: "name" });
  const element = make("div", { class: "scale", role: "img" }, name, bar, figures);
  function show(top) {
    const digits = top === 1 ? 1 : top < 0.1 ? 3 : 2;
    fill(figures, ...[5, 4, 3, 2, 1, 0].map((i) => make("span", {}, (top * i / 5).toFixed(digits))));
    name.textContent = say("weight");
    element.setAttribute("aria-label", `${say("weight")} 0–${top.toFixed(digits)}`);
  }
  listen(["language"], () => show(1));
  return { element, show };
}
