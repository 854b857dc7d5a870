"""What the answer loses without a word: each word masked, each word deleted.

Zeiler & Fergus 2013, arXiv 1311.2901, for pictures; Li et al. 2016, arXiv 1612.08220, for words.
A masked word keeps its place: each of its pieces becomes [MASK]. A deleted one is gone, and what
follows moves up.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.explain.target import Target
from bert.explain.words import text_words

TOKENS_AT_ONCE = 4_096  # of all versions of a text that run together


def without_each_word(classifier: EmotionClassifier, text: str, target: Target,
                      delete: bool = False) -> np.ndarray:
    """How much of the target's score goes with each word: (W,)."""
    classifier.needs_classifier()
    encoding = classifier.encode(text)
    words = [places for _, places in text_words(encoding)]
    change = without if delete else masked
    rows = [change(classifier, encoding.ids, places) for places in ([], *words)]
    scores = target.score(logits_of(classifier, rows)).numpy()                       # (1 + W,)
    return scores[0] - scores[1:]


def masked(classifier: EmotionClassifier, ids: Sequence[int], places: Sequence[int]) -> list[int]:
    """The ids with [MASK] at these places."""
    hidden = set(places)
    return [classifier.tokenizer.mask_id if place in hidden else i for place, i in enumerate(ids)]


def without(classifier: EmotionClassifier, ids: Sequence[int], places: Sequence[int]) -> list[int]:
    """The ids but for those at these places."""
    gone = set(places)
    return [i for place, i in enumerate(ids) if place not in gone]


@torch.inference_mode()
def logits_of(classifier: EmotionClassifier, rows: Sequence[Sequence[int]]) -> Tensor:
    """The logits of many rows of ids, [CLS] and [SEP] included, of similar length: (N, C)."""
    ids, is_token = map(torch.from_numpy,
                        classifier.tokenizer.frame([row[1:-1] for row in rows]))     # (N, T)
    step = max(TOKENS_AT_ONCE // ids.size(1), 1)
    return torch.cat([
        classifier.model(part, None, None if mask.all() else mask, need_weights=False).logits
        for part, mask in zip(ids.split(step), is_token.split(step), strict=True)])
