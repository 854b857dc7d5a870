"""What the answer loses without a word."""

import numpy as np
import pytest
import torch

from bert.explain import occlusion
from bert.explain.occlusion import logits_of, without_each_word
from bert.explain.target import Target
from bert.explain.words import sum_to_words, text_words

TEXT = "드디어 마라톤을 완주했다 and we laughed"


@torch.no_grad()
def logits(classifier, ids):
    return classifier.model(torch.tensor([ids])).logits[0]


@pytest.mark.parametrize("target", [Target(0), Target(1, 0)], ids=["class", "contrast"])
def test_a_masked_word_is_one_run_with_its_pieces_masked(any_classifier, target, monkeypatch):
    monkeypatch.setattr(occlusion, "TOKENS_AT_ONCE", 40)  # several batches
    encoding = any_classifier.encode(TEXT)
    found = without_each_word(any_classifier, TEXT, target)
    assert len(found) == len(TEXT.split())
    whole = target.score(logits(any_classifier, encoding.ids))
    for word, (_, places) in enumerate(text_words(encoding)):
        ids = list(encoding.ids)
        for place in places:
            ids[place] = any_classifier.tokenizer.mask_id
        assert found[word] == pytest.approx(float(whole - target.score(
            logits(any_classifier, ids))), abs=1e-4)


def test_a_deleted_word_is_the_text_without_it(any_classifier):
    found = without_each_word(any_classifier, TEXT, Target(0), delete=True)
    whole = logits(any_classifier, any_classifier.encode(TEXT).ids)[0]
    words = TEXT.split()
    for word in range(len(words)):
        rest = any_classifier.encode(" ".join(words[:word] + words[word + 1:]))
        assert found[word] == pytest.approx(float(whole - logits(any_classifier, rest.ids)[0]),
                                            abs=1e-4)


def test_the_only_word_can_go(any_classifier):
    for delete in (False, True):
        found = without_each_word(any_classifier, "laughed", Target(0), delete)
        assert found.shape == (1,) and np.isfinite(found).all()


def test_rows_of_different_length_do_not_disturb_each_other(any_classifier):
    rows = [any_classifier.encode(text).ids for text in (TEXT, "joy", "so much joy")]
    together = logits_of(any_classifier, rows)
    for row, answer in zip(rows, together, strict=True):
        torch.testing.assert_close(answer, logits(any_classifier, row), atol=1e-4, rtol=1e-4)


def test_a_word_has_the_sum_of_its_pieces_and_special_tokens_are_no_words(classifier):
    encoding = classifier.encode(TEXT)
    values = np.arange(len(encoding.ids), dtype=float)
    assert [name for name, _ in text_words(encoding)] == TEXT.split()
    assert sum_to_words(encoding, values).sum() == values[1:-1].sum()
