"""Whole words and joined forms for rare pieces: what the exchange changes, and what it keeps."""

import json
import shutil
from collections import Counter

import pytest
import torch

from bert.checkpoint import load_checkpoint
from bert.repiece import (
    RARER,
    Exchange,
    count_words,
    exchanges,
    is_word,
    may_go,
    repieced,
    wanted_wholes,
)
from bert.tokenizer import WordPieceTokenizer

LINES = ["happy to be happy", "so happy today", "오늘 정말 행복하다", "정말 정말 행복하다",
         "rarely zyzzyx"]
CUT = Counter({"shared": 9, "sly": 2, "하늘": 4, "하늘다": 2, "하늘정": 1, "하늘말": 1,
               "하늘오": 1, "말하": 9, "happy": 50})


@pytest.fixture(scope="module")
def plain() -> WordPieceTokenizer:
    return WordPieceTokenizer.train(LINES * 20, vocab_size=200)


@pytest.fixture
def joined(plain: WordPieceTokenizer) -> Exchange:
    return exchanges(plain, count_words(plain, LINES), whole=0, joined=2)


@pytest.fixture
def whole(plain: WordPieceTokenizer) -> Exchange:
    return exchanges(plain, CUT, whole=2, joined=0)


def pieces_of(tokenizer: WordPieceTokenizer, text: str) -> list[str]:
    return tokenizer.encode(text).pieces[1:-1]


def test_a_lost_space_leaves_the_frequent_word_whole(plain, joined):
    after = repieced(plain, joined)
    assert pieces_of(plain, "sohappy") != ["so", "##happy"]
    assert pieces_of(after, "sohappy") == ["so", "##happy"]
    assert pieces_of(after, "오늘정말") == ["오늘", "##정말"]


def test_a_word_that_was_cut_becomes_one_piece(plain, whole):
    after = repieced(plain, whole)
    assert len(pieces_of(plain, "shared")) > 1
    assert pieces_of(after, "shared") == ["shared"]
    assert pieces_of(after, "sly") == pieces_of(plain, "sly")  # two were asked for


def test_a_korean_stem_counts_by_all_the_words_it_begins(plain, whole):
    after = repieced(plain, whole)
    assert pieces_of(plain, "하늘다")[0] != "하늘"
    assert pieces_of(after, "하늘다") == ["하늘", "##다"]
    spelled = dict(zip(CUT, plain.encode_ids(list(CUT)), strict=True))
    wanted = wanted_wholes(CUT, spelled, plain.vocabulary())
    assert wanted == ["shared", "하늘", "sly"]  # 말하 goes on in one way only; happy is whole


def test_a_stem_is_taken_to_where_its_words_part(plain):
    counts = Counter({"행정말" + ending: 1 for ending in ("다", "오", "하", "늘", "복")})
    spelled = dict(zip(counts, plain.encode_ids(list(counts)), strict=True))
    assert wanted_wholes(counts, spelled, plain.vocabulary()) == ["행정말"]


def test_words_with_their_spaces_are_the_pieces_they_were(plain, joined):
    after = repieced(plain, joined)
    for line in LINES[:4]:
        assert after.encode(line).ids == plain.encode(line).ids


def test_the_rarest_pieces_go_and_every_other_one_keeps_its_id(plain, joined):
    before, after = plain.vocabulary(), repieced(plain, joined).vocabulary()
    counts = Counter(i for ids in plain.encode_ids(LINES) for i in ids)
    assert len(after) == len(before) == len(set(after))
    assert {i for i, piece in enumerate(after) if piece != before[i]} == set(joined)
    assert max(counts[i] for i in joined) <= min(
        counts[i] for piece in joined.values() for i in piece.parts)


def test_letters_special_tokens_and_joined_forms_are_never_given_up(plain, joined):
    after = repieced(plain, joined)
    everything = exchanges(after, CUT, whole=10_000, joined=10_000)
    assert everything and not {*everything} & {*after.special_ids}
    gone = [after.vocabulary()[i] for i in everything]
    assert not {"##happy", "##정말"} & {*gone}
    assert all(len(piece.removeprefix("##")) > 1 for piece in gone)
    assert after.unk_id not in repieced(after, everything).encode("zyzzyx 행복").ids


def test_the_same_text_makes_the_same_exchange(plain, joined):
    again = exchanges(plain, count_words(plain, reversed(LINES)), whole=0, joined=2)
    assert again == joined and list(again) == list(joined)


@pytest.mark.parametrize(("piece", "expected"), [
    ("happy", True), ("정말", True), ("so", False), ("정", False), ("##ing", False),
    ("[CLS]", False), ("12", False), ("!", False)])
def test_only_what_people_write_as_a_word_gets_a_piece_of_its_own(piece, expected):
    assert is_word(piece) is expected


@pytest.mark.parametrize(("piece", "expected"), [
    ("happy", True), ("##ppy", True), ("##happy", False), ("a", False), ("##a", False),
    ("[SEP]", False)])
def test_what_can_be_spelled_otherwise_may_go(piece, expected):
    assert may_go(piece, {"happy", "##happy"}) is expected


def test_a_new_piece_begins_as_the_mean_of_its_parts(call, tmp_path, pretrained_folder, texts):
    (tmp_path / "lines.txt").write_text("\n".join(texts * 3) + "\nstrangest thing\n" * 9,
                                        encoding="utf-8")
    done = call("bert.repiece", pretrained_folder, "--text", tmp_path / "lines.txt", "--whole", 2,
                "--joined", 3, "--megabytes", 0.001, "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "") and "5 pieces exchanged" in done.out
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["repiece"]["pieces"] == 5
    before, after = load_checkpoint(pretrained_folder), load_checkpoint(tmp_path / "out")
    pieces = after.tokenizer.vocabulary()
    places = [i for i, piece in enumerate(before.tokenizer.vocabulary()) if piece != pieces[i]]
    assert [pieces[i].startswith("##") for i in places].count(True) == 3
    parts = [before.tokenizer.encode_ids([pieces[i].removeprefix("##")])[0] for i in places]
    assert {len(part) > 1 for part in parts} == {True, False}
    for of in (lambda model: model.bert.embeddings.word_embeddings.weight,
               lambda model: model.mlm.bias[:, None]):
        old, new = of(before.model), of(after.model)
        rarer = torch.log(torch.tensor(float(RARER))) if old.shape[1] == 1 else 0.0
        for place, part in zip(places, parts, strict=True):
            assert torch.allclose(new[place], old[part].mean(dim=0) - rarer, atol=4e-3)
        same = [i for i in range(len(pieces)) if i not in places]
        assert torch.allclose(new[same], old[same], atol=1e-3)


def test_what_was_measured_before_the_exchange_is_left_behind(call, tmp_path, emotion_folder):
    shutil.copytree(emotion_folder, tmp_path / "start")
    (tmp_path / "start" / "metrics.json").write_text(
        '{"evaluate": {}, "baselines": {}, "finetune": {"seed": 0}}', encoding="utf-8")
    (tmp_path / "lines.txt").write_text("so happy today\n", encoding="utf-8")
    call("bert.repiece", tmp_path / "start", "--text", tmp_path / "lines.txt", "--joined", 1,
         "--megabytes", 0.001, "--out", tmp_path / "out")
    kept = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert set(kept) == {"finetune", "repiece"}


@pytest.mark.parametrize(("arguments", "part"), [
    (["{tmp}/gone", "--text", "{tmp}/lines.txt", "--joined", "1"], "gone is not a folder"),
    (["{checkpoint}", "--text", "{tmp}/lines.txt"], "--whole and --joined"),
    (["{checkpoint}", "--text", "{tmp}/lines.txt", "--whole", "-1"], "--whole and --joined"),
    (["{checkpoint}", "--text", "{tmp}/gone.txt", "--joined", "1"], "gone.txt is not there")])
def test_a_wrong_call_is_one_sentence(call, tmp_path, emotion_folder, arguments, part):
    (tmp_path / "lines.txt").write_text("so happy\n", encoding="utf-8")
    done = call("bert.repiece", *(argument.format(tmp=tmp_path, checkpoint=emotion_folder)
                                  for argument in arguments), "--out", tmp_path / "out")
    assert done.code == 2 and part in done.err and done.err.count("\n") == 1
