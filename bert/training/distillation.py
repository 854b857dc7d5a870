"""What larger models make of a sentence: vectors that a student learns beside its other tasks.

A teacher is a BertModel folder whose mean token vector is a sentence vector, such as
all-MiniLM-L6-v2, or a classifier, whose vector is the one its answer is read from. A Korean line
has the vector of its English translation. No weight of a teacher is copied.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.checkpoint import Checkpoint
from bert.errors import UserError
from bert.folders import replace_folder
from bert.model import BertOutput
from bert.training.corpus import text_mark
from bert.training.loop import Sums, has_bfloat16

Teacher = Callable[[Sequence[str]], np.ndarray]  # texts -> (N, W), rows of length one
AT_ONCE = 20_000  # texts read between two saves
CONTRAST = 20.0   # how sharply vectors are told apart


def mean_vector(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real tokens: (B, T, E) -> (B, E)."""
    if mask is None:
        return hidden.mean(dim=1)
    share = mask.to(hidden)[..., None]
    return (hidden * share).sum(dim=1) / share.sum(dim=1)


@torch.inference_mode()
def bert_vectors(teacher: Checkpoint, texts: Sequence[str], longest: int = 64) -> np.ndarray:
    """Unit sentence vectors of a BERT, (N, E) as float16."""
    longest = min(longest, teacher.config.max_position_embeddings)
    bert = getattr(teacher.model, "bert", teacher.model)
    result = np.zeros((len(texts), teacher.config.hidden_size), dtype=np.float16)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), 128):
        chosen = order[begin:begin + 128]
        batch = teacher.tokenizer.pad(teacher.tokenizer.encode_many(
            [texts[i] for i in chosen], max_length=longest))
        mask = torch.from_numpy(batch.attention_mask)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bfloat16()):
            output = bert(torch.from_numpy(batch.ids), None, mask, need_weights=False)
        vectors = output.pooled if teacher.has_classifier else mean_vector(output.hidden, mask)
        result[chosen] = F.normalize(vectors.float(), dim=-1).numpy()
    return result


@dataclass(frozen=True)
class SentenceVectors:
    """Vectors of texts, known by their marks."""

    marks: np.ndarray  # (N,) uint64, sorted
    rows: np.ndarray   # (N, W) float16

    def of(self, marks: np.ndarray) -> np.ndarray:
        """(B,) marks -> (B, W) float32; zeros for a text that no teacher has read."""
        place = np.searchsorted(self.marks, marks).clip(max=len(self.marks) - 1)
        is_known = self.marks[place] == marks
        return np.where(is_known[:, None], self.rows[place], 0.0).astype(np.float32)

    @property
    def width(self) -> int:
        return self.rows.shape[1]

    @classmethod
    def open(cls, folder: Path) -> Self:
        if not (folder / "rows.npy").is_file():
            raise UserError(f"{folder} has no vectors: make them with `python -m bert distill`")
        return cls(np.load(folder / "marks.npy"), np.load(folder / "rows.npy"))


def read_sentences(folder: Path, name: str, teacher: Teacher,
                   meanings: Mapping[str, str]) -> SentenceVectors:
    """The teacher's vector of each text, read from what it means (`meanings`: text -> the text that
    the teacher reads). What was read before comes from the folder."""
    described, known = folder / "vectors.json", {}
    if described.is_file() and json.loads(described.read_text(encoding="utf-8"))["teacher"] == name:
        kept = SentenceVectors.open(folder)
        known = dict(zip(kept.marks.tolist(), kept.rows, strict=True))
    marks = {text_mark(text): meaning for text, meaning in meanings.items()}
    new = [mark for mark in marks if mark not in known]

    def keep() -> None:
        order = sorted(known)

        def write(fresh: Path) -> None:
            np.save(fresh / "marks.npy", np.array(order, dtype=np.uint64))
            np.save(fresh / "rows.npy", np.stack([known[mark] for mark in order]))
            (fresh / "vectors.json").write_text(json.dumps({"teacher": name}), encoding="utf-8")
        replace_folder(folder, write, marker="vectors.json")

    for begin in range(0, len(new), AT_ONCE):
        part = new[begin:begin + AT_ONCE]
        texts = sorted({marks[mark] for mark in part})
        row_of = dict(zip(texts, teacher(texts), strict=True))
        known.update((mark, row_of[marks[mark]]) for mark in part)
        keep()
        print(f"{name}: {begin + len(part):,} of {len(new):,} sentences", flush=True)
    return SentenceVectors.open(folder)


class VectorHeads(nn.Module):
    """Answers with a sentence vector, once from [CLS] and once from the mean of all tokens. They
    learn with the model and are thrown away."""

    def __init__(self, hidden_size: int, width: int) -> None:
        super().__init__()
        self.from_pooled = nn.Linear(hidden_size, width)
        self.from_mean = nn.Linear(hidden_size, width)

    def losses(self, output: BertOutput, mask: Tensor | None, vectors: Tensor) -> Sums:
        """One minus the cosine to the teacher's vector, for both ways of reading the student; and
        lines that mean different things are told apart (in-batch contrast)."""
        has_vector = vectors.any(dim=-1)
        rows = int(has_vector.sum())
        target = vectors[has_vector]                                                 # (R, W)
        pooled = self.from_pooled(output.pooled)[has_vector].float()
        mean = self.from_mean(mean_vector(output.hidden, mask))[has_vector].float()
        similarity = F.normalize(pooled, dim=-1) @ target.T * CONTRAST               # (R, R)
        truth = (target @ target.T * CONTRAST).softmax(dim=-1)
        return {
            "pooled_loss": ((1 - F.cosine_similarity(pooled, target)).sum(), rows),
            "mean_loss": ((1 - F.cosine_similarity(mean, target)).sum(), rows),
            "contrast_loss": (0.1 * F.cross_entropy(similarity, truth, reduction="sum"), rows),
        }
