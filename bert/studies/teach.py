"""Teach it: a visitor's corrections train a copy of the model that nobody else meets.

The copy lives in one thread for some seconds. When it has learned the corrections it answers them
and a fixed set of other texts once more, so that forgetting is seen, and is thrown away: only
answers leave.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bert.classifier import EmotionClassifier, Prediction
from bert.drawing.texts import PAGE, Language, say
from bert.errors import UserError
from bert.explain import correction
from bert.explain.correction import Correction, GoOn
from bert.studies.base import (
    LONGEST,
    ClassItem,
    Study,
    StudyContext,
    StudyOptions,
    Text,
    class_list,
)
from bert.studies.jobs import FinetuneJobs

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

MOST_CORRECTIONS = 20  # of one visitor


class TeachOptions(StudyOptions):
    """What a request wants; without an action: the fixed set, or a result to be drawn."""

    unlisted: ClassVar = ("action", "corrections", "job", "result")
    action: Literal["", "start", "progress", "stop"] = ""
    corrections: Any = None
    job: Text = ""
    result: Any = None


class Choice(TypedDict):
    best: int                  # place of the class
    probability: float


class TeachLine(TypedDict):
    """One text with its class and the first choice of the model and of its copy."""

    text: str
    label: int                 # place of the class
    before: Choice
    after: NotRequired[Choice]


class TeachData(TypedDict):
    state: str                 # untaught or done; learning and stopped have no lines
    classes: list[ClassItem]
    taught: list[TeachLine]
    fixed: list[TeachLine]
    most: NotRequired[int]
    ended: NotRequired[str]    # learned, steps or time
    steps: NotRequired[int]
    copy: NotRequired[str]     # under which name it can be talked to


@lru_cache(maxsize=1)
def fixed_set() -> tuple[Correction, ...]:
    """Short texts with their classes that are never taught: what the model knew before."""
    groups = json.loads((PAGE / "data" / "teach.json").read_text(encoding="utf-8"))
    return tuple(Correction(text, label) for label, group in groups.items() for text in group)


def known_lines(classifier: EmotionClassifier) -> list[Correction]:
    """The lines of the fixed set whose classes this model has."""
    return [line for line in fixed_set() if line.label in classifier.keys]


def check_corrections(classifier: EmotionClassifier, given: Any) -> list[Correction]:
    """The corrections of a request, or a sentence about what is wrong with them."""
    if not isinstance(given, list) or not given:
        raise UserError("There are no corrections: send a list of texts with their classes.")
    if len(given) > MOST_CORRECTIONS:
        raise UserError(f"There are {len(given)} corrections: at most {MOST_CORRECTIONS} are "
                        "taught.")
    corrections = []
    for number, item in enumerate(given, 1):
        text, label = (item.get("text"), item.get("label")) if isinstance(item, Mapping) else (0, 0)
        if not isinstance(text, str) or not isinstance(label, str):
            raise UserError(f"Correction {number} is not a text with a class: send both as "
                            "strings.")
        if len(text) > LONGEST:
            raise UserError(f"Correction {number} has {len(text):,} characters: at most "
                            f"{LONGEST:,} are read.")
        if label not in classifier.keys:
            raise UserError(f"Correction {number} has the class {label[:40]!r}: choose one of "
                            f"{', '.join(classifier.keys)}.")
        classifier.encode(text)  # complains about a text without words
        corrections.append(Correction(text, label))
    return corrections


# ---------------------------------------------------------------------------------- answers


def learn(classifier: EmotionClassifier, corrections: Sequence[Correction],
          go_on: GoOn) -> tuple[TeachData, EmotionClassifier] | None:
    """Teach a copy and compare: every answer before and after, and the copy; None if nobody waits
    any more."""
    taught = {line.text for line in corrections}
    lines = [*corrections, *(line for line in known_lines(classifier) if line.text not in taught)]
    found = correction.learn(classifier, corrections, [line.text for line in lines], go_on)
    if found is None:
        return None
    answered = [line_of(classifier, *row)
                for row in zip(lines, found.before, found.after, strict=True)]
    return {"state": "done", "ended": found.ended, "steps": found.steps,
            "classes": class_list(classifier.keys), "taught": answered[:len(corrections)],
            "fixed": answered[len(corrections):]}, found.copy


JOBS = FinetuneJobs(learn)


def line_of(classifier: EmotionClassifier, line: Correction, before: Prediction,
            after: Prediction | None = None) -> TeachLine:
    found: TeachLine = {"text": before.text, "label": classifier.keys.index(line.label),
                        "before": choice_of(before)}
    return found if after is None else {**found, "after": choice_of(after)}


def choice_of(prediction: Prediction) -> Choice:
    best = int(prediction.probabilities.argmax())
    return {"best": best, "probability": float(prediction.probabilities[best])}


@lru_cache(maxsize=1)
def first_answers(classifier: EmotionClassifier) -> list[TeachLine]:
    """The fixed set as the model answers it untaught."""
    lines = known_lines(classifier)
    answers = classifier.predict_many([line.text for line in lines])
    return [line_of(classifier, *row) for row in zip(lines, answers, strict=True)]


def run(context: StudyContext, text: str,
        options: TeachOptions) -> TeachData | Mapping[str, Any]:
    classifier = context.classifier
    classifier.needs_classifier()
    if options.action == "start":
        corrections = check_corrections(classifier, options.corrections)
        return {"state": "learning", "job": JOBS.start(classifier, corrections)}
    if options.action == "progress":
        return JOBS.ask(options.job)
    if options.action == "stop":
        JOBS.stop(options.job)
        return {"state": "stopped"}
    given = options.result if isinstance(options.result, Mapping) else {}
    taught, fixed = (sent_lines(given.get(name), len(classifier.keys))
                     for name in ("taught", "fixed"))
    return {"state": "untaught", "classes": context.classes, "most": MOST_CORRECTIONS,
            "taught": taught, "fixed": fixed if taught else first_answers(classifier)}


# ---------------------------------------------------------------------------------- taking it away


class SentChoice(BaseModel):
    model_config = ConfigDict(strict=True)
    best: int = Field(ge=0)
    probability: float = Field(ge=0, le=1)


class SentLine(BaseModel):
    """A line of a result that a browser sends back to have it drawn."""

    model_config = ConfigDict(strict=True)
    text: str
    label: int = Field(ge=0)
    before: SentChoice
    after: SentChoice


def sent_lines(given: Any, num_classes: int) -> list[TeachLine]:
    """Lines that a browser sends back; unsound ones are left out."""
    lines: list[TeachLine] = []
    for item in given[:MOST_CORRECTIONS + len(fixed_set())] if isinstance(given, list) else ():
        try:
            line = SentLine.model_validate(item)
        except ValidationError:
            continue
        if max(line.label, line.before.best, line.after.best) < num_classes:
            before, after = (Choice(best=choice.best, probability=choice.probability)
                             for choice in (line.before, line.after))
            lines.append({"text": line.text[:LONGEST], "label": line.label, "before": before,
                          "after": after})
    return lines


def all_lines(data: TeachData) -> list[tuple[str, TeachLine]]:
    """Taught and fixed lines with the name of their set."""
    if "fixed" not in data:
        raise UserError("The copy has not learned yet: there is nothing to draw.")
    return [*(("taught", line) for line in data["taught"]),
            *(("fixed", line) for line in data["fixed"])]


def choices(line: TeachLine) -> dict[str, Choice]:
    """The first choices of a line by when they were made."""
    return {"before": line["before"], **({"after": line["after"]} if "after" in line else {})}


def table(data: TeachData) -> list[list[Any]]:
    rows: list[list[Any]] = [["set", "text", "class", "before", "probability before", "after",
                              "probability after"]]
    for name, line in all_lines(data):
        keys = [item["key"] for item in data["classes"]]
        cells = [cell for choice in choices(line).values()
                 for cell in (keys[choice["best"]], choice["probability"])]
        rows.append([name, line["text"], keys[line["label"]], *cells, *[""] * (4 - len(cells))])
    return rows


def draw(data: TeachData, language: Language) -> "Figure":
    from bert.drawing.figures import INK, LINE, MUTED, drawable, new_figure, wrapped
    lines, classes = all_lines(data), data["classes"]
    times = list(choices(lines[0][1])) if lines else []
    height = max(0.24 * len(times) * len(lines) + 1.4, 2.5)
    figure = new_figure(11, height)
    axes = figure.add_axes((0.36, 0.5 / height, 0.46, 1 - 1.35 / height))
    thick = 0.8 / len(times) if times else 0.8
    axes.axhline(len(data["taught"]) - 0.5, color=LINE)
    for row, (_, line) in enumerate(lines):
        first, *rest = wrapped(line["text"], 44) or [""]
        axes.text(-2, row, first + "…" * bool(rest), ha="right", va="center", fontsize=9,
                  parse_math=False, color=INK)
        for place, (when, choice) in enumerate(choices(line).items()):
            item, y = classes[choice["best"]], row + thick * (place - (len(times) - 1) / 2)
            percent, is_last = 100 * choice["probability"], when == times[-1]
            axes.barh(y, percent, height=0.9 * thick, color=item["colour"],
                      alpha=1.0 if is_last else 0.45)
            mark = "✓" if choice["best"] == line["label"] else "✗"
            axes.text(101, y, f"{mark} {drawable(item[language])} {percent:.1f} %"
                      + (f" · {say(language, 'teach_' + when)}" if len(times) > 1 else ""),
                      va="center", fontsize=8, color=INK if is_last else MUTED, parse_math=False)
    axes.set(xlim=(0, 100), ylim=(len(lines) - 0.4, -0.6), yticks=[], xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.5, 1 - 0.25 / height, say(language, "study_teach"), ha="center", va="top",
                fontsize=13, fontweight="bold", color=INK)
    right = [sum(choices(line)[when]["best"] == line["label"] for line in data["fixed"])
             for when in times]
    figure.text(0.5, 1 - 0.55 / height, say(language, "teach_right", count=len(data["fixed"]),
                                            right=" → ".join(map(str, right))),
                ha="center", va="top", fontsize=10, color=MUTED)
    return figure


STUDY = Study("teach", TeachOptions, run, draw, table)
