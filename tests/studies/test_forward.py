"""The forward pass: every number against formulas written anew in numpy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from by_hand import close
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, numbers_in, sheet

from bert.classifier import EmotionClassifier
from bert.studies.base import StudyContext
from bert.studies.forward import STUDY

TEXT = "드디어 마라톤을 완주했다"


@pytest.mark.parametrize("token", [0, 2])
def test_every_station_has_the_numbers_of_the_formula(any_context, by_hand, token):
    data = STUDY.answer(any_context, TEXT, {"token": str(token)})
    expected = {"token": by_hand.token, "segment": by_hand.segment, "position": by_hand.position,
                "sum": by_hand.sum, "norm": by_hand.states[0], "final": by_hand.last}
    expected = {name: tensor[token] for name, tensor in expected.items()}
    expected |= {"read": by_hand.read, "pooled": by_hand.pooled}
    others = [stop for stop in data["stations"] if stop["name"] != "layer"]
    has_final = any_context.classifier.config.norm == "pre"
    assert [stop["name"] for stop in others] == [name for name in expected
                                                 if name != "final" or has_final]
    for stop in data["stations"]:
        vector = (by_hand.states[stop["layer"]][token] if "layer" in stop
                  else expected[stop["name"]])
        assert np.array(stop["values"]) == close(vector), stop["name"]
        assert (stop["mean"], stop["std"], stop["norm"]) == (
            close(vector.mean()), close(vector.std()), close(np.sqrt((vector ** 2).sum())))
        assert max(map(abs, stop["values"])) <= stop["limit"] * (1 + 1e-6)
        size = len(data["pieces"])
        assert stop["shape"] == ("(1, 32)" if stop["name"] in ("read", "pooled")
                                 else f"(1, {size}, 32)")
    assert np.array(data["logits"]) == close(by_hand.logits)
    assert np.array(data["probabilities"]) == close(by_hand.probabilities)


def test_how_far_a_layer_moved_a_token_is_the_distance_of_its_two_vectors(any_context, by_hand):
    data = STUDY.answer(any_context, TEXT, {"token": 3})
    layers = [stop for stop in data["stations"] if stop["name"] == "layer"]
    assert [stop["layer"] for stop in layers] == [1, 2]
    for stop in layers:
        before, after = by_hand.states[stop["layer"] - 1][3], by_hand.states[stop["layer"]][3]
        assert stop["moved"] == close(np.sqrt(((after - before) ** 2).sum()))


def test_the_layers_are_those_of_transformers(context, emotion_folder):
    theirs = transformers.BertForSequenceClassification.from_pretrained(emotion_folder).eval()
    ids = torch.tensor([context.classifier.encode(TEXT).ids])
    with torch.inference_mode():
        output = theirs(ids, output_hidden_states=True)
    for token in (0, 4):
        data = STUDY.answer(context, TEXT, {"token": token})
        ours = [stop["values"] for stop in data["stations"] if stop["name"] in ("norm", "layer")]
        for state, values in zip(output.hidden_states, ours, strict=True):
            assert np.abs(state[0, token].numpy() - np.array(values)).max() < 1e-5
    assert np.array(data["probabilities"]) == pytest.approx(
        output.logits[0].softmax(dim=-1).numpy(), abs=1e-5)


def test_the_forward_pass_ends_with_the_probabilities_of_the_answer(context):
    data = STUDY.answer(context, TEXT)
    prediction = context.classifier(TEXT)
    assert np.array(data["probabilities"]) == pytest.approx(prediction.probabilities, abs=1e-6)
    assert [item["key"] for item in data["classes"]] == list(prediction.keys)
    assert (data["ids"], data["pieces"]) == (prediction.encoding.ids, prediction.tokens)


def test_without_a_classifier_it_ends_at_the_pooler_or_before_it(pretrained_folder):
    classifier = EmotionClassifier.load(pretrained_folder)
    data = STUDY.answer(StudyContext(classifier), TEXT)
    assert data["classes"] == [] and data["stations"][-1]["name"] == "pooled"
    bare = EmotionClassifier(replace(classifier.checkpoint, missing=("pooler",)))
    data = STUDY.answer(StudyContext(bare), TEXT)
    assert data["stations"][-1]["name"] == "layer"
    assert_drawn(STUDY, data)
    assert not any("logit" in row for row in sheet(STUDY, data))


def test_the_forward_pass_can_be_taken_away(any_context, by_hand):
    data = STUDY.answer(any_context, TEXT, {"token": 1})
    assert_drawn(STUDY, data)
    rows = {row[0]: row for row in sheet(STUDY, data) if row}
    assert np.array(rows["layer 2"][5:], dtype=float) == close(by_hand.states[2][1])
    assert float(rows["joy"][1]) == close(by_hand.logits[data["classes"].index(
        next(item for item in data["classes"] if item["key"] == "joy"))])


@pytest.mark.parametrize("token", [10_000, [1], "-1", True, None, "one"])
def test_an_impossible_token_becomes_the_first(context, token):
    assert STUDY.answer(context, TEXT, {"token": token})["token"] == 0


def test_the_page_shows_the_stations_of_the_chosen_token(visit, context):
    with visit(address("forward", TEXT, token=2)) as page:
        data = STUDY.answer(context, TEXT, {"token": 2})
        stops = {stop["name"]: stop for stop in data["stations"]}
        for name in ("token", "sum", "norm", "read", "pooled"):
            card = page.locator(f'[data-station="{name}"]')
            assert numbers_in(card.locator(".numbers").inner_text()) == pytest.approx(
                stops[name]["values"][:6], abs=6e-4)
            expect(card.locator(".shape")).to_have_text(stops[name]["shape"])
        shares = {row.get_attribute("data-class"): row.locator("td").last.inner_text()
                  for row in page.locator('[data-station="answer"] tbody tr').all()}
        assert shares == {bar.get_attribute("data-class"): bar.locator(".figure").inner_text()
                          for bar in page.locator("button.bar").all()}
        page.locator('[data-study="forward"] .token-row button').nth(1).press("Enter")
        expect(page.locator('[data-station="ids"] .stats')).to_contain_text(
            f"“{data['pieces'][1]}” is number {data['ids'][1]} ")
        assert page.evaluate("document.activeElement.dataset.place") == "1"
        assert "token=1" in page.url
