"""What must hold for the lines in assets/data; a failure names the lines to mend."""

import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

from bert.emotions import KEYS, NONE
from bert.training.corpus import text_mark
from bert.training.examples import (
    LabelledLine,
    read_contrast,
    read_labelled,
    read_mixed,
    read_translations,
)

DATA = Path(__file__).parent.parent / "assets" / "data"
SPLITS = ("train", "dev", "test", "personas")
SHORT = 12  # characters under which two lines may be alike without being the same
GROUPS = {"short", "negation", "irony", "idiom", "mixed"}
LABEL_WORDS = {
    "achievement": r"성취|achiev", "recognition": r"인정|recogni", "security": r"안정감|\bsecur",
    "autonomy": r"자율|autonom", "connection": r"유대감|\bconnect", "joy": r"즐거|즐겁|\bjoy",
    "curiosity": r"호기심|curio", "sadness": r"슬프|슬픔|슬퍼|\bsad",
    "anger": r"분노|화가|화나|\banger|\bangry", "anxiety": r"불안|anxi",
}
HANGUL, LATIN = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]"), re.compile(r"[A-Za-z]")


@pytest.fixture(scope="module")
def splits() -> dict[str, list[LabelledLine]]:
    return {split: [line for path in sorted(DATA.glob(f"{split}*.tsv"))
                    for line in read_labelled(path)] for split in SPLITS}


@pytest.fixture(scope="module")
def lines(splits) -> list[LabelledLine]:
    return [line for split in SPLITS for line in splits[split]]


def grams(text: str) -> set[str]:
    text = re.sub(r"\s+", " ", text.lower())
    return {text[i:i + 5] for i in range(max(1, len(text) - 4))}


def test_every_line_is_clean_text_of_a_known_kind(lines):
    for line in lines:
        assert line.language in ("ko", "en", "xx") and line.level in ("easy", "hard"), line
        assert line.language != "xx" or line.label == NONE, line
        assert line.text == unicodedata.normalize("NFC", line.text).strip(), line
        assert line.label == NONE or 1 <= len(line.text.split()) <= 60, line


def test_there_are_enough_lines_and_the_classes_are_balanced(lines, splits):
    counts = Counter((line.label, line.language) for line in lines)
    for key in KEYS:
        for language in ("ko", "en"):
            assert counts[key, language] >= 600, (key, language, counts[key, language])
    for language in ("ko", "en"):
        of_language = [counts[key, language] for key in KEYS]
        assert max(of_language) <= 1.3 * min(of_language), language
    assert sum(line.label == NONE for line in lines) >= 2_000
    assert len(splits["dev"]) >= 1_000 and len(splits["test"]) >= 1_400
    personas = Counter((line.label, line.language) for line in splits["personas"])
    assert min(personas.values()) >= 38 and len(personas) == 20


def test_about_half_of_the_lines_are_hard(lines):
    for key in KEYS:
        for language in ("ko", "en"):
            levels = [line.level for line in lines
                      if (line.label, line.language) == (key, language)]
            assert 0.4 <= levels.count("hard") / len(levels) <= 0.72, (key, language)


def test_minimal_pairs_have_two_lines_and_two_labels(splits):
    found = Counter()
    for split in SPLITS:
        pairs = defaultdict(list)
        for line in splits[split]:
            if line.pair:
                pairs[line.pair].append(line)
        for number, members in pairs.items():
            assert len(members) == 2, (split, number)
            assert members[0].label != members[1].label, (split, number)
            assert members[0].language == members[1].language, (split, number)
            found[members[0].language] += 1
    assert found["ko"] >= 400 and found["en"] >= 400, found


def test_the_label_s_own_word_is_rare(lines):
    for key, pattern in LABEL_WORDS.items():
        texts = [line.text.lower() for line in lines if line.label == key]
        assert sum(bool(re.search(pattern, text)) for text in texts) <= len(texts) / 10, key


def test_no_opening_is_shared_by_more_than_three_lines_of_a_class(lines):
    openings = Counter((line.label, " ".join(line.text.lower().split()[:3])) for line in lines
                       if line.label != NONE and len(line.text.split()) > 3)
    assert [opening for opening, count in openings.items() if count > 3] == []


def test_no_line_repeats_another(splits):
    """Character 5-grams; only the two lines of a minimal pair may be alike."""
    rows = [(split, line) for split in SPLITS for line in splits[split]
            if len(line.text) >= SHORT]
    all_grams = [grams(line.text) for _, line in rows]
    holders: dict[str, list[int]] = defaultdict(list)
    repeats = []
    for i, here in enumerate(all_grams):
        shared = Counter(j for gram in here if len(holders[gram]) < 40 for j in holders[gram])
        for j, count in shared.items():
            same_pair = rows[i][1].pair and (rows[i][0], rows[i][1].pair) == (
                rows[j][0], rows[j][1].pair)
            is_close = count > 0.6 * len(here) and count / len(here | all_grams[j]) > 0.6
            if is_close and not same_pair:
                repeats.append((rows[j][1].text, rows[i][1].text))
        for gram in here:
            holders[gram].append(i)
    assert repeats == []


def test_length_does_not_give_the_class_away(lines):
    for language in ("ko", "en"):
        means = [np.mean([len(line.text) for line in lines
                          if (line.label, line.language) == (key, language)]) for key in KEYS]
        assert max(means) <= 1.35 * min(means), (language, dict(zip(KEYS, means, strict=True)))
        for key in KEYS:
            words = [len(line.text.split()) for line in lines
                     if (line.label, line.language) == (key, language)]
            assert np.quantile(words, 0.1) <= 8 and np.quantile(words, 0.9) >= 14, (language, key)


def test_the_language_column_agrees_with_the_script(lines):
    for line in lines:
        if line.label == NONE or len(line.text.split()) < 3:  # emoji, laughter, "OMG 대박"
            continue
        if line.language == "ko":
            assert len(HANGUL.findall(line.text)) >= 2, line
        if line.language == "en":
            assert len(LATIN.findall(line.text)) > len(HANGUL.findall(line.text)), line


def test_other_languages_are_only_used_for_lines_without_a_class(lines):
    foreign = [line for line in lines if line.language == "xx"]
    assert len(foreign) >= 100 and {line.label for line in foreign} == {NONE}


def test_translations_are_pairs_of_which_one_half_is_a_training_line(splits):
    trained = {line.text for line in splits["train"]}
    for language in ("ko", "en"):
        path = DATA / f"translations_from_{language}.tsv"
        assert path.read_text(encoding="utf-8").startswith("ko\ten\n")
        pairs = read_translations([path])
        assert len(pairs) >= 40_000
        for korean, english in pairs:
            assert (korean if language == "ko" else english) in trained, (korean, english)
            assert len(HANGUL.findall(korean)) >= 2, korean
            assert len(LATIN.findall(english)) > len(HANGUL.findall(english)), english


def folded(text: str) -> str:
    """A text without case and spaces, by which repeats are known."""
    return "".join(text.lower().split())


def test_no_text_stands_twice_not_even_in_other_case_or_spacing(splits):
    everything = [line.text for split in SPLITS for line in splits[split]]
    everything += [line.text for line in read_mixed(DATA / "mixed.tsv")]
    everything += [line.text for split in ("dev", "test")
                   for line in read_contrast(DATA / "contrast.tsv", split)]
    counts = Counter(map(folded, everything))
    assert [text for text, count in counts.items() if count > 1] == []


def test_nothing_that_trains_is_close_to_a_line_that_measures(splits):
    trained = [line.text for line in splits["train"]]
    trained += [line.text for line in read_mixed(DATA / "mixed.tsv")]
    measured = [line.text for split in ("dev", "test")
                for line in read_contrast(DATA / "contrast.tsv", split)]
    measured += [line.text for split in ("dev", "test", "personas") for line in splits[split]]
    measured = [text for text in measured if len(text) >= SHORT]
    holders: dict[str, list[int]] = defaultdict(list)
    all_grams = [grams(text) for text in measured]
    for number, here in enumerate(all_grams):
        for gram in here:
            holders[gram].append(number)
    found = []
    for text in trained:
        here = grams(text)
        shared = Counter(number for gram in here for number in holders.get(gram, ()))
        found += [(text, measured[number]) for number, count in shared.items()
                  if count > 0.6 * len(here) and count / len(here | all_grams[number]) > 0.6]
    assert found == []


def test_the_contrast_set_has_every_group_in_both_languages_and_splits():
    for split in ("dev", "test"):
        lines = read_contrast(DATA / "contrast.tsv", split)
        for language in ("ko", "en"):
            own = [line for line in lines if line.language == language]
            assert len(own) >= 290, (split, language)
            assert {line.group for line in own} == GROUPS
            assert {line.accepted[0] for line in own} == {*KEYS, NONE}
            openings = Counter(" ".join(line.text.lower().split()[:2]) for line in own
                               if len(line.text.split()) > 2)
            assert max(openings.values()) <= 0.03 * len(own), openings.most_common(3)
        assert all(len(line.accepted) == 2 and NONE not in line.accepted
                   for line in lines if line.group == "mixed")


def test_texts_with_two_feelings_are_balanced():
    lines = read_mixed(DATA / "mixed.tsv")
    for language in ("ko", "en"):
        own = [line for line in lines if line.language == language]
        assert len(own) >= 1_900, language
        for place in ("first", "second"):
            counts = Counter(getattr(line, place) for line in own)
            assert min(counts[key] for key in KEYS) >= 0.06 * len(own), (language, place)
        assert len({(line.first, line.second) for line in own}) >= 60
        assert all(line.first != line.second for line in own)


def test_the_datasets_library_reads_every_text_as_it_stands(tmp_path):
    """From the folder and with nothing but the settings of the data card."""
    import datasets
    from huggingface_hub import DatasetCard
    for config in DatasetCard.load(DATA / "README.md").data.configs:
        loaded = datasets.load_dataset(str(DATA), config["config_name"], cache_dir=str(tmp_path))
        assert list(loaded) == [item["split"] for item in config["data_files"]]
        for item in config["data_files"]:
            rows = [row.split("\t") for file in sorted(DATA.glob(item["path"]))
                    for row in file.read_text(encoding="utf-8").split("\n")[1:] if row]
            split = loaded[item["split"]]
            found = zip(*(split[name] for name in split.column_names), strict=True)
            assert [[str(value) for value in row] for row in found] == rows, config


def test_no_line_to_measure_by_has_an_llm_label(splits):
    marks = {int(row.split("\t")[2], 16) for row in
             (DATA / "llm_labels.tsv").read_text(encoding="utf-8").splitlines()[1:]}
    assert [line.text for split in ("dev", "test", "personas") for line in splits[split]
            if text_mark(line.text) in marks] == []


def test_llm_labels_name_public_lines_by_their_mark_only():
    rows = [row.split("\t") for row in
            (DATA / "llm_labels.tsv").read_text(encoding="utf-8").splitlines()]
    assert rows.pop(0) == ["split", "labels", "mark"]
    assert {split for split, _, _ in rows} == {"train", "dev", "test"}
    marks = [mark for _, _, mark in rows]
    assert len(set(marks)) == len(marks) >= 40_000
    assert all(re.fullmatch(r"[0-9a-f]{16}", mark) for mark in marks)
    for _, labels, _ in rows:
        named = labels.split(",")
        assert len(named) <= 2 and (set(named) <= set(KEYS) or named == [NONE]), labels
