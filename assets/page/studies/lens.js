// Emotion lens: the classifier read out after every layer, ten lines over thirteen layers.

import { className, percent, say } from "../shared/boot.js";
import { fill, make } from "../shared/dom.js";
import { legend, paintLines } from "../shared/charts.js";

export function build(place) {
  const sentence = make("p", { class: "finding" });
  const canvas = make("canvas", { role: "img" });
  const names = make("div", { class: "beside" });
  place.append(sentence, make("div", { class: "chart-row" }, canvas, names));

  return function draw({ classes, probabilities, best, settled }, answer, { width, height }) {
    const last = probabilities.length - 1;
    const name = className(classes[best]);
    sentence.textContent = settled === last && last > 0
      ? say("lens_last", { name, percent: percent(probabilities[last][best]) })
      : say("lens_settled", { name, layer: settled, percent: percent(probabilities[settled][best]),
        end: percent(probabilities[last][best]) });
    canvas.setAttribute("aria-label", sentence.textContent);
    const lines = classes.map((item, i) => ({ name: className(item), colour: item.colour,
      strong: i === best, values: probabilities.map((row) => row[i]), figure: percent(probabilities[last][i]) }));
    const isNarrow = width < 560;
    paintLines(canvas, lines, { width: isNarrow ? width : width - 190,
      height: Math.max(260, Math.min(460, height - 60)), label: (value) => percent(value, 0) });
    fill(names, legend(lines));
  };
}
