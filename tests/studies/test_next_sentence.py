"""Next sentence: against transformers, and in a browser."""

import re

import pytest
import torch
from page_helpers import clear
from playwright.sync_api import expect
from safetensors.torch import load_file, save_file
from study_helpers import address, assert_drawn, sheet, wait_for

from bert.checkpoint import save_checkpoint, untrained
from bert.drawing.texts import say
from bert.model import BertModel
from bert.studies import STUDIES
from bert.studies.base import StudyContext
from bert.studies.next_sentence import STUDY, examples_for

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
NEITHER = "I finally fixed the bug"


@pytest.fixture
def context(lively_context: StudyContext) -> StudyContext:
    return lively_context


def ask(context: StudyContext, text: str, **options) -> dict:
    return STUDY.answer(context, text, options)


@pytest.mark.parametrize(("text", "second"), [
    (ENGLISH, NEITHER), (KOREAN, ENGLISH), (ENGLISH, ENGLISH), (KOREAN, " ".join([ENGLISH] * 9))])
def test_next_sentence_is_that_of_transformers(context, lively_theirs, text, second):
    data = ask(context, text, second=second)
    tokenizer = context.pretrained.tokenizer
    first, other = (tokenizer.encode_ids([side])[0] for side in (text, second))
    if data["truncated"]:  # the longer side is cut to what the model reads
        other = other[:context.pretrained.config.max_position_embeddings - 3 - len(first)]
    ids = [tokenizer.cls_id, *first, tokenizer.sep_id, *other, tokenizer.sep_id]
    segments = [0] * (len(first) + 2) + [1] * (len(other) + 1)
    with torch.inference_mode():
        logits = lively_theirs(torch.tensor([ids]), token_type_ids=torch.tensor(
            [segments])).seq_relationship_logits[0]
    assert data["second"] == second
    assert data["segments"] == segments
    assert data["probabilities"] == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)
    assert sum(data["probabilities"]) == pytest.approx(1, abs=1e-6)
    unmarked = lively_theirs(torch.tensor([ids])).seq_relationship_logits[0].softmax(-1)
    assert data["probabilities"] != pytest.approx(unmarked.tolist(), abs=1e-4)


def test_without_a_second_text_a_random_one_in_the_same_language_is_taken(context):
    for text, language in ((KOREAN, "ko"), (ENGLISH, "en")):
        for nothing in (None, "", "  \n", "\u200b", 5):
            data = ask(context, text, second=nothing)
            assert data["second"] == say(language, "next_sentence_random_text")
        assert data["examples"] == examples_for(text)
        assert data["examples"]["same"] == text


def test_a_second_text_that_is_too_long_is_refused(context):
    with pytest.raises(ValueError, match="5,001 characters: at most 5,000"):
        ask(context, ENGLISH, second="a" * 5_001)


def test_without_a_head_for_it_there_is_one_sentence(classifier, tokenizer, tiny_config, tmp_path):
    save_checkpoint(tmp_path / "pretrained", untrained(tiny_config, BertModel), tokenizer)
    with pytest.raises(ValueError, match="no head for the next sentence"):
        ask(StudyContext(classifier, tmp_path / "pretrained"), ENGLISH)


def test_a_checkpoint_without_the_nsp_head_says_so(classifier, lively_folder, tmp_path):
    place = tmp_path / "pretrained"
    place.mkdir()
    for file in lively_folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    weights = load_file(place / "model.safetensors")
    save_file({name: tensor for name, tensor in weights.items()
               if "seq_relationship" not in name}, place / "model.safetensors")
    context = StudyContext(classifier, place)
    with pytest.raises(ValueError, match="no head for the next sentence"):
        ask(context, ENGLISH)
    assert STUDIES["masked_word"].answer(context, ENGLISH)["blanks"]


def test_the_pair_leaves_as_a_picture_and_a_sheet(context):
    data = ask(context, KOREAN)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert [float(cell) for cell in rows[1]] == data["probabilities"]
    assert [row[0] for row in rows[4:]] == data["pieces"]


def test_a_second_text_goes_with_the_first(visit, served_context):
    with visit(address("next_sentence", ENGLISH, second="Then it rained.")) as page:
        wait_for(page, "next_sentence")
        expect(page.locator("#next-sentence-second")).to_have_value("Then it rained.")
        clear(page)
        expect(page).not_to_have_url(re.compile("text="))
        expect(page).not_to_have_url(re.compile("second="))


def test_a_second_text_is_asked_about_with_enter_but_not_while_composing(visit, served_context):
    with visit(address("next_sentence", ENGLISH)) as page:
        wait_for(page, "next_sentence")
        box = page.locator("#next-sentence-second")
        expect(box).to_have_value(say("en", "next_sentence_random_text"))
        box.fill(NEITHER)
        box.evaluate("""box => box.dispatchEvent(new KeyboardEvent("keydown",
            {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))""")
        assert "second=" not in page.url
        box.press("Enter")
        expect(page.locator('.pair-read [data-segment="1"]').first).to_have_text("i")
        data = ask(served_context, ENGLISH, second=NEITHER)
        expect(page.locator(".probabilities .figure")).to_have_text(
            [f"{100 * share:.1f}\u00a0%" for share in data["probabilities"]])
        expect(page.locator(".pair-read span")).to_have_text(data["pieces"])
        expect(page.locator('.pair-read [data-segment="1"]')).to_have_count(
            sum(data["segments"]))
        assert "second=" in page.url
        page.locator('[data-example="same"]').click()
        expect(box).to_have_value(ENGLISH)
