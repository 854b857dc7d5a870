"""Fill the blank: against transformers, and in a browser."""

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet, wait_for

from bert.checkpoint import save_checkpoint, untrained
from bert.drawing.texts import say
from bert.explain import masked_words
from bert.model import BertModel
from bert.page.downloads import make_study
from bert.studies.base import StudyContext
from bert.studies.masked_word import CANDIDATES, DRAWS, STUDY

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
NEITHER = "I finally fixed the bug"


@pytest.fixture
def context(lively_context: StudyContext) -> StudyContext:
    return lively_context


def ask(context: StudyContext, text: str, **options) -> dict:
    return STUDY.answer(context, text, options)


def masked_by_hand(context, text, places):
    ids = torch.tensor([context.pretrained.encode(text).ids])
    ids[0, places] = context.pretrained.tokenizer.mask_id
    return ids


@pytest.mark.parametrize(("text", "chosen"), [
    (KOREAN, [1]), (KOREAN, [0, 2]), (ENGLISH, [6]), (ENGLISH, [0, 3, 4])])
def test_candidates_are_those_of_transformers(context, lively_theirs, text, chosen):
    data = ask(context, text, masked=".".join(map(str, chosen)))
    words = [places for name, places in context.pretrained.encode(text).grouped()][1:-1]
    places = [place for word in chosen for place in words[word]]
    assert data["chosen"] == chosen
    assert [blank["place"] for blank in data["blanks"]] == places
    with torch.inference_mode():
        logits = lively_theirs(masked_by_hand(context, text, places)).prediction_logits[0]
    shares = logits.softmax(-1).numpy()
    vocabulary = context.pretrained.tokenizer.vocabulary()
    for blank in data["blanks"]:
        row = shares[blank["place"]]
        assert row.sum() == pytest.approx(1, abs=1e-5)
        order = np.argsort(-row)
        assert len(blank["best"]) == CANDIDATES
        assert [share for _, share in blank["best"]] == pytest.approx(
            row[order[:CANDIDATES]], abs=1e-5)
        assert [share for _, share in blank["best"]] == pytest.approx(
            [row[vocabulary.index(piece)] for piece, _ in blank["best"]], abs=1e-5)
        truth = context.pretrained.encode(text).ids[blank["place"]]
        assert blank["piece"] == vocabulary[truth]
        assert blank["probability"] == pytest.approx(row[truth], abs=1e-5)
        assert blank["rank"] == list(order).index(truth) + 1


def test_the_easiest_word_is_hidden_when_nothing_possible_is_chosen(context):
    tried = [ask(context, ENGLISH, masked=str(word)) for word in range(len(ENGLISH.split()))]
    ranks = [max(blank["rank"] for blank in data["blanks"]) for data in tried]
    easiest = [word for word, rank in enumerate(ranks) if rank == min(ranks)]
    expected = tried[max(easiest, key=lambda word: len(ENGLISH.split()[word]))]
    assert len(set(ranks)) > 1
    for wrong in (None, "", "99", "-1", "a.b", "1..2", 3, ["1"], "٣"):
        assert ask(context, ENGLISH, masked=wrong) == expected
    assert ask(context, ENGLISH, masked="99.2")["chosen"] == [2]


def test_of_a_long_text_the_middle_word_is_hidden(context, monkeypatch):
    monkeypatch.setattr(masked_words, "TRIED_TOKENS", 20)
    assert ask(context, ENGLISH)["chosen"] == [3]


def test_a_typed_mask_is_one_blank_without_a_truth(context, lively_theirs):
    data = ask(context, "They [MASK] me")
    place = context.pretrained.encode("They [MASK] me").pieces.index("[MASK]")
    assert data["chosen"] == []
    assert [(blank["place"], blank["piece"], blank["rank"]) for blank in data["blanks"]] == [
        (place, None, None)]
    ids = torch.tensor([context.pretrained.encode("They [MASK] me").ids])
    shares = lively_theirs(ids).prediction_logits[0, place].softmax(-1)
    assert data["blanks"][0]["best"][0][1] == pytest.approx(shares.max().item(), abs=1e-5)
    both = ask(context, "They [MASK] me", masked="0")
    assert [blank["piece"] for blank in both["blanks"]][-1] is None
    assert len(both["blanks"]) > 1


def test_a_piece_outside_the_vocabulary_has_no_rank(context):
    data = ask(context, "me ☃ me", masked="1")
    assert [(blank["piece"], blank["rank"]) for blank in data["blanks"]] == [("☃", None)]


def test_draws_hide_the_share_of_pre_training_and_never_special_tokens(context):
    text = " ".join([ENGLISH, NEITHER])
    data = ask(context, text)
    vocabulary = set(context.pretrained.tokenizer.vocabulary())
    can = [place for place, is_special in enumerate(data["special"]) if not is_special]
    assert len(data["draws"]) == DRAWS
    fates = []
    for draw in data["draws"]:
        assert len(draw) == max(1, round(0.15 * len(can)))
        assert {item["place"] for item in draw} <= set(can)
        assert {item["became"] for item in draw} <= vocabulary
        fates += ["same" if item["became"] == data["pieces"][item["place"]] else
                  "mask" if item["became"] == "[MASK]" else "random" for item in draw]
    assert fates.count("mask") > len(fates) / 2
    assert {"mask", "same", "random"} == set(fates)
    assert data["draws"] == ask(context, text)["draws"]


def test_without_an_mlm_head_there_is_one_sentence(classifier, tokenizer, tiny_config, tmp_path):
    save_checkpoint(tmp_path / "pretrained", untrained(tiny_config, BertModel), tokenizer)
    with pytest.raises(ValueError, match="no head for masked words"):
        ask(StudyContext(classifier, tmp_path / "pretrained"), ENGLISH)


def test_the_blanks_leave_as_a_picture_and_a_sheet(context):
    data = ask(context, KOREAN)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    place, *_, share = rows[1]
    assert float(share) == pytest.approx(data["blanks"][0]["probability"])
    assert int(place) == data["blanks"][0]["place"]
    assert len(rows) > CANDIDATES


def test_many_blanks_fit_into_one_picture(context):
    data = ask(context, ENGLISH, masked="0.1.2.3.4.5.6")
    assert len(data["blanks"]) > 6
    assert make_study(STUDY, data, "svg", "en").content.startswith(b"<?xml")


def test_a_click_hides_a_word_and_the_page_shows_its_candidates(visit, served_context):
    with visit(address("masked_word", ENGLISH, masked="3")) as page:
        wait_for(page, "masked_word")
        expect(page.locator('[data-study="masked_word"] [data-word="3"]')).to_have_attribute(
            "aria-pressed", "true")
        page.locator('[data-study="masked_word"] [data-word="6"]').click()
        expect(page.locator('[data-study="masked_word"] [data-word="6"]')).to_have_attribute(
            "aria-pressed", "true")
        data = ask(served_context, ENGLISH, masked="3.6")
        expect(page.locator(".blank")).to_have_count(len(data["blanks"]))
        for blank in data["blanks"]:
            card = page.locator(f'.blank[data-place="{blank["place"]}"]')
            names = card.locator(".name").evaluate_all("all => all.map((one) => one.title)")
            assert names == [piece for piece, _ in blank["best"]]
            expect(card.locator(".truth")).to_contain_text(f"rank {blank['rank']:,},")
        assert "masked=3.6" in page.url
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        before = page.locator(".drawn").inner_text()
        page.get_by_role("button", name=say("en", "masked_word_draw")).click()
        expect(page.locator(".drawn")).not_to_have_text(before)
        assert asked == []
