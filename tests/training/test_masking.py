from dataclasses import replace

import numpy as np
import pytest

from bert.training import masking
from bert.training.distillation import SentenceVectors
from bert.training.masking import (
    FOLLOWS,
    NOT_A_PAIR,
    RANDOM,
    Masking,
    PretrainData,
    assemble,
    mask_tokens,
    plan_epoch,
)


def planned(corpus, length=32, seed=0, repeats=None):
    return plan_epoch(corpus, length, np.random.default_rng(seed), repeats)


def places(corpus, examples):
    """For each example the sentences and the documents that its two parts begin in."""
    document_of = np.repeat(np.arange(corpus.num_documents), np.diff(corpus.documents))
    first, second = (np.searchsorted(corpus.sentences, examples.spans[:, column], "right") - 1
                     for column in (0, 2))
    return first, second, document_of[first], document_of[second]


# ---------------------------------------------------------------------------------- pairs


def test_half_of_the_pairs_are_strangers_from_another_document(corpus):
    shares = []
    for seed in range(20):
        examples = planned(corpus, seed=seed)
        _, _, document, other = places(corpus, examples)
        assert (document != other)[examples.targets == RANDOM].all()
        assert (document == other)[examples.targets == FOLLOWS].all()
        shares.append((examples.targets == RANDOM).sum() / (examples.targets != NOT_A_PAIR).sum())
    assert 0.4 < np.mean(shares) < 0.6


def test_a_stranger_is_of_the_same_source(corpus):
    source_of = np.repeat(np.arange(len(corpus.sources)), np.diff(corpus.first_documents))
    for seed in range(10):
        examples = planned(corpus, seed=seed)
        _, _, document, other = places(corpus, examples)
        is_random = examples.targets == RANDOM
        assert np.array_equal(source_of[document], examples.sources)
        assert np.array_equal(source_of[document[is_random]], source_of[other[is_random]])
        assert {0, 1} <= set(examples.sources[is_random])


def test_lines_are_never_a_pair(corpus):
    examples = planned(corpus)
    assert (examples.targets[examples.sources == 2] == NOT_A_PAIR).all()
    assert (examples.sources == 2).sum() == 2


def test_a_true_pair_continues_where_the_first_part_ends(corpus):
    examples = planned(corpus, 64, seed=3)
    follows = examples.spans[examples.targets == FOLLOWS]
    assert len(follows) > 10
    assert np.array_equal(follows[:, 1], follows[:, 2])


def test_some_pairs_are_just_two_sentences(corpus, monkeypatch):
    def is_two(examples):
        """Whether both parts are one whole sentence."""
        first, second, _, _ = places(corpus, examples)
        ends = corpus.sentences[1:]
        whole = (examples.spans[:, 1] == ends[first]) & (examples.spans[:, 3] == ends[second])
        return whole[examples.targets != NOT_A_PAIR]

    usual = np.concatenate([is_two(planned(corpus, 128, seed)) for seed in range(10)]).mean()
    monkeypatch.setattr(masking, "TWO_SENTENCES", 1.0)
    assert is_two(planned(corpus, 128)).all()
    monkeypatch.setattr(masking, "TWO_SENTENCES", 0.0)
    never = np.concatenate([is_two(planned(corpus, 128, seed)) for seed in range(10)]).mean()
    assert usual > never + 0.15


def test_a_source_can_be_read_several_times_in_an_epoch(corpus):
    examples = planned(corpus, repeats={"en_note_lines": 3})
    assert (examples.sources == 2).sum() == 6
    once = planned(corpus)
    twice = planned(corpus, repeats={"ko_talk_docs": 2})
    assert (twice.sources == 1).sum() > 1.6 * (once.sources == 1).sum()


@pytest.mark.parametrize("length", [16, 32, 64])
def test_examples_fit_and_every_sentence_is_used(corpus, length):
    examples = planned(corpus, length)
    assert examples.lengths().max() <= length
    assert set(corpus.documents[:-1]) <= set(examples.sentences)
    is_read = np.zeros(len(corpus.ids), dtype=bool)
    for begin, end, second, last in examples.spans:
        is_read[begin:end] = is_read[second:last] = True
    assert is_read.mean() > {16: 0.7, 32: 0.8, 64: 0.9}[length]  # the rest is cut to fit


def test_a_pair_is_put_between_special_tokens_with_two_segments(corpus, corpus_tokenizer):
    examples = planned(corpus)
    pair = np.flatnonzero(examples.targets == RANDOM)[:1]
    ids, segment_ids, mask = assemble(corpus, examples, pair, corpus_tokenizer)
    begin, end, second, last = examples.spans[pair[0]]
    cls, sep = corpus_tokenizer.cls_id, corpus_tokenizer.sep_id
    assert ids[0].tolist() == [cls, *corpus.ids[begin:end], sep, *corpus.ids[second:last], sep]
    assert segment_ids[0].tolist() == [0] * (end - begin + 2) + [1] * (last - second + 1)
    assert mask.all()


# ---------------------------------------------------------------------------------- masks


def test_special_tokens_are_never_masked(corpus, corpus_tokenizer):
    batch = PretrainData(corpus, corpus_tokenizer, 32, 512, 0.5, seed=0).batch(0, 0)
    hidden = batch.mlm_targets[batch.is_masked]
    assert len(hidden) and not np.isin(hidden, corpus_tokenizer.special_ids).any()
    assert (batch.ids[:, 0] == corpus_tokenizer.cls_id).all()
    assert (batch.mlm_targets[~batch.is_masked] == masking.IGNORED).all()


def test_masking_follows_80_10_10():
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 1_000, (400, 64))
    masked, is_masked = mask_tokens(ids, np.ones_like(ids, dtype=bool), np.ones(1_000, dtype=bool),
                                    4, np.arange(5, 1_000), rng)
    assert abs(is_masked.mean() - 0.15) < 0.01
    assert (masked[~is_masked] == ids[~is_masked]).all()
    hidden = (masked[is_masked] == 4).mean()
    kept = (masked[is_masked] == ids[is_masked]).mean()
    assert abs(hidden - 0.8) < 0.02 and abs(kept - 0.1) < 0.02


def test_every_row_has_a_place_to_predict():
    ids = np.full((50, 3), 7)
    can_mask = np.zeros_like(ids, dtype=bool)
    can_mask[:, 1] = True
    _, is_masked = mask_tokens(ids, can_mask, np.ones(10, dtype=bool), 4, np.arange(5, 10),
                               np.random.default_rng(0))
    assert (is_masked == can_mask).all()


def test_whole_words_are_masked_together(corpus_tokenizer):
    hide = Masking(corpus_tokenizer)
    rows = corpus_tokenizer.encode_ids(["sun 12345678 moon 98765432 rain 55512355 tree"] * 60)
    ids, attention_mask = corpus_tokenizer.frame(rows)
    _, is_masked = hide(ids, attention_mask, np.random.default_rng(0), 0.3, whole_word=True)
    inside = ~hide.begins_word[ids] & attention_mask
    assert inside.any()
    assert (is_masked[:, 1:] == is_masked[:, :-1])[inside[:, 1:]].all()


# ---------------------------------------------------------------------------------- batches


def test_an_epoch_is_the_same_when_planned_again_and_another_differs(corpus, corpus_tokenizer):
    def ids(epoch: int) -> np.ndarray:
        return PretrainData(corpus, corpus_tokenizer, 32, 256, 0.15, seed=5).batch(epoch, 0).ids
    assert np.array_equal(ids(0), ids(0))
    assert ids(0).shape != ids(1).shape or not np.array_equal(ids(0), ids(1))


def test_processes_share_a_batch_without_overlap(corpus, corpus_tokenizer):
    batch = PretrainData(corpus, corpus_tokenizer, 32, 512, 0.15, seed=0).batch(0, 0)
    parts = [batch.rows(rank, 3) for rank in range(3)]
    assert sum(len(part.ids) for part in parts) == len(batch.ids)
    assert sum(part.num_tokens for part in parts) == batch.num_tokens
    assert np.array_equal(parts[1].nsp_targets, batch.nsp_targets[1::3])


def test_a_single_sentence_has_its_teachers_vector_and_a_pair_has_none(corpus, corpus_tokenizer):
    order = np.argsort(corpus.marks)
    rows = np.random.default_rng(0).normal(size=(len(order), 4)).astype(np.float16)
    data = PretrainData(corpus, corpus_tokenizer, 32, 512, 0.15, seed=0,
                        vectors=SentenceVectors(corpus.marks[order], rows[order]))
    seen = set()
    for number, chosen in enumerate(data.planned(0)):
        batch = data.batch(0, number)
        for row, example in enumerate(chosen):
            is_single = batch.nsp_targets[row] == NOT_A_PAIR
            sentence = data._examples.sentences[example]
            assert np.array_equal(batch.vectors[row], rows[sentence] * is_single)
            seen.add(bool(is_single))
    assert seen == {True, False}


def test_without_a_teacher_vectors_have_no_width(corpus, corpus_tokenizer):
    data = PretrainData(corpus, corpus_tokenizer, 32, 512, 0.15, seed=0)
    assert data.batch(0, 0).vectors.shape[1] == 0
    assert replace(data, seed=1).batch(0, 0).vectors.shape[1] == 0
