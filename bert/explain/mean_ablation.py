"""What the margin owes to each head: heads ablated one at a time, by zero or by their mean.

A head's output set to zero is something the rest of the network never saw; set to its mean over
many texts it is usual, only without what this text made of it (Zhang & Nanda 2023, arXiv
2309.16042, §2). The means are over all tokens of a fixed set of texts.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.explain.target import Target
from bert.model import Hook

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


def ablation_effects(classifier: EmotionClassifier, text: str, target: Target,
                     means: np.ndarray | None = None) -> np.ndarray:
    """The change of the target's margin without each head: (L, H), negative where the head speaks
    for the target. Without `means`, (L, H, D), a head gives zero."""
    margins = target.margin(without_each(classifier, text, means))                   # (1 + L·H,)
    shape = classifier.config.num_hidden_layers, classifier.config.num_attention_heads
    return (margins[1:] - margins[0]).reshape(shape).numpy()


def without_each(classifier: EmotionClassifier, text: str,
                 means: np.ndarray | None = None) -> Tensor:
    """The logits with all heads on, then without each of them: (1 + L·H, C)."""
    heads = np.ndindex(classifier.config.num_hidden_layers, classifier.config.num_attention_heads)
    return logits_without(classifier, text, [
        [], *([(layer + 1, head + 1)] for layer, head in heads)], means)


@torch.inference_mode()
def logits_without(classifier: EmotionClassifier, text: str,
                   ablations: Sequence[Sequence[tuple[int, int]]],
                   means: np.ndarray | None = None) -> Tensor:
    """The logits of a text under many ablations, each some heads as (layer, head) from 1: (B, C).
    An ablated head gives its mean, (L, H, D), or zero."""
    model, config = classifier.needs_classifier(), classifier.config
    instead = (torch.zeros(config.num_hidden_layers, config.num_attention_heads, config.head_size)
               if means is None else torch.from_numpy(means))
    ids = torch.tensor([classifier.encode(text).ids])                                # (1, T)
    step = max(TOKENS_AT_ONCE // ids.size(1), 1)
    return torch.cat([
        model(ids.expand(len(part), -1), need_weights=False, hook=_replacing(part, instead)).logits
        for part in (ablations[first:first + step] for first in range(0, len(ablations), step))])


def _replacing(ablations: Sequence[Sequence[tuple[int, int]]], instead: Tensor) -> Hook:
    """A hook that puts something else in the place of heads, one ablation a row."""
    rows: dict[str, list[tuple[int, int, int]]] = {}
    for row, heads in enumerate(ablations):
        for layer, head in heads:
            rows.setdefault(f"layer {layer} · context", []).append((row, layer - 1, head - 1))

    def hook(name: str, value: Tensor) -> Tensor | None:
        if name not in rows:
            return None
        value = value.clone()                                                        # (B, H, T, D)
        for row, layer, head in rows[name]:
            value[row, head] = instead[layer, head]
        return value

    return hook
