"""The examples of the page: what each of them claims is computed with the shipped checkpoint."""

from dataclasses import replace
from pathlib import Path

import pytest

from bert.classifier import EmotionClassifier
from bert.drawing.texts import LANGUAGES
from bert.emotions import KEYS
from bert.errors import UserError
from bert.page import gallery as gallery_module
from bert.page.gallery import (
    CLAIMS,
    GALLERY,
    STUDY_EXAMPLES,
    Example,
    _cards,
    check,
    choose,
    gallery,
    study_examples,
)
from bert.studies import STUDIES

EMOTION = Path(__file__).parents[2] / "checkpoints" / "emotion"
TASKS = ("masked_word", "next_sentence")
FOR_STUDIES = [example for tab in TASKS for language in LANGUAGES
               for example in study_examples(tab, language)]
EXAMPLES = {example.claim: example for example in (*gallery(), *FOR_STUDIES)}


@pytest.fixture(scope="module")
def shipped() -> EmotionClassifier:
    return EmotionClassifier.load(EMOTION)


@pytest.mark.parametrize("example", [*gallery(), *FOR_STUDIES], ids=lambda example: example.key)
def test_what_a_card_claims_is_so(shipped, example):
    assert check(example, shipped), (
        f"the shipped model no longer does what {example.key!r} claims of {example.text!r}: "
        "run python -m bert.page.gallery to choose another example")


def test_there_are_six_cards_and_each_has_enough_to_choose_from():
    assert len(gallery()) == len({example.claim for example in gallery()}) == 6
    assert set(EXAMPLES) == set(CLAIMS)
    for card in (*_cards(GALLERY), *_cards(STUDY_EXAMPLES)):
        assert len({candidate["text"] for candidate in card["candidates"]}) >= 8
        assert card["text"] in [candidate["text"] for candidate in card["candidates"]]


@pytest.mark.parametrize("example", [*gallery(), *FOR_STUDIES], ids=lambda example: example.key)
def test_a_card_speaks_both_languages_and_opens_a_view_with_its_options(example):
    assert set(example.title) == set(example.says) == set(LANGUAGES)
    assert example.language in LANGUAGES
    assert example.meant in (None, *KEYS, "follows", "random")
    if example.tab == "attention":
        assert set(example.options) == {"layer", "head"}
    else:
        read = STUDIES[example.tab].options.read(example.options)
        assert {name: getattr(read, name) for name in example.options} == example.options


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("tab", TASKS)
def test_each_task_of_pre_training_has_one_right_and_one_wrong_example(tab, language):
    assert [example.key for example in study_examples(tab, language)] == [
        f"{tab}_right_{language}", f"{tab}_wrong_{language}"]


def wrong(claim: str, **changes) -> Example:
    return replace(EXAMPLES[claim], **changes)


@pytest.mark.parametrize("example", [
    wrong("same_vector", options={"second": "You broke your promise again."}),
    wrong("flips", options={"second": EXAMPLES["flips"].text}),
    wrong("looks_ahead", options={"layer": 99, "head": 1}),
    wrong("hangs_on_a_head", text="I finally finished my thesis after four years of work"),
    wrong("needs_its_order", text="happy"),
    wrong("misses_irony", text="I am so angry at you.", meant="anger"),
    replace(EXAMPLES["misses"], claim="guesses"), replace(EXAMPLES["guesses"], claim="misses"),
    replace(EXAMPLES["misjudges"], claim="judges"), replace(EXAMPLES["judges"], claim="misjudges"),
], ids=lambda example: example.key)
def test_a_claim_that_is_not_so_is_noticed(shipped, example):
    assert not check(example, shipped)


def test_the_head_or_word_of_an_example_is_found_in_the_weights(shipped):
    for claim in ("looks_ahead", "hangs_on_a_head", "guesses"):
        found = CLAIMS[claim](wrong(claim, options={}), shipped)
        assert found and check(wrong(claim, options=found), shipped)


def test_the_first_candidate_that_holds_is_chosen(shipped):
    card = next(card for card in _cards(GALLERY) if card["claim"] == "flips")
    same = {"language": "en", "text": "happy", "options": {"second": "happy"}}
    good = card["candidates"][[item["text"] for item in card["candidates"]].index(card["text"])]
    assert choose({**card, "candidates": [same, good]}, shipped).text == good["text"]
    with pytest.raises(UserError, match="no candidate of 'negation' keeps its claim"):
        choose({**card, "candidates": [same]}, shipped)


def test_after_choosing_every_claim_holds(shipped, monkeypatch, tmp_path, capsys):
    for name in (GALLERY, STUDY_EXAMPLES):
        (tmp_path / name).write_bytes((gallery_module.DATA / name).read_bytes())
    monkeypatch.setattr(gallery_module, "DATA", tmp_path)
    monkeypatch.chdir(EMOTION.parents[1])
    gallery_module.main()
    assert all(check(example, shipped) for example in gallery())
    assert capsys.readouterr().out.count("\n") == 14
