import random
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert.errors import UserError
from bert.tokenizer import EMOJI, LONGEST_TEXT, SPECIAL_TOKENS, UNK, WordPieceTokenizer, clean

KOREAN = "드디어 해냈다 정말 고마워 친구들이 곁에 있어 줬다 마음이 놓인다"
ENGLISH = "i finally finished the marathon and everyone clapped for me"


@pytest.fixture(scope="module")
def cased() -> WordPieceTokenizer:
    return WordPieceTokenizer.train([KOREAN, ENGLISH, ENGLISH.title(), "3.5 !?"], 200,
                                    lower_case=False)


# ---------------------------------------------------------------------------------- training


def test_the_vocabulary_has_exactly_the_size_asked_for(texts):
    for size in (7, 20, 100, 300):
        tokenizer = WordPieceTokenizer.train(texts, size)
        assert len(tokenizer) == len(set(tokenizer.vocabulary())) == size
    assert len(WordPieceTokenizer.train(["ab"], 1_000)) < 20 + len(set(EMOJI))


def test_the_same_text_gives_the_same_vocabulary(texts):
    digests = {WordPieceTokenizer.train(texts, 250).digest() for _ in range(5)}
    assert len(digests) == 1


def test_the_special_tokens_come_first(tokenizer):
    assert tuple(tokenizer.vocabulary()[:5]) == SPECIAL_TOKENS
    assert tokenizer.special_ids == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(("settings", "complaint"), [
    ({"vocab_size": 6}, "vocab_size is 6: expected at least 7"),
    ({"alphabet_size": 0}, "alphabet_size is 0: expected at least 1")])
def test_a_vocabulary_too_small_to_hold_a_letter_is_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        WordPieceTokenizer.train(["some text"], **settings)


def test_the_alphabet_keeps_the_most_frequent_characters():
    tokenizer = WordPieceTokenizer.train(["aaaa bbb cc d"], 100, alphabet_size=2)
    assert {"a", "##a", "b", "##b"} <= set(tokenizer.vocabulary())
    assert tokenizer.encode("abcd").pieces == ["[CLS]", "a", "##b", "c", "d", "[SEP]"]
    assert tokenizer.encode("abcd").ids.count(tokenizer.unk_id) == 2


def test_frequent_words_become_one_piece():
    tokenizer = WordPieceTokenizer.train(["고마워 고마워 고마워 thanks thanks thanks"] * 3, 60)
    assert tokenizer.encode("고마워 thanks").pieces == ["[CLS]", "고마워", "thanks", "[SEP]"]


# ---------------------------------------------------------------------------------- encoding


def test_a_text_stands_between_cls_and_sep(tokenizer):
    encoding = tokenizer.encode("드디어 해냈다")
    assert (encoding.ids[0], encoding.ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
    assert (encoding.pieces[0], encoding.pieces[-1]) == ("[CLS]", "[SEP]")
    assert set(encoding.segment_ids) == {0} and not encoding.truncated
    assert len(encoding.ids) == len(encoding.pieces) == len(encoding.offsets)


def test_a_pair_has_two_segments(tokenizer):
    encoding = tokenizer.encode("고마워", "I wonder")
    second = encoding.pieces.index("[SEP]") + 1
    assert encoding.segment_ids == [0] * second + [1] * (len(encoding.ids) - second)
    assert encoding.pieces.count("[SEP]") == 2
    alone = tokenizer.encode("고마워").ids + tokenizer.encode("I wonder").ids[1:]
    assert encoding.ids == alone


def test_lower_casing_is_a_choice(tokenizer, cased):
    assert tokenizer.encode("FINALLY Finally").ids == tokenizer.encode("finally finally").ids
    assert cased.encode("Finally").ids != cased.encode("finally").ids
    assert tokenizer.encode("FINALLY").words() == ["[CLS]", "FINALLY", "[SEP]"]


def test_hangul_is_syllables_and_never_jamo(tokenizer):
    apart = unicodedata.normalize("NFD", "드디어 마라톤")
    assert apart != "드디어 마라톤"
    assert tokenizer.encode(apart) == tokenizer.encode("드디어 마라톤")
    jamo = {chr(code) for code in (*range(0x1100, 0x1200), *range(0x3130, 0x3190))}
    trained = WordPieceTokenizer.train([apart] * 3, 50)
    assert not jamo & set("".join(trained.vocabulary()))


def test_control_characters_are_dropped(tokenizer):
    plain = tokenizer.encode("finally again")
    noisy = tokenizer.encode("fin\x00al\u200bly\ufeff\t\x07ag\u00adain\u200d")
    assert noisy.ids == plain.ids
    assert tokenizer.encode("finally\nagain\u2028finally").ids == \
        tokenizer.encode("finally again finally").ids


@pytest.mark.parametrize("rare", ["🦖", "👩‍👩‍👧", "漢", "é", "₩", "ﷺ", "\U0001f1f0\U0001f1f7"])
def test_a_rare_character_never_swallows_a_word(tokenizer, rare):
    known = tokenizer.encode("마라톤을").ids[1:-1]
    encoding = tokenizer.encode(f"마라톤을{rare}마라톤을 마라톤을")
    assert tokenizer.unk_id in encoding.ids
    inner = [i for i in encoding.ids[1:-1] if i != tokenizer.unk_id]
    assert inner == known * 3


@pytest.mark.parametrize("emoji", ["😀", "😭", "❤️", "👍"])
def test_an_emoji_that_people_type_is_a_piece_of_its_own(tokenizer, emoji):
    around = tokenizer.encode("마라톤을").ids[1:-1]
    ids = tokenizer.encode(f"마라톤을{emoji}마라톤을").ids[1:-1]
    assert [*around, ids[len(around)], *around] == ids
    assert tokenizer.vocabulary()[ids[len(around)]] == emoji.removesuffix("\ufe0f")


def test_a_word_of_known_letters_is_never_unknown(tokenizer):
    letters = [piece for piece in tokenizer.vocabulary() if len(piece) == 1 and piece.isalpha()]
    draw = random.Random(0)
    for length in (1, 2, 5, 20, 100, 101, 199, 1_000):
        word = "".join(draw.choices(letters, k=length))
        encoding = tokenizer.encode(word)
        assert tokenizer.unk_id not in encoding.ids
        assert "".join(piece.removeprefix("##") for piece in encoding.pieces[1:-1]) == word


def test_people_see_the_source_characters_where_a_piece_is_unknown(tokenizer):
    encoding = tokenizer.encode("Finally 🦖É漢!")
    unknown = [p for p, i in zip(encoding.pieces, encoding.ids, strict=True)
               if i == tokenizer.unk_id]
    assert unknown == ["🦖", "É", "漢", "!"]
    assert UNK not in encoding.pieces


def test_offsets_lead_back_to_the_text(tokenizer):
    text = "  Finally,\t드디어 (해냈다)…😀 ok\u200b"
    encoding = tokenizer.encode(text)
    for piece, (start, end) in zip(encoding.pieces[1:-1], encoding.offsets[1:-1], strict=True):
        assert text[start:end].lower() == piece.removeprefix("##")
    assert encoding.offsets[0] == encoding.offsets[-1] == (0, 0)


def test_pieces_are_grouped_into_words(tokenizer):
    encoding = tokenizer.encode("마라톤을 완주했다! Finally,fixed 😀😀")
    assert encoding.words() == ["[CLS]", "마라톤을", "완주했다!", "Finally,fixed", "😀😀", "[SEP]"]
    places = [place for _, group in encoding.grouped() for place in group]
    assert places == list(range(len(encoding.ids)))


def test_the_same_word_twice_is_two_groups(tokenizer):
    assert tokenizer.encode("the the", "the").words() == [
        "[CLS]", "the", "the", "[SEP]", "the", "[SEP]"]


def test_special_tokens_typed_by_hand_are_read_as_transformers_reads_them(tokenizer):
    encoding = tokenizer.encode("the [MASK] is empty")
    assert encoding.ids[2] == tokenizer.mask_id and encoding.pieces[2] == "[MASK]"
    assert encoding.words() == ["[CLS]", "the", "[MASK]", "is", "empty", "[SEP]"]


def test_half_a_character_becomes_the_replacement_character(tokenizer):
    encoding = tokenizer.encode("the \ud800 bug \udcff")
    assert encoding.texts == ("the \ufffd bug \ufffd",)
    assert encoding.pieces == ["[CLS]", "the", "\ufffd", "bug", "\ufffd", "[SEP]"]


# ---------------------------------------------------------------------------------- length


def test_a_long_text_is_cut_and_says_so(tokenizer):
    whole = tokenizer.encode("the bug " * 20)
    for length in (3, 12, 41):
        cut = tokenizer.encode("the bug " * 20, max_length=length)
        assert cut.truncated and len(cut.ids) == length
        assert cut.ids == whole.ids[:length - 1] + [tokenizer.sep_id]
    assert not tokenizer.encode("the bug " * 20, max_length=42).truncated


@pytest.mark.parametrize(("first", "second"), [
    (3, 30), (30, 3), (20, 20), (30, 29), (1, 1), (0, 9)])
@pytest.mark.parametrize("max_length", [3, 4, 5, 12, 13, 30])
def test_a_pair_is_cut_at_its_longer_side_piece_by_piece(tokenizer, first, second, max_length):
    lengths = [first, second]
    while sum(lengths) > max_length - 3:
        lengths[lengths.index(max(lengths))] -= 1
    encoding = tokenizer.encode("the " * first, "bug " * second, max_length)
    assert sorted(lengths) == sorted(
        [encoding.pieces.count("the"), encoding.pieces.count("bug")])
    assert encoding.truncated == (lengths != [first, second])
    assert len(encoding.ids) <= max_length


def test_a_book_is_looked_at_only_at_its_beginning(tokenizer):
    encoding = tokenizer.encode("the " * LONGEST_TEXT)
    assert encoding.truncated and len(encoding.ids) == LONGEST_TEXT // 4 + 2
    assert not tokenizer.encode("i" * 500).truncated


def test_a_text_of_nothing_is_two_special_tokens(tokenizer):
    for text in ("", "   ", "\n\t", "\u200b\u00ad"):
        assert tokenizer.encode(text).ids == [tokenizer.cls_id, tokenizer.sep_id]


# ---------------------------------------------------------------------------------- batches


def test_a_batch_is_padded_at_the_end(tokenizer):
    encodings = tokenizer.encode_many(["the", "the bug is empty"], ["again", "the the"])
    batch = tokenizer.pad(encodings)
    assert batch.ids.shape == batch.attention_mask.shape == (2, len(encodings[1].ids))
    assert batch.ids.dtype == batch.segment_ids.dtype == np.int64
    width = batch.ids.shape[1]
    for row, encoding in enumerate(encodings):
        length = len(encoding.ids)
        assert batch.ids[row, :length].tolist() == encoding.ids
        assert batch.segment_ids[row, :length].tolist() == encoding.segment_ids
        assert (batch.ids[row, length:] == tokenizer.pad_id).all()
        assert batch.attention_mask[row].tolist() == [True] * length + [False] * (width - length)


def test_many_at_once_equal_one_by_one(tokenizer, texts):
    assert tokenizer.encode_many(texts, max_length=9) == \
        [tokenizer.encode(text, max_length=9) for text in texts]
    assert tokenizer.encode_ids(texts) == [tokenizer.encode(text).ids[1:-1] for text in texts]


def test_framed_rows_are_the_encodings_padded(tokenizer, texts):
    ids, attention_mask = tokenizer.frame(tokenizer.encode_ids(texts))
    batch = tokenizer.pad(tokenizer.encode_many(texts))
    assert np.array_equal(ids, batch.ids) and np.array_equal(attention_mask, batch.attention_mask)


def test_decoding_gives_the_words_back(tokenizer):
    ids = tokenizer.encode("finally the marathon").ids
    assert tokenizer.decode(ids) == "finally the marathon"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=60), st.integers(3, 40))
def test_whatever_is_typed_every_piece_can_be_traced_to_the_text(tokenizer, text, max_length):
    encoding = tokenizer.encode(text, max_length=max_length)
    assert len(encoding.ids) <= max_length
    assert encoding.texts == (clean(text),)
    "".join(encoding.pieces).encode("utf-8")
    for piece, word, span in list(zip(encoding.pieces, encoding.word_ids, encoding.offsets,
                                      strict=True))[1:-1]:
        assert piece and word is not None and 0 <= span[0] < span[1] <= len(encoding.texts[0])
    assert len(encoding.words()) <= len(encoding.pieces)


# ---------------------------------------------------------------------------------- disk


def test_saved_and_loaded_it_is_the_same(tokenizer, texts, tmp_path):
    tokenizer.save(tmp_path)
    loaded = WordPieceTokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.digest() == tokenizer.digest()
    assert loaded.encode_many(texts) == tokenizer.encode_many(texts)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\x00", b'{"model": {"type": "BPE"}}'])
def test_a_broken_file_is_named_in_one_sentence(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        WordPieceTokenizer.load(path)
    assert str(caught.value).startswith(f"{path} is not a usable tokenizer: ")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="tokenizer.json is missing: a checkpoint needs"):
        WordPieceTokenizer.load(tmp_path / "tokenizer.json")


def test_a_tokenizer_that_is_not_berts_is_refused(tmp_path):
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")).save(
        str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match=r"has no \[PAD\]: not a BERT tokenizer"):
        WordPieceTokenizer.load(tmp_path / "tokenizer.json")


def test_ids_with_gaps_keep_their_places(tokenizer, tmp_path):
    from tokenizers import Tokenizer, models

    vocabulary = {token: i for i, token in enumerate(SPECIAL_TOKENS)} | {"far": 9}
    Tokenizer(models.WordPiece(vocabulary, unk_token=UNK)).save(str(tmp_path / "tokenizer.json"))
    loaded = WordPieceTokenizer.load(tmp_path / "tokenizer.json")
    assert len(loaded) == 10 and loaded.vocabulary()[9] == "far"
