"""Many lines through the engines made for that: `datasets.map` in two processes, and `pipeline`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bert.training.examples import read_labelled

ROOT = Path(__file__).parent.parent
EMOTION = ROOT / "checkpoints" / "emotion"
# The lines of the README; the file's name is the argument.
MAPPED = """
from functools import cache

import torch
from datasets import load_dataset
from bert.classifier import EmotionClassifier

@cache  # each process loads its own: threads of torch do not survive a fork
def classifier():
    torch.set_num_threads(1)
    return EmotionClassifier.load("checkpoints/emotion")

lines = load_dataset("text", data_files=sys.argv[1], split="train", cache_dir=sys.argv[2])
labelled = lines.map(lambda batch: {"label": [answer.label for answer in
                     classifier().predict_many(batch["text"])]}, batched=True, num_proc=2)
"""
PIPED = """
from transformers import pipeline

classify = pipeline("text-classification", model="checkpoints/emotion", truncation=True)
labelled = {"label": [answer["label"] for answer in classify(texts, batch_size=64)]}
"""


def labels_of(script: str, *arguments: object) -> list[str]:
    """What a script has put into `labelled`, in a process of its own."""
    begin = "import json, sys\ntexts = open(sys.argv[1], encoding='utf-8').read().splitlines()\n"
    end = "\nprint(json.dumps(list(labelled['label'])))"
    done = subprocess.run([sys.executable, "-c", begin + script + end, *map(str, arguments)],
                          cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("count", [100, pytest.param(2_000, marks=pytest.mark.full)])
def test_a_corpus_gets_the_same_labels_from_every_engine(run, tmp_path, count):
    lines = [line.text for name in ("test", "personas") for line in
             read_labelled(ROOT / "assets" / "data" / f"{name}.tsv")]
    texts = lines[::len(lines) // count][:count]
    assert len(texts) == count
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    done = run("predict", "--input", tmp_path / "texts.txt", "--json")
    expected = [json.loads(row)["label"] for row in done.out.splitlines()]
    assert len(expected) == count and len(set(expected)) > 5
    assert labels_of(MAPPED, tmp_path / "texts.txt", tmp_path / "cache") == expected
    assert labels_of(PIPED, tmp_path / "texts.txt") == expected
