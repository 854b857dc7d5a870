"""What the studies share: the models, the last texts' activations, options, the wire format.

A study is one view behind the main page. From a text and a few options it computes plain numbers;
the browser draws the view from them, and matplotlib the picture that leaves the page.
"""

import base64
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Self,
    TypedDict,
    cast,
)

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from bert.checkpoint import Model, untrained
from bert.classifier import ActivationCache, EmotionClassifier
from bert.config import BertConfig
from bert.drawing.texts import Language
from bert.emotions import EMOTIONS, class_colour
from bert.errors import UserError
from bert.explain.heads import load_heads
from bert.explain.tuned_lens import TunedLens

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

LONGEST = 5_000    # characters of a visitor's text; the model reads far fewer
KEPT_TEXTS = 2     # texts whose activations are kept: about 30 MB each at 128 tokens
SIGNIFICANT = 9    # digits of a number that is sent: enough to tell every float32 apart


class ClassItem(TypedDict):
    """One class as the page shows it."""

    key: str
    ko: str
    en: str
    colour: str


def class_list(keys: Sequence[str]) -> list[ClassItem]:
    """Key, both names and colour of each class; classes that are not ours keep their key."""
    ours = {emotion.key: emotion for emotion in EMOTIONS}
    return [{"key": key, "ko": ours[key].korean if key in ours else key,
             "en": ours[key].english if key in ours else key, "colour": class_colour(key, i)}
            for i, key in enumerate(keys)]


# ---------------------------------------------------------------------------------- models


class StudyContext:
    """The models, loaded when a study first needs them, and the last texts' activations."""

    def __init__(self, classifier: EmotionClassifier, pretrained: Path | None = None) -> None:
        self.classifier = classifier
        self._pretrained_folder = pretrained
        self._lock = threading.Lock()
        self._caches: OrderedDict[str, ActivationCache] = OrderedDict()

    @property
    def config(self) -> BertConfig:
        return self.classifier.config

    @property
    def classes(self) -> list[ClassItem]:
        """The classes; none when the checkpoint has no classifier."""
        has_classifier = self.classifier.checkpoint.has_classifier
        return class_list(self.classifier.keys if has_classifier else ())

    def cache(self, text: str) -> ActivationCache:
        """Every tensor of a text's forward pass; run once for all studies of the same text."""
        with self._lock:
            if text in self._caches:
                self._caches.move_to_end(text)
                return self._caches[text]
        found = self.classifier.run_with_cache(text)
        with self._lock:
            self._caches[text] = found
            while len(self._caches) > KEPT_TEXTS:
                self._caches.popitem(last=False)
        return found

    def probabilities(self, cache: ActivationCache) -> np.ndarray:
        """The answer of a forward pass, (C,); nothing when the checkpoint has no classifier."""
        has_classifier = self.classifier.checkpoint.has_classifier
        return cache.value("probabilities")[0] if has_classifier else np.zeros(0)

    @cached_property
    def head_survey(self) -> dict[str, Any] | None:
        """What the heads do in general, from the file beside the weights; none without a file that
        was made for these weights."""
        try:
            return load_heads(self.classifier)
        except UserError:
            return None

    @cached_property
    def tuned_lens(self) -> TunedLens | None:
        """The tuned lens beside the weights; none without a file that was made for them."""
        try:
            return TunedLens.load(self.classifier)
        except UserError:
            return None

    @property
    def pretrained_folder(self) -> Path:
        return (self._pretrained_folder
                or self.classifier.checkpoint.folder.parent / "pretrained")

    @cached_property
    def pretrained(self) -> EmotionClassifier:
        """The stage before fine-tuning: the checkpoint itself if it can guess masked words, else
        from the folder beside it."""
        if self._pretrained_folder is None and self.classifier.checkpoint.has_mlm:
            return self.classifier
        if not (self.pretrained_folder / "config.json").is_file():
            raise UserError("There is no pre-trained stage beside this checkpoint: put one into "
                            f"a folder named {self.pretrained_folder.name!r} next to it.")
        try:
            return EmotionClassifier.load(self.pretrained_folder)
        except UserError:  # its message names folders of this machine
            raise UserError("The pre-trained stage beside this checkpoint is incomplete or "
                            "damaged: copy its folder again.") from None

    @cached_property
    def untrained(self) -> EmotionClassifier:
        """The same network before it learned anything: random weights from a fixed seed."""
        checkpoint = self.classifier.checkpoint
        model = untrained(checkpoint.config, type(checkpoint.model), seed=0)
        return EmotionClassifier(replace(checkpoint, model=cast(Model, model)))


# ---------------------------------------------------------------------------------- options


def _plain_number(value: Any) -> Any:
    """3.0 and "3" are as good as 3; True, " 3" and "३" are none."""
    is_digits = isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value)
    if isinstance(value, bool) or (isinstance(value, str) and not is_digits):
        raise ValueError("not a whole number")
    return value


def _visitors_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")
    if len(value) > LONGEST:
        raise UserError(f"The text has {len(value):,} characters: at most {LONGEST:,} are read.")
    return value


Number = Annotated[int, BeforeValidator(_plain_number)]
Text = Annotated[str, PlainValidator(_visitors_text)]  # any str, half characters as well


class StudyOptions(BaseModel):
    """What a visitor chose in a view. Anything unknown or impossible becomes the default; only a
    text that is too long is refused."""

    model_config = ConfigDict(frozen=True)
    local: ClassVar[tuple[str, ...]] = ()     # the numbers do not depend on them: nobody is asked
    unlisted: ClassVar[tuple[str, ...]] = ()  # not part of the page's address

    @classmethod
    def read(cls, given: Any) -> Self:
        """The options of a request, whatever it sends."""
        try:
            return cls.model_validate(given if isinstance(given, Mapping) else {})
        except ValidationError as refused:
            raise refused.errors()[0]["ctx"]["error"] from None

    @field_validator("*", mode="wrap")
    @classmethod
    def _or_default(cls, value: Any, check: ValidatorFunctionWrapHandler,
                    info: ValidationInfo) -> Any:
        try:
            return check(value)
        except ValidationError as error:
            if any(isinstance(found.get("ctx", {}).get("error"), UserError)
                   for found in error.errors()):
                raise
            return cls.model_fields[str(info.field_name)].default


class HeadOptions(StudyOptions):
    """The options of a view that looks at one head."""

    layer: Number | None = None
    head: Number | None = None

    def chosen(self, config: BertConfig) -> tuple[int, int]:
        """Layer and head from 1; what this model does not have becomes the last and the first."""
        return (within(self.layer, 1, config.num_hidden_layers, config.num_hidden_layers),
                within(self.head, 1, config.num_attention_heads, 1))


def within(value: int | None, low: int, high: int, default: int) -> int:
    """A number that this model or text has, or the default."""
    return value if value is not None and low <= value <= high else default


# ---------------------------------------------------------------------------------- wire format

Numbers = Any  # an array in a study; nested lists of numbers where it was sent


class PackedMatrix(TypedDict):
    """A matrix on its way to the browser (assets/page/common/matrix.js): deflated, in base64.

    With a limit there are 8 bits a value: (byte − zero) / (255 − zero) · limit. Without one there
    are the four bytes of each float32.
    """

    shape: list[int]
    packed: str
    limit: NotRequired[float]
    zero: NotRequired[int]


@dataclass(frozen=True)
class Matrix:
    """Numbers in rows and columns. The browser gets every bit of float32 ("exact"), or 8 bits a
    value where it only paints them: "weights" of 0 to 1, or "signed". A file holds all of them."""

    values: np.ndarray
    kind: Literal["exact", "weights", "signed"] = "exact"

    def pack(self) -> PackedMatrix:
        shape = list(self.values.shape)
        if self.kind == "exact":
            return {"shape": shape, "packed": _deflated(self.values.astype("<f4"))}
        is_signed = self.kind == "signed"
        limit = (float(np.abs(self.values).max()) or 1.0) if is_signed else 1.0
        zero = 128 if is_signed else 0
        levels = np.asarray(self.values * ((255 - zero) / limit))  # at once: there are many
        levels += zero
        np.rint(levels, out=levels)
        np.clip(levels, 1 if is_signed else 0, 255, out=levels)
        return {"shape": shape, "limit": limit, "zero": zero,
                "packed": _deflated(levels.astype(np.uint8))}


def _deflated(matrix: np.ndarray) -> str:
    # Such numbers repeat only in runs: to look for nothing else is faster and saves a seventh.
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    return base64.b64encode(deflate.compress(matrix.tobytes()) + deflate.flush()).decode("ascii")


def unpack(matrix: Any) -> np.ndarray:
    """The numbers of a matrix as it was sent: packed, or in full."""
    if not isinstance(matrix, Mapping):
        return np.array(matrix)
    stored = zlib.decompress(base64.b64decode(matrix["packed"]))
    if "limit" not in matrix:
        return np.frombuffer(stored, dtype="<f4").reshape(matrix["shape"])
    values = np.frombuffer(stored, dtype=np.uint8).astype(np.float64).reshape(matrix["shape"])
    return (values - matrix["zero"]) / (255 - matrix["zero"]) * matrix["limit"]


def plain(value: Any, in_full: bool = False) -> Any:
    """Arrays, matrices, containers and numpy numbers as JSON knows them; `in_full`: with all
    numbers of every matrix."""
    if isinstance(value, Matrix):
        return plain(value.values if in_full else value.pack(), in_full)
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), in_full)
    if isinstance(value, Mapping):
        return {key: plain(item, in_full) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, in_full) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return float(f"{value:.{SIGNIFICANT}g}") if isinstance(value, float) else value


# ---------------------------------------------------------------------------------- studies


@dataclass(frozen=True)
class Study:
    """One view of the microscope. The name is that of its module, its address (view=NAME), its
    script (assets/page/studies) and its texts (assets/page/texts)."""

    name: str
    options: type[StudyOptions]
    run: Callable[[StudyContext, str, Any], Mapping[str, Any]]
    draw: Callable[[Any, Language], "Figure"]    # of what `answer` gave, in a language
    table: Callable[[Any], list[list[Any]]]      # rows, the first one the heading

    def answer(self, context: StudyContext, text: str, given: Any = None,
               in_full: bool = False) -> dict[str, Any]:
        """What the browser gets; `in_full`: what a file of its numbers holds."""
        return plain(self.run(context, text, self.options.read(given)), in_full)

    def description(self) -> dict[str, list[str]]:
        """What the page must know before the study's script is loaded: its options in the address,
        those that are local, and whether layer and head matter to it."""
        names = [name for name in self.options.model_fields if name not in self.options.unlisted]
        return {"options": [name for name in names if name not in ("layer", "head")],
                "uses": [name for name in names if name in ("layer", "head")],
                "local": list(self.options.local)}
