"""What each piece speaks for a class, with a sum check: integrated gradients.

Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365. The path leads from the same text with
every piece masked to the text itself; the attributions of all pieces together are the class score
that was gained on that path. How far the sum misses it is the error of the approximation, and is
given along.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.explain.target import Target
from bert.model import BertForSequenceClassification
from bert.tokenizer import Encoding

ENOUGH = 0.02          # relative error at which more steps are pointless
FEWEST = 16            # steps on the path
LARGE = 8_000_000_000  # tokens × parameters of a text and a network that take half as many
MOST_TOKENS = 8_192    # bounds the steps: 64 for a text of 128 tokens, more for shorter ones
BATCH_TOKENS = 1_024


@dataclass(frozen=True)
class IntegratedGradients:
    """What each piece adds to the target's score, in logits."""

    encoding: Encoding
    values: np.ndarray    # (T,) float32; zero for [CLS] and [SEP]
    gained: float         # score of the text minus score of the masked text

    @property
    def total(self) -> float:
        return float(self.values.sum())

    @property
    def error(self) -> float:
        """How far the sum is off, as a share of what was to be explained."""
        return abs(self.total - self.gained) / max(abs(self.gained), 1e-3)


def integrated_gradients(classifier: EmotionClassifier, text: str,
                         target: Target) -> IntegratedGradients:
    """Of the target's score; more steps are taken until the sum agrees."""
    model = classifier.needs_classifier()
    encoding = classifier.encode(text)
    masked = [piece_id if word is None else classifier.tokenizer.mask_id
              for piece_id, word in zip(encoding.ids, encoding.word_ids, strict=True)]
    with torch.no_grad():
        table = model.bert.embeddings.word_embeddings.weight
        end, start = table[encoding.ids], table[masked]                              # (T, E)
        scores = score(model, torch.stack([end, start]), target)
    gained = float(scores[0] - scores[1])
    work = len(encoding.ids) * sum(weights.numel() for weights in model.parameters())
    steps = FEWEST if work <= LARGE else FEWEST // 2
    while True:
        values = _integrate(model, start, end, target, steps)
        found = IntegratedGradients(encoding, values, gained)
        if found.error <= ENOUGH or 2 * steps * len(encoding.ids) > MOST_TOKENS:
            return found
        steps *= 2


def score(model: BertForSequenceClassification, tokens: Tensor, target: Target) -> Tensor:
    """The target's score from token vectors (B, T, E) instead of ids: (B,)."""
    parts = model.bert.embeddings
    total = tokens + parts.token_type_embeddings.weight[0] + parts.positions(tokens.size(1))
    hidden = model.bert.encoder(parts.LayerNorm(total), None, need_weights=False)[0]     # (B, T, E)
    return target.score(model.classifier(model.bert.pooler(hidden, None)))


def _integrate(model: BertForSequenceClassification, start: Tensor, end: Tensor,
               target: Target, steps: int) -> np.ndarray:
    """The mean gradient on the straight path from start to end, times the path: (T,)."""
    path = end - start                                                               # (T, E)
    at_once = max(BATCH_TOKENS // len(path), 1)
    gradient = torch.zeros_like(path)
    for shares in ((torch.arange(steps) + 0.5) / steps).split(at_once):
        points = (start + shares[:, None, None] * path).detach().requires_grad_()    # (S, T, E)
        with torch.enable_grad():
            summed = score(model, points, target).sum()
            gradient += torch.autograd.grad(summed, points)[0].sum(dim=0)
    return (path * gradient / steps).sum(dim=-1).detach().numpy()
