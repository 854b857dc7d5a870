// Attention: choose a view, a layer, a head and the token options; everything is drawn here from the
// answer at hand, without asking the server.

import { range } from "../common/answer.js";
import { percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { downloadMenu } from "../common/downloads.js";
import { endsView } from "../views/ends.js";
import { gridLayer, headsView, layersView } from "../views/grid.js";
import { heatmapView, pointText } from "../views/heatmap.js";
import { linesView } from "../views/lines.js";
import { cssColour } from "../common/paint.js";
import { playButton } from "../common/play.js";
import { stepper } from "../common/stepper.js";
import { currentAnswer, listen, state, update } from "../common/store.js";
import { STUDIES, open } from "../common/studies.js";
import { selectionText, summaryText, tagText } from "../common/words.js";

// A view has a name (the address's view=NAME, the text "view_NAME"), build(frame) to make its
// elements once, draw(answer, {width, height}), which returns the weight that is brightest, and
// point() when the pointed-at token changes. To add one, add it here.
export const VIEWS = [heatmapView, linesView, headsView, layersView, endsView];
const DRAWN_FROM = ["view", "language", "theme", "layer", "head", "words", "hideSpecial", "fade",
  "stretch", "moved", "answer"];

export function mount(element) {
  const frame = make("div", { class: "frame" });
  const finding = make("p", { class: "finding" });
  const info = make("p", { class: "info" });
  const readout = make("p", { class: "readout", role: "status" });
  const scale = colourScale();
  const built = new Map();

  function room() {
    const isPhone = window.matchMedia("(max-width: 640px)").matches;
    return { width: frame.clientWidth, height: isPhone ? frame.clientWidth + 40 : frame.clientHeight };
  }

  function draw() {
    const answer = currentAnswer();
    const view = VIEWS.find(({ name }) => name === state.view);
    if (!view) return;
    if (!built.has(view.name)) {
      const place = make("div", { class: "view", "data-view": view.name });
      frame.append(place);
      built.set(view.name, place);
      view.build(place);
    }
    for (const [name, place] of built) place.hidden = name !== view.name || !answer;
    if (!answer) {
      for (const part of [finding, info, readout]) fill(part);
      delete frame.dataset.drawn;
      return;
    }
    scale.show(view.draw(answer, room()));
    frame.dataset.drawn = `${answer.text}/${view.name}/${state.layer}/${state.head}`;
    drawFinding(answer);
    drawInfo(answer);
    drawReadout();
  }

  /** Why this head: it matters most for the answer. */
  function drawFinding(answer) {
    const [layer, head] = answer.matters;
    const isIt = state.layer === layer && state.head === head;
    const isSaid = answer.model.has_classifier && state.view !== "ends"; // it shows two layers at once
    fill(finding, ...(isSaid ? [say(isIt ? "matters_here" : "matters_there",
      { layer, head }), " ", ...(isIt ? [] : [make("button", { type: "button", class: "quiet",
      onclick: () => update({ layer, head, isChosen: false }) }, say("matters_show"))])] : []));
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
      || say({ heads: "grid_hint", layers: "grid_hint", lines: "lines_hint" }[state.view] ?? "cell_hint");
  }

  function endsPoint(answer) {
    return [1, answer.layers].map((layer) => {
      const text = pointText(answer.shown(layer, state.head, state.words, state.hideSpecial));
      return text && `${say("layer_n", { n: layer })} ${text}`;
    }).filter(Boolean).join("  |  ");
  }

  listen(DRAWN_FROM, draw);
  listen(["point"], () => {
    if (!currentAnswer() || state.view in STUDIES) return;
    VIEWS.find(({ name }) => name === state.view).point();
    drawReadout();
  });
  element.append(make("section", { class: "stage" },
    make("div", { class: "controls" }, viewButtons(), downloadMenu()),
    make("div", { class: "controls" }, stepper("layer"), stepper("head"), playLayers(), unitSwitch(),
      specialSwitch(), movedSwitch()), finding,
    make("div", { class: "picture" }, frame,
      make("div", { class: "side" }, scale.element, stretchSwitch(), fadeSlider())),
    make("footer", {}, info, readout)));
  new ResizeObserver(draw).observe(frame);
  draw();
}

/** Walk the picture through the layers. */
function playLayers() {
  const last = () => currentAnswer()?.layers ?? 0;
  return playButton(() => {
    if (state.layer === last() || typeof state.layer !== "number") update({ layer: 1, isChosen: true });
  }, () => {
    if (state.view in STUDIES || state.layer >= last()) return false;
    update({ layer: state.layer + 1, isChosen: true });
    return true;
  });
}

/** Plain weights, or how much each look really moves. */
function movedSwitch() {
  const box = make("input", { type: "checkbox", class: "moved", onchange: () => update({ moved: box.checked }) });
  const text = make("span");
  const label = make("label", { class: "check" }, box, text);
  const draw = () => {
    fill(text, say("moved"));
    label.title = say("moved_note");
    box.checked = state.moved;
  };
  listen(["moved", "answer"], async () => {
    const answer = currentAnswer();
    if (!state.moved || !answer || answer.movedBytes) return;
    await answer.fetchMoved();
    if (answer === currentAnswer()) update({ theme: `${state.theme} ` });
  });
  listen(["language", "moved"], draw);
  draw();
  return label;
}

/** The five pictures of attention, one at a time. */
function viewButtons() {
  const row = make("div", { class: "switch views", role: "group" }, ...VIEWS.map(({ name }) => make(
    "button", { type: "button", "data-view": name, onclick: () => open(name) })));
  const draw = () => {
    row.setAttribute("aria-label", say("views"));
    for (const button of row.children) {
      button.textContent = say(`view_${button.dataset.view}`);
      button.setAttribute("aria-pressed", String(button.dataset.view === state.view));
    }
  };
  listen(["view", "language"], draw);
  draw();
  return row;
}

// ------------------------------------------------------------------------------ the controls

function unitSwitch() {
  const [pieces, words] = ["pieces", "words"].map((name) => make("button", { type: "button",
    "data-unit": name, onclick: () => update({ words: name === "words", point: null }) }));
  const group = make("div", { class: "switch", role: "group" }, pieces, words);
  const draw = () => {
    group.setAttribute("aria-label", say("token_unit"));
    pieces.textContent = say("pieces");
    words.textContent = say("words");
    pieces.setAttribute("aria-pressed", String(!state.words));
    words.setAttribute("aria-pressed", String(state.words));
  };
  listen(["language", "words"], draw);
  draw();
  return group;
}

function specialSwitch() {
  const box = make("input", { type: "checkbox", class: "hide-special",
    onchange: () => update({ hideSpecial: box.checked, point: null }) });
  const text = make("span");
  const draw = () => {
    text.textContent = say("hide_special");
    box.checked = state.hideSpecial;
  };
  listen(["language", "hideSpecial"], draw);
  draw();
  return make("label", { class: "check" }, box, text);
}

function fadeSlider() {
  const slider = make("input", { type: "range", class: "fade-from", min: 0, max: 0.5, step: 0.01,
    oninput: () => update({ fade: Number(slider.value) }) });
  const text = make("span");
  const figure = make("output");
  const draw = () => {
    text.textContent = say("fade");
    slider.value = state.fade;
    figure.textContent = state.fade.toFixed(2);
  };
  listen(["language", "fade"], draw);
  draw();
  return make("label", { class: "fade" }, text, slider, figure);
}

function stretchSwitch() {
  const box = make("input", { type: "checkbox", class: "stretch-scale",
    onchange: () => update({ stretch: box.checked }) });
  const text = make("span");
  const label = make("label", { class: "stretch" }, box, text);
  const draw = () => {
    text.textContent = say("stretch");
    label.title = say("stretch_note");
    box.checked = state.stretch;
  };
  listen(["language", "stretch"], draw);
  draw();
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
  show(1);
  return { element, show };
}
