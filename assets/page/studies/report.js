// Report: what was measured of the checkpoint. Results by language, then what belongs to both.

import { range } from "../shared/answer.js";
import { COLOURS, LANGUAGES, className, percent, say } from "../shared/boot.js";
import { FONT, colour, fill, make, surface } from "../shared/dom.js";
import { barList, figure, legend, paintLines } from "../shared/charts.js";
import { state } from "../shared/store.js";

const LEVELS = ["easy", "hard"];
const INKS = ["#4C78A8", "#F58518", "#54A24B", "#E45756", "#72B7B2", "#B279A2", "#9D755D", "#BAB0AC"];
const orDash = (value, show = percent) => (value === null || value === undefined ? "–" : show(value));

const languageName = (name) => (name === "ko" ? say("report_ko") : say("report_en"));
const levelName = (level) => (level === "easy" ? say("report_easy") : say("report_hard"));

/** The names of the figures of a language, in their order. */
const figureNames = () => ({
  lines: say("report_lines"), accuracy: say("report_accuracy"),
  accuracy_easy: say("report_accuracy_easy"), accuracy_hard: say("report_accuracy_hard"),
  macro_f1: say("report_macro_f1"), calibration_error: say("report_calibration_error"),
  feeling_confident: say("report_feeling_confident"),
  none_not_confident: say("report_none_not_confident"),
});

/** The small changes of bert evaluate. */
const changeNames = () => ({
  space: say("report_space"), "upper case": say("report_upper_case"), typo: say("report_typo"),
  "trailing ㅋㅋ": say("report_trailing", { end: "ㅋㅋ" }),
  "trailing !!": say("report_trailing", { end: "!!" }), NFD: say("report_nfd"),
});

/** One sentence for each part that metrics.json does not have. */
const leftOut = () => ({
  languages: say("report_left_languages"), reliability: say("report_left_reliability"),
  curves: say("report_left_curves"), baselines: say("report_left_baselines"),
  ablations: say("report_left_ablations"), learning_curve: say("report_left_learning_curve"),
});

function section(title, ...parts) {
  return make("section", {}, make("h3", {}, title), ...parts);
}

function table(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows)));
}

/** A share with a bar behind it. */
function barCell(share) {
  const cell = make("td", { class: "bar-cell" }, orDash(share));
  if (share !== null && share !== undefined) cell.style.setProperty("--share", `${100 * share}%`);
  return cell;
}

/** Accuracies by language and level, one row a model or file. */
function scores(title, rows, kind = say("report_name")) {
  const groups = LANGUAGES.flatMap((name) => LEVELS.map((level) => [name, level]));
  return section(title, table(
    [kind, ...groups.map(([name, level]) => `${languageName(name)}, ${levelName(level)}`)],
    rows.map((row) => make("tr", { "data-name": row.name, class: row.isOwn ? "own" : null },
      make("th", { scope: "row" }, row.isOwn ? say("report_model") : row.name),
      ...groups.map(([name, level]) => barCell(row[name][level]))))));
}

/** Lines that people wrote: what the model answers beside the label of an LLM. */
function llmLabels(rows) {
  return section(say("report_llm_labels"), make("p", { class: "aside" }, say("report_llm_labels_what")), table(
    [say("report_language"), say("report_same_feeling"), say("report_same_confident"),
      say("report_feeling_confident"), say("report_none_not_confident"), say("report_count")],
    rows.map((row) => make("tr", { "data-language": row.language },
      make("th", { scope: "row" }, languageName(row.language)),
      ...[row.accuracy, row.accuracy_confident, row.feeling_confident, row.none_not_confident].map(barCell),
      make("td", {}, orDash(row.lines, String))))));
}

function confusion(classes, counts) {
  const names = classes.map(className);
  const heads = names.map((name) => make("th", { scope: "col" }, make("span", {}, name)));
  const rows = counts.map((row, i) => {
    const total = row.reduce((sum, count) => sum + count, 0);
    return make("tr", {}, make("th", { scope: "row" }, names[i]), ...row.map((count, j) => {
      const share = total ? count / total : 0;
      const cell = make("td", { title: say("report_cell", { true: names[i], answer: names[j], count, total }) },
        count ? String(count) : "");
      cell.style.background = `rgb(${COLOURS[Math.round(255 * share)].join(" ")})`;
      cell.style.color = share > 0.43 ? "#000" : "#fff";
      return cell;
    }));
  });
  return section(say("report_confusion"), make("p", { class: "aside" }, say("report_confusion_what")),
    make("div", { class: "scroll" }, make("table", { class: "confusion" },
      make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...rows))));
}

function perClass(classes, rows) {
  return section(say("report_per_class"), table(
    [say("report_class"), say("report_precision"), say("report_recall"), say("report_f1"), say("report_count")],
    rows.map((row, i) => make("tr", { "data-class": classes[i].key },
      make("th", { scope: "row" }, className(classes[i])),
      ...[row.precision, row.recall, row.f1].map(barCell), make("td", {}, String(row.lines))))));
}

/** Bars at the probability that was said, as high as the share that was right. */
function paintReliability(canvas, bins, width, height) {
  const pen = surface(canvas, width, height);
  const [left, right, top, bottom] = [44, 10, 16, 36];
  const x = (share) => left + (width - left - right) * share;
  const y = (share) => top + (height - top - bottom) * (1 - share);
  pen.font = `12px ${FONT}`;
  for (const share of range(6).map((part) => part / 5)) {
    pen.fillStyle = colour("--muted");
    pen.textAlign = "right";
    pen.fillText(percent(share, 0), left - 6, y(share) + 4);
    pen.textAlign = "center";
    pen.fillText(percent(share, 0), Math.min(x(share), width - 18), height - bottom + 16);
    pen.fillStyle = colour("--line");
    pen.fillRect(left, y(share), width - left - right, 1);
  }
  pen.textAlign = "center";
  for (const { lines, said, right: share } of bins) {
    pen.fillStyle = colour("--accent");
    pen.fillRect(x(said) - 7, y(share), 14, y(0) - y(share));
    pen.fillStyle = colour("--ink");
    pen.fillText(String(lines), x(said), y(share) - 4);
  }
  pen.strokeStyle = colour("--against");
  pen.setLineDash([5, 4]);
  pen.beginPath();
  pen.moveTo(x(0), y(0));
  pen.lineTo(x(1), y(1));
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = colour("--muted");
  pen.fillText(say("report_said"), (left + width - right) / 2, height - 4);
}

/** Lines with their names below: lines of {name, values}, from 0 to the highest value. */
function chart(title, lines, names, size, label = figure) {
  if (!lines.length) return null;
  const inked = lines.map((line, i) => ({ ...line, colour: INKS[i % INKS.length],
    figure: label(line.values.at(-1)) }));
  const canvas = make("canvas", { role: "img", "aria-label": title });
  const high = label === figure ? Math.max(1e-9, ...lines.flatMap(({ values }) => values)) : 1;
  paintLines(canvas, inked, { ...size, high, names, label, room: 52 });
  return section(title, canvas, lines.length > 1 ? legend(inked) : null);
}

export function build(place, choose) {
  const sentence = make("p", { class: "finding", hidden: true });
  const common = make("div", { class: "common" });
  const switcher = make("div", { class: "languages", role: "group" });
  const results = make("div", { class: "results" });
  const history = make("div", { class: "pair" });
  const left = make("ul", { class: "left-out aside" });
  place.append(sentence, common, switcher, results, history, left);

  function ownScores({ name, languages }) {
    return { name, isOwn: true, ...Object.fromEntries(LANGUAGES.map((language) => [language,
      Object.fromEntries(LEVELS.map((level) => [level,
        languages[language]?.figures[`accuracy_${level}`] ?? null]))])) };
  }

  function drawResults({ classes, languages }, chosen, size) {
    const part = languages[chosen];
    if (!part) return fill(results);
    const [names, changes] = [figureNames(), changeNames()];
    const figures = make("dl", { class: "figures" }, ...Object.keys(names)
      .filter((name) => name in part.figures).map((name) => make("div", { "data-figure": name },
        make("dt", {}, names[name]), make("dd", {}, name === "lines" ? String(part.figures[name])
          : percent(part.figures[name])))));
    const bins = make("canvas", { role: "img", "aria-label": say("report_reliability") });
    if (part.reliability.length) paintReliability(bins, part.reliability, size.width, size.height);
    return fill(results, figures,
      part.confusion ? confusion(classes, part.confusion) : null,
      make("div", { class: "pair" },
        part.per_class.length ? perClass(classes, part.per_class) : null,
        part.reliability.length ? section(say("report_reliability"), bins,
          make("p", { class: "aside" }, say("report_reliability_what"))) : null,
        part.robustness.length ? section(say("report_robustness"), barList(part.robustness.map(
          ({ name, share }) => ({ name: changes[name] ?? name, share })))) : null));
  }

  return function draw(data, answer, { width }) {
    const measured = Object.keys(data.languages);
    const half = width < 640 ? width : Math.floor((width - 24) / 2);
    const size = { width: half, height: 230 };
    const isEmpty = !measured.length && !data.curves.length && !data.dev_scores.length;
    sentence.hidden = !isEmpty && !data.problem;
    sentence.textContent = data.problem === "missing" ? say("report_no_file")
      : data.problem ? say("report_unreadable") : say("report_empty");
    const wanted = state.options.results ?? state.language;
    const chosen = measured.includes(wanted) ? wanted : measured[0];
    const own = ownScores(data);
    fill(common, measured.length || data.baselines.length
      ? scores(say("report_baselines"), [own, ...data.baselines]) : null,
      data.more.length ? scores(say("report_more"), data.more, say("report_file")) : null,
      data.llm_labels.length ? llmLabels(data.llm_labels) : null);
    switcher.setAttribute("aria-label", say("report_results"));
    fill(switcher, ...(measured.length > 1 ? [make("span", {}, say("report_results")),
      ...measured.map((name) => make("button", { type: "button", class: "quiet", "data-results": name,
        "aria-pressed": String(name === chosen), onclick: () => choose({ results: name }) },
      languageName(name)))] : []));
    drawResults(data, chosen, size);
    fill(history,
      data.ablations.length ? scores(say("report_ablations"), [own, ...data.ablations]) : null,
      chart(say("report_learning_curve"),
        LANGUAGES.flatMap((name) => LEVELS.map((level) => ({
          name: `${languageName(name)}, ${levelName(level)}`,
          values: data.learning_curve.map((row) => row[name][level]) })))
          .filter(({ values }) => values.length && !values.includes(null)),
        data.learning_curve.map(({ share }) => percent(share, 0)), size, (value) => percent(value, 0)),
      data.dev_scores.length ? chart(say("report_dev"), [{ name: say("report_dev"), values: data.dev_scores }],
        data.dev_scores.map((_, i) => i + 1), size, (value) => percent(value, 0)) : null,
      ...data.curves.map(({ stage, steps, lines }) => chart(`${say("report_curves")} · bert ${stage}`,
        lines.map((line) => ({ ...line, name: line.name.replaceAll("_", " ") })), steps, size)),
      data.public.length ? section(say("report_public"), table(
        [say("report_set"), say("report_count"), say("report_accuracy"), say("report_macro_f1")],
        data.public.map((row) => make("tr", {}, make("th", { scope: "row" }, row.name),
          make("td", {}, orDash(row.lines, String)), barCell(row.accuracy), barCell(row.macro_f1))))) : null);
    const sentences = leftOut();
    fill(left, ...(data.problem || isEmpty ? [] : data.missing.map(({ part }) => make("li", {}, sentences[part]))));
  };
}
