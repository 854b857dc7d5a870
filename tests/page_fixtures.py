"""Fixtures for the page: a server with the tiny model, and a real browser."""

import os
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from page_helpers import clear
from playwright.sync_api import Page, expect

from bert.commands.browser import browser
from bert.drawing.texts import texts

ROOT = Path(__file__).parent.parent
WAIT = 60_000  # milliseconds: a limit for a hang, never reached otherwise
expect.set_options(timeout=WAIT)
ANSWERED = ".feelings :is(.bar.best, .none)"
COLOURED = ".strip .token:is(.for, .against)"
# What an address says that leaves nothing to the page that was open before.
PLAIN = {"text": texts()["en"]["example_texts"][0], "tab": "attention", "view": "heatmap",
         "lang": "en"}


class Server:
    """`python app.py` in a process of its own."""

    def __init__(self, checkpoint: Path, port: int = 17_860, **settings: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, ROOT / "app.py", "--checkpoint", checkpoint, "--port", str(port)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", **settings})
        self.said = ""
        while not (found := re.search(r"is at (http://[\w.]+:(\d+)/)", self.said)):
            line = self.process.stdout.readline()
            assert line, f"the server ended: {self.said}"
            self.said += line
        self.address, self.port = found[1], int(found[2])

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.communicate()


@pytest.fixture(scope="session")
def server(emotion_folder: Path) -> Iterator[Server]:
    running = Server(emotion_folder)
    yield running
    running.stop()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve another checkpoint for one test."""
    started: list[Server] = []

    def serve(checkpoint: Path, **settings) -> Server:
        started.append(Server(checkpoint, **settings))
        return started[-1]

    yield serve
    for running in started:
        running.stop()


@pytest.fixture(scope="session", name="browser")
def running_browser():
    with browser() as running:
        yield running


def new_context(browser, **settings):
    """A visitor with a browser of their own, who knows that there is a tour."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB",
                                     **settings})
    context.set_default_timeout(WAIT)
    context.add_init_script("localStorage.setItem('microscope-tour', 'seen')")
    return context


def new_page(context) -> Page:
    """A page that remembers what it had to complain about."""
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda message: page.complaints.append(message.text)
            if message.type == "error" else None)
    return page


def wait_until_answered(page: Page) -> None:
    """The text of the address is read: bars, the reply of the chat, coloured words."""
    page.wait_for_selector(ANSWERED)
    page.wait_for_selector("#chat .bot-row")
    if page.locator(".feelings .none").count() == 0:
        page.wait_for_selector(COLOURED, state="attached")


@contextmanager
def told_on_failure(page: Page) -> Iterator[None]:
    """A test that fails says what the visitor saw."""
    try:
        yield
    except BaseException as error:
        if not page.is_closed():
            shown = re.sub(r"\s+", " ", page.locator("body").inner_text())
            error.add_note(f"at {urllib.parse.unquote(page.url)}\ncomplaints: {page.complaints}\n"
                           f"the page showed: {shown[:1500]}")
        raise


class UsualPage:
    """One page that most tests share: opening another takes longer than all that they do with it.
    It is cleared, and the address of the next test is put in its bar; a test that fails closes it.
    """

    def __init__(self, browser, address: str) -> None:
        self.context, self.address = new_context(browser), address
        self.page: Page | None = None

    def goto(self, query: str) -> None:
        asked = {**PLAIN, **dict(urllib.parse.parse_qsl(query, keep_blank_values=True))}
        fragment = urllib.parse.urlencode(asked)
        if self.page.url == "about:blank":
            self.page.goto(f"{self.address}#{fragment}")
        else:
            self.page.mouse.move(0, 0)
            if self.page.locator("#chat .user-row").count():
                clear(self.page)
            self.page.evaluate("fragment => { location.hash = fragment; }", fragment)
        wait_until_answered(self.page)

    @contextmanager
    def visit(self, query: str) -> Iterator[Page]:
        self.page = self.page or new_page(self.context)
        try:
            with told_on_failure(self.page):
                self.goto(query)
                yield self.page
                assert self.page.complaints == []
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.page is not None:
            self.page.close()
            self.page = None


@pytest.fixture(scope="session")
def usual_page(browser, server) -> Iterator[UsualPage]:
    usual = UsualPage(browser, server.address)
    yield usual
    usual.context.close()


@contextmanager
def opened(context, address: str) -> Iterator[Page]:
    """A page in a visitor's browser; at the end it must have had nothing to complain about."""
    page = new_page(context)
    with told_on_failure(page):
        page.goto(address)
        wait_until_answered(page)
        yield page
        assert page.complaints == []
    page.close()


@pytest.fixture
def visit(browser, server, usual_page) -> Iterator[Callable]:
    """Open the page: `with visit("layer=1") as page`. Another server or settings of the browser
    make a new visitor; `fresh` opens a new page, which finds the address as it is given."""
    others = []

    def visit(query: str = "", at: Server = server, fresh: bool = False, **settings):
        if not (fresh or settings or at is not server):
            return usual_page.visit(query)
        others.append(new_context(browser, **settings))
        return opened(others[-1], f"{at.address}{'' if query.startswith('?') else '#'}{query}")

    yield visit
    for context in others:
        context.close()
