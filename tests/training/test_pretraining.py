from dataclasses import replace

import numpy as np
import pytest
import torch
from training_fixtures import read_json

from bert.checkpoint import load_checkpoint, untrained
from bert.errors import UserError
from bert.model import BertForPreTraining
from bert.training.corpus import TokenCorpus
from bert.training.distillation import SentenceVectors
from bert.training.loop import Processes, make_optimizer, train_step
from bert.training.masking import IGNORED, PretrainData
from bert.training.pretraining import (
    HELD_OUT_SEED,
    PretrainConfig,
    Stage,
    Student,
    batch_losses,
    grown,
    measure_held_out,
    pretrain,
    stage_schedule,
)

CPU = torch.device("cpu")


@pytest.fixture
def config(corpus_tokenizer, small_config):
    return replace(small_config, vocab_size=len(corpus_tokenizer), max_position_embeddings=64)


# ---------------------------------------------------------------------------------- learning


def test_one_batch_can_be_memorised_by_both_tasks(corpus, corpus_tokenizer, config):
    data = PretrainData(corpus, corpus_tokenizer, 24, 256, 0.15, seed=0)
    batch = max((data.batch(0, i) for i in range(len(data.planned(0)))),
                key=lambda batch: ({0, 1} <= set(batch.nsp_targets), len(batch.ids)))
    assert set(batch.nsp_targets) >= {0, 1}
    student = Student(untrained(config, BertForPreTraining, 0))
    optimizer = make_optimizer(student, 5e-3, 0.0)
    for _ in range(150):
        result = train_step(student, optimizer, batch_losses(student, batch, CPU), Processes(),
                            clip=1.0)
    for name in ("mlm_accuracy", "nsp_accuracy"):
        assert result[name][0] == result[name][1] > 0, name


def test_the_next_sentence_head_learns_from_both_labels(corpus, corpus_tokenizer, config):
    data = PretrainData(corpus, corpus_tokenizer, 24, 512, 0.15, seed=0)
    student = Student(untrained(config, BertForPreTraining, 0))
    for label in (0, 1):
        numbers = range(len(data.planned(0)))
        batch = next(batch for batch in (data.batch(0, i) for i in numbers)
                     if label in batch.nsp_targets)
        only = replace(batch, nsp_targets=np.where(batch.nsp_targets == label, label, IGNORED))
        total, pairs = batch_losses(student, only, CPU)["nsp_loss"]
        student.zero_grad()
        total.backward()
        gradient = student.model.nsp.bias.grad
        assert pairs == (only.nsp_targets == label).sum()
        assert gradient[label] < 0 < gradient[1 - label]


def test_lines_without_a_vector_cost_nothing_and_have_every_loss(corpus, corpus_tokenizer, config):
    batch = PretrainData(corpus, corpus_tokenizer, 24, 256, 0.15, seed=0).batch(0, 0)
    batch = replace(batch, vectors=np.zeros((len(batch.ids), 6), dtype=np.float32))
    sums = batch_losses(Student(untrained(config, BertForPreTraining), 6), batch, CPU)
    for name in ("pooled_loss", "mean_loss", "contrast_loss"):
        total, count = sums[name]
        assert total.item() == 0.0 and count == 0


# ---------------------------------------------------------------------------------- growing


def test_a_grown_network_is_the_layers_over_and_over(config):
    model = untrained(config, BertForPreTraining, 3)
    deeper = grown(model, 5, seed=0)
    old, new = model.state_dict(), deeper.state_dict()
    assert deeper.config == replace(config, num_hidden_layers=5)
    for name, value in new.items():
        before, is_layer, after = name.partition(".layer.")
        if is_layer:
            number, _, part = after.partition(".")
            name = f"{before}.layer.{int(number) % 2}.{part}"
        assert torch.equal(value, old[name]), name
    assert {name for name in old if ".layer." not in name} <= set(new)


def test_growing_leaves_the_smaller_network_as_it_was(config):
    model = untrained(config, BertForPreTraining, 3)
    deeper = grown(model, 4, seed=0)
    with torch.no_grad():
        deeper.bert.encoder.layer[0].attention.qkv.weight.zero_()
    assert model.bert.encoder.layer[0].attention.qkv.weight.any()
    assert deeper.bert.encoder.layer[2].attention.qkv.weight.any()


# ---------------------------------------------------------------------------------- stages


def test_stages_are_read_from_one_setting():
    plan = PretrainConfig(stages="3:60:64:2e-3 6:0.5:64:1e-3,12:20:128:5e-4").plan
    assert plan == [Stage(3, 60_000_000, 64, 2e-3), Stage(6, 500_000, 64, 1e-3),
                    Stage(12, 20_000_000, 128, 5e-4)]


@pytest.mark.parametrize(("stages", "complaint"), [
    ("3:60:64", "'3:60:64' is not LAYERS:MILLION_TOKENS:LENGTH:LEARNING_RATE"),
    ("a:b:c:d", "'a:b:c:d' is not LAYERS"),
    ("3:inf:64:1e-3", "'3:inf:64:1e-3' is not"), ("3:nan:64:1e-3", "'3:nan:64:1e-3' is not"),
    ("0:60:64:1e-3", "too few layers, tokens or pieces"), ("3:0:64:1e-3", "too few"),
    ("3:60:7:1e-3", "too few"), ("3:60:64:0", "no learning rate"), ("3:60:64:nan", "no learning"),
    ("", "--stages is empty"), (" , ", "--stages is empty")])
def test_stages_that_are_none_are_refused(stages, complaint):
    with pytest.raises(UserError, match=complaint):
        PretrainConfig(stages=stages)


def test_stages_must_end_in_the_network(config):
    with pytest.raises(UserError, match="the last stage has 4 layers, the network 2: make them"):
        PretrainConfig(stages="2:1:24:1e-3 4:1:24:1e-3").plan_for(config)
    with pytest.raises(UserError, match="longer sequences than --max-position-embeddings 64"):
        PretrainConfig(stages="2:1:65:1e-3").plan_for(config)


def test_the_learning_rate_climbs_in_every_stage_holds_and_falls_to_zero_at_the_end():
    settings = PretrainConfig(stages="1:0.1:24:1e-3 2:0.1:24:5e-4", warmup=10, decay=0.25)
    first, last = (stage_schedule(settings.plan, number, settings, 1_000) for number in (0, 1))
    assert [first(step) for step in (0, 4, 9, 50, 99)] == [0.1, 0.5, 1.0, 1.0, 1.0]
    assert [last(step) for step in (0, 4, 9, 49, 50)] == [0.1, 0.5, 1.0, 1.0, 1.0]
    assert [last(step) for step in (75, 99, 100, 101)] == pytest.approx([0.5, 0.02, 0.0, 0.0])
    shares = [last(step) for step in range(50, 101)]
    assert shares == sorted(shares, reverse=True)


def test_the_fall_may_begin_before_the_last_stage():
    settings = PretrainConfig(stages="1:0.1:24:1e-3 2:0.1:24:5e-4", warmup=1, decay=0.75)
    first, last = (stage_schedule(settings.plan, number, settings, 1_000) for number in (0, 1))
    assert first(50) == 1.0 and first(99) == pytest.approx(101 / 150)
    assert last(0) == pytest.approx(100 / 150)


def test_without_a_fall_the_learning_rate_holds():
    settings = PretrainConfig(stages="1:0.1:24:1e-3", warmup=1, decay=0.0)
    assert stage_schedule(settings.plan, 0, settings, 1_000)(100) == 1.0


# ---------------------------------------------------------------------------------- measuring


def test_held_out_figures_agree_with_a_count_by_hand(sentences, corpus_tokenizer, config, tmp_path):
    paths = [tmp_path / f"{name}_docs.txt" for name in ("ko_talk", "en_tale", "en_imdb")]
    for number, path in enumerate(paths):
        path.write_text("\n\n".join("\n".join(d) for d in sentences[number::3]), encoding="utf-8")
    corpus, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, paths)
    model = untrained(replace(config, initializer_range=0.2), BertForPreTraining, 0).train()
    found = measure_held_out(model, corpus, corpus_tokenizer)
    assert model.training
    model.eval()

    data = PretrainData(corpus, corpus_tokenizer, 64, 8_192, 0.15, HELD_OUT_SEED)
    masked, right, pairs, pairs_right = np.zeros((4, 3))
    surprise = 0.0
    for number in range(len(data.planned(0))):
        batch = data.batch(0, number)
        for row, source in enumerate(batch.sources):
            length = batch.attention_mask[row].sum()
            with torch.inference_mode():
                output = model(torch.from_numpy(batch.ids[row:row + 1, :length]),
                               torch.from_numpy(batch.segment_ids[row:row + 1, :length]))
            for place in np.flatnonzero(batch.is_masked[row]):
                truth = batch.mlm_targets[row, place]
                scores = output.mlm_logits[0, place]
                masked[source] += 1
                right[source] += int(scores.argmax()) == truth
                surprise -= float(scores.log_softmax(-1)[truth])
            if batch.nsp_targets[row] != IGNORED:
                pairs[source] += 1
                pairs_right[source] += int(output.nsp_logits.argmax()) == batch.nsp_targets[row]
    for number, name in enumerate(corpus.sources):
        assert found["sources"][name] == {
            "masked": masked[number], "masked_right": pytest.approx(right[number] / masked[number]),
            "pairs": pairs[number],
            "next_sentence_right": pytest.approx(pairs_right[number] / pairs[number])}
    assert found["languages"] == {
        "ko": {"masked": masked[0], "masked_right": pytest.approx(right[0] / masked[0])},
        "en": {"masked": masked[1:].sum(),
               "masked_right": pytest.approx(right[1:].sum() / masked[1:].sum())}}
    assert found["mlm_loss"] == pytest.approx(surprise / masked.sum(), rel=1e-4)
    # Film reviews hardly follow each other: they are not in the mean.
    assert found["next_sentence_right"] == pytest.approx((pairs_right / pairs)[:2].mean())


def test_lines_alone_have_no_next_sentence_figure(corpus_tokenizer, config, tmp_path):
    path = tmp_path / "en_x_lines.txt"
    path.write_text("sun and moon\nalone in the rain\n", encoding="utf-8")
    corpus, _ = TokenCorpus.prepare(tmp_path / "tokens", corpus_tokenizer, [path])
    found = measure_held_out(untrained(config, BertForPreTraining), corpus, corpus_tokenizer)
    assert found["next_sentence_right"] is None
    assert found["sources"]["en_x_lines"]["next_sentence_right"] is None
    assert set(found["languages"]) == {"en"}


# ---------------------------------------------------------------------------------- the run


def test_a_student_comes_closer_to_its_teacher_beside_both_tasks(files, page_tokenizer,
                                                                 small_config, tmp_path):
    corpus, _ = TokenCorpus.prepare(tmp_path / "tokens", page_tokenizer,
                                    [files / "page_docs.txt", files / "page_lines.txt"])
    marks = np.unique(corpus.marks)
    rows = np.random.default_rng(0).normal(size=(len(marks), 6))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    settings = PretrainConfig(stages="1:0.003:24:5e-3 2:0.03:24:5e-3", batch_tokens=512, warmup=2,
                              report_every=1, save_minutes=60.0, precision="float32")
    pretrain(small_config, settings, corpus, corpus, page_tokenizer, tmp_path, tmp_path / "out",
             Processes(), command="x", vectors=SentenceVectors(marks, rows))
    made = load_checkpoint(tmp_path / "out")
    assert made.has_mlm and made.has_nsp and made.config == small_config
    assert "vector" not in " ".join(made.model.state_dict())
    curve = read_json(tmp_path / "out" / "metrics.json")["curves"]["pretrain"]
    assert [report["stage"] for report in curve] == [1] * 6 + [2] * 59
    assert [report["step"] for report in curve] == list(range(1, 66))
    for name, share in (("pooled_loss", 0.6), ("mean_loss", 0.6), ("mlm_loss", 0.85)):
        values = [report[name] for report in curve if name in report]
        assert np.mean(values[-5:]) < share * np.mean(values[:5]), name
    assert {"held_out_loss", "held_out_nsp"} <= set(curve[-1])
