"""Two texts beside each other."""

import math
import re

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, model_bytes, sheet

from bert.classifier import EmotionClassifier
from bert.drawing.texts import say, texts
from bert.explain.patching import patch
from bert.explain.word_order import reordered
from bert.studies import compare as study
from bert.studies.base import StudyContext, unpack
from bert.studies.compare import PAIRS, STUDY

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
LONGER = "I finally fixed the bug after three days and everyone stood up and clapped for me"


def compare(context: StudyContext, text: str = ENGLISH, **options) -> dict:
    return STUDY.answer(context, text, options)


def test_a_joined_pair_has_the_numbers_of_transformers(context, classifier, emotion_folder):
    found = compare(context, second=KOREAN, joined="1", layer=1, head=2)["joined"]
    theirs = transformers.BertForSequenceClassification.from_pretrained(
        emotion_folder, attn_implementation="eager").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(emotion_folder)(
        ENGLISH, KOREAN, return_tensors="pt")
    with torch.inference_mode():
        output = theirs(**tokens, output_attentions=True)
    weights = output.attentions[0][0].numpy().astype(np.float64)                     # (H, T, T)
    assert found["probabilities"] == pytest.approx(output.logits.softmax(-1)[0].numpy(), abs=1e-5)
    size = len(found["tokens"])
    assert unpack(found["weights"]) == pytest.approx(weights[1], abs=0.5 / 255)
    segments, ids = tokens["token_type_ids"][0].tolist(), tokens["input_ids"][0].tolist()
    special = {classifier.tokenizer.cls_id, classifier.tokenizer.sep_id}
    part = [2 if i in special else segment for i, segment in zip(ids, segments, strict=True)]
    assert found["parts"] == part
    for head in range(2):
        for start in range(3):
            lookers = [i for i in range(size) if part[i] == start]
            for end in range(3):
                expected = sum(weights[head, i, j] for i in lookers for j in range(size)
                               if part[j] == end) / len(lookers)
                assert found["shares"][head][start][end] == pytest.approx(expected, abs=1e-5)


def test_similarity_is_the_cosine_of_hidden_states_after_every_layer(context, classifier):
    found = compare(context, second=KOREAN)
    one, other = (classifier(text).hidden_states.astype(np.float64) for text in (ENGLISH, KOREAN))
    for name, first, second in (("cls", one[:, 0], other[:, 0]),
                                ("mean", one.mean(axis=1), other.mean(axis=1))):
        expected = [a @ b / math.sqrt(a @ a * (b @ b)) for a, b in zip(first, second, strict=True)]
        assert found["similarity"][name] == pytest.approx(expected, abs=1e-6)
    examples = [classifier(text).hidden_states[-1, 0].astype(np.float64)
                for text in texts()["en"]["example_texts"]]
    among = [a @ b / math.sqrt(a @ a * (b @ b)) for i, a in enumerate(examples)
             for b in examples[:i]]
    assert len(among) == 6
    assert found["usual"]["cls"][-1] == pytest.approx(np.mean(among), abs=1e-6)


def test_heatmaps_are_subtracted_when_both_texts_have_as_many_tokens(context, classifier):
    reverse = reordered(ENGLISH, "reverse", 1)
    found = compare(context, second=reverse, layer=2, head=1)
    one, other = (classifier(text).attentions[1, 0] for text in (ENGLISH, reverse))
    difference = found["difference"]
    limit = float(np.abs(other - one).max())
    assert unpack(difference["picture"]) == pytest.approx(other - one, abs=limit / 250)
    assert difference["moved"] == pytest.approx(
        np.mean([np.abs(row).sum() / 2 for row in other - one]), abs=1e-6)


def test_without_as_many_tokens_the_patterns_of_the_head_stand_in(context, classifier):
    found = compare(context, second=KOREAN, layer=2, head=2)
    assert found["difference"] is None
    for side, text in zip(found["sides"], (ENGLISH, KOREAN), strict=True):
        weights = classifier(text).attentions[1, 1]
        size = len(weights)
        assert side["patterns"]["previous"] == pytest.approx(
            sum(weights[i, i - 1] for i in range(1, size)) / (size - 1), abs=1e-5)
        assert side["patterns"]["sep"] == pytest.approx(weights[:, -1].mean(), abs=1e-5)
        assert side["probabilities"] == pytest.approx(classifier(text).probabilities, abs=1e-6)


def test_impossible_options_become_the_defaults(context):
    usual = compare(context)
    assert (usual["layer"], usual["head"], usual["at"], usual["joined"]) == (2, 1, 2, None)
    examples = texts()["en"]["example_texts"]
    assert usual["sides"][1]["text"] == examples[0]
    assert compare(context, layer=99, head="no", at=-1, joined="yes", second="  ") == usual
    assert compare(context, examples[0])["sides"][1]["text"] == examples[1]


def test_a_second_text_that_speaks_of_self_harm_is_answered_with_care(context):
    assert compare(context, second="I want to die")["care"]
    assert not compare(context, second=KOREAN)["care"]


# ---------------------------------------------------------------------------------- patching


def test_nothing_is_patched_until_somebody_asks(context):
    assert compare(context)["patching"] is None
    assert compare(context, patch="7")["patching"] is None


def test_the_map_is_that_of_the_two_texts(context, classifier):
    found = compare(context, second=LONGER, patch="own")["patching"]
    expected = patch(classifier, ENGLISH, LONGER)
    assert found["texts"] == [ENGLISH, LONGER] and found["problem"] == ""
    np.testing.assert_allclose(found["shares"], expected.shares, atol=1e-5)
    assert found["margins"] == pytest.approx((expected.receiver_margin, expected.donor_margin))
    assert [place["receiver"] for place in found["places"]] == [
        place.receiver_name for place in expected.places]
    (layer, place), (last, end) = found["carriers"]
    assert last == 1 and found["shares"][0][1][end] == np.max(found["shares"][0][1])
    elsewhere = np.delete(np.array(found["shares"][0]), end, axis=1)
    assert found["shares"][0][layer][place] == elsewhere.max() and place != end


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_minimal_pairs_are_offered_with_the_map(context, number):
    data = compare(context, patch=str(number))
    assert data["patching"]["texts"] == list(PAIRS[number - 1])
    assert data["sides"][0]["text"] == ENGLISH  # the rest of the view stays with the visitor's text
    if not data["patching"]["problem"]:
        assert_drawn(STUDY, data)


@pytest.mark.parametrize(("text", "second", "problem"), [
    (ENGLISH, ENGLISH, "same"), ("me own " * 30, "own me " * 30, "long")])
def test_where_no_map_can_be_made_a_sentence_says_why(context, monkeypatch, text, second, problem):
    monkeypatch.setattr(study, "MOST_PATCHED", 2_000)
    data = compare(context, text, second=second, patch="own")
    assert data["patching"]["problem"] == problem
    assert say("en", f"compare_patch_problem_{problem}")
    assert_drawn(STUDY, data)


def test_without_a_classifier_there_is_no_map(pretrained_folder):
    data = compare(StudyContext(EmotionClassifier.load(pretrained_folder)), patch="1")
    assert data["patching"]["problem"] == "classifier"


def test_the_map_leaves_the_page_as_picture_and_table(context, deeper):
    for place in (context, StudyContext(deeper)):
        data = compare(place, second=LONGER, patch="own")
        assert_drawn(STUDY, data)
        rows = sheet(STUDY, data)
        shares = [float(row[2]) for row in rows if row[0].startswith("residual of")]
        assert shares == [share for row in data["patching"]["shares"][0] for share in row]


def test_the_page_shows_the_map_of_python_when_a_pair_is_clicked(visit, classifier):
    with visit(address("compare", ENGLISH, second=LONGER)) as page:
        place = page.locator('[data-study="compare"] .patching')
        expect(place.locator(".maps")).to_be_hidden()
        place.locator('[data-patch="own"]').click()
        expect(place.locator(".cells")).to_have_count(3)
        found = compare(StudyContext(classifier), second=LONGER, patch="own")["patching"]
        titles = [cell.get_attribute("title") for cell in
                  place.locator(".cells").first.locator("tbody td").all()]
        shown = [float(re.search(r"(-?[\d.]+)\u00a0%", title)[1]) for title in titles]
        assert shown == pytest.approx([100 * share for row in found["shares"][0] for share in row],
                                      abs=0.051)
        assert "patch=own" in page.url
        place.locator('[data-patch="own"]').click()
        expect(place.locator(".maps")).to_be_hidden()
        assert "patch=" not in page.url


def test_comparing_changes_no_weights_that_others_use(classifier):
    before = model_bytes(classifier)
    compare(StudyContext(classifier), joined="1")
    assert model_bytes(classifier) == before


@pytest.mark.parametrize("joined", ["", "1"])
def test_a_checkpoint_without_a_classifier_is_compared_all_the_same(pretrained_folder, joined):
    context = StudyContext(EmotionClassifier.load(pretrained_folder))
    data = compare(context, joined=joined)
    assert data["classes"] == [] and len(data["similarity"]["cls"]) == 3
    assert_drawn(STUDY, data)


@pytest.mark.parametrize("options", [
    {"second": "$x_1$ ~ \U0001f642 안녕"}, {"second": KOREAN, "joined": "1"},
    {"second": ENGLISH + " "}])
def test_two_texts_leave_the_page_as_picture_and_table(context, options):
    data = compare(context, **options)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert {len(row) for row in rows} == {3}
    found = [float(row[2]) for row in rows if row[0] == "cosine of cls"]
    assert found == data["similarity"]["cls"]


def test_two_texts_on_the_page_have_the_figures_of_python(visit, classifier):
    with visit(address("compare", ENGLISH, second=KOREAN, layer=1, head=2)) as page:
        data = compare(StudyContext(classifier), second=KOREAN, layer=1, head=2)
        figures = page.locator('[data-study="compare"] .cosines td')
        expect(figures).to_have_count(4)
        for at, cosines in enumerate((data["similarity"]["cls"], data["usual"]["cls"])):
            assert float(figures.nth(at).inner_text().replace("−", "-")) == pytest.approx(
                cosines[-1], abs=1e-4)
        row = page.locator('[data-study="compare"] .paired [data-class="anger"] td')
        for at, side in enumerate(data["sides"], 1):
            assert float(row.nth(at).inner_text()[:-2]) == pytest.approx(
                100 * side["probabilities"][8], abs=0.051)
        expect(page.locator('[data-study="compare"] .timeline ol li')).to_have_count(1)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_label(say("en", "compare_at")).select_option("0")
        expect(figures.first).to_have_text("1.0000")  # [CLS] itself is the same in every text
        assert "at=0" in page.url and asked == []
        page.get_by_role("button", name=say("en", "compare_together")).click()
        shares = page.locator('[data-study="compare"] .shares tbody tr:first-child td')
        expect(shares).to_have_count(3)
        joined = compare(StudyContext(classifier), second=KOREAN, joined="1", layer=1)["joined"]
        assert [float(text[:-2]) for text in shares.all_inner_texts()] == pytest.approx(
            [100 * share for share in joined["shares"][1][0]], abs=0.051)


def test_two_texts_follow_the_conversation_until_somebody_chooses(visit):
    with visit(address("compare", ENGLISH), fresh=True) as page:
        second = page.get_by_label(say("en", "compare_second"))
        expect(second).to_have_value(texts()["en"]["example_texts"][0])
        box = page.get_by_label("Your text")
        for text, before in ((KOREAN, ENGLISH), (LONGER, KOREAN)):
            box.fill(text)
            box.press("Enter")
            expect(second).to_have_value(before)
        expect(page.locator('[data-study="compare"] .timeline ol li')).to_have_count(3)
        page.locator('[data-study="compare"] .chips').get_by_text(ENGLISH, exact=True).click()
        expect(second).to_have_value(ENGLISH)
        page.locator("#chat").get_by_text(KOREAN, exact=True).click()
        shown = page.locator('[data-study="compare"] .timeline li[aria-current] .unseen')
        expect(shown).to_contain_text(KOREAN)
        expect(second).to_have_value(ENGLISH)
        second.fill("half a sen")
        page.get_by_role("button", name=say("en", "compare_together")).click()
        expect(page.locator('[data-study="compare"] .shares')).to_be_visible()
        expect(second).to_have_value("half a sen")
