"""What the studies share: options, the wire format, the list."""

import json
import re
from importlib import import_module

import numpy as np
import pytest

from bert.classifier import EmotionClassifier
from bert.drawing.texts import LANGUAGES, PAGE
from bert.emotions import OTHER_COLOURS
from bert.errors import UserError
from bert.studies import STUDIES
from bert.studies.base import (
    HeadOptions,
    Matrix,
    Number,
    StudyContext,
    Text,
    class_list,
    plain,
    unpack,
)


class SomeOptions(HeadOptions):
    token: Number = 7
    second: Text = "none"


# ---------------------------------------------------------------------------------- the list


def test_a_study_is_one_module_one_script_and_one_file_of_texts_of_its_name():
    assert {path.stem for path in (PAGE / "studies").glob("*.js")} == set(STUDIES)
    assert {path.stem for path in (PAGE / "texts").glob("*.json")} == {
        *STUDIES, "page", "glossary", "replies", "tour"}
    for name, study in STUDIES.items():
        assert study.name == name and import_module(f"bert.studies.{name}").STUDY is study


@pytest.mark.parametrize("name", STUDIES)
def test_the_strings_of_a_study_begin_with_its_name(name):
    strings = json.loads((PAGE / "texts" / f"{name}.json").read_text(encoding="utf-8"))
    for language in LANGUAGES:
        assert all(re.match(rf"(study_)?{name}(_|$)", key) for key in strings[language])


@pytest.mark.parametrize("name", STUDIES)
def test_no_study_imports_another(name):
    source = import_module(f"bert.studies.{name}")
    with open(source.__file__, encoding="utf-8") as file:
        found = set(re.findall(r"^from bert\.studies\.(\w+) import", file.read(), re.MULTILINE))
    assert found <= {"base", "jobs"}


def test_the_page_knows_which_options_are_in_the_address_and_which_are_local():
    assert STUDIES["layer"].description() == {
        "options": ["token", "step"], "uses": ["layer", "head"], "local": ["step"]}
    assert STUDIES["teach"].description() == {"options": [], "uses": [], "local": []}


# ---------------------------------------------------------------------------------- options


@pytest.mark.parametrize("given", [3, 3.0, "3"])
def test_numbers_may_come_as_they_like(given):
    assert SomeOptions.read({"token": given, "layer": given}).token == 3
    assert SomeOptions.read({"layer": given}).layer == 3


@pytest.mark.parametrize("given", [
    None, True, "", "x", " 3", "+3", "3.5", "٣", 3.5, float("nan"), float("inf"), [3], {"a": 3},
    "9" * 5_000])
def test_what_is_no_number_becomes_the_default(given):
    found = SomeOptions.read({"token": given, "layer": given})
    assert (found.token, found.layer) == (7, None)


@pytest.mark.parametrize("given", [None, 3, "token=3", ["token", 3], {"unknown": 1}, {3: 4}])
def test_what_are_no_options_become_the_defaults(given):
    assert SomeOptions.read(given) == SomeOptions()


def test_layers_and_heads_that_do_not_exist_become_the_last_and_the_first(tiny_config):
    assert SomeOptions.read({"layer": 1, "head": 2}).chosen(tiny_config) == (1, 2)
    for given in ({}, {"layer": 0, "head": 3}, {"layer": -1, "head": 10**30}):
        assert SomeOptions.read(given).chosen(tiny_config) == (2, 1)


def test_texts_are_taken_as_they_are_and_refused_when_they_are_too_long():
    for text in ("", "a" * 5_000, "half \ud800"):
        assert SomeOptions.read({"second": text}).second == text
    assert SomeOptions.read({"second": 5}).second == "none"
    with pytest.raises(UserError, match="5,001 characters: at most 5,000 are read"):
        SomeOptions.read({"second": "a" * 5_001})


def test_options_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="frozen"):
        SomeOptions.read({}).token = 3


# ---------------------------------------------------------------------------------- wire format


def test_packed_weights_are_off_by_at_most_half_a_step(classifier):
    attentions = classifier("팀장님이라면 모두 칭찬해주셨다").attentions
    packed = plain(Matrix(attentions, "weights"))
    assert json.loads(json.dumps(packed)) == packed
    assert np.abs(unpack(packed) - attentions).max() <= 0.5 / 255 + 1e-6


def test_a_signed_matrix_keeps_its_zeros_and_its_largest_value():
    values = np.array([[0.0, -2.5, 1.0], [0.3, 0.0, 2.0]])
    packed = Matrix(values, "signed").pack()
    found = unpack(packed)
    assert packed["limit"] == 2.5 and found[0, 1] == -2.5
    assert found[0, 0] == found[1, 1] == 0
    assert np.abs(found - values).max() <= 2.5 / 254
    assert not unpack(Matrix(np.zeros((2, 2)), "signed").pack()).any()


def test_an_exact_matrix_keeps_every_bit():
    values = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    assert np.array_equal(unpack(plain(Matrix(values))), values)


def test_a_file_holds_all_numbers_of_a_matrix():
    values = np.array([[0.25, 1.0]])
    assert plain({"a": Matrix(values, "weights")}, in_full=True) == {"a": [[0.25, 1.0]]}
    assert np.array_equal(unpack([[0.25, 1.0]]), values)


# ---------------------------------------------------------------------------------- classes


def test_classes_that_are_not_ours_keep_their_key_and_get_a_colour():
    assert class_list(["joy", "boredom"])[1] == {
        "key": "boredom", "ko": "boredom", "en": "boredom", "colour": OTHER_COLOURS[1]}


# ---------------------------------------------------------------------------------- no classifier


@pytest.mark.parametrize("name", ["hidden", "qkv"])
def test_a_checkpoint_without_a_classifier_is_looked_into_as_well(pretrained_folder, name):
    context = StudyContext(EmotionClassifier.load(pretrained_folder))
    data = STUDIES[name].answer(context, "드디어 마라톤을 완주했다")
    assert data["tokens"][0] == "[CLS]"
    assert json.loads(json.dumps(data)) == data
