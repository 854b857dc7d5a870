"""How many heads can go before the answers change (Michel et al. 2019, arXiv 1905.10650, §3.3).

Heads are switched off for good, the least important first: importance is what the margin would lose
without a head, to first order, taken over all texts (see `saliency`). An answer is unchanged while
its class stays the leading one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.ablation import masked_probabilities
from bert.explain.saliency import head_importance
from bert.explain.target import Target

MOST_POINTS = 37       # of the curve: every fourth of 144 heads, and none
UNCHANGED = 0.95       # the share of answers that must stay while heads still "can go"


def pruning_curve(classifier: EmotionClassifier, texts: Mapping[str, Sequence[str]],
                  progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """The share of unchanged answers of each group of texts (a language) after so many heads.

    One order for all: that of the mean importance over every text.
    """
    groups = {name: list(own) for name, own in texts.items() if own}
    if not groups:
        raise UserError("no texts: nothing to look at")
    everything = [text for own in groups.values() for text in own]
    importance = np.zeros(_shape(classifier))                                        # (L, H)
    for number, text in enumerate(everything, 1):
        importance += head_importance(classifier, text, Target.leading(classifier, text))
        if number % 100 == 0 or number == len(everything):
            progress(f"importance: {number} of {len(everything)} texts")
    order = np.argsort(importance, axis=None, kind="stable")                         # (L·H,)
    counts = removal_counts(len(order))
    masks = head_masks(order, counts, importance.shape)                              # (K, L, H)
    languages = {}
    for name, own in groups.items():
        shares = unchanged_shares(classifier, own, masks)                            # (K,)
        languages[name] = {"texts": len(own), "unchanged": shares.round(4).tolist(),
                           "can_go": can_go(counts, shares)}
        progress(f"{name}: {len(own)} texts without {', '.join(map(str, counts))} heads")
    layers, heads = np.unravel_index(order, importance.shape)
    return {"removed": counts, "at_least": UNCHANGED, "languages": languages,
            "order": [[int(layer) + 1, int(head) + 1]
                      for layer, head in zip(layers, heads, strict=True)]}


def removal_counts(total: int) -> list[int]:
    """How many heads are off at each point of the curve: from none to all of them."""
    step = -(-total // (MOST_POINTS - 1))
    return [*range(0, total, step), total]


def head_masks(order: np.ndarray, counts: Sequence[int], shape: tuple[int, ...]) -> torch.Tensor:
    """A mask for each count, without the first heads of the order: (K, L, H) of 1 and 0."""
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    is_on = rank.reshape(shape) >= np.array(counts)[:, None, None]
    return torch.from_numpy(is_on.astype(np.float32))


def unchanged_shares(classifier: EmotionClassifier, texts: Sequence[str],
                     masks: torch.Tensor) -> np.ndarray:
    """The share of texts that keep the class they have under the first mask: (K,)."""
    answers = np.array([masked_probabilities(classifier, text, masks).argmax(axis=1)
                        for text in texts])                                          # (N, K)
    return (answers == answers[:, :1]).mean(axis=0)


def can_go(counts: Sequence[int], shares: np.ndarray) -> int:
    """The most heads that can go, one point after the other, while enough answers stay."""
    falls = np.flatnonzero(shares < UNCHANGED)
    return counts[int(falls[0]) - 1] if len(falls) else counts[-1]


def _shape(classifier: EmotionClassifier) -> tuple[int, int]:
    return classifier.config.num_hidden_layers, classifier.config.num_attention_heads
