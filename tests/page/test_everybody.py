"""The page for everybody: axe-core, the keyboard, phones, fingers."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from page_helpers import ENGLISH, KOREAN, VIEWS, choose_view
from playwright.sync_api import Page, expect

from bert.drawing.texts import LANGUAGES, say
from bert.studies import STUDIES

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
FORMS = [("light", "ko", DESKTOP), ("dark", "en", PHONE)]
OTHER_FORMS = [(scheme, language, size) for scheme in ("light", "dark") for language in LANGUAGES
               for size in (DESKTOP, PHONE) if (scheme, language, size) not in FORMS]


def walk(page: Page, language: str) -> Iterator[str]:
    """Open the pictures of attention and every study, one after the other, each drawn."""
    for view in VIEWS:
        choose_view(page, view)
        yield view
    for name in STUDIES:
        page.evaluate("fragment => { location.hash = fragment; }",
                      f"text={KOREAN}&tab={name}&lang={language}")
        page.wait_for_selector(f'.study-frame[data-drawn="{name}"]:not(.waiting)')
        yield name


# No study is still pale because its numbers are on their way.
DRAWN = """() => [...document.querySelectorAll(".study-frame")].every(frame => !frame.offsetParent
    || (!frame.matches(".waiting") && getComputedStyle(frame).opacity === "1"))"""


def violations(page: Page) -> list[str]:
    """What axe-core finds, of any impact: the rule and where."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']} {node['html'][:200]}"
            for rule in found for node in rule["nodes"]]


def check_everything(page: Page, scheme: str, language: str, size: dict[str, int]) -> None:
    """Nothing for axe-core to find, nothing cut off, nothing beside the screen, on any view."""
    page.evaluate("document.fonts.ready")
    assert page.evaluate("""() => [...document.fonts].some(
        face => face.family.includes("Microscope Gothic") && face.status === "loaded")""")
    assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")
    found = {}
    for view in walk(page, language):
        page.wait_for_function(DRAWN)
        cut = page.evaluate("""() => [...document.querySelectorAll(".masthead button, .microscope"
            + " :is(h2, h3, .name, .figure, .info, .finding, .strip-note, button:not(.head), label,"
            + " summary)")]
            .filter(e => e.offsetParent && e.clientWidth && e.scrollWidth > e.clientWidth + 1
                && getComputedStyle(e).overflowX !== "auto")
            .map(e => `cut off: ${e.className} ${e.textContent}`)""")
        cut += page.evaluate("""() => [...document.querySelectorAll(".microscope [hidden]")]
            .filter(e => e.offsetParent).map(e => `hidden, but there: ${e.className}`)""")
        wide = page.evaluate("document.documentElement.scrollWidth")
        beside = [f"{wide} pixels wide"] if wide > size["width"] else []
        if problems := violations(page) + cut + beside:
            found[view] = problems
    assert found == {}


@pytest.mark.parametrize("scheme, language, size", FORMS)
def test_every_view_is_for_everybody(visit, pretrained_folder, scheme, language, size):
    with visit(f"text={KOREAN}&lang={language}", color_scheme=scheme, viewport=size) as page:
        check_everything(page, scheme, language, size)


@pytest.mark.full
@pytest.mark.parametrize("scheme, language, size", OTHER_FORMS)
def test_every_view_is_for_everybody_in_the_other_forms(visit, pretrained_folder, scheme, language,
                                                        size):
    with visit(f"text={KOREAN}&lang={language}", color_scheme=scheme, viewport=size) as page:
        check_everything(page, scheme, language, size)


def test_a_visitor_can_type_at_once(visit):
    with visit(fresh=True) as page:
        expect(page.get_by_label("Your text")).to_be_focused()
        page.keyboard.type(ENGLISH)
        page.keyboard.press("Enter")
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "anger")


def test_the_page_can_be_used_with_the_keyboard_alone(visit):
    with visit("layer=2&head=1") as page:
        page.get_by_label("Your text").focus()
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("""() => {
                const {dataset, className} = document.activeElement;
                return dataset.class ?? dataset.tabId ?? dataset.view ?? className;
            }"""))
        assert {"anger", "attention", "heatmap", "choose-layer", "choose-head", "hide-special",
                "fade-from", "stretch-scale", "pad"} <= reached
        page.locator('.switch.views [data-view="heads"]').press("Enter")
        page.locator(".head-grid .head.chosen").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(".stage .info b")).to_have_text("Layer 2 · Head 2")
        tab = page.get_by_role("tab", name=say("en", "group_answer"), exact=True)
        tab.focus()
        page.keyboard.press("Enter")
        expect(page.locator('[data-study="lens"]')).to_be_visible()


def test_everything_that_can_be_clicked_has_a_name(visit):
    with visit("view=layers") as page:
        nameless = page.evaluate("""() => [...document.querySelectorAll(
            "gradio-app :is(button, select, textarea, input, summary, [role=img], .pad)")].filter(
            e => e.offsetParent && !(e.getAttribute("aria-label") || e.textContent.trim()
                || e.labels?.length)).map(e => e.outerHTML)""")
        assert nameless == []


def test_what_a_finger_touched_stays_when_it_is_lifted(visit, classifier):
    tokens = classifier(KOREAN).tokens
    with visit(f"text={KOREAN}&lang=en", has_touch=True, viewport=PHONE) as page:
        readout = page.locator(".stage .readout")
        page.locator('.view[data-view="heatmap"] .pad').tap()
        expect(readout).to_contain_text("” looks at “")
        page.locator(".strip .token").nth(1).tap()
        expect(readout).to_contain_text(f"“{tokens[1]}” looks most at")
        page.locator('.switch.views [data-view="ends"]').tap()
        for number in (0, 1):
            page.locator('.view[data-view="ends"] .pad').nth(number).tap()
            expect(readout).to_contain_text("Layer 2 “")
        page.locator("h1").tap()
        expect(readout).to_have_text(re.compile(re.escape(say("en", "cell_hint"))))


def test_buttons_of_a_phone_are_large_enough_for_a_finger(visit):
    with visit("lang=en", viewport=PHONE) as page:
        small = page.evaluate("""() => [...document.querySelectorAll(
            ".microscope :is(button, select, summary, label:has(input)), .masthead button")]
            .map(e => [e, e.getBoundingClientRect()]).filter(([e, box]) => e.offsetParent
                && (box.width < 24 || box.height < 24))
            .map(([e, box]) => `${box.width} × ${box.height}: ${e.className} ${e.textContent}`)""")
        assert small == []
