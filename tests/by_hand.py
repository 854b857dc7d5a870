"""BERT written anew in numpy, from the file of weights."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from bert.config import BertConfig

erf = np.vectorize(math.erf)


class ByHand:
    """BERT in numpy, float64, from the file of weights: nothing of ours but their names."""

    def __init__(self, folder: Path, config: BertConfig, ids: list[int]) -> None:
        self.weights = {name: value.astype(np.float64)
                        for name, value in load_file(folder / "model.safetensors").items()}
        self.config = config
        place = "bert.embeddings."
        self.token = self.weights[f"{place}word_embeddings.weight"][ids]              # (T, E)
        self.segment = self.weights[f"{place}token_type_embeddings.weight"][[0] * len(ids)]
        self.position = self.weights[f"{place}position_embeddings.weight"][:len(ids)]
        self.sum = self.token + self.segment + self.position
        self.states = [self.norm(self.sum, f"{place}LayerNorm")]
        self.layers, self.heads = [], []
        for number in range(config.num_hidden_layers):
            self.layers.append(list(self.layer(self.states[-1], f"bert.encoder.layer.{number}.")))
            self.states.append(self.layers[-1][-1][1])
        self.last = self.states[-1]
        if config.norm == "pre":
            self.last = self.norm(self.last, "bert.encoder.final_norm")
        self.read = self.last.mean(axis=0) if config.pooling == "mean" else self.last[0]
        self.pooled = np.tanh(self.linear(self.read, "bert.pooler.dense"))
        self.logits = self.linear(self.pooled, "classifier")
        self.probabilities = np.exp(self.logits) / np.exp(self.logits).sum()

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(axis=-1, keepdims=True)
        std = np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + self.config.layer_norm_eps)
        return (centred / std * self.weights[f"{name}.weight"]
                + self.weights[f"{name}.bias"])

    def attention(self, x: np.ndarray, name: str) -> np.ndarray:
        query, key, value = (
            self.linear(x, f"{name}attention.self.{part}").reshape(
                len(x), self.config.num_attention_heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value"))                                    # (H, T, D)
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1]))
        weights = scores / scores.sum(axis=-1, keepdims=True)                         # (H, T, T)
        context = weights @ value                                                     # (H, T, D)
        self.heads.append((weights, context))
        return self.linear(context.transpose(1, 0, 2).reshape(len(x), -1),
                           f"{name}attention.output.dense")

    def feed(self, x: np.ndarray, name: str) -> np.ndarray:
        inner = self.linear(x, f"{name}intermediate.dense")
        return self.linear(inner * (1 + erf(inner / math.sqrt(2))) / 2, f"{name}output.dense")

    def layer(self, x: np.ndarray, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """The eight steps, in the order of the norm."""
        is_pre = self.config.norm == "pre"
        for kind, compute, norm in (
                ("attention", self.attention, f"{name}attention.output.LayerNorm"),
                ("feed", self.feed, f"{name}output.LayerNorm")):
            if is_pre:
                yield "norm", self.norm(x, norm)
            made = compute(self.norm(x, norm) if is_pre else x, name)
            yield kind, made
            yield "dropout", made
            x = x + made
            yield "residual", x
            if not is_pre:
                x = self.norm(x, norm)
                yield "norm", x


def close(expected):
    """Equal up to what float32 and the order of sums allow."""
    return pytest.approx(np.asarray(expected), rel=2e-4, abs=2e-5)
