"""The classifier read after every layer."""

import pytest
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.emotions import KEYS
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


def test_the_page_shows_the_lens_with_the_shares_of_the_last_layer(visit, context):
    data = STUDY.answer(context, KOREAN)
    with visit(address("lens", KOREAN)) as page:
        figures = page.locator('[data-study="lens"] .legend .figure')
        expect(figures).to_have_text([f"{100 * share:.1f}\u00a0%"
                                      for share in data["probabilities"][-1]])
