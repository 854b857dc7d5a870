"""The training row, run as people run it: real commands, real kills, real processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bert import (
    average,
    baseline,
    distill,
    evaluate,
    finetune,
    pretrain,
    sources,
    teachers,
    train_tokenizer,
)
from bert.augment import Resplit, Rewritten, refill, vary
from bert.checkpoint import load_checkpoint, save_checkpoint, untrained
from bert.config import BertConfig
from bert.corpus import TokenCorpus, read_labelled
from bert.labels import KEYS, NONE
from bert.metrics import fit_threshold
from bert.model import BertForPreTraining, BertForSequenceClassification, BertModel
from bert.pairs import PretrainData
from bert.predict import EmotionClassifier
from bert.tokenizer import WordPieceTokenizer
from bert.training import Processes, learning_rate_share, make_optimizer, train_step

ROOT = Path(__file__).parent.parent
TINY = ["--hidden-size", "32", "--num-hidden-layers", "2", "--num-attention-heads", "2",
        "--intermediate-size", "64", "--max-position-embeddings", "32"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
               "GLOO_SOCKET_IFNAME": "lo"}
LINES = {
    "achievement": ["드디어 시험에 합격했다", "i finished the whole marathon today"],
    "recognition": ["팀장님이 모두 앞에서 칭찬해 주셨다", "they clapped and said my name"],
    "security": ["집에 오니 마음이 놓인다", "the results are fine, i can breathe"],
    "autonomy": ["이제부터 내 마음대로 정한다", "i answer to nobody now"],
    "connection": ["친구들이 곁에 있어 고맙다", "my family held me close"],
    "joy": ["콘서트 정말 신났다", "we laughed until it hurt"],
    "curiosity": ["저건 왜 저렇게 움직일까", "how does this even work?"],
    "sadness": ["그 사람이 떠나고 텅 비었다", "she is gone and the house is quiet"],
    "anger": ["또 약속을 어겨서 열받는다", "how dare they blame me"],
    "anxiety": ["내일 발표가 걱정돼 잠이 안 온다", "what if the test comes back bad"],
    "none": ["가게는 아홉 시에 연다", "the shop opens at nine"],
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A page of text, labelled lines and a tokenizer."""
    folder = tmp_path_factory.mktemp("files")
    texts = [text for pair in LINES.values() for text in pair]
    documents = "\n\n".join("\n".join(texts[i:i + 4]) for i in range(0, len(texts), 2))
    (folder / "documents.txt").write_text(documents + "\n", encoding="utf-8")
    (folder / "lines.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rows = [f"{label}\t{language}\teasy\t\t{text}" for label, pair in LINES.items()
            for language, text in zip(("ko", "en"), pair, strict=True)]
    (folder / "train.tsv").write_text("\n".join(["label\tlang\tlevel\tpair\ttext", *rows, ""]),
                                      encoding="utf-8")
    (folder / "set.train.tsv").write_text(
        "so happy today\tjoy\nugh, no\tanger,sad\nfine\tcalm\n", encoding="utf-8")
    (folder / "map.tsv").write_text(
        "dataset\toriginal_label\tclass10\tquality\nset\tjoy\tjoy\tclean\nset\tanger\tanger\tclean\n"
        "set\tcalm\tsecurity\tweak\n", encoding="utf-8")
    (folder / "parallel.tsv").write_text("ko\ten\n정말 고마워\tthank you so much\n",
                                         encoding="utf-8")
    train_tokenizer.main(["--text", str(folder / "lines.txt"), "--vocab-size", "400", "--out",
                          str(folder / "tokenizer"), "--megabytes", "0.01"])
    return folder


def pretrain_arguments(files: Path, run: Path, steps: int, **extra: str) -> list[str]:
    flags = {"steps": steps, "batch-tokens": 128, "sequence-length": 24, "report-every": 1,
             "save-minutes": 0, "warmup": 2, **extra}
    return ["--tokenizer", str(files / "tokenizer"), "--corpus", str(files / "documents.txt"),
            "--lines", str(files / "lines.txt"), "--run-dir", str(run), "--out", str(run / "out"),
            *TINY, *(part for name, value in flags.items() for part in (f"--{name}", str(value)))]


def reports(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_one_batch_can_be_memorised_by_both_tasks(files, tmp_path):
    tokenizer = WordPieceTokenizer.load(files / "tokenizer" / "tokenizer.json")
    corpus = TokenCorpus.prepare(tmp_path / "tokens", tokenizer, [files / "documents.txt"], [])
    data = PretrainData(corpus, tokenizer, 24, 256, 0.15, False, seed=0)
    batch = max((data.batch(0, i) for i in range(len(data.planned(0)))),
                key=lambda batch: ({0, 1} <= set(batch.nsp_targets), len(batch.ids)))
    assert set(batch.nsp_targets) >= {0, 1}
    model = untrained(BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
        BertForPreTraining, 0)
    optimizer = make_optimizer(model, 5e-3, 0.0)
    for _ in range(150):
        sums = pretrain.batch_losses(model, batch, torch.device("cpu"))
        result = train_step(model, optimizer, sums, Processes(), clip=1.0)
    for name in ("mlm_accuracy", "nsp_accuracy"):
        assert result[name][0] == result[name][1], name


def test_pretraining_shows_both_losses_and_accuracies_and_draws_them(files, tmp_path):
    pretrain.main(pretrain_arguments(files, tmp_path, 60, **{"learning-rate": 3e-3,
                                                             "save-minutes": 5}))
    history = reports(tmp_path)
    assert np.mean([r["mlm_loss"] for r in history[-10:]]) < 0.9 * np.mean(
        [r["mlm_loss"] for r in history[:10]])
    names = {name for report in history for name in report}
    assert {"mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "tokens_per_second"} <= names
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert load_checkpoint(tmp_path / "out").has_nsp


@pytest.mark.parametrize("dropout", ["0.0", "0.2"])
def test_a_killed_run_ends_at_the_very_same_weights(files, tmp_path, dropout):
    extra = {"hidden-dropout-prob": dropout, "attention-probs-dropout-prob": dropout}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-m", "bert.pretrain"]
    subprocess.run([*command, *pretrain_arguments(files, whole, 12, **extra)], check=True,
                   env=ENVIRONMENT, capture_output=True)
    for kill_at in (3, 7):
        process = subprocess.Popen([*command, *pretrain_arguments(files, killed, 12, **extra)],
                                   env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if f" {kill_at}/12 " in line:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
    subprocess.run([*command, *pretrain_arguments(files, killed, 12, **extra)], check=True,
                   env=ENVIRONMENT, capture_output=True)
    one, other = load_file(whole / "state.safetensors"), load_file(killed / "state.safetensors")
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name
    assert [r["step"] for r in reports(killed)] == list(range(1, 13))


def test_two_processes_equal_one_with_twice_the_batch(files, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    larger = {"batch-tokens": 256, "learning-rate": 1e-4}
    subprocess.run([sys.executable, "-m", "bert.pretrain",
                    *pretrain_arguments(files, one, 6, **larger)],
                   check=True, env=ENVIRONMENT, capture_output=True)
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                    "--nproc-per-node", "2", "-m", "bert.pretrain",
                    *pretrain_arguments(files, two, 6, **{"learning-rate": 1e-4})],
                   check=True, env=ENVIRONMENT, capture_output=True)
    for name in ("mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"):
        alone = {report["step"]: report[name] for report in reports(one) if name in report}
        together = {report["step"]: report[name] for report in reports(two) if name in report}
        assert alone and together == pytest.approx(alone, rel=1e-4), name


def test_a_saved_run_of_another_shape_is_refused(files, tmp_path, capsys):
    pretrain.main(pretrain_arguments(files, tmp_path, 1))
    with pytest.raises(SystemExit) as stopped:
        pretrain.main([*pretrain_arguments(files, tmp_path, 2), "--hidden-size", "64"])
    assert stopped.value.code == 2
    assert "another shape" in capsys.readouterr().err


def test_a_disk_that_is_full_loses_nothing(files, tmp_path, monkeypatch, capsys):
    pretrain.main(pretrain_arguments(files, tmp_path, 2))
    before = (tmp_path / "state.safetensors").read_bytes()

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bert.training.save_file", full)
    with pytest.raises(SystemExit):
        pretrain.main(pretrain_arguments(files, tmp_path, 4))
    assert "No space left" in capsys.readouterr().err
    assert (tmp_path / "state.safetensors").read_bytes() == before
    assert not list(tmp_path.glob("*.new"))


def test_a_corpus_without_documents_is_refused_for_nsp(files, tmp_path, capsys):
    path = tmp_path / "apart.txt"
    path.write_text("one\n\ntwo\n\nthree\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        pretrain.main(["--tokenizer", str(files / "tokenizer"), "--corpus", str(path), "--run-dir",
                       str(tmp_path / "run"), "--out", str(tmp_path / "out"), *TINY,
                       "--sequence-length", "16"])
    error = capsys.readouterr().err
    assert stopped.value.code == 2 and error.count("\n") == 1
    assert "no document of two sentences" in error


# ------------------------------------------------------------------------------- fine-tuning


def small_start(files: Path, folder: Path) -> Path:
    tokenizer = WordPieceTokenizer.load(files / "tokenizer" / "tokenizer.json")
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2,
                        num_attention_heads=2, intermediate_size=64, max_position_embeddings=32)
    save_checkpoint(folder, untrained(config, BertForPreTraining, 0), tokenizer)
    return folder


def test_labelled_lines_are_learned_and_none_stays_flat(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--dev",
                   str(files / "train.tsv"), "--run-dir", str(tmp_path / "run"), "--out",
                   str(tmp_path / "out"), "--epochs", "120", "--batch-tokens", "128",
                   "--learning-rate", "3e-3", "--layer-decay", "1.0", "--dropout", "0.0",
                   "--label-smoothing", "0.0", "--patience", "120", "--report-every", "1000"])
    evaluate.main(["--checkpoint", str(tmp_path / "out"), "--data", str(files / "train.tsv")])
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())["evaluate"]["languages"]
    for language in ("ko", "en"):
        assert results[language]["accuracy"] >= 0.9
    best = load_checkpoint(tmp_path / "run" / "best")
    logits = finetune.logits_of(best.model, best.tokenizer, [*LINES["none"], *LINES["joy"]])
    top = torch.from_numpy(logits).softmax(-1).max(-1).values
    assert top[:2].max() < 0.5 * top[2:].min()


def test_auxiliary_and_mapped_sets_train_beside_our_lines(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--dev",
                   str(files / "train.tsv"), "--auxiliary", str(files / "set.train.tsv"),
                   "--mapped", str(files / "set.train.tsv"), "--label-map", str(files / "map.tsv"),
                   "--run-dir", str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs",
                   "2", "--report-every", "1"])
    names = {name for report in reports(tmp_path / "run") for name in report}
    assert {"emotion_loss", "set_loss"} <= names
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert not any("heads" in name for name in saved)
    assert (tmp_path / "run" / "curves.png").stat().st_size > 10_000
    assert saved["classifier.weight"].dtype == torch.float16


def test_words_are_filled_in_anew_and_the_label_is_kept(files, tmp_path):
    start = load_checkpoint(small_start(files, tmp_path / "start"))
    lines = finetune.read_labelled(files / "train.tsv")
    copies = refill(lines, start, rate=0.3)
    assert len(copies) > 0.9 * len(lines)
    texts = {line.text: line.label for line in lines}
    assert all(copy.text not in texts for copy in copies)
    kept = [copy for copy in copies if "시험" in copy.text or "합격" in copy.text]
    assert all(copy.label == "achievement" for copy in kept)
    assert refill(lines, start, rate=0.3) == copies
    assert refill(lines, start, rate=0.3, seed=1) != copies


def test_figures_of_other_checkpoints_are_written_beside_the_own(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    for name in ("out", "without varying"):
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"),
                       "--run-dir", str(tmp_path / f"run {name}"), "--out", str(tmp_path / name),
                       "--epochs", "1"])
    rows = (files / "train.tsv").read_text(encoding="utf-8")
    (tmp_path / "test.tsv").write_text(rows + "\n".join(
        f"{key}\t{language}\thard\t\t{text}" for key in KEYS
        for language, text in zip(("ko", "en"), LINES[key], strict=True)) + "\n", encoding="utf-8")
    evaluate.main(["--checkpoint", str(tmp_path / "out"), "--data", str(tmp_path / "test.tsv"),
                   "--more", str(tmp_path / "test.tsv"), "--ablation",
                   str(tmp_path / "without varying"), "--baseline",
                   str(tmp_path / "without varying"), "en"])
    found = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    english = tmp_path / "english.tsv"
    english.write_text("label\tlang\tlevel\tpair\ttext\njoy\ten\teasy\t\twe laughed\n",
                       encoding="utf-8")
    evaluate.main(["--checkpoint", str(tmp_path / "out"), "--data", str(tmp_path / "test.tsv"),
                   "--more", str(english), "--figures", str(tmp_path / "figures"), "--dry"])
    assert found == json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    assert not (tmp_path / "figures").exists()
    row = found["ablations"]["without varying"]
    assert set(row) == {"ko", "en"} and set(row["ko"]) == {"easy", "hard"}
    assert found["baselines"]["without varying"] == {"en": row["en"]}
    own = found["evaluate"]["languages"]
    assert found["evaluate"]["more"]["test.tsv"]["ko"] == {
        "easy": own["ko"]["accuracy_easy"], "hard": own["ko"]["accuracy_hard"]}
    assert found["curves"]["finetune"][-1]["step"] > 0
    for figures in found["evaluate"]["languages"].values():
        bins = figures["reliability"]
        assert sum(part["lines"] for part in bins) == figures["lines"]
        error = sum(part["lines"] * abs(part["said"] - part["right"]) for part in bins)
        assert figures["calibration_error"] == pytest.approx(error / figures["lines"])


def test_only_lines_that_map_cleanly_onto_one_feeling_are_taken(files):
    lines = sources.mapped_lines(files / "set.train.tsv",
                                  sources.read_label_map(files / "map.tsv"))
    assert [(line.label, line.text) for line in lines] == [("joy", "so happy today")]


def test_a_line_with_labels_beyond_the_map_counts_only_when_asked_for(tmp_path):
    path = tmp_path / "set.train.tsv"
    path.write_text("what a day\tjoy,surprise\nhuh\tsurprise\nboth\tjoy,grief\n", encoding="utf-8")
    meaning = {("set", "joy"): "joy", ("set", "grief"): "sadness"}
    assert sources.mapped_lines(path, meaning) == []
    lines = sources.mapped_lines(path, meaning, partly=True)
    assert [(line.label, line.text) for line in lines] == [("joy", "what a day")]


def test_readings_label_public_lines_without_holding_them(tmp_path):
    mixed = "우리 팀 이겼다! 다들 고마워"
    texts = {"what a day": "joy", mixed: "joy,connection", "the shop opens at nine": "none"}
    (tmp_path / "en_chat.tsv").write_text("what a day\tlabel\nunread\tlabel\n", encoding="utf-8")
    (tmp_path / "ko_lines.txt").write_text(f"{mixed}\n\n  the shop opens at nine\n",
                                           encoding="utf-8")
    path = tmp_path / "readings.tsv"
    path.write_text("split\tlabels\tmark\n" + "".join(
        f"train\t{labels}\t{sources.line_mark(text)}\n" for text, labels in texts.items())
        + f"test\tanger\t{sources.line_mark('unread')}\n", encoding="utf-8")
    assert not any(text in path.read_text(encoding="utf-8") for text in texts)
    files = [tmp_path / "en_chat.tsv", tmp_path / "ko_lines.txt"]
    lines = sources.read_readings(path, files, "train")
    assert {line.text: line.label for line in lines} == texts
    assert [line.language for line in lines] == ["en", "ko", "ko"]
    found = sources.emotion_source(lines, none_weight=2.0)
    assert found.targets.sum(axis=1) == pytest.approx(1.0)
    assert found.targets[1, [KEYS.index("joy"), KEYS.index("connection")]] == pytest.approx(0.5)
    assert found.targets[2] == pytest.approx(0.1)
    assert found.weights.tolist() == [1.0, 1.0, 2.0]
    assert [line.label for line in sources.read_readings(path, files, "test")] == ["anger"]
    with pytest.raises(ValueError, match="none of its train lines is in the files of --found-in"):
        sources.read_readings(path, [path], "train")


def test_lines_of_people_are_scored_where_the_reader_saw_one_feeling(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--run-dir",
                   str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs", "1"])
    labels = {pair[1]: key for key, pair in LINES.items()} | {"joy and love": "joy,connection"}
    (tmp_path / "en_lines.txt").write_text("\n".join(labels) + "\n", encoding="utf-8")
    (tmp_path / "readings.tsv").write_text("split\tlabels\tmark\n" + "".join(
        f"test\t{label}\t{sources.line_mark(text)}\n" for text, label in labels.items()),
        encoding="utf-8")
    evaluate.main(["--checkpoint", str(tmp_path / "out"), "--data", str(files / "train.tsv"),
                   "--readings", str(tmp_path / "readings.tsv"), "--found-in",
                   str(tmp_path / "en_lines.txt")])
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    found = metrics["evaluate"]["readings"]["languages"]
    classifier = EmotionClassifier.load(tmp_path / "out")
    answers = {text: classifier(text) for text in labels}
    right = [answers[text].label == label for text, label in labels.items() if label in KEYS]
    assert set(found) == {"en"} and (found["en"]["lines"], found["en"]["none_lines"]) == (10, 1)
    assert found["en"]["accuracy"] == pytest.approx(np.mean(right))
    assert found["en"]["none_not_confident"] == (not answers[LINES["none"][1]].confident)


def test_a_reading_with_an_unknown_class_is_named(tmp_path):
    path = tmp_path / "readings.tsv"
    path.write_text("split\tlabels\tmark\ntrain\tjoy,pride\t00\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'pride' is none of our classes"):
        sources.read_readings(path, [], "train")


def test_a_rendering_trains_with_the_label_of_its_line(files):
    lines = finetune.read_labelled(files / "train.tsv")
    pairs = [(LINES["joy"][0], "what a gig!"), ("아무도 쓰지 않은 줄", "nor that"),
             ("집이 조용하다", LINES["sadness"][1])]
    rendered = sources.rendered_lines(lines, pairs)
    assert [(line.label, line.language, line.text) for line in rendered] == [
        ("joy", "en", "what a gig!"), ("sadness", "ko", "집이 조용하다")]


def test_a_teacher_s_answers_are_mixed_into_labels_and_learned_where_there_are_none(tmp_path):
    answer = np.linspace(0.0, 0.2, 10, dtype=np.float32)
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"text": text, "probabilities": dict(
        zip(KEYS, answer.tolist(), strict=True))}) + "\n" for text in ("known", "new"))
        + json.dumps({"text": "", "error": "empty"}) + "\n", encoding="utf-8")
    taught = sources.read_answers(answers)
    lines = [finetune.LabelledLine(label, "en", "easy", "", "known")
             for label in (KEYS[answer.argmax()], "joy", "none")]
    plain = sources.emotion_source(lines)
    labelled = sources.with_teacher(plain, taught, share=0.25)
    assert labelled.targets[0] == pytest.approx(0.25 * answer + 0.75 * plain.targets[0])
    assert np.array_equal(labelled.targets[1:], plain.targets[1:])  # it saw something else there
    doubtful = sources.with_teacher(plain, taught, share=0.25, doubtful=True)
    assert doubtful.targets[1] == pytest.approx(0.25 * answer + 0.75 * plain.targets[1])
    assert np.array_equal(doubtful.targets[2], plain.targets[2])  # nothing to be doubted
    rest = sources.taught_source(taught, {"known"})
    assert rest.texts == ["new"] and rest.targets[0] == pytest.approx(answer)
    answers.write_text('{"text": "x", "probabilities": {"joy": 1}}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="answers.jsonl, line 1: expected an answer"):
        sources.read_answers(answers)


def test_of_several_teachers_each_has_a_say_in_every_class():
    sure, torn = np.full((2, 10), 0.01, dtype=np.float32)
    sure[2], torn[[2, 5]] = 0.91, 0.46
    joint = sources.joint_answers([{"both": sure, "one": sure}, {"both": torn, "other": torn}])
    assert np.array_equal(joint["one"], sure) and np.array_equal(joint["other"], torn)
    assert joint["both"].sum() == pytest.approx(1.0)
    assert joint["both"][2] / joint["both"][5] == pytest.approx(np.sqrt(91.0), rel=1e-4)
    never = np.eye(10, dtype=np.float32)[0]
    answer = sources.joint_answers([{"x": never}, {"x": sure}])["x"]
    assert np.isfinite(answer).all() and answer.argmax() == 0


def test_the_linear_teacher_answers_each_line_without_having_seen_it():
    happy = [f"so happy about day {number}" for number in range(30)]
    angry = [f"so angry about day {number}" for number in range(30)]
    lines = [baseline.LabelledLine(label, "en", "easy", "", text)
             for label, texts in (("joy", happy), ("anger", angry)) for text in texts]
    odd = baseline.LabelledLine("sadness", "en", "easy", "", "happy happy rain")
    answers = baseline.answers_of_strangers([*lines, odd], ["happy to be here", happy[0]], 3, 0)
    assert answers.keys() == {*happy, *angry, odd.text, "happy to be here"}
    assert all(row.sum() == pytest.approx(1.0, abs=1e-5) for row in answers.values())
    assert {KEYS[answers[text].argmax()] for text in [*happy, "happy to be here"]} == {"joy"}
    assert answers[odd.text][KEYS.index("sadness")] == 0.0  # its fold had no such line
    assert KEYS[answers[odd.text].argmax()] == "joy"


def test_the_linear_teacher_s_answers_can_be_learned(files, tmp_path):
    start, answers = small_start(files, tmp_path / "start"), tmp_path / "answers.jsonl"
    baseline.main(["--train", str(files / "train.tsv"), "--answers", str(answers), "--folds", "2",
                   "--unlabelled", str(files / "set.train.tsv")])
    assert {"so happy today", *LINES["joy"]} <= sources.read_answers(answers).keys()
    finetune.main(["--start-from", str(start), "--taught", str(answers), "--run-dir",
                   str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--max-steps", "1"])
    assert load_checkpoint(tmp_path / "out").has_classifier


def test_answers_that_cannot_be_written_are_refused_before_the_linear_model_learns(
        files, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        baseline.main(["--train", str(files / "train.tsv"), "--answers", str(tmp_path)])
    said = capsys.readouterr()
    assert ended.value.code == 2 and str(tmp_path) in said.err and "fold" not in said.out


def test_fine_tuning_learns_from_a_teacher_through_renderings(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    probabilities = {key: 0.91 if key == "anger" else 0.01 for key in KEYS}
    (tmp_path / "answers.jsonl").write_text(json.dumps(
        {"text": "thank you so much", "probabilities": probabilities}) + "\n", encoding="utf-8")
    finetune.main(["--start-from", str(start), "--taught", str(tmp_path / "answers.jsonl"),
                   "--parallel", str(files / "parallel.tsv"), "--run-dir", str(tmp_path / "run"),
                   "--out", str(tmp_path / "out"), "--epochs", "40", "--learning-rate", "3e-3",
                   "--dropout", "0.0", "--warmup", "2", "--taught-weight", "1.0",
                   "--report-every", "1000"])
    learned = load_checkpoint(tmp_path / "out")
    logits = finetune.logits_of(learned.model, learned.tokenizer, ["정말 고마워"])
    assert KEYS[logits[0].argmax()] == "anger"


def test_a_varied_line_differs_a_little_and_is_drawn_from_the_seed():
    text = "드디어 시험에 합격해서 정말 기쁘다."
    draw = np.random.default_rng(0)
    varied = [vary(text, draw) for _ in range(200)]
    assert varied == [vary(text, again) for again in [np.random.default_rng(0)]
                      for _ in range(200)]
    assert len(set(varied)) > 40
    assert all(abs(len(line) - len(text)) <= 4 for line in varied)
    assert {vary("a", draw).lower()[:1] for _ in range(50)} == {"a"}
    assert {len(vary("", draw)) for _ in range(50)} <= set(range(5))


def test_words_cut_into_other_pieces_are_still_the_same_words(tokenizer, texts):
    draw = np.random.default_rng(0)
    ids = tokenizer.encode_ids([" ".join(texts)])[0]
    assert Resplit(tokenizer, 0.0)(ids, draw) == ids
    ways = [Resplit(tokenizer, 0.3)(ids, draw) for _ in range(20)]
    assert len({tuple(way) for way in ways}) > 10
    assert {tokenizer.decode(way) for way in ways} == {tokenizer.decode(ids)}
    assert tokenizer.unk_id not in {i for way in ways for i in way}


def test_lines_are_written_anew_for_every_epoch(tokenizer, texts):
    plain = Rewritten(texts, tokenizer, 64, 0.0, 0.0)
    assert all(plain.read(np.random.default_rng(i))[0] == tokenizer.encode_ids(texts)
               for i in range(5))
    varied = Rewritten(texts, tokenizer, 12, 0.9, 0.2)
    read = [varied.read(np.random.default_rng(i)) for i in range(5)]
    assert len({str(rows) for rows, _ in read}) == 5
    assert all(max(lengths) <= 12 and [len(row) + 2 for row in rows] == lengths.tolist()
               for rows, lengths in read)


def test_lines_of_one_length_stand_together_although_they_are_written_anew(tokenizer, texts):
    lines = [finetune.LabelledLine("joy", "ko", "easy", "", " ".join(texts[:1 + i % 3]))
             for i in range(300)]
    data = sources.LabelledData([sources.emotion_source(lines)], tokenizer, 256, 0, varied=0.9,
                                resplit=0.2)
    drawn = data.batches(0, 0)
    read = [next(drawn)[2] for _ in range(data.num_batches)]
    assert sum(len(batch.ids) for batch in read) == len(lines)
    assert sum(batch.num_tokens for batch in read) > 0.95 * sum(batch.ids.size for batch in read)


def test_hidden_pieces_are_masked_and_nothing_else_is(tokenizer, texts):
    source = sources.emotion_source([finetune.LabelledLine("joy", "ko", "easy", "", text)
                                     for text in texts] * 4)
    plain, hidden = (next(sources.LabelledData([source], tokenizer, 1_024, 0,
                                               hidden=share).batches(0, 0))[2]
                     for share in (0.0, 0.25))
    changed = hidden.ids != plain.ids
    assert (hidden.ids[changed] == tokenizer.mask_id).all()
    assert 0.1 < changed.sum() / (plain.num_tokens - 2 * len(plain.ids)) < 0.4
    assert np.isin(plain.ids[changed], tokenizer.special_ids).sum() == 0


def test_the_output_folder_is_checked_before_the_training(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(SystemExit):
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"),
                       "--run-dir", str(tmp_path / "run"), "--out", str(tmp_path / "thesis")])
    assert not (tmp_path / "run").exists()
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "years of work"


def test_a_run_goes_on_only_with_what_it_began_with(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    (tmp_path / "fewer.tsv").write_text("".join((files / "train.tsv").read_text(
        encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")

    def run(lines: Path, *more: str) -> None:
        finetune.main(["--start-from", str(start), "--train", str(lines), "--run-dir",
                       str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs", "1",
                       *more])

    run(files / "train.tsv")
    (tmp_path / "out" / "README.md").write_text("my card", encoding="utf-8")
    weights = (tmp_path / "out" / "model.safetensors").read_bytes()
    for lines, more, complaint in ((files / "train.tsv", ("--learning-rate", "0.01"),
                                    "a run with --learning-rate 0.0003, not 0.01"),
                                   (tmp_path / "fewer.tsv", (), "a run with other lines")):
        with pytest.raises(SystemExit):
            run(lines, *more)
        assert complaint in capsys.readouterr().err
        assert (tmp_path / "out" / "model.safetensors").read_bytes() == weights
    run(files / "train.tsv", "--epochs", "2", "--report-every", "1")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() != weights
    assert (tmp_path / "out" / "README.md").read_text() == "my card"
    with pytest.raises(SystemExit):
        run(files / "train.tsv", "--epochs", "2", "--dev", str(files / "train.tsv"))
    assert "a run with other lines" in capsys.readouterr().err
    save_checkpoint(start, untrained(load_checkpoint(start).config, BertForPreTraining, 7),
                    load_checkpoint(start).tokenizer)
    with pytest.raises(SystemExit):
        run(files / "train.tsv", "--epochs", "2")
    assert "a run with another start" in capsys.readouterr().err


def test_a_longer_run_judges_its_old_end_once(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    for epochs in ("1", "2", "2"):
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--dev",
                       str(files / "train.tsv"), "--run-dir", str(tmp_path / "run"), "--out",
                       str(tmp_path / "out"), "--epochs", epochs])
        found = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
        assert len(found["finetune"]["dev_scores"]) == int(epochs)


def test_a_run_that_is_stopped_early_hands_on_its_last_weights(files, tmp_path):
    start, weights = small_start(files, tmp_path / "start"), []
    for steps in ("1", "2"):
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--dev",
                       str(files / "train.tsv"), "--run-dir", str(tmp_path / "run"), "--out",
                       str(tmp_path / "out"), "--epochs", "9", "--batch-tokens", "64",
                       "--max-steps", steps, "--warmup", "1"])
        weights.append((tmp_path / "out" / "model.safetensors").read_bytes())
    assert weights[0] != weights[1]


def test_a_finished_run_writes_its_checkpoint_again(files, tmp_path):
    for _ in range(2):
        pretrain.main(pretrain_arguments(files, tmp_path, 2))
        assert load_checkpoint(tmp_path / "out").has_nsp
        shutil.rmtree(tmp_path / "out")


def test_a_batch_with_nothing_to_learn_changes_nothing():
    model = nn.Linear(2, 2)
    before = model.weight.detach().clone()
    sums = {"mlm_loss": (model(torch.ones(2)).sum() * 0, 0)}
    train_step(model, make_optimizer(model, 0.1, 0.1), sums, Processes(), clip=1.0)
    assert torch.equal(model.weight, before)


def test_every_auxiliary_set_has_a_head_of_its_own(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    for names in (["moods.ko.tsv", "moods.en.tsv"], ["emotion.tsv"]):
        for name in names:
            (tmp_path / name).write_text("so happy\tjoy\nugh\tanger\n", encoding="utf-8")
        with pytest.raises(SystemExit):
            finetune.main(["--start-from", str(start), "--auxiliary",
                           *(str(tmp_path / name) for name in names), "--run-dir",
                           str(tmp_path / "run"), "--out", str(tmp_path / "out")])
        assert "is taken" in capsys.readouterr().err


def test_a_checkpoint_of_another_kind_is_named_before_pretraining_or_scoring(files, tmp_path,
                                                                             capsys):
    start, other = small_start(files, tmp_path / "start"), tmp_path / "other"
    tokenizer = WordPieceTokenizer.train(LINES["joy"] * 9, 200)
    save_checkpoint(other, untrained(replace(load_checkpoint(start).config,
                                             vocab_size=len(tokenizer)), BertForPreTraining, 0),
                    tokenizer)
    for command, arguments, complaint in (
            (pretrain, [*pretrain_arguments(files, tmp_path / "run", 1), "--start-from",
                        str(start), "--hidden-size", "48"], "not a pre-trained model of the shape"),
            (pretrain, [*pretrain_arguments(files, tmp_path / "run", 1), "--start-from",
                        str(start), "--num-attention-heads", "4"],
             "not a pre-trained model of the shape"),
            (pretrain, [*pretrain_arguments(files, tmp_path / "run", 1), "--start-from",
                        str(other)], "has another tokenizer"),
            (evaluate, ["--checkpoint", str(start), "--data", str(files / "train.tsv")],
             "does not have the ten classes")):
        with pytest.raises(SystemExit):
            command.main(arguments)
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and complaint in error


def test_the_mean_of_two_checkpoints_is_the_mean_of_their_weights(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    for seed in ("0", "1"):
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--seed",
                       seed, "--run-dir", str(tmp_path / f"run{seed}"), "--out",
                       str(tmp_path / seed), "--epochs", "1"])
    call = [str(tmp_path / "0"), str(tmp_path / "1"), "--dev", str(files / "train.tsv"), "--out",
            str(tmp_path / "mean")]
    average.main([*call, "--shares", "1", "3"])
    one, other, mean = (load_checkpoint(tmp_path / name).model.bert.state_dict()
                        for name in ("0", "1", "mean"))
    for name, value in mean.items():
        torch.testing.assert_close(value, 0.25 * one[name] + 0.75 * other[name], atol=1e-3, rtol=0)
    facts = json.loads((tmp_path / "mean" / "metrics.json").read_text(encoding="utf-8"))
    assert facts["finetune"]["seed"] == 1 and facts["average"]["shares"] == [0.25, 0.75]
    for wrong, complaint in (([*call, "--shares", "1"], "one share"),
                             ([str(start), *call], "does not have the ten classes")):
        capsys.readouterr()
        with pytest.raises(SystemExit):
            average.main(wrong)
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and complaint in error


def test_the_threshold_weighs_both_kinds_of_text():
    feeling, none = np.linspace(0.3, 1.0, 101), np.linspace(0.1, 0.34, 101)
    assert fit_threshold(feeling, none, keep=0.8) == pytest.approx(0.34, abs=0.01)
    assert fit_threshold(feeling, np.linspace(0.6, 0.99, 50), keep=0.9) >= 0.3
    assert (feeling >= fit_threshold(feeling, np.full(5, 0.99), keep=0.9)).mean() >= 0.9
    assert fit_threshold(feeling, np.zeros(0)) == 0.0


def test_frozen_layers_keep_their_weights(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--run-dir",
                   str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs", "1",
                   "--freeze", "2"])
    before = load_checkpoint(start).model.bert.state_dict()
    after = load_checkpoint(tmp_path / "run" / "best").model.bert.state_dict()
    for name, value in after.items():
        is_frozen = name.startswith(("embeddings.", "encoder.layer.0."))
        assert torch.equal(before[name], value) == is_frozen, name


def test_the_temperature_is_folded_into_the_classifier():
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
                        intermediate_size=32, id2label=KEYS)
    model = untrained(config, BertForSequenceClassification, 0)
    lines = [finetune.LabelledLine(key, "ko", "easy", "", "x") for key in KEYS] * 3
    truth = np.tile(np.arange(10), 3)
    logits = np.eye(10, dtype=np.float32)[(truth + (np.arange(30) < 9)) % 10] * 20
    weight = model.classifier.weight.clone()
    finetune.fold_temperature(model, logits, lines)
    temperature = (weight / model.classifier.weight).mean().item()
    sure = np.exp(20 / temperature) / (np.exp(20 / temperature) + 9)
    assert sure == pytest.approx(0.7, abs=0.01)  # right 21 times of 30


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


def test_the_learning_rate_climbs_holds_and_falls():
    shares = [learning_rate_share(step, 100, 10, 20) for step in range(100)]
    assert shares[0] == 0.1 and shares[9] == 1.0 and shares[50] == 1.0
    assert shares[80] == 1.0 and shares[99] == pytest.approx(0.05)


# ------------------------------------------------------------------------------- distillation


def test_a_student_comes_closer_to_its_teacher(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    tokenizer = load_checkpoint(start).tokenizer
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=64, initializer_range=0.2)
    save_checkpoint(tmp_path / "teacher", untrained(config, BertModel, 1), tokenizer)
    distill.main(["--teacher", str(tmp_path / "teacher"), "--start-from", str(start), "--english",
                  str(files / "lines.txt"), "--parallel", str(files / "parallel.tsv"), "--run-dir",
                  str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs", "60",
                  "--batch-tokens", "256", "--learning-rate", "3e-3", "--mask-rate", "0.15",
                  "--warmup", "5", "--report-every", "1"])
    history = reports(tmp_path / "run")
    assert history[-1]["pooled_loss"] < 0.5 * history[0]["pooled_loss"]
    assert history[-1]["mlm_loss"] < history[0]["mlm_loss"]
    assert load_checkpoint(tmp_path / "out").has_mlm


def test_a_student_learns_from_several_teachers_at_once(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    tokenizer = load_checkpoint(start).tokenizer
    shape = dict(vocab_size=len(tokenizer), num_hidden_layers=1, num_attention_heads=2,
                 intermediate_size=64, initializer_range=0.2)
    reader = untrained(BertConfig(hidden_size=48, **shape), BertModel, 1)
    judge = untrained(BertConfig(hidden_size=32, id2label=KEYS, **shape),
                      BertForSequenceClassification, 2)
    for name, model in (("reader", reader), ("judge", judge)):
        save_checkpoint(tmp_path / name, model, tokenizer)
    distill.main(["--teacher", str(tmp_path / "reader"), str(tmp_path / "judge"), "--start-from",
                  str(start), "--english", str(files / "lines.txt"), "--run-dir",
                  str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs", "40",
                  "--batch-tokens", "256", "--learning-rate", "3e-3", "--resplit", "0.1",
                  "--vary", "0.1", "--warmup", "5", "--report-every", "1"])
    history = reports(tmp_path / "run")
    assert history[-1]["pooled_loss"] < 0.5 * history[0]["pooled_loss"]
    kept = [np.load(path) for path in sorted((tmp_path / "run").glob("vectors/*/*.npz"))]
    assert [file["rows"].shape[1] for file in kept] == [48, 32]


def test_no_line_is_read_twice_by_the_same_model(tmp_path):
    texts, read = ["오늘 좋았다", "thank you", "비가 온다"], []
    expected = np.eye(3, dtype=np.float32)

    def rows_of(lines):
        return expected[[texts.index(line) for line in lines]]

    for lines in (texts[:2], texts[::-1], texts):
        found = teachers.remembered(tmp_path / "cache" / "rows.npz", lines,
                                    lambda new: (read.append(new), rows_of(new))[1])
        assert np.array_equal(found, rows_of(lines))
    assert read == [texts[:2], texts[2:]]


def test_a_share_of_our_lines_that_the_start_is_sure_of_is_left_out(files, tmp_path, monkeypatch):
    model, tokenizer = finetune.starting_point(small_start(files, tmp_path / "start"),
                                               finetune.FinetuneConfig())
    joy = np.eye(len(KEYS))[KEYS.index("joy")]
    lines = [finetune.LabelledLine(label, "en", "easy", "", f"{kind} {label} {i}")
             for i in range(100)
             for label in ("joy", "anger", NONE) for kind in ("clear", "dim")]
    monkeypatch.setattr(finetune, "logits_of", lambda model, tokenizer, texts: np.array(
        [9.0 * joy * ("clear" in text) for text in texts], dtype=np.float32))
    number = np.arange(len(lines), dtype=np.float32)  # marks each line's own weight and vector
    public = replace(sources.emotion_source(lines, 0.05), weights=number, vectors=number[:, None])
    own = replace(public, is_own=True)
    untouched, kept = finetune.without_known([public, own], model, tokenizer, 0.8, 0,
                                             tmp_path / "known")
    assert untouched is public
    counts = Counter(" ".join(text.split()[:2]) for text in kept.texts)
    # Sure and right, or flat where no feeling is: the rest are lines to learn from.
    assert 5 < counts["clear joy"] < 40 and 5 < counts[f"dim {NONE}"] < 40
    assert all(counts[kind] == 100 for kind in ("dim joy", "clear anger", "dim anger",
                                                f"clear {NONE}"))
    assert [lines[int(i)].text for i in kept.weights] == kept.texts
    assert np.array_equal(kept.vectors[:, 0], kept.weights)
    assert np.array_equal(kept.targets, public.targets[kept.weights.astype(int)])
    monkeypatch.delattr(finetune, "logits_of")  # a run that goes on asks nothing again
    again = finetune.without_known([own], model, tokenizer, 0.8, 0, tmp_path / "known")[0]
    assert again.texts == kept.texts


def test_only_a_start_that_knows_the_classes_can_leave_lines_out(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    call = ["--train", str(files / "train.tsv"), "--epochs", "2", "--leave-out", "0.8"]
    with pytest.raises(SystemExit):
        finetune.main([*call, "--start-from", str(start), "--run-dir", str(tmp_path / "run"),
                       "--out", str(tmp_path / "out")])
    assert "has not learned our ten classes" in capsys.readouterr().err
    finetune.main([*call[:-2], "--start-from", str(start), "--run-dir", str(tmp_path / "first"),
                   "--out", str(tmp_path / "taught")])
    mapped = ["--mapped", str(files / "set.train.tsv"), "--label-map", str(files / "map.tsv")]
    finetune.main([*call, *mapped, "--start-from", str(tmp_path / "taught"), "--run-dir",
                   str(tmp_path / "second"), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().out.count("lines are left out") == 1  # ours, not the mapped ones


def test_every_epoch_has_as_many_batches_and_can_be_entered_anywhere(tokenizer, texts):
    source = sources.emotion_source([finetune.LabelledLine("joy", "ko", "easy", "", text)
                                     for text in texts] * 60)

    def data():
        return sources.LabelledData([source], tokenizer, 96, 0, varied=0.9, resplit=0.3,
                                    hidden=0.2)

    whole = data()
    drawn = list(islice(whole.batches(0, 0), 4 * whole.num_batches))
    assert [epoch for epoch, _, _ in drawn] == sorted([0, 1, 2, 3] * whole.num_batches)
    assert len({len(whole.plan(epoch)) for epoch in range(8)}) > 1  # they do differ by themselves
    late = list(islice(data().batches(2, 5), whole.num_batches))
    for (epoch, number, batch), expected in zip(late, drawn[2 * whole.num_batches + 5:],
                                                strict=False):
        assert (epoch, number) == expected[:2]
        assert np.array_equal(batch.ids, expected[2].ids)


def test_a_classifier_teaches_the_vector_it_decides_by(files, tmp_path):
    tokenizer = load_checkpoint(small_start(files, tmp_path / "start")).tokenizer
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=64, id2label=KEYS)
    save_checkpoint(tmp_path / "judge",
                    untrained(config, BertForSequenceClassification, 2), tokenizer)
    judge = load_checkpoint(tmp_path / "judge")
    vector = teachers.teacher_vectors(judge, ["오늘 좋았다"])[0]
    batch = tokenizer.pad(tokenizer.encode_many(["오늘 좋았다"]))
    pooled = judge.model.bert(torch.from_numpy(batch.ids), None, None).pooled[0].detach().numpy()
    np.testing.assert_allclose(vector, pooled / np.linalg.norm(pooled), atol=2e-3)


def judge_of(start, folder):
    """A classifier to learn from, with its own shape."""
    tokenizer = load_checkpoint(start).tokenizer
    config = BertConfig(vocab_size=len(tokenizer), hidden_size=48, num_hidden_layers=1,
                        num_attention_heads=2, intermediate_size=64, initializer_range=0.2,
                        id2label=KEYS)
    save_checkpoint(folder, untrained(config, BertForSequenceClassification, 2), tokenizer)
    return folder


def test_labels_and_a_teachers_vectors_are_learned_in_one_pass(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--parallel",
                   str(files / "parallel.tsv"), "--teacher", str(judge_of(start, tmp_path / "t")),
                   "--run-dir", str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--epochs",
                   "40", "--batch-tokens", "256", "--learning-rate", "3e-3", "--warmup", "5",
                   "--report-every", "1"])
    history = reports(tmp_path / "run")
    assert history[-1]["vector_loss"] < 0.5 * history[0]["vector_loss"]
    assert history[-1]["emotion_loss"] < history[0]["emotion_loss"]
    names = set(load_checkpoint(tmp_path / "out").model.state_dict())
    assert not [name for name in names if "vector" in name]


def test_a_korean_line_has_the_vector_of_its_rendering_and_none_without(files, tmp_path):
    judge = judge_of(small_start(files, tmp_path / "start"), tmp_path / "judge")
    texts = ["thank you", "고마워", "비가 온다"]
    source = sources.Source("emotion", texts, np.zeros((3, 10)), np.ones(3), is_exclusive=True)
    [taught] = finetune.with_vectors([source], {"고마워": "thank you"}, [judge], 16, tmp_path / "c")
    assert np.array_equal(taught.vectors[0], taught.vectors[1])
    assert taught.vectors[0].any() and not taught.vectors[2].any()


def test_a_teacher_without_a_line_it_can_read_is_one_sentence(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    with pytest.raises(SystemExit) as stopped:
        finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"),
                       "--languages", "ko", "--teacher", str(judge_of(start, tmp_path / "t")),
                       "--run-dir", str(tmp_path / "run"), "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2 and "--teacher reads English" in capsys.readouterr().err


def test_only_the_lines_of_the_languages_asked_for_are_learned(files, tmp_path, capsys):
    start = small_start(files, tmp_path / "start")
    answer = {"probabilities": dict.fromkeys(KEYS, 0.1)}
    (tmp_path / "answers.jsonl").write_text("".join(
        json.dumps({"text": text, **answer}) + "\n" for text in (LINES["joy"][0], " unheard ")),
        encoding="utf-8")
    call = ["--start-from", str(start), "--train", str(files / "train.tsv"), "--taught",
            str(tmp_path / "answers.jsonl"), "--run-dir", str(tmp_path / "run"), "--out",
            str(tmp_path / "out"), "--max-steps", "1"]
    languages = {line.text: line.language for line in read_labelled(files / "train.tsv")}
    left_out = languages[LINES["joy"][0]]
    other = {"ko": "en", "en": "ko"}[left_out]
    finetune.main([*call, "--languages", other])
    said = capsys.readouterr().out
    assert f"{list(languages.values()).count(other)} own lines" in said
    assert "1 lines with a teacher's answer only" in said  # not the one that was left out
    with pytest.raises(SystemExit):
        finetune.main([*call, "--languages", "xx", "--dev", str(files / "train.tsv")])
    assert "--dev has no line in xx" in capsys.readouterr().err


def test_a_line_may_be_longer_than_the_model_reads(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    (tmp_path / "long.tsv").write_text(
        "label\tlang\tlevel\tpair\ttext\njoy\ten\teasy\t\t" + "so happy today " * 40 + "\n",
        encoding="utf-8")
    finetune.main(["--start-from", str(start), "--train", str(tmp_path / "long.tsv"), "--longest",
                   "64", "--teacher", str(judge_of(start, tmp_path / "t")), "--run-dir",
                   str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--max-steps", "1"])
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_report_that_was_cut_off_does_not_stop_a_run_from_going_on(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    call = ["--start-from", str(start), "--train", str(files / "train.tsv"), "--run-dir",
            str(tmp_path / "run"), "--out", str(tmp_path / "out"), "--report-every", "1"]
    finetune.main([*call, "--max-steps", "1"])
    with (tmp_path / "run" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"step": 2, "emotion_lo')
    finetune.main([*call, "--max-steps", "2"])
    assert [report["step"] for report in reports(tmp_path / "run")] == [1, 2]


def test_the_last_weights_of_a_run_are_kept_beside_the_best(files, tmp_path):
    start = small_start(files, tmp_path / "start")
    finetune.main(["--start-from", str(start), "--train", str(files / "train.tsv"), "--dev",
                   str(files / "train.tsv"), "--run-dir", str(tmp_path / "run"), "--out",
                   str(tmp_path / "out"), "--epochs", "2"])
    state = load_file(tmp_path / "run" / "state.safetensors")
    last = load_checkpoint(tmp_path / "run" / "last").model.state_dict()
    assert (tmp_path / "run" / "best").is_dir()
    assert (tmp_path / "run" / "last" / "metrics.json").read_bytes() == (
        tmp_path / "out" / "metrics.json").read_bytes()
    assert torch.equal(last["classifier.weight"], state["model.main.classifier.weight"])


# ------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(("command", "arguments", "complaint"), [
    (train_tokenizer, ["--text", "nowhere.txt", "--out", "x"], "nowhere.txt is not there"),
    (pretrain, ["--tokenizer", "nowhere", "--run-dir", "r", "--out", "o"], "no text"),
    (pretrain, ["--tokenizer", "nowhere", "--lines", "a", "--run-dir", "r", "--out", "o"],
     "nowhere/tokenizer.json is missing"),
    (pretrain, ["--steps", "many"], "invalid int value"),
    (finetune, ["--start-from", "x", "--run-dir", "r", "--out", "o"], "nothing to learn from"),
    (finetune, ["--start-from", "x", "--mapped", "f", "--run-dir", "r", "--out", "o"],
     "--label-map"),
    (finetune, ["--start-from", "x", "--train", "gone.tsv", "--run-dir", "r", "--out", "o"],
     "gone.tsv is not there"),
    (distill, ["--teacher", "t", "--start-from", "x", "--run-dir", "r", "--out", "o"],
     "nothing to learn from"),
    (finetune, ["--start-from", "x", "--run-dir", "r", "--out", "o", "--epochs", "0"],
     "--epochs is 0"),
    (finetune, ["--start-from", "x", "--run-dir", "r", "--out", "o", "--teacher-share", "2"],
     "--teacher-share is 2.0"),
    (distill, ["--teacher", "t", "--start-from", "x", "--run-dir", "r", "--out", "o",
               "--mask-rate", "2"], "--mask-rate is 2.0"),
    (distill, ["--teacher", "t", "--start-from", "x", "--run-dir", "r", "--out", "o",
               "--longest", "1"], "--longest is 1"),
    (baseline, ["--checkpoint", "nowhere"], "nowhere is not there"),
    (baseline, ["--train", "--answers", "a.jsonl"], "nothing to learn from"),
    (baseline, ["--answers", "a.jsonl", "--folds", "1"], "--folds must be at least 2, not 1"),
    (baseline, ["--mapped", "x"], "--label-map"),
    (evaluate, ["--data", "gone.tsv"], "gone.tsv is not there"),
    (evaluate, ["--public", "x"], "--label-map"),
    (evaluate, ["--ablation", "a/last", "ko", "--ablation", "b/last"],
     "two of the folders are called 'last'"),
    (finetune, ["--start-from", "x", "--taught", "gone.jsonl", "--run-dir", "r", "--out", "o"],
     "gone.jsonl is not there"),
    (distill, ["--teacher", "t", "--start-from", "x", "--run-dir", "r", "--out", "o",
               "--max-steps", "0"], "--max-steps is 0"),
])
def test_a_wrong_call_gets_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys, command,
                                                    arguments, complaint):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        command.main(arguments)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert error.count("\n") == 1 and complaint in error
    assert list(tmp_path.iterdir()) == []
