"""What is to be explained: one class, or one class rather than another."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.errors import UserError


@dataclass(frozen=True)
class Target:
    """A class, or with `against` a contrast: why this class rather than that one.

    Three numbers can be read from the logits (…, C), each (…):
        score         the logit of the class; of a contrast, the difference of the two logits
        margin        how far the class is ahead of the best other one; of a contrast, the same
                      difference; the answer is another one where it is negative
        probability   of the class; of a contrast, of the one if only the two are possible
    """

    index: int
    against: int | None = None

    def score(self, logits: Tensor) -> Tensor:
        if self.against is None:
            return logits[..., self.index]
        return logits[..., self.index] - logits[..., self.against]

    def margin(self, logits: Tensor) -> Tensor:
        if self.against is not None or logits.size(-1) == 1:
            return self.score(logits)
        is_other = torch.arange(logits.size(-1)) != self.index
        return logits[..., self.index] - logits[..., is_other].amax(dim=-1)

    def probability(self, logits: Tensor) -> Tensor:
        if self.against is None:
            return logits.softmax(dim=-1)[..., self.index]
        return self.score(logits).sigmoid()

    @classmethod
    def named(cls, classifier: EmotionClassifier, key: str, against: str | None = None) -> Self:
        """The target of these classes; an unknown one is refused."""
        classifier.needs_classifier()
        for name in (key, against):
            if name is not None and name not in classifier.keys:
                raise UserError(f"{name[:40]!r} is not a class: choose one of "
                                f"{', '.join(classifier.keys)}")
        if key == against:
            raise UserError(f"{key!r} cannot be compared with itself: choose two classes")
        return cls(classifier.keys.index(key),
                   None if against is None else classifier.keys.index(against))

    @classmethod
    def leading(cls, classifier: EmotionClassifier, text: str, contrast: bool = False) -> Self:
        """The answer that the text gets; with `contrast`, rather than the second answer."""
        order = np.argsort(-classifier.predict_many([text])[0].probabilities, kind="stable")
        return cls(int(order[0]), int(order[1]) if contrast and len(order) > 1 else None)
