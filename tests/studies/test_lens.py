"""The classifier read after every layer."""

import numpy as np
import pytest
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.classifier import EmotionClassifier
from bert.drawing.texts import say
from bert.emotions import KEYS
from bert.explain.tuned_lens import TunedLens
from bert.studies.base import StudyContext
from bert.studies.lens import STUDY

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


def test_the_last_row_of_the_lens_is_the_prediction(context, classifier):
    data = STUDY.answer(context, KOREAN)
    assert data["probabilities"][-1] == pytest.approx(classifier(KOREAN).probabilities, abs=1e-6)
    assert data["classes"][data["best"]]["key"] == classifier(KOREAN).label


def test_the_lens_settles_where_the_answer_leads_for_good(context):
    for text in (KOREAN, ENGLISH, "What if the money runs out"):
        data = STUDY.answer(context, text)
        leaders = [row.index(max(row)) for row in data["probabilities"]]
        settled = len(leaders)
        while settled > 1 and leaders[settled - 1] == data["best"]:
            settled -= 1
        assert data["settled"] == settled


def test_the_lens_can_be_taken_away(context):
    data = STUDY.answer(context, KOREAN)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert rows[0] == ["layer", *KEYS]
    assert [[float(cell) for cell in row[1:]] for row in rows[1:]] == data["probabilities"]


def test_without_a_file_there_is_only_the_plain_lens(context):
    data = STUDY.answer(context, KOREAN)
    assert data["tuned"] is None and data["tuned_settled"] is None


def test_the_tuned_lens_stands_beside_the_plain_one(surveyed_folder):
    classifier = EmotionClassifier.load(surveyed_folder)
    data = STUDY.answer(StudyContext(classifier), KOREAN)
    expected = TunedLens.load(classifier).read(classifier, classifier(KOREAN).hidden_states)
    np.testing.assert_allclose(data["tuned"], expected, atol=1e-6)
    assert data["tuned"][-1] == pytest.approx(data["probabilities"][-1], abs=1e-6)
    assert data["tuned"][1] != pytest.approx(data["probabilities"][1], abs=1e-3)
    leaders = [row.index(max(row)) for row in data["tuned"]]
    assert set(leaders[data["tuned_settled"]:]) == {data["best"]}
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert [float(cell) for cell in rows[-2][1:]] == data["tuned"][-2]


def test_a_lens_of_another_model_is_as_good_as_none(surveyed_folder, classifier):
    TunedLens(np.zeros((2, 32, 32), np.float32), np.zeros((2, 32), np.float32), "another").save(
        surveyed_folder)
    data = STUDY.answer(StudyContext(EmotionClassifier.load(surveyed_folder)), KOREAN)
    assert data["tuned"] is None


def test_the_page_says_which_lens_is_which(visit, serve, surveyed_folder):
    with visit(address("lens", KOREAN), at=serve(surveyed_folder)) as page:
        place = page.locator('[data-study="lens"]')
        for kind in ("plain", "tuned"):
            expect(place.locator(f'[data-lens="{kind}"] figcaption')).to_have_text(
                say("en", f"lens_{kind}"))


def test_the_page_shows_the_lens_with_the_shares_of_the_last_layer(visit, context):
    data = STUDY.answer(context, KOREAN)
    with visit(address("lens", KOREAN)) as page:
        figures = page.locator('[data-study="lens"] .legend .figure')
        expect(figures).to_have_text([f"{100 * share:.1f}\u00a0%"
                                      for share in data["probabilities"][-1]])


def test_play_walks_the_lens_through_the_layers(visit, context):
    rows = STUDY.answer(context, KOREAN)["probabilities"]
    with visit(address("lens", KOREAN)) as page:
        place = page.locator('[data-study="lens"]')
        place.get_by_role("button", name=say("en", "play")).click()
        where = place.locator(".where")
        for layer, row in enumerate(rows):
            expect(where).to_contain_text(f"After layer {layer}: ")
            expect(where).to_contain_text(f"{100 * max(row):.1f}")
        expect(where).to_have_text("")  # the end: the answer as it is
        expect(place.get_by_role("button", name=say("en", "play"))).to_be_visible()
