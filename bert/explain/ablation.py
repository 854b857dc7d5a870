"""Ablation: the answer without some heads, and what it owes to each of them."""

from functools import lru_cache

import numpy as np
import torch

from bert.classifier import EmotionClassifier

TOKENS_AT_ONCE = 4_096  # of all copies of a text that run together with different heads off
KEPT_MAPS = 8           # texts whose map of heads is kept: 6 KB each


@torch.inference_mode()
def masked_probabilities(classifier: EmotionClassifier, text: str,
                         head_mask: torch.Tensor) -> np.ndarray:
    """The class probabilities of a text under many masks: (B, L, H) of 1 and 0 -> (B, C)."""
    ids = torch.tensor([classifier.encode(text).ids])                                # (1, T)
    parts = head_mask.split(max(1, TOKENS_AT_ONCE // ids.size(1)))
    model = classifier.needs_classifier()
    return torch.cat([
        model(ids.expand(len(part), -1), need_weights=False, head_mask=part).logits
        for part in parts]).softmax(dim=-1).numpy()


@lru_cache(maxsize=KEPT_MAPS)
def without_each_head(classifier: EmotionClassifier, text: str) -> tuple[np.ndarray, np.ndarray]:
    """The answer with every head on, (C,), and with each one off by itself, (L, H, C)."""
    shape = classifier.config.num_hidden_layers, classifier.config.num_attention_heads
    count = shape[0] * shape[1]
    head_mask = torch.cat([torch.ones(1, count), 1 - torch.eye(count)])             # (1 + L·H, L·H)
    found = masked_probabilities(classifier, text, head_mask.unflatten(1, shape))    # (1 + L·H, C)
    return found[0], found[1:].reshape(*shape, -1)


def strongest(effects: np.ndarray, count: int) -> list[tuple[int, int]]:
    """The heads with the largest effects of (L, H), counted from 1, largest first."""
    order = np.argsort(-np.abs(effects), axis=None, kind="stable")[:count]
    return [(int(place) // effects.shape[1] + 1, int(place) % effects.shape[1] + 1)
            for place in order]


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Spearman's correlation of two maps; 0 where one of them is the same everywhere."""
    ranks = [np.unique(values, return_inverse=True, return_counts=True)
             for values in (one.ravel(), other.ravel())]
    places = [(np.cumsum(counts) - (counts - 1) / 2)[which] for _, which, counts in ranks]
    if any(np.ptp(place) == 0 for place in places):
        return 0.0
    return float(np.corrcoef(places[0], places[1])[0, 1])
