"""`baseline`: the linear model on the same lines as the network."""

import json
import shutil

import pytest

from bert.commands.baseline import contrast_scores
from bert.emotions import KEYS


class Always:
    """A linear model with one answer."""

    def predict(self, texts):
        return ["joy" for _ in texts]


@pytest.fixture
def contrast(tmp_path):
    path = tmp_path / "contrast.tsv"
    path.write_text("split\tgroup\taccepted\tlang\ttext\n"
                    "test\tshort\tjoy\tko\t신난다\ntest\tirony\tanger\tko\t퍽이나 신난다\n"
                    "test\tmixed\tsadness,joy\ten\tglad and sad\n"
                    "test\tshort\tnone\ten\tit is noon\ndev\tshort\tanger\ten\tgrr\n",
                    encoding="utf-8")
    return path


def test_contrast_lines_with_a_feeling_are_scored_by_language_and_group(contrast):
    assert contrast_scores(Always(), contrast) == {
        "ko": {"all": 0.5, "short": 1.0, "irony": 0.0}, "en": {"all": 1.0, "mixed": 1.0}}


def test_the_linear_model_stands_beside_the_network(call, emotion_folder, contrast, tmp_path):
    folder = shutil.copytree(emotion_folder, tmp_path / "model")
    lines = tmp_path / "lines.tsv"
    rows = [f"{key}\ten\teasy\t\tthis line is about {key} number {n}" for n in range(8)
            for key in KEYS]
    lines.write_text("\n".join(["label\tlang\tlevel\tpair\ttext", *rows]) + "\n",
                     encoding="utf-8")
    done = call("baseline", "--train", lines, "--test", lines, "--contrast", contrast,
                "--checkpoint", folder)
    assert done.code == 0 and done.out.count("en mixed") == 4
    found = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert found["baselines"]["linear model"]["en"]["easy"] > 0.9
    assert found["baseline"]["contrast"].keys() == {"ko", "en"}
    assert found["baseline"]["data"].keys() == {"lines.tsv", "contrast.tsv"}
    assert found["baseline"]["seed"] == 0 and list(found["learning_curve"]) == [
        "0.125", "0.25", "0.5", "1.0"]
