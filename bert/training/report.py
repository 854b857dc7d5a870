"""What a metrics.json says, taken out of it part by part.

The file may come from anywhere. Only plain numbers of the right size are taken; a part that is
missing or makes no sense is left out.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

LARGEST_FILE = 20_000_000   # bytes of a metrics.json that are read
MOST_ROWS, MOST_POINTS, LONGEST_NAME = 30, 150, 60
LANGUAGES, LEVELS = ("ko", "en"), ("easy", "hard")
STAGES = ("pretrain", "finetune")
FIGURES = ("lines", "accuracy", "accuracy_easy", "accuracy_hard", "macro_f1", "calibration_error",
           "feeling_confident", "none_not_confident")
EXPLAINED_BY = ("comprehensiveness", "sufficiency", "deletion", "insertion")

Share = float | None
Levels = dict[str, Share]       # easy and hard
ByLanguage = dict[str, Share]   # ko and en


class ClassFigures(TypedDict):
    lines: int
    precision: Share
    recall: Share
    f1: Share


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
    kind: str               # loss, accuracy, or what was measured at every save
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


class ContrastRow(TypedDict):
    """A group of the contrast set: accepted answers of this model and of the linear one."""

    group: str
    model: ByLanguage
    linear: ByLanguage


class FigureRow(TypedDict):
    """Some figures of a language, a source or a public set."""

    name: str
    figures: dict[str, float | None]


class MethodRow(TypedDict):
    """One explanation in the league table."""

    name: str
    milliseconds: float | None
    measures: dict[str, float]
    beats_chance: bool       # of comprehensiveness: the interval over the random ranking is above 0


class Pruning(TypedDict):
    removed: list[float]
    at_least: float
    lines: list[CurveLine]          # a language and its shares of unchanged answers
    can_go: dict[str, float]


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


def fraction(value: Any) -> Share:
    return number(value, 1.0)


def numbers(found: Any, high: float = math.inf) -> list[float]:
    """The plain numbers among some values."""
    items = found if isinstance(found, Iterable) and not isinstance(found, str) else ()
    return [value for value in (number(item, high) for item in items) if value is not None]


def named(found: Any) -> list[tuple[str, Any]]:
    """The first entries of a mapping, with names that can be sent: cut, without half characters."""
    items = list(found.items())[:MOST_ROWS] if isinstance(found, Mapping) else []
    return [(name[:LONGEST_NAME].encode("utf-8", "replace").decode("utf-8"), value)
            for name, value in items]


def entries(found: Any) -> list[Mapping[str, Any]]:
    """The mappings in a list."""
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def figure_rows(found: Any, shares: Iterable[str], counts: Iterable[str] = ()) -> list[FigureRow]:
    """Named rows with these figures; a row without its first share is left out."""
    shares = list(shares)
    rows: list[FigureRow] = [{"name": name, "figures": {
        **{key: fraction(inside(value, key)) for key in shares},
        **{key: number(inside(value, key)) for key in counts}}} for name, value in named(found)]
    return [row for row in rows if row["figures"][shares[0]] is not None]


# ---------------------------------------------------------------------------------- one language


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


# ---------------------------------------------------------------------------------- both languages


def scores_of(found: Any) -> Scores:
    """Accuracy by language and level, as bert baseline measures it."""
    korean, english = ({level: fraction(inside(found, language, level)) for level in LEVELS}
                       for language in LANGUAGES)
    return {"ko": korean, "en": english}


def table_of(found: Any) -> list[ScoreRow]:
    """Rows of accuracies with a name, from {name: scores}."""
    rows: list[ScoreRow] = [{"name": name, **scores_of(value)} for name, value in named(found)]
    return [row for row in rows if any(
        share is not None for levels in (row["ko"], row["en"]) for share in levels.values())]


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


def contrast_of(found: Any, linear: Any) -> list[ContrastRow]:
    """Accepted answers by group and language, of this model and of the linear one."""
    groups = dict.fromkeys(name for language in LANGUAGES for name, _ in named(
        inside(found, language)))
    rows: list[ContrastRow] = [{"group": group, "model": shares_of(found, group),
                                "linear": shares_of(linear, group)} for group in groups]
    return [row for row in rows if any(share is not None for share in row["model"].values())]


def shares_of(found: Any, name: str) -> ByLanguage:
    return {language: fraction(inside(found, language, name)) for language in LANGUAGES}


def league_of(found: Any) -> dict[str, list[MethodRow]]:
    """The league table of explanations of each language, best comprehensiveness first."""
    tables: dict[str, list[MethodRow]] = {}
    for language in LANGUAGES:
        rows: list[MethodRow] = []
        for name, value in named(inside(found, language, "methods")):
            means = {measure: signed(inside(value, measure, "mean")) for measure in EXPLAINED_BY}
            measures = {measure: mean for measure, mean in means.items() if mean is not None}
            low = signed(inside(value, EXPLAINED_BY[0], "over_random", "low"))
            if EXPLAINED_BY[0] in measures:
                rows.append({"name": name, "milliseconds": number(inside(value, "milliseconds")),
                             "measures": measures, "beats_chance": low is not None and low > 0})
        if rows:
            tables[language] = sorted(rows, key=lambda row: -row["measures"][EXPLAINED_BY[0]])
    return tables


def signed(value: Any) -> float | None:
    """A plain number of −1 to 1, or None: a probability may also rise."""
    shifted = number(value + 1, 2.0) if type(value) in (int, float) else None
    return float(value) if shifted is not None else None


def pruning_of(found: Any) -> Pruning | None:
    """The share of unchanged answers after so many heads, by language."""
    removed = numbers(inside(found, "removed"))[:MOST_POINTS]
    lines: list[CurveLine] = []
    can_go = {}
    for language in LANGUAGES:
        own = inside(found, "languages", language)
        values = numbers(inside(own, "unchanged"), 1.0)
        most = number(inside(own, "can_go"))
        if len(values) == len(removed) > 1 and most is not None:
            lines.append({"name": language, "values": values})
            can_go[language] = most
    at_least = fraction(inside(found, "at_least"))
    if not lines or at_least is None:
        return None
    return {"removed": removed, "at_least": at_least, "lines": lines, "can_go": can_go}


# ---------------------------------------------------------------------------------- training


def kind_of(name: Any) -> str | None:
    """In which chart a figure of a run belongs."""
    if not isinstance(name, str) or name == "held_out_loss":
        return None
    if name == "dev" or name.startswith("held_out"):
        return "measured"
    return next((kind for kind in ("loss", "accuracy") if name.endswith(kind)), None)


def curves_of(*sources: Mapping[str, Any]) -> list[Curve]:
    """The training curves of each stage: losses, accuracies, and what was measured on the way."""
    curves: list[Curve] = []
    for stage in STAGES:
        found = (entries(inside(source, "curves", stage)) for source in sources)
        reports = [report for report in next(filter(None, found), [])
                   if number(report.get("step")) is not None]
        for kind in ("loss", "accuracy", "measured"):
            curve = curve_of(stage, kind, reports)
            if curve is not None:
                curves.append(curve)
    return curves


def curve_of(stage: str, kind: str, reports: list[Mapping[str, Any]]) -> Curve | None:
    """One chart: the reports that have all of its figures, at most so many of them."""
    reports = [report for report in reports if any(kind_of(name) == kind for name in report)]
    names = list(dict.fromkeys(name for report in reports[:MOST_POINTS] for name in report
                               if kind_of(name) == kind))[:8]
    # The last report of a run may cover few batches and lack some of the names.
    whole = [report for report in reports
             if all(number(report.get(name)) is not None for name in names)]
    every = max(-(-len(whole) // MOST_POINTS), 1)
    points = [*whole[:-1:every], *whole[-1:]]
    if len(points) < 2 or not names:
        return None
    return {"stage": stage, "kind": kind, "steps": numbers(point["step"] for point in points),
            "lines": [{"name": shown, "values": numbers(point[name] for point in points)}
                      for shown, name in named({name: name for name in names})]}
