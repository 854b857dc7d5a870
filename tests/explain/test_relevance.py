"""AttnLRP against its rules, written out one by one and without a single gradient."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bert.classifier import EmotionClassifier
from bert.explain.relevance import attribute, relevance
from bert.explain.target import Target
from bert.model import ACTIVATIONS

TEXT = "드디어 마라톤을 완주했다 and we laughed"
TARGETS = [Target(0), Target(1, 0)]


def through_linear(linear, x, given):
    """The ε-rule, ε = 0: each input gets in proportion to what it added to each output."""
    return x * ((given / linear(x)) @ linear.weight)


def through_sum(first, second, given):
    share = given / (first + second)
    return first * share, second * share


def through_norm(norm, x, given):
    """The ε-rule of a linear map: the deviation is a constant."""
    deviation = (x.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
    width = x.size(-1)
    centre = torch.eye(width, dtype=x.dtype) - 1 / width
    return x * ((given / norm(x)) * norm.weight / deviation @ centre)


def through_product(first, second, given):
    """Half to each factor of first @ second."""
    share = given / (first @ second) / 2
    return first * (share @ second.mT), second * (first.mT @ share)


class Layer:
    """One layer: forward with everything kept, then its relevance backwards."""

    def __init__(self, layer, activation):
        self.layer, self.activation = layer, activation

    def attend(self, x):
        part = self.layer.attention
        self.attended_from = x
        heads = part.qkv(x).unflatten(-1, (3, part.num_heads, -1)).permute(1, 2, 0, 3)
        self.query, self.key, self.value = heads                                     # (H, T, D)
        self.query = self.query / math.sqrt(self.query.size(-1))
        self.scores = self.query @ self.key.mT
        self.weights = self.scores.softmax(-1)
        self.joined = (self.weights @ self.value).transpose(0, 1).flatten(1)
        return part.output(self.joined)

    def through_attention(self, given):
        part = self.layer.attention
        given = through_linear(part.output, self.joined, given)
        given = given.unflatten(-1, (part.num_heads, -1)).transpose(0, 1)
        weights, value = through_product(self.weights, self.value, given)
        scores = self.scores * (weights - self.weights * weights.sum(-1, keepdim=True))
        query, key = through_product(self.query, self.key.mT, scores)
        heads = torch.stack([query, key.mT, value]).permute(2, 0, 1, 3).flatten(1)   # (T, 3E)
        return through_linear(part.qkv, self.attended_from, heads)

    def feed(self, x):
        self.fed_from, part = x, self.layer.feed_forward
        self.inner = self.activation(part.intermediate(x))
        return part.output(self.inner)

    def through_feed_forward(self, given):
        part = self.layer.feed_forward
        given = through_linear(part.output, self.inner, given)  # and through the activation as is
        return through_linear(part.intermediate, self.fed_from, given)

    def forward(self, x):
        first, second = self.layer.attention_norm, self.layer.output_norm
        self.x = x
        if self.layer.is_pre_norm:
            self.attended = self.attend(first(x))
            self.middle = x + self.attended
            self.fed = self.feed(second(self.middle))
            return self.middle + self.fed
        self.attended = self.attend(x)
        self.middle = first(x + self.attended)
        self.fed = self.feed(self.middle)
        return second(self.middle + self.fed)

    def backward(self, given):
        first, second = self.layer.attention_norm, self.layer.output_norm
        if self.layer.is_pre_norm:
            stream, fed = through_sum(self.middle, self.fed, given)
            given = stream + through_norm(second, self.middle, self.through_feed_forward(fed))
            stream, attended = through_sum(self.x, self.attended, given)
            return stream + through_norm(first, self.x, self.through_attention(attended))
        given = through_norm(second, self.middle + self.fed, given)
        stream, fed = through_sum(self.middle, self.fed, given)
        given = through_norm(first, self.x + self.attended,
                             stream + self.through_feed_forward(fed))
        stream, attended = through_sum(self.x, self.attended, given)
        return stream + self.through_attention(attended)


@torch.no_grad()
def by_hand(classifier: EmotionClassifier, target: Target) -> np.ndarray:
    model, bert = classifier.model, classifier.model.bert
    ids = torch.tensor(classifier.encode(TEXT).ids)
    tokens = bert.embeddings.word_embeddings(ids)                                    # (T, E)
    others = (bert.embeddings.token_type_embeddings.weight[0]
              + bert.embeddings.positions(len(ids)).to(tokens))
    layers = [Layer(layer, ACTIVATIONS[model.config.hidden_act]) for layer in bert.encoder.layer]
    hidden = bert.embeddings.LayerNorm(tokens + others)
    for layer in layers:
        hidden = layer.forward(hidden)
    stream, hidden = hidden, bert.encoder.final_norm(hidden)
    first = hidden.mean(0) if bert.pooler.takes_mean else hidden[0]
    pooled = bert.pooler.dense(first).tanh()
    weight = model.classifier.weight[target.index].clone()
    if target.against is not None:
        weight -= model.classifier.weight[target.against]
    given = through_linear(bert.pooler.dense, first, pooled * weight)
    if bert.pooler.takes_mean:
        given = hidden / len(ids) * (given / first)
    else:
        given = F.pad(given[None], (0, 0, 0, len(ids) - 1))
    if layers[0].layer.is_pre_norm:
        given = through_norm(bert.encoder.final_norm, stream, given)
    for layer in reversed(layers):
        given = layer.backward(given)
    given = through_norm(bert.embeddings.LayerNorm, tokens + others, given)
    return (tokens * given / (tokens + others)).sum(-1).numpy()


@pytest.mark.parametrize("target", TARGETS, ids=["class", "contrast"])
def test_every_step_shares_out_by_its_rule(any_classifier, target):
    any_classifier.model.double()
    try:
        expected = by_hand(any_classifier, target)
        found = relevance(any_classifier, TEXT, target)
    finally:
        any_classifier.model.float()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_the_answer_is_the_ordinary_one(any_classifier):
    """A rule changes slopes, never values."""
    from bert.explain.relevance import Rules
    ids = torch.tensor([any_classifier.encode(TEXT).ids])
    logits = any_classifier.model(ids, hook=Rules(any_classifier.model)).logits
    with torch.inference_mode():
        torch.testing.assert_close(logits, any_classifier.model(ids).logits, atol=1e-5, rtol=1e-4)


def test_a_contrast_is_the_difference_of_its_two_classes(any_classifier):
    one, other, both = (relevance(any_classifier, TEXT, target)
                        for target in (Target(0), Target(1), Target(0, 1)))
    np.testing.assert_allclose(one - other, both, atol=1e-4)


def test_an_attribution_names_its_class_and_has_a_value_for_every_piece(classifier):
    found = attribute(classifier, TEXT, "anger")
    assert found.key == "anger" and len(found.values) == len(found.encoding.pieces)
    np.testing.assert_array_equal(
        found.values, relevance(classifier, TEXT, Target.named(classifier, "anger")))


def test_an_unknown_class_is_named(classifier):
    with pytest.raises(ValueError, match="'boredom' is not a class"):
        attribute(classifier, TEXT, "boredom")


def test_nothing_is_left_behind_on_the_model(classifier):
    relevance(classifier, TEXT, Target(0))
    assert all(parameter.grad is None for parameter in classifier.model.parameters())


def test_a_checkpoint_without_classifier_says_so(pretrained_folder):
    with pytest.raises(ValueError, match="no classifier"):
        relevance(EmotionClassifier.load(pretrained_folder), TEXT, Target(0))
