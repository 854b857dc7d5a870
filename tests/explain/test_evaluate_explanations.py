"""`evaluate --explanations`, `--heads`, `--pruning` and `--lens`: what they print and what they
leave behind."""

import json
import shutil

import pytest

from bert.classifier import EmotionClassifier
from bert.explain.faithfulness import METHODS
from bert.explain.heads import load_heads
from bert.explain.tuned_lens import TunedLens


@pytest.fixture
def folder(emotion_folder, tmp_path):
    return shutil.copytree(emotion_folder, tmp_path / "model")


@pytest.fixture
def data(lines, tmp_path):
    path = tmp_path / "lines.tsv"
    rows = [f"{label}\t{language}\teasy\t\t{text}" for label, pair in lines.items()
            for language, text in zip(("ko", "en"), pair, strict=True)]
    path.write_text("\n".join(["label\tlang\tlevel\tpair\ttext", *rows]) + "\n", encoding="utf-8")
    return path


def test_the_league_table_goes_into_the_metrics(call, folder, data):
    done = call("evaluate", "--checkpoint", folder, "--data", data, "--explanations", 3)
    assert done.code == 0 and "occlusion_mask" in done.out
    found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["explanations"]
    assert found["seed"] == 0 and found["data"].keys() == {"lines.tsv"}
    for language in ("ko", "en"):
        assert found["languages"][language]["texts"] == 3
        assert found["languages"][language]["methods"].keys() == METHODS.keys()


def test_the_pruning_curve_goes_into_the_metrics(call, folder, data):
    done = call("evaluate", "--checkpoint", folder, "--data", data, "--pruning", 4)
    assert done.code == 0 and "heads can go while 95% of the answers stay" in done.out
    found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["pruning"]
    assert found["seed"] == 0 and found["data"].keys() == {"lines.tsv"}
    assert found["command"].startswith("python -m bert evaluate")
    assert [own["texts"] for own in found["languages"].values()] == [4, 4]
    assert all(len(own["unchanged"]) == 5 for own in found["languages"].values())


def test_heads_and_lens_leave_their_files(call, folder, data):
    done = call("evaluate", "--checkpoint", folder, "--data", data, "--heads", "--lens", data)
    assert done.code == 0 and "after layer 2" in done.out
    classifier = EmotionClassifier.load(folder)
    assert load_heads(classifier)["languages"]["en"]["texts"] == 10
    assert TunedLens.load(classifier).bias.shape == (2, 32)
    known = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert known["tuned_lens"]["held_out_lines"] == 2


def test_a_dry_run_leaves_nothing(call, folder, data):
    before = sorted(path.name for path in folder.iterdir())
    done = call("evaluate", "--checkpoint", folder, "--data", data, "--explanations", "--heads",
                "--pruning", "--lens", data, "--max-steps", 1)
    assert done.code == 0 and "ko, 1 texts" in done.out
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize(("arguments", "part"), [
    (["--explanations", "0"], "0 lines: expected at least 1"),
    (["--lens", "gone.tsv"], "gone.tsv"),
])
def test_a_wrong_call_is_one_line(call, folder, data, arguments, part):
    done = call("evaluate", "--checkpoint", folder, "--data", data, *arguments)
    assert done.code == 2 and part in done.err and done.err.count("\n") == 1


def test_a_checkpoint_without_classifier_has_heads_but_no_explanations(call, pretrained_folder,
                                                                       data):
    asked = ("evaluate", "--checkpoint", pretrained_folder, "--data", data, "--max-steps", 1)
    assert call(*asked, "--heads").code == 0
    done = call(*asked, "--explanations")
    assert done.code == 2 and "no classifier" in done.err
