from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training_fixtures import EXAMPLES, reports

from bert.checkpoint import load_checkpoint, untrained
from bert.config import BertConfig
from bert.emotions import KEYS, NONE
from bert.errors import UserError
from bert.model import BertForSequenceClassification
from bert.training.examples import (
    Examples,
    LabelledBatch,
    LabelledLine,
    labelled_examples,
    read_labelled,
)
from bert.training.finetuning import (
    Averaged,
    FinetuneConfig,
    batch_losses,
    dev_score,
    finetune,
    fold_temperature,
    logits_of,
    starting_point,
    threshold_of,
)

CPU = torch.device("cpu")
QUICK = FinetuneConfig(epochs=2.0, batch_tokens=128, warmup=2, report_every=1, save_minutes=60.0,
                       precision="float32")
TINY = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                  intermediate_size=32, id2label=KEYS)


def run(settings, start, lines, dev, folder, **options):
    finetune(settings, start, labelled_examples(lines, settings.label_smoothing), dev,
             folder / "run", folder / "out", command="x", **options)


# ---------------------------------------------------------------------------------- learning


def test_labelled_lines_are_learned_and_none_stays_flat(files, small_start, tmp_path):
    lines = read_labelled(files / "train.tsv")
    settings = replace(QUICK, epochs=60.0, learning_rate=3e-3, layer_decay=1.0, dropout=0.0,
                       label_smoothing=0.0, text_noise=0.0, subword=0.0, token_dropout=0.0,
                       average=0.9, report_every=1_000)
    run(settings, small_start, lines, [], tmp_path)  # no dev: nothing is made sharper
    made = load_checkpoint(tmp_path / "out")
    answers = logits_of(made.model, made.tokenizer, [line.text for line in lines])
    right = [KEYS[row.argmax()] == line.label for row, line in zip(answers, lines, strict=True)
             if line.label != NONE]
    assert np.mean(right) >= 0.9
    logits = logits_of(made.model, made.tokenizer, [*EXAMPLES[NONE], *EXAMPLES["joy"]])
    top = torch.from_numpy(logits).softmax(-1).max(-1).values
    assert top[:2].max() < 0.5 * top[2:].min()


def test_a_run_with_dev_lines_is_measured_calibrated_and_has_a_threshold(files, small_start,
                                                                         tmp_path):
    lines = read_labelled(files / "train.tsv")
    run(QUICK, small_start, lines, lines, tmp_path)
    run(QUICK, small_start, lines, [], tmp_path / "without")
    made, plain = (load_checkpoint(folder / "out") for folder in (tmp_path, tmp_path / "without"))
    assert 0.0 <= reports(tmp_path / "run")[-1]["dev"] <= 1.0
    assert "dev" not in reports(tmp_path / "without" / "run")[-1]
    assert made.config.confidence_threshold > plain.config.confidence_threshold == 0.0
    ratio = made.model.classifier.weight / plain.model.classifier.weight
    assert ratio.std() < 0.01 * ratio.mean().abs()
    assert torch.equal(made.model.bert.pooler.dense.weight, plain.model.bert.pooler.dense.weight)


def test_a_heavier_line_pulls_more_and_a_light_batch_takes_a_light_step():
    model = untrained(TINY, BertForSequenceClassification, 0)
    batch = LabelledBatch(np.array([[2, 9, 3], [2, 12, 3]]), np.ones((2, 3), dtype=bool),
                          np.eye(10, dtype=np.float32)[:2], np.array([1.0, 1.0], np.float32))
    each = [batch_losses(model, replace(batch, weights=np.eye(2, dtype=np.float32)[i]), CPU)["loss"]
            for i in range(2)]
    total, lines = batch_losses(model, replace(batch, weights=np.array([3.0, 0.5], np.float32)),
                                CPU)["loss"]
    assert lines == 2
    assert total.item() == pytest.approx(3 * each[0][0].item() + 0.5 * each[1][0].item(), rel=1e-5)


def test_lines_without_a_feeling_do_not_count_as_right_or_wrong():
    model = untrained(TINY, BertForSequenceClassification, 0)
    batch = LabelledBatch(np.array([[2, 9, 3]]), np.ones((1, 3), dtype=bool),
                          np.full((1, 10), 0.1, np.float32), np.ones(1, np.float32))
    assert batch_losses(model, batch, CPU)["accuracy"][1] == 0


def test_a_start_gives_its_network_and_a_new_classifier(small_start):
    model, tokenizer = starting_point(small_start, QUICK)
    start = load_checkpoint(small_start)
    assert tokenizer.digest() == start.tokenizer.digest()
    assert model.config.id2label == KEYS and model.config.hidden_dropout_prob == QUICK.dropout
    for name, value in start.model.bert.state_dict().items():
        assert torch.equal(model.bert.state_dict()[name], value), name


def test_a_line_may_be_longer_than_the_model_reads(small_start, tmp_path):
    lines = [LabelledLine("joy", "en", "easy", "", "so happy today " * 40)]
    run(replace(QUICK, longest=64), small_start, lines, lines, tmp_path, max_steps=1)
    assert load_checkpoint(tmp_path / "out").has_classifier


# ---------------------------------------------------------------------------------- the average


def test_the_moving_average_follows_its_formula():
    model = untrained(TINY, BertForSequenceClassification, 0)
    both = Averaged(model, decay=0.9)
    seen = []
    for step in range(4):
        with torch.no_grad():
            model.classifier.weight += step + 1.0
        seen.append(model.classifier.weight.detach().clone())
        both.update()
    expected = seen[0]  # the first update is a copy
    for value in seen[1:]:
        expected = 0.9 * expected + 0.1 * value
    torch.testing.assert_close(both.averaged.classifier.weight, expected)
    assert not any(weight.requires_grad for weight in both.averaged.parameters())
    assert all(weight.requires_grad for weight in model.parameters())


def test_what_is_saved_is_the_average(files, small_start, tmp_path):
    settings = replace(QUICK, average=0.5, learning_rate=3e-3)
    run(settings, small_start, read_labelled(files / "train.tsv"), [], tmp_path)
    state = load_file(tmp_path / "run" / "state.safetensors")
    saved = load_checkpoint(tmp_path / "out").model.state_dict()
    for name, value in saved.items():
        average = state[f"model.average.module.{name}"]
        assert torch.equal(value, average.half().float()), name
    assert not torch.equal(state["model.average.module.classifier.weight"],
                           state["model.model.classifier.weight"])


def test_a_run_that_was_stopped_goes_on_with_the_same_average(files, small_start, tmp_path):
    lines = read_labelled(files / "train.tsv")
    run(QUICK, small_start, lines, lines, tmp_path / "whole")
    for steps in (1, 3, None):
        run(QUICK, small_start, lines, lines, tmp_path / "parts", max_steps=steps)
    whole, parts = (load_file(tmp_path / name / "out" / "model.safetensors")
                    for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


# ---------------------------------------------------------------------------------- dev


def test_the_dev_score_weighs_languages_and_levels_alike():
    lines = [LabelledLine("joy", "ko", "easy", "", "x")] * 8 + [
        LabelledLine("anger", "en", "hard", "", "x"), LabelledLine(NONE, "en", "easy", "", "x")]
    logits = np.tile(np.eye(10)[KEYS.index("joy")], (10, 1))
    assert dev_score(logits, lines) == 0.5


def test_the_temperature_is_folded_into_the_classifier():
    model = untrained(TINY, BertForSequenceClassification, 0)
    lines = [LabelledLine(key, "ko", "easy", "", "x") for key in KEYS] * 3
    truth = np.tile(np.arange(10), 3)
    logits = np.eye(10, dtype=np.float32)[(truth + (np.arange(30) < 9)) % 10] * 20
    weight = model.classifier.weight.clone()
    returned = fold_temperature(model, logits, lines)
    temperature = (weight / model.classifier.weight).mean().item()
    assert returned == pytest.approx(temperature, rel=1e-4)
    sure = np.exp(20 / temperature) / (np.exp(20 / temperature) + 9)
    assert sure == pytest.approx(0.7, abs=0.01)  # right 21 times of 30


def test_the_threshold_tells_lines_with_a_feeling_from_those_without():
    lines = [LabelledLine("joy", "ko", "easy", "", "x")] * 20 + [
        LabelledLine(NONE, "ko", "easy", "", "x")] * 20
    logits = np.zeros((40, 10))
    logits[:20, 5] = np.linspace(3.0, 6.0, 20)
    top = np.exp(logits).max(axis=1) / np.exp(logits).sum(axis=1)
    threshold = threshold_of(logits, lines, keep=0.94)
    assert top[20:].max() < threshold and (top[:20] >= threshold).mean() >= 0.94


def test_many_logits_come_in_order(small_start, page_tokenizer):
    model, _ = starting_point(small_start, QUICK)
    texts = [text for pair in EXAMPLES.values() for text in pair] + ["so happy today " * 40]
    together = logits_of(model, page_tokenizer, texts, batch_tokens=64)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(logits_of(model, page_tokenizer, [text])[0], row, atol=1e-5)


# ---------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(("settings", "complaint"), [
    ({"epochs": 0.0}, "--epochs is 0.0: expected more than 0"),
    ({"longest": 2}, "--longest is 2: expected at least 3"),
    ({"label_smoothing": 1.5}, "--label-smoothing is 1.5: expected a share from 0 to 1"),
    ({"average": -0.1}, "--average is -0.1"), ({"text_noise": 2.0}, "--text-noise is 2.0")])
def test_settings_that_make_no_sense_are_refused(settings, complaint):
    with pytest.raises(UserError, match=complaint):
        FinetuneConfig(**settings)


def test_half_an_epoch_is_half_of_the_steps(files, small_start, tmp_path):
    examples = labelled_examples(read_labelled(files / "train.tsv"))
    for epochs in (1.0, 1.5):
        finetune(replace(QUICK, epochs=epochs), small_start,
                 Examples.joined([examples] * 4), [], tmp_path / str(epochs),
                 tmp_path / "out", command="x")
    one, more = (reports(tmp_path / name)[-1]["step"] for name in ("1.0", "1.5"))
    assert more == int(1.5 * one)
