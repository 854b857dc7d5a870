"""The bench runs and gives ratios; what they are is not a matter of tests."""

import json
import math
import os

import numpy as np
import pytest

from bert.commands.bench_engines import agrees
from bert.errors import UserError
from bert.explain.faithfulness import METHODS


def figures(call, tmp_path, emotion_folder, *sections: str) -> list[dict]:
    """The rows of a quick run with the tiny model."""
    out = tmp_path / "speed.json"
    done = call("bench", *sections, "--quick", "--checkpoint", emotion_folder, "--out", out)
    assert done.code == 0, done.err
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert all(row["what"] in done.out and row["peer"] in done.out for row in rows)
    return rows


def peers(rows: list[dict]) -> set[str]:
    for row in rows:
        ratio = row["ratio"]
        assert row["rounds"] >= 1
        assert 0 <= ratio["low"] <= ratio["median"] <= ratio["high"] < math.inf
    return {row["peer"] for row in rows}


def test_the_model_is_measured_beside_its_peers_its_products_and_its_explanations(
        call, tmp_path, emotion_folder):
    rows = figures(call, tmp_path, emotion_folder, "model")
    engines = {f"{engine}, threads: {threads}" for engine in ("ONNX Runtime", "OpenVINO")
               for threads in {1, os.cpu_count()}}
    assert peers(rows) == {
        "transformers, eager", "pure matrix products", "transformers, pipeline", *engines,
        "ONNX Runtime, padded, sorted", "a product of 1024 × 1024", "one answer", "all its parts"}
    measured = " / ".join(row["what"] for row in rows)
    assert all(f"word scores, {name}, 16 tokens" in measured for name in METHODS)
    assert all(f"{name}, 16 tokens" in measured for name in (
        "head importance", "ablation map", "patching map", "processor time, tokenise",
        "processor time, forward", "processor time, patterns", "processor time, packing",
        "processor time, JSON"))


def test_an_engine_with_other_outputs_is_not_measured():
    wanted = [np.zeros((1, 3))]
    run = agrees(lambda: [np.full((1, 3), 1e-6)], wanted)
    assert len(run()) == 1
    with pytest.raises(UserError, match="differ by 1.0e-03"):
        agrees(lambda: [np.full((1, 3), 1e-3)], wanted)


def test_a_training_step_is_measured_beside_transformers_and_beside_the_peak(
        call, tmp_path, emotion_folder):
    rows = figures(call, tmp_path, emotion_folder, "training")
    assert peers(rows) == {"transformers, BertForPreTraining", "a product of 1024 × 1024"}
    assert [row["unit"] for row in rows] == ["tokens/s", "GFLOP/s"]


@pytest.mark.full
@pytest.mark.parametrize("section", ["start", "page", "load"])
def test_the_app_is_measured_beside_its_peers(section, call, tmp_path, emotion_folder):
    rows = figures(call, tmp_path, emotion_folder, section)
    assert peers(rows)
    assert {row["section"] for row in rows} == {section}


def test_a_file_that_bertviz_leaves_open_is_no_error(classifier):
    from bert.commands.bench_app import bertviz_bytes
    sizes = bertviz_bytes(classifier, "드디어 마라톤을 완주했다")
    assert sizes.keys() == {"BertViz, model_view", "BertViz, head_view"}
    assert min(sizes.values()) > 1_000


def test_an_unknown_section_is_refused_with_the_known_ones(call):
    done = call("bench", "modle")
    assert done.code == 2
    assert "'modle'" in done.err and "model, training, start, page, load" in done.err


def test_a_missing_peer_is_named_with_what_to_install(call, emotion_folder, monkeypatch):
    monkeypatch.setattr("bert.commands.measuring.find_spec", lambda module: None)
    done = call("bench", "model", "--checkpoint", emotion_folder)
    assert done.code == 2
    assert "transformers is not installed" in done.err
    assert "pip install -r tests/requirements.txt" in done.err


def test_a_ratio_is_the_median_over_the_rounds_with_its_quartiles():
    from bert.commands.measuring import Comparison
    row = Comparison("model", "work", "peer", "ms", [1, 2, 3, 4, 5], [2, 2, 2, 2, 2]).to_dict()
    assert row["ratio"] == {"median": 1.5, "low": 1.0, "high": 2.0}
    assert row["ours"]["median"] == 3


def test_texts_have_exactly_the_length_asked_for(classifier):
    from bert.commands.measuring import shuffled_words, text_of
    for tokens in (8, 16, 32):
        assert len(classifier.encode(text_of(classifier, tokens, shuffled_words(1))).ids) == tokens
