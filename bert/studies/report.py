"""The report: what was measured of the served checkpoint, read from its metrics.json.

The file may come from anywhere. Only plain numbers of the right size are taken out of it; a part
that is missing or makes no sense is left out and named together with the command that makes it.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from bert.drawing.texts import LANGUAGES, Language, say
from bert.emotions import OTHER_COLOURS
from bert.studies.base import ClassItem, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Axes, Figure

LARGEST_FILE = 20_000_000   # bytes of a metrics.json that are read
MOST_ROWS, MOST_POINTS, LONGEST_NAME = 30, 150, 60
LEVELS = ("easy", "hard")
STAGES = ("finetune", "distill", "pretrain")
FIGURES = ("lines", "accuracy", "accuracy_easy", "accuracy_hard", "macro_f1", "calibration_error",
           "feeling_confident", "none_not_confident")
# The parts of a report, and the command that writes each into metrics.json.
COMMANDS = {"languages": "evaluate", "reliability": "evaluate", "curves": "finetune",
            "baselines": "baseline", "ablations": "evaluate", "learning_curve": "baseline"}

Levels = dict[str, float | None]  # accuracy, easy and hard


class ReportOptions(StudyOptions):
    local = ("results",)
    results: Literal["", "en", "ko"] = ""  # the language whose results are shown


class ClassFigures(TypedDict):
    lines: int
    precision: float | None
    recall: float | None
    f1: float | None


class Bin(TypedDict):
    """Answers of about the same probability: `said` on average, and the share that was right."""

    lines: float
    said: float
    right: float


class NamedShare(TypedDict):
    name: str
    share: float


class LanguagePart(TypedDict):
    figures: dict[str, float]
    confusion: list[list[int]] | None
    per_class: list[ClassFigures]
    robustness: list[NamedShare]
    reliability: list[Bin]


class CurveLine(TypedDict):
    name: str
    values: list[float]


class Curve(TypedDict):
    stage: str
    steps: list[float]
    lines: list[CurveLine]


class Scores(TypedDict):
    ko: Levels
    en: Levels


class ScoreRow(Scores):
    name: str


class ShareRow(Scores):
    """Scores after learning from a share of the lines."""

    share: float


class LlmRow(TypedDict):
    """The model beside the LLM labels of one language."""

    language: str
    lines: float | None
    accuracy: float | None
    accuracy_confident: float | None
    feeling_confident: float | None
    none_not_confident: float | None


class PublicRow(TypedDict):
    name: str
    lines: float | None
    accuracy: float | None
    macro_f1: float | None


class MissingPart(TypedDict):
    part: str
    command: str


class ReportData(TypedDict):
    problem: str | None   # missing or unreadable
    name: str
    classes: list[ClassItem]
    languages: dict[str, LanguagePart]
    curves: list[Curve]
    dev_scores: list[float]
    baselines: list[ScoreRow]
    ablations: list[ScoreRow]
    more: list[ScoreRow]
    learning_curve: list[ShareRow]
    llm_labels: list[LlmRow]
    public: list[PublicRow]
    shown: str
    missing: list[MissingPart]


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


def numbers(found: Iterable[Any], high: float = math.inf) -> list[float]:
    """The plain numbers among some values."""
    return [value for value in (number(item, high) for item in found) if value is not None]


def named(found: Any) -> list[tuple[str, Any]]:
    """The first entries of a mapping, with names that can be sent: cut, without half characters."""
    items = list(found.items())[:MOST_ROWS] if isinstance(found, Mapping) else []
    return [(name[:LONGEST_NAME].encode("utf-8", "replace").decode("utf-8"), value)
            for name, value in items]


def entries(found: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list."""
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def scores_of(found: Any) -> Scores:
    """Accuracy by language and level, as bert baseline measures it."""
    korean, english = ({level: fraction(inside(found, language, level)) for level in LEVELS}
                       for language in ("ko", "en"))
    return {"ko": korean, "en": english}


def has_scores(row: Scores) -> bool:
    return any(row[language][level] is not None for language in LANGUAGES for level in LEVELS)


# ---------------------------------------------------------------------------------- the parts


def language_part(found: Any, num_classes: int) -> LanguagePart | None:
    """The figures, confusion and calibration of one language; None without any figure."""
    measured = ((name, number(inside(found, name), math.inf if name == "lines" else 1.0))
                for name in FIGURES)
    figures = {name: value for name, value in measured if value is not None}
    confusion = confusion_of(inside(found, "confusion"), num_classes)
    if not figures and confusion is None:
        return None
    robustness = [(name, fraction(value)) for name, value in named(inside(found, "robustness"))]
    return {"figures": figures, "confusion": confusion,
            "per_class": [] if confusion is None else per_class(np.array(confusion)),
            "robustness": [{"name": name, "share": share} for name, share in robustness
                           if share is not None],
            "reliability": reliability_of(inside(found, "reliability"))}


def confusion_of(found: Any, num_classes: int) -> list[list[int]] | None:
    """A matrix of counts, row = true class, if it is one."""
    is_matrix = (isinstance(found, list) and len(found) == num_classes > 0
                 and all(isinstance(row, list) and len(row) == num_classes for row in found)
                 and all(type(count) is int and 0 <= count < 10**9 for row in found
                         for count in row))
    return found if is_matrix else None


def per_class(counts: np.ndarray) -> list[ClassFigures]:
    """Precision, recall and F1 of each class; None where nothing can be said."""
    rows: list[ClassFigures] = []
    for right, answered, written in zip(counts.diagonal().tolist(), counts.sum(axis=0).tolist(),
                                        counts.sum(axis=1).tolist(), strict=True):
        rows.append({"lines": written,
                     "precision": right / answered if answered else None,
                     "recall": right / written if written else None,
                     "f1": 2 * right / (answered + written) if answered + written else None})
    return rows


def reliability_of(found: Any) -> list[Bin]:
    """Bins of the answers' probability."""
    bins = ((number(item.get("lines")), fraction(item.get("said")), fraction(item.get("right")))
            for item in entries(found)[:MOST_ROWS])
    return [{"lines": lines, "said": said, "right": right} for lines, said, right in bins
            if lines is not None and said is not None and right is not None]


def curves_of(*sources: Mapping[str, Any]) -> list[Curve]:
    """The training curves of each stage: its steps, and its losses and accuracies at them."""
    curves: list[Curve] = []
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
        lines: list[CurveLine] = []
        for shown, name in named({name: name for name in names}):
            values = numbers(point.get(name) for point in points)
            if len(values) == len(points):
                lines.append({"name": shown, "values": values})
        if len(points) > 1 and lines:
            curves.append({"stage": stage, "lines": lines,
                           "steps": numbers(point.get("step") for point in points)})
    return curves


def reports_of(found: Mapping[str, Any], stage: str) -> list[Mapping[str, Any]]:
    """The reports of a stage with a step."""
    reports = entries(inside(found, "curves", stage))
    return [report for report in reports if number(report.get("step")) is not None]


def table_of(found: Any) -> list[ScoreRow]:
    """Rows of accuracies with a name: from {name: scores}, or from a list of {name, …}."""
    if isinstance(found, list):
        found = {str(item.get("name", "?")): item for item in entries(found)[:MOST_ROWS]}
    rows: list[ScoreRow] = [{"name": name, **scores_of(value)} for name, value in named(found)]
    return [row for row in rows if has_scores(row)]


def learning_curve_of(found: Any) -> list[ShareRow]:
    """Accuracies by the share of the lines that was learned from, smallest first."""
    rows: list[ShareRow] = []
    for row in table_of(found):
        try:
            share = fraction(float(row["name"]))
        except ValueError:
            continue
        if share is not None:
            rows.append({"share": share, "ko": row["ko"], "en": row["en"]})
    return sorted(rows, key=lambda row: row["share"])


def llm_labels_of(found: Any) -> list[LlmRow]:
    """How the model does on lines that people wrote and an LLM labelled, a row a language."""
    rows: list[LlmRow] = [{
        "language": language, "lines": number(inside(found, language, "lines")),
        "accuracy": fraction(inside(found, language, "accuracy")),
        "accuracy_confident": fraction(inside(found, language, "accuracy_confident")),
        "feeling_confident": fraction(inside(found, language, "feeling_confident")),
        "none_not_confident": fraction(inside(found, language, "none_not_confident")),
    } for language in LANGUAGES]
    return [row for row in rows if row["accuracy"] is not None]


def public_of(found: Any) -> list[PublicRow]:
    rows: list[PublicRow] = [{"name": name, "lines": number(inside(value, "lines")),
                              "accuracy": fraction(inside(value, "accuracy")),
                              "macro_f1": fraction(inside(value, "macro_f1"))}
                             for name, value in named(found)]
    return [row for row in rows if row["accuracy"] is not None]


def run(context: StudyContext, text: str, options: ReportOptions) -> ReportData:
    folder = context.classifier.checkpoint.folder
    found, problem = distrustful_read(folder / "metrics.json")
    earlier, _ = distrustful_read(context.pretrained_folder / "metrics.json")
    classes = context.classes
    languages: dict[str, LanguagePart] = {}
    for language in LANGUAGES:
        part = language_part(inside(found, "evaluate", "languages", language), len(classes))
        if part is not None:
            languages[language] = part
    scores = inside(found, "finetune", "dev_scores")
    data: ReportData = {
        "problem": problem, "name": context.classifier.checkpoint.name, "classes": classes,
        "languages": languages,
        "curves": curves_of(found, earlier),
        "dev_scores": numbers(scores[:MOST_POINTS], 1.0) if isinstance(scores, list) else [],
        "baselines": table_of(inside(found, "baselines")),
        "ablations": table_of(inside(found, "ablations")),
        "more": table_of(inside(found, "evaluate", "more")),
        "learning_curve": learning_curve_of(inside(found, "learning_curve")),
        "llm_labels": llm_labels_of(inside(found, "evaluate", "readings", "languages")),
        "public": public_of(inside(found, "evaluate", "public")),
        "shown": options.results, "missing": [],
    }
    is_there: dict[str, Any] = {**data, "reliability": any(
        part["reliability"] for part in languages.values())}
    return {**data, "missing": [{"part": part, "command": command}
                                for part, command in COMMANDS.items() if not is_there[part]]}


# ---------------------------------------------------------------------------------- taking it away


def own_scores(data: ReportData) -> ScoreRow:
    """The row of this model beside its baselines."""
    korean, english = ({level: inside(data["languages"], language, "figures").get(
        f"accuracy_{level}") for level in LEVELS} for language in ("ko", "en"))
    return {"name": data["name"], "ko": korean, "en": english}


def table(data: ReportData) -> list[list[Any]]:
    """Every figure with the part, language and name that it belongs to."""
    rows: list[list[Any]] = [["part", "language", "name", "value"]]
    keys = [item["key"] for item in data["classes"]]
    for language, part in data["languages"].items():
        rows += [["figures", language, name, value] for name, value in part["figures"].items()]
        rows += [[name, language, key, value] for key, figures in
                 zip(keys, part["per_class"], strict=False) for name, value in figures.items()]
        rows += [["confusion", language, f"{true} → {answer}", count]
                 for true, counts in zip(keys, part["confusion"] or [], strict=False)
                 for answer, count in zip(keys, counts, strict=True)]
        rows += [["robustness", language, row["name"], row["share"]] for row in part["robustness"]]
        rows += [["reliability", language, f"said {row['said']} in {row['lines']:.0f} lines",
                  row["right"]] for row in part["reliability"]]
    named_scores: list[tuple[str, Any, Scores]] = [
        *(("baselines", row["name"], row) for row in data["baselines"]),
        *(("ablations", row["name"], row) for row in data["ablations"]),
        *(("more", row["name"], row) for row in data["more"]),
        *(("learning_curve", row["share"], row) for row in data["learning_curve"])]
    rows += [[kind, language, f"{name} · {level}", scores[language][level]]
             for kind, name, scores in named_scores for language in LANGUAGES for level in LEVELS]
    for curve in data["curves"]:
        rows += [[f"{curve['stage']} curve", "", f"{line['name']} at {step:.0f}", value]
                 for line in curve["lines"]
                 for step, value in zip(curve["steps"], line["values"], strict=True)]
    rows += [["dev score", "", epoch, value] for epoch, value in enumerate(data["dev_scores"], 1)]
    rows += [["llm labels", labels["language"], name, value] for labels in data["llm_labels"]
             for name, value in labels.items() if name != "language"]
    rows += [["public", "", f"{public['name']} {name}", value] for public in data["public"]
             for name, value in public.items() if name != "name"]
    return [row for row in rows if row[-1] is not None]


def draw(data: ReportData, language: Language) -> "Figure":
    """One row of pictures for each language that was measured, then what belongs to both."""
    from bert.drawing.figures import new_figure
    pictures: list[Callable[[Axes], None]] = []
    for name, part in data["languages"].items():
        if part["confusion"]:
            pictures.append(partial(_confusion, data, name, language))
        if part["reliability"]:
            pictures.append(partial(_reliability, data, name, language))
    if data["languages"] or data["baselines"]:
        pictures.append(partial(_scores, data, data["baselines"], "baselines", language))
    if data["ablations"]:
        pictures.append(partial(_scores, data, data["ablations"], "ablations", language))
    if data["learning_curve"]:
        pictures.append(partial(_learning, data, language))
    pictures += [partial(_curve, curve, language) for curve in data["curves"]]
    if data["dev_scores"]:
        pictures.append(partial(_dev, data, language))
    rows = max(1, -(-len(pictures) // 2))
    height = 6.2 * rows + 0.8
    figure = new_figure(14, height)
    figure.text(0.5, 1 - 0.3 / height, f"{say(language, 'study_report')} · {data['name'][:60]}",
                ha="center", va="top", fontsize=14, fontweight="bold", parse_math=False)
    if not pictures:
        problem = {"missing": "report_no_file", "unreadable": "report_unreadable"}.get(
            data["problem"] or "", "report_empty")
        figure.text(0.5, 0.5, say(language, problem), ha="center", va="center", parse_math=False)
    for place, picture in enumerate(pictures):
        left, row = 0.12 + 0.5 * (place % 2), place // 2
        picture(figure.add_axes((left, (6.2 * (rows - 1 - row) + 1.1) / height, 0.35,
                                 4.1 / height)))
    return figure


def _confusion(data: ReportData, name: str, language: Language, axes: "Axes") -> None:
    from bert.drawing.figures import drawable, place_confusion
    place_confusion(axes, [drawable(item[language], 14) for item in data["classes"]],
                    np.array(data["languages"][name]["confusion"]),
                    say(language, "report_answer"), say(language, "report_written"))
    axes.set_title(f"{say(language, 'report_confusion')} · {say(language, f'report_{name}')}")


def _reliability(data: ReportData, name: str, language: Language, axes: "Axes") -> None:
    from bert.drawing.figures import place_reliability
    place_reliability(axes, data["languages"][name]["reliability"], say(language, "report_said"),
                      say(language, "report_is_right"))
    axes.set_title(f"{say(language, 'report_reliability')} · {say(language, f'report_{name}')}")


def _scores(data: ReportData, others: list[ScoreRow], what: str, language: Language,
            axes: "Axes") -> None:
    from bert.drawing.figures import drawable
    rows = [own_scores(data), *others]
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


def _learning(data: ReportData, language: Language, axes: "Axes") -> None:
    for name in LANGUAGES:
        for level in LEVELS:
            points = [(100 * row["share"], 100 * score) for row in data["learning_curve"]
                      if (score := row[name][level]) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), "o-", label=" ".join(
                    say(language, f"report_{part}") for part in (name, level)))
    axes.set(ylim=(0, 100), ylabel="%", xlabel=say(language, "report_share_of_lines"))
    axes.set_title(say(language, "report_learning_curve"))
    _legend(axes)


def _curve(curve: Curve, language: Language, axes: "Axes") -> None:
    from bert.drawing.figures import drawable
    for line in curve["lines"]:
        axes.plot(curve["steps"], line["values"], label=drawable(line["name"].replace("_", " ")),
                  linestyle="--" if line["name"].endswith("accuracy") else "-")
    axes.set(xlabel=say(language, "report_step"))
    axes.set_title(f"{say(language, 'report_curves')} · bert {curve['stage']}")
    _legend(axes)


def _dev(data: ReportData, language: Language, axes: "Axes") -> None:
    places = range(1, len(data["dev_scores"]) + 1)
    axes.plot(places, [100 * value for value in data["dev_scores"]], "o-")
    axes.set_xticks(places)
    axes.set(ylim=(0, 100), ylabel="%", xlabel=say(language, "report_epoch"))
    axes.set_title(say(language, "report_dev"))


def _legend(axes: "Axes") -> None:
    """Below the axes; names come from a file and are drawn as they are."""
    legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False,
                         fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)


STUDY = Study("report", ReportOptions, run, draw, table)
