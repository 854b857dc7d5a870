"""`fill` and `follows`: the two heads of pre-training, against transformers."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bert.classifier import EMPTY

FIRST, SECOND = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


@pytest.fixture(scope="session")
def without_nsp(lively_folder, tmp_path_factory):
    """The same folder, trained without the next-sentence task."""
    folder = tmp_path_factory.mktemp("mlm") / "mlm_only"
    shutil.copytree(lively_folder, folder)
    weights = {name: value for name, value in load_file(folder / "model.safetensors").items()
               if "seq_relationship" not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def candidates_of_theirs(theirs, tokenizer, text: str, is_inside: bool) -> dict[str, float]:
    """Every piece that may stand behind [MASK], by transformers' own head."""
    ids, place = tokenizer.encode_masked(text)
    with torch.inference_mode():
        logits = theirs(torch.tensor([ids])).prediction_logits[0, place].double().numpy()
    fits = {piece: logits[i] for i, piece in enumerate(tokenizer.vocabulary())
            if piece.startswith("##") == is_inside and i not in tokenizer.special_ids}
    total = np.exp(list(fits.values())).sum()
    return {piece: float(np.exp(logit) / total) for piece, logit in fits.items()}


@pytest.mark.parametrize(("text", "is_inside"), [
    ("They [MASK] me for their own mistake", False), ("[MASK]를 완주했다", False),
    ("They blam[MASK] me", True)])
def test_ten_candidates_best_first_as_transformers_scores_them(
        call, lively_folder, lively_theirs, tokenizer, text, is_inside):
    done = call("fill", text, "--json", "--checkpoint", lively_folder)
    assert (done.code, done.err, done.out.count("\n")) == (0, "", 1)
    answer = json.loads(done.out)
    assert list(answer) == ["text", "candidates"] and answer["text"] == text
    expected = candidates_of_theirs(lively_theirs, tokenizer, text, is_inside)
    found = [candidate["probability"] for candidate in answer["candidates"]]
    assert found == sorted(found, reverse=True) and len(found) == 10
    for candidate in answer["candidates"]:
        assert candidate["probability"] == pytest.approx(expected[candidate["piece"]], rel=1e-3)
    assert found[0] == pytest.approx(max(expected.values()), rel=1e-3)


def test_for_a_person_a_candidate_is_a_line(call, lively_folder):
    done = call("fill", "They [MASK] me", "--checkpoint", lively_folder)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert done.code == 0 and len(rows) == 10
    assert all(share.endswith("%") for _, share in rows)


@pytest.mark.parametrize(("first", "second"), [(FIRST, SECOND), (SECOND, SECOND)])
def test_whether_a_text_follows_is_what_transformers_says(call, lively_folder, lively_theirs,
                                                          tokenizer, first, second):
    done = call("follows", first, second, "--json", "--checkpoint", lively_folder)
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert list(answer) == ["first", "second", "follows"]
    encoding = tokenizer.encode(first, second, 40)
    with torch.inference_mode():
        logits = lively_theirs(torch.tensor([encoding.ids]), token_type_ids=torch.tensor(
            [encoding.segment_ids])).seq_relationship_logits[0]
    assert answer["follows"] == pytest.approx(float(logits.softmax(-1)[0]), abs=1e-5)
    done = call("follows", first, second, "--checkpoint", lively_folder)
    assert done.out == f"{answer['follows']:.1%}\n"


def test_a_file_has_an_answer_or_an_error_in_the_place_of_each_line(call, lively_folder, tmp_path):
    (tmp_path / "masks.txt").write_text("They [MASK] me\nnothing hidden\n[MASK] [MASK]\n",
                                        encoding="utf-8")
    done = call("fill", "--input", tmp_path / "masks.txt", "--json", "--checkpoint", lively_folder)
    first, second, third = map(json.loads, done.out.splitlines())
    assert done.code == 0 and len(first["candidates"]) == 10
    assert second["text"] == "nothing hidden" and "[MASK]" in second["error"]
    assert "candidates" not in third and "error" in third
    (tmp_path / "pairs.tsv").write_text(f"{FIRST}\t{SECOND}\nalone\n\n", encoding="utf-8")
    done = call("follows", "--input", tmp_path / "pairs.tsv", "--json", "--checkpoint",
                lively_folder)
    first, second, third = map(json.loads, done.out.splitlines())
    assert done.code == 0 and 0 < first["follows"] < 1
    assert second == {"first": "alone", "second": "", "error": EMPTY}
    assert third == {"first": "", "second": "", "error": EMPTY}


@pytest.mark.parametrize(("command", "arguments", "part"), [
    ("fill", (), "give text, or --input FILE"),
    ("fill", ("They [MASK]", "--input", "-"), "give text, or --input FILE"),
    ("fill", ("nothing hidden",), "[MASK]"),
    ("fill", ("[MASK] and [MASK]",), "[MASK]"),
    ("fill", ("[MASK]" + " door" * 100,), "pieces: this model reads 40"),
    ("fill", ("--input", "gone.txt"), "gone.txt"),
    ("follows", (), "give first and second, or --input FILE"),
    ("follows", ("alone",), "give first and second, or --input FILE"),
    ("follows", ("one", "two", "--input", "-"), "give first and second, or --input FILE"),
    ("follows", ("one", " "), EMPTY)])
def test_a_wrong_call_is_one_line_and_exit_code_two(call, lively_folder, command, arguments, part):
    done = call(command, "--checkpoint", lively_folder, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"bert {command}: ") and part in done.err
    assert done.err.count("\n") == 1


def test_a_folder_without_the_head_says_so_before_any_line(call, emotion_folder, without_nsp,
                                                           tmp_path):
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\td\n")
    for command, arguments, folder, part in (
            ("fill", ("a [MASK]",), emotion_folder, "has no masked-language-model head"),
            ("follows", ("a", "b"), without_nsp, "mlm_only has no next-sentence head"),
            ("follows", ("--input", tmp_path / "pairs.tsv"), without_nsp, "no next-sentence")):
        done = call(command, *arguments, "--checkpoint", folder)
        assert (done.code, done.out) == (2, "") and part in done.err
