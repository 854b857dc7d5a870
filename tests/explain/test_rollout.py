"""Attention followed through all layers."""

import numpy as np

from bert.explain import attention
from bert.explain.rollout import alti, contributions, rollout
from bert.explain.value_weighted import block_output, block_summands

TEXT = "I finally fixed the bug after three days"


def test_attention_offers_the_same_rollout():
    assert attention.rollout is rollout


def test_contributions_are_shares(any_classifier):
    found = contributions(any_classifier, any_classifier.run_with_cache(TEXT))
    assert found.min() >= 0.0
    np.testing.assert_allclose(found.sum(axis=-1), 1.0)


def test_a_contribution_is_what_the_paper_says(any_classifier):
    """max(0, ‖y‖₁ − ‖y − T(x)‖₁), scaled to one, written out for one token."""
    cache = any_classifier.run_with_cache(TEXT)
    (_, summands), = block_summands(any_classifier, cache, 1)
    output = block_output(any_classifier, cache, 1)
    near = [max(0.0, float(np.linalg.norm(output[2], 1) - np.linalg.norm(output[2] - part, 1)))
            for part in summands[2]]
    np.testing.assert_allclose(contributions(any_classifier, cache)[0, 2],
                               np.array(near) / sum(near), atol=1e-5)


def test_alti_is_the_product_of_its_layers_the_last_one_first(any_classifier):
    cache = any_classifier.run_with_cache(TEXT)
    layers = contributions(any_classifier, cache)
    expected = np.linalg.multi_dot([*layers[::-1], np.eye(len(layers[0]))])
    np.testing.assert_allclose(alti(any_classifier, cache), expected, atol=1e-12)


def test_a_network_without_attention_keeps_every_token_to_itself(any_classifier):
    cache = any_classifier.run_with_cache(TEXT)
    for layer in range(1, any_classifier.config.num_hidden_layers + 1):
        cache.value("attention", layer)[:] = 0.0
    np.testing.assert_allclose(alti(any_classifier, cache), np.eye(len(cache.encoding.ids)))


def test_a_token_to_which_no_summand_is_near_keeps_itself(any_classifier):
    cache = any_classifier.run_with_cache(TEXT)
    block_output(any_classifier, cache, 1)[1] = 0.0
    np.testing.assert_array_equal(contributions(any_classifier, cache)[0, 1],
                                  np.eye(len(cache.encoding.ids))[1])
