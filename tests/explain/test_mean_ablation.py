"""What the margin owes to each head."""

import numpy as np
import pytest
import torch

from bert.explain import mean_ablation
from bert.explain.mean_ablation import ablation_effects, mean_outputs
from bert.explain.target import Target

TEXT = "드디어 마라톤을 완주했다 and we laughed"


@pytest.mark.parametrize("target", [Target(0), Target(1, 0)], ids=["class", "contrast"])
def test_zero_ablation_is_the_head_switched_off(any_classifier, target, monkeypatch):
    monkeypatch.setattr(mean_ablation, "TOKENS_AT_ONCE", 60)  # several batches
    effects = ablation_effects(any_classifier, TEXT, target)
    ids = torch.tensor([any_classifier.encode(TEXT).ids])
    with torch.inference_mode():
        whole = target.margin(any_classifier.model(ids).logits[0])
        for layer, head in np.ndindex(effects.shape):
            mask = any_classifier.head_mask([(layer + 1, head + 1)])
            without = target.margin(any_classifier.model(ids, head_mask=mask).logits[0])
            assert effects[layer, head] == pytest.approx(float(without - whole), abs=1e-4)


def test_the_mean_is_over_all_tokens_of_all_texts(any_classifier, texts):
    found = mean_outputs(any_classifier, texts[:3])
    config = any_classifier.config
    assert found.shape == (config.num_hidden_layers, config.num_attention_heads, config.head_size)
    contexts = [any_classifier.run_with_cache(text).value("context", 1)[0] for text in texts[:3]]
    np.testing.assert_allclose(found[0], np.concatenate(contexts, axis=1).mean(axis=1), atol=1e-5)


def test_mean_ablation_puts_the_mean_into_one_head_at_every_token(any_classifier, texts):
    target, means = Target(0), mean_outputs(any_classifier, texts[:4])
    effects = ablation_effects(any_classifier, TEXT, target, means)
    ids = torch.tensor([any_classifier.encode(TEXT).ids])
    last = any_classifier.config.num_hidden_layers

    def hook(name, value):
        if name == f"layer {last} · context":
            return torch.cat([torch.from_numpy(means[-1, :1])[None, :, None].expand_as(
                value[:, :1]), value[:, 1:]], dim=1)

    with torch.inference_mode():
        whole, without = (target.margin(any_classifier.model(ids, **given).logits[0])
                          for given in ({}, {"hook": hook}))
    assert effects[-1, 0] == pytest.approx(float(without - whole), abs=1e-4)


def test_a_mean_needs_texts(classifier):
    with pytest.raises(ValueError, match="no texts"):
        mean_outputs(classifier, [])
