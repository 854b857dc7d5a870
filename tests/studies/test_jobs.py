"""Copies that learn: how many at once, and when they are forgotten."""

import re
import threading

import pytest

from bert.explain.correction import Correction
from bert.studies.jobs import AT_ONCE, BUSY, GONE, KEPT, LEFT, PATIENCE, TALKS, FinetuneJobs

CORRECTIONS = [Correction("The cat fell asleep on my lap", "curiosity")]


class Slow:
    """Learning that takes a step whenever the test says so."""

    def __init__(self) -> None:
        self.turn, self.stepped, self.ended = (threading.Semaphore(0) for _ in range(3))

    def __call__(self, classifier, corrections, go_on):
        going = True
        while going:
            self.turn.acquire()
            going = go_on({"step": 1})
            self.stepped.release()
        self.ended.release()

    def step(self) -> None:
        self.turn.release()
        self.stepped.acquire()


def leave(jobs: FinetuneJobs) -> None:
    """Wait until the threads of some jobs have ended."""
    for thread in threading.enumerate():
        if getattr(thread, "_target", None) == jobs._run:
            thread.join()


def test_when_all_places_are_taken_the_next_visitor_is_told_to_come_back(classifier):
    slow = Slow()
    jobs = FinetuneJobs(slow)
    names = [jobs.start(classifier, CORRECTIONS) for _ in range(AT_ONCE)]
    with pytest.raises(ValueError, match=re.escape(BUSY)):
        jobs.start(classifier, CORRECTIONS)
    for name in names:
        jobs.stop(name)
    for _ in names:
        slow.step()
    leave(jobs)
    last = jobs.start(classifier, CORRECTIONS)  # there is room again
    jobs.stop(last)
    slow.step()
    leave(jobs)
    assert jobs._jobs == {}


def test_a_stopped_job_ends_at_its_next_step_and_is_forgotten(classifier):
    slow = Slow()
    jobs = FinetuneJobs(slow)
    name = jobs.start(classifier, CORRECTIONS)
    slow.step()
    assert jobs.ask(name) == {"state": "learning", "step": 1}
    jobs.stop(name)
    with pytest.raises(ValueError, match=re.escape(GONE)):
        jobs.ask(name)
    slow.step()
    leave(jobs)
    assert jobs._jobs == {} and slow.ended.acquire(blocking=False)


def test_a_job_that_nobody_asks_for_ends_and_is_forgotten(classifier):
    slow, now = Slow(), [100.0]
    jobs = FinetuneJobs(slow, clock=lambda: now[0])
    name = jobs.start(classifier, CORRECTIONS)
    now[0] += PATIENCE - 1
    slow.step()
    jobs.ask(name)
    now[0] += PATIENCE - 1
    slow.step()
    now[0] += 2
    slow.step()
    leave(jobs)
    assert jobs._jobs == {} and slow.ended.acquire(blocking=False)


def test_a_result_that_nobody_fetches_gives_its_place_away(classifier):
    now = [100.0]
    jobs = FinetuneJobs(lambda *_: ({"state": "done"}, classifier), clock=lambda: now[0])
    for _ in range(AT_ONCE):
        jobs.start(classifier, CORRECTIONS)
    leave(jobs)
    with pytest.raises(ValueError, match=re.escape(BUSY)):
        jobs.start(classifier, CORRECTIONS)
    now[0] += PATIENCE
    name = jobs.start(classifier, CORRECTIONS)
    leave(jobs)
    assert list(jobs._jobs) == [name]


def taught(jobs: FinetuneJobs, classifier) -> str:
    """The name of a copy that has learned."""
    name = jobs.start(classifier, CORRECTIONS)
    leave(jobs)
    assert jobs.ask(name) == {"state": "done", "copy": name}
    return name


def test_a_copy_that_has_learned_stays_while_somebody_talks_to_it(classifier):
    now = [100.0]
    jobs = FinetuneJobs(lambda *_: ({"state": "done"}, classifier), clock=lambda: now[0])
    name = taught(jobs, classifier)
    for _ in range(3):
        now[0] += TALKS - 1
        assert jobs.copy(name) is classifier
    now[0] += TALKS
    with pytest.raises(ValueError, match=re.escape(LEFT)):
        jobs.copy(name)


def test_only_the_last_copies_that_somebody_talked_to_are_kept(classifier):
    jobs = FinetuneJobs(lambda *_: ({"state": "done"}, classifier))
    first, second, *_ = [taught(jobs, classifier) for _ in range(KEPT)]
    jobs.copy(first)
    taught(jobs, classifier)
    assert jobs.copy(first) is classifier
    with pytest.raises(ValueError, match=re.escape(LEFT)):
        jobs.copy(second)
