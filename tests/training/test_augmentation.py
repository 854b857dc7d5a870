import numpy as np

from bert.training.augmentation import Augmentation, known_cuts, text_noise


def test_a_changed_line_differs_a_little_and_is_drawn_from_the_seed():
    text = "드디어 시험에 합격해서 정말 기쁘다."
    rng = np.random.default_rng(0)
    changed = [text_noise(text, rng) for _ in range(200)]
    assert changed == [text_noise(text, again) for again in [np.random.default_rng(0)]
                       for _ in range(200)]
    assert len(set(changed)) > 40
    assert all(abs(len(line) - len(text)) <= 4 for line in changed)
    assert {text_noise("a", rng).lower()[:1] for _ in range(50)} == {"a"}
    assert {len(text_noise("", rng)) for _ in range(50)} <= set(range(5))


def test_a_piece_is_cut_into_two_known_ones(tokenizer):
    pieces = tokenizer.vocabulary()
    cuts = known_cuts(tokenizer)
    assert sum(map(len, cuts)) > 50
    for whole, pairs in enumerate(cuts):
        for first, second in pairs:
            assert pieces[first] + pieces[second].removeprefix("##") == pieces[whole]
            assert pieces[second].startswith("##")


def test_words_cut_into_other_pieces_are_still_the_same_words(tokenizer, texts):
    rng = np.random.default_rng(0)
    ids = tokenizer.encode_ids([" ".join(texts)])[0]
    assert Augmentation(tokenizer, 512).cut(ids, rng) == ids
    ways = [Augmentation(tokenizer, 512, subword=0.3).cut(ids, rng) for _ in range(20)]
    assert len({tuple(way) for way in ways}) > 10
    assert {tokenizer.decode(way) for way in ways} == {tokenizer.decode(ids)}
    assert tokenizer.unk_id not in {i for way in ways for i in way}


def test_lines_are_written_anew_for_every_reading(tokenizer, texts):
    plain = Augmentation(tokenizer, 64)
    assert all(plain.read(texts, np.random.default_rng(i))[0] == tokenizer.encode_ids(texts)
               for i in range(5))
    changed = Augmentation(tokenizer, 12, noise=0.9, subword=0.2)
    read = [changed.read(texts, np.random.default_rng(i)) for i in range(5)]
    assert len({str(rows) for rows, _ in read}) == 5
    assert all(max(lengths) <= 12 and [len(row) + 2 for row in rows] == lengths.tolist()
               for rows, lengths in read)


def test_a_line_of_nothing_is_one_unknown_piece(tokenizer):
    rows, lengths = Augmentation(tokenizer, 12).read([""], np.random.default_rng(0))
    assert rows == [[tokenizer.unk_id]] and lengths.tolist() == [3]


def test_special_tokens_are_never_dropped(tokenizer, texts):
    ids, _ = tokenizer.frame(tokenizer.encode_ids(texts))
    dropped = Augmentation(tokenizer, 64, dropout=1.0).drop_tokens(ids, np.random.default_rng(0))
    is_special = np.isin(ids, tokenizer.special_ids)
    assert np.array_equal(dropped[is_special], ids[is_special])
    assert (dropped[~is_special] == tokenizer.mask_id).all()
