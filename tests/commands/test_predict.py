import csv
import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import bert.commands.predict
from bert.classifier import EMPTY, EmotionClassifier
from bert.emotions import EMOTIONS, KEYS, display_name

ROOT = Path(__file__).parent.parent.parent
TEXT = "드디어 마라톤을 완주했다 😀"

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
    monkeypatch.setattr(bert.commands.predict, "LINES_AT_ONCE", 4)
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
    assert done.err.startswith("bert predict: ") and part in done.err
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
runpy.run_module("bert.commands.predict", run_name="__main__", alter_sys=True)
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
