"""The report: what was measured of the served checkpoint and of its pre-trained stage, read from
their metrics.json. A part that is not there is named together with the command that makes it."""

from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from bert.drawing.texts import Language
from bert.studies.base import ClassItem, Study, StudyContext, StudyOptions
from bert.training.report import (
    LANGUAGES,
    LEVELS,
    MOST_POINTS,
    ContrastRow,
    Curve,
    FigureRow,
    LanguagePart,
    MethodRow,
    Pruning,
    ScoreRow,
    ShareRow,
    contrast_of,
    curves_of,
    distrustful_read,
    figure_rows,
    fraction,
    inside,
    language_part,
    league_of,
    learning_curve_of,
    pruning_of,
    table_of,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

# The parts of a report, and what writes each into metrics.json.
COMMANDS = {
    "languages": "evaluate", "contrast": "evaluate", "baselines": "baseline --checkpoint FOLDER",
    "held_out": "evaluate --pretrained --sources FILES", "explanations": "evaluate --explanations",
    "pruning": "evaluate --pruning", "curves": "train"}


class ReportOptions(StudyOptions):
    local = ("results",)
    results: Literal["", "en", "ko"] = ""  # the language whose results are shown


class MissingPart(TypedDict):
    part: str
    command: str


class ReportData(TypedDict):
    problem: str | None   # missing or unreadable
    name: str
    classes: list[ClassItem]
    languages: dict[str, LanguagePart]
    baselines: list[ScoreRow]
    more: list[ScoreRow]
    contrast: list[ContrastRow]
    two_feelings: list[FigureRow]
    llm_labels: list[FigureRow]
    public: list[FigureRow]
    masked: list[FigureRow]               # held-out documents, by language
    sources: list[FigureRow]              # the same by source, with next sentences
    next_sentence_right: float | None     # mean over the sources, without film reviews
    cloze: list[FigureRow]
    explanations: dict[str, list[MethodRow]]
    pruning: Pruning | None
    learning_curve: list[ShareRow]
    curves: list[Curve]
    shown: str
    missing: list[MissingPart]


def by_language(found: Any) -> dict[str, Any]:
    return {language: inside(found, "languages", language) for language in LANGUAGES}


def run(context: StudyContext, text: str, options: ReportOptions) -> ReportData:
    folder = context.classifier.checkpoint.folder
    found, problem = distrustful_read(folder / "metrics.json")
    earlier, _ = distrustful_read(context.pretrained_folder / "metrics.json")
    measured, held_out = inside(found, "evaluate"), inside(earlier, "held_out")
    languages: dict[str, LanguagePart] = {}
    for language, values in by_language(measured).items():
        part = language_part(values, len(context.classes))
        if part is not None:
            languages[language] = part
    data: ReportData = {
        "problem": problem, "name": context.classifier.checkpoint.name, "classes": context.classes,
        "languages": languages,
        "baselines": table_of(inside(found, "baselines")),
        "more": table_of(inside(measured, "more")),
        "contrast": contrast_of(inside(measured, "contrast", "languages"),
                                inside(found, "baseline", "contrast")),
        "two_feelings": figure_rows(by_language(inside(measured, "two_feelings")),
                                    ("right", "both_first", "room_for_both"), ("lines",)),
        "llm_labels": figure_rows(by_language(inside(measured, "llm_labels")),
                                  ("accuracy", "accuracy_confident", "feeling_confident",
                                   "none_not_confident"), ("lines",)),
        "public": figure_rows(inside(measured, "public"), ("accuracy", "macro_f1"), ("lines",)),
        "masked": figure_rows(by_language(held_out), ("masked_right",), ("masked",)),
        "sources": figure_rows(inside(held_out, "sources"), (
            "masked_right", "next_sentence_right"), ("masked", "pairs")),
        "next_sentence_right": fraction(inside(held_out, "next_sentence_right")),
        "cloze": figure_rows(by_language(inside(earlier, "cloze")), ("first_ten", "first"),
                             ("sentences",)),
        "explanations": league_of(inside(found, "explanations", "languages")),
        "pruning": pruning_of(inside(found, "pruning")),
        "learning_curve": learning_curve_of(inside(found, "learning_curve"))[:MOST_POINTS],
        "curves": curves_of(found, earlier),
        "shown": options.results, "missing": [],
    }
    is_there: dict[str, Any] = {**data, "held_out": data["masked"]}
    return {**data, "missing": [{"part": part, "command": f"python -m bert {command}"}
                                for part, command in COMMANDS.items() if not is_there[part]]}


# ---------------------------------------------------------------------------------- taking it away


def table(data: ReportData) -> list[list[Any]]:
    """Every figure with the part, language and name that it belongs to."""
    rows: list[list[Any]] = [["part", "language", "name", "value"]]
    for language, part in data["languages"].items():
        rows += language_rows(language, part, [item["key"] for item in data["classes"]])
    parts = cast(dict[str, Any], data)
    rows += [[kind, language, f"{row.get('name', row.get('share'))} · {level}",
              row[language][level]] for kind in ("baselines", "more", "learning_curve")
             for row in parts[kind] for language in LANGUAGES for level in LEVELS]
    rows += [["contrast" if who == "model" else "contrast, linear model", language, row["group"],
              row[who][language]] for who in ("model", "linear") for row in parts["contrast"]
             for language in LANGUAGES]
    rows += [[kind.replace("_", " "), row["name"], name, value]
             for kind in ("two_feelings", "llm_labels", "masked", "cloze")
             for row in parts[kind] for name, value in row["figures"].items()]
    rows += [[kind, "", f"{row['name']} {name}", value] for kind in ("sources", "public")
             for row in parts[kind] for name, value in row["figures"].items()]
    rows.append(["next sentence", "", "mean of the sources", data["next_sentence_right"]])
    rows += [["explanations", language, f"{method['name']} {measure}", value]
             for language, methods in data["explanations"].items() for method in methods
             for measure, value in method["measures"].items()]
    if data["pruning"]:
        rows += [["pruning", line["name"], f"without {count:.0f} heads", value]
                 for line in data["pruning"]["lines"]
                 for count, value in zip(data["pruning"]["removed"], line["values"], strict=True)]
    for curve in data["curves"]:
        rows += [[f"{curve['stage']} curve", "", f"{line['name']} at {step:.0f}", value]
                 for line in curve["lines"]
                 for step, value in zip(curve["steps"], line["values"], strict=True)]
    return [row for row in rows if row[-1] is not None]


def language_rows(language: str, part: LanguagePart, keys: list[str]) -> list[list[Any]]:
    """The figures of one language."""
    rows: list[list[Any]] = [["figures", language, name, value]
                             for name, value in part["figures"].items()]
    rows += [[name, language, key, value] for key, figures in
             zip(keys, part["per_class"], strict=False) for name, value in figures.items()]
    rows += [["confusion", language, f"{true} → {answer}", count]
             for true, counts in zip(keys, part["confusion"] or [], strict=False)
             for answer, count in zip(keys, counts, strict=True)]
    rows += [["robustness", language, row["name"], row["share"]] for row in part["robustness"]]
    return rows + [["reliability", language, f"said {row['said']} in {row['lines']:.0f} lines",
                    row["right"]] for row in part["reliability"]]


def draw(data: ReportData, language: Language) -> "Figure":
    from bert.drawing.report import draw_report
    return draw_report(data, language)


STUDY = Study("report", ReportOptions, run, draw, table)
