"""Checkpoints that somebody made to do harm: each is refused in one sentence and little memory."""

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asking import is_sentence
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parent.parent

LOADING = """
import json, resource, sys
from bert.checkpoint import load_checkpoint
load_checkpoint(sys.argv[1])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 400_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for folder in sys.argv[2:]:
    try:
        load_checkpoint(folder)
        print(json.dumps("loaded"))
    except (ValueError, OSError) as error:
        print(json.dumps(str(error)))
"""
MARK = "a pickle was here"


class Pickled:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.system, (f"touch '{MARK}'",)


def weights_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, which may lie about its length."""
    described = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(described) if length is None else length) + described + data


def tensor(shape: list[int], end: int, kind: str = "F32") -> dict:
    return {"classifier.weight": {"dtype": kind, "shape": shape, "data_offsets": [0, end]}}


def pickled() -> bytes:
    import pickle
    return pickle.dumps(Pickled())


BAD_WEIGHTS = {
    "a pickle": pickled(),
    "a pickle after a header": weights_file({}, pickled()),
    "a header of 10 GB": weights_file({}, length=10**10),
    "a header of 2⁶³": weights_file({}, length=2**63),
    "a shape of 4 TB": weights_file(tensor([10**6, 10**6], 4 * 10**12)),
    "a shape beyond 64 bits": weights_file(tensor([2**62, 8], 4), b"\0" * 4),
    "a shape of nothing times much": weights_file(tensor([0, 10**18], 0)),
    "a negative shape": weights_file(tensor([-1], 4), b"\0" * 4),
    "a number type of its own": weights_file(tensor([1], 4, "F1024"), b"\0" * 4),
    "a deep header": weights_file(b'{"a":' * 50_000),
    "a header of 50 MB": weights_file(b" " * 50_000_000),
    "a million names": weights_file(
        {f"bert.{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
         for n in range(100_000)}),
    "a name of many lines": weights_file({"a\nb\nc": tensor([1], 4)["classifier.weight"]},
                                         b"\0" * 4),
}
BAD_CONFIGS = {
    "10⁹ layers": {"num_hidden_layers": 10**9}, "10¹² pieces": {"vocab_size": 10**12},
    "10⁹ places": {"max_position_embeddings": 10**9}, "a width of 10⁴⁰⁰": {"hidden_size": 10**400},
    "the largest of everything": {
        "vocab_size": 1_000_000, "hidden_size": 16_384, "num_hidden_layers": 256,
        "num_attention_heads": 256, "intermediate_size": 131_072,
        "max_position_embeddings": 65_536},
    "infinite heads": {"num_attention_heads": float("inf")},
    "a million classes": {"id2label": {str(n): f"class {n}" for n in range(100_000)}},
    "classes that are no names": {"id2label": {"0": [[]], "1": {}}},
    "classes without order": {"id2label": {"7": "joy"}},
    "a name of many lines": {"one\ntwo": 1}, "a type of many lines": {"model_type": "a\nb"},
    "an activation that is no name": {"hidden_act": ["gelu"]},
}
BAD_TOKENIZERS: dict[str, Callable[[dict], Any]] = {
    "nothing": lambda all: {}, "a list": lambda all: [1], "no model": lambda all: {"model": None},
    "another model": lambda all: {**all, "model": {"type": "BPE", "vocab": {}, "merges": []}},
    "no vocabulary": lambda all: {**all, "model": {**all["model"], "vocab": {}}},
    "a vocabulary of nothing known": lambda all: {**all, "model": {
        **all["model"], "vocab": {"a": 0}}},
    "an id of 2³²": lambda all: {**all, "model": {
        **all["model"], "vocab": {**all["model"]["vocab"], "a word": 2**32 - 1}}},
    "a negative id": lambda all: {**all, "model": {
        **all["model"], "vocab": {**all["model"]["vocab"], "a word": -1}}},
    "no unknown token": lambda all: {**all, "model": {**all["model"], "unk_token": "nowhere"}},
    "words without end": lambda all: {**all, "model": {
        **all["model"], "max_input_chars_per_word": 10**9}},
    "a text a million times as long": lambda all: {**all, "normalizer": {
        "type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"},
                                             "content": "aa"}] * 20}},
    "a table that ends the process": lambda all: {**all, "normalizer": {
        "type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "pieces of length nothing": lambda all: {**all, "pre_tokenizer": {
        "type": "FixedLength", "length": 0}},
    "a broken expression": lambda all: {**all, "pre_tokenizer": {
        "type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False}},
    "a part that is a list": lambda all: {**all, "normalizer": {"type": ["NFC"]}},
    "a part of many lines": lambda all: {**all, "normalizer": {"type": "N\nF\nC"}},
}


@pytest.fixture(scope="module")
def refusals(emotion_folder, tmp_path_factory) -> dict[str, str]:
    """What is said to each bad folder by a process that may use little more memory than it needs
    for a good one."""
    place = tmp_path_factory.mktemp("bad")

    def folder(kind: str, name: str) -> Path:
        return shutil.copytree(emotion_folder, place / f"{kind}: {name}")

    for name, content in BAD_WEIGHTS.items():
        (folder("weights", name) / "model.safetensors").write_bytes(content)
    settings = json.loads((emotion_folder / "config.json").read_text(encoding="utf-8"))
    for name, changes in BAD_CONFIGS.items():
        (folder("config", name) / "config.json").write_text(json.dumps({**settings, **changes}))
    described = json.loads((emotion_folder / "tokenizer.json").read_text(encoding="utf-8"))
    for name, change in BAD_TOKENIZERS.items():
        (folder("tokenizer", name) / "tokenizer.json").write_text(json.dumps(change(described)))
    for name in ("config.json", "tokenizer.json"):
        with (folder("3 GB of", name) / name).open("wb") as file:
            file.truncate(3 * 10**9)  # on disk it is empty
    names = sorted(path.name for path in place.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", LOADING, emotion_folder, *(place / name for name in names)],
        cwd=place, capture_output=True, text=True, env={
            **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert not (place / MARK).exists(), "code from a checkpoint ran"
    assert done.stderr == ""
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
@pytest.mark.parametrize("name", [
    *(f"weights: {name}" for name in BAD_WEIGHTS), *(f"config: {name}" for name in BAD_CONFIGS),
    *(f"tokenizer: {name}" for name in BAD_TOKENIZERS), "3 GB of: config.json",
    "3 GB of: tokenizer.json"])
def test_a_bad_checkpoint_is_refused_in_one_sentence_and_little_memory(refusals, name):
    assert refusals[name] != "loaded"
    assert is_sentence(refusals[name].replace(name, "").strip()), refusals[name]
    assert name in refusals[name]  # the folder is in the sentence


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float64"])
def test_numbers_of_other_sizes_are_read_as_float32(classifier, emotion_folder, tmp_path, kind):
    import torch
    folder = shutil.copytree(emotion_folder, tmp_path / "other")
    weights = load_file(folder / "model.safetensors")
    changed = weights["bert.pooler.dense.bias"].to(getattr(torch, kind))
    save_file({**weights, "bert.pooler.dense.bias": changed}, folder / "model.safetensors")
    found = type(classifier).load(folder).model.bert.pooler.dense.bias
    assert found.dtype == torch.float32 and torch.equal(found, changed.float())
