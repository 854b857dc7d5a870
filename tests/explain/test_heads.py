"""What each head does in general."""

import json
import shutil

import numpy as np
import pytest

from bert.classifier import EmotionClassifier
from bert.explain import heads
from bert.explain.attention import effective_tokens
from bert.explain.heads import PATTERNS, as_json, describe_heads, load_heads, write_heads
from bert.explain.mean_ablation import mean_outputs
from bert.explain.saliency import head_importance
from bert.explain.target import Target


@pytest.fixture(scope="module")
def groups(texts):
    return {"ko": texts[0:8:2], "en": texts[1:8:2]}


@pytest.fixture
def described(any_classifier, groups):
    return describe_heads(any_classifier, groups)


def test_the_tables_are_there_for_every_head(any_classifier, described):
    config = any_classifier.config
    shape = config.num_hidden_layers, config.num_attention_heads
    for language in ("ko", "en"):
        found = described["languages"][language]
        assert found["texts"] == 4
        assert np.shape(found["shares"]) == (*shape, len(PATTERNS))
        for name in ("entropy", "effective_tokens", "distance", "importance", "kind"):
            assert np.shape(found[name]) == shape
        assert len(found["strongest"]) == shape[0] and len(found["strongest"][0]) == shape[1]
    assert np.shape(described["agreement"]["same_kind"]) == shape


def test_shares_are_means_of_what_each_text_shows(any_classifier, groups, described):
    """Written out for the pattern self and for the entropy, text by text."""
    own = [any_classifier(text) for text in groups["ko"]]
    expected = np.mean([np.trace(one.attentions[0, 0]) / len(one.tokens) for one in own])
    found = described["languages"]["ko"]
    assert found["shares"][0][0][PATTERNS.index("self")] == pytest.approx(expected, abs=1e-4)
    assert found["effective_tokens"][-1][-1] == pytest.approx(
        np.mean([effective_tokens(one.attentions[-1, -1]) for one in own]), abs=1e-3)
    last = [sum(weight * abs(i - j) for (i, j), weight in np.ndenumerate(one.attentions[0, 0]))
            / len(one.tokens) for one in own]
    assert found["distance"][0][0] == pytest.approx(np.mean(last), abs=1e-3)


def test_importance_is_the_mean_over_the_texts_own_answers(any_classifier, groups, described):
    expected = np.mean([head_importance(any_classifier, text,
                                        Target.leading(any_classifier, text))
                        for text in groups["en"]], axis=0)
    np.testing.assert_allclose(described["languages"]["en"]["importance"], expected, atol=1e-4)


def test_the_strongest_look_is_in_the_text_that_is_named(any_classifier, described):
    look = described["languages"]["en"]["strongest"][0][0][0]
    prediction = any_classifier(described["texts"][look["text"]])
    source, seen = look["places"]
    assert (prediction.tokens[source], prediction.tokens[seen]) == (look["from"], look["to"])
    assert look["weight"] == pytest.approx(prediction.attentions[0, 0, source, seen], abs=1e-4)
    inner = prediction.attentions[0, 0, 1:-1, 1:-1].copy()
    np.fill_diagonal(inner, 0.0)
    assert look["weight"] == pytest.approx(inner.max(), abs=1e-4)


def test_languages_with_the_same_texts_agree(any_classifier, groups):
    found = describe_heads(any_classifier, {"one": groups["ko"], "other": groups["ko"]})
    assert np.all(found["agreement"]["same_kind"])
    assert np.max(found["agreement"]["largest_difference"]) == 0.0


def test_the_means_for_ablation_are_kept(any_classifier, groups, described):
    expected = mean_outputs(any_classifier, [*groups["ko"], *groups["en"]])
    np.testing.assert_allclose(described["mean_outputs"], expected, atol=1e-5)


def test_a_head_that_looks_one_back_is_named_so():
    shares = np.array([[[0.1, 0.8, 0.0, 0.1, 0.0, np.nan, 0.4], [0.1] * 7, [0.1] * 7, [0.1] * 7]])
    chance = np.full(len(PATTERNS), 0.1)
    found = heads._kinds(shares, chance, np.array([[0.1, 0.5, 0.1, 0.1]]),
                         np.array([[0.1, 0.1, 0.9, 0.2]]))
    assert found.tolist() == [["previous", "focus", "broad", "mixed"]]


def test_fewer_looks_are_kept_where_the_file_would_grow_too_large(classifier, groups, monkeypatch):
    full = describe_heads(classifier, groups)
    monkeypatch.setattr(heads, "MOST_BYTES", len(as_json(full).encode()) - 1)
    less = describe_heads(classifier, groups)
    assert len(as_json(less).encode()) <= heads.MOST_BYTES
    assert len(less["languages"]["ko"]["strongest"][0][0]) < len(
        full["languages"]["ko"]["strongest"][0][0])
    monkeypatch.setattr(heads, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match="do not fit"):
        describe_heads(classifier, groups)


def test_the_file_is_json_and_belongs_to_its_model(emotion_folder, groups, tmp_path):
    folder = shutil.copytree(emotion_folder, tmp_path / "model")
    classifier = EmotionClassifier.load(folder)
    assert load_heads(classifier) is None
    found = describe_heads(classifier, groups)
    write_heads(folder, found)
    assert load_heads(classifier) == found == json.loads(as_json(found))
    write_heads(folder, {**found, "digest": "another"})
    with pytest.raises(ValueError, match="made for another model"):
        load_heads(classifier)
    (folder / heads.FILE).write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="not valid JSON"):
        load_heads(classifier)


def test_a_text_of_one_piece_and_a_model_without_classifier_are_no_trouble(pretrained_folder):
    found = describe_heads(EmotionClassifier.load(pretrained_folder), {"en": ["a"], "ko": []})
    assert list(found["languages"]) == ["en"]
    assert "importance" not in found["languages"]["en"]
    assert found["languages"]["en"]["strongest"][0][0] == []


def test_no_texts_are_refused(classifier):
    with pytest.raises(ValueError, match="no texts"):
        describe_heads(classifier, {"ko": []})
