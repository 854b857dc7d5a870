"""The tuned lens: every layer translated into the last one's language before it is read."""

import shutil

import numpy as np
import pytest
import torch

from bert.classifier import EmotionClassifier
from bert.explain import tuned_lens
from bert.explain.tuned_lens import TunedLens, fit

TEXT = "We laughed all night at the concert"


@pytest.fixture(scope="module")
def many(texts):
    words = " ".join(texts).split()
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(words, rng.integers(2, 8))) for _ in range(200)]


def test_the_lens_reads_every_layer_and_ends_at_the_answer(any_classifier, many):
    lens, _ = fit(any_classifier, many)
    prediction = any_classifier(TEXT)
    shares = lens.read(any_classifier, prediction.hidden_states)
    assert shares.shape == (any_classifier.config.num_hidden_layers + 1, len(any_classifier.keys))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(shares[-1], prediction.probabilities, atol=1e-5)


def test_the_plain_lens_is_pooler_and_classifier_as_they_are(any_classifier):
    states = any_classifier(TEXT).hidden_states                                      # (L + 1, T, E)
    model = any_classifier.model
    with torch.inference_mode():
        every = torch.from_numpy(states[:-1])
        expected = model.classifier(model.bert.pooler(
            model.bert.encoder.final_norm(every), None)).softmax(dim=-1).numpy()
    found = tuned_lens.probabilities(any_classifier, tuned_lens.pooled(any_classifier, states))
    np.testing.assert_allclose(found[:-1], expected, atol=1e-5)
    np.testing.assert_allclose(found[-1], any_classifier(TEXT).probabilities, atol=1e-5)


def test_the_maps_are_the_ridge_regression(any_classifier):
    """Against least squares on rows made longer by the ridge, as textbooks do it."""
    rng = np.random.default_rng(0)
    inputs, outputs = rng.normal(size=(60, 5)), rng.normal(size=(60, 3))
    weight, bias = tuned_lens._ridge(inputs, outputs)
    centred = inputs - inputs.mean(axis=0)
    strength = np.sqrt(tuned_lens.RIDGE * centred.var(axis=0).mean() * len(inputs))
    expected = np.linalg.lstsq(np.vstack([centred, strength * np.eye(5)]),
                               np.vstack([outputs - outputs.mean(axis=0), np.zeros((5, 3))]))[0]
    np.testing.assert_allclose(weight, expected.T, atol=1e-10)
    np.testing.assert_allclose(inputs.mean(axis=0) @ weight.T + bias, outputs.mean(axis=0))


def test_the_tuned_lens_reads_held_out_lines_better_than_the_plain_one(classifier, many):
    _, found = fit(classifier, many)
    assert (found["lines"], found["held_out_lines"]) == (180, 20)
    assert len(found["tuned"]) == len(found["plain"]) == classifier.config.num_hidden_layers + 1
    assert found["tuned"][-1] == found["plain"][-1] == 0.0
    assert found["tuned"][1] < found["plain"][1]


def test_a_lens_survives_the_disk(emotion_folder, many, tmp_path):
    folder = shutil.copytree(emotion_folder, tmp_path / "model")
    classifier = EmotionClassifier.load(folder)
    assert TunedLens.load(classifier) is None
    lens, _ = fit(classifier, many)
    lens.save(folder)
    again = TunedLens.load(classifier)
    states = classifier(TEXT).hidden_states
    np.testing.assert_allclose(again.read(classifier, states), lens.read(classifier, states),
                               atol=5e-3)


def test_a_lens_of_another_model_and_a_broken_file_are_refused(any_classifier, classifier, many,
                                                               tmp_path, emotion_folder):
    folder = shutil.copytree(emotion_folder, tmp_path / "model")
    other = EmotionClassifier.load(folder)
    fit(any_classifier, many[:20])[0].save(folder)
    with pytest.raises(ValueError, match="made for another model"):
        TunedLens.load(other)
    (folder / tuned_lens.FILE).write_bytes(b"no tensors")
    with pytest.raises(ValueError, match="cannot be read"):
        TunedLens.load(other)


def test_too_few_lines_are_refused(classifier):
    with pytest.raises(ValueError, match="3 lines: a lens needs at least 20"):
        fit(classifier, ["joy"] * 3)
