from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from training_fixtures import EXAMPLES, LABELLED

from bert.emotions import KEYS
from bert.errors import UserError
from bert.training.augmentation import Augmentation
from bert.training.corpus import text_mark
from bert.training.examples import (
    Examples,
    LabelledData,
    LabelledLine,
    MixedLine,
    labelled_examples,
    mapped_lines,
    mixed_examples,
    read_contrast,
    read_label_map,
    read_labelled,
    read_llm_labels,
    read_mixed,
    read_public,
    read_translations,
    translated_lines,
)


def line(label, text="x", language="en"):
    return LabelledLine(label, language, "easy", "", text)


# ---------------------------------------------------------------------------------- files


def test_labelled_lines_are_read_as_they_stand(files):
    lines = read_labelled(files / "train.tsv")
    assert len(lines) == 22
    assert lines[0] == LabelledLine("achievement", "ko", "easy", "", EXAMPLES["achievement"][0])


@pytest.mark.parametrize(("content", "complaint"), [
    ("label\tlang\n", "line 1: found label, lang; expected the columns"),
    (LABELLED + "joy\tko\n", "line 2: 2 columns; expected 5"),
    (LABELLED + "bliss\tko\teasy\t\thi\n", "line 2: unknown label 'bliss'"),
    (LABELLED + "joy\tko\teasy\t\t \n", "line 2: the text is empty"),
    (LABELLED, "has a header but no line"),
    (LABELLED.encode() + b"joy\tko\teasy\t\t\xff\n", "line 2: not UTF-8"),
    ("", "line 1: found nothing"),
])
def test_a_bad_labelled_file_is_named_with_its_line(tmp_path, content, complaint):
    path = tmp_path / "lines.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=complaint):
        read_labelled(path)


@pytest.mark.parametrize(("read", "content", "complaint"), [
    (read_mixed, "first\tsecond\tlang\ttext\njoy\tnone\tko\thi\n", "line 2: unknown label 'none'"),
    (read_mixed, "first\tsecond\ttext\n", "expected the columns first, second, lang, text"),
    (lambda path: read_contrast(path, "test"),
     "split\tgroup\taccepted\tlang\ttext\ntest\tirony\tjoy,pride\tko\thi\n",
     "line 2: unknown label 'pride'"),
    (read_public, "only text\n", "line 1: expected text<TAB>label,label"),
    (read_public, "", "is empty: expected lines of text<TAB>label,label"),
    (lambda path: read_translations([path]), "고마워\n", "line 1: expected korean<TAB>english"),
    (lambda path: read_translations([path]), "ko\ten\n고마워\t\n", "line 2: expected korean"),
    (lambda path: read_llm_labels(path, [], "train"),
     "split\tlabels\tmark\ntrain\tjoy,pride\t00\n", "line 2: unknown label 'pride'")])
def test_every_other_file_is_named_with_its_line_as_well(read, content, complaint, tmp_path):
    path = tmp_path / "file.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=complaint):
        read(path)


def test_contrast_lines_are_those_of_the_split_with_all_accepted_answers(files):
    lines = read_contrast(files / "contrast.tsv", "test")
    assert [(found.group, found.accepted) for found in lines] == [
        ("short", ("joy",)), ("negation", ("none", "joy")), ("mixed", ("joy", "sadness"))]
    assert [found.text for found in read_contrast(files / "contrast.tsv", "dev")] == ["아"]


def test_only_lines_that_map_cleanly_onto_one_feeling_are_taken(files):
    lines = mapped_lines(files / "set.train.tsv", read_label_map(files / "map.tsv"))
    assert [(found.label, found.text) for found in lines] == [("joy", "so happy today")]


def test_a_line_with_labels_beyond_the_map_counts_only_when_asked_for(tmp_path):
    path = tmp_path / "set.train.tsv"
    path.write_text("what a day\tjoy,surprise\nhuh\tsurprise\nboth\tjoy,grief\n", encoding="utf-8")
    meaning = {("set", "joy"): "joy", ("set", "grief"): "sadness"}
    assert mapped_lines(path, meaning) == []
    lines = mapped_lines(path, meaning, partly=True)
    assert [(found.label, found.text) for found in lines] == [("joy", "what a day")]


def test_llm_labels_name_public_lines_without_holding_them(tmp_path):
    mixed = "우리 팀 이겼다! 다들 고마워"
    texts = {"what a day": "joy", mixed: "joy,connection", "the shop opens at nine": "none"}
    (tmp_path / "en_chat.tsv").write_text("what a day\tlabel\nunread\tlabel\n", encoding="utf-8")
    (tmp_path / "ko_lines.txt").write_text(f"{mixed}\n\n  the shop opens at nine\n",
                                           encoding="utf-8")
    path = tmp_path / "llm_labels.tsv"
    path.write_text("split\tlabels\tmark\n" + "".join(
        f"train\t{labels}\t{text_mark(text):016x}\n" for text, labels in texts.items())
        + f"test\tanger\t{text_mark('unread'):016x}\n", encoding="utf-8")
    assert not any(text in path.read_text(encoding="utf-8") for text in texts)
    found_in = [tmp_path / "en_chat.tsv", tmp_path / "ko_lines.txt"]
    lines = read_llm_labels(path, found_in, "train")
    assert {found.text: found.label for found in lines} == texts
    assert [found.language for found in lines] == ["en", "ko", "ko"]
    assert [found.label for found in read_llm_labels(path, found_in, "test")] == ["anger"]
    with pytest.raises(UserError, match="none of its train lines is in the files to look in"):
        read_llm_labels(path, [path], "train")


def test_a_translation_trains_with_the_label_of_its_line(files):
    lines = read_labelled(files / "train.tsv")
    pairs = [(EXAMPLES["joy"][0], "what a gig!"), ("아무도 쓰지 않은 줄", "nor that"),
             ("집이 조용하다", EXAMPLES["sadness"][1])]
    assert [(found.label, found.language, found.text)
            for found in translated_lines(lines, pairs)] == [
        ("joy", "en", "what a gig!"), ("sadness", "ko", "집이 조용하다")]


# ---------------------------------------------------------------------------------- targets


def test_a_label_is_smoothed_and_none_is_uniform():
    found = labelled_examples([line("joy"), line("none"), line("joy,connection")], 0.1,
                              none_weight=2.0, weight=0.5)
    joy, connection = KEYS.index("joy"), KEYS.index("connection")
    assert found.targets.sum(axis=1) == pytest.approx(1.0)
    assert found.targets[0, joy] == pytest.approx(0.91)
    assert np.delete(found.targets[0], joy) == pytest.approx(0.01)
    assert found.targets[1] == pytest.approx(0.1)
    assert found.targets[2, [joy, connection]] == pytest.approx(0.46)
    assert found.weights.tolist() == [0.5, 1.0, 0.5]


def test_two_feelings_share_the_target_six_to_four():
    found = mixed_examples([MixedLine("sadness", "anger", "en", "x")])
    sadness, anger = KEYS.index("sadness"), KEYS.index("anger")
    assert found.targets[0, [sadness, anger]] == pytest.approx([0.6, 0.4])
    assert found.targets[0].sum() == pytest.approx(1.0)
    smooth = mixed_examples([MixedLine("sadness", "anger", "en", "x")], smoothing=0.1)
    assert smooth.targets[0, [sadness, anger]] == pytest.approx([0.55, 0.37])
    assert smooth.targets[0].sum() == pytest.approx(1.0)


def test_examples_are_joined_in_order(files):
    parts = [labelled_examples(read_labelled(files / "train.tsv")),
             mixed_examples(read_mixed(files / "mixed.tsv"), weight=3.0), labelled_examples([])]
    joined = Examples.joined(parts)
    assert len(joined.texts) == len(joined.targets) == 24
    assert joined.weights.tolist() == [1.0] * 22 + [3.0] * 2


# ---------------------------------------------------------------------------------- batches


def labelled_data(texts, tokenizer, batch_tokens, **shares):
    examples = labelled_examples([line("joy", text) for text in texts])
    return LabelledData(examples, Augmentation(tokenizer, 64, **shares), tokenizer, batch_tokens, 0)


def test_lines_of_one_length_stand_together_although_they_are_written_anew(tokenizer, texts):
    lines = [" ".join(texts[:1 + i % 3]) for i in range(300)]
    data = labelled_data(lines, tokenizer, 256, noise=0.9, subword=0.2)
    read = [batch for _, _, batch in islice(data.batches(0, 0), data.num_batches)]
    assert sum(len(batch.ids) for batch in read) == len(lines)
    assert sum(batch.num_tokens for batch in read) > 0.95 * sum(batch.ids.size for batch in read)


def test_a_batch_has_the_targets_and_weights_of_its_lines(tokenizer, texts):
    examples = labelled_examples([line("joy", text) for text in texts])
    number = np.arange(len(texts), dtype=np.float32)
    data = LabelledData(replace(examples, weights=number), Augmentation(tokenizer, 64), tokenizer,
                        64, 0)
    for place in range(data.num_batches):
        batch = data.batch(0, place)
        for ids, mask, weight in zip(batch.ids, batch.attention_mask, batch.weights, strict=True):
            assert ids[mask].tolist() == tokenizer.encode(texts[int(weight)]).ids


def test_every_epoch_has_as_many_batches_and_can_be_entered_anywhere(tokenizer, texts):
    def data():
        return labelled_data(texts * 60, tokenizer, 96, noise=0.9, subword=0.3, dropout=0.2)

    whole = data()
    drawn = list(islice(whole.batches(0, 0), 4 * whole.num_batches))
    assert [epoch for epoch, _, _ in drawn] == sorted([0, 1, 2, 3] * whole.num_batches)
    assert len({len(whole.plan(epoch)) for epoch in range(8)}) > 1  # they do differ by themselves
    late = list(islice(data().batches(2, 5), whole.num_batches))
    for (epoch, number, batch), expected in zip(late, drawn[2 * whole.num_batches + 5:],
                                                strict=False):
        assert (epoch, number) == expected[:2]
        assert np.array_equal(batch.ids, expected[2].ids)


def test_hidden_pieces_are_masked_and_nothing_else_is(tokenizer, texts):
    plain, hidden = (labelled_data(texts * 4, tokenizer, 1_024, dropout=share).batch(0, 0)
                     for share in (0.0, 0.25))
    changed = hidden.ids != plain.ids
    assert (hidden.ids[changed] == tokenizer.mask_id).all()
    assert 0.1 < changed.sum() / (plain.num_tokens - 2 * len(plain.ids)) < 0.4
    assert np.isin(plain.ids[changed], tokenizer.special_ids).sum() == 0
