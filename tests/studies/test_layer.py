"""Inside a layer: every number against formulas written anew in numpy."""

import json

import numpy as np
import pytest
from by_hand import close
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, numbers_in, sheet

from bert.drawing.texts import say
from bert.page.downloads import make_study
from bert.studies.base import unpack
from bert.studies.layer import STUDY

TEXT = "드디어 마라톤을 완주했다"
POST = ("attention", "dropout", "residual", "norm", "feed", "dropout", "residual", "norm")
PRE = ("norm", "attention", "dropout", "residual", "norm", "feed", "dropout", "residual")


@pytest.mark.parametrize("layer", [1, 2])
def test_every_step_of_a_layer_has_the_numbers_of_the_formula(any_context, by_hand, layer):
    data = STUDY.answer(any_context, TEXT, {"layer": layer, "head": 2, "token": 1})
    entering, steps = by_hand.states[layer - 1], by_hand.layers[layer - 1]
    assert (data["entering"]["mean"], data["entering"]["std"]) == (
        close(entering.mean()), close(entering.std()))
    assert tuple(step["kind"] for step in data["steps"]) == tuple(kind for kind, _ in steps) == (
        PRE if any_context.classifier.config.norm == "pre" else POST)
    for step, (kind, tensor) in zip(data["steps"], steps, strict=True):
        assert [step[name] for name in ("mean", "std", "low", "high")] == close(
            [tensor.mean(), tensor.std(), tensor.min(), tensor.max()]), kind
        assert (step["start"], step["end"]) == (step["low"], step["high"])
        counts, _ = np.histogram(tensor, bins=len(step["counts"]))
        assert np.abs(np.array(step["counts"]) - counts).sum() <= 4  # one on an edge may differ
        if kind == "dropout":
            assert "picture" not in step
            continue
        assert np.array(step["row"]) == close(tensor[1])
        assert np.abs(unpack(step["picture"]) - tensor).max() <= (
            step["picture"]["limit"] / 253)


def test_the_chosen_head_shows_its_weights_and_its_context(any_context, by_hand):
    data = STUDY.answer(any_context, TEXT, {"layer": 1, "head": 2})
    for name, expected in zip(("weights", "context"), by_hand.heads[0], strict=True):
        found = unpack(data[name])
        assert np.abs(found - expected[1]).max() <= data[name]["limit"] / 253, name


def test_the_boxes_say_the_real_shapes(context):
    data = STUDY.answer(context, TEXT)
    size = len(data["pieces"])
    whole = f"(1, {size}, 32)"
    shapes = {step["kind"]: step["shape"] for step in data["steps"]}
    assert shapes == {
        "attention": f"{whole} → (1, 2, {size}, 16) × 3 → (1, 2, {size}, {size}) → {whole}",
        "feed": f"{whole} → (1, {size}, 64) → {whole}",
        "dropout": whole, "residual": whole, "norm": whole}
    assert data["dropout"] == context.classifier.config.hidden_dropout_prob


@pytest.mark.parametrize("given", [
    {}, {"layer": 99, "head": 0, "token": 10_000, "step": 9}, {"layer": "mean", "head": [1]},
    {"token": "-1", "step": "one"}, {"token": True, "step": None}])
def test_impossible_choices_become_the_defaults(context, given):
    data = STUDY.answer(context, TEXT, given)
    assert [data[name] for name in ("layer", "head", "token", "step")] == [2, 1, 0, 1]


@pytest.mark.parametrize("step", [1, 2])
def test_a_layer_can_be_taken_away_as_a_picture(any_context, step):
    """With and without attention among them: it has two pictures more."""
    data = STUDY.answer(any_context, "$x^2$ 🙂 그리고 끝", {"step": step, "token": 2})
    assert data["step"] == step
    assert_drawn(STUDY, data)


def test_the_file_of_a_layer_holds_every_number_the_page_only_paints(any_context, by_hand):
    data = STUDY.answer(any_context, TEXT, {"layer": 2, "head": 2}, in_full=True)
    data = json.loads(make_study(STUDY, data, "json", "en").content)
    for step, (kind, tensor) in zip(data["steps"], by_hand.layers[1], strict=True):
        assert kind == "dropout" or np.array(step["picture"]) == close(tensor)
    for name, expected in zip(("weights", "context"), by_hand.heads[1], strict=True):
        assert np.array(data[name]) == close(expected[1])


def test_the_sheet_of_a_layer_has_a_row_for_each_step(any_context, by_hand):
    data = STUDY.answer(any_context, TEXT, {"layer": 2, "token": 1})
    heading, *rows = sheet(STUDY, data)
    assert heading[:3] == ["step", "name", "shape"] and len(rows) == 8
    for row, (kind, tensor) in zip(rows, by_hand.layers[1], strict=True):
        assert row[1] == kind
        assert np.array(row[7:], dtype=float) == close(tensor[1])


def test_opening_a_box_asks_nobody_and_shows_its_tensor(visit, context):
    with visit(address("layer", TEXT, layer=1, head=2, token=3)) as page:
        data = STUDY.answer(context, TEXT, {"layer": 1, "head": 2, "token": 3})
        expect(page.locator(".opened h3")).to_have_text(f"1 {say('en', 'layer_attention')}")
        expect(page.locator(".opened figure")).to_have_count(3)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        for number, step in enumerate(data["steps"], 1):
            box = page.locator(f'button[data-step="{number}"]')
            box.press("Enter")
            title = f"{number} {say('en', 'layer_' + step['kind'])}"
            expect(page.locator(".opened h3")).to_have_text(title)
            expect(box.locator(".name")).to_have_text(title)
            assert numbers_in(page.locator(".opened > .stats").inner_text()) == pytest.approx(
                [step[name] for name in ("mean", "std", "low", "high")], abs=6e-4)
            own = step["row"] if "row" in step else data["steps"][number - 2]["row"]
            assert numbers_in(page.locator(".opened .numbers").inner_text()) == pytest.approx(
                own[:6], abs=6e-4)
        assert asked == [] and "step=8" in page.url
        assert [(line.get_attribute("data-from"), line.get_attribute("data-to"))
                for line in page.locator(".bypass").all()] == [("0", "3"), ("4", "7")]
