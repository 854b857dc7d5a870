"""What each layer does and holds, against loops."""

import math

import numpy as np
import pytest

from bert.classifier import EmotionClassifier
from bert.explain import probes
from bert.explain.probes import MEASURES, ProbedText
from bert.studies.probes import probe_texts

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_what_loops_count(name):
    draw = np.random.default_rng(0)
    attentions = draw.dirichlet(np.ones(5), size=(3, 2, 5))                          # (L, H, T, T)
    states = draw.normal(size=(4, 5, 6))                                             # (L + 1, T, E)
    found = probes.measure(attentions, states)[name]
    for layer in range(3):
        each = []
        for head in range(2):
            for query in range(5):
                row = attentions[layer, head, query]
                each.append({
                    "distance": sum(row[key] * abs(query - key) for key in range(5)),
                    "effective_tokens": math.exp(-sum(weight * math.log(weight) for weight in row)),
                    "self": row[query], "cls": row[0], "sep": row[4],
                    "change": 1 - sum(a * b for a, b in zip(
                        states[layer, query], states[layer + 1, query], strict=True))
                    / math.dist(states[layer, query], [0] * 6)
                    / math.dist(states[layer + 1, query], [0] * 6)}[name])
        assert found[layer] == pytest.approx(sum(each) / len(each))


def test_texts_looked_through_together_are_what_they_are_alone(classifier):
    lines = [("joy", 0, ENGLISH), ("anger", 1, "또"), ("joy", 2, KOREAN)]
    for one in probes.run_texts(classifier, lines):
        alone = classifier(one.encoding.texts[0])
        assert (one.label, one.fold, alone.text) in lines
        assert one.attentions == pytest.approx(alone.attentions, abs=1e-5)
        assert one.states == pytest.approx(alone.hidden_states, abs=1e-4)


def test_the_ridge_regression_is_least_squares_with_a_penalty():
    draw = np.random.default_rng(1)
    rows, targets = draw.normal(2, 3, size=(12, 4)), draw.normal(size=(12, 2))
    rows[:, 3] = 7.0  # a column that tells nothing
    new = draw.normal(size=(3, 4))
    centre, std = rows.mean(axis=0), np.array([*rows[:, :3].std(axis=0), 1.0])
    padded = np.concatenate([(rows - centre) / std,
                             math.sqrt(probes.PENALTY * 12) * np.eye(4)])
    wanted = np.concatenate([targets - targets.mean(axis=0), np.zeros((4, 2))])
    weights = np.linalg.lstsq(padded, wanted, rcond=None)[0]
    assert probes.ridge(rows, targets, new) == pytest.approx((new - centre) / std @ weights)


def test_a_probe_never_sees_the_fold_it_is_asked_about():
    draw = np.random.default_rng(2)
    labels = np.array(list("aabbaabb"))
    folds = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    clear = np.where(labels == "a", 1.0, -1.0)[:, None] + 0.1 * draw.normal(size=(8, 3))
    assert probes.is_read(clear, labels, folds).all()
    clear[folds == 1] *= -1  # what the other fold teaches is now wrong
    assert not probes.is_read(clear, labels, folds).any()


def test_what_the_texts_add_up_to_is_the_balanced_accuracy_above_chance():
    labels = np.array([True, False, False, False, True, False])
    right = np.array([[1, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 0]], dtype=bool)
    texts = np.array([0, 0, 1, 1, 2, 2])
    found = probes.by_text(right, labels, texts, 4)
    assert found.shape == (2, 4) and not found[:, 3].any()
    assert found.mean(axis=1) == pytest.approx([(1 / 2 + 3 / 4) / 2 - 0.5, (1 / 2 + 0) / 2 - 0.5])
    assert found[0, 2] == pytest.approx(4 * ((0 - 0.5) / 2 / 2 + (1 - 0.5) / 4 / 2))


def probed_texts(classifier: EmotionClassifier, number: int = 12) -> list[ProbedText]:
    return probes.run_texts(classifier, probe_texts()[:number])


def test_the_probe_of_meaning_reads_the_mean_of_the_pieces(classifier):
    probed = probed_texts(classifier, 24)
    scores = probes.meaning_scores(probed)
    labels = np.array([text.label for text in probed])
    folds = np.array([text.fold for text in probed])
    for layer in range(3):
        rows = np.array([np.mean([text.states[layer, place] for place in
                                  range(1, len(text.encoding.ids) - 1)], axis=0)
                         for text in probed], dtype=np.float64)
        right = probes.is_read(rows, labels, folds)
        shares = [right[labels == label].mean() for label in np.unique(labels)]
        assert scores[layer].mean() == pytest.approx(np.mean(shares) - 1 / len(shares))


@pytest.mark.parametrize("ahead", [0, 1])
def test_the_probes_of_pieces_count_only_pieces_they_have_never_seen(classifier, ahead):
    probed = probes.run_texts(classifier, [
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
    scores = probes.piece_scores(probed, ahead)
    for layer in range(3):
        right = probes.is_read(np.array(rows, dtype=np.float64)[:, layer], np.array(labels),
                              np.array(folds))
        shares = [np.mean([right[i] for i in new if labels[i] == kind]) for kind in (False, True)]
        assert scores[layer].mean() == pytest.approx(np.mean(shares) - 0.5)


def test_pieces_of_one_kind_cannot_be_told_apart(classifier):
    assert probes.piece_scores(probes.run_texts(
        classifier, [("joy", 0, ENGLISH), ("joy", 1, ENGLISH)]), 0) is None


def test_layers_fall_into_thirds():
    assert probes.thirds(12) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    assert probes.thirds(4) == [[1, 2], [3], [4]]
    assert probes.thirds(2) == []


def test_a_part_of_the_claim_needs_a_lead_of_two_standard_errors():
    even = np.zeros((4, 50))
    noise = np.random.default_rng(3).normal(size=50)
    even[1:] = 0.3 + 0.1 * noise
    assert probes.judge(even, 0)["supported"] is False       # readable, but not more than elsewhere
    ahead = even.copy()
    ahead[2] += 0.05 + 0.01 * noise[::-1]
    found = probes.judge(ahead, 1)
    lead = ahead[2] - ahead[1]
    error = math.sqrt(sum((lead - lead.mean()) ** 2) / 49) / math.sqrt(50)
    assert found["supported"] is True
    assert (found["lead"], found["error"]) == pytest.approx((lead.mean(), error))
    assert found["by_third"] == pytest.approx([ahead[layer].mean() for layer in (1, 2, 3)])
    assert probes.judge(ahead, 0)["supported"] is False      # another third is better
    assert probes.judge(ahead - 1, 1)["supported"] is False  # the best third is below chance
    assert probes.judge(even[:3], 0)["supported"] is None    # two layers have no thirds
