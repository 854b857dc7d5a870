"""Activation patching: parts of one text's run put into the run of another."""

import numpy as np
import pytest
import torch

from bert.explain import patching
from bert.explain.patching import KINDS, Place, align, patch, patched_logits, step_name
from bert.explain.target import Target

ONE, OTHER = "She left and the house is empty", "We laughed all night at the concert"


@torch.inference_mode()
def run(classifier, text):
    ids = torch.tensor([classifier.encode(text).ids])
    kept = {}
    logits = classifier.model(ids, hook=lambda name, value: kept.update({name: value[0]})).logits
    return logits[0], kept


def same_length(classifier):
    """Two texts of as many pieces, the longer one cut at a word."""
    words = [text.split() for text in (ONE, OTHER)]
    found = [(" ".join(one[:i]), " ".join(other[:j])) for one in words[:1] for other in words[1:]
             for i in range(len(one), 1, -1) for j in range(len(other), 1, -1)]
    return next((a, b) for a, b in found
                if len(classifier.encode(a).ids) == len(classifier.encode(b).ids))


def test_patching_everything_gives_the_other_texts_answer(any_classifier):
    one, other = same_length(any_classifier)
    receiver = any_classifier.encode(one)
    expected, known = run(any_classifier, other)
    everywhere = list(range(len(receiver.ids)))
    for layer in range(1, any_classifier.config.num_hidden_layers + 1):
        name = step_name("residual", layer, any_classifier.config.norm == "pre")
        found = patched_logits(any_classifier, receiver, name, known[name],
                               [Place("", "", everywhere, everywhere)])
        np.testing.assert_allclose(found[0], expected, atol=1e-5)


def test_patching_all_places_brings_all_of_the_difference_back(any_classifier):
    one, other = same_length(any_classifier)
    everywhere = list(range(len(any_classifier.encode(one).ids)))
    found = patch(any_classifier, one, other, places=[Place("", "", everywhere, everywhere)])
    np.testing.assert_allclose(found.shares[0], 1.0, atol=1e-3)


def test_patching_nothing_changes_nothing(any_classifier):
    receiver = any_classifier.encode(ONE)
    expected, known = run(any_classifier, ONE)
    places = [*align(receiver, receiver), Place("", "", [], [])]
    for kind in KINDS:
        for layer in range(1, any_classifier.config.num_hidden_layers + 1):
            name = step_name(kind, layer, any_classifier.config.norm == "pre")
            found = patched_logits(any_classifier, receiver, name, known[name], places)
            np.testing.assert_allclose(found, expected.expand(len(places), -1), atol=1e-5)


def test_the_map_is_one_run_for_each_kind_layer_and_place(any_classifier, monkeypatch):
    """Against a run of its own with one vector exchanged, some places at a time."""
    monkeypatch.setattr(patching, "TOKENS_AT_ONCE", 40)
    one, other = same_length(any_classifier)
    found = patch(any_classifier, one, other)
    size, layers = len(any_classifier.encode(one).ids), any_classifier.config.num_hidden_layers
    assert found.margins.shape == (3, layers, size) == found.shares.shape
    _, known = run(any_classifier, other)
    for kind, layer, place in [(0, 1, 2), (1, layers, 0), (2, 1, size - 1)]:
        wanted = step_name(KINDS[kind], layer, any_classifier.config.norm == "pre")

        def hook(name, value, wanted=wanted, place=place):
            if name == wanted:
                rest = torch.arange(value.size(1)) != place
                return torch.where(rest[None, :, None], value, known[wanted][None])

        with torch.inference_mode():
            logits = any_classifier.model(torch.tensor([any_classifier.encode(one).ids]),
                                          hook=hook).logits[0]
        assert found.margins[kind, layer - 1, place] == pytest.approx(
            float(found.target.margin(logits)), abs=1e-4)


def test_the_question_is_the_donors_answer_rather_than_the_receivers(classifier):
    found = patch(classifier, ONE, OTHER)
    keys = classifier.keys
    assert (keys[found.target.index], keys[found.target.against]) == ("joy", "sadness")
    assert found.receiver_margin < 0 < found.donor_margin
    mine = patch(classifier, ONE, OTHER, Target(2))
    assert mine.target == Target(2)


def test_texts_of_one_length_are_aligned_piece_by_piece(classifier):
    one, other = same_length(classifier)
    encodings = classifier.encode(one), classifier.encode(other)
    places = align(*encodings)
    assert [place.receiver for place in places] == [[i] for i in range(len(encodings[0].ids))]
    assert [place.donor_name for place in places] == encodings[1].pieces


def test_other_texts_are_aligned_word_by_word(classifier):
    one, other = classifier.encode("I finally fixed the bug"), classifier.encode("I fixed the door")
    assert len(one.ids) != len(other.ids)
    places = align(one, other)
    assert [(place.receiver_name, place.donor_name) for place in places] == [
        ("[CLS]", "[CLS]"), ("I", "I"), ("fixed", "fixed"), ("the", "the"), ("bug", "door"),
        ("[SEP]", "[SEP]")]
    for place in places:
        assert len(place.receiver) == len(place.donor) > 0


def test_words_exchanged_for_more_words_are_one_place(classifier):
    one, other = classifier.encode("the cat left"), classifier.encode("the three days after left")
    exchanged = next(place for place in align(one, other) if place.receiver_name == "cat")
    assert exchanged.donor_name == "three days after"
    assert len(exchanged.receiver) == len(exchanged.donor)


def test_texts_of_other_length_can_be_patched(any_classifier):
    found = patch(any_classifier, "I finally fixed the bug after days", "She left the house")
    assert np.isfinite(found.shares).all()
    assert found.margins.shape[-1] == len(found.places)


def test_two_texts_without_a_difference_are_refused(classifier):
    with pytest.raises(ValueError, match="no difference to bring back"):
        patch(classifier, ONE, ONE)
