"""Frequent words in their joined form: what the exchange of pieces changes, and what it keeps."""

import json

import pytest
import torch

from bert.checkpoint import load_checkpoint
from bert.repiece import JOINED_RARER, count_pieces, exchanges, is_word, repieced
from bert.tokenizer import WordPieceTokenizer

LINES = ["happy to be happy", "so happy today", "오늘 정말 행복하다", "정말 정말 행복하다",
         "rarely zyzzyx"]


@pytest.fixture(scope="module")
def plain() -> WordPieceTokenizer:
    return WordPieceTokenizer.train(LINES * 20, vocab_size=200)


@pytest.fixture
def exchange(plain: WordPieceTokenizer) -> dict[int, int]:
    return exchanges(plain.vocabulary(), count_pieces(plain, LINES), words=2)


def test_a_lost_space_leaves_the_frequent_word_whole(plain, exchange):
    after = repieced(plain, exchange)
    assert plain.encode("sohappy").pieces[1:-1] != ["so", "##happy"]
    assert after.encode("sohappy").pieces[1:-1] == ["so", "##happy"]
    assert after.encode("오늘정말").pieces[1:-1] == ["오늘", "##정말"]


def test_words_with_their_spaces_are_the_pieces_they_were(plain, exchange):
    after = repieced(plain, exchange)
    for line in LINES[:4]:
        assert after.encode(line).ids == plain.encode(line).ids


def test_the_rarest_pieces_go_and_every_other_one_keeps_its_id(plain, exchange):
    before, after = plain.vocabulary(), repieced(plain, exchange).vocabulary()
    counts = count_pieces(plain, LINES)
    assert len(after) == len(before) == len(set(after))
    assert {i for i, piece in enumerate(after) if piece != before[i]} == set(exchange)
    assert max(counts[i] for i in exchange) <= min(counts[i] for i in exchange.values())


def test_letters_and_special_tokens_are_never_given_up(plain):
    exchange = exchanges(plain.vocabulary(), {}, words=10_000)
    assert exchange and not {*exchange} & {*plain.special_ids}
    after = repieced(plain, exchange)
    assert plain.unk_id not in after.encode("zyzzyx 행복").ids
    assert all(len(plain.vocabulary()[i].removeprefix("##")) > 1 for i in exchange)


def test_the_same_text_makes_the_same_exchange(plain, exchange):
    again = exchanges(plain.vocabulary(), count_pieces(plain, LINES, at_once=2), words=2)
    assert again == exchange and list(again) == list(exchange)


@pytest.mark.parametrize(("piece", "expected"), [
    ("happy", True), ("정말", True), ("so", False), ("정", False), ("##ing", False),
    ("[CLS]", False), ("12", False), ("!", False)])
def test_only_what_people_write_as_a_word_gets_a_joined_form(piece, expected):
    assert is_word(piece) is expected


def test_a_joined_form_begins_as_its_word(call, tmp_path, pretrained_folder, texts):
    (tmp_path / "lines.txt").write_text("\n".join(texts * 3) + "\n", encoding="utf-8")
    done = call("bert.repiece", pretrained_folder, "--text", tmp_path / "lines.txt", "--words", 5,
                "--megabytes", 0.001, "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "") and "5 pieces exchanged" in done.out
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["repiece"]["pieces"] == 5
    before, after = load_checkpoint(pretrained_folder), load_checkpoint(tmp_path / "out")
    pieces = after.tokenizer.vocabulary()
    places = [i for i, piece in enumerate(before.tokenizer.vocabulary()) if piece != pieces[i]]
    words = [pieces.index(pieces[i].removeprefix("##")) for i in places]
    assert len(places) == 5
    table = after.model.bert.embeddings.word_embeddings.weight
    assert torch.equal(table[places], table[words])
    rarer = (after.model.mlm.bias[words] - after.model.mlm.bias[places]).exp()
    assert rarer.detach().numpy() == pytest.approx(JOINED_RARER, rel=0.01)
    same = [i for i in range(len(pieces)) if i not in places]
    old = before.model.bert.embeddings.word_embeddings.weight
    assert torch.allclose(table[same], old[same], atol=1e-3)


@pytest.mark.parametrize(("arguments", "part"), [
    (["{tmp}/gone", "--text", "{tmp}/lines.txt", "--out", "{tmp}/out"], "gone is not a folder"),
    (["{checkpoint}", "--text", "{tmp}/lines.txt", "--out", "{tmp}/out", "--words", "0"],
     "--words"),
    (["{checkpoint}", "--text", "{tmp}/gone.txt", "--out", "{tmp}/out"],
     "gone.txt is not there")])
def test_a_wrong_call_is_one_sentence(call, tmp_path, emotion_folder, arguments, part):
    (tmp_path / "lines.txt").write_text("so happy\n", encoding="utf-8")
    done = call("bert.repiece", *(argument.format(tmp=tmp_path, checkpoint=emotion_folder)
                                  for argument in arguments))
    assert done.code == 2 and part in done.err and done.err.count("\n") == 1
