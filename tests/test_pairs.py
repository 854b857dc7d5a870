"""Corpora, sentence pairs and masks."""

import numpy as np
import pytest

from bert.corpus import TokenCorpus, batches_by_length, read_labelled
from bert.pairs import FOLLOWS, NOT_A_PAIR, RANDOM, Masking, PretrainData, mask_tokens, plan_epoch
from bert.tokenizer import WordPieceTokenizer

WORDS = "집 길 산 강 별 꿈 밤 낮 봄 눈 sun moon rain wind tree road home song book door".split()


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    """Sixty documents of two to nine sentences, every sentence different."""
    draw = np.random.default_rng(0)
    return [[" ".join(draw.choice(WORDS, 6)) + f" {document} {place}"
             for place in range(2 + document % 8)] for document in range(60)]


@pytest.fixture(scope="module")
def tokenizer(sentences) -> WordPieceTokenizer:
    return WordPieceTokenizer.train([s for d in sentences for s in d], vocab_size=200)


@pytest.fixture
def corpus(sentences, tokenizer, tmp_path) -> TokenCorpus:
    documents = tmp_path / "documents.txt"
    documents.write_text("\n\n".join("\n".join(d) for d in sentences), encoding="utf-8")
    lines = tmp_path / "lines.txt"
    lines.write_text("alone in the rain\nsun and moon\n", encoding="utf-8")
    return TokenCorpus.prepare(tmp_path / "tokens", tokenizer, [documents], [lines])


def test_a_blank_line_ends_a_document_and_lines_stand_alone(corpus, sentences):
    assert corpus.num_documents == len(sentences) + 2
    assert np.diff(corpus.documents)[:3].tolist() == [len(d) for d in sentences[:3]]
    assert np.diff(corpus.documents)[-2:].tolist() == [1, 1]


def test_a_corpus_is_tokenised_once(corpus, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(WordPieceTokenizer, "encode_ids", None)
    again = TokenCorpus.prepare(tmp_path / "tokens", tokenizer, [tmp_path / "documents.txt"],
                                [tmp_path / "lines.txt"])
    assert np.array_equal(again.ids, corpus.ids)


def test_a_changed_file_is_tokenised_again(corpus, tokenizer, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("only this\n", encoding="utf-8")
    again = TokenCorpus.prepare(tmp_path / "tokens", tokenizer, [tmp_path / "documents.txt"],
                                [path])
    assert again.num_documents == corpus.num_documents - 1


def test_half_of_the_pairs_are_strangers_from_another_document(corpus):
    document_of = np.repeat(np.arange(corpus.num_documents), np.diff(corpus.documents))
    starts = np.asarray(corpus.sentences)
    shares = []
    for epoch in range(20):
        examples = plan_epoch(corpus, 32, seed=1, epoch=epoch)
        for (begin, _, second, _), target in zip(examples.spans, examples.targets, strict=True):
            first_sentence = np.searchsorted(starts, begin, side="right") - 1
            second_sentence = np.searchsorted(starts, second, side="right") - 1
            if target == RANDOM:
                assert document_of[first_sentence] != document_of[second_sentence]
            if target == FOLLOWS:
                assert document_of[first_sentence] == document_of[second_sentence]
        pairs = examples.targets[examples.targets != NOT_A_PAIR]
        shares.append((pairs == RANDOM).mean())
    assert 0.4 < np.mean(shares) < 0.6


def test_a_true_pair_continues_where_the_first_part_ends(corpus):
    examples = plan_epoch(corpus, 64, seed=3, epoch=0)
    follows = examples.spans[examples.targets == FOLLOWS]
    assert len(follows) > 10
    assert np.array_equal(follows[:, 1], follows[:, 2])


def test_examples_fit_and_every_sentence_is_used(corpus):
    for length in (16, 32, 64):
        examples = plan_epoch(corpus, length, seed=0, epoch=0)
        assert examples.lengths().max() <= length
        firsts = examples.spans[:, 0]
        assert len(firsts) >= corpus.num_documents


def test_an_epoch_is_the_same_when_planned_again_and_another_differs(corpus, tokenizer):
    def ids(epoch: int) -> np.ndarray:
        data = PretrainData(corpus, tokenizer, 32, 256, 0.15, False, seed=5)
        return data.batch(epoch, 0).ids
    assert np.array_equal(ids(0), ids(0))
    assert ids(0).shape != ids(1).shape or not np.array_equal(ids(0), ids(1))


def test_batches_hold_similar_lengths_and_every_example_once():
    lengths = np.random.default_rng(0).integers(4, 60, 1_000)
    batches = batches_by_length(lengths, 512, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(1_000))
    assert all(lengths[batch].max() * len(batch) <= 512 for batch in batches)
    padding = sum((lengths[b].max() - lengths[b]).sum() for b in batches)
    assert padding < 0.02 * lengths.sum()


def test_special_tokens_are_never_masked(corpus, tokenizer):
    data = PretrainData(corpus, tokenizer, 32, 512, 0.5, False, seed=0)
    batch = data.batch(0, 0)
    special = np.isin(np.where(batch.mlm_targets >= 0, batch.mlm_targets, 10),
                      tokenizer.special_ids)
    assert not special.any()
    assert (batch.ids[:, 0] == tokenizer.cls_id).all()


def test_masking_follows_80_10_10():
    draw = np.random.default_rng(0)
    ids = draw.integers(5, 1_000, (400, 64))
    masked, is_masked = mask_tokens(ids, np.ones_like(ids, dtype=bool), np.ones(1_000, dtype=bool),
                                    4, np.arange(5, 1_000), draw)
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


def test_whole_words_are_masked_together(tokenizer):
    masking = Masking(tokenizer)
    rows = tokenizer.encode_ids(["sun 12345678 moon 98765432 rain 55512355 tree"] * 60)
    ids, is_token = tokenizer.frame(rows)
    _, is_masked = masking(ids, is_token, np.random.default_rng(0), 0.3, whole_word=True)
    inside = ~masking.begins_word[ids] & is_token
    assert inside.any()
    assert (is_masked[:, 1:] == is_masked[:, :-1])[inside[:, 1:]].all()


@pytest.mark.parametrize(("content", "complaint"), [
    (b"label\tlang\n", "line 1: found label, lang; expected the columns"),
    (b"label\tlang\tlevel\tpair\ttext\njoy\tko\n", "line 2: 2 columns; expected 5"),
    (b"label\tlang\tlevel\tpair\ttext\nbliss\tko\teasy\t\thi\n", "line 2: unknown label 'bliss'"),
    (b"label\tlang\tlevel\tpair\ttext\njoy\tko\teasy\t\t \n", "line 2: the text is empty"),
    (b"label\tlang\tlevel\tpair\ttext\n", "has a header but no line"),
    (b"label\tlang\tlevel\tpair\ttext\njoy\tko\teasy\t\t\xff\n", "line 2: not UTF-8"),
    (b"", "line 1: found nothing"),
])
def test_a_bad_labelled_file_is_named_with_its_line(tmp_path, content, complaint):
    path = tmp_path / "lines.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        read_labelled(path)
