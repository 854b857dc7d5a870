import hashlib
import json

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as their_confusion
from sklearn.metrics import f1_score

from bert.training.examples import LabelledLine
from bert.training.metrics import (
    accuracy,
    accuracy_by_level,
    calibration_error,
    checksum,
    confusion_matrix,
    fit_temperature,
    fit_threshold,
    levels_row,
    macro_f1,
    read_metrics,
    recalls,
    reliability,
    write_metrics,
)

RNG = np.random.default_rng(0)
TRUTH, ANSWER = RNG.integers(0, 5, 300), RNG.integers(0, 5, 300)


def test_confusion_and_f1_are_those_of_scikit_learn():
    assert np.array_equal(confusion_matrix(TRUTH, ANSWER, 5), their_confusion(TRUTH, ANSWER))
    assert macro_f1(TRUTH, ANSWER, 5) == pytest.approx(f1_score(TRUTH, ANSWER, average="macro"))


def test_a_class_that_does_not_occur_has_no_recall_and_no_part_in_f1():
    truth, answer = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert recalls(truth, answer, 3)[:2].tolist() == [0.5, 1.0]
    assert np.isnan(recalls(truth, answer, 3)[2])
    assert macro_f1(truth, answer, 3) == pytest.approx(2 / 3)


def test_accuracy_is_counted_by_language_and_level():
    lines = [LabelledLine("joy", language, level, "", "x")
             for language, level in (("ko", "easy"), ("ko", "easy"), ("en", "hard"))]
    scores = accuracy_by_level(lines, ["joy", "anger", "joy"])
    assert scores == {"ko": {"easy": 0.5}, "en": {"hard": 1.0}}
    assert levels_row({**scores, "checksum": "x"}) == "ko easy 50.0%   en hard 100.0%"
    assert np.isnan(accuracy(np.zeros(0), np.zeros(0)))


def test_reliability_puts_every_answer_into_one_bin():
    confidence = RNG.random(1_000)
    is_right = RNG.random(1_000) < confidence
    bins = reliability(confidence, is_right)
    assert sum(part["lines"] for part in bins) == 1_000 and len(bins) == 15
    error = sum(part["lines"] * abs(part["said"] - part["right"]) for part in bins) / 1_000
    assert calibration_error(confidence, is_right) == pytest.approx(error) and error < 0.1
    assert calibration_error(np.full(10, 0.9), np.arange(10) < 5) == pytest.approx(0.4)


def test_the_temperature_makes_an_overconfident_model_honest():
    truth = RNG.integers(0, 10, 2_000)
    logits = np.log(0.4 * np.eye(10)[truth] + 0.06)
    answer = np.array([RNG.choice(10, p=np.exp(row) / np.exp(row).sum()) for row in logits])
    assert fit_temperature(3 * logits, answer) == pytest.approx(3.0, rel=0.15)


def test_the_threshold_weighs_both_kinds_of_text():
    feeling, none = np.linspace(0.3, 1.0, 101), np.linspace(0.1, 0.34, 101)
    assert fit_threshold(feeling, none, keep=0.8) == pytest.approx(0.34, abs=0.01)
    assert fit_threshold(feeling, np.linspace(0.6, 0.99, 50), keep=0.9) >= 0.3
    assert (feeling >= fit_threshold(feeling, np.full(5, 0.99), keep=0.9)).mean() >= 0.9
    assert fit_threshold(feeling, np.zeros(0)) == 0.0


def test_figures_are_added_to_a_checkpoint_s_file(tmp_path):
    assert read_metrics(tmp_path) == {}
    write_metrics(tmp_path, {"evaluate": {"old": 1}, "baselines": {"linear": {"ko": 0.5}}})
    write_metrics(tmp_path, {"evaluate": {"new": 2}, "baselines": {"large": {"ko": 0.7}}})
    assert read_metrics(tmp_path) == json.loads((tmp_path / "metrics.json").read_text()) == {
        "evaluate": {"new": 2}, "baselines": {"linear": {"ko": 0.5}, "large": {"ko": 0.7}}}
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.json"]


def test_a_checksum_is_the_beginning_of_the_sha256(tmp_path):
    (tmp_path / "x").write_bytes(b"lines")
    assert checksum(tmp_path / "x") == hashlib.sha256(b"lines").hexdigest()[:16]
