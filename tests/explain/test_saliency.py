"""What one backward pass says about an answer."""

import numpy as np
import pytest
import torch

from bert.classifier import EmotionClassifier
from bert.explain import saliency
from bert.explain.integrated_gradients import score
from bert.explain.target import Target

TEXT = "드디어 마라톤을 완주했다 and we laughed"
TARGETS = [Target(0), Target(1, 0)]


@pytest.mark.parametrize("target", TARGETS, ids=["class", "contrast"])
def test_gradient_times_input_is_the_slope_of_the_score(any_classifier, target):
    """Token vectors made a little longer: the difference of two ordinary runs, in float64."""
    model, ids = any_classifier.model, torch.tensor([any_classifier.encode(TEXT).ids])
    found = saliency.gradient_x_input(any_classifier, TEXT, target)
    assert found.shape == (ids.size(1),)
    model.double()
    try:
        with torch.no_grad():
            tokens = model.bert.embeddings.word_embeddings(ids)                      # (1, T, E)
            longer = torch.eye(ids.size(1))[..., None] * tokens                      # (T, T, E)
            slope = (score(model, tokens + 1e-4 * longer, target)
                     - score(model, tokens - 1e-4 * longer, target)) / 2e-4
    finally:
        model.float()
    np.testing.assert_allclose(found, slope.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=["class", "contrast"])
def test_attention_times_gradient_is_the_slope_of_the_score(any_classifier, target):
    """One weight of the last layer made a little larger through a hook, in float64."""
    config = any_classifier.config
    found = saliency.attention_x_gradient(any_classifier, TEXT, target)
    ids = torch.tensor([any_classifier.encode(TEXT).ids])
    assert found.shape == (config.num_hidden_layers, config.num_attention_heads,
                           *[ids.size(1)] * 2)

    def with_weight(factor: float) -> float:
        def hook(name, value):
            if name == f"layer {config.num_hidden_layers} · attention":
                value = value.clone()
                value[0, 0, 0, 3] *= factor
                return value
        with torch.no_grad():
            return float(target.score(any_classifier.model(ids, hook=hook).logits[0]))

    any_classifier.model.double()
    try:
        slope = (with_weight(1.0001) - with_weight(0.9999)) / 2e-4
    finally:
        any_classifier.model.float()
    assert found[-1, 0, 0, 3] == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("target", TARGETS, ids=["class", "contrast"])
def test_the_importance_of_a_head_is_the_slope_of_its_switch(any_classifier, target):
    """Michel et al. take the gradient of a mask on the heads' outputs: the same number."""
    config = any_classifier.config
    switches = torch.ones(config.num_hidden_layers, config.num_attention_heads,
                          requires_grad=True)
    ids = torch.tensor([any_classifier.encode(TEXT).ids])
    logits = any_classifier.model(ids, head_mask=switches).logits[0]
    slope, = torch.autograd.grad(target.margin(logits), switches)
    np.testing.assert_allclose(saliency.head_importance(any_classifier, TEXT, target),
                               slope.abs().numpy(), rtol=1e-3, atol=1e-5)


def test_a_contrast_is_the_difference_of_its_two_classes(any_classifier):
    one, other, both = (saliency.looked_at(saliency.attention_x_gradient(
        any_classifier, TEXT, target)) for target in (Target(0), Target(1), Target(0, 1)))
    np.testing.assert_allclose(one - other, both, atol=1e-4)


def test_nothing_is_left_behind_on_the_model(classifier):
    saliency.head_importance(classifier, TEXT, Target(0))
    assert all(parameter.grad is None for parameter in classifier.model.parameters())


def test_a_checkpoint_without_classifier_says_so(pretrained_folder):
    with pytest.raises(ValueError, match="no classifier"):
        saliency.gradient_x_input(EmotionClassifier.load(pretrained_folder), TEXT, Target(0))
