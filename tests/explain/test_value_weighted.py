"""What attention moves: the norms of the vectors that are added up."""

import numpy as np
import pytest
import torch

from bert.explain import value_weighted

TEXT = "드디어 마라톤을 완주했다 and we laughed"


@pytest.fixture
def cache(any_classifier):
    return any_classifier.run_with_cache(TEXT)


def test_the_summands_of_all_heads_add_up_to_the_output_of_attention(any_classifier, cache):
    for layer in range(1, any_classifier.config.num_hidden_layers + 1):
        weights = cache.value("attention", layer)[0]                                 # (H, T, T)
        moved = value_weighted.moved(any_classifier, cache, layer)                   # (H, T, E)
        summands = weights[..., None] * moved[:, None]                               # (H, T, T, E)
        bias = any_classifier.model.bert.encoder.layer[layer - 1].attention.output.bias
        np.testing.assert_allclose(summands.sum(axis=(0, 2)) + bias.detach().numpy(),
                                   cache.value("attention output", layer)[0], atol=1e-5)


def test_a_norm_is_the_norm_of_the_actual_summand(any_classifier, cache):
    """By the model's own matrices, one head and one pair of tokens at a time."""
    found = value_weighted.norms(any_classifier, cache)
    config, size = any_classifier.config, len(cache.encoding.ids)
    assert found.shape == (config.num_hidden_layers, config.num_attention_heads, size, size)
    attention = any_classifier.model.bert.encoder.layer[0].attention
    is_pre_norm = config.norm == "pre"
    stream = (cache.value("attention LayerNorm", 1) if is_pre_norm
              else cache.value("LayerNorm"))[0]
    with torch.no_grad():
        for head in range(config.num_attention_heads):
            width = config.head_size
            own = slice(2 * config.hidden_size + head * width,
                        2 * config.hidden_size + (head + 1) * width)
            value = (torch.from_numpy(stream[3]) @ attention.qkv.weight[own].T
                     + attention.qkv.bias[own])                                      # (D,)
            summand = value @ attention.output.weight[:, head * width:(head + 1) * width].T
            weight = cache.value("attention", 1)[0, head, 2, 3]
            assert found[0, head, 2, 3] == pytest.approx(float((weight * summand).norm()), rel=1e-4)


def test_the_summands_of_a_block_add_up_to_its_output(any_classifier, cache, monkeypatch):
    monkeypatch.setattr(value_weighted, "NUMBERS_AT_ONCE", 2_000)  # a few rows at a time
    for layer in range(1, any_classifier.config.num_hidden_layers + 1):
        parts = list(value_weighted.block_summands(any_classifier, cache, layer))
        assert len(parts) > 1
        summed = np.concatenate([summands.sum(axis=1) for _, summands in parts])     # (T, E)
        summed = summed + value_weighted.block_bias(any_classifier, cache, layer)
        np.testing.assert_allclose(
            summed, value_weighted.block_output(any_classifier, cache, layer), atol=1e-5)


def test_the_norms_of_a_block_are_those_of_its_summands(any_classifier, cache):
    found = value_weighted.block_norms(any_classifier, cache)
    assert found.shape == (any_classifier.config.num_hidden_layers, *[len(cache.encoding.ids)] * 2)
    (_, summands), = value_weighted.block_summands(any_classifier, cache, 1)
    assert found[0, 4, 1] == pytest.approx(float(np.sqrt((summands[4, 1] ** 2).sum())), rel=1e-5)


def test_a_token_without_a_value_moves_nothing_however_much_it_is_looked_at(any_classifier):
    """The weights stay; the norms of the column are zero."""
    cache = any_classifier.run_with_cache(TEXT)
    cache.value("value", 1)[0, :, -1] = 0.0
    assert cache.value("attention", 1)[0, :, :, -1].min() > 0.0
    assert value_weighted.norms(any_classifier, cache)[0, :, :, -1].max() == 0.0
