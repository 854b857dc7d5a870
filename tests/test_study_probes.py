"""Reading the answer early, without some heads, and what each layer holds."""

import copy
import csv
import io
import json
import math
import re
import urllib.parse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from bert import bands, probes
from bert.bands import BANDS, MEASURES, Probed
from bert.checkpoint import save_checkpoint, untrained
from bert.corpus import read_labelled
from bert.exports import make_study
from bert.lab import Lab, Options
from bert.labels import KEYS
from bert.model import BertForSequenceClassification
from bert.predict import EmotionClassifier
from bert.probes import LENS, OFF, read_heads, without_each_head
from bert.texts import PAGE, say

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
ROOT = Path(__file__).parent.parent
expect.set_options(timeout=60_000)  # a limit for a hang, never reached otherwise


@pytest.fixture
def lab(classifier: EmotionClassifier) -> Lab:
    return Lab(classifier)


@pytest.fixture(scope="module")
def deeper(tmp_path_factory, tokenizer, tiny_config) -> EmotionClassifier:
    """Four untrained pre-norm layers that take the mean of all tokens."""
    config = replace(tiny_config, num_hidden_layers=4, norm="pre", pooling="mean",
                     id2label=("yes", "no"))
    folder = tmp_path_factory.mktemp("deeper")
    save_checkpoint(folder, untrained(config, BertForSequenceClassification), tokenizer)
    return EmotionClassifier.load(folder)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def files(study, data: dict) -> list[list[str]]:
    """Both pictures can be drawn; the rows of the spreadsheet."""
    for language in ("en", "ko"):
        assert make_study(study, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(study, data, "csv", "en").content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(sheet)))


def opened(visit, view: str, text: str, **options):
    query = urllib.parse.urlencode({"view": view, "text": text, "lang": "en", **options})
    return visit(query)


# ---------------------------------------------------------------------------------- emotion lens


def test_the_last_row_of_the_lens_is_the_prediction(lab, classifier):
    data = LENS.answer(lab, KOREAN, Options())
    assert data["shares"][-1] == pytest.approx(classifier(KOREAN).probabilities, abs=1e-6)
    assert data["classes"][data["best"]]["key"] == classifier(KOREAN).label


def test_each_row_of_the_lens_is_pooler_and_classifier_on_that_layer(lab, classifier):
    weights = {name: value.double().numpy() for name, value in
               classifier.model.state_dict().items()}
    rows = LENS.answer(lab, ENGLISH, Options())["shares"]
    for row, state in zip(rows, classifier(ENGLISH).hidden_states, strict=True):
        pooled = np.tanh(weights["bert.pooler.dense.weight"] @ state[0]
                         + weights["bert.pooler.dense.bias"])
        scores = weights["classifier.weight"] @ pooled + weights["classifier.bias"]
        assert row == pytest.approx(softmax(scores), abs=1e-5)


def test_the_lens_reads_a_pre_norm_model_through_its_last_norm(deeper):
    weights = {name: value.double().numpy() for name, value in deeper.model.state_dict().items()}
    states = deeper(ENGLISH).hidden_states
    rows = LENS.answer(Lab(deeper), ENGLISH, Options())["shares"]
    for layer, (row, state) in enumerate(zip(rows, states, strict=True)):
        if layer < len(states) - 1:
            spread = state.var(axis=-1, keepdims=True) + deeper.config.layer_norm_eps
            state = (state - state.mean(axis=-1, keepdims=True)) / np.sqrt(spread)
            state = (state * weights["bert.encoder.final_norm.weight"]
                     + weights["bert.encoder.final_norm.bias"])
        pooled = np.tanh(weights["bert.pooler.dense.weight"] @ state.mean(axis=0)
                         + weights["bert.pooler.dense.bias"])
        scores = weights["classifier.weight"] @ pooled + weights["classifier.bias"]
        assert row == pytest.approx(softmax(scores), abs=1e-5)


def test_the_lens_settles_where_the_answer_leads_for_good(lab):
    for text in (KOREAN, ENGLISH, "What if the money runs out"):
        data = LENS.answer(lab, text, Options())
        leaders = [row.index(max(row)) for row in data["shares"]]
        settled = len(leaders)
        while settled > 1 and leaders[settled - 1] == data["best"]:
            settled -= 1
        assert data["settled"] == settled


def test_the_lens_can_be_taken_away(lab):
    data = LENS.answer(lab, KOREAN, Options())
    rows = files(LENS, data)
    assert rows[0] == ["layer", *KEYS]
    assert [[float(cell) for cell in row[1:]] for row in rows[1:]] == data["shares"]


def test_the_page_shows_the_lens_with_the_shares_of_the_last_layer(visit, lab):
    data = LENS.answer(lab, KOREAN, Options())
    with opened(visit, "lens", KOREAN) as page:
        figures = page.locator('[data-study="lens"] .legend .figure')
        expect(figures).to_have_text([f"{100 * share:.1f}\u00a0%" for share in data["shares"][-1]])


# ---------------------------------------------------------------------------------- heads off


def test_heads_are_read_from_the_address_and_rubbish_is_passed_over():
    assert read_heads("2.1,1.2", 2, 2) == [(1, 2), (2, 1)]
    assert read_heads("2.*,2.1", 2, 3) == [(2, 1), (2, 2), (2, 3)]
    assert read_heads("1.*,2.*", 2, 1) == [(1, 1), (2, 1)]
    for rubbish in ("", "0.1", "1.0", "3.1", "1.3", "*.1", "1", "1.1.1", "-1.1", "1. 1", "１.１",
                    "01.1", ",,", "x", "1e0.1", None, 3, [1, 2], {"1": 1}, "9" * 20_000):
        assert read_heads(rubbish, 2, 2) == []


def test_rubbish_in_the_address_leaves_every_head_on(lab):
    data = OFF.answer(lab, KOREAN, Options({"off": "7.7,no,1.*1"}))
    assert data["off"] == [] and data["after"] == data["before"]
    assert OFF.answer(lab, KOREAN, Options({"off": "7.7,2.1"}))["off"] == [[2, 1]]


@pytest.mark.parametrize("off", ["1.2", "1.1,2.2", "2.*", "1.*,2.*"])
def test_a_head_that_is_off_is_a_head_whose_output_weights_are_zero(lab, classifier, off):
    edited = copy.deepcopy(classifier.model)
    width = classifier.config.hidden_size // classifier.config.num_attention_heads
    for layer, head in read_heads(off, 2, 2):
        output = edited.bert.encoder.layer[layer - 1].attention.output
        with torch.no_grad():
            output.weight[:, (head - 1) * width:head * width] = 0.0
    with torch.inference_mode():
        ids = torch.tensor([classifier.encode(ENGLISH).ids])
        expected = edited(ids).logits.softmax(dim=-1)[0].numpy()
    data = OFF.answer(lab, ENGLISH, Options({"off": off}))
    assert data["after"] == pytest.approx(expected, abs=1e-6)
    assert data["before"] == pytest.approx(classifier(ENGLISH).probabilities, abs=1e-6)
    assert np.abs(np.subtract(data["after"], data["before"])).max() > 1e-4


@pytest.mark.parametrize("at_once", [1, 30, 4_096])
def test_the_map_of_all_heads_is_what_single_runs_give(classifier, monkeypatch, at_once):
    monkeypatch.setattr(probes, "TOKENS_AT_ONCE", at_once)
    before, alone = without_each_head.__wrapped__(classifier, KOREAN)
    assert before == pytest.approx(classifier(KOREAN).probabilities, abs=1e-6)
    for layer in (1, 2):
        for head in (1, 2):
            single = classifier.inspect(KOREAN, heads_off=[(layer, head)])
            assert alone[layer - 1, head - 1] == pytest.approx(
                single.value("probabilities")[0], abs=1e-6)


def test_effects_are_changes_of_the_answered_class_and_the_largest_are_named(lab, deeper):
    for place in (lab, Lab(deeper)):
        data = OFF.answer(place, ENGLISH, Options())
        best = max(range(len(data["before"])), key=data["before"].__getitem__)
        assert data["best"] == best
        for layer, row in enumerate(data["effects"], 1):
            for head, effect in enumerate(row, 1):
                off = OFF.answer(place, ENGLISH, Options({"off": f"{layer}.{head}"}))
                assert effect == pytest.approx(off["after"][best] - data["before"][best], abs=1e-6)
        sizes = sorted((abs(effect) for row in data["effects"] for effect in row), reverse=True)
        named = [abs(data["effects"][layer - 1][head - 1]) for layer, head in data["ranked"]]
        assert named == sizes[:5]


def test_the_map_is_worked_out_once_for_a_text(lab, monkeypatch):
    text = "A text for this test alone"
    runs = []
    answers = probes.answers
    monkeypatch.setattr(probes, "answers", lambda *given: runs.append(len(given[2]))
                        or answers(*given))
    for off in ("", "1.1", "1.1,2.2", "1.*,2.*"):
        OFF.answer(lab, text, Options({"off": off}))
    assert runs == [5, 1, 1]  # all heads on and each one off; then only what is new


def test_heads_need_a_classifier_to_have_an_effect(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        OFF.answer(Lab(EmotionClassifier.load(pretrained_folder)), KOREAN, Options())


def test_the_heads_can_be_taken_away(lab):
    data = OFF.answer(lab, KOREAN, Options({"off": "1.2"}))
    rows = files(OFF, data)
    assert [[row[0], float(row[1]), float(row[2])] for row in rows[1:11]] == [
        [key, *shares] for key, *shares in zip(KEYS, data["before"], data["after"], strict=True)]
    assert [row[3] for row in rows[13:]] == ["0", "1", "0", "0"]


def test_clicking_heads_on_the_page_switches_them_off(visit, lab):
    with opened(visit, "off", ENGLISH) as page:
        place = page.locator('[data-study="off"]')
        changes = place.locator("td.change")
        expect(changes.first).to_have_text("0.0")
        place.locator('[data-row="2"]').click()
        expect(place.locator('.cell[aria-pressed="true"]')).to_have_count(2)
        data = OFF.answer(lab, ENGLISH, Options({"off": "2.*"}))
        differences = 100 * np.subtract(data["after"], data["before"])
        strongest = int(np.abs(differences).argmax())
        sign = "+" if differences[strongest] > 0 else "−"
        expect(changes.nth(strongest)).to_have_text(f"{sign}{abs(differences[strongest]):.1f}")
        assert dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))["off"] == "2.*"
        place.locator('[data-head="2.1"].cell').click()
        expect(page).to_have_url(re.compile(r"[?&]off=2\.2(&|$)"))
        place.locator('[data-head="2.1"].cell').focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        expect(place.locator('[data-head="1.1"].cell')).to_have_attribute("aria-pressed", "true")
        place.get_by_role("button", name="All on", exact=True).click()
        expect(changes.nth(strongest)).to_have_text("0.0")
        layer, head = data["ranked"][0]
        effect = 100 * data["effects"][layer - 1][head - 1]
        expect(place.locator(".ranked .figure").first).to_have_text(
            f"{'+' if effect > 0 else '−'}{abs(effect):.2f}")


# ---------------------------------------------------------------------------------- layer bands


def test_the_texts_of_the_set_are_balanced_and_none_was_trained_on():
    groups = json.loads((PAGE / "probe_texts.json").read_text(encoding="utf-8"))
    assert tuple(groups) == KEYS
    found = Counter(len(texts) for languages in groups.values() for texts in languages.values())
    assert found == {4: 20} and all(set(group) == {"ko", "en"} for group in groups.values())
    texts = [text for _, _, text in bands.probe_texts()]
    assert len(set(texts)) == 80
    for split in ("train", "dev", "test"):
        lines = {line.text for line in read_labelled(ROOT / "assets" / "data" / f"{split}.tsv")}
        assert not lines & set(texts)


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_what_loops_count(name):
    draw = np.random.default_rng(0)
    attentions = draw.dirichlet(np.ones(5), size=(3, 2, 5))                          # (L, H, T, T)
    states = draw.normal(size=(4, 5, 6))                                             # (L + 1, T, E)
    found = bands.measure(attentions, states)[name]
    for layer in range(3):
        each = []
        for head in range(2):
            for query in range(5):
                row = attentions[layer, head, query]
                each.append({
                    "distance": sum(row[key] * abs(query - key) for key in range(5)),
                    "spread": math.exp(-sum(weight * math.log(weight) for weight in row)),
                    "self": row[query], "cls": row[0], "sep": row[4],
                    "change": 1 - sum(a * b for a, b in zip(
                        states[layer, query], states[layer + 1, query], strict=True))
                    / math.dist(states[layer, query], [0] * 6)
                    / math.dist(states[layer + 1, query], [0] * 6)}[name])
        assert found[layer] == pytest.approx(sum(each) / len(each))


def test_texts_looked_through_together_are_what_they_are_alone(classifier):
    lines = [("joy", 0, ENGLISH), ("anger", 1, "또"), ("joy", 2, KOREAN)]
    for one in bands.look_through(classifier, lines):
        alone = classifier(one.encoding.texts[0])
        assert (one.label, one.fold, alone.text) in lines
        assert one.attentions == pytest.approx(alone.attentions, abs=1e-5)
        assert one.states == pytest.approx(alone.hidden_states, abs=1e-4)


def test_the_ridge_regression_is_least_squares_with_a_penalty():
    draw = np.random.default_rng(1)
    rows, targets = draw.normal(2, 3, size=(12, 4)), draw.normal(size=(12, 2))
    rows[:, 3] = 7.0  # a column that tells nothing
    new = draw.normal(size=(3, 4))
    centre, spread = rows.mean(axis=0), np.array([*rows[:, :3].std(axis=0), 1.0])
    padded = np.concatenate([(rows - centre) / spread,
                             math.sqrt(bands.PENALTY * 12) * np.eye(4)])
    wanted = np.concatenate([targets - targets.mean(axis=0), np.zeros((4, 2))])
    weights = np.linalg.lstsq(padded, wanted, rcond=None)[0]
    assert bands.ridge(rows, targets, new) == pytest.approx((new - centre) / spread @ weights)


def test_a_probe_never_sees_the_fold_it_is_asked_about():
    draw = np.random.default_rng(2)
    labels = np.array(list("aabbaabb"))
    folds = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    clear = np.where(labels == "a", 1.0, -1.0)[:, None] + 0.1 * draw.normal(size=(8, 3))
    assert bands.is_read(clear, labels, folds).all()
    clear[folds == 1] *= -1  # what the other fold teaches is now wrong
    assert not bands.is_read(clear, labels, folds).any()


def test_what_the_texts_add_up_to_is_the_balanced_accuracy_above_chance():
    labels = np.array([True, False, False, False, True, False])
    right = np.array([[1, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 0]], dtype=bool)
    texts = np.array([0, 0, 1, 1, 2, 2])
    found = bands.by_text(right, labels, texts, 4)
    assert found.shape == (2, 4) and not found[:, 3].any()
    assert found.mean(axis=1) == pytest.approx([(1 / 2 + 3 / 4) / 2 - 0.5, (1 / 2 + 0) / 2 - 0.5])
    assert found[0, 2] == pytest.approx(4 * ((0 - 0.5) / 2 / 2 + (1 - 0.5) / 4 / 2))


def probed_texts(classifier: EmotionClassifier, number: int = 12) -> list[Probed]:
    return bands.look_through(classifier, bands.probe_texts()[:number])


def test_the_probe_of_meaning_reads_the_mean_of_the_pieces(classifier):
    probed = probed_texts(classifier, 24)
    scores = bands.meaning_scores(probed)
    labels = np.array([text.label for text in probed])
    folds = np.array([text.fold for text in probed])
    for layer in range(3):
        rows = np.array([np.mean([text.states[layer, place] for place in
                                  range(1, len(text.encoding.ids) - 1)], axis=0)
                         for text in probed], dtype=np.float64)
        right = bands.is_read(rows, labels, folds)
        shares = [right[labels == label].mean() for label in np.unique(labels)]
        assert scores[layer].mean() == pytest.approx(np.mean(shares) - 1 / len(shares))


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_probes_of_pieces_count_only_pieces_they_have_never_seen(classifier, ahead):
    probed = bands.look_through(classifier, [
        ("joy", 0, "마라톤을 완주했다 드디어"), ("joy", 1, "팀장님이 칭찬해 주셨다"),
        ("joy", 0, "everyone clapped for me"), ("joy", 1, "the money for my mistake")])
    labels, rows, folds, texts, ids = [], [], [], [], []
    for number, text in enumerate(probed):
        pieces = text.encoding.pieces
        for place, piece in enumerate(pieces):
            asked = place + ahead
            if piece not in ("[CLS]", "[SEP]") and pieces[asked] != "[SEP]":
                labels.append(pieces[asked][:2] == "##")
                rows.append(text.states[:, place])
                folds.append(text.fold)
                texts.append(number)
                ids.append(text.encoding.ids[place])
    new = [i for i in range(len(ids))
           if all(ids[j] != ids[i] or folds[j] == folds[i] for j in range(len(ids)))]
    assert 0 < len(new) < len(ids)
    scores = bands.piece_scores(probed, ahead)
    for layer in range(3):
        right = bands.is_read(np.array(rows, dtype=np.float64)[:, layer], np.array(labels),
                              np.array(folds))
        shares = [np.mean([right[i] for i in new if labels[i] == kind]) for kind in (False, True)]
        assert scores[layer].mean() == pytest.approx(np.mean(shares) - 0.5)


def test_pieces_of_one_kind_cannot_be_told_apart(classifier):
    assert bands.piece_scores(bands.look_through(
        classifier, [("joy", 0, ENGLISH), ("joy", 1, ENGLISH)]), 0) is None


def test_layers_fall_into_thirds():
    assert bands.thirds(12) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert bands.thirds(4) == [[1, 2], [3], [4]]
    assert bands.thirds(2) == []


def test_a_part_of_the_claim_needs_a_lead_of_two_standard_errors():
    even = np.zeros((4, 50))
    noise = np.random.default_rng(3).normal(size=50)
    even[1:] = 0.3 + 0.1 * noise
    assert bands.judge(even, 0)["supported"] is False       # readable, but not more than elsewhere
    ahead = even.copy()
    ahead[2] += 0.05 + 0.01 * noise[::-1]
    found = bands.judge(ahead, 1)
    lead = ahead[2] - ahead[1]
    error = math.sqrt(sum((lead - lead.mean()) ** 2) / 49) / math.sqrt(50)
    assert found["supported"] is True
    assert (found["lead"], found["error"]) == pytest.approx((lead.mean(), error))
    assert found["bands"] == pytest.approx([ahead[layer].mean() for layer in (1, 2, 3)])
    assert bands.judge(ahead, 0)["supported"] is False      # another third is better
    assert bands.judge(ahead - 1, 1)["supported"] is False  # the best third is below chance
    assert bands.judge(even[:3], 0)["supported"] is None    # two layers have no thirds


def test_the_study_has_the_measures_of_its_text_and_the_mean_over_the_set(deeper):
    data = BANDS.answer(Lab(deeper), KOREAN, Options())
    alone = deeper(KOREAN)
    expected = bands.measure(alone.attentions, alone.hidden_states)
    each = [bands.measure(text.attentions, text.states)
            for text in bands.look_through(deeper, bands.probe_texts())]
    assert data["texts"] == len(each) == 80 and data["thirds"] == [[1, 2], [3], [4]]
    for name in MEASURES:
        assert data["measures"][name]["text"] == pytest.approx(expected[name], abs=1e-5)
        mean = sum(one[name] for one in each) / 80
        assert data["measures"][name]["set"] == pytest.approx(mean, abs=1e-5)
    assert [probe["name"] for probe in data["probes"]] == ["form", "relation", "meaning"]
    meaning = data["probes"][2]
    assert meaning["chance"] == 0.1 and len(meaning["accuracy"]) == 5
    early, middle, late = meaning["bands"]
    layers = meaning["accuracy"]
    assert (early, middle, late) == pytest.approx(
        ((layers[1] + layers[2]) / 2, layers[3], layers[4]))
    assert meaning["lead"] == pytest.approx(late - max(early, middle))


def test_the_set_is_run_once_for_all_texts(deeper, monkeypatch):
    lab = Lab(deeper)
    BANDS.answer(lab, KOREAN, Options())
    monkeypatch.setattr(bands, "look_through", None)
    assert BANDS.answer(lab, ENGLISH, Options())["texts"] == 80


def test_a_checkpoint_without_classifier_has_bands_too(pretrained_folder):
    data = BANDS.answer(Lab(EmotionClassifier.load(pretrained_folder)), KOREAN, Options())
    assert data["thirds"] == [] and all(probe["supported"] is None for probe in data["probes"])
    assert len(data["measures"]["distance"]["text"]) == 2


def test_the_bands_can_be_taken_away(deeper):
    data = BANDS.answer(Lab(deeper), KOREAN, Options())
    rows = files(BANDS, data)
    assert [row[0] for row in rows[1:6]] == ["0", "1", "2", "3", "4"]
    column = rows[0].index("distance (text)")
    assert [float(row[column]) for row in rows[2:6]] == data["measures"]["distance"]["text"]
    assert [float(row[-1]) for row in rows[1:6]] == data["probes"][2]["accuracy"]


def test_the_page_says_what_becomes_of_each_part_of_the_claim(visit, lab):
    data = BANDS.answer(lab, KOREAN, Options())
    with opened(visit, "bands", KOREAN) as page:
        place = page.locator('[data-study="bands"]')
        figure = place.locator(".legend .strong .figure").last
        expect(figure).to_have_text(f"{100 * data['probes'][2]['accuracy'][-1]:.1f}\u00a0%")
        expect(place.locator(".verdicts li")).to_have_count(3)
        expect(place.locator(".verdicts li").last).to_contain_text(say("en", "bands_untested"))
        label = place.locator('[data-measure="distance"]').get_attribute("aria-label")
        assert label.endswith(", ".join(f"{value:.1f}" for value in
                                        data["measures"]["distance"]["text"]))
