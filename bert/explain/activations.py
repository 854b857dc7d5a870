"""Vectors inside the network, from the activation cache of a text, and how alike they are."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypedDict

import numpy as np

from bert.classifier import ActivationCache
from bert.config import BertConfig

BINS = 40  # bars of a histogram


class Summary(TypedDict):
    """A tensor in a few figures and a histogram from `start` to `end`."""

    mean: float
    std: float
    low: float
    high: float
    counts: np.ndarray
    start: float
    end: float


# ---------------------------------------------------------------------------------- layers


def layer_outputs(cache: ActivationCache, config: BertConfig) -> list[np.ndarray]:
    """The embeddings, then what each layer hands on: L + 1 tensors of (1, T, E)."""
    last_step = "feed-forward residual" if config.norm == "pre" else "feed-forward LayerNorm"
    return [cache.value("LayerNorm"),
            *(cache.value(last_step, layer) for layer in range(1, config.num_hidden_layers + 1))]


def hidden_states(cache: ActivationCache, config: BertConfig) -> np.ndarray:
    """The hidden states as the model returns them, (L + 1, T, E): a pre-norm model's last ones are
    normed."""
    states = layer_outputs(cache, config)
    if config.norm == "pre":
        states[-1] = cache.value("final LayerNorm")
    return np.concatenate(states)


def attentions(cache: ActivationCache, config: BertConfig) -> np.ndarray:
    """Every head's matrix: (L, H, T, T)."""
    return np.concatenate([cache.value("attention", layer)
                           for layer in range(1, config.num_hidden_layers + 1)])


def layer_input(cache: ActivationCache, layer: int) -> np.ndarray:
    """What a layer gets: (1, T, E)."""
    names = [step.name for step in cache.steps]
    first = next(i for i, name in enumerate(names) if name.startswith(f"layer {layer} · "))
    return cache.steps[first - 1].value


def layer_steps(cache: ActivationCache, layer: int) -> Iterator[tuple[str, np.ndarray]]:
    """The eight steps of a layer and their (1, T, E) tensors, in the order they were computed.
    Dropout leaves no trace of its own: outside training it hands on what it gets."""
    prefix = f"layer {layer} · "
    for step in cache.steps:
        if not step.name.startswith(prefix):
            continue
        half, _, what = step.name.removeprefix(prefix).rpartition(" ")
        if what == "LayerNorm":
            yield "norm", step.value
        elif what == "residual":
            yield "residual", step.value
        elif what == "output":
            yield {"attention": "attention", "feed-forward": "feed"}[half], step.value
            yield "dropout", step.value


def summary(values: np.ndarray, limits: tuple[float, float] | None = None) -> Summary:
    """Mean, standard deviation, ends and histogram of a tensor; the histogram is between `limits`,
    or between the ends."""
    numbers = np.asarray(values, dtype=np.float64).ravel()
    counts, edges = np.histogram(numbers, BINS, limits)
    return {"mean": numbers.mean(), "std": numbers.std(), "low": numbers.min(),
            "high": numbers.max(), "counts": counts, "start": edges[0], "end": edges[-1]}


# ---------------------------------------------------------------------------------- similarity


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of the angle between vectors, along the last axis."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return (one * other).sum(axis=-1) / np.maximum(lengths, np.finfo(np.float64).tiny)


def layer_cosines(states: np.ndarray) -> np.ndarray:
    """Each token's cosine to itself one layer before: (L + 1, T, E) -> (L, T)."""
    return cosine(states[:-1], states[1:])


def text_vectors(cache: ActivationCache, config: BertConfig) -> dict[str, np.ndarray]:
    """One vector for the text in two ways, each (L + 1, E): [CLS], and the mean of all tokens."""
    states = hidden_states(cache, config)
    return {"cls": states[:, 0], "mean": states.mean(axis=1, dtype=np.float64)}


def similarity(one: Mapping[str, np.ndarray],
               other: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The cosine after every layer, (L + 1,), for [CLS] and for the mean."""
    return {name: cosine(one[name], other[name]) for name in one}


def mean_similarity(texts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The mean similarity among several texts, each with each."""
    pairs = [similarity(one, other) for one, other in combinations(texts, 2)]
    return {name: np.mean([pair[name] for pair in pairs], axis=0) for name in pairs[0]}
