"""What the tests of the page do in it, and read from it."""

import urllib.parse

import numpy as np
from playwright.sync_api import Page, expect

from bert.classifier import EmotionClassifier
from bert.drawing.texts import texts
from bert.explain.saliency import head_importance
from bert.explain.target import Target

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
EXAMPLE = texts()["en"]["example_texts"][0]
VIEWS = ("heatmap", "lines", "heads", "layers", "ends")


def send(page: Page, text: str) -> None:
    """Type a text, press Enter, and wait for its answer."""
    answers = page.locator("#chat .bot-row")
    before = answers.count()
    box = page.get_by_label("Your text")
    box.fill(text)
    box.press("Enter")
    expect(answers).to_have_count(before + 1)


def clear(page: Page) -> None:
    """Empty the conversation."""
    page.locator("#chat").get_by_role("button", name="Clear", exact=True).click()
    expect(page.locator("div.bar")).to_have_count(10)


def said(page: Page) -> list[str]:
    """The visitor's texts in the chat, as they are shown."""
    return page.locator("#chat .user-row .message-content").all_inner_texts()


def replies(page: Page) -> list[str]:
    return page.locator("#chat .bot-row .message-content").all_inner_texts()


def figures(page: Page) -> dict[str, float]:
    """The per cent beside each bar, by class."""
    return {bar.get_attribute("data-class"): float(bar.locator(".figure").inner_text()[:-2])
            for bar in page.locator("button.bar").all()}


def address(page: Page) -> dict[str, str]:
    """What the address of the page says."""
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).fragment))


def choose_view(page: Page, view: str) -> None:
    """Open one of the pictures of attention, and wait until it is drawn."""
    page.locator(f'.switch.views [data-view="{view}"]').click()
    page.wait_for_selector(f'.frame[data-drawn*="/{view}/"]')


def point_at(page: Page, row: int, column: int) -> str:
    """Go to a cell of the heatmap by arrow keys from the corner; what is said of it."""
    pad = page.locator('.view[data-view="heatmap"] .pad')
    pad.focus()
    pad.press("ArrowRight")
    for _ in range(row):
        pad.press("ArrowDown")
    for _ in range(column):
        pad.press("ArrowRight")
    return page.locator(".stage .readout").inner_text()


def requests_of(page: Page) -> list[str]:
    """The addresses that the page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def head_that_matters(classifier: EmotionClassifier, text: str) -> tuple[int, int]:
    """Layer and head, from 1, on which the answer depends most."""
    found = head_importance(classifier, text, Target.leading(classifier, text))
    layer, head = np.unravel_index(int(found.argmax()), found.shape)
    return int(layer) + 1, int(head) + 1
