"""How bert bench measures: taking turns in processes of their own, ratios, and what is fed."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.errors import UserError
from bert.model import BertForSequenceClassification
from bert.tokenizer import WordPieceTokenizer
from bert.training.examples import read_labelled

ROOT = Path(__file__).parents[2]
DATA = ROOT / "assets" / "data"


# ---------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Comparison:
    """One row of the table: the same work done here and by a peer, in turns."""

    section: str
    what: str
    peer: str
    unit: str
    ours: Sequence[float]    # one value a round
    theirs: Sequence[float]  # of the same rounds
    bar: str = ""            # what the ratio should be, e.g. "≤ 0.70"

    def to_dict(self) -> dict[str, Any]:
        ratios = np.asarray(self.ours, dtype=float) / np.asarray(self.theirs, dtype=float)
        return {"section": self.section, "what": self.what, "peer": self.peer, "unit": self.unit,
                "ours": spread(self.ours), "theirs": spread(self.theirs), "ratio": spread(ratios),
                "bar": self.bar, "rounds": len(ratios)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median and the quartiles around it."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), (0.25, 0.5, 0.75))
    return {"median": float(middle), "low": float(low), "high": float(high)}


@dataclass(frozen=True)
class Bench:
    """What every section needs to know."""

    checkpoint: Path
    quick: bool = False
    max_steps: int | None = None

    def rounds(self, usual: int) -> int:
        """How often ours and the peer take turns."""
        return min(1 if self.quick else usual, self.max_steps or usual)

    def classifier(self) -> EmotionClassifier:
        classifier = EmotionClassifier.load(self.checkpoint)
        classifier.needs_classifier()
        if not classifier.config.is_hugging_face:
            raise UserError(f"{self.checkpoint} is a network that transformers cannot express: "
                            "there is nothing to compare it with")
        return classifier


def needs(*modules: str) -> None:
    """Say what to install before anything is measured."""
    for module in modules:
        if find_spec(module) is None:
            raise UserError(f"{module} is not installed, and the comparison needs it: "
                            "pip install -r tests/requirements.txt")


Functions = dict[Any, Callable[[], object]]  # what a process can be told to run, by name


class Runner:
    """A process of its own that runs functions when told, so that no peer gains or suffers from the
    settings of another. `make(*values)` is called there and gives the functions."""

    def __init__(self, make: Callable[..., Functions], *values: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_run_when_told, args=(end, make, values), daemon=True)
        self.process.start()
        end.close()

    def answer(self) -> Any:
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise UserError("a measured process ended before it answered: see above") from None
        if isinstance(answer, str):
            raise UserError(answer)
        return answer

    def seconds(self, name: Any, calls: int) -> float:
        """How long one call of a function took, the mean over `calls` of them."""
        self.pipe.send((name, calls))
        return self.answer()

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(timeout=10)
        self.process.kill()
        self.process.join()


def _run_when_told(pipe: Any, make: Callable[..., Functions], values: tuple) -> None:
    try:
        functions = make(*values)
        for function in functions.values():
            function()  # the first call of anything is slower
        pipe.send(None)
        while True:
            name, calls = pipe.recv()
            began = time.perf_counter()
            for _ in range(calls):
                functions[name]()
            pipe.send((time.perf_counter() - began) / calls)
    except EOFError:
        return
    except (ImportError, OSError, ValueError) as error:
        pipe.send(f"{make.__name__}: {error}")


@contextmanager
def runners(*made: tuple) -> Iterator[list[Runner]]:
    """Start a process for each `(make, *values)`; all are ready before the first is measured."""
    with ExitStack() as stack:
        started = []
        for make, *values in made:
            started.append(Runner(make, *values))
            stack.callback(started[-1].stop)
        for runner in started:
            runner.answer()
        yield started


def in_turns(runs: Sequence[Runner], name: Any, rounds: int, calls: int,
             pause: float = 0.0) -> list[list[float]]:
    """Seconds a call of each runner, round by round, the order turned over every time. In the pause
    before each turn the threads of the last one come to rest."""
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        places = range(len(runs)) if number % 2 == 0 else reversed(range(len(runs)))
        for place in places:
            time.sleep(pause)
            taken[place].append(runs[place].seconds(name, calls))
    return taken


def square_product(name: str, side: int) -> Functions:
    """A large product: what the machine can do at most."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    return {name: lambda: left @ right}


def milliseconds(seconds: Sequence[float]) -> list[float]:
    return [1000 * value for value in seconds]


# ---------------------------------------------------------------------------------- what is fed


def data_lines() -> list[str]:
    """The texts of the project's own training data."""
    return [line.text for path in sorted(DATA.glob("train*.tsv")) for line in read_labelled(path)]


def save_random_model(folder: Path) -> None:
    """A model of the shipped shape that has learned nothing."""
    config = BertConfig(id2label=KEYS)
    tokenizer = WordPieceTokenizer.train(data_lines(), config.vocab_size)
    save_checkpoint(folder, untrained(config, BertForSequenceClassification), tokenizer)


def text_of(classifier: EmotionClassifier, tokens: int, words: Sequence[str]) -> str:
    """A text of exactly so many tokens (special ones counted), made of the first words that fit."""
    text = ""
    for word in words:
        longer = f"{text} {word}".strip()
        length = len(classifier.tokenizer.encode(longer).ids)
        if length <= tokens:
            text = longer
        if length == tokens:
            return text
    raise UserError(f"the training data has no text of {tokens} tokens")


def shuffled_words(seed: int) -> list[str]:
    words = " ".join(data_lines()).split()
    np.random.default_rng(seed).shuffle(words)
    return words


def mixed_texts(count: int) -> list[str]:
    """Texts of one to four lines, so that lengths differ as they do in life."""
    draw, lines = np.random.default_rng(0), data_lines()
    return [" ".join(lines[i] for i in draw.integers(0, len(lines), draw.integers(1, 5)))
            for _ in range(count)]
