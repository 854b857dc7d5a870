"""What each piece speaks for a class, passed back layer by layer: AttnLRP, which colours the words
of the page and gives the chat its reasons.

Achtibat et al. 2024, https://arxiv.org/abs/2402.05602. The score is handed from the classifier down
to the token vectors; every step shares out what it gets by a rule of its own:

    linear maps, residual sums    in proportion to what each input added (the ε-rule, ε = 0)
    LayerNorm                     the same, its standard deviation taken as a constant
    softmax                       by its first-order expansion
    weights × values, QKᵀ         half to each factor
    GELU, tanh                    handed on as it is

Each rule is gradient × input of a step with the same value and a changed slope, so that one
backward pass does it all.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from bert.classifier import EmotionClassifier
from bert.explain.target import Target
from bert.model import BertForSequenceClassification, BertLayer
from bert.tokenizer import Encoding


@dataclass(frozen=True)
class Attribution:
    """What each piece speaks for a class."""

    encoding: Encoding
    key: str
    values: np.ndarray    # (T,) float32, in logits


def attribute(classifier: EmotionClassifier, text: str, key: str) -> Attribution:
    """The relevance of every piece for the class of this name."""
    return Attribution(classifier.encode(text), key,
                       relevance(classifier, text, Target.named(classifier, key)))


def relevance(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """How much of the target's score each piece is given: (T,)."""
    model = classifier.needs_classifier()
    rules = Rules(model)
    ids = torch.tensor([classifier.encode(text).ids])
    with torch.enable_grad():
        logits = model(ids, hook=rules).logits[0]
        gradient, = torch.autograd.grad(target.score(logits), rules.tokens)
    return (rules.tokens * gradient).sum(dim=-1)[0].detach().numpy()


def half(value: Tensor) -> Tensor:
    """The same value, half the slope: a product shares evenly between its factors."""
    return 0.5 * value + 0.5 * value.detach()


def proportional(before: Tensor, value: Tensor) -> Tensor:
    """A value that was made of `before` entry by entry, with the slope value ÷ before."""
    slope = torch.where(before == 0, torch.ones_like(before), value / before)
    return value.detach() + (before - before.detach()) * slope.detach()


def with_constant_deviation(norm: nn.LayerNorm, hidden: Tensor) -> Tensor:
    """LayerNorm as a linear map: its mean moves with the input, its deviation does not."""
    centred = hidden - hidden.mean(dim=-1, keepdim=True)
    deviation = (centred.detach().square().mean(dim=-1, keepdim=True) + norm.eps).sqrt()
    return centred / deviation * norm.weight + norm.bias


class Rules:
    """A hook that puts the rule of every step in the place of its ordinary slope."""

    tokens: Tensor   # (1, T, E) the token vectors, what is asked about

    def __init__(self, model: BertForSequenceClassification) -> None:
        self.model = model
        self.stream: Tensor   # the residual stream as it was last told
        self.normed: Tensor   # what the last LayerNorm made of it

    def __call__(self, name: str, value: Tensor) -> Tensor | None:
        prefix, _, step = name.rpartition(" · ")
        if step == "token vectors":
            self.tokens = value.detach().requires_grad_()
            return self.tokens
        if step in ("query", "key", "value", "attention"):
            return half(value)
        if step == "sum" or step.endswith("residual"):
            self.stream = value
        elif step.endswith("LayerNorm"):
            self.normed = with_constant_deviation(self._norm(prefix, step), self.stream)
            if not (prefix and self._is_pre_norm()):
                self.stream = self.normed
            return self.normed
        elif step == "feed-forward activations":
            widen = self._layer(prefix).feed_forward.intermediate
            return proportional(widen(self.normed), value)
        elif step == "pooled":
            pooler = self.model.bert.pooler
            first = self.stream.mean(dim=1) if pooler.takes_mean else self.stream[:, 0]
            return proportional(pooler.dense(first), value)
        return None

    def _is_pre_norm(self) -> bool:
        return self.model.config.norm == "pre"

    def _layer(self, prefix: str) -> BertLayer:
        layer = self.model.bert.encoder.layer[int(prefix.removeprefix("layer ")) - 1]
        assert isinstance(layer, BertLayer)
        return layer

    def _norm(self, prefix: str, step: str) -> nn.LayerNorm:
        final = self.model.bert.encoder.final_norm
        if step == "final LayerNorm" and isinstance(final, nn.LayerNorm):
            return final
        if not prefix:
            return self.model.bert.embeddings.LayerNorm
        layer = self._layer(prefix)
        return layer.attention_norm if step.startswith("attention") else layer.output_norm
