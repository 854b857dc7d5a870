"""Two texts beside each other, and one text in another order."""

import csv
import io
import math
import urllib.parse
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import expect

from bert import views
from bert.checkpoint import save_checkpoint, untrained
from bert.comparing import (
    ORDER,
    PAIR,
    PIZZA,
    cosine,
    group_shares,
    positions,
    reordered,
    text_vectors,
    without_positions,
)
from bert.exports import make_study
from bert.lab import Lab, Options, unpacked
from bert.model import BertForSequenceClassification
from bert.predict import EmotionClassifier
from bert.texts import say, texts

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
LONGER = "I finally fixed the bug after three days and everyone stood up and clapped for me"


@pytest.fixture
def lab(classifier: EmotionClassifier) -> Lab:
    return Lab(classifier)


def pair(lab: Lab, text: str = ENGLISH, **options) -> dict:
    return PAIR.answer(lab, text, Options(options))


def order(lab: Lab, text: str = ENGLISH, **options) -> dict:
    return ORDER.answer(lab, text, Options(options))


def model_bytes(classifier: EmotionClassifier) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in classifier.model.state_dict().items()}


# ---------------------------------------------------------------------------------- arithmetic


def test_the_cosine_is_the_dot_product_over_both_lengths():
    draw = np.random.default_rng(0)
    one, other = draw.normal(size=(2, 3, 7))
    for row in range(3):
        dot = sum(a * b for a, b in zip(one[row], other[row], strict=True))
        lengths = [math.sqrt(sum(a * a for a in vector[row])) for vector in (one, other)]
        assert cosine(one, other)[row] == pytest.approx(dot / lengths[0] / lengths[1])
    assert cosine(np.zeros(3), np.ones(3)) == 0


def test_attention_between_groups_is_what_loops_count():
    draw = np.random.default_rng(1)
    weights = draw.dirichlet(np.ones(6), size=(2, 6))                                # (H, T, T)
    groups = np.array([[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0], [1, 0, 0, 1, 0, 1]], dtype=bool)
    found = group_shares(weights, groups)
    for head in range(2):
        for start in range(3):
            for end in range(3):
                lookers = [i for i in range(6) if groups[start, i]]
                given = [sum(weights[head, i, j] for j in range(6) if groups[end, j])
                         for i in lookers]
                assert found[head, start, end] == pytest.approx(sum(given) / len(given))
    assert found.sum(axis=-1) == pytest.approx(np.ones((2, 3)))


# ---------------------------------------------------------------------------------- two texts


def test_a_joined_pair_has_the_numbers_of_transformers(lab, classifier, emotion_folder):
    found = pair(lab, second=KOREAN, joined="1", layer=1, head=2)["joined"]
    theirs = transformers.BertForSequenceClassification.from_pretrained(
        emotion_folder, attn_implementation="eager").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(emotion_folder)(
        ENGLISH, KOREAN, return_tensors="pt")
    with torch.inference_mode():
        output = theirs(**tokens, output_attentions=True)
    weights = output.attentions[0][0].numpy().astype(np.float64)                     # (H, T, T)
    assert found["probabilities"] == pytest.approx(output.logits.softmax(-1)[0].numpy(), abs=1e-5)
    size = len(found["tokens"])
    assert views.unpack(found["weights"], (size, size)) == pytest.approx(weights[1], abs=0.5 / 255)
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


def test_similarity_is_the_cosine_of_hidden_states_after_every_layer(lab, classifier):
    found = pair(lab, second=KOREAN)
    one, other = (classifier(text).hidden_states.astype(np.float64) for text in (ENGLISH, KOREAN))
    for name, first, second in (("cls", one[:, 0], other[:, 0]),
                                ("mean", one.mean(axis=1), other.mean(axis=1))):
        expected = [a @ b / math.sqrt(a @ a * (b @ b)) for a, b in zip(first, second, strict=True)]
        assert found["similarity"][name] == pytest.approx(expected, abs=1e-6)
    examples = [classifier(text).hidden_states[-1, 0].astype(np.float64)
                for text in texts()["en"]["example_texts"]]
    among = [a @ b / math.sqrt(a @ a * (b @ b)) for i, a in enumerate(examples)
             for b in examples[:i]]
    assert len(among) == 15
    assert found["usual"]["cls"][-1] == pytest.approx(np.mean(among), abs=1e-6)


def test_vectors_of_a_pre_norm_model_are_its_hidden_states(tokenizer, tiny_config, tmp_path):
    config = replace(tiny_config, norm="pre", positions="sinusoidal", pooling="mean")
    save_checkpoint(tmp_path / "emotion", untrained(config, BertForSequenceClassification),
                    tokenizer)
    other = EmotionClassifier.load(tmp_path / "emotion")
    found = text_vectors(other, other.inspect(ENGLISH))
    states = other(ENGLISH).hidden_states
    assert found["cls"] == pytest.approx(states[:, 0], abs=1e-6)
    assert found["mean"] == pytest.approx(states.mean(axis=1), abs=1e-6)
    data = order(Lab(other))
    assert data["positions"]["learned"] is None
    assert data["in_bag"]["cls"] == pytest.approx([1.0] * 3)
    make_study(ORDER, data, "svg", "ko")


def test_heatmaps_are_subtracted_when_both_texts_have_as_many_tokens(lab, classifier):
    reverse = reordered(ENGLISH, "reverse", 1)
    found = pair(lab, second=reverse, layer=2, head=1)
    one, other = (classifier(text).attentions[1, 0] for text in (ENGLISH, reverse))
    difference = found["difference"]
    limit = float(np.abs(other - one).max())
    assert unpacked(difference["picture"]) == pytest.approx(other - one, abs=limit / 250)
    assert difference["moved"] == pytest.approx(
        np.mean([np.abs(row).sum() / 2 for row in other - one]), abs=1e-6)


def test_without_as_many_tokens_the_habits_of_the_head_stand_in(lab, classifier):
    found = pair(lab, second=KOREAN, layer=2, head=2)
    assert found["difference"] is None
    for side, text in zip(found["sides"], (ENGLISH, KOREAN), strict=True):
        weights = classifier(text).attentions[1, 1]
        size = len(weights)
        assert side["habits"]["previous"] == pytest.approx(
            sum(weights[i, i - 1] for i in range(1, size)) / (size - 1), abs=1e-5)
        assert side["habits"]["sep"] == pytest.approx(weights[:, -1].mean(), abs=1e-5)
        assert side["probabilities"] == pytest.approx(classifier(text).probabilities, abs=1e-6)


def test_impossible_options_become_the_defaults(lab):
    usual = pair(lab)
    assert (usual["layer"], usual["head"], usual["at"], usual["joined"]) == (2, 1, 2, None)
    examples = texts()["en"]["example_texts"]
    assert usual["sides"][1]["text"] == examples[0]
    assert pair(lab, layer=99, head="no", at=-1, joined="yes", second="  ") == usual
    assert pair(lab, examples[0])["sides"][1]["text"] == examples[1]
    usual = order(lab)
    assert (usual["order"], usual["seed"]) == ("reverse", 1)
    for impossible in ("shuffle.x", "shuffle.0", "shuffle.²", 7, None, "x" * 6_000):
        assert order(lab, order=impossible) == usual


def test_a_second_text_that_speaks_of_self_harm_is_answered_with_care(lab):
    assert pair(lab, second="I want to die")["care"]
    assert not pair(lab, second=KOREAN)["care"]


# ---------------------------------------------------------------------------------- order


def test_shuffles_keep_the_words_and_are_the_same_each_time(lab):
    one, again, other = (order(lab, LONGER, order=f"shuffle.{seed}")["changed"]
                         for seed in (3, 3, 4))
    assert one == again != other
    assert sorted(one.split()) == sorted(other.split()) == sorted(LONGER.split())
    assert order(lab, LONGER)["changed"].split() == LONGER.split()[::-1]


def test_the_answer_after_is_the_models_answer_to_the_changed_text(lab, classifier):
    found = order(lab)
    changed = " ".join(reversed(ENGLISH.split()))
    assert found["changed"] == changed and not found["same"]
    assert found["before"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert found["after"] == pytest.approx(classifier(changed).probabilities, abs=1e-6)
    one, other = (classifier(text).hidden_states[-1, 0] for text in (ENGLISH, changed))
    assert found["similarity"]["cls"][-1] == pytest.approx(
        one @ other / math.sqrt(one @ one * (other @ other)), abs=1e-5)
    assert order(lab, "gone")["same"]


def test_without_positions_the_model_is_the_one_of_transformers_with_a_table_of_zeros(
        lab, classifier, emotion_folder):
    theirs = transformers.BertForSequenceClassification.from_pretrained(emotion_folder).eval()
    with torch.inference_mode():
        theirs.bert.embeddings.position_embeddings.weight.zero_()
        expected = theirs(torch.tensor([classifier.encode(ENGLISH).ids])).logits.softmax(-1)[0]
    found = order(lab, order="nopos")
    assert found["changed"] == ENGLISH and found["in_bag"] is None
    assert found["after"] == pytest.approx(expected.numpy(), abs=1e-5)
    assert np.abs(np.subtract(found["after"], found["before"])).max() > 1e-3


def test_without_positions_any_order_gives_the_same_vectors(lab, classifier):
    bag = without_positions(classifier)
    ids = torch.tensor([classifier.encode(LONGER).ids])
    shuffled = ids[:, torch.randperm(ids.size(1), generator=torch.Generator().manual_seed(5))]
    with torch.inference_mode():
        one, other = (bag.model.bert(row).hidden.mean(dim=1) for row in (ids, shuffled))
        apart = [classifier.model.bert(row).hidden.mean(dim=1) for row in (ids, shuffled)]
    assert torch.allclose(one, other, atol=1e-5)
    assert not torch.allclose(*apart, atol=1e-3)
    found = order(lab, LONGER, order="shuffle.2")
    for name in ("cls", "mean"):
        assert found["in_bag"][name] == pytest.approx([1.0] * 3, abs=1e-6)
        assert found["similarity"][name][-1] < 0.9999


def test_without_positions_nobody_knows_who_ate_whom(lab, classifier):
    english, korean = order(lab)["pizza"]
    assert english["same_pieces"]
    assert english["off"]["pooled"] < 1e-5 < 1e-3 < english["on"]["pooled"]
    assert english["off"]["cls"] == pytest.approx(1.0) and english["on"]["cls"] < 0.9999
    pooled = [classifier.inspect(text).value("pooled") for text in PIZZA[1]]
    assert korean["on"]["pooled"] == pytest.approx(np.abs(pooled[0] - pooled[1]).max(), abs=1e-6)


def test_neither_study_changes_the_weights_that_others_use(classifier):
    before = model_bytes(classifier)
    table = classifier.model.bert.embeddings.position_embeddings.weight
    lab = Lab(classifier)
    for name in ("nopos", "reverse", "shuffle.2"):
        order(lab, order=name)
    pair(lab, joined="1")
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


# ---------------------------------------------------------------------------------- files, page


def test_a_checkpoint_without_a_classifier_is_compared_all_the_same(pretrained_folder):
    lab = Lab(EmotionClassifier.load(pretrained_folder))
    for study, options in ((PAIR, {}), (PAIR, {"joined": "1"}), (ORDER, {"order": "nopos"})):
        data = study.answer(lab, ENGLISH, Options(options))
        assert data["classes"] == [] and len(data["similarity"]["cls"]) == 3
        assert make_study(study, data, "svg", "en").content


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("study", "options"), [
    (PAIR, {"second": "$x_1$ ~ \U0001f642 안녕"}), (PAIR, {"second": KOREAN, "joined": "1"}),
    (PAIR, {"second": ENGLISH + " "}), (ORDER, {}), (ORDER, {"order": "nopos"})])
def test_both_studies_leave_the_page_as_picture_and_table(lab, study, options, language):
    data = study.answer(lab, ENGLISH, Options(options))
    assert make_study(study, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(study, data, "csv", language).content.decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(sheet)))
    assert {len(row) for row in rows} == {3}
    wanted = "cosine of cls" if study is PAIR else "cosine of cls, before to after"
    assert [float(row[2]) for row in rows if row[0] == wanted] == data["similarity"]["cls"]


def test_two_texts_on_the_page_have_the_figures_of_python(visit, classifier):
    query = urllib.parse.urlencode({"view": "pair", "text": ENGLISH, "second": KOREAN,
                                    "layer": 1, "head": 2})
    with visit(query) as page:
        data = pair(Lab(classifier), second=KOREAN, layer=1, head=2)
        figures = page.locator('[data-study="pair"] .cosines td')
        expect(figures).to_have_count(4)
        for at, cosines in enumerate((data["similarity"]["cls"], data["usual"]["cls"])):
            assert float(figures.nth(at).inner_text().replace("−", "-")) == pytest.approx(
                cosines[-1], abs=1e-4)
        row = page.locator('[data-study="pair"] .paired [data-class="anger"] td')
        for at, side in enumerate(data["sides"], 1):
            assert float(row.nth(at).inner_text()[:-2]) == pytest.approx(
                100 * side["probabilities"][8], abs=0.051)
        expect(page.locator('[data-study="pair"] .timeline ol li')).to_have_count(1)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_label(say("en", "pair_at")).select_option("0")
        expect(figures.first).to_have_text("1.0000")  # [CLS] itself is the same in every text
        assert "at=0" in page.url and asked == []
        page.get_by_role("button", name=say("en", "pair_together")).click()
        shares = page.locator('[data-study="pair"] .shares tbody tr:first-child td')
        expect(shares).to_have_count(3)
        expected = pair(Lab(classifier), second=KOREAN, joined="1", layer=1)["joined"]["shares"][1]
        assert [float(text[:-2]) for text in shares.all_inner_texts()] == pytest.approx(
            [100 * share for share in expected[0]], abs=0.051)


def test_two_texts_follow_the_conversation_until_somebody_chooses(visit):
    with visit(urllib.parse.urlencode({"view": "pair", "text": ENGLISH})) as page:
        second = page.get_by_label(say("en", "pair_second"))
        expect(second).to_have_value(texts()["en"]["example_texts"][0])
        box = page.get_by_label("Your text")
        for text, before in ((KOREAN, ENGLISH), (LONGER, KOREAN)):
            box.fill(text)
            box.press("Enter")
            expect(second).to_have_value(before)
        expect(page.locator('[data-study="pair"] .timeline ol li')).to_have_count(3)
        page.locator('[data-study="pair"] .chips').get_by_text(ENGLISH, exact=True).click()
        expect(second).to_have_value(ENGLISH)
        page.locator(".said").nth(1).click()
        shown = page.locator('[data-study="pair"] .timeline li[aria-current] .unseen')
        expect(shown).to_contain_text(KOREAN)
        expect(second).to_have_value(ENGLISH)
        second.fill("half a sen")
        page.get_by_role("button", name=say("en", "pair_together")).click()
        expect(page.locator('[data-study="pair"] .shares')).to_be_visible()
        expect(second).to_have_value("half a sen")


def test_order_on_the_page_has_the_figures_of_python(visit, classifier):
    with visit(urllib.parse.urlencode({"view": "order", "text": LONGER})) as page:
        place = page.locator('[data-study="order"]')
        after = place.locator('.paired [data-class="joy"] td').nth(2)
        data = order(Lab(classifier), LONGER)
        expect(after).to_have_text(f"{100 * data['after'][5]:.1f}\u00a0%")
        off, on = (place.locator(f'[data-figure="pooled-{name}"]').first for name in ("off", "on"))
        assert off.inner_text() == "0.0000" or "10⁻" in off.inner_text()
        assert float(on.inner_text()) == pytest.approx(data["pizza"][0]["on"]["pooled"], abs=1e-4)
        place.get_by_role("button", name=say("en", "order_shuffle")).click()
        place.get_by_role("button", name=say("en", "order_again")).click()
        changed = order(Lab(classifier), LONGER, order="shuffle.2")["changed"]
        expect(place.locator(".changed span")).to_have_text(changed)
        assert "order=shuffle.2" in page.url
