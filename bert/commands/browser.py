"""A real browser for whoever looks at the page: the benches, the README's pictures, the tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bert.errors import UserError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--no-first-run")


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window, driven by Playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("playwright is not installed: pip install playwright") from None
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise UserError(f"no browser found: install one of {', '.join(PROGRAMS)}")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield running
        finally:
            running.close()
