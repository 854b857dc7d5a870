"""Vectors inside the network and how alike they are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.explain.activations import cosine, text_vectors
from bert.model import BertForSequenceClassification

ENGLISH = "They blamed me for their own mistake"


def test_the_cosine_is_the_dot_product_over_both_lengths():
    draw = np.random.default_rng(0)
    one, other = draw.normal(size=(2, 3, 7))
    for row in range(3):
        dot = sum(a * b for a, b in zip(one[row], other[row], strict=True))
        lengths = [math.sqrt(sum(a * a for a in vector[row])) for vector in (one, other)]
        assert cosine(one, other)[row] == pytest.approx(dot / lengths[0] / lengths[1])
    assert cosine(np.zeros(3), np.ones(3)) == 0


def test_vectors_of_a_pre_norm_model_are_its_hidden_states(tokenizer, tiny_config, tmp_path):
    config = replace(tiny_config, norm="pre", positions="sinusoidal", pooling="mean")
    save_checkpoint(tmp_path / "emotion", untrained(config, BertForSequenceClassification),
                    tokenizer)
    other = EmotionClassifier.load(tmp_path / "emotion")
    found = text_vectors(other.run_with_cache(ENGLISH), other.config)
    states = other(ENGLISH).hidden_states
    assert found["cls"] == pytest.approx(states[:, 0], abs=1e-6)
    assert found["mean"] == pytest.approx(states.mean(axis=1), abs=1e-6)
