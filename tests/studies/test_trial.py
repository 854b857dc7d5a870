"""Explanations on trial, as a view."""

import numpy as np
import pytest
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, numbers_in, sheet

from bert.classifier import EmotionClassifier
from bert.drawing.texts import say
from bert.explain.faithfulness import METHODS, Trial, judge, random_scores
from bert.explain.target import Target
from bert.studies.base import StudyContext
from bert.studies.trial import CHEAP, NAMES, RANDOM_RANKINGS, STUDY, verdict

TEXT = "They blamed me for their own mistake"
KOREAN = "약속을 또 어기다니 정말 화가 난다"
LINE = np.arange(3) / 2


def trial(context: StudyContext, text: str = TEXT, **options) -> dict:
    return STUDY.answer(context, text, {"part": "all", **options})


def with_gap(gap: float) -> Trial:
    return Trial(LINE, 0 * LINE, 0 * LINE + gap, LINE, LINE)


# ---------------------------------------------------------------------------------- numbers


def test_every_method_is_judged_as_the_league_judges_it(context, classifier):
    data = trial(context)
    target = Target(data["answer"])
    assert [method["name"] for method in data["methods"]] == list(NAMES)
    for method in data["methods"]:
        scores = METHODS[method["name"]].scores(classifier, TEXT, target)
        assert method["scores"] == pytest.approx(scores, abs=1e-6)
        found = judge(classifier, TEXT, target, scores)  # seven words: no step is passed over
        assert method["measures"] == pytest.approx(found.measures(), abs=1e-5)
        assert method["curves"]["deletion"] == pytest.approx(found.deletion, abs=1e-5)


def test_chance_is_the_mean_of_several_rankings(context, classifier):
    data = trial(context, KOREAN)
    target = Target(data["answer"])
    found = [judge(classifier, KOREAN, target, random_scores(classifier, KOREAN, target, seed))
             for seed in range(RANDOM_RANKINGS)]
    assert data["chance"]["measures"]["deletion"] == pytest.approx(
        np.mean([one.measures()["deletion"] for one in found]), abs=1e-5)
    assert data["chance"]["low"]["insertion"] == pytest.approx(
        np.min([one.insertion for one in found], axis=0), abs=1e-5)
    for method in data["methods"]:
        assert 0 <= method["beats"] <= 1


def test_the_cheap_methods_come_first_and_stay_what_they_were(context):
    first, whole = STUDY.answer(context, TEXT), trial(context)
    assert [method["name"] for method in first["methods"]] == list(CHEAP)
    assert set(first["pending"]) == set(NAMES) - set(CHEAP) and whole["pending"] == []
    assert first["chance"] is None and first["verdict"] is None
    for early, late in zip(first["methods"], whole["methods"], strict=False):
        assert early.pop("beats") is None
        late.pop("beats")
        assert early == late


def test_a_class_and_a_contrast_can_be_chosen_and_rubbish_becomes_the_answer(context, classifier):
    usual = trial(context)
    assert usual["classes"][usual["target"]]["key"] == classifier(TEXT).label
    for rubbish in ({"target": "boredom", "against": 3}, {"target": None, "method": "magic"},
                    {"curve": "inches"}, {"against": classifier(TEXT).label}):
        assert trial(context, **rubbish) == usual
    chosen = trial(context, target="joy", against="sadness", method="rollout", curve="margin")
    assert (chosen["target"], chosen["against"]) == (5, 7)
    assert (chosen["method"], chosen["curve"]) == ("rollout", "margin")
    scores = METHODS["occlusion_mask"].scores(classifier, TEXT, Target(5, 7))
    assert chosen["methods"][NAMES.index("occlusion_mask")]["scores"] == pytest.approx(
        scores, abs=1e-5)


def test_long_texts_are_masked_several_words_at_a_time(context):
    data = trial(context, " ".join([TEXT] * 4))
    assert len(data["words"]) == 28 and len(data["shares"]) == 11


# ---------------------------------------------------------------------------------- verdict


@pytest.mark.parametrize(("attention", "occlusion", "words", "kind", "best"), [
    (0.0, 0.9, 3, "few", "occlusion_mask"),
    (0.1, 0.2, 9, "none", "occlusion_mask"),
    (0.1, 0.9, 9, "not", "occlusion_mask"),
    (0.55, 0.9, 9, "unclear", "occlusion_mask"),
    (0.8, 0.9, 9, "also", "occlusion_mask"),
    (0.9, 0.8, 9, "best", "attention"),
])
def test_the_verdict_compares_the_best_method_and_attention_with_chance(
        attention, occlusion, words, kind, best):
    chance = [with_gap(0.05 + place / 10) for place in range(8)]  # 0.05 to 0.75
    trials = {"attention": with_gap(attention), "occlusion_mask": with_gap(occlusion)}
    assert verdict(trials, chance, words) == {"kind": kind, "best": best}
    for language in ("en", "ko"):
        assert say(language, f"trial_verdict_{kind}", best="x")


def test_a_text_of_one_word_has_too_few(context):
    data = trial(context, "clapped")
    assert data["verdict"]["kind"] == "few"
    assert_drawn(STUDY, data)


# ---------------------------------------------------------------------------------- everywhere


def test_other_classes_and_builds_are_put_on_trial(deeper, any_context):
    data = trial(StudyContext(deeper), against="yes")
    assert [item["key"] for item in data["classes"]] == ["yes", "no"]
    assert_drawn(STUDY, data)
    assert all(np.isfinite(method["scores"]).all() for method in trial(any_context)["methods"])


def test_without_a_classifier_there_is_a_sentence(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        trial(StudyContext(EmotionClassifier.load(pretrained_folder)))


@pytest.mark.parametrize("options", [{}, {"part": "first"}, {"against": "joy", "curve": "margin"}])
def test_the_trial_can_be_taken_away(context, options):
    data = trial(context, KOREAN, **options)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert rows[0] == ["class", data["classes"][data["target"]]["key"]]
    row = next(row for row in rows if row[:1] == ["rollout"])
    measures = data["methods"][NAMES.index("rollout")]["measures"]
    assert [float(cell) for cell in row[1:3]] == [measures["comprehensiveness"],
                                                 measures["sufficiency"]]


def test_the_page_shows_the_figures_of_python_and_all_methods_in_the_end(visit, context):
    with visit(address("trial", TEXT)) as page:
        place = page.locator('[data-study="trial"]')
        rows = place.locator(".measures tbody tr")
        expect(rows).to_have_count(len(NAMES) + 1)  # the rest has come, and chance
        data = trial(context)
        for method in data["methods"]:
            shown = place.locator(f'[data-row="{method["name"]}"] td').all_inner_texts()
            assert numbers_in(" ".join(shown[:4])) == pytest.approx(
                [method["measures"][name] for name in
                 ("comprehensiveness", "sufficiency", "deletion", "insertion")], abs=6e-4)
            assert shown[4] == f"{100 * method['beats']:.0f}\u00a0%"
        best = say("en", f"trial_{data['verdict']['best']}")
        expect(place.locator(".finding")).to_have_text(
            say("en", f"trial_verdict_{data['verdict']['kind']}", best=best))
        strip = place.locator('.strips [data-method="occlusion_mask"] td')
        scores = data["methods"][NAMES.index("occlusion_mask")]["scores"]
        expect(strip.nth(int(np.argmax(scores)))).to_have_text("1")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        place.locator('button[data-method="rollout"]').click()
        expect(place.locator('button[data-method="rollout"]')).to_have_attribute(
            "aria-pressed", "true")
        place.get_by_role("button", name=say("en", "trial_margin")).click()
        assert "method=rollout" in page.url and "curve=margin" in page.url and asked == []
        page.get_by_label(say("en", "trial_against"), exact=True).select_option("joy")
        other = trial(context, against="joy")["methods"][0]["measures"]["deletion"]
        expect(place.locator('[data-row="attention"] [data-measure="deletion"]')).to_have_text(
            f"{other:.3f}")
        assert "against=joy" in page.url
