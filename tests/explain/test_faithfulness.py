"""Explanations on trial: curves, areas, comprehensiveness, sufficiency, and the league table."""

import numpy as np
import pytest

from bert.explain.faithfulness import (
    BINS,
    MEASURES,
    METHODS,
    Trial,
    beaten,
    judge,
    judge_all,
    random_scores,
)
from bert.explain.league import interval, league, league_rows
from bert.explain.occlusion import logits_of, without_each_word
from bert.explain.target import Target
from bert.explain.words import text_words

TEXT = "드디어 마라톤을 완주했다 and we laughed"
WORDS = len(TEXT.split())


@pytest.mark.parametrize("target", [Target(0), Target(1, 0)], ids=["class", "contrast"])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_scores_every_word(any_classifier, name, target):
    scores = METHODS[name].scores(any_classifier, TEXT, target)
    assert scores.shape == (WORDS,) and np.isfinite(scores).all()


@pytest.mark.parametrize("target", [Target(0), Target(1, 0)], ids=["class", "contrast"])
def test_the_curves_start_and_end_where_they_must(any_classifier, target):
    trial = judge(any_classifier, TEXT, target, np.arange(WORDS))
    ids, mask = any_classifier.encode(TEXT).ids, any_classifier.tokenizer.mask_id
    whole, blank = logits_of(any_classifier, [ids, [ids[0], *[mask] * (len(ids) - 2), ids[-1]]])
    assert (trial.shares[0], trial.shares[-1], len(trial.shares)) == (0.0, 1.0, WORDS + 1)
    for one, other, read in ((trial.deletion, trial.insertion, target.probability),
                             (trial.deletion_margin, trial.insertion_margin, target.margin)):
        assert one[0] == pytest.approx(other[-1], abs=1e-5)
        assert one[0] == pytest.approx(float(read(whole)), abs=1e-5)
        assert one[-1] == pytest.approx(other[0], abs=1e-5)
        assert one[-1] == pytest.approx(float(read(blank)), abs=1e-5)


def test_the_most_important_word_is_masked_first_and_shown_first(any_classifier):
    target, scores = Target(0), np.array([0.1, -3.0, 0.2, 5.0, 0.0, 0.3])
    trial = judge(any_classifier, TEXT, target, scores)
    encoding = any_classifier.encode(TEXT)
    first = text_words(encoding)[3][1]
    mask = any_classifier.tokenizer.mask_id
    special = (0, len(encoding.ids) - 1)
    rows = [[mask if place in first else i for place, i in enumerate(encoding.ids)],
            [i if place in (*first, *special) else mask for place, i in enumerate(encoding.ids)]]
    masked, shown = target.probability(logits_of(any_classifier, rows))
    assert trial.deletion[1] == pytest.approx(float(masked), abs=1e-5)
    assert trial.insertion[1] == pytest.approx(float(shown), abs=1e-5)


def test_the_measures_of_a_curve_are_what_the_papers_say():
    deletion = np.array([0.9, 0.5, 0.3, 0.2, 0.1])
    insertion = np.array([0.1, 0.6, 0.7, 0.8, 0.9])
    trial = Trial(np.arange(5) / 4, deletion, insertion, 2 * deletion, 2 * insertion)
    found = trial.measures()
    assert list(found) == list(MEASURES)
    assert found["deletion"] == pytest.approx((0.7 + 0.4 + 0.25 + 0.15) / 4)
    assert found["insertion_margin"] == pytest.approx(2 * (0.35 + 0.65 + 0.75 + 0.85) / 4)
    assert BINS == (0.1, 0.2, 0.5)  # of four words: one, one, two
    np.testing.assert_allclose(trial.comprehensiveness, [0.4, 0.4, 0.6])
    np.testing.assert_allclose(trial.sufficiency, [0.3, 0.3, 0.2])


def test_ten_per_cent_of_ten_words_is_one_word():
    line = np.arange(11) / 10
    trial = Trial(line, 1 - line, line, line, line)
    np.testing.assert_allclose(trial.comprehensiveness, [0.1, 0.2, 0.5])


def test_rankings_that_are_judged_together_are_judged_alike(any_classifier):
    rng = np.random.default_rng(0)
    rankings = [rng.random(WORDS) for _ in range(3)]
    for scores, trial in zip(rankings, judge_all(any_classifier, TEXT, Target(0), rankings),
                             strict=True):
        alone = judge(any_classifier, TEXT, Target(0), scores)
        np.testing.assert_allclose(trial.deletion, alone.deletion, atol=1e-5)
        np.testing.assert_allclose(trial.insertion_margin, alone.insertion_margin, atol=1e-5)


@pytest.mark.parametrize("words", [4, 10, 11, 13, 17])
def test_a_curve_of_ten_steps_goes_through_the_bins_and_both_ends(classifier, words):
    text = " ".join(["We", "laughed", "and", "clapped", "for", "me"] * 3).split()[:words]
    scores = np.random.default_rng(1).random(words)
    whole = judge(classifier, " ".join(text), Target(0), scores)
    few = judge_all(classifier, " ".join(text), Target(0), [scores], most_steps=10)[0]
    assert len(few.shares) == min(words, 10) + 1 and (few.shares[0], few.shares[-1]) == (0, 1)
    np.testing.assert_allclose(few.comprehensiveness, whole.comprehensiveness, atol=1e-5)
    np.testing.assert_allclose(few.sufficiency, whole.sufficiency, atol=1e-5)


def test_a_ranking_beats_those_with_a_smaller_gap_and_half_of_its_equals():
    line = np.arange(3) / 2
    good, bad = Trial(line, 1 - line, line, line, line), Trial(line, line, 1 - line, line, line)
    middle = Trial(line, 0 * line, 0 * line + 0.1, line, line)
    assert good.gap == pytest.approx(0.0) and middle.gap == pytest.approx(0.1)
    assert beaten(middle, [good, bad, middle, middle]) == 0.75
    assert beaten(good, [middle]) == 0.0


def test_a_ranking_by_occlusion_is_better_than_its_reverse(classifier, texts):
    differences = []
    for text in texts:
        target = Target.leading(classifier, text)
        scores = without_each_word(classifier, text, target)
        good, bad = (judge(classifier, text, target, s).measures() for s in (scores, -scores))
        differences.append([good[name] - bad[name] for name in MEASURES])
    for difference, is_more in zip(np.mean(differences, axis=0), MEASURES.values(), strict=True):
        assert difference > 0 if is_more else difference < 0


def test_chance_depends_on_the_text_and_the_seed_only(classifier):
    one = random_scores(classifier, TEXT, Target(0))
    np.testing.assert_array_equal(one, random_scores(classifier, TEXT, Target(3)))
    assert not np.array_equal(one, random_scores(classifier, TEXT, Target(0), seed=1))


def test_a_text_of_one_word_can_be_judged(any_classifier):
    trial = judge(any_classifier, "laughed", Target(0), np.ones(1))
    assert len(trial.shares) == 2 and np.isfinite(list(trial.measures().values())).all()


def test_scores_of_another_text_are_refused(classifier):
    with pytest.raises(ValueError, match="2 scores for 6 words"):
        judge(classifier, TEXT, Target(0), np.ones(2))


def test_the_league_table_repeats_itself_but_for_the_time(classifier, texts):
    told = []
    one = league(classifier, {"ko": texts[:2], "en": texts[3:4], "xx": []}, progress=told.append)
    other = league(classifier, {"ko": texts[:2], "en": texts[3:4]})
    assert list(one["languages"]) == ["ko", "en"] and told[-1] == "en: 1 of 1 texts explained"
    for language in ("ko", "en"):
        assert list(one["languages"][language]["methods"]) == list(METHODS)
        for name, values in one["languages"][language]["methods"].items():
            again = other["languages"][language]["methods"][name]
            assert values.pop("milliseconds") > 0 and again.pop("milliseconds") > 0
            assert values == again
            assert set(MEASURES) < set(values)


def test_the_random_ranking_is_no_better_than_itself(classifier, texts):
    found = league(classifier, {"ko": texts[:2]})["languages"]["ko"]["methods"]["random"]
    assert found["deletion"]["over_random"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_an_interval_is_two_standard_errors_wide():
    values = np.random.default_rng(0).normal(5.0, 2.0, 10_000)
    found = interval(values)
    assert found["mean"] == pytest.approx(values.mean())
    assert found["high"] - found["low"] == pytest.approx(2 * 1.96 * 2.0 / 100, rel=0.05)
    assert interval(np.array([3.0])) == {"mean": 3.0, "low": 3.0, "high": 3.0}


def test_the_table_can_be_read(classifier, texts):
    rows = league_rows(league(classifier, {"ko": texts[:2]}))
    assert len(rows) == 1 + len(METHODS) and rows[0].startswith("ko, 2 texts")
    assert {row.split()[0] for row in rows[1:]} == set(METHODS)
