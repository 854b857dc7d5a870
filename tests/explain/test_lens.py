"""Each layer's probabilities, against the weights of pooler and classifier."""

import numpy as np
import pytest

from bert.explain.lens import lens

ENGLISH = "They blamed me for their own mistake"


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def test_each_row_of_the_lens_is_pooler_and_classifier_on_that_layer(classifier):
    weights = {name: value.double().numpy() for name, value in
               classifier.model.state_dict().items()}
    rows = lens(classifier, classifier(ENGLISH).hidden_states)
    for row, state in zip(rows, classifier(ENGLISH).hidden_states, strict=True):
        pooled = np.tanh(weights["bert.pooler.dense.weight"] @ state[0]
                         + weights["bert.pooler.dense.bias"])
        scores = weights["classifier.weight"] @ pooled + weights["classifier.bias"]
        assert row == pytest.approx(softmax(scores), abs=1e-5)


def test_the_lens_reads_a_pre_norm_model_through_its_last_norm(deeper):
    weights = {name: value.double().numpy() for name, value in deeper.model.state_dict().items()}
    states = deeper(ENGLISH).hidden_states
    rows = lens(deeper, states)
    for layer, (row, state) in enumerate(zip(rows, states, strict=True)):
        if layer < len(states) - 1:
            variance = state.var(axis=-1, keepdims=True) + deeper.config.layer_norm_eps
            state = (state - state.mean(axis=-1, keepdims=True)) / np.sqrt(variance)
            state = (state * weights["bert.encoder.final_norm.weight"]
                     + weights["bert.encoder.final_norm.bias"])
        pooled = np.tanh(weights["bert.pooler.dense.weight"] @ state.mean(axis=0)
                         + weights["bert.pooler.dense.bias"])
        scores = weights["classifier.weight"] @ pooled + weights["classifier.bias"]
        assert row == pytest.approx(softmax(scores), abs=1e-5)
