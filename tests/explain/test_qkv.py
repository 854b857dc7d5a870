"""How an attention weight comes out of queries and keys."""

import numpy as np
import pytest

from bert.explain.qkv import head_matrices, weight_steps

TEXT = "They blamed me for their own mistake"


def test_the_arithmetic_ends_in_the_heatmaps_value_for_every_cell(classifier):
    weights = classifier(TEXT).attentions[1, 0]
    matrices = head_matrices(classifier.run_with_cache(TEXT), 2, 1)
    for query, key in np.ndindex(weights.shape):
        steps = weight_steps(matrices, query, key)
        assert steps.weight == pytest.approx(weights[query, key], abs=1e-6)
        assert matrices["attention"][query, key] == pytest.approx(weights[query, key], abs=1e-6)
        assert steps.score == pytest.approx(matrices["scores"][query, key], rel=1e-5, abs=1e-5)
