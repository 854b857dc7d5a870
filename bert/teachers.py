"""What a larger model makes of a line: the sentence vectors that a student learns from.

A teacher is a BertModel folder whose mean token vector is a sentence vector, such as
all-MiniLM-L6-v2, or a classifier, whose vector is the one its answer is read from. No weight of a
teacher is copied.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.checkpoint import Checkpoint, load_checkpoint, replace_folder
from bert.training import fingerprint


def mean_vector(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real tokens: (B, T, E) -> (B, E)."""
    if mask is None:
        return hidden.mean(dim=1)
    share = mask.to(hidden)[..., None]
    return (hidden * share).sum(dim=1) / share.sum(dim=1)


@torch.inference_mode()
def teacher_vectors(teacher: Checkpoint, texts: Sequence[str], longest: int = 64) -> np.ndarray:
    """Unit sentence vectors, (N, width) as float16."""
    longest = min(longest, teacher.config.max_position_embeddings)
    bert = getattr(teacher.model, "bert", teacher.model)
    result = np.zeros((len(texts), teacher.config.hidden_size), dtype=np.float16)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), 128):
        chosen = order[begin:begin + 128]
        batch = teacher.tokenizer.pad(teacher.tokenizer.encode_many(
            [texts[i] for i in chosen], max_length=longest))
        mask = torch.from_numpy(batch.is_token)
        output = bert(torch.from_numpy(batch.ids), None, mask, lean=True)
        vectors = output.pooled if teacher.has_classifier else mean_vector(output.hidden, mask)
        result[chosen] = F.normalize(vectors, dim=-1).numpy()
        if begin // 128 % 100 == 0:
            print(f"teacher: {begin:,} of {len(texts):,} lines", flush=True)
    return result


def remembered(path: Path, texts: Sequence[str],
               read: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """One row for each text; those of texts that were read before come from the file, which has a
    folder to itself."""
    known: dict[str, np.ndarray] = {}
    if path.is_file():
        with np.load(path) as kept:
            known = dict(zip(kept["lines"].tolist(), kept["rows"], strict=True))
    lines = [fingerprint(text) for text in texts]
    new = [i for i, line in enumerate(lines) if line not in known]
    if new:
        rows = read([texts[i] for i in new])
        known.update(zip((lines[i] for i in new), rows, strict=True))
        replace_folder(path.parent, lambda fresh: np.savez(
            fresh / path.name, lines=list(known), rows=np.stack(list(known.values()))))
    return np.stack([known[line] for line in lines])


def weights_mark(model: nn.Module) -> str:
    """A short name for the weights of a model: other weights have another one."""
    return fingerprint(*(value.cpu().numpy() for value in model.state_dict().values()))


def vectors_side_by_side(teachers: Sequence[Path], texts: Sequence[str], longest: int,
                         cache: Path) -> np.ndarray:
    """What all teachers make of each text, (N, sum of their widths): rows of length one."""
    parts = []
    for number, folder in enumerate(teachers):
        teacher = load_checkpoint(folder)
        file = cache / str(number) / f"{weights_mark(teacher.model)}-{longest}.npz"
        parts.append(remembered(file, texts, partial(teacher_vectors, teacher, longest=longest)))
    return np.concatenate(parts, axis=1) / np.float16(np.sqrt(len(parts)))
