"""Copies of the model that learn a visitor's corrections, each in a thread of its own."""

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.correction import Correction, GoOn, Progress

AT_ONCE = 2       # copies that learn at the same time
PATIENCE = 30.0   # seconds without a question after which nobody waits any more

BUSY = ("Others are teaching their copies right now: try again in a moment. "
        "지금은 다른 분들이 가르치는 중이에요: 잠시 뒤에 다시 눌러 주세요.")
GONE = ("This copy is gone: it was stopped, or nobody asked for it. Press learn again. "
        "이 사본은 이미 지워졌어요: 다시 배우기를 눌러 주세요.")
FAILED = ("The copy could not be taught on this machine: try fewer or shorter corrections. "
          "사본을 가르치지 못했어요: 더 적거나 짧은 글로 해 보세요.")

Learn = Callable[[EmotionClassifier, Sequence[Correction], GoOn], Mapping[str, Any] | None]


@dataclass
class Job:
    asked: float                             # when somebody last asked for it
    progress: Progress | None = None
    result: Mapping[str, Any] | None = None
    is_stopped: bool = False
    is_over: bool = False


class FinetuneJobs:
    """The copies that learn at this moment. A job is forgotten when its result was fetched, when it
    was stopped, and when nobody asks for it."""

    def __init__(self, learn: Learn, clock: Callable[[], float] = time.monotonic) -> None:
        self.learn, self.clock = learn, clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

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
        return job.result

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
