"""Q, K, V, against the weights on disk, transformers and formulas written anew."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect
from safetensors.numpy import load_file
from study_helpers import address, assert_drawn, sheet

from bert.explain.qkv import MATRICES
from bert.studies.base import StudyContext, unpack
from bert.studies.qkv import STUDY

TEXT = "They blamed me for their own mistake"
KOREAN = "드디어 마라톤을 완주했다"


def matrices(data: dict) -> dict[str, np.ndarray]:
    return {name: unpack(packed) for name, packed in data["matrices"].items()}


def answer(context: StudyContext, text: str = TEXT, **options) -> dict:
    return STUDY.answer(context, text, options)


@pytest.mark.parametrize("layer, head", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_matrices_come_out_of_the_weights_on_disk(context, classifier, emotion_folder,
                                                      layer, head):
    weights = load_file(emotion_folder / "model.safetensors")
    states = classifier(TEXT).hidden_states[layer - 1]                               # (T, E)
    size = states.shape[1] // 2
    part = slice((head - 1) * size, head * size)
    expected = {}
    for name in ("query", "key", "value"):
        of = f"bert.encoder.layer.{layer - 1}.attention.self.{name}"
        expected[name] = (states @ weights[f"{of}.weight"].T + weights[f"{of}.bias"])[:, part]
    expected["scores"] = expected["query"] @ expected["key"].T / size ** 0.5         # (T, T)
    powers = np.exp(expected["scores"])
    expected["attention"] = powers / powers.sum(axis=1, keepdims=True)
    expected["context"] = expected["attention"] @ expected["value"]                  # (T, D)
    found = matrices(answer(context, layer=layer, head=head))
    assert found.keys() == expected.keys()
    for name in MATRICES:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)


def test_attention_is_that_of_the_heatmap_and_of_transformers(context, classifier, theirs):
    ours = classifier(TEXT).attentions
    for layer in (1, 2):
        for head in (1, 2):
            found = matrices(answer(context, layer=layer, head=head))["attention"]
            np.testing.assert_allclose(found, ours[layer - 1, head - 1], atol=1e-5)
            np.testing.assert_allclose(
                found, theirs.attentions[layer - 1][0, head - 1].numpy(), atol=1e-5)


def test_the_first_cell_is_where_cls_looks_most_in_the_last_layer(context, classifier):
    data = answer(context, layer="mean", head=77, query=-1, key="nowhere")
    assert (data["layer"], data["head"], data["query"]) == (2, 1, 0)
    assert data["key"] == classifier(TEXT).attentions[1, 0, 0].argmax()


def test_the_sheet_has_all_six_matrices(context, classifier):
    size = len(classifier.encode(TEXT).pieces)
    _, *rows = sheet(STUDY, answer(context, layer=1, head=2))
    assert [row[0] for row in rows] == [name for name in MATRICES for _ in range(size)]
    attention = [[float(cell) for cell in row[3:]] for row in rows if row[0] == "attention"]
    np.testing.assert_allclose(attention, classifier(TEXT).attentions[0, 1], atol=1e-5)


def test_the_picture_can_be_taken_away(context):
    assert_drawn(STUDY, answer(context, KOREAN))


def test_the_page_works_out_the_weight_of_the_chosen_cell(visit, classifier):
    weights = classifier(TEXT).attentions[0, 1]
    with visit(address("qkv", TEXT, layer=1, head=2)) as page:
        place = page.locator('[data-study="qkv"]')

        def check(query: int, key: int) -> None:
            expect(place).to_have_attribute("data-cell", f"{query}/{key}")
            assert float(place.locator(".weight").inner_text()) == pytest.approx(
                weights[query, key], abs=1e-6)
            heatmap = re.search(r"[\d.]+", place.locator(".heatmap-value").inner_text())
            assert float(heatmap[0]) == pytest.approx(weights[query, key], abs=1e-6)

        best = int(weights[0].argmax())
        check(0, best)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        pad = place.locator('.pad[data-matrix="attention"]')
        pad.focus()
        pad.press("ArrowDown")
        check(1, best)
        pad.press("ArrowLeft" if best else "ArrowRight")
        key = best - 1 if best else 1
        check(1, key)
        assert page.evaluate("document.activeElement.dataset.matrix") == "attention"
        box = place.locator('.pad[data-matrix="scores"] canvas').first.bounding_box()
        cell = box["width"] / len(weights)
        place.locator('.pad[data-matrix="scores"]').click(
            position={"x": 3.5 * cell, "y": 2.5 * cell})
        check(2, 3)
        assert asked == [] and "query=2" in page.url and "key=3" in page.url
