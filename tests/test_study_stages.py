"""Three lives, fill the blank, next sentence: against transformers, and in a browser."""

import csv
import io
import re
import shutil
import urllib.parse
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect

from bert import views
from bert.checkpoint import save_checkpoint, untrained
from bert.exports import make_study
from bert.lab import Lab, Options
from bert.model import BertForPreTraining, BertModel
from bert.predict import EmotionClassifier
from bert.stages import LIVES
from bert.tasks import BLANK, CANDIDATES, DRAWS, NEXT, examples_for
from bert.texts import LANGUAGES, say

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
NEITHER = "I finally fixed the bug"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tokenizer, tiny_config):
    """A pre-trained stage with opinions: wide random weights, another seed than the untrained."""
    place = tmp_path_factory.mktemp("lively") / "pretrained"
    config = replace(tiny_config, initializer_range=0.3)
    save_checkpoint(place, untrained(config, BertForPreTraining, seed=7), tokenizer)
    return place


@pytest.fixture(scope="module")
def lab(classifier, folder):
    return Lab(classifier, folder)


@pytest.fixture(scope="module")
def theirs(folder):
    return transformers.BertForPreTraining.from_pretrained(folder).eval()


def ask(study, lab, text, **options):
    return study.answer(lab, text, Options(options))


def rows_of(study, data):
    content = make_study(study, data, "csv", "en").content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content)))


def opened(name, text, **options):
    return urllib.parse.urlencode({"view": name, "text": text, "lang": "en", **options})


def wait_for(page, name):
    page.wait_for_selector(f'#study-frame[data-drawn="{name}"]:not(.waiting)')


# ---------------------------------------------------------------------------------- three lives


@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 2), (2, 1)])
def test_each_stage_shows_the_attention_of_a_direct_call(lab, layer, head):
    data = ask(LIVES, lab, KOREAN, layer=layer, head=head)
    models = {"untrained": lab.untrained, "pretrained": lab.pretrained,
              "finetuned": lab.classifier}
    assert [stage["name"] for stage in data["stages"]] == list(models)
    for stage in data["stages"]:
        ids = torch.tensor([models[stage["name"]].tokenizer.encode(KOREAN).ids])
        weights = models[stage["name"]].model.bert(ids).attentions[layer - 1][0, head - 1]
        size = len(stage["pieces"])
        weights = weights.detach().numpy()
        assert np.abs(views.unpack(stage["matrix"], (size, size)) - weights).max() <= 0.5 / 255
        entropy = -(weights * np.log(weights)).sum(axis=1)
        assert stage["spread"] == pytest.approx(np.exp(entropy).mean(), rel=1e-5)
    pictures = [stage["matrix"] for stage in data["stages"]]
    assert len(set(pictures)) == 3


def test_layer_and_head_that_do_not_exist_become_the_last_and_the_first(lab):
    for options in ({}, {"layer": 99, "head": 0}, {"layer": "mean", "head": [1]}):
        data = ask(LIVES, lab, ENGLISH, **options)
        assert (data["layer"], data["head"]) == (2, 1)


def test_feelings_are_those_of_the_stage_and_the_pretrained_stage_has_none(lab, classifier):
    blank, pretrained, tuned = ask(LIVES, lab, ENGLISH)["stages"]
    assert tuned["shares"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert blank["shares"] == pytest.approx(lab.untrained(ENGLISH).probabilities, abs=1e-6)
    assert sum(blank["shares"]) == pytest.approx(1, abs=1e-6)
    assert pretrained["shares"] is None
    assert tuned["guesses"] is None


def test_the_middle_word_is_guessed_by_the_untrained_and_the_pretrained_stage(lab, theirs):
    data = ask(LIVES, lab, KOREAN)
    encoding = lab.pretrained.encode(KOREAN)
    assert data["word"] == "마라톤을"
    places = dict(encoding.grouped())["마라톤을"]
    ids = torch.tensor([encoding.ids])
    ids[0, places] = lab.pretrained.tokenizer.mask_id
    shares = theirs(ids).prediction_logits[0].softmax(-1).detach()
    for place, guess in zip(places, data["stages"][1]["guesses"], strict=True):
        best = shares[place].topk(3)
        assert guess["piece"] == encoding.pieces[place]
        assert [item["share"] for item in guess["best"]] == pytest.approx(
            best.values.tolist(), abs=1e-5)
        assert [item["piece"] for item in guess["best"]] == [
            lab.pretrained.tokenizer.vocabulary()[i] for i in best.indices]
    assert len(data["stages"][0]["guesses"]) == len(places)


def test_the_untrained_stage_is_the_same_in_every_lab(classifier, folder):
    first, second = (ask(LIVES, Lab(classifier, folder), ENGLISH)["stages"][0] for _ in range(2))
    assert first == second


def test_without_a_pretrained_folder_the_other_two_lives_are_shown(classifier, tmp_path):
    lab = Lab(classifier, tmp_path / "pretrained")
    blank, pretrained, tuned = ask(LIVES, lab, ENGLISH)["stages"]
    assert pretrained == {"name": "pretrained", "missing": "folder"}
    assert blank["matrix"] and tuned["matrix"]
    data = ask(LIVES, lab, ENGLISH)
    assert make_study(LIVES, data, "png", "ko").content.startswith(b"\x89PNG")
    assert {row[0] for row in rows_of(LIVES, data) if len(row) == 4} >= {"untrained", "finetuned"}


def test_a_pretrained_stage_with_fewer_heads_says_so(classifier, tokenizer, tiny_config, tmp_path):
    config = replace(tiny_config, num_hidden_layers=1)
    save_checkpoint(tmp_path / "pretrained", untrained(config, BertForPreTraining), tokenizer)
    lab = Lab(classifier, tmp_path / "pretrained")
    assert ask(LIVES, lab, ENGLISH, layer=2)["stages"][1]["missing"] == "head"
    assert "missing" not in ask(LIVES, lab, ENGLISH, layer=1)["stages"][1]


def test_a_checkpoint_without_a_classifier_has_three_lives_too(folder):
    data = ask(LIVES, Lab(EmotionClassifier.load(folder)), ENGLISH)
    assert data["classes"] == []
    assert [stage["shares"] for stage in data["stages"]] == [None, None, None]


# ---------------------------------------------------------------------------------- fill the blank


def masked_by_hand(lab, text, places):
    ids = torch.tensor([lab.pretrained.encode(text).ids])
    ids[0, places] = lab.pretrained.tokenizer.mask_id
    return ids


@pytest.mark.parametrize(("text", "chosen"), [
    (KOREAN, [1]), (KOREAN, [0, 2]), (ENGLISH, [6]), (ENGLISH, [0, 3, 4])])
def test_candidates_are_those_of_transformers(lab, theirs, text, chosen):
    data = ask(BLANK, lab, text, blank=".".join(map(str, chosen)))
    words = [places for name, places in lab.pretrained.encode(text).grouped()][1:-1]
    places = [place for word in chosen for place in words[word]]
    assert data["chosen"] == chosen
    assert [blank["place"] for blank in data["blanks"]] == places
    with torch.inference_mode():
        shares = theirs(masked_by_hand(lab, text, places)).prediction_logits[0].softmax(-1).numpy()
    vocabulary = lab.pretrained.tokenizer.vocabulary()
    for blank in data["blanks"]:
        row = shares[blank["place"]]
        assert row.sum() == pytest.approx(1, abs=1e-5)
        order = np.argsort(-row)
        assert len(blank["best"]) == CANDIDATES
        assert [item["share"] for item in blank["best"]] == pytest.approx(
            row[order[:CANDIDATES]], abs=1e-5)
        assert [item["share"] for item in blank["best"]] == pytest.approx(
            [row[vocabulary.index(item["piece"])] for item in blank["best"]], abs=1e-5)
        truth = lab.pretrained.encode(text).ids[blank["place"]]
        assert blank["piece"] == vocabulary[truth]
        assert blank["share"] == pytest.approx(row[truth], abs=1e-5)
        assert blank["rank"] == list(order).index(truth) + 1


def test_the_middle_word_is_hidden_when_nothing_possible_is_chosen(lab):
    expected = ask(BLANK, lab, ENGLISH, blank="3")
    for wrong in (None, "", "99", "-1", "a.b", "1..2", 3, ["1"], "٣"):
        assert ask(BLANK, lab, ENGLISH, blank=wrong) == expected
    assert ask(BLANK, lab, ENGLISH, blank="99.2")["chosen"] == [2]


def test_a_typed_mask_is_one_blank_without_a_truth(lab, theirs):
    data = ask(BLANK, lab, "They [MASK] me")
    place = lab.pretrained.encode("They [MASK] me").pieces.index("[MASK]")
    assert data["chosen"] == []
    assert [(blank["place"], blank["piece"], blank["rank"]) for blank in data["blanks"]] == [
        (place, None, None)]
    ids = torch.tensor([lab.pretrained.encode("They [MASK] me").ids])
    shares = theirs(ids).prediction_logits[0, place].softmax(-1)
    assert data["blanks"][0]["best"][0]["share"] == pytest.approx(shares.max().item(), abs=1e-5)
    both = ask(BLANK, lab, "They [MASK] me", blank="0")
    assert [blank["piece"] for blank in both["blanks"]][-1] is None
    assert len(both["blanks"]) > 1


def test_a_piece_outside_the_vocabulary_has_no_rank(lab):
    data = ask(BLANK, lab, "me ☃ me", blank="1")
    assert [(blank["piece"], blank["rank"]) for blank in data["blanks"]] == [("☃", None)]


def test_draws_hide_the_share_of_pre_training_and_never_special_tokens(lab):
    text = " ".join([ENGLISH, NEITHER])
    data = ask(BLANK, lab, text)
    vocabulary = set(lab.pretrained.tokenizer.vocabulary())
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
    assert data["draws"] == ask(BLANK, lab, text)["draws"]


def test_without_an_mlm_head_there_is_one_sentence(classifier, tokenizer, tiny_config, tmp_path):
    save_checkpoint(tmp_path / "pretrained", untrained(tiny_config, BertModel), tokenizer)
    lab = Lab(classifier, tmp_path / "pretrained")
    with pytest.raises(ValueError, match="no head for masked words"):
        ask(BLANK, lab, ENGLISH)
    with pytest.raises(ValueError, match="no head for the next sentence"):
        ask(NEXT, lab, ENGLISH)
    assert ask(LIVES, lab, ENGLISH)["stages"][1]["guesses"] is None


# ---------------------------------------------------------------------------------- next sentence


@pytest.mark.parametrize(("text", "second"), [
    (ENGLISH, NEITHER), (KOREAN, ENGLISH), (ENGLISH, ENGLISH), (KOREAN, " ".join([ENGLISH] * 9))])
def test_next_sentence_is_that_of_transformers(lab, theirs, text, second):
    data = ask(NEXT, lab, text, second=second)
    tokenizer = lab.pretrained.tokenizer
    first, other = (tokenizer.encode_ids([side])[0] for side in (text, second))
    if data["truncated"]:  # the longer side is cut to what the model reads
        other = other[:lab.pretrained.config.max_position_embeddings - 3 - len(first)]
    ids = [tokenizer.cls_id, *first, tokenizer.sep_id, *other, tokenizer.sep_id]
    segments = [0] * (len(first) + 2) + [1] * (len(other) + 1)
    with torch.inference_mode():
        logits = theirs(torch.tensor([ids]),
                        token_type_ids=torch.tensor([segments])).seq_relationship_logits[0]
    assert data["second"] == second
    assert data["segments"] == segments
    assert data["shares"] == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5)
    assert sum(data["shares"]) == pytest.approx(1, abs=1e-6)
    unmarked = theirs(torch.tensor([ids])).seq_relationship_logits[0].softmax(-1)
    assert data["shares"] != pytest.approx(unmarked.tolist(), abs=1e-4)


def test_without_a_second_text_a_continuation_in_the_same_language_is_taken(lab):
    for text, language in ((KOREAN, "ko"), (ENGLISH, "en")):
        for nothing in (None, "", "  \n", "\u200b", 5):
            data = ask(NEXT, lab, text, second=nothing)
            assert data["second"] == say(language, "next_follows_text")
        assert data["examples"] == examples_for(text)
        assert data["examples"]["same"] == text


def test_a_second_text_that_is_too_long_is_refused(lab):
    with pytest.raises(ValueError, match="5,001 characters: at most 5,000"):
        ask(NEXT, lab, ENGLISH, second="a" * 5_001)


def test_a_checkpoint_without_the_nsp_head_says_so(classifier, folder, tmp_path):
    from safetensors.torch import load_file, save_file
    place = tmp_path / "pretrained"
    place.mkdir()
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    weights = load_file(place / "model.safetensors")
    save_file({name: tensor for name, tensor in weights.items()
               if "seq_relationship" not in name}, place / "model.safetensors")
    lab = Lab(classifier, place)
    with pytest.raises(ValueError, match="no head for the next sentence"):
        ask(NEXT, lab, ENGLISH)
    assert ask(BLANK, lab, ENGLISH)["blanks"]


# ---------------------------------------------------------------------------------- files


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("study", [LIVES, BLANK, NEXT], ids=lambda study: study.name)
def test_every_study_leaves_as_a_picture_and_a_sheet(lab, study, language):
    data = ask(study, lab, KOREAN)
    assert make_study(study, data, "png", language).content.startswith(b"\x89PNG")
    sheet = rows_of(study, data)
    if study is LIVES:
        shares = {row[2]: float(row[3]) for row in sheet if row[:2] == ["finetuned", "class"]}
        assert shares == pytest.approx(dict(lab.classifier(KOREAN).ranked()), abs=1e-6)
    elif study is BLANK:
        place, *_, share = sheet[1]
        assert float(share) == pytest.approx(data["blanks"][0]["share"])
        assert int(place) == data["blanks"][0]["place"]
        assert len(sheet) > CANDIDATES
    else:
        assert [float(cell) for cell in sheet[1]] == data["shares"]
        assert [row[0] for row in sheet[4:]] == data["pieces"]


def test_many_blanks_fit_into_one_picture(lab):
    data = ask(BLANK, lab, ENGLISH, blank="0.1.2.3.4.5.6")
    assert len(data["blanks"]) > 6
    assert make_study(BLANK, data, "svg", "en").content.startswith(b"<?xml")


# ---------------------------------------------------------------------------------- the page


@pytest.fixture
def served(classifier, pretrained_folder):
    """The stages as the served page has them."""
    return Lab(classifier)


def test_the_page_shows_three_lives(visit, served):
    with visit(opened("lives", ENGLISH, layer=1, head=2)) as page:
        wait_for(page, "lives")
        data = ask(LIVES, served, ENGLISH, layer=1, head=2)
        page.wait_for_selector('.lives[data-drawn="1/2"]')
        expect(page.locator('[data-life="untrained"] .band')).to_have_text(
            say("en", "lives_untrained_band"))
        for stage in data["stages"]:
            column = page.locator(f'[data-life="{stage["name"]}"]')
            expect(column.locator("canvas.matrix")).to_be_visible()
            expect(column.locator(".tag")).to_contain_text(say(
                "en", "lives_spread", tokens=f"{stage['spread']:.1f}", size=len(stage["pieces"])))
            figures = column.locator(".bar-list .figure").all_inner_texts()
            expected = [f"{100 * share:.1f}\u00a0%" for share in stage["shares"] or ()]
            assert [text for text in figures if "<" not in text] == [
                text for text, share in zip(expected, stage["shares"] or (), strict=True)
                if share >= 0.0005]
        expect(page.locator('[data-life="pretrained"] .none')).to_have_text(
            ["", say("en", "lives_no_feelings")])
        pad = page.locator('[data-life="finetuned"] .pad')
        pad.focus()
        pad.press("ArrowRight")
        expect(page.locator('[data-study="lives"] .point')).to_contain_text("“[CLS]” looks at")


def test_a_page_without_a_pretrained_stage_says_so_in_its_column(visit, serve, emotion_folder,
                                                                 tmp_path):
    shutil.copytree(emotion_folder, tmp_path / "emotion")
    with visit(opened("lives", ENGLISH), at=serve(tmp_path / "emotion")) as page:
        page.wait_for_selector(".lives[data-drawn]")
        column = page.locator('[data-life="pretrained"]')
        expect(column.locator(".map .none")).to_have_text(say("en", "lives_no_folder"))
        expect(column.locator("canvas.matrix")).to_be_hidden()
        for name in ("untrained", "finetuned"):
            expect(page.locator(f'[data-life="{name}"] canvas.matrix')).to_be_visible()


def test_a_click_hides_a_word_and_the_page_shows_its_candidates(visit, served):
    with visit(opened("blank", ENGLISH)) as page:
        wait_for(page, "blank")
        expect(page.locator('[data-study="blank"] [data-word="3"]')).to_have_attribute(
            "aria-pressed", "true")
        page.locator('[data-study="blank"] [data-word="6"]').click()
        expect(page.locator('[data-study="blank"] [data-word="6"]')).to_have_attribute(
            "aria-pressed", "true")
        data = ask(BLANK, served, ENGLISH, blank="3.6")
        expect(page.locator(".blank")).to_have_count(len(data["blanks"]))
        for blank in data["blanks"]:
            card = page.locator(f'.blank[data-place="{blank["place"]}"]')
            names = card.locator(".name").evaluate_all("all => all.map((one) => one.title)")
            assert names == [item["piece"] for item in blank["best"]]
            expect(card.locator(".truth")).to_contain_text(f"rank {blank['rank']:,},")
        assert "blank=3.6" in page.url
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        before = page.locator(".drawn").inner_text()
        page.get_by_role("button", name=say("en", "blank_draw")).click()
        expect(page.locator(".drawn")).not_to_have_text(before)
        assert asked == []


def test_a_second_text_goes_with_the_first(visit, served):
    with visit(opened("next", ENGLISH, second="Then it rained.")) as page:
        wait_for(page, "next")
        expect(page.locator("#next-second")).to_have_value("Then it rained.")
        page.get_by_role("button", name=say("en", "clear"), exact=True).click()
        expect(page).not_to_have_url(re.compile("text="))
        expect(page).not_to_have_url(re.compile("second="))


def test_a_second_text_is_asked_about_with_enter_but_not_while_composing(visit, served):
    with visit(opened("next", ENGLISH)) as page:
        wait_for(page, "next")
        box = page.locator("#next-second")
        expect(box).to_have_value(say("en", "next_follows_text"))
        box.fill(NEITHER)
        box.evaluate("""box => box.dispatchEvent(new KeyboardEvent("keydown",
            {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))""")
        assert "second=" not in page.url
        box.press("Enter")
        expect(page.locator('.pair-read [data-segment="1"]').first).to_have_text("i")
        data = ask(NEXT, served, ENGLISH, second=NEITHER)
        expect(page.locator(".shares .figure")).to_have_text(
            [f"{100 * share:.1f}\u00a0%" for share in data["shares"]])
        expect(page.locator(".pair-read span")).to_have_text(data["pieces"])
        expect(page.locator('.pair-read [data-segment="1"]')).to_have_count(
            sum(data["segments"]))
        assert "second=" in page.url
        page.locator('[data-example="same"]').click()
        expect(box).to_have_value(ENGLISH)
