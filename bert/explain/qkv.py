"""One head's arithmetic: how an attention weight comes out of queries and keys."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bert.classifier import ActivationCache

MATRICES = ("query", "key", "value", "scores", "attention", "context")


@dataclass(frozen=True)
class WeightSteps:
    """The weight of one cell, step by step."""

    products: np.ndarray  # (D,) query × key, dimension by dimension
    total: float          # their sum
    score: float          # … divided by √D
    highest: float        # the highest score of the row
    power: float          # exp(score − highest)
    powers: float         # the sum of the row's powers
    weight: float         # power / powers


def head_matrices(cache: ActivationCache, layer: int, head: int) -> dict[str, np.ndarray]:
    """The six matrices of one head, (T, D) or (T, T), by their names; counted from 1."""
    return {name: cache.value(name, layer)[0, head - 1] for name in MATRICES}


def weight_steps(matrices: Mapping[str, np.ndarray], query: int, key: int) -> WeightSteps:
    """How the weight of a cell comes out of its query and key."""
    exact = {name: matrices[name].astype(np.float64) for name in ("query", "key", "scores")}
    products = exact["query"][query] * exact["key"][key]                             # (D,)
    row = exact["scores"][query]                                                     # (T,)
    powers = np.exp(row - row.max())
    return WeightSteps(products, products.sum(), products.sum() / np.sqrt(len(products)),
                       row.max(), powers[key], powers.sum(), powers[key] / powers.sum())
