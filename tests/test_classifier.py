import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bert.fast
from bert.checkpoint import Checkpoint, untrained
from bert.classifier import EMPTY, EmotionClassifier
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.model import BertForSequenceClassification
from bert.tokenizer import WordPieceTokenizer

ROOT = Path(__file__).parent.parent
TEXT = "드디어 마라톤을 완주했다 😀"


def unsaved(config: BertConfig, tokenizer: WordPieceTokenizer) -> EmotionClassifier:
    """A classifier of random weights that was never on disk."""
    model = untrained(replace(config, initializer_range=0.2), BertForSequenceClassification)
    return EmotionClassifier(Checkpoint(Path("nowhere"), model.config, tokenizer, model, ()))


# ---------------------------------------------------------------------------------- one text


def test_the_tiny_model_knows_its_lines(classifier, lines):
    for key, group in lines.items():
        for text in group:
            prediction = classifier(text)
            assert prediction.label == key and prediction.confident


def test_a_prediction_is_numpy_with_everything_the_model_looked_at(classifier):
    prediction = classifier(TEXT)
    length = len(prediction.tokens)
    assert prediction.keys == KEYS and prediction.probabilities.shape == (10,)
    assert prediction.probabilities.sum() == pytest.approx(1.0, abs=1e-5)
    assert prediction.attentions.shape == (2, 2, length, length)
    assert prediction.hidden_states.shape == (3, length, 32)
    for value in (prediction.probabilities, prediction.attentions, prediction.hidden_states):
        assert type(value) is np.ndarray and value.dtype == np.float32
    assert prediction.text == TEXT and not prediction.truncated


def test_classes_are_ranked_best_first(classifier):
    ranked = classifier(TEXT).ranked()
    assert sorted(key for key, _ in ranked) == sorted(KEYS)
    values = [probability for _, probability in ranked]
    assert values == sorted(values, reverse=True) and ranked[0][0] == "achievement"


def test_below_the_threshold_the_model_is_not_confident(classifier):
    probability = float(classifier(TEXT).probabilities.max())
    for threshold, confident in ((probability - 0.01, True), (probability + 0.01, False)):
        config = replace(classifier.config, confidence_threshold=threshold)
        other = EmotionClassifier(replace(classifier.checkpoint, config=config))
        assert other(TEXT).confident is confident
        assert other.predict_many([TEXT])[0].confident is confident


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u200b\u200d", "\x00\x07"])
def test_empty_text_is_refused_with_one_sentence(classifier, text):
    for ask in (classifier, classifier.embed, classifier.run_with_cache, classifier.attentions,
                lambda text: classifier.predict_many(["fine", text])):
        with pytest.raises(ValueError, match=f"^{re.escape(EMPTY)}$"):
            ask(text)


def test_very_long_text_is_cut_at_the_limit_of_the_model_and_says_so(classifier):
    prediction = classifier("드디어 마라톤을 완주했다 " * 10_000)
    assert prediction.truncated and len(prediction.tokens) == 40
    assert prediction.tokens[-1] == "[SEP]" and prediction.to_dict()["truncated"] is True


def test_the_same_text_in_either_unicode_form_gives_the_same_answer(classifier):
    import unicodedata

    apart = classifier(unicodedata.normalize("NFD", TEXT))
    assert (apart.probabilities == classifier(TEXT).probabilities).all() and apart.text == TEXT


# ---------------------------------------------------------------------------------- many texts


def test_the_batch_form_equals_the_single_form(classifier, texts, monkeypatch):
    mixed = [*texts, "i", "the " * 100, "😀", *reversed(texts), "그리고 " * 12]
    for budget in (1, 50, 4_096):
        monkeypatch.setattr(bert.fast, "BATCH_TOKENS", budget)
        many = classifier.predict_many(mixed)
        assert [prediction.text for prediction in many] == mixed
        for text, prediction in zip(mixed, many, strict=True):
            alone = classifier(text)
            assert np.abs(prediction.probabilities - alone.probabilities).max() < 1e-5
            assert prediction.encoding == alone.encoding
            assert prediction.attentions is None and prediction.hidden_states is None
    assert classifier.predict_many([]) == []


def test_batches_hold_texts_of_similar_length_and_no_more_than_the_budget(monkeypatch):
    monkeypatch.setattr(bert.fast, "BATCH_TOKENS", 60)
    lengths = [3, 40, 7, 3, 90, 20, 21, 5, 19]
    batches = bert.fast.batches(lengths)
    assert sorted(i for batch in batches for i in batch) == list(range(9))
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[i] for i in batch) <= 60
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(lengths)


# ---------------------------------------------------------------------------------- looking inside


class Formula:
    """BERT in numpy, from the weights alone, to compare each recorded step with."""

    def __init__(self, classifier: EmotionClassifier) -> None:
        self.config = classifier.config
        self.weights = {name: value.double().numpy()
                        for name, value in classifier.model.state_dict().items()}

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt(x.var(-1, keepdims=True) + self.config.layer_norm_eps)
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"]

    def steps(self, ids: list[int], segment_ids: list[int],
              heads_off: tuple[tuple[int, int], ...] = ()) -> Iterator[tuple[str, np.ndarray]]:
        words = "bert.embeddings."
        token = self.weights[words + "word_embeddings.weight"][ids]
        segment = self.weights[words + "token_type_embeddings.weight"][segment_ids]
        position = self.weights[words + "position_embeddings.weight"][:len(ids)]
        yield "token vectors", token
        yield "segment vectors", segment
        yield "position vectors", position
        yield "sum", token + segment + position
        x = self.norm(words + "LayerNorm", token + segment + position)
        yield "LayerNorm", x
        for number in range(1, self.config.num_hidden_layers + 1):
            for name, value in self.layer(number, x, heads_off):
                yield f"layer {number} · {name}", value
            x = value
        pooled = np.tanh(self.linear("bert.pooler.dense", x[0]))
        logits = self.linear("classifier", pooled)
        yield "pooled", pooled
        yield "logits", logits
        yield "probabilities", np.exp(logits) / np.exp(logits).sum()

    def layer(self, number: int, x: np.ndarray,
              heads_off: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, np.ndarray]]:
        name, heads = f"bert.encoder.layer.{number - 1}.", self.config.num_attention_heads
        query, key, value = (np.stack(np.split(part, heads, axis=1)) for part in
                             np.split(self.linear(name + "attention.qkv", x), 3, axis=1))
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        attention = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        context = attention @ value
        for _, head in (pair for pair in heads_off if pair[0] == number):
            context[head - 1] = 0.0
        yield from (("query", query), ("key", key), ("value", value), ("scores", scores),
                    ("attention", attention), ("context", context))
        output = self.linear(name + "attention.output", np.concatenate(context, axis=1))
        yield "attention output", output
        yield "attention residual", x + output
        x = self.norm(name + "attention_norm", x + output)
        yield "attention LayerNorm", x
        inner = self.linear(name + "feed_forward.intermediate", x)
        inner = inner * 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        yield "feed-forward activations", inner
        output = self.linear(name + "feed_forward.output", inner)
        yield "feed-forward output", output
        yield "feed-forward residual", x + output
        yield "feed-forward LayerNorm", self.norm(name + "output_norm", x + output)


@pytest.mark.parametrize(("pair", "heads_off"), [
    (None, ()), ("What if the money runs out", ()), (None, ((1, 2),)), (None, ((1, 1), (2, 2)))])
def test_every_recorded_tensor_is_that_of_an_independent_formula(classifier, pair, heads_off):
    inspection = classifier.run_with_cache(TEXT, pair, heads_off)
    encoding = inspection.encoding
    expected = list(Formula(classifier).steps(encoding.ids, encoding.segment_ids, heads_off))
    assert [step.name for step in inspection.steps] == [name for name, _ in expected]
    for step, (name, value) in zip(inspection.steps, expected, strict=True):
        assert step.value.shape == (1, *value.shape), name
        np.testing.assert_allclose(step.value[0], value, atol=2e-5, err_msg=name)


def test_an_inspection_agrees_with_the_prediction(classifier):
    inspection, prediction = classifier.run_with_cache(TEXT), classifier(TEXT)
    assert inspection.encoding == prediction.encoding
    for layer in (1, 2):
        np.testing.assert_allclose(inspection.value("attention", layer)[0],
                                   prediction.attentions[layer - 1], atol=1e-5)
        np.testing.assert_allclose(inspection.value("feed-forward LayerNorm", layer)[0],
                                   prediction.hidden_states[layer], atol=1e-5)
    np.testing.assert_allclose(inspection.value("LayerNorm")[0], prediction.hidden_states[0],
                               atol=1e-5)
    np.testing.assert_allclose(inspection.value("probabilities")[0], prediction.probabilities,
                               atol=1e-6)
    with pytest.raises(KeyError, match="no step 'layer 3 · query'"):
        inspection.value("query", 3)


def test_the_steps_tell_the_shapes_they_came_from(classifier):
    shown = {step.name: str(step) for step in classifier.run_with_cache("finally fixed").steps}
    length = len(classifier.encode("finally fixed").ids)
    wide, heads = f"(1, {length}, 32)", f"(1, 2, {length}, 16)"
    square = f"(1, 2, {length}, {length})"
    for name, text in {
            "token vectors": f"(1, {length}) → {wide}",
            "position vectors": f"(1, {length}) → {wide}", "sum": f"{wide} → {wide}",
            "layer 1 · query": f"{wide} → {heads}", "layer 2 · value": f"{wide} → {heads}",
            "layer 1 · scores": f"{heads} → {square}",
            "layer 2 · attention": f"{square} → {square}",
            "layer 1 · context": f"{square} → {heads}",
            "layer 1 · attention output": f"{heads} → {wide}",
            "layer 2 · feed-forward activations": f"{wide} → (1, {length}, 64)",
            "layer 2 · feed-forward output": f"(1, {length}, 64) → {wide}",
            "pooled": f"{wide} → (1, 32)", "logits": "(1, 32) → (1, 10)",
            "probabilities": "(1, 10) → (1, 10)"}.items():
        assert shown[name] == f"{name}: {text}"


@pytest.mark.parametrize("change", [{"norm": "pre"}, {"positions": "sinusoidal"}])
def test_other_kinds_of_network_can_be_inspected_too(change, tiny_config, tokenizer):
    classifier = unsaved(replace(tiny_config, **change), tokenizer)
    inspection = classifier.run_with_cache(TEXT)
    np.testing.assert_allclose(inspection.value("probabilities")[0],
                               classifier(TEXT).probabilities, atol=1e-6)
    wide = (1, len(inspection.encoding.ids), 32)
    query = next(step for step in inspection.steps if step.name == "layer 2 · query")
    assert query.made_from == wide
    assert ("final LayerNorm" in [step.name for step in inspection.steps]) == ("norm" in change)


def test_a_folder_without_a_classifier_can_be_inspected(pretrained_folder):
    inspection = EmotionClassifier.load(pretrained_folder).run_with_cache(TEXT)
    assert inspection.steps[-1].name == "pooled"


def test_a_head_that_is_off_is_a_zero_slice_of_the_projections_input(tiny_config, tokenizer):
    classifier = unsaved(tiny_config, tokenizer)
    before = classifier.run_with_cache(TEXT)
    off = classifier.run_with_cache(TEXT, heads_off=[(2, 1)])
    with torch.no_grad():
        classifier.model.bert.encoder.layer[1].attention.output.weight[:, :16] = 0.0
    zeroed = classifier.run_with_cache(TEXT)
    for name in ("attention output", "feed-forward LayerNorm"):
        np.testing.assert_allclose(off.value(name, 2), zeroed.value(name, 2), atol=1e-6)
        assert np.abs(off.value(name, 2) - before.value(name, 2)).max() > 1e-3
    assert np.array_equal(off.value("attention", 2), before.value("attention", 2))
    np.testing.assert_allclose(off.value("probabilities"), zeroed.value("probabilities"), atol=1e-6)


def test_switching_a_head_off_lasts_for_one_call(classifier):
    before = classifier(TEXT).probabilities
    classifier.run_with_cache(TEXT, heads_off=[(1, 1), (1, 2), (2, 1), (2, 2)])
    assert (classifier(TEXT).probabilities == before).all()


@pytest.mark.parametrize(("layer", "head", "complaint"), [
    (0, 1, "layer 0 does not exist: choose 1 to 2"), (3, 1, "layer 3 does not exist"),
    (1, 0, "head 0 does not exist: choose 1 to 2"), (2, 3, "head 3 does not exist")])
def test_heads_that_do_not_exist_are_refused(classifier, layer, head, complaint):
    with pytest.raises(ValueError, match=complaint):
        classifier.run_with_cache(TEXT, heads_off=[(layer, head)])


def test_what_is_not_asked_for_is_not_kept(classifier, monkeypatch):
    """An ordinary run tells nothing to anybody, and one without weights builds no matrix."""
    monkeypatch.setattr(bert.model, "attention_weights", None)
    classifier.predict_many([TEXT])
    assert vars(classifier).keys() == {"checkpoint", "config", "tokenizer", "model", "fast"}


# ---------------------------------------------------------------------------------- embeddings


def test_token_vectors_come_from_any_layer_or_combination(tiny_config, tokenizer):
    classifier = unsaved(replace(tiny_config, num_hidden_layers=5), tokenizer)
    states = classifier(TEXT).hidden_states
    assert np.array_equal(classifier.embed(TEXT), states[5])
    for layer in range(6):
        assert np.array_equal(classifier.embed(TEXT, layer), states[layer])
    np.testing.assert_allclose(classifier.embed(TEXT, "sum4"),
                               states[2] + states[3] + states[4] + states[5], atol=1e-5)
    assert np.array_equal(classifier.embed(TEXT, "concat4"),
                          np.concatenate([states[2], states[3], states[4], states[5]], axis=1))


def test_token_vectors_depend_on_the_words_around(classifier):
    first, second = classifier.embed("the door"), classifier.embed("the money runs out")
    assert classifier.encode("the door").pieces[1] == classifier.encode("the money").pieces[1]
    assert np.abs(first[1] - second[1]).max() > 1e-3
    assert np.array_equal(classifier.embed("the door", 0)[1], classifier.embed("the money", 0)[1])


@pytest.mark.parametrize("layers", [-1, 3, "first", 1.5, None])
def test_layers_that_do_not_exist_are_refused(classifier, layers):
    with pytest.raises(ValueError, match="layers is .*: choose 0 to 2 or one of last, sum4, conc"):
        classifier.embed(TEXT, layers)


@pytest.mark.parametrize("layers", ["sum4", "concat4"])
def test_four_layers_cannot_be_taken_from_two(classifier, layers):
    with pytest.raises(ValueError, match=f"layers is '{layers}': this model has only 2 layers"):
        classifier.embed(TEXT, layers)
