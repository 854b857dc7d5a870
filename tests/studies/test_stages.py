"""Training stages: against direct calls, transformers, and in a browser."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet, wait_for

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.drawing.texts import say
from bert.model import BertForPreTraining, BertModel
from bert.studies.base import StudyContext, unpack
from bert.studies.stages import STUDY

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


@pytest.fixture
def context(lively_context: StudyContext) -> StudyContext:
    return lively_context


def ask(context: StudyContext, text: str, **options) -> dict:
    return STUDY.answer(context, text, options)


@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 2), (2, 1)])
def test_each_stage_shows_the_attention_of_a_direct_call(context, layer, head):
    data = ask(context, KOREAN, layer=layer, head=head)
    models = {"untrained": context.untrained, "pretrained": context.pretrained,
              "finetuned": context.classifier}
    assert [stage["name"] for stage in data["stages"]] == list(models)
    for stage in data["stages"]:
        ids = torch.tensor([models[stage["name"]].tokenizer.encode(KOREAN).ids])
        weights = models[stage["name"]].model.bert(ids).attentions[layer - 1][0, head - 1]
        weights = weights.detach().numpy()
        assert np.abs(unpack(stage["weights"]) - weights).max() <= 0.5 / 255 + 1e-9
        entropy = -(weights * np.log(weights)).sum(axis=1)
        assert stage["effective_tokens"] == pytest.approx(np.exp(entropy).mean(), rel=1e-5)
    pictures = [stage["weights"]["packed"] for stage in data["stages"]]
    assert len(set(pictures)) == 3


def test_layer_and_head_that_do_not_exist_become_the_last_and_the_first(context):
    for options in ({}, {"layer": 99, "head": 0}, {"layer": "mean", "head": [1]}):
        data = ask(context, ENGLISH, **options)
        assert (data["layer"], data["head"]) == (2, 1)


def test_feelings_are_those_of_the_stage_and_the_pretrained_stage_has_none(context, classifier):
    blank, pretrained, tuned = ask(context, ENGLISH)["stages"]
    assert tuned["probabilities"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert blank["probabilities"] == pytest.approx(
        context.untrained(ENGLISH).probabilities, abs=1e-6)
    assert sum(blank["probabilities"]) == pytest.approx(1, abs=1e-6)
    assert pretrained["probabilities"] is None
    assert tuned["guesses"] is None


def test_the_middle_word_is_guessed_by_the_untrained_and_the_pretrained_stage(
        context, lively_theirs):
    data = ask(context, KOREAN)
    encoding = context.pretrained.encode(KOREAN)
    assert data["word"] == "마라톤을"
    places = dict(encoding.grouped())["마라톤을"]
    ids = torch.tensor([encoding.ids])
    ids[0, places] = context.pretrained.tokenizer.mask_id
    shares = lively_theirs(ids).prediction_logits[0].softmax(-1).detach()
    for place, guess in zip(places, data["stages"][1]["guesses"], strict=True):
        best = shares[place].topk(3)
        assert guess["piece"] == encoding.pieces[place]
        assert [share for _, share in guess["best"]] == pytest.approx(
            best.values.tolist(), abs=1e-5)
        assert [piece for piece, _ in guess["best"]] == [
            context.pretrained.tokenizer.vocabulary()[i] for i in best.indices]
    assert len(data["stages"][0]["guesses"]) == len(places)


def test_the_untrained_stage_is_the_same_in_every_context(classifier, lively_folder):
    first, second = (ask(StudyContext(classifier, lively_folder), ENGLISH)["stages"][0]
                     for _ in range(2))
    assert first == second


def test_without_a_pretrained_folder_the_other_two_stages_are_shown(classifier, tmp_path):
    context = StudyContext(classifier, tmp_path / "pretrained")
    blank, pretrained, tuned = ask(context, ENGLISH)["stages"]
    assert pretrained == {"name": "pretrained", "missing": "folder"}
    assert blank["weights"] and tuned["weights"]
    data = ask(context, ENGLISH)
    assert_drawn(STUDY, data)
    assert {row[0] for row in sheet(STUDY, data) if len(row) == 4} >= {"untrained", "finetuned"}


def test_a_pretrained_stage_with_fewer_heads_says_so(classifier, tokenizer, tiny_config, tmp_path):
    config = replace(tiny_config, num_hidden_layers=1)
    save_checkpoint(tmp_path / "pretrained", untrained(config, BertForPreTraining), tokenizer)
    context = StudyContext(classifier, tmp_path / "pretrained")
    assert ask(context, ENGLISH, layer=2)["stages"][1]["missing"] == "head"
    assert "missing" not in ask(context, ENGLISH, layer=1)["stages"][1]


def test_a_checkpoint_without_a_classifier_has_three_stages_too(lively_folder):
    data = ask(StudyContext(EmotionClassifier.load(lively_folder)), ENGLISH)
    assert data["classes"] == []
    assert [stage["probabilities"] for stage in data["stages"]] == [None, None, None]


def test_without_an_mlm_head_nothing_is_guessed(classifier, tokenizer, tiny_config, tmp_path):
    save_checkpoint(tmp_path / "pretrained", untrained(tiny_config, BertModel), tokenizer)
    context = StudyContext(classifier, tmp_path / "pretrained")
    assert ask(context, ENGLISH)["stages"][1]["guesses"] is None


def test_the_stages_leave_as_a_picture_and_a_sheet_with_exact_weights(context):
    data = ask(context, KOREAN)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    shares = {row[2]: float(row[3]) for row in rows if row[:2] == ["finetuned", "class"]}
    assert shares == pytest.approx(dict(context.classifier(KOREAN).ranked()), abs=1e-6)
    rows = sheet(STUDY, STUDY.answer(context, KOREAN, {"layer": 1, "head": 2}, in_full=True))
    weights = context.classifier(KOREAN).attentions[0, 1]
    found = [[float(cell) for cell in row[1:]] for row in rows[-len(weights):]]
    np.testing.assert_allclose(found, weights, rtol=1e-6)


def test_the_page_shows_three_stages(visit, served_context):
    with visit(address("stages", ENGLISH, layer=1, head=2)) as page:
        wait_for(page, "stages")
        data = ask(served_context, ENGLISH, layer=1, head=2)
        page.wait_for_selector('.stages[data-drawn="1/2"]')
        expect(page.locator('[data-stage="untrained"] .what')).to_have_text(
            say("en", "stages_untrained_what"))
        for stage in data["stages"]:
            column = page.locator(f'[data-stage="{stage["name"]}"]')
            expect(column.locator("canvas.matrix")).to_be_visible()
            expect(column.locator(".tag")).to_contain_text(say(
                "en", "stages_effective_tokens", tokens=f"{stage['effective_tokens']:.1f}",
                size=len(stage["pieces"])))
            figures = column.locator(".bar-list .figure").all_inner_texts()
            expected = [f"{100 * share:.1f}\u00a0%" for share in stage["probabilities"] or ()]
            assert [text for text in figures if "<" not in text] == [
                text for text, share in zip(expected, stage["probabilities"] or (), strict=True)
                if share >= 0.0005]
        expect(page.locator('[data-stage="pretrained"] .none')).to_have_text(
            ["", say("en", "stages_no_feelings")])
        pad = page.locator('[data-stage="finetuned"] .pad')
        pad.focus()
        pad.press("ArrowRight")
        expect(page.locator('[data-study="stages"] .point')).to_contain_text("“[CLS]” looks at")


def test_a_page_without_a_pretrained_stage_says_so_in_its_column(visit, serve, emotion_folder,
                                                                 tmp_path):
    shutil.copytree(emotion_folder, tmp_path / "emotion")
    with visit(address("stages", ENGLISH), at=serve(tmp_path / "emotion")) as page:
        page.wait_for_selector(".stages[data-drawn]")
        column = page.locator('[data-stage="pretrained"]')
        expect(column.locator(".map .none")).to_have_text(say("en", "stages_no_folder"))
        expect(column.locator("canvas.matrix")).to_be_hidden()
        for name in ("untrained", "finetuned"):
            expect(page.locator(f'[data-stage="{name}"] canvas.matrix')).to_be_visible()
