"""Hidden states, against transformers and formulas written anew."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.model import BertForSequenceClassification
from bert.studies.base import StudyContext, unpack
from bert.studies.hidden import STUDY

TEXT = "They blamed me for their own mistake"
KOREAN = "드디어 마라톤을 완주했다"


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


def answer(context: StudyContext, text: str = TEXT, **options) -> dict:
    return STUDY.answer(context, text, options)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_hidden_states_are_those_of_a_prediction(wide, norm):
    expected = wide[norm](TEXT).hidden_states
    for layer, states in enumerate(expected):
        data = answer(StudyContext(wide[norm]), at=layer)
        np.testing.assert_allclose(unpack(data["values"]), states[:, :128], atol=1e-5)
    last = answer(StudyContext(wide[norm]), token=2, first=128)
    np.testing.assert_allclose(unpack(last["values"]), expected[:, 2, 128:], atol=1e-5)


def test_hidden_states_are_those_of_transformers(context, theirs):
    expected = torch.cat(theirs.hidden_states).numpy()
    for layer, states in enumerate(expected):
        data = answer(context, at=layer)
        np.testing.assert_allclose(unpack(data["values"]), states, atol=1e-5)


def test_cosines_and_norms_follow_their_formulas(context, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    data = answer(context)
    for layer in range(len(states)):
        for token, vector in enumerate(states[layer]):
            length = sum(number ** 2 for number in vector) ** 0.5
            assert data["norms"][layer][token] == pytest.approx(length, rel=1e-5)
            if layer:
                before = states[layer - 1, token]
                cosine = vector @ before / (length * (before @ before) ** 0.5)
                assert data["cosines"][layer - 1][token] == pytest.approx(cosine, rel=1e-5)


def test_the_pictures_hold_every_token_of_every_layer(context, classifier):
    states = classifier(TEXT).hidden_states
    data = answer(context)
    assert len(data["states"]) == len(states)
    for packed, expected in zip(data["states"], states, strict=True):
        np.testing.assert_allclose(unpack(packed), expected,
                                   atol=packed["limit"] / 254 + 1e-6)


def test_the_colours_cover_all_but_the_largest_hundredth(context, classifier):
    sizes = np.abs(classifier(TEXT).hidden_states)
    assert (sizes <= answer(context)["limit"]).mean() == pytest.approx(0.99, abs=0.005)


def test_distributions_count_every_value_over_one_range(context, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    for found, layer in zip(answer(context)["distributions"], states, strict=True):
        assert found["mean"] == pytest.approx(layer.sum() / layer.size, abs=1e-6)
        assert found["std"] == pytest.approx(((layer - layer.mean()) ** 2).mean() ** 0.5, rel=1e-5)
        ends = states.min(), states.max()
        assert (found["start"], found["end"]) == pytest.approx(ends, rel=1e-5)
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
    data = answer(StudyContext(wide["post"]), **given)
    assert (data["token"], data["at"], data["first"]) == used


def test_the_sheet_has_the_numbers_of_the_chosen_token(context, classifier):
    prediction = classifier(TEXT)
    heading, *rows = sheet(STUDY, answer(context, token=2))
    assert heading[5:7] == ["dimension 0", "dimension 1"] and len(heading) == 5 + 32
    assert [row[:3] for row in rows] == [[str(layer), "2", prediction.tokens[2]]
                                         for layer in range(3)]
    np.testing.assert_allclose([[float(cell) for cell in row[5:]] for row in rows],
                               prediction.hidden_states[:, 2], atol=1e-5)
    assert rows[0][3] == ""


def test_the_picture_can_be_taken_away(context):
    assert_drawn(STUDY, answer(context, KOREAN))


def test_the_page_shows_cosines_values_and_tokens_without_asking_again(visit, classifier):
    states = classifier(TEXT).hidden_states.astype(np.float64)
    with visit(address("hidden", TEXT)) as page:
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
