"""What one backward pass says about an answer: gradients of the score, times what they belong to.

    gradient_x_input       of the token vectors: how much each piece speaks for the class, to first
                           order                         Denil et al. 2014, arXiv 1412.6815
    attention_x_gradient   of the attention weights: how much of the score each weight carries
                                                         Hao et al. 2020, arXiv 2004.11207, one step
    head_importance        the same summed over a head: what the margin would lose, to first order,
                           without it                    Michel et al. 2019, arXiv 1905.10650

The score is a class's logit, or the difference of two (see `Target`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.explain.target import Target
from bert.tokenizer import Encoding


@dataclass(frozen=True)
class Gradients:
    """Token vectors and attention weights of one run, each with the gradient of a score."""

    encoding: Encoding
    logits: np.ndarray                # (C,)
    tokens: np.ndarray                # (T, E), without position and segment
    token_gradients: np.ndarray       # (T, E)
    attentions: np.ndarray            # (L, H, T, T), query × key
    attention_gradients: np.ndarray   # (L, H, T, T)


def gradients(classifier: EmotionClassifier, text: str,
              score: Callable[[Tensor], Tensor]) -> Gradients:
    """One pass forward and one backward, of a score that is read from the logits (…, C)."""
    classifier.needs_classifier()
    encoding = classifier.encode(text)
    watched: list[Tensor] = []  # the token vectors, then each layer's weights

    def hook(name: str, value: Tensor) -> Tensor | None:
        if name == "token vectors":
            watched.append(value.detach().requires_grad_())
            return watched[0]
        if name.endswith(" · attention"):
            watched.append(value)
        return None

    with torch.enable_grad():
        logits = classifier.model(torch.tensor([encoding.ids]), hook=hook).logits
        found = torch.autograd.grad(score(logits[0]), watched)
    attentions, attention_gradients = (
        torch.cat(tensors[1:]).detach().numpy() for tensors in (watched, found))
    return Gradients(encoding, logits[0].detach().numpy(), watched[0][0].detach().numpy(),
                     found[0][0].numpy(), attentions, attention_gradients)


def gradient_x_input(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """Each piece's vector times the gradient there: (T,)."""
    found = gradients(classifier, text, target.score)
    return (found.tokens * found.token_gradients).sum(axis=-1)


def attention_x_gradient(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """Each attention weight times its gradient: (L, H, T, T); negative where it speaks against."""
    found = gradients(classifier, text, target.score)
    return found.attentions * found.attention_gradients


def looked_at(carried: np.ndarray) -> np.ndarray:
    """How much of the score the looks at each piece carry, over all layers, heads and tokens that
    look: (L, H, T, T) -> (T,)."""
    return carried.sum(axis=(0, 1, 2))


def head_importance(classifier: EmotionClassifier, text: str, target: Target) -> np.ndarray:
    """|Σ α ∂margin/∂α| of every head: (L, H)."""
    return importance(gradients(classifier, text, target.margin))


def importance(found: Gradients) -> np.ndarray:
    """The importance of every head, (L, H), where the gradients are there already."""
    return np.abs((found.attentions * found.attention_gradients).sum(axis=(-2, -1)))
