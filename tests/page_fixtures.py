"""Fixtures for the page: a server with the tiny model, and a real browser."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from bert.commands.browser import browser

ROOT = Path(__file__).parent.parent
WAIT = 60_000  # milliseconds: a limit for a hang, never reached otherwise
expect.set_options(timeout=WAIT)


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
    """A visitor with a browser of their own."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB",
                                     **settings})
    context.set_default_timeout(WAIT)
    return context


@pytest.fixture(scope="session")
def usual_context(browser):
    """One visitor who comes again and again: what the browser has cached loads faster."""
    context = new_context(browser)
    yield context
    context.close()


@contextmanager
def opened(context, address: str) -> Iterator:
    """A page in a visitor's browser; at the end it must have had nothing to complain about."""
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text)
            if message.type == "error" else None)
    page.complaints = complaints
    page.goto(address)
    page.wait_for_selector(".message.current .answer:not(.waiting)")
    yield page
    page.close()
    assert complaints == []


@pytest.fixture
def visit(browser, server, usual_context) -> Iterator[Callable]:
    """Open the page: `with visit("layer=1") as page`; settings make a new visitor."""
    others = []

    def visit(query: str = "", at: Server = server, **settings):
        if settings:
            others.append(new_context(browser, **settings))
        return opened(others[-1] if settings else usual_context, f"{at.address}?{query}")

    yield visit
    for context in others:
        context.close()
