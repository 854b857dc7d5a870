"""Copies of the model that learn a visitor's corrections, each in a thread of its own."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.correction import Correction, GoOn, Progress

AT_ONCE = 2       # copies that learn at the same time
PATIENCE = 30.0   # seconds without a question after which nobody waits any more
KEPT = 8          # copies that can be talked to
TALKS = 1800.0    # seconds without a word after which a copy is forgotten

BUSY = ("Others are teaching their copies right now: try again in a moment. "
        "지금은 다른 분들이 가르치는 중이에요: 잠시 뒤에 다시 눌러 주세요.")
GONE = ("This copy is gone: it was stopped, or nobody asked for it. Press learn again. "
        "이 사본은 이미 지워졌어요: ‘학습 시작’을 다시 눌러 주세요.")
FAILED = ("The copy could not be taught on this machine: try fewer or shorter corrections. "
          "사본을 가르치지 못했어요: 더 적거나 짧은 글로 해 보세요.")

LEFT = ("Your copy is gone: teach another, or go back to the original. "
        "가르친 사본이 지워졌어요: 다시 가르치거나 원래 모델로 돌아가 주세요.")

Taught = tuple[Mapping[str, Any], EmotionClassifier]  # what is told of a copy, and the copy
Learn = Callable[[EmotionClassifier, Sequence[Correction], GoOn], Taught | None]


@dataclass
class Job:
    asked: float                             # when somebody last asked for it
    progress: Progress | None = None
    result: Taught | None = None
    is_stopped: bool = False
    is_over: bool = False


class FinetuneJobs:
    """The copies that learn at this moment, and the last ones that have learned. A job is forgotten
    when its result was fetched, when it was stopped, and when nobody asks for it; a copy when
    nobody talks to it."""

    def __init__(self, learn: Learn, clock: Callable[[], float] = time.monotonic) -> None:
        self.learn, self.clock = learn, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._copies: OrderedDict[str, tuple[float, EmotionClassifier]] = OrderedDict()

    def start(self, classifier: EmotionClassifier, corrections: Sequence[Correction]) -> str:
        """Begin in a thread of its own; the name under which to ask for the job."""
        with self._lock:
            self._forget()
            if len(self._jobs) >= AT_ONCE:
                raise UserError(BUSY)
            name = secrets.token_urlsafe(12)
            job = self._jobs[name] = Job(self.clock())
        threading.Thread(target=self._run, args=(job, classifier, corrections),
                         daemon=True).start()
        return name

    def ask(self, name: str) -> Mapping[str, Any]:
        """How far a job is, or its result, once."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None or job.is_stopped:
                raise UserError(GONE)
            job.asked = self.clock()
            if not job.is_over:
                return {"state": "learning", **(job.progress or {})}
            del self._jobs[name]
            if job.result is None:
                raise UserError(FAILED)
            told, copy = job.result
            self._copies[name] = self.clock(), copy
            self._forget()
        return {**told, "copy": name}

    def copy(self, name: str) -> EmotionClassifier:
        """A copy that has learned, to talk to."""
        with self._lock:
            self._forget()
            if name not in self._copies:
                raise UserError(LEFT)
            _, copy = self._copies.pop(name)
            self._copies[name] = self.clock(), copy
        return copy

    def stop(self, name: str) -> None:
        with self._lock:
            if name in self._jobs:
                self._jobs[name].is_stopped = True
            self._forget()

    def _run(self, job: Job, classifier: EmotionClassifier,
             corrections: Sequence[Correction]) -> None:
        def go_on(progress: Progress) -> bool:
            job.progress = progress
            return self._is_wanted(job)

        try:
            job.result = self.learn(classifier, corrections, go_on)
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
        while self._copies:
            said, _ = next(iter(self._copies.values()))  # the one that was talked to longest ago
            if len(self._copies) <= KEPT and self.clock() - said < TALKS:
                break
            self._copies.popitem(last=False)
