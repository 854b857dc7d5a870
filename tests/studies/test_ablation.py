"""The answer without some heads."""

import copy
import re
import urllib.parse

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.classifier import EmotionClassifier
from bert.emotions import KEYS
from bert.explain import ablation
from bert.studies.ablation import STUDY, read_heads
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


def test_effects_are_changes_of_the_answered_class_and_the_largest_are_named(context, deeper):
    for place in (context, StudyContext(deeper)):
        data = STUDY.answer(place, ENGLISH)
        best = max(range(len(data["before"])), key=data["before"].__getitem__)
        assert data["best"] == best
        for layer, row in enumerate(data["effects"], 1):
            for head, effect in enumerate(row, 1):
                off = STUDY.answer(place, ENGLISH, {"heads_off": f"{layer}.{head}"})
                assert effect == pytest.approx(off["after"][best] - data["before"][best], abs=1e-6)
        sizes = sorted((abs(effect) for row in data["effects"] for effect in row), reverse=True)
        named = [abs(data["effects"][layer - 1][head - 1]) for layer, head in data["ranked"]]
        assert named == sizes[:5]


def test_the_map_is_worked_out_once_for_a_text(context, monkeypatch):
    text = "A text for this test alone"
    runs = []
    compute = ablation.masked_probabilities
    monkeypatch.setattr(ablation, "masked_probabilities",
                        lambda *given: runs.append(len(given[2])) or compute(*given))
    for off in ("", "1.1", "1.1,2.2", "1.*,2.*"):
        STUDY.answer(context, text, {"heads_off": off})
    assert runs == [5, 1, 1]  # all heads on and each one off; then only what is new


def test_heads_need_a_classifier_to_have_an_effect(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        STUDY.answer(StudyContext(EmotionClassifier.load(pretrained_folder)), KOREAN)


def test_the_heads_can_be_taken_away(context):
    data = STUDY.answer(context, KOREAN, {"heads_off": "1.2"})
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert [[row[0], float(row[1]), float(row[2])] for row in rows[1:11]] == [
        [key, *shares] for key, *shares in zip(KEYS, data["before"], data["after"], strict=True)]
    assert [row[3] for row in rows[13:]] == ["0", "1", "0", "0"]


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
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(page.url).fragment)
        assert query["heads_off"] == ["2.*"]
        place.locator('[data-head="2.1"].cell').click()
        expect(page).to_have_url(re.compile(r"[#&]heads_off=2\.2(&|$)"))
        place.locator('[data-head="2.1"].cell').focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(place.locator('[data-head="1.1"].cell')).to_have_attribute("aria-pressed", "true")
        place.get_by_role("button", name="All on", exact=True).click()
        expect(changes.nth(strongest)).to_have_text("0.0")
        layer, head = data["ranked"][0]
        effect = 100 * data["effects"][layer - 1][head - 1]
        expect(place.locator(".ranked .figure").first).to_have_text(
            f"{'+' if effect > 0 else '−'}{abs(effect):.2f}")
