"""`evaluate` as people call it: one run measures everything that lies beside the test lines."""

import json
import shutil

import pytest

CONTRAST = """split	group	accepted	lang	text
dev	short	joy	ko	개발용
test	short	joy	ko	첫눈이 와서 신나게 뛰어다녔다
test	negation	sadness,none	en	She left and the house is empty
test	mixed	anger,joy	en	They blamed me for their own mistake
"""
CLOZE = """lang	text	answer
en	We laughed all [MASK] at the concert	night
"""


def table(rows):
    return "\n".join(["label\tlang\tlevel\tpair\ttext", *rows]) + "\n"


@pytest.fixture
def folder(emotion_folder, tmp_path):
    return shutil.copytree(emotion_folder, tmp_path / "model")


@pytest.fixture
def data(lines, tmp_path):
    """A folder like assets/data."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [f"{label}\t{language}\teasy\t\t{text}" for label, pair in lines.items()
            for language, text in zip(("ko", "en"), pair, strict=True)]
    (folder / "test.tsv").write_text(table(rows), encoding="utf-8")
    (folder / "personas.tsv").write_text(table(rows[:4]), encoding="utf-8")
    (folder / "contrast.tsv").write_text(CONTRAST, encoding="utf-8")
    (folder / "cloze.tsv").write_text(CLOZE, encoding="utf-8")
    return folder


def metrics(folder):
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


def test_one_run_measures_everything_that_ships(call, folder, data):
    done = call("evaluate", "--checkpoint", folder, "--data", data / "test.tsv")
    assert done.code == 0
    found = metrics(folder)["evaluate"]
    assert found["command"].startswith("python -m bert evaluate") and found["seed"] == 0
    assert found["data"].keys() == {"test.tsv"}
    assert found["more"]["personas.tsv"]["ko"] == {"easy": 1.0}
    assert found["contrast"]["languages"] == {
        "ko": {"all": 1.0, "short": 1.0}, "en": {"all": 1.0, "negation": 1.0, "mixed": 1.0}}
    assert found["contrast"]["split"] == found["two_feelings"]["split"] == "test"
    assert found["two_feelings"]["languages"]["en"]["lines"] == 1
    for part in (found["more"]["personas.tsv"], found["contrast"], found["two_feelings"]):
        assert len(part["checksum"]) == 16
    assert "public" in found and found["public"] == {} and "llm_labels" not in found


def test_the_table_has_a_row_for_every_figure(call, folder, data):
    shown = call("evaluate", "--checkpoint", folder, "--data", data / "test.tsv", "--dry").out
    rows = {row[:36].strip(): row[36:].split() for row in shown.splitlines()}
    assert rows["measure"] == ["ko", "en"]
    assert rows["accuracy"] == ["1.000", "1.000"]
    assert rows["contrast: short"] == ["1.000", "–"]
    assert rows["personas.tsv: easy"] == ["1.000", "1.000"]
    assert rows["two feelings: lines"] == ["–", "1"]
    assert {"calibration error", "robustness: typo", "recall easy: joy"} <= rows.keys()
    assert not (folder / "metrics.json").exists()


def test_what_is_not_there_is_not_measured_and_what_is_asked_for_must_be(call, folder, data):
    for name in ("personas.tsv", "contrast.tsv"):
        (data / name).unlink()
    asked = ("evaluate", "--checkpoint", folder, "--data", data / "test.tsv")
    assert call(*asked).code == 0
    found = metrics(folder)["evaluate"]
    assert found["more"] == {} and "contrast" not in found and "two_feelings" not in found
    done = call(*asked, "--contrast", data / "contrast.tsv")
    assert done.code == 2 and "contrast.tsv" in done.err and done.err.count("\n") == 1


def test_the_dev_lines_of_the_contrast_set_can_be_measured_instead(call, folder, data):
    assert call("evaluate", "--checkpoint", folder, "--data", data / "test.tsv",
                "--contrast-split", "dev").code == 0
    found = metrics(folder)["evaluate"]["contrast"]
    assert (found["split"], found["lines"]) == ("dev", 1)


def test_a_dry_run_reads_little_and_leaves_nothing(call, folder, data):
    before = sorted(path.name for path in folder.iterdir())
    done = call("evaluate", "--checkpoint", folder, "--data", data / "test.tsv", "--max-steps", 1)
    assert done.code == 0 and sorted(path.name for path in folder.iterdir()) == before


def test_a_pretrained_checkpoint_is_asked_for_hidden_words(call, pretrained_folder, data, tmp_path):
    folder = shutil.copytree(pretrained_folder, tmp_path / "pretrained")
    asked = ("evaluate", "--pretrained", folder, "--data", data / "test.tsv")
    done = call(*asked)
    assert done.code == 0 and "among the first ten guesses, en" in done.out
    assert metrics(folder)["cloze"]["languages"]["en"]["sentences"] == 1
    (data / "cloze.tsv").unlink()
    (folder / "metrics.json").unlink()
    done = call(*asked)
    assert done.code == 2 and "has not been measured yet: give --sources" in done.err


def test_public_sets_need_a_map(call, folder, data):
    done = call("evaluate", "--checkpoint", folder, "--data", data / "test.tsv", "--public", "a")
    assert done.code == 2 and "--public needs --label-map" in done.err
