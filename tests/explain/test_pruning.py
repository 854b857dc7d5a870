"""The pruning curve: which heads go first, and how many answers stay."""

import numpy as np
import pytest
import torch

from bert.errors import UserError
from bert.explain.mean_ablation import logits_without
from bert.explain.pruning import (
    can_go,
    head_masks,
    pruning_curve,
    removal_counts,
    unchanged_shares,
)
from bert.explain.saliency import head_importance
from bert.explain.target import Target


def test_the_curve_goes_from_no_head_to_all_of_them():
    assert removal_counts(4) == [0, 1, 2, 3, 4]
    counts = removal_counts(144)
    assert counts[:3] == [0, 4, 8] and counts[-1] == 144 and len(counts) == 37
    assert len(removal_counts(1_000)) <= 37 and removal_counts(1_000)[-1] == 1_000


def test_a_mask_leaves_out_the_first_heads_of_the_order():
    masks = head_masks(np.array([2, 0, 3, 1]), [0, 1, 3, 4], (2, 2))
    assert masks.tolist() == [[[1, 1], [1, 1]], [[1, 1], [0, 1]], [[0, 1], [0, 0]],
                              [[0, 0], [0, 0]]]


def test_heads_can_go_until_the_curve_falls_for_the_first_time():
    assert can_go([0, 4, 8, 12], np.array([1.0, 0.97, 0.9, 0.96])) == 4
    assert can_go([0, 4], np.array([1.0, 1.0])) == 4
    assert can_go([0, 4], np.array([1.0, 0.2])) == 0


def test_shares_are_those_of_the_texts_counted_one_by_one(classifier, texts):
    off = [(1, 1), (2, 1), (2, 2)]
    masks = torch.stack([torch.ones(2, 2), classifier.head_mask(off)])
    found = unchanged_shares(classifier, texts, masks)
    answers = [logits_without(classifier, text, [[], off]).argmax(dim=-1).tolist()
               for text in texts]
    stay = [whole == pruned for whole, pruned in answers]
    assert found.tolist() == [1.0, pytest.approx(np.mean(stay))]
    assert found[1] < 1.0


def test_the_least_important_head_goes_first(classifier, texts):
    found = pruning_curve(classifier, {"ko": texts[::2], "en": texts[1::2], "xx": []})
    importance = np.mean([head_importance(classifier, text, Target.leading(classifier, text))
                          for text in texts], axis=0)
    wanted = sorted(((layer, head) for layer in (1, 2) for head in (1, 2)),
                    key=lambda place: importance[place[0] - 1, place[1] - 1])
    assert [tuple(place) for place in found["order"]] == wanted
    assert found["removed"] == [0, 1, 2, 3, 4] and found["languages"].keys() == {"ko", "en"}
    for own in found["languages"].values():
        assert own["texts"] == 10 and own["unchanged"][0] == 1.0
        assert own["can_go"] in found["removed"]


def test_any_checkpoint_has_a_curve(any_classifier):
    found = pruning_curve(any_classifier, {"en": ["The cat fell asleep on my lap"]})
    heads = any_classifier.config.num_hidden_layers * any_classifier.config.num_attention_heads
    assert len(found["order"]) == found["removed"][-1] == heads
    assert set(found["languages"]["en"]["unchanged"]) <= {0.0, 1.0}


def test_no_texts_are_one_sentence(classifier):
    with pytest.raises(UserError, match="no texts"):
        pruning_curve(classifier, {"ko": []})
