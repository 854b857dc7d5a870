"""What the views of the pre-training tasks open with, with the shipped checkpoints."""

import re
from pathlib import Path

import pytest
from page_helpers import address
from playwright.sync_api import expect

from bert.classifier import EmotionClassifier
from bert.drawing.texts import LANGUAGES, texts
from bert.page.gallery import study_examples
from bert.studies import STUDIES
from bert.studies.base import StudyContext

EMOTION = Path(__file__).parents[2] / "checkpoints" / "emotion"


@pytest.fixture(scope="module")
def shipped() -> StudyContext:
    return StudyContext(EmotionClassifier.load(EMOTION))


def page_texts(language: str) -> list[str]:
    """The examples of the page that are in their language."""
    return [text for text in texts()[language]["example_texts"]
            if bool(re.search("[가-힣]", text)) == (language == "ko")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_other_word_of_an_example_is_guessed_better_than_the_one_that_is_hidden(
        shipped, language):
    study = STUDIES["masked_word"]

    def worst(masked: str) -> int:
        return max(blank["rank"] for blank in
                   study.answer(shipped, text, {"masked": masked})["blanks"])

    found = []
    for text in page_texts(language):
        chosen = study.answer(shipped, text)["chosen"]
        ranks = [worst(str(word)) for word in range(len(text.split()))]
        assert len(chosen) == 1 and ranks[chosen[0]] == min(ranks)
        found.append(min(ranks))
    assert 1 in found


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_second_text_at_the_start_is_rightly_taken_for_a_random_one(shipped, language):
    for text in page_texts(language):
        data = STUDIES["next_sentence"].answer(shipped, text)
        assert data["second"] == data["examples"]["random"]
        assert data["probabilities"][1] > 0.5, (
            f"{data['second']!r} is taken for the continuation of {text!r}: choose another "
            "next_sentence_random_text in assets/page/texts/next_sentence.json")


@pytest.mark.parametrize("tab", ["masked_word", "next_sentence"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_offers_one_that_it_gets_right_and_one_that_it_gets_wrong(
        visit, pretrained_folder, tab, language):
    with visit(f"tab={tab}&lang={language}") as page:
        for example in study_examples(tab, language):
            page.locator(f'[data-example="{example.key}"]').click()
            expect(page.locator("#chat .user-row").last).to_contain_text(example.text)
            page.wait_for_selector(f'.study-frame[data-drawn="{tab}"]:not(.waiting)')
            asked = address(page)
            assert asked["text"] == example.text
            assert {name: asked[name] for name in example.options} == example.options
