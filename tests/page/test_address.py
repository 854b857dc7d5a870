"""The address is the view: links, Back and Forward, reload, language and theme."""

import re
import urllib.parse

import pytest
from page_fixtures import new_context, new_page, wait_until_answered
from page_helpers import ENGLISH, EXAMPLE, KOREAN, address, replies, said, send
from playwright.sync_api import expect

from bert.drawing.texts import say, texts

EXACT = (f"text={urllib.parse.quote(ENGLISH)}&tab=attention&view=lines&layer=2&head=2&tokens=words"
         "&special=hidden&fade=0.15&scale=one&class=anger&lang=ko")


@pytest.mark.parametrize("query, settings", [(EXACT, {"fresh": True}),
                                             ("?" + EXACT, {"fresh": True}),
                                             (EXACT, {})], ids=["opened", "after ?", "pasted"])
def test_a_link_restores_the_exact_view(visit, query, settings):
    with visit(query, **settings) as page:
        assert said(page) == [ENGLISH]
        expect(page.locator('.switch.views [data-view="lines"]')).to_have_attribute(
            "aria-pressed", "true")
        expect(page.locator(".stage .info b")).to_have_text("2층 · 헤드 2")
        expect(page.locator(".fade-from")).to_have_value("0.15")
        expect(page.locator(".stretch-scale")).not_to_be_checked()
        expect(page.locator(".hide-special")).to_be_checked()
        expect(page.locator('.bar[data-class="anger"]')).to_have_attribute("aria-pressed", "true")
        assert page.locator("html").get_attribute("lang") == "ko"
        assert address(page) == dict(urllib.parse.parse_qsl(query.removeprefix("?")))
        assert urllib.parse.urlsplit(page.url).query == ""


def test_a_link_to_a_study_opens_its_tab(visit):
    with visit(f"text={KOREAN}&tab=lens&lang=en", fresh=True) as page:
        page.wait_for_selector('.study-frame[data-drawn="lens"]')
        for name in ("group_answer", "study_lens"):
            expect(page.get_by_role("tab", name=say("en", name), exact=True)).to_have_attribute(
                "aria-selected", "true")
        assert address(page)["tab"] == "lens"


def test_impossible_values_in_the_address_fall_back_to_the_defaults(visit):
    nonsense = ("layer=99&head=-3&tab=nothing&view=no&lang=xx&fade=lots&scale=9&class=boredom"
                "&tokens=7&tour=12")
    with visit(nonsense, fresh=True) as page:
        assert said(page) == [EXAMPLE]
        expect(page.locator(".stage .finding")).to_have_text(say("en", "matters_here"))
        expect(page.locator('.switch.views [data-view="heatmap"]')).to_have_attribute(
            "aria-pressed", "true")
        expect(page.locator(".stretch-scale")).to_be_checked()
        expect(page.locator(".tour")).to_be_hidden()
        assert not {"class", "scale", "tour", "fade"} & address(page).keys()


def test_back_and_forward_step_through_texts_and_views(visit):
    with visit(f"text={KOREAN}") as page:
        best = page.locator(".bar.best")
        send(page, ENGLISH)
        page.get_by_role("tab", name=say("en", "group_answer"), exact=True).click()
        page.wait_for_selector('.study-frame[data-drawn="lens"]:not(.waiting)')
        assert address(page)["tab"] == "lens"
        page.go_back()
        expect(page.locator(".stage")).to_be_visible()
        expect(best).to_have_attribute("data-class", "anger")
        page.go_back()
        expect(best).to_have_attribute("data-class", "achievement")
        page.go_forward()
        expect(best).to_have_attribute("data-class", "anger")
        page.go_forward()
        expect(page.locator('[data-study="lens"]')).to_be_visible()
        assert said(page) == [KOREAN, ENGLISH]


def test_a_reload_brings_the_conversation_and_the_view_back(visit):
    with visit(f"text={KOREAN}") as page:
        send(page, ENGLISH)
        page.locator(".stage .choose-layer").select_option("2")
        page.locator(".stage .choose-head").select_option("1")
        before = replies(page), page.url
        page.reload()
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [KOREAN, ENGLISH] and (replies(page), page.url) == before
        expect(page.locator(".stage .info b")).to_have_text("Layer 2 · Head 1")


def test_the_link_button_copies_the_address_of_the_view(visit):
    with visit(f"text={KOREAN}&lang=en", permissions=["clipboard-read", "clipboard-write"]) as page:
        page.get_by_role("button", name="Copy link").click()
        expect(page.get_by_role("button", name=say("en", "link_copied"))).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        assert address(page)["text"] == KOREAN


def test_the_language_follows_the_browser_is_switched_everywhere_and_remembered(visit):
    with visit(locale="ko-KR") as page:
        example = texts()["ko"]["example_texts"][0]
        assert said(page) == [example]
        in_korean = replies(page)
        for language, button in (("ko", "English"), ("en", "한국어")):
            words = texts()[language]
            expect(page.locator("h1")).to_have_text(words["title"])
            expect(page.locator("#your-text textarea")).to_have_attribute(
                "placeholder", words["placeholder"])
            expect(page.get_by_role("button", name=words["send"], exact=True)).to_be_visible()
            expect(page.get_by_text(words["privacy"])).to_be_visible()
            expect(page.locator(f"#examples-{language}")).to_be_visible()
            for name in ("group_attention", "group_inside", "group_model"):
                expect(page.get_by_role("tab", name=words[name], exact=True)).to_be_visible()
            expect(page.locator(".feelings h2")).to_have_text(words["feelings"])
            assert page.title() == words["title"] and address(page)["lang"] == language
            if language == "ko":
                page.get_by_role("button", name=button, exact=True).click()
                expect(page.locator("#chat .bot-row")).not_to_have_text(in_korean)
        assert said(page) == [example]
        assert re.match(r"[A-Z]", replies(page)[0])
        page.goto(page.url.split("#")[0] + "#")
        page.reload()
        expect(page.locator("h1")).to_have_text(texts()["en"]["title"])


def test_the_theme_can_be_switched_and_is_remembered(visit):
    with visit(color_scheme="light") as page:
        ground = "getComputedStyle(document.querySelector('.microscope')).getPropertyValue('--ink')"
        light = page.evaluate(ground)
        page.locator("#theme").click()
        expect(page.locator("body")).to_have_class(re.compile("dark"))
        assert page.evaluate(ground) != light
        page.reload()
        expect(page.locator("body")).to_have_class(re.compile("dark"))


@pytest.mark.parametrize("late", ["bars", "attention"])
def test_a_script_that_arrives_after_the_answer_still_draws_it(browser, server, late):
    context = new_context(browser)
    page = new_page(context)
    held = []
    page.route(re.compile(f"/components/{late}.js"), lambda route: held.append(route))
    page.goto(server.address)
    page.wait_for_selector("#chat .bot-row")
    for route in held:
        route.continue_()
    wait_until_answered(page)
    page.wait_for_selector(".frame[data-drawn]")
    assert page.complaints == []
    context.close()


def test_a_page_that_opens_elsewhere_in_another_language_lets_its_visitor_click(visit):
    """Gradio covers the page until every part that it has sent is there: none may leave before."""
    with visit(f"text={KOREAN}&tab=lens&lang=ko", fresh=True) as page:
        page.get_by_role("tab", name=say("ko", "group_attention"), exact=True).click()
        expect(page.locator(".stage")).to_be_visible()
        assert page.evaluate("window.isPageLoaded") is True
        assert address(page)["tab"] == "attention"
