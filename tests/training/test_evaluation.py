import random
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from training_fixtures import EXAMPLES

from bert.classifier import EmotionClassifier
from bert.emotions import KEYS, NONE
from bert.errors import UserError
from bert.training.evaluation import (
    CHANGES,
    load_ten,
    measure,
    measure_contrast,
    measure_levels,
    measure_llm_labels,
    measure_public,
    measure_two_feelings,
    with_typo,
    without_one_space,
)
from bert.training.examples import ContrastLine, LabelledLine


class Answers:
    """A classifier that gives the answers it was told: {text: {class: probability}}."""

    def __init__(self, answers: dict[str, dict[str, float]], threshold: float = 0.5) -> None:
        self.answers = answers
        self.config = SimpleNamespace(confidence_threshold=threshold)

    def predict_many(self, texts):
        return [SimpleNamespace(probabilities=row(self.answers[text])) for text in texts]


def row(shares: dict[str, float]) -> np.ndarray:
    """The named probabilities, the rest spread over the other classes."""
    rest = (1.0 - sum(shares.values())) / (len(KEYS) - len(shares))
    return np.array([shares.get(key, rest) for key in KEYS])


def line(label, text, language="en", level="easy"):
    return LabelledLine(label, language, level, "", text)


# ---------------------------------------------------------------------------------- contrast


def contrast(answers, *lines):
    return measure_contrast(Answers(answers), [
        ContrastLine("test", group, tuple(accepted.split(",")), "en", text)
        for group, accepted, text in lines])["en"]


def test_an_answer_that_is_not_confident_counts_as_none_or_as_its_best_class():
    unsure, sure = {"joy": 0.4}, {"joy": 0.9}
    assert contrast({"a": unsure}, ("irony", "none", "a"))["irony"] == 1.0
    assert contrast({"a": unsure}, ("irony", "joy", "a"))["irony"] == 1.0
    assert contrast({"a": unsure}, ("irony", "anger", "a"))["irony"] == 0.0
    assert contrast({"a": sure}, ("irony", "none", "a"))["irony"] == 0.0
    assert contrast({"a": sure}, ("irony", "none,joy", "a"))["irony"] == 1.0


def test_groups_and_languages_are_counted_apart():
    found = contrast({"a": {"joy": 0.9}, "b": {"joy": 0.9}, "c": {"joy": 0.9}},
                     ("short", "joy", "a"), ("negation", "anger", "b"), ("mixed", "joy,anger", "c"))
    assert found == {"all": pytest.approx(2 / 3), "short": 1.0, "negation": 0.0, "mixed": 1.0}
    lines = [ContrastLine("test", "short", ("joy",), language, "a") for language in ("ko", "en")]
    assert set(measure_contrast(Answers({"a": {"joy": 0.9}}), lines)) == {"ko", "en"}


# ---------------------------------------------------------------------------------- two feelings


@pytest.mark.parametrize(("answer", "are_first", "have_room"), [
    ({"joy": 0.6, "sadness": 0.3}, 1, 1), ({"sadness": 0.5, "joy": 0.4}, 1, 1),
    ({"joy": 0.85, "sadness": 0.1}, 1, 1), ({"joy": 0.86, "sadness": 0.1}, 1, 0),
    ({"joy": 0.6, "anger": 0.3}, 0, 1), ({"anger": 0.9, "joy": 0.05}, 0, 0)])
def test_two_feelings_must_both_be_the_first_two_and_neither_above_85_per_cent(
        answer, are_first, have_room):
    lines = [ContrastLine("test", "mixed", ("joy", "sadness"), "ko", "a")]
    assert measure_two_feelings(Answers({"a": answer}), lines) == {"ko": {
        "lines": 1, "both_first": are_first, "room_for_both": have_room,
        "right": are_first * have_room}}


def test_only_texts_with_two_feelings_are_asked_for_both():
    answers = Answers({"a": {"joy": 0.5, "anger": 0.4}, "b": {"joy": 0.9}})
    lines = [ContrastLine("test", "mixed", ("joy", "anger"), "en", "a"),
             ContrastLine("test", "mixed", ("joy", "anger"), "en", "b"),
             ContrastLine("test", "irony", ("joy", "anger"), "en", "b"),
             ContrastLine("test", "short", ("joy",), "ko", "b")]
    found = measure_two_feelings(answers, lines)
    assert found.keys() == {"en"}
    assert (found["en"]["lines"], found["en"]["right"]) == (2, 0.5)


# ---------------------------------------------------------------------------------- labels


def test_lines_of_people_are_scored_where_one_feeling_was_seen():
    answers = {"a": {"joy": 0.9}, "b": {"joy": 0.4}, "c": {"anger": 0.4}, "d": {"anger": 0.9}}
    lines = [line("joy", "a"), line("anger", "b"), line(NONE, "c"), line(NONE, "d"),
             line("joy,connection", "a")]
    found = measure_llm_labels(Answers(answers), lines)
    assert found == {"en": {"lines": 2, "accuracy": 0.5, "accuracy_confident": 1.0,
                            "feeling_confident": 0.5, "none_lines": 2, "none_not_confident": 0.5}}


def test_public_sets_are_scored_on_the_lines_that_map(files):
    answers = Answers({"so happy today": {"joy": 0.9}})
    found = measure_public(answers, files / "set.train.tsv", files / "map.tsv")
    assert (found["lines"], found["accuracy"], found["macro_f1"]) == (1, 1.0, 1.0)


def test_a_public_set_that_maps_nowhere_is_one_sentence(files, tmp_path):
    (tmp_path / "other.train.tsv").write_text("hm\tjoy\n", encoding="utf-8")
    with pytest.raises(UserError, match="maps none of its lines onto a feeling"):
        measure_public(Answers({}), tmp_path / "other.train.tsv", files / "map.tsv")


def test_levels_are_those_of_the_languages_asked_for():
    answers = Answers({"a": {"joy": 0.9}})
    lines = [line("joy", "a"), line("anger", "a", level="hard"), line("joy", "a", "ko"),
             line(NONE, "a")]
    assert measure_levels(answers, ["en"], lines) == {"en": {"easy": 1.0, "hard": 0.0}}
    with pytest.raises(UserError, match="no Korean or English line with a feeling to score"):
        measure_levels(answers, ["en"], [line(NONE, "a")])


# ---------------------------------------------------------------------------------- all figures


def test_every_figure_of_a_model_that_knows_its_lines(classifier, lines):
    given = [line(key, text) for key, group in lines.items() for text in group]
    found = measure(classifier, given)
    assert found["accuracy"] == found["accuracy_easy"] == found["macro_f1"] == 1.0
    assert (found["lines"], found["none_lines"], found["none_not_confident"]) == (20, 0, None)
    assert np.array_equal(found["confusion"], 2 * np.eye(10))
    assert sum(part["lines"] for part in found["reliability"]) == 20
    assert set(found["robustness"]) == set(CHANGES)
    assert found["robustness"]["upper case"] == found["robustness"]["NFD"] == 1.0
    assert found["achievement_above_half"] == 1.0 and found["feeling_confident"] == 1.0


def test_lines_without_a_feeling_are_scored_by_the_threshold_alone():
    answers = Answers({"a": {"joy": 0.9}, "b": {"joy": 0.3}, "c": {"anger": 0.7}})
    answers.predict_many = lambda texts: [SimpleNamespace(probabilities=row(answers.answers.get(
        text, {"joy": 0.9}))) for text in texts]
    found = measure(answers, [line("joy", "a"), line(NONE, "b"), line(NONE, "c")])
    assert (found["lines"], found["none_lines"], found["none_not_confident"]) == (1, 2, 0.5)


def test_only_a_checkpoint_of_the_ten_classes_is_measured(emotion_folder, small_start):
    assert isinstance(load_ten(emotion_folder), EmotionClassifier)
    with pytest.raises(UserError, match="does not have the ten classes: fine-tune it"):
        load_ten(small_start)


# ---------------------------------------------------------------------------------- small changes


@pytest.mark.parametrize("text", [EXAMPLES["anger"][0], EXAMPLES["anger"][1]])
def test_a_small_change_is_small(text):
    rng = random.Random(0)
    joined = {without_one_space(text, rng) for _ in range(50)}
    assert len(joined) == text.count(" ")
    assert {one.replace(" ", "") for one in joined} == {text.replace(" ", "")}
    typos = {with_typo(text, rng) for _ in range(50)}
    assert all(len(one) == len(text) and sum(map(str.__ne__, one, text)) <= 2 for one in typos)
    assert len(typos) > 5
    assert unicodedata.normalize("NFC", CHANGES["NFD"](text, rng)) == text


def test_a_text_too_short_to_change_stays():
    rng = random.Random(0)
    assert without_one_space("one", rng) == "one" and with_typo("a", rng) == "a"
