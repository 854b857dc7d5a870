"""What takes a visitor by the hand: the tour, questions under an answer, the gallery, meanings."""

import json

import pytest
from page_helpers import ENGLISH, KOREAN, address, head_that_matters, said, send
from playwright.sync_api import Page, expect

from bert.drawing.texts import LANGUAGES, say, texts
from bert.explain.relevance import attribute
from bert.page.gallery import gallery
from bert.page.replies import reply
from bert.page.tour import steps
from bert.studies import STUDIES


def expect_open(page: Page, tab: str) -> None:
    """Wait until a tab is open and drawn."""
    if tab in STUDIES:
        page.wait_for_selector(f'.study-frame[data-drawn="{tab}"]:not(.waiting)')
    else:
        page.wait_for_selector(".stage .frame[data-drawn]")
    assert address(page)["tab"] == tab


@pytest.mark.parametrize("language, text", [("en", ENGLISH), ("ko", KOREAN)])
def test_the_tour_leads_the_visitors_text_through_its_steps(visit, classifier, language, text):
    with visit(f"text={text}&lang={language}") as page:
        page.get_by_role("button", name=say(language, "tour_name"), exact=True).click()
        tour = page.get_by_role("dialog")
        for number, step in enumerate(steps(), start=1):
            title = say(language, f"tour_{number}_title")
            expect(tour).to_have_accessible_name(title)
            expect(tour.get_by_role("heading", name=title)).to_be_visible()
            expect(tour.locator("p")).to_have_text(say(language, f"tour_{number}_text"))
            expect(tour.locator("small")).to_have_text(
                say(language, "tour_step", n=number, all=len(steps())))
            assert address(page)["tour"] == str(number)
            if step.tab in (*STUDIES, "attention"):
                expect_open(page, step.tab)
                expect(page.locator(".tour-target")).to_be_visible()
            if step.tab == "qkv":
                layer, head = head_that_matters(classifier, text)
                assert (address(page)["layer"], address(page)["head"]) == (str(layer), str(head))
            if number < len(steps()):
                page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        expect(tour).to_have_attribute("data-step", str(len(steps()) - 1))
        page.keyboard.press("Escape")
        expect(tour).to_be_hidden()
        assert "tour" not in address(page) and page.locator(".tour-target").count() == 0
        assert said(page) == [text]


def test_a_step_of_the_tour_has_an_address(visit):
    with visit(f"text={KOREAN}&tour=5") as page:
        expect(page.get_by_role("dialog")).to_have_attribute("data-step", "5")
        expect_open(page, "lens")
        page.get_by_role("button", name=say("en", "tour_leave")).click()
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_tour_is_offered_once_after_a_first_text_of_ones_own(visit):
    with visit("lang=en", fresh=True) as page:
        page.evaluate("localStorage.removeItem('microscope-tour')")
        expect(page.get_by_role("dialog")).to_be_hidden()
        send(page, KOREAN)
        expect(page.get_by_role("dialog")).to_contain_text(
            say("en", "tour_offer", all=len(steps())))
        page.get_by_role("button", name=say("en", "tour_decline")).click()
        send(page, ENGLISH)
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_questions_under_an_answer_open_their_views_on_this_text(visit, classifier):
    found = attribute(classifier, ENGLISH, classifier(ENGLISH).label)
    questions = reply(classifier(ENGLISH), found, "en",
                      head_that_matters(classifier, ENGLISH)).follow_ups
    with visit(f"text={ENGLISH}&layer=2&head=mean") as page:
        options = page.locator("#chat .options button")
        assert options.all_inner_texts() == [question.label for question in questions]
        for question in questions:
            if question.text is not None or question.tab not in (*STUDIES, "attention"):
                continue
            page.get_by_role("button", name=question.label).click()
            expect_open(page, question.tab)
            assert {name: str(value) for name, value in question.options.items()}.items() <= (
                address(page).items())
            assert address(page)["text"] == ENGLISH
        without, = [question for question in questions if question.text is not None]
        page.get_by_role("button", name=without.label).click()
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [ENGLISH, without.text]


def test_a_card_of_the_gallery_sends_its_text_and_opens_its_view(visit):
    with visit() as page:
        cards = page.locator(".gallery .card")
        expect(cards).to_have_count(len(gallery()))
        for number, example in enumerate(gallery()[:3], start=1):
            card = page.locator(f'.gallery [data-card="{example.key}"]')
            expect(card.locator("b")).to_have_text(example.title["en"])
            expect(card.locator("span")).to_have_text(example.says["en"])
            card.click()
            expect(page.locator("#chat .bot-row")).to_have_count(number + 1)
            assert said(page)[-1] == example.text
            expect_open(page, example.tab)
            assert {name: str(value) for name, value in example.options.items()
                    if name not in ("layer", "head")}.items() <= address(page).items()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_term_gives_its_meaning_to_the_pointer_and_the_keyboard(visit, language):
    with visit(f"text={KOREAN}&tab=lens&lang={language}") as page:
        page.wait_for_selector('.study-frame[data-drawn="lens"]')
        terms = page.locator('.study:has([data-study="lens"]) .term')
        term = terms.filter(has_text="[CLS]").first
        meaning = texts()[language]["meaning_cls"]
        shown = "term => getComputedStyle(term, '::after').content"
        assert term.evaluate(shown) == "none"
        page.keyboard.press("Tab")  # from here on the focus is shown
        term.focus()
        assert json.loads(term.evaluate(shown)) == meaning
        expect(term).to_have_accessible_name(f"[CLS]: {meaning}")
        terms.last.focus()
        term.hover()
        assert json.loads(term.evaluate(shown)) == meaning
