"""What the margin owes to each head: heads ablated one at a time, by zero or by their mean.

A head's output set to zero is something the rest of the network never saw; set to its mean over
many texts it is usual, only without what this text made of it (Zhang & Nanda 2023, arXiv
2309.16042, §2). The means are over all tokens of a fixed set of texts.
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.explain.target import Target

TOKENS_AT_ONCE = 4_096  # of all copies of a text that run together


@torch.inference_mode()
def mean_outputs(classifier: EmotionClassifier, texts: Iterable[str]) -> np.ndarray:
    """The mean of every head's output (before the output projection) over all tokens of all texts:
    (L, H, D)."""
    config = classifier.config
    total = torch.zeros(config.num_hidden_layers, config.num_attention_heads, config.head_size,
                        dtype=torch.float64)
    count = 0
    for text in texts:
        outputs: list[Tensor] = []

        def hook(name: str, value: Tensor, outputs=outputs) -> None:
            if name.endswith(" · context"):
                outputs.append(value[0].sum(dim=1))                                  # (H, D)

        ids = classifier.encode(text).ids
        classifier.model(torch.tensor([ids]), need_weights=False, hook=hook)
        total += torch.stack(outputs)
        count += len(ids)
    if not count:
        raise ValueError("no texts: nothing to take the mean of")
    return (total / count).float().numpy()


@torch.inference_mode()
def ablation_effects(classifier: EmotionClassifier, text: str, target: Target,
                     means: np.ndarray | None = None) -> np.ndarray:
    """The change of the target's margin without each head: (L, H), negative where the head speaks
    for the target. Without `means`, (L, H, D), a head gives zero."""
    classifier.needs_classifier()
    config = classifier.config
    shape = config.num_hidden_layers, config.num_attention_heads
    instead = torch.zeros(*shape, config.head_size) if means is None else torch.from_numpy(means)
    ids = torch.tensor([classifier.encode(text).ids])                                # (1, T)
    heads = [None, *np.ndindex(shape)]                                               # 1 + L·H
    step = max(TOKENS_AT_ONCE // ids.size(1), 1)
    margins = torch.cat([
        _margins(classifier, ids, target, heads[first:first + step], instead)
        for first in range(0, len(heads), step)])
    return (margins[1:] - margins[0]).reshape(shape).numpy()


def _margins(classifier: EmotionClassifier, ids: Tensor, target: Target,
             heads: list[tuple[int, int] | None], instead: Tensor) -> Tensor:
    """The margin without each of some heads (None: with all of them), one row each."""
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for row, place in enumerate(heads):
        if place is not None:
            layer, head = place
            rows.setdefault(f"layer {layer + 1} · context", []).append((row, layer, head))

    def hook(name: str, value: Tensor) -> Tensor | None:
        if name not in rows:
            return None
        value = value.clone()                                                        # (B, H, T, D)
        for row, layer, head in rows[name]:
            value[row, head] = instead[layer, head]
        return value

    logits = classifier.model(ids.expand(len(heads), -1), need_weights=False, hook=hook).logits
    return target.margin(logits)
