"""What every head does in general, beside what it does in a text."""

import numpy as np
import pytest
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.classifier import EmotionClassifier
from bert.drawing.texts import LANGUAGES, say
from bert.explain.attention import effective_tokens, pattern_shares
from bert.explain.heads import load_heads
from bert.explain.saliency import head_importance
from bert.explain.target import Target
from bert.studies.base import StudyContext
from bert.studies.head_kinds import KINDS, STUDY, to_rgb

TEXT = "They blamed me for their own mistake"


def test_this_text_has_the_figures_of_its_attention(context, classifier):
    data = STUDY.answer(context, TEXT)
    prediction = classifier(TEXT)
    for layer, head in np.ndindex(2, 2):
        weights = prediction.attentions[layer, head]
        shares = dict(zip(data["patterns"], data["shares"]["here"][layer][head], strict=True))
        for name, share in pattern_shares(prediction.encoding, weights).items():
            assert shares[name] == pytest.approx(share, abs=1e-5)
        assert data["figures"]["here"]["effective_tokens"][layer][head] == pytest.approx(
            effective_tokens(weights), abs=1e-4)
    target = Target(int(prediction.probabilities.argmax()))
    np.testing.assert_allclose(data["figures"]["here"]["importance"],
                               head_importance(classifier, TEXT, target), rtol=1e-4)


def test_without_a_survey_there_is_this_text_and_a_sentence(context):
    data = STUDY.answer(context, TEXT, {"layer": 1, "head": 2})
    assert (data["layer"], data["head"], data["has_survey"]) == (1, 2, False)
    assert list(data["kinds"]) == ["here"] and data["strongest"] == []
    for language in LANGUAGES:
        assert "python -m bert evaluate --heads" in say(language, "head_kinds_no_survey")
    assert_drawn(STUDY, data)


def test_in_general_is_what_the_survey_says(surveyed_folder):
    classifier = EmotionClassifier.load(surveyed_folder)
    data = STUDY.answer(StudyContext(classifier), TEXT, {"layer": 2, "head": 1})
    survey = load_heads(classifier)
    assert list(data["kinds"]) == ["ko", "en", "here"] and data["texts"] == {"ko": 10, "en": 10}
    for language in ("ko", "en"):
        known = survey["languages"][language]
        assert data["kinds"][language] == known["kind"]
        assert data["shares"][language] == known["shares"]
        assert data["figures"][language]["importance"] == known["importance"]
    assert data["same_kind"] == survey["agreement"]["same_kind"]
    looks = [(look["text"], look["source"], look["weight"]) for look in data["strongest"]]
    assert looks == [(survey["texts"][look["text"]], look["from"], look["weight"])
                     for language in ("ko", "en")
                     for look in survey["languages"][language]["strongest"][1][0]]
    assert_drawn(STUDY, data)


def test_impossible_heads_become_the_last_layer_and_the_first_head(context):
    data = STUDY.answer(context, TEXT, {"layer": 99, "head": "x", "figure": 3})
    assert (data["layer"], data["head"]) == (2, 1)


def test_a_text_of_one_piece_can_be_shown(context):
    data = STUDY.answer(context, "me")
    assert None in [share for row in data["shares"]["here"] for head in row for share in head]
    assert_drawn(STUDY, data)


def test_other_builds_and_folders_without_a_classifier_have_kinds_as_well(deeper,
                                                                         pretrained_folder):
    for classifier in (deeper, EmotionClassifier.load(pretrained_folder)):
        data = STUDY.answer(StudyContext(classifier), TEXT)
        assert len(data["kinds"]["here"]) == classifier.config.num_hidden_layers
        assert ("importance" in data["figures"]["here"]) == classifier.checkpoint.has_classifier
        assert_drawn(STUDY, data)


def test_every_kind_has_a_name_in_both_languages():
    for language in LANGUAGES:
        assert all(say(language, f"head_kinds_{kind}") for kind in KINDS)


def test_a_pale_colour_lies_on_white():
    assert to_rgb("#ff0000") == (1.0, 0.0, 0.0)
    assert to_rgb("#00000033") == pytest.approx((0.8, 0.8, 0.8))


def test_all_heads_leave_the_page_as_a_table(surveyed_folder):
    data = STUDY.answer(StudyContext(EmotionClassifier.load(surveyed_folder)), TEXT)
    heading, *rows = sheet(STUDY, data)
    assert len(rows) == 4 and {len(row) for row in rows} == {len(heading)}
    column = heading.index("importance, en")
    assert [float(row[column]) for row in rows] == [
        value for row in data["figures"]["en"]["importance"] for value in row]


def test_a_click_on_a_head_of_the_map_opens_it(visit, serve, surveyed_folder):
    with visit(address("head_kinds", TEXT, layer=2, head=1), at=serve(surveyed_folder)) as page:
        place = page.locator('[data-study="head_kinds"]')
        expect(place.locator(".kinds-grid button")).to_have_count(4)
        place.locator('[data-head="1.2"]').click()
        expect(place.locator('[data-head="1.2"]')).to_have_attribute("aria-pressed", "true")
        data = STUDY.answer(StudyContext(EmotionClassifier.load(surveyed_folder)), TEXT,
                            {"layer": 1, "head": 2})
        shown = place.locator('[data-fact="previous"] td').all_inner_texts()
        at = data["patterns"].index("previous")
        assert [float(text[:-2]) for text in shown] == pytest.approx(
            [100 * data["shares"][name][0][1][at] for name in ("ko", "en", "here")], abs=0.051)
        expect(place.locator(".looks li")).to_have_count(len(data["strongest"]))
        assert "layer=1" in page.url and "head=2" in page.url
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        place.locator("select").select_option("importance")
        expect(place.locator(".ramp")).to_be_visible()
        assert "figure=importance" in page.url and asked == []
