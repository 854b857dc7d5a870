"""The tour: every step has its words, and what it opens is there."""

import re

import pytest

from bert.drawing.texts import LANGUAGES, say, texts
from bert.page.tour import steps
from bert.studies import STUDIES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_step_has_a_title_and_two_sentences_and_there_is_no_other(language):
    numbers = range(1, len(steps()) + 1)
    assert {key for key in texts()[language] if re.match(r"tour_\d", key)} == {
        f"tour_{n}_{part}" for n in numbers for part in ("title", "text")}
    for n in numbers:
        text = say(language, f"tour_{n}_text")
        assert len(re.findall(r"[.?](?: |$)", text)) == 2, text
    assert say(language, "tour_step", n=2, all=len(numbers)) in ("Step 2 of 7", "7단계 중 2단계")


def test_what_a_step_opens_exists_with_its_options():
    for step in steps((3, 5)):
        if step.tab in STUDIES:
            given = {name: value for name, value in step.options.items() if name != "tokens"}
            read = STUDIES[step.tab].options.read(given)
            assert {name: getattr(read, name) for name in given} == given
        else:
            assert step.tab in ("attention", "trial")


def test_the_head_of_the_visitors_text_is_the_one_that_is_worked_out():
    assert steps((3, 5))[3].options == {"layer": 3, "head": 5, "query": 0}
    assert steps()[3].options == {"query": 0}
