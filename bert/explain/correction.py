"""A visitor's corrections fine-tune a copy of the model; the model itself is only read.

The copy answers the corrections and other texts before and after, so that forgetting is seen.
"""

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypedDict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.classifier import EmotionClassifier, Prediction
from bert.model import BertForSequenceClassification

MOST_STEPS, SECONDS = 60, 15.0     # whichever comes first ends the learning
ENOUGH = 0.5                       # a correction is learned when its class has more than this
UPPER_LAYERS = 2                   # the layers below keep what they know
RATE_TIMES_WIDTH = 0.04            # 2e-4 at width 192, 5e-5 at 768: wider networks need less


@dataclass(frozen=True)
class Correction:
    text: str
    label: str  # a class of the model


class Progress(TypedDict):
    """How far a copy is."""

    step: int
    steps: int
    loss: float
    learned: int
    corrections: int


@dataclass(frozen=True)
class Outcome:
    """Answers of the model and of its copy to the same texts, and what ended the learning."""

    before: list[Prediction]
    after: list[Prediction]
    copy: EmotionClassifier
    ended: str  # learned, steps or time
    steps: int


GoOn = Callable[[Progress], bool]  # is told of every step; says whether somebody still waits


def learn(classifier: EmotionClassifier, corrections: Sequence[Correction], texts: Sequence[str],
          go_on: GoOn) -> Outcome | None:
    """Fine-tune a copy, then ask model and copy about the texts; None if nobody waits any more."""
    before = classifier.predict_many(texts)
    model = trainable_copy(classifier.needs_classifier())
    copy = EmotionClassifier(replace(classifier.checkpoint, model=model, is_taught=True))
    end = train(copy, model, corrections, go_on)
    return None if end is None else Outcome(before, copy.predict_many(texts), copy, *end)


def trainable_copy(model: BertForSequenceClassification) -> BertForSequenceClassification:
    """A copy without dropout of which only the upper layers, pooler and classifier learn; the
    weights below stand in the memory of the model itself."""
    below = (model.bert.embeddings, *model.bert.encoder.layer[:-UPPER_LAYERS])
    frozen = {id(weight): nn.Parameter(weight.detach(), requires_grad=False)
              for part in below for weight in part.parameters()}
    return deepcopy(model, frozen).eval()


def train(copy: EmotionClassifier, model: BertForSequenceClassification,
          corrections: Sequence[Correction], go_on: GoOn) -> tuple[str, int] | None:
    """Train the copy's model until every correction is learned; what ended it after how many
    steps, or None if nobody waits any more."""
    began = time.monotonic()
    batch = copy.tokenizer.pad([copy.encode(correction.text) for correction in corrections])
    ids = torch.from_numpy(batch.ids)                                                # (B, T)
    attention_mask = torch.from_numpy(batch.attention_mask)                          # (B, T)
    wanted = torch.tensor([copy.keys.index(correction.label)
                           for correction in corrections])                           # (B,)
    adam = Adam([weight for weight in model.parameters() if weight.requires_grad],
                RATE_TIMES_WIDTH / copy.config.hidden_size)
    for step in range(MOST_STEPS + 1):
        logits = model(ids, None, attention_mask, need_weights=False).logits         # (B, C)
        loss = F.cross_entropy(logits, wanted)
        learned = logits.detach().softmax(dim=-1).gather(1, wanted[:, None]) > ENOUGH  # (B, 1)
        if not go_on({"step": step, "steps": MOST_STEPS, "loss": float(loss.detach()),
                      "learned": int(learned.sum()), "corrections": len(corrections)}):
            return None
        if learned.all():
            return "learned", step
        if time.monotonic() - began > SECONDS:
            return "time", step
        if step < MOST_STEPS:
            adam.step(loss)
    return "steps", MOST_STEPS


class Adam:
    """Adam (Kingma & Ba 2015). torch's own loads the compiler at its first step: many seconds, and
    80 MB that stay."""

    def __init__(self, weights: Sequence[Tensor], rate: float) -> None:
        self.weights, self.rate, self.steps = list(weights), rate, 0
        self.moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in weights]

    def step(self, loss: Tensor) -> None:
        gradients = torch.autograd.grad(loss, self.weights)
        self.steps += 1
        with torch.no_grad():
            for weight, gradient, (mean, square) in zip(self.weights, gradients, self.moments,
                                                        strict=True):
                mean.lerp_(gradient, 1 - 0.9)
                square.lerp_(gradient.square(), 1 - 0.999)
                root = (square / (1 - 0.999 ** self.steps)).sqrt() + 1e-8
                weight -= self.rate * mean / (1 - 0.9 ** self.steps) / root
