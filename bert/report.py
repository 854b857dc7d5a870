"""The report: what was measured of the served checkpoint, read from its metrics.json.

The file may come from anywhere. Only plain numbers of the right size are taken out of it; a part
that is missing or makes no sense is left out and named together with the command that makes it.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bert.lab import Lab, Options, Study
from bert.labels import OTHER_COLOURS
from bert.texts import LANGUAGES, say
from bert.views import class_list

LARGEST_FILE = 20_000_000   # bytes of a metrics.json that are read
MOST_ROWS, MOST_POINTS, LONGEST_NAME = 30, 150, 60
LEVELS = ("easy", "hard")
STAGES = ("finetune", "distill", "pretrain")
FIGURES = ("lines", "accuracy", "accuracy_easy", "accuracy_hard", "macro_f1", "calibration_error",
           "feeling_confident", "none_not_confident")
READINGS = ("accuracy", "accuracy_confident", "feeling_confident", "none_not_confident")
# The parts of a report, and the command that writes each into metrics.json.
COMMANDS = {"languages": "bert.evaluate", "reliability": "bert.evaluate",
            "curves": "bert.finetune", "baselines": "bert.baseline",
            "ablations": "bert.evaluate", "learning_curve": "bert.baseline"}


# ---------------------------------------------------------------------------------- reading


def distrustful_read(path: Path) -> tuple[dict, str | None]:
    """What a metrics.json holds, and "missing" or "unreadable" if it holds nothing."""
    try:
        if not path.is_file():
            return {}, "missing"
        if path.stat().st_size > LARGEST_FILE:
            return {}, "unreadable"
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return {}, "unreadable"
    return (found, None) if isinstance(found, dict) else ({}, "unreadable")


def inside(found: Any, *names: str) -> Any:
    """found[a][b]…, or an empty mapping where the way ends."""
    for name in names:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    return found


def number(value: Any, high: float = math.inf) -> float | None:
    """A plain number of 0 to `high`, or None."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e15 and 0 <= value <= high else None


def fraction(value: Any) -> float | None:
    return number(value, 1.0)


def fractions(found: Any) -> list[float]:
    values = map(fraction, found[:MOST_POINTS]) if isinstance(found, list) else ()
    return [value for value in values if value is not None]


def named(found: Any) -> list[tuple[str, Any]]:
    """The first entries of a mapping, with names that can be sent: cut, without half characters."""
    items = list(found.items())[:MOST_ROWS] if isinstance(found, Mapping) else []
    return [(name[:LONGEST_NAME].encode("utf-8", "replace").decode("utf-8"), value)
            for name, value in items]


def entries(found: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list."""
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def scores_of(found: Any) -> dict[str, dict[str, float | None]]:
    """Accuracy by language and level, as bert.baseline measures it."""
    return {language: {level: fraction(inside(found, language, level)) for level in LEVELS}
            for language in LANGUAGES}


def has_scores(row: Mapping[str, Any]) -> bool:
    return any(row[language][level] is not None for language in LANGUAGES for level in LEVELS)


# ---------------------------------------------------------------------------------- the parts


def language_part(found: Any, num_classes: int) -> dict | None:
    """The figures, confusion and calibration of one language; None without any figure."""
    figures = {name: (number if name == "lines" else fraction)(inside(found, name))
               for name in FIGURES}
    figures = {name: value for name, value in figures.items() if value is not None}
    confusion = confusion_of(inside(found, "confusion"), num_classes)
    if not figures and confusion is None:
        return None
    robustness = [{"name": name, "share": fraction(value)}
                  for name, value in named(inside(found, "robustness"))]
    return {"figures": figures, "confusion": confusion,
            "per_class": [] if confusion is None else per_class(np.array(confusion)),
            "robustness": [row for row in robustness if row["share"] is not None],
            "reliability": reliability_of(inside(found, "reliability"))}


def confusion_of(found: Any, num_classes: int) -> list[list[int]] | None:
    """A matrix of counts, row = true class, if it is one."""
    is_matrix = (isinstance(found, list) and len(found) == num_classes > 0
                 and all(isinstance(row, list) and len(row) == num_classes for row in found)
                 and all(type(count) is int and 0 <= count < 10**9 for row in found
                         for count in row))
    return found if is_matrix else None


def per_class(counts: np.ndarray) -> list[dict]:
    """Precision, recall and F1 of each class; None where nothing can be said."""
    rows = []
    for right, answered, written in zip(counts.diagonal().tolist(), counts.sum(axis=0).tolist(),
                                        counts.sum(axis=1).tolist(), strict=True):
        rows.append({"lines": written,
                     "precision": right / answered if answered else None,
                     "recall": right / written if written else None,
                     "f1": 2 * right / (answered + written) if answered + written else None})
    return rows


def reliability_of(found: Any) -> list[dict]:
    """Bins of the answers' probability: {lines, said (mean probability), right (share)}."""
    bins = [{"lines": number(item.get("lines")), "said": fraction(item.get("said")),
             "right": fraction(item.get("right"))} for item in entries(found)[:MOST_ROWS]]
    return [item for item in bins if None not in item.values()]


def curves_of(*sources: Mapping[str, Any]) -> list[dict]:
    """The training curves of each stage: its steps, and its losses and accuracies at them."""
    curves = []
    for stage in STAGES:
        reports = next(filter(None, (reports_of(found, stage) for found in sources)), [])
        every = -(-len(reports) // MOST_POINTS)
        points = [*reports[:-1:every], *reports[-1:]] if reports else []
        names = list(dict.fromkeys(
            name for point in points[:MOST_POINTS] for name in point
            if isinstance(name, str) and name.endswith(("loss", "accuracy"))))[:8]
        # The last report of a run may cover few batches and lack some of the names.
        whole = [point for point in points
                 if all(number(point.get(name)) is not None for name in names)]
        points = whole if 2 * len(whole) > len(points) else points
        lines = [{"name": shown, "values": [number(point.get(name)) for point in points]}
                 for (shown, name) in named({name: name for name in names})]
        lines = [line for line in lines if None not in line["values"]]
        if len(points) > 1 and lines:
            curves.append({"stage": stage, "steps": [number(point.get("step")) for point in points],
                           "lines": lines})
    return curves


def reports_of(found: Mapping[str, Any], stage: str) -> list[Mapping[str, Any]]:
    """The reports of a stage with a step."""
    reports = entries(inside(found, "curves", stage))
    return [report for report in reports if number(report.get("step")) is not None]


def table_of(found: Any) -> list[dict]:
    """Rows of accuracies with a name: from {name: scores}, or from a list of {name, …}."""
    if isinstance(found, list):
        found = {str(item.get("name", "?")): item for item in entries(found)[:MOST_ROWS]}
    rows = [{"name": name, **scores_of(value)} for name, value in named(found)]
    return [row for row in rows if has_scores(row)]


def learning_curve_of(found: Any) -> list[dict]:
    """Accuracies by the share of the lines that was learned from, smallest first."""
    rows = []
    for row in table_of(found):
        try:
            part = fraction(float(row.pop("name")))
        except ValueError:
            continue
        if part is not None:
            rows.append({"share": part, **row})
    return sorted(rows, key=lambda row: row["share"])


def run_report(lab: Lab, text: str, options: Options) -> dict:
    checkpoint = lab.classifier.checkpoint
    found, problem = distrustful_read(checkpoint.folder / "metrics.json")
    earlier, _ = distrustful_read(lab.pretrained_folder / "metrics.json")
    keys = lab.classifier.keys if checkpoint.has_classifier else ()
    measured = {language: language_part(inside(found, "evaluate", "languages", language), len(keys))
                for language in LANGUAGES}
    parts = {
        "languages": {name: part for name, part in measured.items() if part is not None},
        "curves": curves_of(found, earlier),
        "dev_scores": fractions(inside(found, "finetune", "dev_scores")),
        "baselines": table_of(inside(found, "baselines")),
        "ablations": table_of(inside(found, "ablations")),
        "more": table_of(inside(found, "evaluate", "more")),
        "learning_curve": learning_curve_of(inside(found, "learning_curve")),
        "readings": readings_of(inside(found, "evaluate", "readings", "languages")),
        "public": public_of(inside(found, "evaluate", "public")),
    }
    has_bins = any(part["reliability"] for part in parts["languages"].values())
    missing = [part for part in COMMANDS
               if not (has_bins if part == "reliability" else parts[part])]
    shown = options.choice("results", LANGUAGES, "")
    return {"problem": problem, "name": checkpoint.folder.resolve().name,
            "classes": class_list(keys), **parts, "shown": shown,
            "missing": [{"part": part, "command": COMMANDS[part]} for part in missing]}


def readings_of(found: Any) -> list[dict]:
    """How the model does on lines that people wrote, a row for each language."""
    rows = [{"language": language, "lines": number(inside(found, language, "lines")),
             **{name: fraction(inside(found, language, name)) for name in READINGS}}
            for language in LANGUAGES]
    return [row for row in rows if row["accuracy"] is not None]


def public_of(found: Any) -> list[dict]:
    rows = [{"name": name, "lines": number(inside(value, "lines")),
             "accuracy": fraction(inside(value, "accuracy")),
             "macro_f1": fraction(inside(value, "macro_f1"))} for name, value in named(found)]
    return [row for row in rows if row["accuracy"] is not None]


# ---------------------------------------------------------------------------------- taking it away


def own_scores(data: Mapping[str, Any]) -> dict:
    """The row of this model beside its baselines."""
    return {"name": data["name"], **{
        language: {level: inside(data["languages"], language, "figures").get(f"accuracy_{level}")
                   for level in LEVELS} for language in LANGUAGES}}


def report_table(data: Mapping[str, Any]) -> list[list]:
    """Every figure with the part, language and name that it belongs to."""
    rows: list[list] = [["part", "language", "name", "value"]]
    keys = [item["key"] for item in data["classes"]]
    for language, part in data["languages"].items():
        rows += [["figures", language, name, value] for name, value in part["figures"].items()]
        rows += [[name, language, key, row[name]] for key, row in
                 zip(keys, part["per_class"], strict=False) for name in row]
        rows += [["confusion", language, f"{true} → {answer}", count]
                 for true, counts in zip(keys, part["confusion"] or [], strict=False)
                 for answer, count in zip(keys, counts, strict=True)]
        rows += [["robustness", language, row["name"], row["share"]] for row in part["robustness"]]
        rows += [["reliability", language, f"said {row['said']} in {row['lines']:.0f} lines",
                  row["right"]] for row in part["reliability"]]
    for part in ("baselines", "ablations", "more", "learning_curve"):
        rows += [[part, language, f"{row.get('name', row.get('share'))} · {level}",
                  row[language][level]] for row in data[part]
                 for language in LANGUAGES for level in LEVELS]
    for curve in data["curves"]:
        rows += [[f"{curve['stage']} curve", "", f"{line['name']} at {step:.0f}", value]
                 for line in curve["lines"]
                 for step, value in zip(curve["steps"], line["values"], strict=True)]
    rows += [["dev score", "", epoch, value] for epoch, value in enumerate(data["dev_scores"], 1)]
    rows += [["readings", row["language"], name, row[name]] for row in data["readings"]
             for name in ("lines", *READINGS)]
    rows += [["public", "", f"{row['name']} {name}", row[name]] for row in data["public"]
             for name in ("lines", "accuracy", "macro_f1")]
    return [row for row in rows if row[-1] is not None]


def draw_report(data: Mapping[str, Any], language: str):
    """One row of pictures for each language that was measured, then what belongs to both."""
    from bert.figures import new_figure
    pictures = [(kind, name) for name, part in data["languages"].items()
                for kind, is_there in (("confusion", part["confusion"]),
                                       ("reliability", part["reliability"])) if is_there]
    pictures += [("scores", "baselines")] if data["languages"] or data["baselines"] else []
    pictures += [("scores", "ablations")] if data["ablations"] else []
    pictures += [("learning", "")] if data["learning_curve"] else []
    pictures += [("curve", place) for place in range(len(data["curves"]))]
    pictures += [("dev", "")] if data["dev_scores"] else []
    rows = max(1, -(-len(pictures) // 2))
    height = 6.2 * rows + 0.8
    figure = new_figure(14, height)
    figure.text(0.5, 1 - 0.3 / height, f"{say(language, 'study_report')} · {data['name'][:60]}",
                ha="center", va="top", fontsize=14, fontweight="bold", parse_math=False)
    if not pictures:
        figure.text(0.5, 0.5, sentence_of(data, language), ha="center", va="center",
                    parse_math=False)
    for place, (kind, what) in enumerate(pictures):
        left, row = 0.12 + 0.5 * (place % 2), place // 2
        axes = figure.add_axes((left, (6.2 * (rows - 1 - row) + 1.1) / height, 0.35, 4.1 / height))
        {"confusion": _confusion, "reliability": _reliability, "scores": _scores,
         "learning": _learning, "curve": _curve, "dev": _dev}[kind](axes, data, what, language)
    return figure


def sentence_of(data: Mapping[str, Any], language: str) -> str:
    """Why there is nothing to show."""
    key = {"missing": "report_no_file", "unreadable": "report_unreadable"}.get(
        data["problem"], "report_empty")
    return say(language, key)


def _confusion(axes, data: Mapping[str, Any], name: str, language: str) -> None:
    from bert.figures import COLOUR_MAP, drawable
    counts = np.array(data["languages"][name]["confusion"])
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, vmin=0.0, vmax=1.0, cmap=COLOUR_MAP, aspect="auto")
    for row, column in zip(*counts.nonzero(), strict=True):
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8,
                  color="black" if shares[row, column] > 0.43 else "white")
    names = [drawable(item[language], 14) for item in data["classes"]]
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=8, parse_math=False)
    axes.set(xlabel=say(language, "report_answer"), ylabel=say(language, "report_written"))
    axes.set_title(f"{say(language, 'report_confusion')} · {say(language, f'report_{name}')}")


def _reliability(axes, data: Mapping[str, Any], name: str, language: str) -> None:
    from bert.figures import ACCENT, MUTED
    bins = data["languages"][name]["reliability"]
    axes.bar([item["said"] for item in bins], [item["right"] for item in bins], width=0.05,
             color=ACCENT)
    axes.plot([0, 1], [0, 1], "--", color=MUTED, linewidth=1)
    for item in bins:
        axes.text(item["said"], item["right"] + 0.01, f"{item['lines']:.0f}", ha="center",
                  fontsize=7)
    axes.set(xlim=(0, 1), ylim=(0, 1.05), xlabel=say(language, "report_said"),
             ylabel=say(language, "report_is_right"))
    axes.set_title(f"{say(language, 'report_reliability')} · {say(language, f'report_{name}')}")


def _scores(axes, data: Mapping[str, Any], what: str, language: str) -> None:
    from bert.figures import drawable
    rows = [own_scores(data), *data[what]]
    groups = [(name, level) for name in LANGUAGES for level in LEVELS]
    wide = 0.8 / len(rows)
    for place, row in enumerate(rows):
        values = [100 * (row[name][level] or 0) for name, level in groups]
        axes.bar(np.arange(len(groups)) + wide * (place - (len(rows) - 1) / 2), values, 0.9 * wide,
                 color=OTHER_COLOURS[place % len(OTHER_COLOURS)], label=drawable(row["name"], 30))
    names = [f"{say(language, f'report_{name}')}\n{say(language, f'report_{level}')}"
             for name, level in groups]
    axes.set_xticks(range(len(groups)), names)
    axes.set(ylim=(0, 100), ylabel="%")
    axes.set_title(say(language, f"report_{what}"))
    _legend(axes)


def _learning(axes, data: Mapping[str, Any], what: str, language: str) -> None:
    for name in LANGUAGES:
        for level in LEVELS:
            points = [(100 * row["share"], 100 * row[name][level]) for row in data["learning_curve"]
                      if row[name][level] is not None]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", label=" ".join(
                    say(language, f"report_{part}") for part in (name, level)))
    axes.set(ylim=(0, 100), ylabel="%", xlabel=say(language, "report_share_of_lines"))
    axes.set_title(say(language, "report_learning_curve"))
    _legend(axes)


def _curve(axes, data: Mapping[str, Any], place: int, language: str) -> None:
    from bert.figures import drawable
    curve = data["curves"][place]
    for line in curve["lines"]:
        axes.plot(curve["steps"], line["values"], label=drawable(line["name"].replace("_", " ")),
                  linestyle="--" if line["name"].endswith("accuracy") else "-")
    axes.set(xlabel=say(language, "report_step"))
    axes.set_title(f"{say(language, 'report_curves')} · bert.{curve['stage']}")
    _legend(axes)


def _dev(axes, data: Mapping[str, Any], what: str, language: str) -> None:
    scores = data["dev_scores"]
    axes.plot(range(1, len(scores) + 1), [100 * value for value in scores], "o-")
    axes.set_xticks(range(1, len(scores) + 1))
    axes.set(ylim=(0, 100), ylabel="%", xlabel=say(language, "report_epoch"))
    axes.set_title(say(language, "report_dev"))


def _legend(axes) -> None:
    """Below the axes; names come from a file and are drawn as they are."""
    legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False,
                         fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)


REPORT = Study("report", run_report, draw_report, report_table)
