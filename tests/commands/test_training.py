"""The training commands as people run them: real calls, real kills, real processes."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from training_fixtures import EXAMPLES, LABELLED, read_json, reports

from bert.checkpoint import load_checkpoint, save_checkpoint, untrained
from bert.model import BertForPreTraining, BertModel
from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import text_mark

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
               "GLOO_SOCKET_IFNAME": "lo"}
COMMAND = [sys.executable, "-m", "bert", "pretrain"]


def in_a_process(*command: str) -> None:
    subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True)


# ---------------------------------------------------------------------------------- tokenizer


def test_a_vocabulary_is_learned_from_groups_that_have_an_equal_say(call, tmp_path):
    (tmp_path / "ko.txt").write_text("오늘도 좋은 하루\n" * 3, encoding="utf-8")
    (tmp_path / "en.txt").write_text("what a good day\n" * 3_000, encoding="utf-8")
    done = call("train_tokenizer", "--text", tmp_path / "ko.txt", "--text", tmp_path / "en.txt",
                "--vocab-size", 120, "--megabytes", 0.001, "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "") and "pieces -> " in done.out
    tokenizer = WordPieceTokenizer.load(tmp_path / "out" / "tokenizer.json")
    assert tokenizer.encode("좋은 day").pieces == ["[CLS]", "좋은", "day", "[SEP]"]


# ---------------------------------------------------------------------------------- pre-training


def test_a_run_goes_on_with_the_network_of_an_earlier_one(call, pretrain_call, small_start,
                                                          tmp_path):
    """With hardly any learning rate, the new weights are the old ones."""
    still = pretrain_call(tmp_path / "run", 1, stages="2:0.000128:24:1e-9", weight_decay=0,
                          start_from=small_start)
    assert call("pretrain", *still).code == 0
    old, new = (load_file(folder / "model.safetensors")
                for folder in (small_start, tmp_path / "run" / "out"))
    for name, value in old.items():
        torch.testing.assert_close(new[name].float(), value.float(), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("changes", "complaint"), [
    ({"stages": "1:0.000128:24:1e-3 2:0.000128:24:1e-3"}, "a pre-trained checkpoint of 1 layers"),
    ({"intermediate_size": 16}, "does not hold the network of the first stage")])
def test_a_run_does_not_go_on_with_another_network(call, pretrain_call, small_start, tmp_path,
                                                   changes, complaint):
    done = call("pretrain", *pretrain_call(tmp_path, 1, start_from=small_start, **changes))
    assert done.code == 2 and complaint in done.err and done.err.count("\n") == 1


def test_a_run_does_not_go_on_with_another_vocabulary(call, pretrain_call, small_config, tokenizer,
                                                      tmp_path):
    config = replace(small_config, vocab_size=len(tokenizer))
    save_checkpoint(tmp_path / "other", untrained(config, BertForPreTraining), tokenizer)
    done = call("pretrain", *pretrain_call(tmp_path, 1, start_from=tmp_path / "other"))
    assert done.code == 2 and "has another vocabulary than --tokenizer" in done.err


def test_pretraining_shows_both_losses_and_accuracies_and_draws_them(call, pretrain_call,
                                                                     tmp_path):
    done = call("pretrain", *pretrain_call(tmp_path, 60, stages="2:0.007680:24:3e-3"))
    assert (done.code, done.err) == (0, "")
    history = reports(tmp_path / "stage_1")
    assert np.mean([r["mlm_loss"] for r in history[-10:]]) < 0.9 * np.mean(
        [r["mlm_loss"] for r in history[:10]])
    names = {name for report in history for name in report}
    assert {"mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "tokens_per_second"} <= names
    assert (tmp_path / "stage_1" / "curves.png").stat().st_size > 10_000
    assert load_checkpoint(tmp_path / "out").has_nsp
    shutil.rmtree(tmp_path / "out")  # a finished run writes its checkpoint again
    done = call("pretrain", *pretrain_call(tmp_path, 60, stages="2:0.007680:24:3e-3"))
    assert done.code == 0 and load_checkpoint(tmp_path / "out").has_nsp
    done = call("pretrain", *pretrain_call(tmp_path, 60, stages="2:0.007680:24:3e-3"),
                "--hidden-size", 64)
    assert done.code == 2 and "another shape" in done.err


def test_a_killed_run_ends_at_the_very_same_weights(pretrain_call, tmp_path):
    def call(name: str) -> list[str]:
        return [*COMMAND, *pretrain_call(tmp_path / name, 12, save_minutes=0,
                                         hidden_dropout_prob=0.2,
                                         attention_probs_dropout_prob=0.2)]

    in_a_process(*call("whole"))
    with subprocess.Popen(call("killed"), env=ENVIRONMENT, stdout=subprocess.PIPE,
                          text=True) as process:
        next(line for line in process.stdout if " 5/12 " in line)
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    in_a_process(*call("killed"))
    one, other = (load_file(tmp_path / name / "stage_1" / "state.safetensors")
                  for name in ("whole", "killed"))
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []
    assert [r["step"] for r in reports(tmp_path / "killed" / "stage_1")] == list(range(1, 13))


def test_two_processes_equal_one_with_twice_the_batch(pretrain_call, tmp_path):
    stages = "2:0.001536:24:1e-4"
    in_a_process(*COMMAND, *pretrain_call(tmp_path / "one", 6, stages=stages, batch_tokens=256))
    in_a_process(sys.executable, "-m", "torch.distributed.run", "--standalone",
                 "--nproc-per-node", "2", "-m", "bert", "pretrain",
                 *pretrain_call(tmp_path / "two", 6, stages=stages))
    for name in ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"):
        alone, together = ({report["step"]: report[name]
                            for report in reports(tmp_path / folder / "stage_1") if name in report}
                           for folder in ("one", "two"))
        assert alone and together == pytest.approx(alone, rel=1e-4), name


def test_a_teachers_vectors_are_written_down_and_learned_beside_both_tasks(
        call, files, pretrain_call, page_tokenizer, small_config, tmp_path):
    save_checkpoint(tmp_path / "teacher", untrained(small_config, BertModel, 1), page_tokenizer)
    done = call("distill", "--teacher", tmp_path / "teacher", "--english",
                files / "page_lines.txt", "--translations", files / "translations.tsv",
                "--out", tmp_path / "vectors")
    assert (done.code, done.err) == (0, "") and "32 numbers each" in done.out
    done = call("pretrain", *pretrain_call(tmp_path / "run", 3), "--vectors", tmp_path / "vectors")
    assert (done.code, done.err) == (0, "")
    names = {name for report in reports(tmp_path / "run" / "stage_1") for name in report}
    assert {"pooled_loss", "mean_loss", "mlm_loss", "nsp_loss"} <= names


def test_sources_may_be_repeated_and_a_corpus_without_pairs_is_said(call, files, pretrain_call,
                                                                    tmp_path):
    lines = files / "page_lines.txt"
    done = call("pretrain", *pretrain_call(tmp_path / "a", 1), "--repeat", "page_lines=3")
    assert done.code == 0 and "nothing is learned" not in done.out
    done = call("pretrain", *pretrain_call(tmp_path / "b", 1), "--sources", lines)
    assert done.code == 0 and "nothing is learned about the next sentence" in done.out
    done = call("pretrain", *pretrain_call(tmp_path / "c", 1), "--repeat", "elsewhere=3")
    assert done.code == 2 and "expected NAME=TIMES with one of the sources" in done.err


# ---------------------------------------------------------------------------------- fine-tuning


def test_every_kind_of_line_trains(call, files, finetune_call, tmp_path):
    found = "what a lovely evening"
    (tmp_path / "en_chat.tsv").write_text(f"{found}\tlabel\n", encoding="utf-8")
    (tmp_path / "labels.tsv").write_text(
        f"split\tlabels\tmark\ntrain\tjoy\t{text_mark(found):016x}\n", encoding="utf-8")
    done = call("finetune", *finetune_call(
        tmp_path / "run", mixed=files / "mixed.tsv", translations=files / "translations.tsv",
        mapped=files / "set.train.tsv", label_map=files / "map.tsv",
        llm_labels=tmp_path / "labels.tsv", found_in=tmp_path / "en_chat.tsv",
        dev=files / "train.tsv"))
    assert (done.code, done.err) == (0, "")
    own = 2 * len(EXAMPLES) + 1  # one line has a translation
    assert f"{own} own lines, 2 with two feelings, 2 mapped and 1 LLM-labelled" in done.out
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    saved = load_file(tmp_path / "run" / "out" / "model.safetensors")
    assert saved["classifier.weight"].dtype == torch.float16
    facts = read_json(tmp_path / "run" / "out" / "metrics.json")
    assert facts["finetune"]["lines"] == own + 5 and facts["curves"]["finetune"]


def test_a_run_goes_on_only_with_what_it_began_with(call, files, finetune_call, tmp_path):
    fewer = tmp_path / "fewer.tsv"
    fewer.write_text("".join((files / "train.tsv").read_text(encoding="utf-8").splitlines(
        keepends=True)[:-1]), encoding="utf-8")
    assert call("finetune", *finetune_call(tmp_path / "run")).code == 0
    weights = (tmp_path / "run" / "out" / "model.safetensors").read_bytes()
    for change, complaint in (({"learning_rate": 0.01}, "--learning-rate 0.0003, not 0.01"),
                              ({"train": fewer}, "a run with other lines"),
                              ({"dev": files / "train.tsv"}, "a run with other lines")):
        done = call("finetune", *finetune_call(tmp_path / "run", **change))
        assert done.code == 2 and complaint in done.err
        assert (tmp_path / "run" / "out" / "model.safetensors").read_bytes() == weights
    assert call("finetune", *finetune_call(tmp_path / "run", epochs=2, report_every=5)).code == 0
    assert (tmp_path / "run" / "out" / "model.safetensors").read_bytes() != weights


def test_a_run_that_is_stopped_early_hands_on_its_last_weights(call, finetune_call, tmp_path):
    weights = []
    for steps in (1, 2):
        assert call("finetune", *finetune_call(tmp_path, epochs=9, batch_tokens=64, warmup=1,
                                               max_steps=steps)).code == 0
        weights.append((tmp_path / "out" / "model.safetensors").read_bytes())
    assert weights[0] != weights[1]


def test_the_output_folder_is_checked_before_the_training(call, finetune_call, pretrain_call,
                                                          tmp_path):
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter1.txt").write_text("years of work", encoding="utf-8")
    for command, arguments in (("finetune", finetune_call(tmp_path / "run", out=thesis)),
                               ("pretrain", [*pretrain_call(tmp_path / "run", 1), "--out",
                                             str(thesis)])):
        done = call(command, *arguments)
        assert done.code == 2 and "chapter1.txt, which would be deleted" in done.err
        assert not list(tmp_path.glob("run/**/state.safetensors"))
        assert (thesis / "chapter1.txt").read_text() == "years of work"


# ---------------------------------------------------------------------------------- baseline


def test_the_linear_model_is_scored_and_stands_beside_the_checkpoint(call, files, emotion_folder,
                                                                     tmp_path):
    folder = shutil.copytree(emotion_folder, tmp_path / "emotion")
    done = call("baseline", "--train", *[files / "train.tsv"] * 8, "--test", files / "train.tsv",
                "--contrast", files / "contrast.tsv", "--checkpoint", folder)
    assert (done.code, done.err) == (0, "")
    found = read_json(folder / "metrics.json")
    assert found["baselines"]["linear model"] == {"ko": {"easy": 1.0}, "en": {"easy": 1.0}}
    assert list(found["learning_curve"]) == ["0.125", "0.25", "0.5", "1.0"]
    assert found["baseline"]["contrast"]["ko"]["short"] == 1.0
    before = (folder / "metrics.json").read_bytes()
    assert call("baseline", "--train", files / "train.tsv", "--test", files / "train.tsv",
                "--checkpoint", folder, "--max-steps", 1).code == 0
    assert (folder / "metrics.json").read_bytes() == before


# ---------------------------------------------------------------------------------- all stages


@pytest.fixture
def own_lines(files, tmp_path):
    """A folder like assets/data, with the few lines of the tests."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("train.tsv", "mixed.tsv", "translations.tsv"):
        shutil.copy(files / name, folder / name)
    for name in ("dev.tsv", "test.tsv"):
        shutil.copy(files / "train.tsv", folder / name)
    return folder


def test_all_stages_make_both_checkpoints_and_none_is_done_twice(call, own_lines, tmp_path):
    arguments = ("--quick", "--data", own_lines, "--out", tmp_path / "made", "--max-steps", 1)
    done = call("train", *arguments)
    assert (done.code, done.err) == (0, "") and "the plan:" in done.out
    assert [line.split()[4] for line in done.out.splitlines() if line.startswith("$ ")] == [
        "train_tokenizer", "pretrain", "finetune", "evaluate"]
    assert load_checkpoint(tmp_path / "made" / "pretrained").has_nsp
    assert load_checkpoint(tmp_path / "made" / "emotion").has_classifier
    for stage, folder in (("pretrain", "pretrained"), ("finetune", "emotion")):
        command = read_json(tmp_path / "made" / folder / "metrics.json")[stage]["command"]
        assert command.startswith(f"python -m bert {stage} --s")  # --sources, --start-from
    done = call("train", *arguments)
    assert done.code == 0 and done.out.count("done before") == 4


# ---------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(("command", "arguments", "complaint"), [
    ("train_tokenizer", ["--text", "nowhere.txt", "--out", "x"], "nowhere.txt is not there"),
    ("pretrain", ["--tokenizer", "nowhere", "--sources", "a_lines.txt", "--run-dir", "r", "--out",
                  "o"], "nowhere/tokenizer.json is missing"),
    ("pretrain", ["--batch-tokens", "many"], "invalid int value"),
    ("finetune", ["--start-from", "x", "--run-dir", "r", "--out", "o"], "nothing to learn from"),
    ("finetune", ["--start-from", "x", "--mapped", "f", "--run-dir", "r", "--out", "o"],
     "--label-map"),
    ("finetune", ["--start-from", "x", "--train", "gone.tsv", "--run-dir", "r", "--out", "o"],
     "gone.tsv is not there"),
    ("finetune", ["--start-from", "x", "--run-dir", "r", "--out", "o", "--epochs", "0"],
     "--epochs is 0"),
    ("baseline", ["--train", "--test", "gone.tsv"], "nothing to learn from"),
    ("baseline", ["--checkpoint", "nowhere"], "nowhere is not there"),
    ("evaluate", ["--dry", "--public", "x"], "--label-map"),
    ("evaluate", ["--dry", "--baseline", "a/last", "ko", "--baseline", "b/last"],
     "two of the folders are called 'last'"),
    ("train", ["--out", "o"], "give --sources DIR, or --quick"),
    ("train", ["--out", "o", "--sources", "gone"], "gone is not a folder"),
    ("train", ["--out", "o", "--quick", "--data", "gone"], "gone has no train*.tsv"),
])
def test_a_wrong_call_gets_one_line_and_leaves_nothing(call, tmp_path, monkeypatch, command,
                                                       arguments, complaint):
    monkeypatch.chdir(tmp_path)
    done = call(command, *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1 and complaint in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train_tokenizer", "pretrain", "distill", "finetune", "train",
                                     "evaluate", "baseline", "bench"])
@pytest.mark.parametrize("steps", ["0", "-1", "many"])
def test_a_dry_run_has_at_least_one_step(call, command, steps):
    done = call(command, "--max-steps", steps)
    assert done.code == 2 and "--max-steps" in done.err


def test_a_file_of_labels_with_an_unknown_class_is_named(call, finetune_call, tmp_path):
    (tmp_path / "bad.tsv").write_text(LABELLED + "pride\ten\teasy\t\tx\n", encoding="utf-8")
    done = call("finetune", *finetune_call(tmp_path / "run", train=tmp_path / "bad.tsv"))
    assert done.code == 2 and "bad.tsv, line 2" in done.err and "pride" in done.err
