"""Explanations on trial: how each method ranks the words, and whether these make the answer."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict

import numpy as np

from bert.classifier import EmotionClassifier
from bert.drawing.texts import Language, say
from bert.explain.faithfulness import METHODS, Trial, beaten, judge_all, random_scores
from bert.explain.target import Target
from bert.explain.words import text_words
from bert.studies.base import ClassItem, Numbers, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

CHANCE = "random"
NAMES = tuple(name for name in METHODS if name != CHANCE)
CHEAP = tuple(name for name in NAMES if METHODS[name].is_cheap)
COLOURS = dict(zip(NAMES, ("#4c78a8", "#72b7b2", "#54a24b", "#b5a514", "#b279a2", "#e07bb0",
                           "#5b5f97", "#a1755c", "#f58518", "#e45756"), strict=True))
GREY, FOR, AGAINST = "#8b95a3", "#0b7d8a", "#b04d14"
MOST_STEPS = 10       # of a curve: more words than that are masked several at a time
RANDOM_RANKINGS = 10  # one ranking by chance may be lucky
BETTER = 0.9          # share of them that a method must beat to be called better than chance
FEWEST_WORDS = 4      # fewer have so few orders that chance often finds the best one
KEPT_TRIALS = 16      # some KB each
CURVES = ("deletion", "insertion", "deletion_margin", "insertion_margin")
MEASURES = ("comprehensiveness", "sufficiency", "deletion", "insertion")


class TrialOptions(StudyOptions):
    local: ClassVar = ("method", "curve")
    unlisted: ClassVar = ("part",)
    target: str = ""     # key of a class; otherwise the answer
    against: str = ""    # key of another class: why this one rather than that one
    method: str = ""     # whose curves stand out; otherwise the best one's
    curve: Literal["probability", "margin"] = "probability"
    part: Literal["first", "all"] = "first"  # the cheap methods, or all of them and chance


class MethodData(TypedDict):
    name: str
    colour: str
    scores: Numbers                  # (W,)
    curves: dict[str, Numbers]       # each of CURVES, (K,)
    measures: dict[str, float]
    beats: float | None              # share of random rankings; None as long as they are unknown


class ChanceData(TypedDict):
    """The random rankings: mean and range."""

    rankings: int
    mean: dict[str, Numbers]         # each of CURVES, (K,)
    low: dict[str, Numbers]
    high: dict[str, Numbers]
    measures: dict[str, float]


class Verdict(TypedDict):
    kind: str                        # few, none, not, unclear, also or best
    best: str                        # the method with the widest gap between its curves


class TrialData(TypedDict):
    classes: list[ClassItem]
    target: int
    against: int | None
    answer: int
    words: list[str]
    truncated: bool
    shares: Numbers                  # (K,) of the words
    methods: list[MethodData]
    pending: list[str]               # methods of the other part
    chance: ChanceData | None
    verdict: Verdict | None
    method: str
    curve: str


Judged = tuple[np.ndarray, Trial]


@lru_cache(maxsize=KEPT_TRIALS)
def judged(classifier: EmotionClassifier, text: str, target: Target,
           names: tuple[str, ...]) -> tuple[Judged, ...]:
    """The scores of some methods and their trials; "random" stands for all rankings by chance."""
    rankings = [METHODS[name].scores(classifier, text, target) for name in names if name != CHANCE]
    if CHANCE in names:
        rankings += [random_scores(classifier, text, target, seed)
                     for seed in range(RANDOM_RANKINGS)]
    trials = judge_all(classifier, text, target, rankings, MOST_STEPS)
    return tuple(zip(rankings, trials, strict=True))


def run(context: StudyContext, text: str, options: TrialOptions) -> TrialData:
    classifier = context.classifier
    classifier.needs_classifier()
    cache = context.cache(text)
    answer = int(context.probabilities(cache).argmax())
    places = {key: place for place, key in enumerate(classifier.keys)}
    index = places.get(options.target, answer)
    against = places.get(options.against)
    target = Target(index, None if against == index else against)
    found = dict(zip(CHEAP, judged(classifier, text, target, CHEAP), strict=True))
    chance: list[Trial] = []
    dear = tuple(name for name in NAMES if name not in CHEAP)
    if options.part == "all":
        rest = judged(classifier, text, target, (*dear, CHANCE))
        found.update(zip(dear, rest, strict=False))
        chance = [trial for _, trial in rest[len(dear):]]
    words = [name for name, _ in text_words(cache.encoding)]
    return {
        "classes": context.classes, "target": target.index, "against": target.against,
        "answer": answer, "words": words, "truncated": cache.encoding.truncated,
        "shares": next(iter(found.values()))[1].shares,
        "methods": [{
            "name": name, "colour": COLOURS[name], "scores": scores, "curves": curves_of(trial),
            "measures": trial.measures(), "beats": beaten(trial, chance) if chance else None,
        } for name, (scores, trial) in found.items()],
        "pending": [name for name in NAMES if name not in found],
        "chance": described(chance) if chance else None,
        "verdict": verdict({name: trial for name, (_, trial) in found.items()}, chance, len(words))
        if chance else None,
        "method": options.method if options.method in NAMES else "", "curve": options.curve,
    }


def curves_of(trial: Trial) -> dict[str, np.ndarray]:
    return {name: getattr(trial, name) for name in CURVES}


def described(chance: list[Trial]) -> ChanceData:
    curves = {name: np.stack([getattr(trial, name) for trial in chance]) for name in CURVES}
    measures = [trial.measures() for trial in chance]
    return {"rankings": len(chance),
            "mean": {name: values.mean(axis=0) for name, values in curves.items()},
            "low": {name: values.min(axis=0) for name, values in curves.items()},
            "high": {name: values.max(axis=0) for name, values in curves.items()},
            "measures": {name: float(np.mean([found[name] for found in measures]))
                         for name in measures[0]}}


def verdict(trials: dict[str, Trial], chance: list[Trial], num_words: int) -> Verdict:
    """The best method, and what is to be said of attention beside it."""
    best = max(trials, key=lambda name: trials[name].gap)
    attention = beaten(trials["attention"], chance)
    if num_words < FEWEST_WORDS:
        kind = "few"
    elif beaten(trials[best], chance) < BETTER:
        kind = "none"
    elif best == "attention":
        kind = "best"
    else:
        kind = "also" if attention >= BETTER else "unclear" if attention >= 0.5 else "not"
    return {"kind": kind, "best": best}


def table(data: TrialData) -> list[list[Any]]:
    classes = [item["key"] for item in data["classes"]]
    rows: list[list[Any]] = [
        ["class", classes[data["target"]]],
        ["rather than", "" if data["against"] is None else classes[data["against"]]], [],
        ["method", *MEASURES, "deletion margin", "insertion margin", "better than chance"]]
    measures = (*MEASURES, "deletion_margin", "insertion_margin")
    rows += [[method["name"], *(method["measures"][name] for name in measures),
              "" if method["beats"] is None else method["beats"]] for method in data["methods"]]
    if chance := data["chance"]:
        rows.append([f"{CHANCE}, mean of {chance['rankings']}",
                     *(chance["measures"][name] for name in measures), ""])
    rows += [[], ["score of", *data["words"]],
             *([method["name"], *method["scores"]] for method in data["methods"]),
             [], ["curve", "method", *data["shares"]]]
    for name in CURVES:
        rows += [[name, method["name"], *method["curves"][name]] for method in data["methods"]]
        if chance:
            rows.append([name, CHANCE, *chance["mean"][name]])
    return rows


# ---------------------------------------------------------------------------------- the picture


def sentence(data: TrialData, language: Language) -> str:
    found = data["verdict"]
    if not found:
        return ""
    return say(language, f"trial_verdict_{found['kind']}",
               best=say(language, f"trial_{found['best']}"))


def title(data: TrialData, language: Language) -> str:
    name = data["classes"][data["target"]][language]
    if data["against"] is None:
        return say(language, "trial_why", name=name)
    return say(language, "trial_why_rather", name=name,
               other=data["classes"][data["against"]][language])


def draw(data: TrialData, language: Language) -> "Figure":
    from bert.drawing.figures import MUTED, drawable, new_figure
    figure = new_figure(12, 9)
    heading = f"{say(language, 'study_trial')} · {title(data, language)}"
    figure.suptitle(drawable(heading, 90), parse_math=False)
    figure.text(0.5, 0.935, drawable(sentence(data, language), 130), ha="center", fontsize=10,
                color=MUTED, parse_math=False)
    _place_strips(figure, data, language)
    _place_curves(figure, data, language)
    _place_measures(figure, data, language)
    return figure


def _place_strips(figure: "Figure", data: TrialData, language: Language) -> None:
    from bert.drawing.figures import drawable
    scores = np.array([method["scores"] for method in data["methods"]])              # (M, W)
    limits = np.maximum(np.abs(scores).max(axis=1, keepdims=True), 1e-12)
    axes = figure.add_axes((0.2, 0.56, 0.77, 0.25))
    inks = np.where((scores >= 0)[..., None], *(np.array([*bytes.fromhex(ink[1:])]) / 255
                                                for ink in (FOR, AGAINST)))          # (M, W, 3)
    axes.imshow(1 - np.abs(scores / limits)[..., None] * (1 - inks), aspect="auto",
                interpolation="nearest")
    every = -(-len(data["words"]) // 40)
    axes.xaxis.tick_top()
    axes.set_xticks(range(0, len(data["words"]), every),
                    [drawable(word, 12) for word in data["words"][::every]],
                    rotation=60 if len(data["words"]) > 8 else 0,
                    ha="left" if len(data["words"]) > 8 else "center", fontsize=8, parse_math=False)
    axes.set_yticks(range(len(scores)), [say(language, f"trial_{method['name']}")
                                         for method in data["methods"]], fontsize=9)
    axes.tick_params(length=0)


def _place_curves(figure: "Figure", data: TrialData, language: Language) -> None:
    axes = figure.add_axes((0.07, 0.08, 0.4, 0.39))
    suffix = "_margin" if data["curve"] == "margin" else ""
    factor = 1 if suffix else 100
    shares = 100 * np.array(data["shares"])
    strong = data["method"] or (data["verdict"] or {"best": ""})["best"]
    for name, style in (("deletion", "-"), ("insertion", "--")):
        if chance := data["chance"]:
            axes.fill_between(shares, factor * np.array(chance["low"][name + suffix]),
                              factor * np.array(chance["high"][name + suffix]), color=GREY,
                              alpha=0.15, linewidth=0)
        for method in data["methods"]:
            is_strong = method["name"] == strong
            axes.plot(shares, factor * np.array(method["curves"][name + suffix]), style,
                      color=method["colour"], linewidth=2.6 if is_strong else 1.0,
                      alpha=1.0 if is_strong else 0.75, zorder=3 if is_strong else 2)
        axes.plot([], [], style, color="#444444", label=say(language, f"trial_{name}"))
    axes.set(xlim=(0, 100), xlabel=say(language, "trial_across"),
             ylabel=say(language, f"trial_{data['curve']}"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)


def _place_measures(figure: "Figure", data: TrialData, language: Language) -> None:
    """The table: a line for each method in its colour."""
    from bert.drawing.figures import INK, MUTED
    lefts = (0.53, 0.76, 0.83, 0.9, 0.97)
    for left, name in zip(lefts[1:], MEASURES, strict=True):
        figure.text(left, 0.47, say(language, f"trial_short_{name}"), ha="right", fontsize=8,
                    color=MUTED)
    rows = [(say(language, f"trial_{method['name']}"), method["measures"], method["colour"])
            for method in data["methods"]]
    if chance := data["chance"]:
        rows.append((say(language, "trial_random_mean", n=chance["rankings"]), chance["measures"],
                     GREY))
    for row, (name, measures, colour) in enumerate(rows):
        height = 0.435 - 0.036 * row
        figure.text(lefts[0] - 0.012, height, "■", ha="right", fontsize=9, color=colour)
        figure.text(lefts[0], height, name, fontsize=9, color=INK)
        for left, measure in zip(lefts[1:], MEASURES, strict=True):
            figure.text(left, height, f"{measures[measure]:.3f}", ha="right", fontsize=9, color=INK)


STUDY = Study("trial", TrialOptions, run, draw, table)
