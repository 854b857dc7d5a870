"""The studies of tensors, against the weights on disk, transformers and formulas written anew."""

import csv
import io
import json
import re
import urllib.parse
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect
from safetensors.numpy import load_file

from bert.checkpoint import save_checkpoint, untrained
from bert.exports import make_study
from bert.lab import Lab, Options, unpacked
from bert.model import BertForSequenceClassification
from bert.predict import EmotionClassifier
from bert.tensors import HIDDEN, MATRICES, QKV, arithmetic

expect.set_options(timeout=60_000)  # a limit for a hang, never reached otherwise
TEXT = "They blamed me for their own mistake"
KOREAN = "드디어 마라톤을 완주했다"


@pytest.fixture(scope="module")
def lab(classifier) -> Lab:
    return Lab(classifier)


@pytest.fixture(scope="module")
def theirs(emotion_folder, classifier):
    """What transformers finds in our folder: hidden states and attention of TEXT."""
    model = transformers.AutoModel.from_pretrained(emotion_folder, attn_implementation="eager",
                                                   add_pooling_layer=False).eval()
    ids = torch.tensor([classifier.encode(TEXT).ids])
    with torch.inference_mode():
        return model(ids, output_hidden_states=True, output_attentions=True)


@pytest.fixture(scope="module")
def wide(tmp_path_factory, tokenizer, tiny_config) -> dict[str, EmotionClassifier]:
    """Models of 160 dimensions, more than one block, with either kind of LayerNorm."""
    made = {}
    for norm in ("post", "pre"):
        config = replace(tiny_config, hidden_size=160, num_hidden_layers=3, norm=norm)
        folder = tmp_path_factory.mktemp("checkpoints") / norm
        save_checkpoint(folder, untrained(config, BertForSequenceClassification), tokenizer)
        made[norm] = EmotionClassifier.load(folder)
    return made


def matrices(data: dict) -> dict[str, np.ndarray]:
    return {name: unpacked(packed) for name, packed in data["matrices"].items()}


def answer(study, lab: Lab, text: str = TEXT, **options) -> dict:
    return study.answer(lab, text, Options(options))


def sheet(file) -> list[list[str]]:
    return list(csv.reader(io.StringIO(file.content.decode("utf-8-sig"))))


def shown(page) -> str:
    return f"view={page}&text={urllib.parse.quote(TEXT)}"


# ---------------------------------------------------------------------------------- hidden states


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_hidden_states_are_bit_for_bit_those_of_a_prediction(wide, norm):
    expected = wide[norm](TEXT).hidden_states
    for layer, states in enumerate(expected):
        data = answer(HIDDEN, Lab(wide[norm]), at=layer)
        assert np.array_equal(unpacked(data["values"]), states[:, :128])
    last = answer(HIDDEN, Lab(wide[norm]), token=2, first=128)
    assert np.array_equal(unpacked(last["values"]), expected[:, 2, 128:])


def test_hidden_states_are_those_of_transformers(lab, theirs):
    expected = torch.cat(theirs.hidden_states).numpy()
    for layer, states in enumerate(expected):
        data = answer(HIDDEN, lab, at=layer)
        np.testing.assert_allclose(unpacked(data["values"]), states, atol=1e-5)


def test_cosines_and_norms_follow_their_formulas(lab, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    data = answer(HIDDEN, lab)
    for layer in range(len(states)):
        for token, vector in enumerate(states[layer]):
            length = sum(number ** 2 for number in vector) ** 0.5
            assert data["norms"][layer][token] == pytest.approx(length, rel=1e-7)
            if layer:
                before = states[layer - 1, token]
                cosine = vector @ before / (length * (before @ before) ** 0.5)
                assert data["cosines"][layer - 1][token] == pytest.approx(cosine, rel=1e-7)


def test_the_pictures_hold_every_token_of_every_layer(lab, classifier):
    states = classifier(TEXT).hidden_states
    data = answer(HIDDEN, lab)
    assert len(data["states"]) == len(states)
    for packed, expected in zip(data["states"], states, strict=True):
        np.testing.assert_allclose(unpacked(packed), expected,
                                   atol=packed["limit"] / 254 + 1e-6)


def test_the_colours_cover_all_but_the_largest_hundredth(lab, classifier):
    sizes = np.abs(classifier(TEXT).hidden_states)
    assert (sizes <= answer(HIDDEN, lab)["limit"]).mean() == pytest.approx(0.99, abs=0.005)


def test_distributions_count_every_value_over_one_range(lab, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    for found, layer in zip(answer(HIDDEN, lab)["distributions"], states, strict=True):
        assert found["mean"] == pytest.approx(layer.sum() / layer.size, abs=1e-7)
        assert found["spread"] == pytest.approx(((layer - layer.mean()) ** 2).mean() ** 0.5)
        assert (found["from"], found["to"]) == pytest.approx((states.min(), states.max()))
        step = (states.max() - states.min()) / len(found["counts"])
        places = np.minimum((layer - states.min()) // step, len(found["counts"]) - 1)
        counts = [int((places == bar).sum()) for bar in range(len(found["counts"]))]
        assert sum(found["counts"]) == layer.size
        assert np.abs(np.subtract(counts, found["counts"])).max() <= 1  # a value on an edge


@pytest.mark.parametrize("given, used", [
    ({}, (0, None, 0)), ({"token": "3", "at": "1"}, (3, 1, 0)), ({"first": 200}, (0, None, 128)),
    ({"first": "130"}, (0, None, 128)), ({"first": 10**8}, (0, None, 128)),
    ({"token": 999, "at": 99, "first": -5}, (0, None, 0)),
    ({"token": "x", "at": "", "first": None}, (0, None, 0)), ({"at": 0}, (0, 0, 0))])
def test_impossible_choices_become_possible_ones(wide, given, used):
    data = answer(HIDDEN, Lab(wide["post"]), **given)
    assert (data["token"], data["at"], data["first"]) == used


def test_the_sheet_has_the_numbers_of_the_chosen_token(lab, classifier):
    prediction = classifier(TEXT)
    heading, *rows = sheet(make_study(HIDDEN, answer(HIDDEN, lab, token=2), "csv", "en"))
    assert heading[5:7] == ["dimension 0", "dimension 1"] and len(heading) == 5 + 32
    assert [row[:3] for row in rows] == [[str(layer), "2", prediction.tokens[2]]
                                         for layer in range(3)]
    np.testing.assert_allclose([[float(cell) for cell in row[5:]] for row in rows],
                               prediction.hidden_states[:, 2], rtol=1e-6)
    assert rows[0][3] == ""


# ---------------------------------------------------------------------------------- Q, K, V


@pytest.mark.parametrize("layer, head", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_the_matrices_come_out_of_the_weights_on_disk(lab, classifier, emotion_folder, layer, head):
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
    found = matrices(answer(QKV, lab, layer=layer, head=head))
    assert found.keys() == expected.keys()
    for name in MATRICES:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)


def test_attention_is_that_of_the_heatmap_and_of_transformers(lab, classifier, theirs):
    ours = classifier(TEXT).attentions
    for layer in (1, 2):
        for head in (1, 2):
            found = matrices(answer(QKV, lab, layer=layer, head=head))["attention"]
            assert np.array_equal(found, ours[layer - 1, head - 1])
            np.testing.assert_allclose(
                found, theirs.attentions[layer - 1][0, head - 1].numpy(), atol=1e-5)


def test_the_arithmetic_ends_in_the_heatmaps_value_for_every_cell(lab, classifier):
    weights = classifier(TEXT).attentions[1, 0]
    data = answer(QKV, lab, layer=2, head=1)
    for query, key in np.ndindex(weights.shape):
        steps = arithmetic({**data, "query": query, "key": key})
        assert steps["weight"] == pytest.approx(weights[query, key], abs=1e-6)
        assert steps["heatmap"] == pytest.approx(weights[query, key], abs=1e-9)
        assert steps["score"] == pytest.approx(
            matrices(data)["scores"][query, key], rel=1e-5, abs=1e-5)


def test_the_first_cell_is_where_cls_looks_most_in_the_last_layer(lab, classifier):
    data = answer(QKV, lab, layer="mean", head=77, query=-1, key="nowhere")
    assert (data["layer"], data["head"], data["query"]) == (2, 1, 0)
    assert data["key"] == classifier(TEXT).attentions[1, 0, 0].argmax()


def test_the_sheet_has_all_six_matrices(lab, classifier):
    size = len(classifier.encode(TEXT).pieces)
    _, *rows = sheet(make_study(QKV, answer(QKV, lab, layer=1, head=2), "csv", "en"))
    assert [row[0] for row in rows] == [name for name in MATRICES for _ in range(size)]
    attention = [[float(cell) for cell in row[3:]] for row in rows if row[0] == "attention"]
    np.testing.assert_allclose(attention, classifier(TEXT).attentions[0, 1], rtol=1e-6)


# ---------------------------------------------------------------------------------- both


@pytest.mark.parametrize("study", [HIDDEN, QKV], ids=lambda study: study.name)
@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_picture_can_be_taken_away_in_both_languages(lab, study, language):
    file = make_study(study, answer(study, lab, KOREAN), "png", language)
    assert file.name == f"microscope-{study.name}.png"
    assert file.content.startswith(b"\x89PNG") and len(file.content) > 10_000


@pytest.mark.parametrize("study", [HIDDEN, QKV], ids=lambda study: study.name)
def test_a_checkpoint_without_a_classifier_is_looked_into_as_well(pretrained_folder, study):
    lab = Lab(EmotionClassifier.load(pretrained_folder))
    data = answer(study, lab)
    assert data["tokens"][0] == "[CLS]"
    assert json.loads(json.dumps(data)) == data


# ---------------------------------------------------------------------------------- in the browser


def test_the_page_shows_cosines_values_and_tokens_without_asking_again(visit, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    with visit(shown("hidden")) as page:
        place = page.locator('[data-study="hidden"]')
        expect(place.locator('.pad[data-painted="/0/0"]')).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        place.locator('.token-row [data-place="2"]').click()
        expect(place.locator('.pad[data-painted="/2/0"]')).to_be_visible()
        cosines = [text.replace("−", "-") for text in place.locator(".cosine").all_inner_texts()]
        before, after = states[:-1, 2], states[1:, 2]
        lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
        assert cosines[0] == "–"
        assert [float(text) for text in cosines[1:]] == pytest.approx(
            (before * after).sum(axis=1) / lengths, abs=0.00006)
        place.locator(".names button").nth(1).click()
        expect(place.locator('.pad[data-painted="1/2/0"]')).to_be_visible()
        pad = place.locator(".pad")
        pad.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
            pad.press(key)
        said = re.search(r"Layer 1 · “(.+)” · dimension 3: ≈ (.+)",
                         place.locator(".readout").inner_text())
        assert said[1] == classifier(TEXT).tokens[1]
        limit = np.abs(states[1]).max()
        assert float(said[2].replace("−", "-")) == pytest.approx(
            states[1, 1, 3], abs=limit / 254 + 0.0006)
        assert asked == []
        assert "at=1" in page.url and "token=2" in page.url


def test_the_page_works_out_the_weight_of_the_chosen_cell(visit, classifier):
    weights = classifier(TEXT).attentions[0, 1]
    with visit(f"{shown('qkv')}&layer=1&head=2") as page:
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
