// Teach it: corrections collected in the browser, learned by a copy on the server, before and after.

import { className, percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { Refused, ask } from "../common/server.js";
import { figure } from "../common/charts.js";
import { state } from "../common/store.js";
import { sentAlong } from "../common/options.js";

const NOTABLE = 5; // points of probability that are worth a word
const PAUSE = 400; // milliseconds between two questions about a copy that learns
const HANGUL = /[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]/;

/** Corrections as bert.training.corpus reads labelled lines. */
function tableOf(corrections) {
  const rows = corrections.map(({ text, label }) => [label, HANGUL.test(text) ? "ko" : "en", "easy", "",
    text.replace(/\s+/g, " ").trim()]);
  return [["label", "lang", "level", "pair", "text"], ...rows].map((row) => `${row.join("\t")}\n`).join("");
}

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

const isRight = (line, when) => line[when].best === line.label;

/** How much less sure a right answer became, in points; a wrong one has nothing to lose. */
function lost(line) {
  return isRight(line, "before") && isRight(line, "after")
    ? 100 * (line.before.probability - line.after.probability) : 0;
}

export function build(place) {
  const now = make("p", { class: "now" });
  const wanted = make("select", { id: "teach-class" });
  const wantedName = make("label", { for: "teach-class" });
  const add = make("button", { type: "button", class: "quiet add", onclick: addCorrection });
  const full = make("span", { class: "aside" });
  const correctionsTitle = make("h3");
  const list = make("ul", { class: "corrections" });
  const learn = make("button", { type: "button", class: "main learn", onclick: start });
  const stop = make("button", { type: "button", class: "quiet stop", onclick: stopLearning });
  const saveCorrections = make("button", { type: "button", class: "quiet save",
    onclick: () => save("corrections.tsv", "text/tab-separated-values", tableOf(corrections)) });
  const talk = make("button", { type: "button", class: "main talk",
    onclick: () => window.microscope.talkTo(result.copy) });
  const savePicture = make("button", { type: "button", class: "quiet", onclick: fetchPicture });
  const bar = make("progress", { max: 1 });
  const status = make("p", { class: "finding", role: "status" });
  const taughtPart = make("section", { class: "taught" });
  const fixedPart = make("section", { class: "fixed" });
  place.append(now, make("div", { class: "row" }, wantedName, wanted, add, full), correctionsTitle, list,
    make("div", { class: "row" }, learn, stop, bar, talk, saveCorrections, savePicture), status, taughtPart,
    fixedPart);

  const corrections = [];      // {text, label}
  let overview = null;     // what the server said before anything was taught
  let answer = null;
  let job = null;          // the copy that learns, {} until its name is known
  let progress = null;
  let result = null;
  let said = () => "";     // the sentence of the status, in whichever language

  const labelNames = () => overview.classes.map((item) => make("option", { value: item.key },
    className(item)));
  const shortened = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);

  function addCorrection() {
    const known = corrections.find(({ text }) => text === answer.text);
    if (known) known.label = wanted.value;
    else corrections.push({ text: answer.text, label: wanted.value });
    show();
  }

  async function start() {
    const mine = job = {};
    [progress, result, said] = [null, null, () => say("teach_begins")];
    show();
    try {
      ({ job: mine.name } = await ask("study", ["", "teach", { action: "start", corrections }]));
      while (mine === job) {
        const found = await ask("study", ["", "teach", { action: "progress", job: mine.name }]);
        if (mine !== job) break;
        if (found.state === "done") finish(found);
        else report(found);
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    } catch (error) {
      if (mine === job) {
        job = null;
        said = () => (error instanceof Refused ? error.message : say("offline_given_up"));
        show();
      }
    }
    if (mine.isStopped && mine.name) {
      ask("study", ["", "teach", { action: "stop", job: mine.name }]).catch(() => {});
    }
  }

  function report(found) {
    progress = found.step === undefined ? null : found;
    if (progress) said = () => say("teach_step", { ...found, loss: figure(found.loss) });
    showProgress();
  }

  function finish(found) {
    [job, result] = [null, found];
    const count = (when) => found.fixed.filter((line) => isRight(line, when)).length;
    const values = { steps: found.steps, before: count("before"), after: count("after"),
      count: found.fixed.length };
    const losses = found.fixed.map(lost).filter((points) => points >= NOTABLE);
    const drops = () => (losses.length ? say("teach_dropped", { count: losses.length,
      most: Math.max(...losses).toFixed(0) }) : say("teach_not_dropped", { points: NOTABLE }));
    said = () => `${found.ended === "learned" ? say("teach_learned", values)
      : found.ended === "time" ? say("teach_time", values) : say("teach_steps", values)} ${drops()}`;
    show();
  }

  function stopLearning() {
    job.isStopped = true;
    job = null;
    said = () => say("teach_stopped");
    show();
  }

  async function fetchPicture() {
    try {
      const file = await ask("export", ["", "teach", "png", { lang: state.language, result }]);
      save(file.name, file.type, Uint8Array.from(atob(file.data), (c) => c.charCodeAt(0)));
    } catch (error) {
      said = () => (error instanceof Refused ? error.message : say("offline_given_up"));
      showProgress();
    }
  }

  // ---------------------------------------------------------------------------- what is shown

  function correctionItem(correction) {
    const name = shortened(correction.text);
    const choice = make("select", { "aria-label": say("teach_class_of", { text: name }),
      disabled: Boolean(job), onchange: () => { correction.label = choice.value; } }, ...labelNames());
    choice.value = correction.label;
    return make("li", {}, make("span", { class: "text", title: correction.text }, correction.text), choice,
      make("button", { type: "button", class: "quiet", disabled: Boolean(job),
        "aria-label": say("teach_remove", { text: name }), onclick: () => {
          corrections.splice(corrections.indexOf(correction), 1);
          show();
        } }, "×"));
  }

  function choiceCell({ classes }, line, when) {
    const { best, probability } = line[when];
    const swatch = make("span", { class: "swatch" });
    swatch.style.background = classes[best].colour;
    const right = isRight(line, when);
    return make("td", { class: right ? "right" : "wrong", "data-when": when },
      make("span", { role: "img", "aria-label": right ? say("teach_is_right") : say("teach_is_wrong") },
        right ? "✓" : "✗"), " ", swatch, `${className(classes[best])} `,
      make("span", { class: "figure" }, percent(probability)));
  }

  function comparison(title, data, lines) {
    if (!lines.length) return [];
    const times = ["before", "after"].filter((when) => when in lines[0]);
    const names = { before: times.length > 1 ? say("teach_before") : say("teach_today"),
      after: say("teach_after") };
    const heads = [say("teach_text"), say("teach_label"), ...times.map((when) => names[when])];
    return [make("h3", {}, title), make("div", { class: "scroll", tabindex: 0 }, make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...lines.map((line) => make("tr",
        { class: times.some((when) => isRight(line, when) !== isRight(line, times[0]))
          || (times.length > 1 && lost(line) >= NOTABLE) ? "moved" : null },
        make("td", { class: "text", title: line.text }, line.text),
        make("td", {}, className(data.classes[line.label])),
        ...times.map((when) => choiceCell(data, line, when)))))))];
  }

  function showProgress() {
    status.textContent = said();
    bar.hidden = !job;
    if (progress) bar.value = Math.max(progress.step / progress.steps, progress.learned / progress.corrections);
    else bar.removeAttribute("value");
  }

  function show() {
    const { classes, most } = overview;
    const best = answer.probabilities.indexOf(Math.max(...answer.probabilities));
    const known = corrections.find(({ text }) => text === answer.text);
    now.textContent = say("teach_now", { text: shortened(answer.text), name: className(classes[best]),
      percent: percent(answer.probabilities[best]) });
    wantedName.textContent = say("teach_should");
    const chosen = wanted.value;
    fill(wanted, ...labelNames());
    wanted.value = chosen || classes[best].key;
    const isFull = corrections.length >= most && !known;
    add.textContent = known ? say("teach_change") : say("teach_add");
    add.disabled = Boolean(job) || isFull;
    full.textContent = isFull ? say("teach_full", { most }) : "";
    correctionsTitle.textContent = say("teach_corrections", { count: corrections.length });
    fill(list, ...(corrections.length ? corrections.map(correctionItem)
      : [make("li", { class: "aside" }, say("teach_none"))]));
    learn.textContent = say("teach_learn");
    learn.disabled = Boolean(job) || !corrections.length;
    stop.textContent = say("teach_stop");
    stop.hidden = !job;
    saveCorrections.textContent = say("teach_save");
    saveCorrections.disabled = !corrections.length;
    talk.textContent = say("teach_talk");
    talk.hidden = !result;
    savePicture.textContent = say("teach_picture");
    savePicture.hidden = !result;
    sentAlong.set("teach", { result });
    showProgress();
    const data = result ?? overview;
    fill(taughtPart, ...comparison(say("teach_taught"), data, data.taught));
    const right = ["before", "after"].filter((when) => data.fixed[0] && when in data.fixed[0])
      .map((when) => data.fixed.filter((line) => isRight(line, when)).length).join(" → ");
    fill(fixedPart, ...comparison(say("teach_right", { right, count: data.fixed.length }), data,
      data.fixed));
  }

  return function draw(data, shownAnswer) {
    const isNew = answer?.text !== shownAnswer.text;
    [overview, answer] = [data, shownAnswer];
    if (isNew) wanted.value = "";
    show();
  };
}
