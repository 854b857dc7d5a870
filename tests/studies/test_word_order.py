"""One text in another order, and without positions."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, model_bytes, sheet

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.drawing.texts import say
from bert.explain.word_order import without_positions
from bert.model import BertForSequenceClassification
from bert.studies.base import StudyContext
from bert.studies.word_order import PIZZA, STUDY, positions

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
LONGER = "I finally fixed the bug after three days and everyone stood up and clapped for me"


def order(context: StudyContext, text: str = ENGLISH, **options) -> dict:
    return STUDY.answer(context, text, options)


def test_impossible_options_become_the_defaults(context):
    usual = order(context)
    assert (usual["order"], usual["seed"]) == ("reverse", 1)
    for impossible in ("shuffle.x", "shuffle.0", "shuffle.²", 7, None, "x" * 6_000):
        assert order(context, order=impossible) == usual


def test_shuffles_keep_the_words_and_are_the_same_each_time(context):
    one, again, other = (order(context, LONGER, order=f"shuffle.{seed}")["changed"]
                         for seed in (3, 3, 4))
    assert one == again != other
    assert sorted(one.split()) == sorted(other.split()) == sorted(LONGER.split())
    assert order(context, LONGER)["changed"].split() == LONGER.split()[::-1]


def test_the_answer_after_is_the_models_answer_to_the_changed_text(context, classifier):
    found = order(context)
    changed = " ".join(reversed(ENGLISH.split()))
    assert found["changed"] == changed and not found["same"]
    assert found["before"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert found["after"] == pytest.approx(classifier(changed).probabilities, abs=1e-6)
    one, other = (classifier(text).hidden_states[-1, 0] for text in (ENGLISH, changed))
    assert found["similarity"]["cls"][-1] == pytest.approx(
        one @ other / math.sqrt(one @ one * (other @ other)), abs=1e-5)
    assert order(context, "gone")["same"]


def test_without_positions_the_model_is_the_one_of_transformers_with_a_table_of_zeros(
        context, classifier, emotion_folder):
    theirs = transformers.BertForSequenceClassification.from_pretrained(emotion_folder).eval()
    with torch.inference_mode():
        theirs.bert.embeddings.position_embeddings.weight.zero_()
        expected = theirs(torch.tensor([classifier.encode(ENGLISH).ids])).logits.softmax(-1)[0]
    found = order(context, order="nopos")
    assert found["changed"] == ENGLISH and found["in_bag"] is None
    assert found["after"] == pytest.approx(expected.numpy(), abs=1e-5)
    assert np.abs(np.subtract(found["after"], found["before"])).max() > 1e-4


def test_without_positions_any_order_gives_the_same_vectors(context, classifier):
    bag = without_positions(classifier)
    ids = torch.tensor([classifier.encode(LONGER).ids])
    shuffled = ids[:, torch.randperm(ids.size(1), generator=torch.Generator().manual_seed(5))]
    with torch.inference_mode():
        one, other = (bag.model.bert(row).hidden.mean(dim=1) for row in (ids, shuffled))
        apart = [classifier.model.bert(row).hidden.mean(dim=1) for row in (ids, shuffled)]
    assert torch.allclose(one, other, atol=1e-5)
    assert not torch.allclose(*apart, atol=1e-3)
    found = order(context, LONGER, order="shuffle.2")
    for name in ("cls", "mean"):
        assert found["in_bag"][name] == pytest.approx([1.0] * 3, abs=1e-6)
        assert found["similarity"][name][-1] < 0.9999


def test_without_positions_nobody_knows_who_ate_whom(context, classifier):
    english, korean = order(context)["pizza"]
    assert english["same_pieces"]
    assert english["off"]["pooled"] < 1e-5 < 1e-3 < english["on"]["pooled"]
    assert english["off"]["cls"] == pytest.approx(1.0) and english["on"]["cls"] < 0.9999
    pooled = [classifier.run_with_cache(text).value("pooled") for text in PIZZA[1]]
    assert korean["on"]["pooled"] == pytest.approx(np.abs(pooled[0] - pooled[1]).max(), abs=1e-6)


def test_a_pre_norm_model_with_sinusoidal_positions_has_no_learned_ones(tokenizer, tiny_config,
                                                                         tmp_path):
    config = replace(tiny_config, norm="pre", positions="sinusoidal", pooling="mean")
    save_checkpoint(tmp_path / "emotion", untrained(config, BertForSequenceClassification),
                    tokenizer)
    data = order(StudyContext(EmotionClassifier.load(tmp_path / "emotion")))
    assert data["positions"]["learned"] is None
    assert data["in_bag"]["cls"] == pytest.approx([1.0] * 3)
    assert_drawn(STUDY, data)


def test_another_order_changes_no_weights_that_others_use(classifier):
    before = model_bytes(classifier)
    table = classifier.model.bert.embeddings.position_embeddings.weight
    context = StudyContext(classifier)
    for name in ("nopos", "reverse", "shuffle.2"):
        order(context, order=name)
    assert model_bytes(classifier) == before
    assert classifier.model.bert.embeddings.position_embeddings.weight is table
    bag = without_positions(classifier)
    assert bag.model.bert.encoder.layer[0].attention.qkv.weight is (
        classifier.model.bert.encoder.layer[0].attention.qkv.weight)
    assert not bag.model.bert.embeddings.position_embeddings.weight.any()


def test_position_vectors_are_the_models_own_beside_sine_waves(classifier):
    found = positions(classifier)
    table = classifier.model.bert.embeddings.position_embeddings.weight.detach().numpy()
    assert np.array_equal(found["learned"]["picture"].values, table)
    assert found["learned"]["neighbours"][3] == pytest.approx(
        table[3] @ table[4] / math.sqrt(table[3] @ table[3] * (table[4] @ table[4])), abs=1e-6)
    waves = found["sinusoidal"]["picture"].values
    assert waves[5, 2] == pytest.approx(math.sin(5 / 10_000 ** (2 / 32)), abs=0.01)
    assert waves[5, 3] == pytest.approx(math.cos(5 / 10_000 ** (2 / 32)), abs=0.01)


@pytest.mark.parametrize("how", ["reverse", "nopos"])
def test_the_order_leaves_the_page_as_picture_and_table(context, how):
    data = order(context, order=how)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert {len(row) for row in rows} == {3}
    found = [float(row[2]) for row in rows if row[0] == "cosine of cls, before to after"]
    assert found == data["similarity"]["cls"]


def test_a_checkpoint_without_a_classifier_is_reordered_all_the_same(pretrained_folder):
    data = order(StudyContext(EmotionClassifier.load(pretrained_folder)), order="nopos")
    assert data["classes"] == [] and len(data["similarity"]["cls"]) == 3
    assert_drawn(STUDY, data)


def test_order_on_the_page_has_the_figures_of_python(visit, classifier):
    with visit(address("word_order", LONGER)) as page:
        place = page.locator('[data-study="word_order"]')
        after = place.locator('.paired [data-class="joy"] td').nth(2)
        data = order(StudyContext(classifier), LONGER)
        expect(after).to_have_text(f"{100 * data['after'][5]:.1f}\u00a0%")
        off, on = (place.locator(f'[data-figure="pooled-{name}"]').first for name in ("off", "on"))
        assert off.inner_text() == "0.0000" or "10⁻" in off.inner_text()
        assert float(on.inner_text()) == pytest.approx(data["pizza"][0]["on"]["pooled"], abs=1e-4)
        place.get_by_role("button", name=say("en", "word_order_shuffle")).click()
        place.get_by_role("button", name=say("en", "word_order_again")).click()
        changed = order(StudyContext(classifier), LONGER, order="shuffle.2")["changed"]
        expect(place.locator(".changed span")).to_have_text(changed)
        assert "order=shuffle.2" in page.url
