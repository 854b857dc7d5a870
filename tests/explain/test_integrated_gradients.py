"""Integrated gradients: their sum, and what they may not do."""

import numpy as np
import pytest
import torch

from bert.classifier import EmotionClassifier
from bert.emotions import KEYS
from bert.explain.integrated_gradients import ENOUGH, integrated_gradients, score
from bert.explain.target import Target

TEXT = "드디어 마라톤을 완주했다"


def attribute(classifier, key, against=None):
    return integrated_gradients(classifier, TEXT, Target.named(classifier, key, against))


@pytest.mark.parametrize("key", ["achievement", "anger"])
def test_the_sum_over_the_pieces_is_the_score_that_was_gained(classifier, key):
    found = attribute(classifier, key)
    assert found.total == pytest.approx(found.gained, rel=2 * ENOUGH)
    assert found.error <= 2 * ENOUGH


def test_the_gain_is_the_difference_of_two_ordinary_answers(classifier):
    encoding = classifier.encode(TEXT)
    masked = [piece if word is None else classifier.tokenizer.mask_id
              for piece, word in zip(encoding.ids, encoding.word_ids, strict=True)]
    with torch.inference_mode():
        logits = classifier.model(torch.tensor([encoding.ids, masked])).logits
    place = KEYS.index("achievement")
    found = attribute(classifier, "achievement")
    assert found.gained == pytest.approx(float(logits[0, place] - logits[1, place]), abs=1e-4)


def test_token_vectors_give_the_score_that_ids_give(classifier):
    ids = torch.tensor([classifier.encode(TEXT).ids])
    with torch.no_grad():
        tokens = classifier.model.bert.embeddings.word_embeddings(ids)
        torch.testing.assert_close(score(classifier.model, tokens, Target(3)),
                                   classifier.model(ids).logits[:, 3])


def test_a_contrast_is_the_difference_of_its_two_classes(classifier):
    found = attribute(classifier, "achievement", "anger")
    one, other = (attribute(classifier, key) for key in ("achievement", "anger"))
    assert found.gained == pytest.approx(one.gained - other.gained, abs=1e-4)
    assert found.total == pytest.approx(found.gained, rel=2 * ENOUGH)


def test_only_pieces_of_the_text_speak(classifier):
    found = attribute(classifier, "achievement")
    assert found.values[0] == found.values[-1] == 0.0
    assert np.abs(found.values[1:-1]).min() > 0.0
    assert len(found.values) == len(found.encoding.pieces)


def test_the_right_class_is_spoken_for(classifier):
    assert attribute(classifier, "achievement").total > 0.0
    assert (attribute(classifier, "achievement").total
            > attribute(classifier, "anger").total)


def test_nothing_is_left_behind_on_the_model(classifier):
    attribute(classifier, "joy")
    assert all(parameter.grad is None for parameter in classifier.model.parameters())


def test_a_checkpoint_without_classifier_says_so(pretrained_folder):
    with pytest.raises(ValueError, match="no classifier"):
        integrated_gradients(EmotionClassifier.load(pretrained_folder), TEXT, Target(0))
