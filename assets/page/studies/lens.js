// Emotion lens: the classifier read out after every layer, as it is and through the tuned lens.

import { className, percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { legend, paintLines } from "../common/charts.js";
import { playButton } from "../common/play.js";

const LEGEND = 190; // pixels beside the charts

export function build(place) {
  const sentence = make("p", { class: "finding" });
  const missing = make("p", { class: "aside" });
  const charts = ["plain", "tuned"].map((kind) => {
    const [title, canvas] = [make("figcaption"), make("canvas", { role: "img" })];
    return { kind, title, canvas, element: make("figure", { "data-lens": kind }, title, canvas) };
  });
  const names = make("div", { class: "beside" });
  const where = make("span", { class: "where", role: "status" });
  let at = null;        // the layer that ▶ has come to; null shows the end
  let redraw = () => {};
  let last = 0;
  const play = playButton(() => move(0), () => at !== null && move(at < last ? at + 1 : null));
  function move(layer) {
    at = layer;
    redraw();
    return layer !== null;
  }
  place.append(sentence, make("div", { class: "row" }, play, where), make("div", { class: "chart-row" }, make("div", { class: "charts" },
    ...charts.map(({ element }) => element)), names), missing);

  return function draw(data, answer, size) {
    at = null;
    last = data.probabilities.length - 1;
    redraw = () => paint(data, size);
    redraw();
  };

  function paint(data, { width, height }) {
    const { classes, probabilities, best, tuned } = data;
    const now = probabilities[at ?? last];
    const leading = now.indexOf(Math.max(...now));
    where.textContent = at === null ? "" : say("lens_at", { layer: at, name: className(classes[leading]),
      percent: percent(now[leading]) });
    const isNarrow = width < 560;
    const room = isNarrow ? width : width - LEGEND;
    const isRow = tuned && room >= 560;
    sentence.textContent = findingText(data);
    missing.hidden = Boolean(tuned);
    missing.textContent = say("lens_no_tuned");
    for (const { kind, title, canvas, element } of charts) {
      const read = kind === "plain" ? probabilities : tuned;
      element.hidden = !read;
      if (!read) continue;
      title.textContent = say(`lens_${kind}`);
      title.hidden = !tuned;
      canvas.setAttribute("aria-label", `${title.textContent}. ${sentence.textContent}`);
      paintLines(canvas, classes.map((item, i) => ({ colour: item.colour, strong: i === best,
        values: read.map((row) => row[i]) })), { width: isRow ? Math.floor((room - 16) / 2) : room,
        height: Math.max(tuned && !isRow ? 200 : 260, Math.min(460, height - 110)), marks: at === null ? [] : [at],
        label: (value) => percent(value, 0) });
    }
    fill(names, legend(classes.map((item, i) => ({ name: className(item), colour: item.colour,
      strong: i === (at === null ? best : leading), figure: percent(now[i]) }))));
  }
}

function findingText({ classes, probabilities, best, settled, tuned_settled: tunedSettled }) {
  const last = probabilities.length - 1;
  const name = className(classes[best]);
  const text = settled === last && last > 0
    ? say("lens_last", { name, percent: percent(probabilities[last][best]) })
    : say("lens_settled", { name, layer: settled, percent: percent(probabilities[settled][best]),
      end: percent(probabilities[last][best]) });
  return tunedSettled === null ? text
    : `${text} ${say("lens_tuned_settled", { name, layer: tunedSettled })}`;
}
