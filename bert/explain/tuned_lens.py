"""The tuned lens: every layer translated into the last one's language before it is read.

Belrose et al. 2023, https://arxiv.org/abs/2303.08112. Pooler and classifier were trained on the
last layer only; the plain lens reads the others with them as they are. The tuned lens first applies
one affine map a layer. Belrose et al. learn the maps by gradient on the KL divergence; here they
are the ridge regression of what the pooler reads after the last layer ([CLS], or the mean of all
tokens) on what it would read after this one, which needs one pass over the lines and no settings
but the ridge.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.errors import UserError

FILE = "tuned_lens.safetensors"
RIDGE = 1e-2      # of the mean variance of a layer's dimensions
HELD_OUT = 10     # every tenth line judges the fit
FEWEST_LINES = 2 * HELD_OUT


@dataclass(frozen=True)
class TunedLens:
    """One affine map for the embeddings and each layer but the last."""

    weight: np.ndarray    # (L, E, E) float32
    bias: np.ndarray      # (L, E)
    digest: str           # of the model it was made for

    def read(self, classifier: EmotionClassifier, hidden_states: np.ndarray) -> np.ndarray:
        """The class probabilities after each layer: (L + 1, T, E) -> (L + 1, C); the last row is
        the answer itself."""
        return self.read_pooled(classifier, pooled(classifier, hidden_states)[:, None])[:, 0]

    def read_pooled(self, classifier: EmotionClassifier, states: np.ndarray) -> np.ndarray:
        """The same from what the pooler reads: (L + 1, N, E) -> (L + 1, N, C)."""
        mapped = states[:-1] @ self.weight.transpose(0, 2, 1) + self.bias[:, None]
        return probabilities(classifier, np.concatenate([mapped, states[-1:]]))

    def save(self, folder: Path) -> None:
        """Write the lens beside the checkpoint that it was made for, at 16 bits a number."""
        fresh = folder / f".{FILE}.new"
        save_file({"weight": torch.from_numpy(self.weight).half().contiguous(),
                   "bias": torch.from_numpy(self.bias)}, fresh, metadata={"digest": self.digest})
        fresh.chmod(0o644)
        fresh.replace(folder / FILE)

    @classmethod
    def load(cls, classifier: EmotionClassifier) -> Self | None:
        """The lens in a checkpoint's folder; none if there is no file."""
        path = classifier.checkpoint.folder / FILE
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                digest = (file.metadata() or {}).get("digest")
                weight, bias = (file.get_tensor(name).float().numpy()
                                for name in ("weight", "bias"))
        except (SafetensorError, OSError) as error:
            raise UserError(f"{path} cannot be read as safetensors ({error}): make it again with "
                            "bert evaluate --lens") from None
        layers, width = classifier.config.num_hidden_layers, classifier.config.hidden_size
        if (digest != classifier.checkpoint.digest() or weight.shape != (layers, width, width)
                or bias.shape != (layers, width)):
            raise UserError(f"{path} was made for another model: make it again with bert evaluate "
                            "--lens")
        return cls(weight, bias, digest)


# ---------------------------------------------------------------------------------- reading


@torch.inference_mode()
def pooled(classifier: EmotionClassifier, hidden_states: np.ndarray) -> np.ndarray:
    """What the pooler would read of each layer: (L + 1, T, E) -> (L + 1, E). The LayerNorm that
    ends a pre-norm stack is applied to every layer, as in the plain lens."""
    norm = classifier.bert.encoder.final_norm
    early = norm(torch.from_numpy(np.ascontiguousarray(hidden_states[:-1]))).numpy()
    states = np.concatenate([early, hidden_states[-1:]])
    return states.mean(axis=1) if classifier.config.pooling == "mean" else states[:, 0]


@torch.inference_mode()
def probabilities(classifier: EmotionClassifier, states: np.ndarray) -> np.ndarray:
    """Pooler and classifier on what the pooler reads, (…, E) -> (…, C): by itself the plain
    lens."""
    model = classifier.needs_classifier()
    vectors = torch.from_numpy(np.ascontiguousarray(states, dtype=np.float32))
    return model.classifier(torch.tanh(model.bert.pooler.dense(vectors))).softmax(dim=-1).numpy()


# ---------------------------------------------------------------------------------- fitting


def fit(classifier: EmotionClassifier, texts: Sequence[str]) -> tuple[TunedLens, dict]:
    """The lens of a model, and how well it reads lines that it was not fitted on: the mean
    KL divergence from the answer after each layer, of the plain lens and of the tuned one."""
    classifier.needs_classifier()
    if len(texts) < FEWEST_LINES:
        raise UserError(f"{len(texts)} lines: a lens needs at least {FEWEST_LINES}")
    states = np.stack(list(_states(classifier, texts)), axis=1)                      # (L + 1, N, E)
    is_held = np.arange(len(texts)) % HELD_OUT == 0
    maps = [_ridge(layer[~is_held], states[-1, ~is_held]) for layer in states[:-1]]
    weight, bias = (np.stack(parts).astype(np.float32) for parts in zip(*maps, strict=True))
    lens = TunedLens(weight, bias, classifier.checkpoint.digest())
    held = states[:, is_held]
    return lens, {
        "lines": int((~is_held).sum()), "held_out_lines": int(is_held.sum()), "ridge": RIDGE,
        "plain": divergence(probabilities(classifier, held)),
        "tuned": divergence(lens.read_pooled(classifier, held))}


def _ridge(inputs: np.ndarray, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The affine map that makes outputs out of inputs, both (N, E): weight (E, E), bias (E,)."""
    inputs, outputs = inputs.astype(np.float64), outputs.astype(np.float64)
    centre, other_centre = inputs.mean(axis=0), outputs.mean(axis=0)
    centred = inputs - centre
    covariance = centred.T @ centred / len(inputs)                                   # (E, E)
    strength = RIDGE * max(float(np.trace(covariance)) / len(covariance), 1e-9)
    weight = np.linalg.solve(covariance + strength * np.eye(len(covariance)),
                             centred.T @ (outputs - other_centre) / len(inputs)).T
    return weight, other_centre - weight @ centre


def divergence(shares: np.ndarray) -> list[float]:
    """The mean KL divergence of each layer's answer from the last one's: (L + 1, N, C) -> L + 1."""
    safe = np.maximum(shares.astype(np.float64), 1e-12)
    return (safe[-1] * (np.log(safe[-1]) - np.log(safe))).sum(axis=-1).mean(axis=-1).tolist()


@torch.inference_mode()
def _states(classifier: EmotionClassifier, texts: Iterable[str]) -> Iterator[np.ndarray]:
    """What the pooler reads of each text after each layer: (L + 1, E) a text."""
    for text in texts:
        output: tuple[Tensor, ...] = classifier.bert(
            torch.tensor([classifier.encode(text).ids])).hidden_states
        yield pooled(classifier, torch.cat(output).numpy())
