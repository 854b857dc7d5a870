import csv
import json
import math
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import bert.classifier
from bert.checkpoint import Checkpoint, untrained
from bert.classifier import EMPTY, EmotionClassifier
from bert.config import BertConfig
from bert.emotions import EMOTIONS, KEYS, display_name
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
    for ask in (classifier, classifier.embed, classifier.inspect, classifier.attentions,
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
        monkeypatch.setattr(bert.predict, "BATCH_TOKENS", budget)
        many = classifier.predict_many(mixed)
        assert [prediction.text for prediction in many] == mixed
        for text, prediction in zip(mixed, many, strict=True):
            alone = classifier(text)
            assert np.abs(prediction.probabilities - alone.probabilities).max() < 1e-5
            assert prediction.encoding == alone.encoding
            assert prediction.attentions is None and prediction.hidden_states is None
    assert classifier.predict_many([]) == []


def test_batches_hold_texts_of_similar_length_and_no_more_than_the_budget(monkeypatch):
    monkeypatch.setattr(bert.predict, "BATCH_TOKENS", 60)
    lengths = [3, 40, 7, 3, 90, 20, 21, 5, 19]
    batches = list(bert.predict._batches_by_length(lengths))
    assert sorted(i for batch in batches for i in batch) == list(range(9))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 60
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
                                   prediction.attentions[layer - 1], atol=1e-6)
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


# ---------------------------------------------------------------------------------- command line


def test_a_text_gives_ten_lines_best_first(call, emotion_folder):
    done = call("predict", "할머니가 너무 보고 싶다", "--checkpoint", emotion_folder)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert (done.code, done.err, len(rows)) == (0, "", 10)
    assert rows[0][0] == "슬픔 Sadness"
    assert {name for name, _ in rows} == {display_name(emotion.key) for emotion in EMOTIONS}
    shares = [float(share.removesuffix("%")) for _, share in rows]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(100, abs=0.6)


def test_a_cut_text_says_so_beside_the_answer(call, emotion_folder):
    done = call("predict", "the door " * 200, "--checkpoint", emotion_folder)
    assert (done.code, done.out.count("\n")) == (0, 10)
    assert done.err == "note: only the first 40 pieces were read\n"


def check_answer(answer: dict, text: str, classifier: EmotionClassifier) -> None:
    prediction = classifier(text)
    assert list(answer) == ["text", "tokens", "truncated", "label", "confident", "probabilities"]
    assert answer["text"] == prediction.text and answer["tokens"] == prediction.tokens
    assert answer["label"] == prediction.label
    assert (answer["truncated"], answer["confident"]) == (
        prediction.truncated, prediction.confident)
    assert list(answer["probabilities"]) == list(KEYS)
    assert max(answer["probabilities"], key=answer["probabilities"].get) == answer["label"]
    for found, expected in zip(answer["probabilities"].values(), prediction.probabilities,
                               strict=True):
        assert found == pytest.approx(float(expected), abs=1e-5)


def test_json_lines_come_in_order_with_an_error_in_the_place_of_a_blank_line(
        call, emotion_folder, classifier, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(bert.predict, "LINES_AT_ONCE", 4)
    given = [texts[0], "", texts[5], "   ", "the " * 100, "say \"hi\" \\ 😀", *texts]
    (tmp_path / "in.txt").write_text("\n".join(given), encoding="utf-8")
    done = call("predict", "--input", tmp_path / "in.txt", "--json", "--checkpoint",
                emotion_folder)
    assert (done.code, done.err) == (0, "")
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert len(answers) == len(given)
    for text, answer in zip(given, answers, strict=True):
        if text.strip():
            check_answer(answer, text, classifier)
        else:
            assert answer == {"text": "", "error": EMPTY}


def test_one_text_can_be_answered_in_json_as_well(call, emotion_folder, classifier):
    done = call("predict", "She left\nand the house", "--json", "--checkpoint", emotion_folder)
    assert done.code == 0 and done.out.count("\n") == 1
    check_answer(json.loads(done.out), "She left and the house", classifier)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n\n\n"])
def test_a_file_without_text_is_not_an_error(call, emotion_folder, tmp_path, content):
    (tmp_path / "in.txt").write_bytes(content)
    done = call("predict", "--input", tmp_path / "in.txt", "--json", "--checkpoint",
                emotion_folder)
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"text": "", "error": EMPTY}] * content.count(b"\n")


def test_marks_of_other_systems_and_broken_bytes_do_no_harm(call, emotion_folder, tmp_path):
    (tmp_path / "in.txt").write_bytes("\ufeff드디어\r\n\r\n".encode() + b"the \xff door\r\n")
    arguments = ("--input", tmp_path / "in.txt", "--checkpoint", emotion_folder)
    done = call("predict", *arguments, "--json")
    texts = [json.loads(line)["text"] for line in done.out.splitlines()]
    assert (done.code, texts) == (0, ["드디어", "", "the \ufffd door"])
    done = call("predict", *arguments)
    assert done.code == 0 and done.out.splitlines()[::11] == ["# 드디어", "# the \ufffd door"]


def test_standard_input_is_read_and_json_is_utf8_whatever_the_terminal_speaks(
        run, emotion_folder, classifier):
    done = run("predict", "--input", "-", "--json", "--checkpoint", emotion_folder,
               stdin=f"{TEXT}\n\nWhat if\n", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err, len(answers)) == (0, "", 3)
    check_answer(answers[0], TEXT, classifier)
    assert answers[1] == {"text": "", "error": EMPTY}


def test_a_reader_that_stops_early_is_no_error(emotion_folder, tmp_path):
    (tmp_path / "in.txt").write_text("the door is empty\n" * 3_000, encoding="utf-8")
    with subprocess.Popen(
            [sys.executable, "-m", "bert", "predict", "--input", tmp_path / "in.txt", "--json",
             "--checkpoint", emotion_folder], cwd=ROOT, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["text"] == "the door is empty"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# ---------------------------------------------------------------------------------- attention files


@pytest.mark.parametrize(("ending", "begins"), [
    (".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")])
def test_a_heatmap_is_saved_in_the_format_of_its_ending(
        call, emotion_folder, tmp_path, ending, begins):
    contents = []
    for name in ("first", "second"):
        path = tmp_path / (name + ending)
        done = call("predict", TEXT, "--attention", 2, 1, "--out", path, "--checkpoint",
                    emotion_folder)
        assert (done.code, done.out, done.err) == (0, f"saved {path}\n", "")
        contents.append(path.read_bytes())
    assert contents[0].startswith(begins)
    assert contents[0] == contents[1]  # same input, same picture


@pytest.mark.parametrize(("layer", "head"), [(1, 1), (1, 2), (2, 1)])
def test_the_numbers_of_a_head_are_exact(call, emotion_folder, classifier, tmp_path, layer, head):
    text = 'say "hi", 마라톤; 😀'
    prediction = classifier(text)
    expected = prediction.attentions[layer - 1, head - 1]
    for name in ("a.csv", "a.npz", "B.NPZ"):
        done = call("predict", text, "--attention", layer, head, "--out", tmp_path / name,
                    "--checkpoint", emotion_folder)
        assert done.code == 0
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        head_row, *rows = csv.reader(file)
    assert head_row[1:] == [row[0] for row in rows] == prediction.tokens
    values = np.array([[np.float32(value) for value in row[1:]] for row in rows])
    assert np.array_equal(values, expected)
    for name in ("a.npz", "B.NPZ"):
        with np.load(tmp_path / name) as arrays:
            assert arrays["tokens"].tolist() == prediction.tokens
            assert np.array_equal(arrays["weights"], expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["B.NPZ", "a.csv", "a.npz"]


def test_attention_needs_no_classifier(call, pretrained_folder, tmp_path):
    done = call("predict", TEXT, "--attention", 1, 1, "--out", tmp_path / "a.csv",
                "--checkpoint", pretrained_folder)
    assert (done.code, done.err) == (0, "") and (tmp_path / "a.csv").is_file()


# ---------------------------------------------------------------------------------- wrong calls

OUT = ("--out", "a.png")
WRONG_CALLS = {
    "nothing at all": ((), "no text: give one, or --input FILE"),
    "text and input": (("text", "--input", "{tmp}/in.txt"), "give a text or --input, not both"),
    "two texts": (("one", "two"), "unrecognized arguments: two"),
    "two lines of texts": (("one", "two\nthree"), "unrecognized arguments: two three"),
    "an unknown flag": (("text", "--loud"), "unrecognized arguments: --loud"),
    "json of nothing": (("--json",), "--json needs a text or --input FILE"),
    "json and attention": (("text", "--json", "--attention", "1", "1", *OUT), "do not go together"),
    "attention without out": (("text", "--attention", "1", "1"), "go together"),
    "out without attention": (("text", *OUT), "go together"),
    "attention without text": (("--attention", "1", "1", *OUT), "--attention needs a text"),
    "attention of a file": (("--input", "{tmp}/in.txt", "--attention", "1", "1", *OUT),
                            "--attention needs a text"),
    "half an attention": (("text", *OUT, "--attention", "1"), "expected 2 arguments"),
    "a head by name": (("text", "--attention", "one", "1", *OUT), "invalid int value: 'one'"),
    "an unknown ending": (("text", "--attention", "1", "1", "--out", "a.gif"),
                          "a.gif ends in .gif: expected one of .png, .svg, .pdf, .csv, .npz"),
    "no ending": (("text", "--attention", "1", "1", "--out", "a"), "ends in nothing"),
    "layer zero": (("text", "--attention", "0", "1", *OUT), "layer 0 does not exist: choose 1 to"),
    "layer three of two": (("text", "--attention", "3", "1", *OUT), "layer 3 does not exist"),
    "head minus one": (("text", "--attention", "1", "-1", *OUT), "head -1 does not exist"),
    "a folder that is not there": (("text", "--attention", "1", "1", "--out", "{tmp}/no/a.csv"),
                                   "No such file"),
    "an empty text": (("",), EMPTY),
    "only spaces": (("  \n ",), EMPTY),
    "nothing to see": (("\u200b",), EMPTY),
    "an input that is not there": (("--input", "{tmp}/gone.txt", "--json"), "gone.txt"),
    "a folder as input": (("--input", "{tmp}", "--json"), "directory"),
    "no such checkpoint": (("text", "--checkpoint", "{tmp}/gone"), "gone is not a folder: exp"),
    "an empty checkpoint": (("text", "--checkpoint", "{tmp}"), "config.json is missing"),
    "a file as checkpoint": (("text", "--checkpoint", "{tmp}/in.txt"), "in.txt is not a folder"),
    "no classifier": (("text", "--checkpoint", "{pretrained}"), "pretrained has no classifier"),
    "no classifier for a file": (("--input", "{tmp}/in.txt", "--checkpoint", "{pretrained}"),
                                 "pretrained has no classifier"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_is_one_line_and_exit_code_two(
        name, call, emotion_folder, pretrained_folder, tmp_path):
    (tmp_path / "in.txt").write_text("\n")
    arguments, part = WRONG_CALLS[name]
    arguments = [argument.format(tmp=tmp_path, pretrained=pretrained_folder)
                 for argument in arguments]
    done = call("predict", "--checkpoint", emotion_folder, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("bert.predict: ") and part in done.err
    assert done.err.count("\n") == 1 and done.err.endswith("\n")


def test_a_wrong_call_of_the_real_command_shows_no_traceback(run, tmp_path):
    done = run("predict", "text", "--checkpoint", tmp_path / "gone")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "gone is not a folder: expected a checkpoint" in done.err


# ---------------------------------------------------------------------------------- on a terminal


# A shell that starts something in the background lets it ignore Ctrl-C; a person's shell does not.
START = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("predict", run_name="__main__", alter_sys=True)
"""


class Terminal:
    """A person at a terminal: types, and reads until the next question."""

    QUESTION = "Your text: "

    def __init__(self, process: subprocess.Popen, handle: int) -> None:
        self.process, self.handle, self.unread = process, handle, b""

    def type(self, keys: bytes) -> None:
        os.write(self.handle, keys)

    def read_until(self, end: str | None) -> str:
        """What was shown up to `end`, or with None up to the end of the program."""
        while end is None or end.encode() not in self.unread:
            assert select.select([self.handle], [], [], 300)[0], "no answer, and not the end either"
            try:
                part = os.read(self.handle, 4_096)
            except OSError:  # Linux says so when the other side has closed
                part = b""
            if not part:
                assert end is None, f"the program ended: {self.unread.decode()}"
                break
            self.unread += part
        shown, _, self.unread = (self.unread.partition(end.encode()) if end is not None
                                 else (self.unread, b"", b""))
        return shown.decode("utf-8", "replace").replace("\r\n", "\n")


@contextmanager
def terminal(folder: Path) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", START, "--checkpoint", str(folder)],
                          cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs,
                          env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


def test_on_a_terminal_it_asks_until_an_empty_line(emotion_folder):
    with terminal(emotion_folder) as person:
        assert person.read_until(person.QUESTION) == ""
        for text, name in (("첫눈이 와서 신나게 뛰어다녔다", "즐거움 Joy"),
                           ("They blamed me for their own mistake", "분노 Anger")):
            person.type(text.encode() + b"\n")
            echo, first, *rest = person.read_until(person.QUESTION).splitlines()
            assert echo == text and first.startswith(name + "\t") and len(rest) == 9
        person.type("\u200b\n".encode())
        assert person.read_until(person.QUESTION).endswith(EMPTY + "\n")
        person.type(b"half a \xed\x95 syllable\n")
        assert len(person.read_until(person.QUESTION).splitlines()) == 11
        person.type(b"\n")
        assert person.read_until(None) == "\n"
        assert person.process.wait() == 0


def test_on_a_terminal_the_end_of_input_ends_it(emotion_folder):
    with terminal(emotion_folder) as person:
        person.read_until(person.QUESTION)
        person.type(b"\x04")
        assert person.read_until(None).strip("^D\b\n") == ""
        assert person.process.wait() == 0


def test_on_a_terminal_an_interrupt_ends_it_without_a_traceback(emotion_folder):
    with terminal(emotion_folder) as person:
        person.read_until(person.QUESTION)
        while person.process.poll() is None:  # one that comes just before the reading is not seen
            person.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                person.process.wait(10)
        assert person.read_until(None).strip() == ""
        assert person.process.wait() == 0
