// Report: what was measured of the checkpoint. What belongs to both languages, the results of one
// of them, then how it was trained.

import { range } from "../common/answer.js";
import { COLOURS, LANGUAGES, className, percent, say } from "../common/boot.js";
import { FONT, colour, fill, make, surface } from "../common/dom.js";
import { barList, figure, legend, paintLines } from "../common/charts.js";
import { state } from "../common/store.js";

const LEVELS = ["easy", "hard"];
const INKS = ["#4C78A8", "#F58518", "#54A24B", "#E45756", "#72B7B2", "#B279A2", "#9D755D", "#BAB0AC"];
const isShare = (value) => value !== null && value !== undefined;
const whole = (share) => percent(share, 0);

// ---------------------------------------------------------------------------------- names

const languageName = (name) => (name === "ko" ? say("report_ko") : say("report_en"));
const levelName = (level) => (level === "easy" ? say("report_easy") : say("report_hard"));

/** The figures of a language, in their order. */
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

const groupNames = () => ({
  all: say("report_group_all"), short: say("report_group_short"),
  negation: say("report_group_negation"), irony: say("report_group_irony"),
  idiom: say("report_group_idiom"), mixed: say("report_group_mixed"),
});

const methodNames = () => ({
  random: say("report_method_random"), attention: say("report_method_attention"),
  value_weighted: say("report_method_value_weighted"), rollout: say("report_method_rollout"),
  alti: say("report_method_alti"), attention_x_gradient: say("report_method_attention_x_gradient"),
  gradient_x_input: say("report_method_gradient_x_input"),
  attn_lrp: say("report_method_attn_lrp"),
  integrated_gradients: say("report_method_integrated_gradients"),
  occlusion_mask: say("report_method_occlusion_mask"),
  occlusion_delete: say("report_method_occlusion_delete"),
});

const measureNames = () => ({
  comprehensiveness: say("report_comprehensiveness"), sufficiency: say("report_sufficiency"),
  deletion: say("report_deletion"), insertion: say("report_insertion"),
});

/** The parts that metrics.json may lack, under the names of their sections. */
const partNames = () => ({
  languages: say("report_baselines"), contrast: say("report_contrast"),
  baselines: say("report_baselines_part"), held_out: say("report_held_out"),
  explanations: say("report_explanations"), pruning: say("report_pruning"),
  curves: say("report_curves"),
});

// ---------------------------------------------------------------------------------- parts

function section(title, ...parts) {
  return make("section", {}, make("h3", {}, title), ...parts);
}

const aside = (text) => make("p", { class: "aside" }, text);

function table(heads, rows) {
  return make("div", { class: "scroll", tabindex: 0 }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows)));
}

function row(name, cells, attributes = {}) {
  return make("tr", attributes, make("th", { scope: "row" }, name), ...cells);
}

/** A share with a bar behind it. */
function barCell(share) {
  const cell = make("td", { class: "bar-cell" }, isShare(share) ? percent(share) : "–");
  if (isShare(share)) cell.style.setProperty("--share", `${100 * share}%`);
  return cell;
}

const countCell = (count) => make("td", {}, isShare(count) ? count.toLocaleString("en") : "–");

/** Accuracies by language and level, one row a model or file. */
function scores(title, first, rows) {
  const groups = LANGUAGES.flatMap((name) => LEVELS.map((level) => [name, level]));
  return section(title, table(
    [first, ...groups.map(([name, level]) => `${languageName(name)}, ${levelName(level)}`)],
    rows.map((one) => row(one.shown ?? (one.name === "linear model" ? say("report_linear") : one.name),
      groups.map(([name, level]) => barCell(one[name][level])),
      { "data-name": one.name, class: one.isOwn ? "own" : null }))));
}

/** Rows of figures under a title: columns of {key: heading}, of which `counts` are no shares. */
function figureTable(rows, first, shares, counts, name = languageName) {
  return table([first, ...Object.values(shares), ...Object.values(counts)],
    rows.map((one) => row(name(one.name), [...Object.keys(shares).map((key) => barCell(one.figures[key])),
      ...Object.keys(counts).map((key) => countCell(one.figures[key]))], { "data-row": one.name })));
}

function contrast(rows) {
  const names = groupNames();
  const who = rows.some(({ linear }) => Object.values(linear).some(isShare)) ? ["model", "linear"] : ["model"];
  const columns = who.flatMap((one) => LANGUAGES.map((name) => [one, name]));
  return section(say("report_contrast"), aside(say("report_contrast_what")), table(
    [say("report_group"), ...columns.map(([one, name]) => `${one === "model" ? say("report_model")
      : say("report_linear")}, ${languageName(name)}`)],
    rows.map((one) => row(names[one.group] ?? one.group,
      columns.map(([which, name]) => barCell(one[which][name])),
      { "data-group": one.group, class: one.group === "all" ? "own" : null }))));
}

function heldOut({ masked, sources, cloze, next_sentence_right: right }) {
  const pieces = { masked_right: say("report_masked") };
  return [
    masked.length ? section(say("report_held_out"),
      aside(say("report_held_out_what", { percent: isShare(right) ? percent(right) : "–" })),
      figureTable(masked, say("report_language"), pieces, {}),
      sources.length ? figureTable(sources, say("report_source"),
        { ...pieces, next_sentence_right: say("report_next") }, {}, (name) => name) : null) : null,
    cloze.length ? section(say("report_cloze"), figureTable(cloze, say("report_language"),
      { first: say("report_first"), first_ten: say("report_first_ten") },
      { sentences: say("report_sentences") })) : null,
  ];
}

function confusion(classes, counts) {
  const names = classes.map(className);
  const heads = names.map((name) => make("th", { scope: "col" }, make("span", {}, name)));
  const rows = counts.map((own, i) => {
    const total = own.reduce((sum, count) => sum + count, 0);
    return row(names[i], own.map((count, j) => {
      const share = total ? count / total : 0;
      const cell = make("td", { title: say("report_cell", { true: names[i], answer: names[j], count, total }) },
        count ? String(count) : "");
      cell.style.background = `rgb(${COLOURS[Math.round(255 * share)].join(" ")})`;
      cell.style.color = share > 0.43 ? "#000" : "#fff";
      return cell;
    }));
  });
  return section(say("report_confusion"), aside(say("report_confusion_what")),
    make("div", { class: "scroll", tabindex: 0 }, make("table", { class: "confusion" },
      make("thead", {}, make("tr", {}, make("td"), ...heads)), make("tbody", {}, ...rows))));
}

function perClass(classes, rows) {
  return section(say("report_per_class"), table(
    [say("report_class"), say("report_precision"), say("report_recall"), say("report_f1"), say("report_count")],
    rows.map((one, i) => row(className(classes[i]), [...[one.precision, one.recall, one.f1].map(barCell),
      countCell(one.lines)], { "data-class": classes[i].key }))));
}

function league(rows) {
  const [methods, measures] = [methodNames(), measureNames()];
  return section(say("report_explanations"), aside(say("report_explanations_what")), table(
    [say("report_method"), ...Object.values(measures), say("report_milliseconds")],
    rows.map((one) => row(methods[one.name] ?? one.name, [
      ...Object.keys(measures).map((name) => make("td", {}, name in one.measures ? figure(one.measures[name]) : "–")),
      make("td", {}, isShare(one.milliseconds) ? one.milliseconds.toFixed(one.milliseconds < 10 ? 1 : 0) : "–")],
    { "data-method": one.name, class: one.beats_chance ? null : "chance" }))));
}

// ---------------------------------------------------------------------------------- charts

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
    pen.fillText(whole(share), left - 6, y(share) + 4);
    pen.textAlign = "center";
    pen.fillText(whole(share), Math.min(x(share), width - 18), height - bottom + 16);
    pen.fillStyle = colour("--line");
    pen.fillRect(left, y(share), width - left - right, 1);
  }
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

/** Lines of {name, values} with their names below: shares up to 100 %, anything else to its highest. */
function chart(title, lines, names, across, size, areShares = true, ...notes) {
  if (!lines.length) return null;
  const label = areShares ? whole : figure;
  const inked = lines.map((line, i) => ({ colour: INKS[i % INKS.length],
    figure: areShares ? percent(line.values.at(-1)) : figure(line.values.at(-1)), ...line }));
  const canvas = make("canvas", { role: "img", "aria-label": title });
  const high = areShares ? 1 : Math.max(1e-9, ...lines.flatMap(({ values }) => values));
  paintLines(canvas, inked, { ...size, high, names, label, room: 52 });
  return section(title, ...notes, canvas, make("p", { class: "across aside" }, across), legend(inked));
}

function pruning(found, size) {
  if (!found) return null;
  const { removed, lines, at_least: share, can_go: canGo } = found;
  return chart(say("report_pruning"), lines.map(({ name, values }) => ({ name: languageName(name), values, figure: undefined })),
    removed, say("report_heads_off"), size, true, aside(say("report_pruning_what")),
    make("ul", { class: "left-out" }, ...lines.map(({ name }) => make("li", { "data-can-go": name },
      say("report_can_go", { language: languageName(name), count: canGo[name], total: removed.at(-1),
        percent: whole(share) })))));
}

function learningCurve(rows, size) {
  const lines = LANGUAGES.flatMap((name) => LEVELS.map((level) => ({
    name: `${languageName(name)}, ${levelName(level)}`, values: rows.map((one) => one[name][level]) })));
  return chart(say("report_learning_curve"), lines.filter(({ values }) => values.length > 1 && values.every(isShare)),
    rows.map(({ share }) => percent(share, share < 0.2 ? 1 : 0)), say("report_share_of_lines"), size);
}

// ---------------------------------------------------------------------------------- the whole

export function build(place, choose) {
  const sentence = make("p", { class: "finding", hidden: true });
  const common = make("div", { class: "common" });
  const switcher = make("div", { class: "languages", role: "group" });
  const results = make("div", { class: "results" });
  const history = make("div", { class: "pair" });
  const left = make("ul", { class: "left-out aside" });
  place.append(sentence, common, switcher, results, history, left);

  function drawCommon(data) {
    const own = { name: data.name, shown: say("report_model"), isOwn: true,
      ...Object.fromEntries(LANGUAGES.map((language) => [language, Object.fromEntries(LEVELS.map((level) =>
        [level, data.languages[language]?.figures[`accuracy_${level}`]]))])) };
    const files = { "personas.tsv": say("report_personas") };
    const names = figureNames();
    const lines = { lines: say("report_count") };
    fill(common,
      Object.keys(data.languages).length || data.baselines.length
        ? scores(say("report_baselines"), say("report_name"), [own, ...data.baselines]) : null,
      data.more.length ? scores(say("report_other_lines"), say("report_lines_of"),
        data.more.map((one) => ({ ...one, shown: files[one.name] }))) : null,
      data.contrast.length ? contrast(data.contrast) : null,
      data.two_feelings.length ? section(say("report_two_feelings"), aside(say("report_two_feelings_what")),
        figureTable(data.two_feelings, say("report_language"), { right: say("report_right"),
          both_first: say("report_both_first"), room_for_both: say("report_room_for_both") }, lines)) : null,
      data.llm_labels.length ? section(say("report_llm_labels"), aside(say("report_llm_labels_what")),
        figureTable(data.llm_labels, say("report_language"), { accuracy: say("report_same_feeling"),
          accuracy_confident: say("report_same_confident"), feeling_confident: names.feeling_confident,
          none_not_confident: names.none_not_confident }, lines)) : null,
      data.public.length ? section(say("report_public"), figureTable(data.public, say("report_set"),
        { accuracy: names.accuracy, macro_f1: names.macro_f1 }, lines, (name) => name)) : null,
      ...heldOut(data));
  }

  function drawResults({ classes, languages, explanations }, chosen, size) {
    const part = languages[chosen];
    const methods = explanations[chosen] ? league(explanations[chosen]) : null;
    if (!part) return fill(results, methods);
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
          aside(say("report_reliability_what"))) : null,
        part.robustness.length ? section(say("report_robustness"), barList(part.robustness.map(
          ({ name, share }) => ({ name: changes[name] ?? name, share })))) : null),
      methods);
  }

  return function draw(data, answer, { width }) {
    const measured = [...new Set([...Object.keys(data.languages), ...Object.keys(data.explanations)])];
    const half = width < 640 ? width : Math.floor((width - 24) / 2);
    const size = { width: half, height: 230 };
    const isEmpty = !measured.length && !data.curves.length && !data.baselines.length && !data.pruning;
    sentence.hidden = !isEmpty && !data.problem;
    sentence.textContent = data.problem === "missing" ? say("report_no_file")
      : data.problem ? say("report_unreadable") : say("report_empty");
    const wanted = state.options.results ?? state.language;
    const chosen = measured.includes(wanted) ? wanted : measured[0];
    drawCommon(data);
    switcher.setAttribute("aria-label", say("report_results"));
    fill(switcher, ...(measured.length > 1 ? [make("span", {}, say("report_results")),
      ...measured.map((name) => make("button", { type: "button", class: "quiet", "data-results": name,
        "aria-pressed": String(name === chosen), onclick: () => choose({ results: name }) },
      languageName(name)))] : []));
    drawResults(data, chosen, size);
    fill(history, pruning(data.pruning, size), learningCurve(data.learning_curve, size),
      ...data.curves.map(({ stage, kind, steps, lines }) => chart(`${say("report_curves")} · bert ${stage}`,
        lines.map((line) => ({ ...line, name: line.name.replaceAll("_", " ") })), steps, say("report_step"),
        size, kind !== "loss")));
    const parts = partNames();
    fill(left, ...(data.problem || isEmpty ? [] : data.missing.map(({ part, command }) =>
      make("li", { "data-left": part }, say("report_left", { part: parts[part], command })))));
  };
}
