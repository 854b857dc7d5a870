"""Pictures of the page for the README: a server, a real browser, a fixed list of addresses.

    python -m bert screenshots                        writes assets/screenshots/*.png
    python -m bert screenshots --only heatmap-ko      just one of them

Needs Chromium (or Chrome) on the machine and `pip install playwright`; nothing is downloaded.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from bert.arguments import Parser
from bert.checkpoint import checkpoint_folder
from bert.commands.browser import browser
from bert.errors import UserError
from bert.studies import STUDIES

ROOT = Path(__file__).parents[2]
DESKTOP, PHONE = (1280, 900), (390, 844)
KOREAN = "3년을 준비한 시험에 드디어 합격했다! 포기하지 않길 잘했다."
ENGLISH = "They promised me a raise, and now they blame me for their own mistake."


@dataclass(frozen=True)
class Shot:
    """One picture: its name, the view in the address, and the screen it is taken on."""

    name: str
    view: dict[str, str]
    size: tuple[int, int] = DESKTOP
    scheme: str = "light"
    ready: str = ".strip .token:is(.for, .against)"  # what is there when all is drawn


SHOTS = (
    Shot("page-en", {"text": ENGLISH, "lang": "en"}),
    Shot("page-ko-dark", {"text": KOREAN, "lang": "ko"}, scheme="dark"),
    Shot("heads-en", {"text": ENGLISH, "lang": "en", "tab": "attention", "view": "heads",
                      "layer": "2", "head": "7"}),
    Shot("qkv-en", {"text": ENGLISH, "lang": "en", "tab": "qkv", "layer": "10", "head": "4"}),
    Shot("trial-en", {"text": ENGLISH, "lang": "en", "tab": "trial"},
         ready="[data-study=trial] .finding:not(:has-text('…'))"),
    Shot("phone-ko", {"text": KOREAN, "lang": "ko"}, PHONE),
)


@contextmanager
def served(checkpoint: Path) -> Iterator[str]:
    """The address of a server that runs as long as the block does."""
    process = subprocess.Popen(
        [sys.executable, "-u", ROOT / "app.py", "--checkpoint", checkpoint, "--port", "17960"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    assert process.stdout is not None
    try:
        while not (found := re.search(r"is at (http://\S+)", said)):
            line = process.stdout.readline()
            if not line:
                raise UserError(said.strip() or "the server ended without a word")
            said += line
        yield found[1]
    finally:
        process.terminate()
        process.communicate()


def take(chromium, address: str, shot: Shot, folder: Path) -> Path:
    """Open one address, wait until it is drawn, and save what is on the screen."""
    width, height = shot.size
    context = chromium.new_context(viewport={"width": width, "height": height},
                                   color_scheme=shot.scheme, device_scale_factor=1.5,
                                   reduced_motion="reduce")
    context.add_init_script("localStorage.setItem('microscope-tour', 'seen')")  # offered once
    page = context.new_page()
    page.goto(f"{address}#{urlencode(shot.view)}")
    page.wait_for_selector("#chat .feeling")
    page.wait_for_selector(shot.ready)
    page.evaluate("document.fonts.ready")
    if (study := shot.view.get("tab")) in STUDIES:
        page.wait_for_selector(f".study-frame[data-drawn={study}]:not(.waiting)")
    path = folder / f"{shot.name}.png"
    page.screenshot(path=path, full_page=shot.size == PHONE)
    context.close()
    return path


def take_all(checkpoint: Path, folder: Path, only: str | None) -> None:
    """Every picture of the list, or the one that is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium, served(checkpoint) as address:
        for shot in SHOTS:
            if only in (None, shot.name):
                print(take(chromium, address, shot, folder), flush=True)


def build_parser() -> Parser:
    parser = Parser(prog="bert screenshots", description="Take the README's pictures of the page.")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="folder or Hub id (default: checkpoints/emotion)")
    parser.add_argument("--out", type=Path, default=ROOT / "assets" / "screenshots",
                        help="where to (default: assets/screenshots)")
    parser.add_argument("--only", choices=[shot.name for shot in SHOTS], help="just one picture")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        checkpoint = checkpoint_folder(arguments.checkpoint)
        if not checkpoint.is_dir():
            raise UserError(f"{checkpoint} is not a folder: expected a checkpoint")
        take_all(checkpoint.resolve(), arguments.out, arguments.only)


if __name__ == "__main__":
    main()
