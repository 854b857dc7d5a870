"""Teaching: a visitor's corrections train a copy of the model that nobody else meets.

The copy lives in one thread for some seconds. When it knows its lessons it answers them and a fixed
set of other texts once more, so that forgetting is seen, and is thrown away: only answers leave.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bert.lab import LONGEST, Lab, Options, Study
from bert.model import BertForSequenceClassification
from bert.predict import EmotionClassifier, Prediction
from bert.texts import PAGE, say
from bert.views import class_list

MOST_LESSONS = 20                  # of one visitor
MOST_STEPS, SECONDS = 60, 15.0     # whichever comes first ends the learning
ENOUGH = 0.5                       # a lesson is learned when its class has more than this
UPPER_LAYERS = 2                   # the layers below keep what they know
RATE_TIMES_WIDTH = 0.04            # 2e-4 at width 192, 5e-5 at 768: wider networks need less
AT_ONCE = 2                        # copies that learn at the same time
PATIENCE = 30.0                    # seconds without a question after which nobody waits any more

BUSY = ("Others are teaching their copies right now: try again in a moment. "
        "지금은 다른 분들이 가르치는 중이에요: 잠시 뒤에 다시 눌러 주세요.")
GONE = ("This copy is gone: it was stopped, or nobody asked for it. Press learn again. "
        "이 사본은 이미 지워졌어요: 다시 배우기를 눌러 주세요.")
FAILED = ("The copy could not be taught on this machine: try fewer or shorter lessons. "
          "사본을 가르치지 못했어요: 더 적거나 짧은 글로 해 보세요.")


@dataclass(frozen=True)
class Lesson:
    text: str
    label: str  # a class of the model


def check_lessons(classifier: EmotionClassifier, given: Any) -> list[Lesson]:
    """The lessons of a request, or a sentence about what is wrong with them."""
    if not isinstance(given, list) or not given:
        raise ValueError("There are no lessons: send a list of texts with their classes.")
    if len(given) > MOST_LESSONS:
        raise ValueError(f"There are {len(given)} lessons: at most {MOST_LESSONS} are taught.")
    lessons = []
    for number, item in enumerate(given, 1):
        text, label = (item.get("text"), item.get("label")) if isinstance(item, Mapping) else (0, 0)
        if not isinstance(text, str) or not isinstance(label, str):
            raise ValueError(f"Lesson {number} is not a text with a class: send both as strings.")
        if len(text) > LONGEST:
            raise ValueError(f"Lesson {number} has {len(text):,} characters: at most {LONGEST:,} "
                             "are read.")
        if label not in classifier.keys:
            raise ValueError(f"Lesson {number} has the class {label[:40]!r}: choose one of "
                             f"{', '.join(classifier.keys)}.")
        classifier.encode(text)  # complains about a text without words
        lessons.append(Lesson(text, label))
    return lessons


@lru_cache(maxsize=1)
def fixed_set() -> tuple[Lesson, ...]:
    """Short texts with their classes that are never taught: what the model knew before."""
    groups = json.loads((PAGE / "teach_texts.json").read_text(encoding="utf-8"))
    return tuple(Lesson(text, label) for label, group in groups.items() for text in group)


# ---------------------------------------------------------------------------------- learning

GoOn = Callable[[dict], bool]  # is told of every step; says whether somebody still waits


def copied(model: BertForSequenceClassification) -> BertForSequenceClassification:
    """A copy without dropout of which only the upper layers, pooler and classifier learn."""
    copy = deepcopy(model).eval().requires_grad_(False)
    encoder = copy.bert.encoder
    for part in (*encoder.layer[-UPPER_LAYERS:], encoder.final_norm, copy.bert.pooler,
                 copy.classifier):
        part.requires_grad_(True)
    return copy


class Adam:
    """Adam (Kingma & Ba 2015). torch's own loads the compiler at its first step: many seconds, and
    80 MB that stay."""

    def __init__(self, weights: Sequence[Tensor], rate: float) -> None:
        self.weights, self.rate, self.steps = list(weights), rate, 0
        self.moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, self.weights)
        self.steps += 1
        with torch.no_grad():
            for weight, gradient, (mean, square) in zip(self.weights, gradients, self.moments,
                                                        strict=True):
                mean.lerp_(gradient, 1 - 0.9)
                square.lerp_(gradient.square(), 1 - 0.999)
                spread = (square / (1 - 0.999 ** self.steps)).sqrt() + 1e-8
                weight -= self.rate * mean / (1 - 0.9 ** self.steps) / spread


def train(pupil: EmotionClassifier, lessons: Sequence[Lesson], go_on: GoOn,
          ) -> tuple[str, int] | None:
    """Teach until every lesson is known; what ended it after how many steps, or None if nobody
    waits any more."""
    model, began = pupil.model, time.monotonic()
    batch = pupil.tokenizer.pad([pupil.encode(lesson.text) for lesson in lessons])
    ids, is_token = torch.from_numpy(batch.ids), torch.from_numpy(batch.is_token)    # (B, T)
    wanted = torch.tensor([pupil.keys.index(lesson.label) for lesson in lessons])    # (B,)
    adam = Adam([weight for weight in model.parameters() if weight.requires_grad],
                RATE_TIMES_WIDTH / pupil.config.hidden_size)
    for step in range(MOST_STEPS + 1):
        logits = model(ids, None, is_token, lean=True).logits                        # (B, C)
        loss = F.cross_entropy(logits, wanted)
        known = logits.detach().softmax(dim=-1).gather(1, wanted[:, None]) > ENOUGH  # (B, 1)
        if not go_on({"step": step, "steps": MOST_STEPS, "loss": float(loss.detach()),
                      "learned": int(known.sum()), "lessons": len(lessons)}):
            return None
        if known.all():
            return "learned", step
        if time.monotonic() - began > SECONDS:
            return "time", step
        if step < MOST_STEPS:
            adam.step(loss)
    return "steps", MOST_STEPS


def learn(classifier: EmotionClassifier, lessons: Sequence[Lesson], go_on: GoOn) -> dict | None:
    """Teach a copy and compare: every answer before and after. The model itself is only read."""
    taught = {lesson.text for lesson in lessons}
    fixed = [line for line in known_lines(classifier) if line.text not in taught]
    everything = [line.text for line in (*lessons, *fixed)]
    before = classifier.predict_many(everything)
    pupil = EmotionClassifier(replace(classifier.checkpoint, model=copied(classifier.model)))
    end = train(pupil, lessons, go_on)
    if end is None:
        return None
    after = pupil.predict_many(everything)
    lines = [line_of(classifier, *row) for row in
             zip((*lessons, *fixed), before, after, strict=True)]
    return {"state": "done", "ended": end[0], "steps": end[1],
            "classes": class_list(classifier.keys), "taught": lines[:len(lessons)],
            "fixed": lines[len(lessons):]}


def known_lines(classifier: EmotionClassifier) -> list[Lesson]:
    """The lines of the fixed set whose classes this model has."""
    return [line for line in fixed_set() if line.label in classifier.keys]


def line_of(classifier: EmotionClassifier, lesson: Lesson, before: Prediction,
            after: Prediction | None = None) -> dict:
    """One text with its class and the model's first choice; classes are numbers."""
    line = {"text": before.text, "label": classifier.keys.index(lesson.label),
            "before": choice_of(before)}
    return line if after is None else {**line, "after": choice_of(after)}


def choice_of(prediction: Prediction) -> dict:
    best = int(prediction.probabilities.argmax())
    return {"best": best, "share": float(prediction.probabilities[best])}


# ---------------------------------------------------------------------------------- jobs


@dataclass
class Job:
    asked: float                 # when somebody last asked for it
    progress: dict = field(default_factory=dict)
    result: dict | None = None
    is_stopped: bool = False
    is_over: bool = False


class School:
    """The copies that learn at this moment. A job is forgotten when its result was fetched, when it
    was stopped, and when nobody asks for it."""

    def __init__(self, learn: Callable = learn,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.learn, self.clock = learn, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, classifier: EmotionClassifier, lessons: Sequence[Lesson]) -> str:
        """Begin in a thread of its own; the name under which to ask for the job."""
        with self._lock:
            self._forget()
            if len(self._jobs) >= AT_ONCE:
                raise ValueError(BUSY)
            name = secrets.token_urlsafe(12)
            job = self._jobs[name] = Job(self.clock())
        threading.Thread(target=self._teach, args=(job, classifier, lessons), daemon=True).start()
        return name

    def ask(self, name: str) -> dict:
        """How far a job is, or its result, once."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.is_stopped:
                raise ValueError(GONE)
            job.asked = self.clock()
            if not job.is_over:
                return {"state": "learning", **job.progress}
            del self._jobs[name]
        if job.result is None:
            raise ValueError(FAILED)
        return job.result

    def stop(self, name: str) -> None:
        with self._lock:
            if name in self._jobs:
                self._jobs[name].is_stopped = True
            self._forget()

    def _teach(self, job: Job, classifier: EmotionClassifier, lessons: Sequence[Lesson]) -> None:
        def go_on(progress: dict) -> bool:
            job.progress = progress
            return self._is_wanted(job)

        try:
            job.result = self.learn(classifier, lessons, go_on)
        finally:
            with self._lock:
                job.is_over = True
                self._forget()

    def _is_wanted(self, job: Job) -> bool:
        return not job.is_stopped and self.clock() - job.asked < PATIENCE

    def _forget(self) -> None:
        """Drop what nobody wants; a thread that still runs keeps its place until it has ended."""
        for name in [name for name, job in self._jobs.items()
                     if job.is_over and not self._is_wanted(job)]:
            del self._jobs[name]


SCHOOL = School()


# ---------------------------------------------------------------------------------- the study


@lru_cache(maxsize=1)
def first_answers(classifier: EmotionClassifier) -> list[dict]:
    """The fixed set as the model answers it untaught."""
    lines = known_lines(classifier)
    answers = classifier.predict_many([line.text for line in lines])
    return [line_of(classifier, *row) for row in zip(lines, answers, strict=True)]


def run_teach(lab: Lab, text: str, options: Options) -> dict:
    classifier = lab.classifier
    classifier.needs_classifier()
    action = options.choice("action", ("start", "progress", "stop"), "")
    if action == "start":
        lessons = check_lessons(classifier, options.given.get("lessons"))
        return {"state": "learning", "job": SCHOOL.start(classifier, lessons)}
    if action == "progress":
        return SCHOOL.ask(options.text("job"))
    if action == "stop":
        SCHOOL.stop(options.text("job"))
        return {"state": "stopped"}
    given = options.given.get("result")
    lines = {name: sent_lines(given.get(name) if isinstance(given, Mapping) else None,
                              len(classifier.keys)) for name in ("taught", "fixed")}
    if not lines["taught"]:
        lines = {"taught": [], "fixed": first_answers(classifier)}
    return {"state": "untaught", "classes": class_list(classifier.keys), "most": MOST_LESSONS,
            "longest": LONGEST, **lines}


def sent_lines(given: Any, num_classes: int) -> list[dict]:
    """Lines of a result that a browser sends back to have them drawn; unsound ones are left out."""
    def is_class(value: Any) -> bool:
        return type(value) is int and 0 <= value < num_classes

    def is_choice(value: Any) -> bool:
        return (isinstance(value, Mapping) and is_class(value.get("best"))
                and isinstance(value.get("share"), int | float) and 0 <= value["share"] <= 1)

    lines = given[:MOST_LESSONS + len(fixed_set())] if isinstance(given, list) else []
    return [{"text": line["text"][:LONGEST], "label": line["label"],
             **{name: {"best": line[name]["best"], "share": float(line[name]["share"])}
                for name in ("before", "after")}}
            for line in lines if isinstance(line, Mapping) and isinstance(line.get("text"), str)
            and is_class(line.get("label")) and is_choice(line.get("before"))
            and is_choice(line.get("after"))]


def all_lines(data: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Taught and fixed lines with the name of their set."""
    if "fixed" not in data:
        raise ValueError("The copy has not learned yet: there is nothing to draw.")
    return [(name, line) for name in ("taught", "fixed") for line in data[name]]


def teach_table(data: Mapping[str, Any]) -> list[list]:
    keys = [item["key"] for item in data.get("classes", ())]
    rows: list[list] = [["set", "text", "class", "before", "probability before", "after",
                         "probability after"]]
    for name, line in all_lines(data):
        choices = [value for when in ("before", "after") for value in
                   ((keys[line[when]["best"]], line[when]["share"]) if when in line else ("", ""))]
        rows.append([name, line["text"], keys[line["label"]], *choices])
    return rows


def draw_teach(data: Mapping[str, Any], language: str):
    from bert.figures import INK, LINE, MUTED, drawable, new_figure, wrapped
    lines, classes = all_lines(data), data["classes"]
    times = [when for when in ("before", "after") if any(when in line for _, line in lines)]
    height = max(0.24 * len(times) * len(lines) + 1.4, 2.5)
    figure = new_figure(11, height)
    axes = figure.add_axes((0.36, 0.5 / height, 0.46, 1 - 1.35 / height))
    thick = 0.8 / len(times) if times else 0.8
    axes.axhline(len(data["taught"]) - 0.5, color=LINE)
    for row, (_, line) in enumerate(lines):
        first, *rest = wrapped(line["text"], 44) or [""]
        axes.text(-2, row, first + "…" * bool(rest), ha="right", va="center", fontsize=9,
                  parse_math=False, color=INK)
        for place, when in enumerate(times):
            choice = line[when]
            item, y = classes[choice["best"]], row + thick * (place - (len(times) - 1) / 2)
            axes.barh(y, 100 * choice["share"], height=0.9 * thick, color=item["colour"],
                      alpha=1.0 if when == times[-1] else 0.45)
            mark = "✓" if choice["best"] == line["label"] else "✗"
            axes.text(101, y, f"{mark} {drawable(item[language])} {100 * choice['share']:.1f} %"
                      + (f" · {say(language, 'teach_' + when)}" if len(times) > 1 else ""),
                      va="center", fontsize=8, color=INK if when == times[-1] else MUTED,
                      parse_math=False)
    axes.set(xlim=(0, 100), ylim=(len(lines) - 0.4, -0.6), yticks=[], xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    figure.text(0.5, 1 - 0.25 / height, say(language, "study_teach"), ha="center", va="top",
                fontsize=13, fontweight="bold", color=INK)
    scores = " → ".join(
        f"{sum(line[when]['best'] == line['label'] for line in data['fixed'])}" for when in times)
    figure.text(0.5, 1 - 0.55 / height, say(language, "teach_right", right=scores,
                                            count=len(data["fixed"])),
                ha="center", va="top", fontsize=10, color=MUTED)
    return figure


TEACH = Study("teach", run_teach, draw_teach, teach_table)
