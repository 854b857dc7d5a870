import hashlib
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest
from training_fixtures import WORDS

from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import (
    TokenCorpus,
    is_held_out,
    read_documents,
    read_first_column,
    source_name,
    text_mark,
)


def test_a_blank_line_ends_a_document_and_lines_stand_alone(corpus, sentences):
    assert corpus.num_documents == len(sentences) + 2
    assert np.diff(corpus.documents)[:3].tolist() == [len(d) for d in sentences[:3]]
    assert np.diff(corpus.documents)[-2:].tolist() == [1, 1]


def test_every_source_knows_its_documents(corpus):
    assert corpus.sources == ("en_tale_docs", "ko_talk_docs", "en_note_lines")
    assert corpus.first_documents.tolist() == [0, 40, 60, 62]


def test_the_pieces_of_a_sentence_are_those_of_the_tokenizer(corpus, sentences, corpus_tokenizer):
    begin, end = corpus.sentences[:2]
    assert corpus.ids[begin:end].tolist() == corpus_tokenizer.encode_ids(sentences[0][:1])[0]


def test_a_sentence_is_known_by_the_first_64_bits_of_its_sha256(corpus, sentences):
    flat = [sentence for document in sentences for sentence in document]
    assert corpus.marks[:len(flat)].tolist() == [text_mark(sentence) for sentence in flat]
    assert f"{text_mark('고마워'):016x}" == hashlib.sha256("고마워".encode()).hexdigest()[:16]


def test_a_packed_file_is_read_as_it_is(corpus_files, sentences, tmp_path):
    packed = tmp_path / "en_tale_docs.txt.xz"
    packed.write_bytes(lzma.compress(corpus_files[0].read_bytes()))
    assert list(read_documents(packed)) == sentences[:40]
    assert source_name(packed) == "en_tale_docs"


def test_of_a_tab_separated_file_the_first_column_is_read(tmp_path):
    (tmp_path / "x.tsv").write_text("\ufeffso happy \tjoy\n\n\tanger\nno\n", encoding="utf-8")
    assert list(read_first_column(tmp_path / "x.tsv")) == ["so happy", "no"]


# ---------------------------------------------------------------------------------- held out


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> list[list[str]]:
    """Two thousand documents of two sentences."""
    rng = np.random.default_rng(1)
    return [[" ".join(rng.choice(WORDS, 4)) + f" {number} {place}" for place in range(2)]
            for number in range(2_000)]


def test_one_document_in_a_hundred_is_held_out_and_never_trained_on(many, corpus_tokenizer,
                                                                    tmp_path):
    path = tmp_path / "many_docs.txt"
    path.write_text("\n\n".join("\n".join(document) for document in many), encoding="utf-8")
    train, held = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, [path])
    assert 8 <= held.num_documents <= 35
    assert train.num_documents + held.num_documents == len(many)
    kept_back = {text_mark(sentence) for document in many if is_held_out(document)
                 for sentence in document}
    assert set(held.marks.tolist()) == kept_back
    assert not kept_back & set(train.marks.tolist())


def test_the_same_documents_are_held_out_wherever_they_stand(many, corpus_tokenizer, tmp_path):
    marks = []
    for name, documents in (("forward_docs.txt", many), ("backward_docs.txt", many[::-1])):
        (tmp_path / name).write_text("\n\n".join("\n".join(d) for d in documents),
                                     encoding="utf-8")
        _, held = TokenCorpus.prepare(tmp_path / f"{name}.tokens", corpus_tokenizer,
                                      [tmp_path / name])
        marks.append(sorted(held.marks.tolist()))
    assert marks[0] == marks[1] and marks[0]


# ---------------------------------------------------------------------------------- once


@pytest.fixture
def copied(corpus_files, tmp_path):
    """The files in a folder of their own, to be changed."""
    return [Path(shutil.copy(path, tmp_path)) for path in corpus_files]


def test_a_corpus_is_tokenised_once(copied, corpus_tokenizer, tmp_path, monkeypatch):
    first, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, copied)
    monkeypatch.setattr(WordPieceTokenizer, "encode_ids", None)
    again, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, copied)
    assert np.array_equal(again.ids, first.ids)


def test_a_changed_file_is_tokenised_again(copied, corpus_tokenizer, tmp_path):
    first, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, copied)
    copied[2].write_text("only this\n", encoding="utf-8")
    again, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, copied)
    assert again.num_documents == first.num_documents - 1


def test_another_vocabulary_tokenises_again(copied, corpus_tokenizer, page_tokenizer, tmp_path):
    TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, copied)
    again, _ = TokenCorpus.prepare(tmp_path / "tokens", page_tokenizer, copied)
    facts = json.loads((tmp_path / "tokens" / "train" / "corpus.json").read_text())
    assert facts["made_from"]["vocabulary"] == page_tokenizer.digest()
    assert len(again.ids) == facts["pieces"]


@pytest.mark.parametrize(("content", "complaint"), [
    (None, "x_docs.txt is not there"), (b"\n\n \n", "no text in it"),
    (b"fine\n\xff\xfe\n", "x_docs.txt, line 2: not UTF-8 text")])
def test_a_file_that_holds_no_text_is_one_sentence(content, complaint, corpus_tokenizer, tmp_path):
    path = tmp_path / "x_docs.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, [path])
