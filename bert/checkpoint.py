"""One folder ⇄ model + tokenizer + config.

A folder holds config.json, model.safetensors and tokenizer.json in the names of Hugging Face BERT,
so that `transformers` reads ours and we read theirs. Pickle files are never loaded.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from bert.config import BertConfig
from bert.errors import UserError
from bert.folders import replace_folder
from bert.hub import fetch, is_hub_id
from bert.model import (
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    initialise,
)
from bert.tokenizer import WordPieceTokenizer

Model = BertModel | BertForPreTraining | BertForSequenceClassification
Module = TypeVar("Module", bound=nn.Module)
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
VOCABULARY, CARD = "vocab.txt", "README.md"
# Bytes; a million pieces need 50 MB.
LARGEST = {CONFIG: 10_000_000, TOKENIZER: 200_000_000, VOCABULARY: 50_000_000}

# Our name of a module, and the name it has in every Hugging Face BERT.
HUGGING_FACE_NAMES = (
    ("attention.output.", "attention.output.dense."),
    ("attention_norm.", "attention.output.LayerNorm."),
    ("feed_forward.intermediate.", "intermediate.dense."),
    ("feed_forward.output.", "output.dense."),
    ("output_norm.", "output.LayerNorm."),
    ("mlm.dense.", "cls.predictions.transform.dense."),
    ("mlm.LayerNorm.", "cls.predictions.transform.LayerNorm."),
    ("mlm.bias", "cls.predictions.bias"),
    ("nsp.", "cls.seq_relationship."),
)
FUSED = ".attention.qkv."
PARTS = tuple(f".attention.self.{part}." for part in ("query", "key", "value"))
# Written by some versions of transformers: buffers, and second copies of tied weights.
NOT_NEEDED = re.compile(r"(bert\.)?embeddings\.(position_ids|token_type_ids)"
                        r"|cls\.predictions\.decoder\.(weight|bias)")
OPTIONAL_HEADS = ("pooler", "nsp")  # BertForMaskedLM has neither
UNNAMED = ("LABEL_0", "LABEL_1")  # two classes without names: transformers leaves them out


@dataclass(frozen=True)
class Checkpoint:
    folder: Path
    config: BertConfig
    tokenizer: WordPieceTokenizer
    model: Model
    missing: tuple[str, ...]  # heads that the folder does not have; their weights are zero here
    hub_id: str | None = None
    is_taught: bool = False   # a copy that has learned corrections since it was loaded

    @property
    def name(self) -> str:
        """What people call it: its name on the Hub, or that of its folder."""
        return (self.hub_id or self.folder.resolve().name) + " (taught)" * self.is_taught

    @property
    def has_classifier(self) -> bool:
        return isinstance(self.model, BertForSequenceClassification)

    @property
    def has_mlm(self) -> bool:
        return isinstance(self.model, BertForPreTraining)

    @property
    def has_nsp(self) -> bool:
        return self.has_mlm and "nsp" not in self.missing

    def digest(self) -> str:
        """The first twelve digits of the weights' SHA-256: which model was this?"""
        with (self.folder / WEIGHTS).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]


# ---------------------------------------------------------------------------------- names


def hugging_face_names(name: str) -> tuple[str, ...]:
    """The name(s) on disk of one of our parameters; a fused qkv is three.

    >>> hugging_face_names("bert.encoder.layer.0.attention_norm.bias")
    ('bert.encoder.layer.0.attention.output.LayerNorm.bias',)
    """
    if FUSED in name:
        return tuple(name.replace(FUSED, part) for part in PARTS)
    for ours, theirs in HUGGING_FACE_NAMES:
        if ours in name:
            return (name.replace(ours, theirs),)
    return (name,)


def to_hugging_face(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename parameters (or their gradients) to the names on disk."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        names = hugging_face_names(name)
        renamed.update(zip(names, tensor.chunk(len(names)), strict=True))
    return renamed


# ---------------------------------------------------------------------------------- loading


def checkpoint_folder(source: Path | str) -> Path:
    """A folder as it is, or where a model of the Hub is kept. What is no BERT is refused before its
    weights are fetched, and a pickle never is."""
    if Path(source).is_dir() or not is_hub_id(source):
        return Path(source)
    name = Path(source).as_posix()
    folder = fetch(name, (CONFIG, TOKENIZER, VOCABULARY, "tokenizer_config.json"))
    if not (folder / CONFIG).is_file():
        raise UserError(f"{name} has no {CONFIG}: it is not a model of transformers")
    try:
        BertConfig.read(folder / CONFIG)
    except UserError as error:  # of a path in the cache only the file's name says something
        raise UserError(str(error).replace(str(folder), name)) from None
    folder = fetch(name, [WEIGHTS])
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{name}: no {WEIGHTS} was found, and pickle files (pytorch_model.bin) are "
                        "never loaded: choose a model that was saved as safetensors")
    return folder


def load_checkpoint(source: Path | str) -> Checkpoint:
    """Read a checkpoint, ours or one of transformers, into float32 on the CPU: a folder, or the
    name of a model on the Hub."""
    folder = checkpoint_folder(source)
    hub_id = None if folder == Path(source) else Path(source).as_posix()
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: expected a checkpoint with {CONFIG}, "
                        f"{WEIGHTS} and {TOKENIZER}")
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            pickles = sorted(path.name for path in folder.glob("*.bin"))
            hint = (f" ({pickles[0]} is a pickle file, which is never loaded: save the model again "
                    "as safetensors)" if pickles and name == WEIGHTS else "")
            raise UserError(f"{folder / name} is missing: a checkpoint needs it{hint}")
    for name, largest in LARGEST.items():
        if (folder / name).is_file() and (folder / name).stat().st_size > largest:
            raise UserError(f"{folder / name} has more than {largest:,} bytes: copy it again")
    config = BertConfig.read(folder / CONFIG)
    pieces = folder / TOKENIZER
    if not pieces.is_file() and (folder / VOCABULARY).is_file():  # as BERTs were saved until 2020
        pieces = folder / VOCABULARY
    tokenizer = WordPieceTokenizer.load(pieces)
    if len(tokenizer) > config.vocab_size:
        raise UserError(f"{pieces} has {len(tokenizer):,} tokens but {CONFIG} says "
                        f"{config.vocab_size:,}: the folder mixes two runs; copy it again")
    model, missing = _load_model(folder / WEIGHTS, config)
    return Checkpoint(folder, model.config, tokenizer, model.eval(), missing, hub_id)


def _load_model(path: Path, config: BertConfig) -> tuple[Model, tuple[str, ...]]:
    try:
        with safe_open(path, framework="pt") as file:
            on_disk = {_modern_name(name): name for name in file.keys()}
            model_class = _matching_class(on_disk)
            if model_class is BertForSequenceClassification and not config.id2label:
                config = _unnamed_classes(path, file, config)
            with torch.device("meta"):
                model = model_class(config)
            bare = model_class is BertModel
            optional = () if model_class is BertForSequenceClassification else OPTIONAL_HEADS
            state, missing, used = {}, set(), set()
            for name, expected in model.state_dict().items():
                head = name.removeprefix("bert.").partition(".")[0]
                parts = [] if bare else list(hugging_face_names(name))
                if bare:
                    parts = [part.removeprefix("bert.")
                             for part in hugging_face_names("bert." + name)]
                if head in optional and not any(part in on_disk for part in parts):
                    state[name] = torch.zeros(expected.shape)
                    missing.add(head)
                    continue
                state[name] = torch.cat([
                    _read(path, file, on_disk, part, (expected.shape[0] // len(parts),
                                                      *expected.shape[1:])) for part in parts])
                used.update(parts)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as safetensors ({error}): copy it again") from None
    unknown = sorted(name for name in set(on_disk) - used if not NOT_NEEDED.fullmatch(name))
    if unknown:
        raise UserError(f"{path} holds {unknown[0]} ({len(unknown)} such), which {CONFIG} does "
                        "not describe: the folder mixes two runs")
    model.load_state_dict(state, assign=True)
    return model.requires_grad_(True), tuple(sorted(missing))


def _modern_name(name: str) -> str:
    """Early BERT checkpoints called LayerNorm's weight gamma and its bias beta."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace(
        "LayerNorm.beta", "LayerNorm.bias")


def _matching_class(on_disk: Mapping[str, str]) -> type[Model]:
    if "classifier.weight" in on_disk:
        return BertForSequenceClassification
    if any(name.startswith("cls.predictions.") for name in on_disk):
        return BertForPreTraining
    return BertModel


def _unnamed_classes(path: Path, file: safe_open, config: BertConfig) -> BertConfig:
    found = tuple(file.get_slice("classifier.weight").get_shape())
    if found != (len(UNNAMED), config.hidden_size):
        raise UserError(f"{path}: classifier.weight is {found}, but {path.parent / CONFIG} names "
                        "no classes: add id2label")
    return replace(config, id2label=UNNAMED)


def _read(path: Path, file: safe_open, on_disk: Mapping[str, str], name: str,
          shape: tuple[int, ...]) -> Tensor:
    if name not in on_disk:
        raise UserError(f"{path} has no {name}, which {path.parent / CONFIG} asks for: the folder "
                        "mixes two runs")
    found = tuple(file.get_slice(on_disk[name]).get_shape())
    if found != shape:
        raise UserError(f"{path}: {name} is {found}, but {CONFIG} asks for {shape}: the folder "
                        "mixes two runs")
    tensor = file.get_tensor(on_disk[name])
    if not (tensor.is_floating_point() and (numbers := tensor.float()).isfinite().all()):
        raise UserError(f"{path}: {name} holds {_description(tensor)}; expected finite floating-"
                        "point numbers: take an earlier copy")
    return numbers


def _description(tensor: Tensor) -> str:
    return "NaN or infinity" if tensor.is_floating_point() else str(tensor.dtype)


def untrained(config: BertConfig, model_class: Callable[[BertConfig], Module],
              seed: int = 0) -> Module:
    """The model before it has seen anything: random weights from a seed."""
    with torch.device("meta"):
        model = model_class(config)
    model = model.to_empty(device="cpu")
    initialise(model, config, torch.Generator().manual_seed(seed))
    return model.eval()


# ---------------------------------------------------------------------------------- saving


def save_checkpoint(folder: Path | str, model: Model, tokenizer: WordPieceTokenizer,
                    half: bool = False, files: Mapping[str, str] | None = None) -> None:
    """Write a checkpoint folder in one move: a reader sees the old folder or the new one.

    `half` stores 16-bit weights (half the size); `files` are texts that go along. A model card that
    is there stays.
    """
    described = {"architectures": [type(model).__name__], **model.config.to_dict()}
    weights = to_hugging_face(model.state_dict())
    weights = {name: (tensor.half() if half else tensor).contiguous().clone()
               for name, tensor in weights.items()}

    def write(fresh: Path) -> None:
        save_file(weights, fresh / WEIGHTS, metadata={"format": "pt"})
        (fresh / WEIGHTS).chmod(0o644)  # safetensors lets only the owner read
        (fresh / CONFIG).write_text(json.dumps(described, indent=2, ensure_ascii=False) + "\n",
                                    encoding="utf-8")
        tokenizer.save(fresh, model.config.max_position_embeddings)
        if (Path(folder) / CARD).is_file():  # somebody wrote it by hand
            shutil.copyfile(Path(folder) / CARD, fresh / CARD)
        for name, text in (files or {}).items():
            (fresh / name).write_text(text, encoding="utf-8")

    replace_folder(Path(folder), write, marker=TOKENIZER)
