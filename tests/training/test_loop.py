import json
from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from training_fixtures import reports

from bert.checkpoint import untrained
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.errors import UserError
from bert.model import BertForSequenceClassification
from bert.training import loop
from bert.training.loop import (
    LoopConfig,
    Processes,
    Reporter,
    fingerprint,
    fit,
    linear_schedule,
    make_optimizer,
    set_learning_rate,
    train_step,
)

SETTINGS = LoopConfig(learning_rate=0.05, warmup=2, report_every=1, save_minutes=0.0,
                      precision="float32")


@dataclass(frozen=True)
class Points:
    x: torch.Tensor
    num_tokens: int = 4


class Task:
    """Learn to double numbers; batches and dropout differ from step to step."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 3))
        self.steps = 0

    def batches(self, epoch, first):
        for number in count(first):
            generator = torch.Generator().manual_seed(number)
            yield epoch, number, Points(torch.randn(4, 3, generator=generator))

    def losses(self, batch):
        self.steps += 1
        difference = self.model(batch.x) - 2 * batch.x
        return {"loss": (difference.square().sum(), batch.x.numel())}

    def fit(self, run, steps=6, settings=SETTINGS, data="points", losses=None, **options):
        return fit(self.model, losses or self.losses, self.batches, settings, steps, run,
                   Processes(), data=data, **options)


# ---------------------------------------------------------------------------------- optimizer


def test_layers_further_down_learn_slower():
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
                        intermediate_size=32, id2label=KEYS)
    model = untrained(config, BertForSequenceClassification, 0)
    optimizer = make_optimizer(model, 1.0, 0.01, layer_decay=0.5)
    rate_of = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rate_of[id(model.classifier.weight)] == 1.0
    assert rate_of[id(model.bert.encoder.layer[2].attention.qkv.weight)] == 0.5
    assert rate_of[id(model.bert.encoder.layer[0].attention.qkv.weight)] == 0.125
    assert rate_of[id(model.bert.embeddings.word_embeddings.weight)] == 0.0625
    decay_of = {id(p): group["weight_decay"] for group in optimizer.param_groups
                for p in group["params"]}
    assert decay_of[id(model.classifier.weight)] == 0.01
    assert decay_of[id(model.classifier.bias)] == 0.0


def test_what_does_not_learn_is_not_in_the_optimizer():
    model = nn.Linear(2, 2)
    model.bias.requires_grad_(False)
    optimizer = make_optimizer(model, 1.0, 0.01)
    assert [p for group in optimizer.param_groups for p in group["params"]] == [model.weight]


def test_the_learning_rate_climbs_and_falls():
    share = linear_schedule(100, 10)
    assert share(0) == 0.1 and share(9) == 1.0 and share(10) == 1.0
    assert share(55) == pytest.approx(0.5) and share(99) == pytest.approx(1 / 90)
    optimizer = make_optimizer(nn.Linear(2, 2), 0.2, 0.0)
    set_learning_rate(optimizer, 0.5)
    assert {group["lr"] for group in optimizer.param_groups} == {0.1}


def test_a_batch_with_nothing_to_learn_changes_nothing():
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    sums = {"mlm_loss": (model(torch.ones(2)).sum() * 0, 0)}
    train_step(model, make_optimizer(model, 0.1, 0.1), sums, Processes(), clip=1.0)
    assert torch.equal(model.weight, before)


def test_only_means_whose_name_ends_in_loss_are_learned():
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    optimizer = make_optimizer(model, 0.1, 0.0)
    result = train_step(model, optimizer, {"accuracy": (model(torch.ones(2)).sum(), 4)},
                        Processes(), clip=1.0)
    assert torch.equal(model.weight, before) and result["accuracy"][1] == 4
    train_step(model, optimizer, {"loss": (model(torch.ones(2)).sum(), 4)}, Processes(), clip=1.0)
    assert not torch.equal(model.weight, before)


@pytest.mark.parametrize(("settings", "complaint"), [
    ({"batch_tokens": 0}, "--batch-tokens is 0: expected at least 1"),
    ({"learning_rate": 0.0}, "--learning-rate is 0.0: expected more than 0"),
    ({"precision": "int8"}, "--precision is 'int8': expected one of auto, float32, bfloat16")])
def test_settings_that_make_no_sense_are_refused(settings, complaint):
    with pytest.raises(UserError, match=complaint):
        LoopConfig(**settings)


# ---------------------------------------------------------------------------------- resuming


def test_a_run_that_was_cut_off_ends_at_the_very_same_weights(tmp_path):
    whole = Task()
    whole.fit(tmp_path / "whole")

    broken = Task()

    def losses(batch):
        if broken.steps == 4:
            raise KeyboardInterrupt
        return broken.losses(batch)

    with pytest.raises(KeyboardInterrupt):
        broken.fit(tmp_path / "cut", losses=losses)
    resumed = Task()
    progress = resumed.fit(tmp_path / "cut")
    assert resumed.steps == 2 and progress["step"] == 6 and progress["tokens"] == 24
    one, other = (load_file(tmp_path / name / "state.safetensors") for name in ("whole", "cut"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [report["step"] for report in reports(tmp_path / "cut")] == [1, 2, 3, 4, 5, 6]


def test_a_finished_run_learns_nothing_more_and_saves_again(tmp_path):
    saved = []
    Task().fit(tmp_path, save=lambda reporter: saved.append(reporter.steps))
    again = Task()
    again.fit(tmp_path, save=lambda reporter: saved.append("again"))
    assert again.steps == 0 and saved[-1] == "again"


@pytest.mark.parametrize(("change", "complaint"), [
    ({"data": "other points"}, "holds a run with other lines: give another --run-dir"),
    ({"settings": LoopConfig(learning_rate=0.01, precision="float32")},
     r"a run with --learning-rate 0.05, not 0.01"),
    ({"seed": 1}, "a run with another start")])
def test_a_run_goes_on_only_with_what_it_began_with(change, complaint, tmp_path):
    Task().fit(tmp_path, max_steps=1)
    change = dict(change)
    task = Task(change.pop("seed", 0))
    with pytest.raises(UserError, match=complaint):
        task.fit(tmp_path, **change)


def test_reports_and_saves_may_change_between_two_calls(tmp_path):
    Task().fit(tmp_path, max_steps=1)
    other = LoopConfig(learning_rate=0.05, warmup=2, report_every=3, save_minutes=9.0,
                       precision="float32")
    assert Task().fit(tmp_path, settings=other)["step"] == 6


def test_a_saved_run_of_another_shape_is_refused(tmp_path):
    Task().fit(tmp_path, max_steps=1)
    task = Task()
    task.model = nn.Linear(3, 3)
    with pytest.raises(UserError, match="state.safetensors is of a model of another shape"):
        task.fit(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not safetensors at all", None])
def test_a_damaged_state_is_one_sentence(content, tmp_path):
    Task().fit(tmp_path, max_steps=1)
    path = tmp_path / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    with pytest.raises(UserError, match=r"state.safetensors is damaged .*: remove it to begin"):
        Task().fit(tmp_path)


def test_a_disk_that_is_full_loses_nothing(tmp_path, monkeypatch):
    Task().fit(tmp_path, max_steps=2)
    before = (tmp_path / "state.safetensors").read_bytes()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(loop, "save_file", full)
    with pytest.raises(UserError, match="No space left on device.*the last save is untouched"):
        Task().fit(tmp_path)
    assert (tmp_path / "state.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("*.new"))


# ---------------------------------------------------------------------------------- reports


def test_figures_of_a_save_stand_in_its_report_and_are_drawn(tmp_path):
    Task().fit(tmp_path, measure=lambda: {"dev": 0.25})
    last = reports(tmp_path)[-1]
    assert {"step", "epoch", "loss", "tokens_per_second", "dev"} <= set(last)
    assert last["dev"] == 0.25
    assert (tmp_path / "curves.png").stat().st_size > 5_000


def test_a_report_that_was_cut_off_does_not_stop_a_run_from_going_on(tmp_path):
    Task().fit(tmp_path, max_steps=1)
    with (tmp_path / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "lo')
    Task().fit(tmp_path, max_steps=2)
    assert [report["step"] for report in reports(tmp_path)] == [1, 2]


def test_a_long_curve_is_thinned_out_and_keeps_its_end(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": step}) + "\n" for step in range(1, 1_001)))
    curve = Reporter(tmp_path, 0).curve(most=100)
    assert len(curve) <= 101 and curve[0] == {"step": 1} and curve[-1] == {"step": 1_000}


def test_the_same_values_have_the_same_fingerprint():
    assert fingerprint("a", np.arange(3)) == fingerprint("a", np.arange(3))
    assert fingerprint("a", np.arange(3)) != fingerprint("a", np.arange(4))
