"""The answer without some heads."""

import copy
import re

import numpy as np
import pytest
import torch
from page_helpers import address as address_of
from playwright.sync_api import expect
from scipy.stats import spearmanr
from study_helpers import address, assert_drawn, sheet

from bert.classifier import EmotionClassifier
from bert.emotions import KEYS
from bert.explain import mean_ablation
from bert.explain.heads import load_heads
from bert.explain.saliency import head_importance
from bert.explain.target import Target
from bert.studies import ablation as study
from bert.studies.ablation import STUDY, finding, read_heads
from bert.studies.base import StudyContext

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


def test_heads_are_read_from_the_address_and_rubbish_is_passed_over():
    assert read_heads("2.1,1.2", 2, 2) == [(1, 2), (2, 1)]
    assert read_heads("2.*,2.1", 2, 3) == [(2, 1), (2, 2), (2, 3)]
    assert read_heads("1.*,2.*", 2, 1) == [(1, 1), (2, 1)]
    for rubbish in ("", "0.1", "1.0", "3.1", "1.3", "*.1", "1", "1.1.1", "-1.1", "1. 1", "１.１",
                    "01.1", ",,", "x", "1e0.1", "9" * 20_000):
        assert read_heads(rubbish, 2, 2) == []


def test_rubbish_in_the_address_leaves_every_head_on(context):
    for rubbish in ("7.7,no,1.*1", None, 3, [1, 2], {"1": 1}):
        data = STUDY.answer(context, KOREAN, {"heads_off": rubbish})
        assert data["off"] == [] and data["after"] == data["before"]
    assert STUDY.answer(context, KOREAN, {"heads_off": "7.7,2.1"})["off"] == [[2, 1]]


@pytest.mark.parametrize("off", ["1.2", "1.1,2.2", "2.*", "1.*,2.*"])
def test_a_head_that_is_off_is_a_head_whose_output_weights_are_zero(context, classifier, off):
    edited = copy.deepcopy(classifier.model)
    width = classifier.config.hidden_size // classifier.config.num_attention_heads
    for layer, head in read_heads(off, 2, 2):
        output = edited.bert.encoder.layer[layer - 1].attention.output
        with torch.no_grad():
            output.weight[:, (head - 1) * width:head * width] = 0.0
    with torch.inference_mode():
        ids = torch.tensor([classifier.encode(ENGLISH).ids])
        expected = edited(ids).logits.softmax(dim=-1)[0].numpy()
    data = STUDY.answer(context, ENGLISH, {"heads_off": off})
    assert data["after"] == pytest.approx(expected, abs=1e-6)
    assert data["before"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert np.abs(np.subtract(data["after"], data["before"])).max() > 1e-4


def test_effects_are_changes_of_the_margin_and_the_largest_are_named(context, deeper):
    for place in (context, StudyContext(deeper)):
        data = STUDY.answer(place, ENGLISH)
        best = max(range(len(data["before"])), key=data["before"].__getitem__)
        assert data["best"] == best
        for layer, row in enumerate(data["effects"], 1):
            for head, effect in enumerate(row, 1):
                off = STUDY.answer(place, ENGLISH, {"heads_off": f"{layer}.{head}"})
                shares = np.log(off["after"])  # logits, but for a constant
                margin = shares[best] - np.delete(shares, best).max()
                assert off["margin_after"] == pytest.approx(margin, abs=1e-3)
                assert effect == pytest.approx(margin - data["margin"], abs=1e-3)
                assert ([layer, head] in data["turning"]) == (
                    int(np.argmax(off["after"])) != best)
        sizes = sorted((abs(effect) for row in data["effects"] for effect in row), reverse=True)
        named = [abs(data["effects"][layer - 1][head - 1]) for layer, head in data["ranked"]]
        assert named == sizes[:5]


def test_importance_by_gradient_stands_beside_the_effects(context, classifier):
    data = STUDY.answer(context, ENGLISH)
    expected = head_importance(classifier, ENGLISH, Target(data["best"]))
    np.testing.assert_allclose(data["importance"], expected, rtol=1e-5)
    assert data["agreement"] == pytest.approx(
        spearmanr(np.abs(data["effects"]).ravel(), expected.ravel()).statistic, abs=1e-6)


def test_small_effects_on_a_sure_answer_stay_pale_and_are_said_to_be_small(context):
    data = STUDY.answer(context, KOREAN)
    largest = np.abs(data["effects"]).max()
    assert data["limit"] == pytest.approx(max(largest, 0.5, data["margin"] / 4))
    assert data["matter"] == (np.abs(data["effects"]) >= 0.1 * data["margin"]).sum()
    calm = {**data, "matter": 0}
    assert "No single head matters here" in finding(calm, "en")
    assert "답을 좌우하는 헤드가 없어요" in finding(calm, "ko")
    layer, head = data["ranked"][0]
    assert f"layer {layer}, head {head}" in finding({**data, "matter": 1}, "en")


def test_the_map_is_worked_out_once_for_a_text(context, monkeypatch):
    runs = []
    compute = mean_ablation.logits_without

    def counted(*given):
        runs.append(len(given[2]))
        return compute(*given)

    monkeypatch.setattr(mean_ablation, "logits_without", counted)
    monkeypatch.setattr(study, "logits_without", counted)
    for off in ("", "1.1", "1.1,2.2", ""):
        STUDY.answer(context, "A text for this test alone", {"heads_off": off})
    assert runs == [5, 1, 1]  # all heads on and each one off; then only what is new


def test_without_a_survey_of_the_heads_only_zero_can_be_chosen(context):
    data = STUDY.answer(context, ENGLISH, {"by": "mean"})
    assert (data["by"], data["has_means"]) == ("zero", False)
    assert data == STUDY.answer(context, ENGLISH)


def test_with_a_survey_a_head_that_is_off_may_give_its_mean(surveyed_folder):
    classifier = EmotionClassifier.load(surveyed_folder)
    place = StudyContext(classifier)
    data = STUDY.answer(place, ENGLISH, {"by": "mean", "heads_off": "1.2,2.1"})
    assert (data["by"], data["has_means"]) == ("mean", True)
    means = np.array(load_heads(classifier)["mean_outputs"], dtype=np.float32)
    expected = mean_ablation.ablation_effects(classifier, ENGLISH, Target(data["best"]), means)
    np.testing.assert_allclose(data["effects"], expected, atol=1e-5)
    off = mean_ablation.logits_without(classifier, ENGLISH, [[(1, 2), (2, 1)]], means)[0]
    assert data["after"] == pytest.approx(off.softmax(dim=-1).numpy(), abs=1e-6)
    assert data["after"] != pytest.approx(
        STUDY.answer(place, ENGLISH, {"heads_off": "1.2,2.1"})["after"], abs=1e-6)
    assert_drawn(STUDY, data)


def test_a_survey_of_another_model_is_as_good_as_none(surveyed_folder):
    path = surveyed_folder / "heads.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"digest":"', '"digest":"0'),
                    encoding="utf-8")
    place = StudyContext(EmotionClassifier.load(surveyed_folder))
    assert not STUDY.answer(place, ENGLISH)["has_means"]


def test_heads_need_a_classifier_to_have_an_effect(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        STUDY.answer(StudyContext(EmotionClassifier.load(pretrained_folder)), KOREAN)


def test_the_heads_can_be_taken_away(context):
    data = STUDY.answer(context, KOREAN, {"heads_off": "1.2"})
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert [[row[0], float(row[1]), float(row[2])] for row in rows[1:11]] == [
        [key, *shares] for key, *shares in zip(KEYS, data["before"], data["after"], strict=True)]
    assert [float(cell) for cell in rows[12][1:3]] == [data["margin"], data["margin_after"]]
    assert [float(row[2]) for row in rows[15:]] == [
        effect for row in data["effects"] for effect in row]
    assert [row[4] for row in rows[15:]] == ["0", "1", "0", "0"]


def test_clicking_heads_on_the_page_switches_them_off(visit, context):
    with visit(address("ablation", ENGLISH)) as page:
        place = page.locator('[data-study="ablation"]')
        changes = place.locator("td.change")
        expect(changes.first).to_have_text("0.0")
        place.locator('[data-row="2"]').click()
        expect(place.locator('.cell[aria-pressed="true"]')).to_have_count(2)
        data = STUDY.answer(context, ENGLISH, {"heads_off": "2.*"})
        differences = 100 * np.subtract(data["after"], data["before"])
        strongest = int(np.abs(differences).argmax())
        sign = "+" if differences[strongest] > 0 else "−"
        expect(changes.nth(strongest)).to_have_text(f"{sign}{abs(differences[strongest]):.1f}")
        assert address_of(page)["heads_off"] == "2.*"
        place.locator('[data-head="2.1"].cell').click()
        expect(page).to_have_url(re.compile(r"[#&]heads_off=2\.2(&|$)"))
        place.locator('[data-head="2.1"].cell').focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(place.locator('[data-head="1.1"].cell')).to_have_attribute("aria-pressed", "true")
        place.get_by_role("button", name="All on", exact=True).click()
        expect(changes.nth(strongest)).to_have_text("0.0")
        layer, head = data["ranked"][0]
        effect = data["effects"][layer - 1][head - 1]
        expect(place.locator(".ranked .figure").first).to_have_text(
            f"{'+' if effect > 0 else '−'}{abs(effect):.2f}")
        expect(place.locator('[data-by="mean"]')).to_be_disabled()
