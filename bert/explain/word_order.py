"""What the network knows of order: words in another order, and no positions at all."""

import copy
import random
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np

from bert.classifier import EmotionClassifier
from bert.explain.activations import similarity, text_vectors
from bert.model import sinusoidal_positions, vectors


@lru_cache(maxsize=1)
def without_positions(classifier: EmotionClassifier) -> EmotionClassifier:
    """The same weights with a position table of zeros: the model sees a bag of pieces.

    Modules are copied, weights are shared, and the model that others are using right now is left
    alone (`torch.func.functional_call` would swap its table for the length of the call).
    """
    model, config = classifier.model, classifier.config
    shared = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    bag = EmotionClassifier(replace(classifier.checkpoint,
                                    model=copy.deepcopy(model, shared).eval()))
    bag.bert.embeddings.position_embeddings = vectors(config.max_position_embeddings,
                                                      config.hidden_size)
    return bag


def reordered(text: str, order: str, seed: int) -> str:
    """The words of a text backwards or shuffled: reordered("I ate pizza", "reverse", 1)
    -> 'pizza ate I'."""
    words = text.split()
    if order == "reverse":
        words.reverse()
    elif order == "shuffle":
        random.Random(seed).shuffle(words)
    else:
        return text
    return " ".join(words)


def has_same_pieces(classifier: EmotionClassifier, one: str, other: str) -> bool:
    """Whether two texts differ in nothing but the order of their pieces."""
    return Counter(classifier.encode(one).ids) == Counter(classifier.encode(other).ids)


def difference(classifier: EmotionClassifier, one: str, other: str) -> dict[str, float]:
    """The last layer's cosines of two texts ("cls", "mean"), and the largest difference of their
    pooled vectors ("pooled")."""
    caches = [classifier.run_with_cache(text) for text in (one, other)]
    cosines = similarity(*(text_vectors(cache, classifier.config) for cache in caches))
    pooled = [cache.value("pooled") for cache in caches]
    return {**{name: float(values[-1]) for name, values in cosines.items()},
            "pooled": float(np.abs(pooled[0] - pooled[1]).max())}


def position_tables(classifier: EmotionClassifier) -> dict[str, np.ndarray | None]:
    """The position vectors, (P, E), learned (None if there are none) and sinusoidal."""
    config = classifier.config
    learned = classifier.bert.embeddings.position_embeddings
    return {"learned": None if learned is None else learned.weight.detach().numpy(),
            "sinusoidal": sinusoidal_positions(config.max_position_embeddings,
                                               config.hidden_size).numpy()}
