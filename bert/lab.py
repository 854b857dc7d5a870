"""What the studies of the microscope share: the models, the tensors of the last texts, options.

A study is one view behind the main page. From a text and a few options it computes plain numbers;
the browser draws the view from them, and matplotlib the picture that leaves the page.
"""

import base64
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bert.checkpoint import untrained
from bert.predict import EmotionClassifier, Inspection

LONGEST = 5_000    # characters of a visitor's text; the model reads far fewer
KEPT_TEXTS = 2     # texts whose tensors are kept: about 30 MB each at 128 tokens
SIGNIFICANT = 9    # digits of a number that is sent: enough to tell every float32 apart
BINS = 40          # bars of a histogram


class Lab:
    """The models, loaded when a study first needs them, and the last texts' tensors."""

    def __init__(self, classifier: EmotionClassifier, pretrained: Path | None = None) -> None:
        self.classifier = classifier
        self._pretrained_folder = pretrained
        self._lock = threading.Lock()
        self._traces: OrderedDict[str, Inspection] = OrderedDict()

    def trace(self, text: str) -> Inspection:
        """Every tensor on the way of a text; run once for all studies of the same text."""
        with self._lock:
            if text in self._traces:
                self._traces.move_to_end(text)
                return self._traces[text]
        found = self.classifier.inspect(text)
        with self._lock:
            self._traces[text] = found
            while len(self._traces) > KEPT_TEXTS:
                self._traces.popitem(last=False)
        return found

    @property
    def pretrained_folder(self) -> Path:
        return (self._pretrained_folder
                or self.classifier.checkpoint.folder.parent / "pretrained")

    @cached_property
    def pretrained(self) -> EmotionClassifier:
        """The stage before fine-tuning, from the folder beside the checkpoint."""
        if not (self.pretrained_folder / "config.json").is_file():
            raise ValueError("There is no pre-trained stage beside this checkpoint: put one into "
                             f"a folder named {self.pretrained_folder.name!r} next to it.")
        try:
            return EmotionClassifier.load(self.pretrained_folder)
        except (OSError, ValueError):  # their messages name folders of this machine
            raise ValueError("The pre-trained stage beside this checkpoint is incomplete or "
                             "damaged: copy its folder again.") from None

    @cached_property
    def untrained(self) -> EmotionClassifier:
        """The same network before it learned anything: random weights from a fixed seed."""
        checkpoint = self.classifier.checkpoint
        model = untrained(checkpoint.config, type(checkpoint.model), seed=0)
        return EmotionClassifier(replace(checkpoint, model=model.eval()))


# ---------------------------------------------------------------------------------- options


class Options:
    """What a visitor chose in a view. Anything unknown or impossible becomes the default."""

    def __init__(self, given: Any = None) -> None:
        self.given: Mapping[str, Any] = given if isinstance(given, Mapping) else {}

    def number(self, name: str, low: int, high: int, default: int) -> int:
        """A whole number; "3" is as good as 3."""
        value = self.given.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return value if is_number and low <= value <= high else default

    def choice(self, name: str, possible: Sequence[str], default: str) -> str:
        value = self.given.get(name)
        return value if isinstance(value, str) and value in possible else default

    def text(self, name: str, longest: int = LONGEST) -> str:
        """A text of the visitor, or "" when there is none."""
        value = self.given.get(name)
        if not isinstance(value, str):
            return ""
        if len(value) > longest:
            raise ValueError(f"The text has {len(value):,} characters: at most {longest:,} are "
                             "read.")
        return value


# ---------------------------------------------------------------------------------- numbers to send


@dataclass(frozen=True)
class Matrix:
    """Numbers in rows and columns. The browser gets them packed: with every bit of float32, or at
    8 bits a value where it only paints them. A file holds them as they are."""

    values: np.ndarray
    is_painted: bool = False

    def packed(self) -> dict:
        matrix = np.atleast_2d(np.asarray(self.values, dtype=np.float64))
        if not self.is_painted:
            return {"rows": matrix.shape[0], "columns": matrix.shape[1],
                    "packed": _packed(matrix.astype("<f4"))}
        limit = float(np.abs(matrix).max()) or 1.0  # −limit … limit becomes 1 … 255, zero 128
        return {"rows": matrix.shape[0], "columns": matrix.shape[1], "limit": limit,
                "packed": _packed(np.rint(128 + 127 * (matrix / limit)).astype(np.uint8))}


def _packed(matrix: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(matrix.tobytes(), 1)).decode("ascii")


def unpacked(packed: Mapping[str, Any]) -> np.ndarray:
    """What the browser got of a matrix: to within limit / 254 where it only paints it."""
    bytes_ = zlib.decompress(base64.b64decode(packed["packed"]))
    shape = packed["rows"], packed["columns"]
    if "limit" not in packed:
        return np.frombuffer(bytes_, dtype="<f4").reshape(shape)
    values = np.frombuffer(bytes_, dtype=np.uint8).astype(np.float64)
    return (values.reshape(shape) - 128) / 127 * packed["limit"]


def plain(value: Any, in_full: bool = False) -> Any:
    """Arrays, matrices, containers and numpy numbers as JSON knows them; `in_full`: with all
    numbers of every matrix."""
    if isinstance(value, Matrix):
        return plain(value.values if in_full else value.packed(), in_full)
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), in_full)
    if isinstance(value, Mapping):
        return {key: plain(item, in_full) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, in_full) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return float(f"{value:.{SIGNIFICANT}g}") if isinstance(value, float) else value


def summary(values: np.ndarray) -> dict:
    """Mean, spread, ends and histogram of a tensor's real numbers."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    counts, edges = np.histogram(numbers, bins=BINS)
    return {"mean": numbers.mean(), "spread": numbers.std(), "low": numbers.min(),
            "high": numbers.max(), "counts": counts, "from": edges[0], "to": edges[-1]}


# ---------------------------------------------------------------------------------- studies


@dataclass(frozen=True)
class Study:
    """One view of the microscope: `run` computes, `draw` makes a figure of what it computed,
    `table` rows for a spreadsheet; the name is the address's view=NAME."""

    name: str
    run: Callable[[Lab, str, Options], dict]
    draw: Callable[[Mapping[str, Any], str], Any]
    table: Callable[[Mapping[str, Any]], list[list[Any]]]  # rows, the first one the heading

    def answer(self, lab: Lab, text: str, options: Options, in_full: bool = False) -> dict:
        """What the browser gets; `in_full`: what a file of its numbers holds."""
        return plain(self.run(lab, text, options), in_full)
