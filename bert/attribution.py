"""How much each piece speaks for or against a class: integrated gradients, with their sum check.

Sundararajan et al. 2017, https://arxiv.org/abs/1703.01365. The way leads from the same text with
every piece masked to the text itself; the attributions of all pieces together are the class score
that was gained on that way. How far the sum misses it is the error of the approximation, and is
given along.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert.model import BertForSequenceClassification
from bert.predict import EmotionClassifier
from bert.tokenizer import Encoding

ENOUGH = 0.02          # relative error at which more steps are pointless
FEWEST = 16            # steps on the way
MOST_TOKENS = 8_192    # bounds the steps: 64 for a text of 128 tokens, more for shorter ones
BATCH_TOKENS = 1_024


@dataclass(frozen=True)
class Attribution:
    """What each piece adds to a class's score, in logits."""

    encoding: Encoding
    key: str
    values: np.ndarray    # (T,) float32; zero for [CLS] and [SEP]
    gained: float         # score of the text minus score of the masked text

    @property
    def total(self) -> float:
        return float(self.values.sum())

    @property
    def error(self) -> float:
        """How far the sum is off, as a share of what was to be explained."""
        return abs(self.total - self.gained) / max(abs(self.gained), 1e-3)


def attribute(classifier: EmotionClassifier, text: str, key: str) -> Attribution:
    """Integrated gradients of one class's score; more steps are taken until the sum agrees."""
    model = classifier.model
    if not isinstance(model, BertForSequenceClassification):
        raise ValueError(f"{classifier.checkpoint.folder.name} has no classifier: nothing speaks "
                         "for a class")
    if key not in classifier.keys:
        raise ValueError(f"{key[:40]!r} is not a class: choose one of {', '.join(classifier.keys)}")
    encoding = classifier.encode(text)
    target = classifier.keys.index(key)
    masked = [piece_id if word is None else classifier.tokenizer.mask_id
              for piece_id, word in zip(encoding.ids, encoding.word_ids, strict=True)]
    with torch.no_grad():
        table = model.bert.embeddings.word_embeddings.weight
        end, start = table[encoding.ids], table[masked]                              # (T, E)
        scores = score(model, torch.stack([end, start]), target)
    gained = float(scores[0] - scores[1])
    steps = FEWEST
    while True:
        values = _integrate(model, start, end, target, steps)
        found = Attribution(encoding, key, values, gained)
        if found.error <= ENOUGH or 2 * steps * len(encoding.ids) > MOST_TOKENS:
            return found
        steps *= 2


def score(model: BertForSequenceClassification, tokens: Tensor, target: int) -> Tensor:
    """One class's logit from token vectors (B, T, E) instead of ids: (B,)."""
    parts = model.bert.embeddings
    total = tokens + parts.token_type_embeddings.weight[0] + parts.positions(tokens.size(1))
    hidden = model.bert.encoder(parts.LayerNorm(total), None, lean=True)[0]          # (B, T, E)
    return model.classifier(model.bert.pooler(hidden, None))[:, target]


def _integrate(model: BertForSequenceClassification, start: Tensor, end: Tensor, target: int,
               steps: int) -> np.ndarray:
    """The mean gradient on the straight way from start to end, times the way: (T,)."""
    way = end - start                                                                # (T, E)
    at_once = max(BATCH_TOKENS // len(way), 1)
    gradient = torch.zeros_like(way)
    for shares in ((torch.arange(steps) + 0.5) / steps).split(at_once):
        points = (start + shares[:, None, None] * way).detach().requires_grad_()     # (S, T, E)
        with torch.enable_grad():
            summed = score(model, points, target).sum()
            gradient += torch.autograd.grad(summed, points)[0].sum(dim=0)
    return (way * gradient / steps).sum(dim=-1).detach().numpy()
