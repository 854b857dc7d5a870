"""What is to be explained: one class, or one class rather than another."""

import pytest
import torch

from bert.explain.target import Target

LOGITS = torch.tensor([[1.0, 4.0, 2.5], [0.0, -1.0, 3.0]])


def test_a_class_is_its_logit_its_lead_and_its_probability():
    target = Target(1)
    assert target.score(LOGITS).tolist() == [4.0, -1.0]
    assert target.margin(LOGITS).tolist() == [1.5, -4.0]
    torch.testing.assert_close(target.probability(LOGITS), LOGITS.softmax(dim=-1)[:, 1])


def test_a_contrast_is_the_difference_and_the_probability_among_the_two():
    target = Target(1, 2)
    assert target.score(LOGITS).tolist() == target.margin(LOGITS).tolist() == [1.5, -4.0]
    torch.testing.assert_close(target.probability(LOGITS), LOGITS[:, 1:].softmax(dim=-1)[:, 0])


def test_a_single_class_has_nothing_to_be_ahead_of():
    assert Target(0).margin(torch.tensor([[2.0]])).tolist() == [2.0]


def test_the_leading_class_is_the_answer_and_the_contrast_the_second_one(any_classifier):
    ranked = any_classifier("we laughed all night").ranked()
    target = Target.leading(any_classifier, "we laughed all night", contrast=True)
    assert [any_classifier.keys[i] for i in (target.index, target.against)] == [
        key for key, _ in ranked[:2]]
    assert Target.leading(any_classifier, "we laughed all night").against is None


@pytest.mark.parametrize(("keys", "part"), [
    (("boredom",), "'boredom' is not a class"), (("joy", "boredom"), "'boredom' is not a class"),
    (("joy", "joy"), "cannot be compared with itself")])
def test_classes_that_cannot_be_explained_are_named(classifier, keys, part):
    with pytest.raises(ValueError, match=part):
        Target.named(classifier, *keys)
