"""How the page is served: theme, styles and scripts, and which requests are taken."""

import inspect
import os
import re
import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from bert.drawing.texts import PAGE
from bert.page.boot import boot_data
from bert.page.limits import RequestLimits

FONTS = PAGE.parent / "fonts"
FONT = ["Microscope Gothic", "system-ui", "sans-serif"]  # none is fetched from anywhere


def theme() -> gr.themes.Base:
    """Gradio's own, with our font and the colours of the scripts."""
    fonts = [gr.themes.Font(name) for name in FONT]
    return gr.themes.Base(primary_hue="indigo", neutral_hue="slate", font=fonts,
                          font_mono=["ui-monospace", "monospace"], spacing_size="sm").set(
        body_background_fill="#f3f5f8", body_background_fill_dark="#0d1117",
        block_background_fill_dark="#161c25", background_fill_primary_dark="#161c25",
        background_fill_secondary_dark="#1f2733", border_color_primary_dark="#2b3542",
        button_primary_background_fill="#3a4ea8", button_primary_text_color="#ffffff",
        color_accent="#3a4ea8",
        block_label_text_color="#566273", block_label_text_color_dark="#9eabbb",
        block_info_text_color="#566273", block_info_text_color_dark="#9eabbb",
        body_text_color_subdued="#566273", body_text_color_subdued_dark="#9eabbb",
        input_placeholder_color="#566273", input_placeholder_color_dark="#9eabbb")


class PageFiles(StaticFiles):
    """Scripts and styles, asked for again each time: a new version never meets an old one."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


class CompressedPage(GZipMiddleware):
    """The page itself in a fifth of its bytes; everything else is small or compressed by Gradio."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"].removeprefix(
            scope.get("root_path", "")) in ("", "/")
        await (super().__call__ if is_page else self.app)(scope, receive, send)


@lru_cache(maxsize=1)
def boot_response() -> Response:
    return JSONResponse(boot_data(), headers={"Cache-Control": "no-cache"})


def send_boot(request: Request) -> Response:
    """What the scripts know before they ask."""
    return boot_response()


def head() -> str:
    """Styles, and what the first picture needs: fetched at once instead of one after the other."""
    return ('<link rel="stylesheet" href="microscope/style.css">\n'
            '<link rel="stylesheet" href="microscope/studies.css">\n'
            '<link rel="preload" href="microscope/fonts/MicroscopeGothic.woff2" as="font" '
            'type="font/woff2" crossorigin>\n'
            '<link rel="preload" href="microscope/boot.json" as="fetch" crossorigin>\n'
            + "".join(f'<link rel="modulepreload" href="microscope/{path}">\n'
                      for path in first_scripts()))


def first_scripts() -> list[str]:
    """The scripts of the first picture."""
    return [path.relative_to(PAGE).as_posix() for folder in ("components", "views", "common")
            for path in sorted((PAGE / folder).glob("*.js")) if path.stem != "standalone"]


def check_machine() -> None:
    """Say before the page is built what this machine lacks."""
    folder = os.environ.get("GRADIO_TEMP_DIR") or tempfile.gettempdir()
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise OSError(f"no place for temporary files ({error}): name one with GRADIO_TEMP_DIR"
                      ) from None
    if has_mcp() and find_spec("mcp") is None:
        raise ImportError("GRADIO_MCP_SERVER needs a package: run `python -m pip install "
                          "\"mcp<2\"`, then start again")


def has_mcp() -> bool:
    """Whether the documented endpoints are offered as tools for language models, too."""
    return os.environ.get("GRADIO_MCP_SERVER", "").lower() == "true"


def describe_arguments(demo: gr.Blocks, handler: Callable) -> None:
    """Give the API view of an endpoint the words of its docstring."""
    described = dict(re.findall(r"^    (\w+): (.+)$", inspect.getdoc(handler) or "", re.MULTILINE))
    event = next(event for event in demo.fns.values() if event.api_name == handler.__name__)
    inputs: list[Any] = list(event.inputs)
    for argument, name in zip(inputs, inspect.signature(handler).parameters, strict=True):
        argument.label = name
        schema = {**argument.api_info(), "additional_description": described[name]}
        argument.api_info = partial(dict, schema)


def launch_options(at_once: int = max(os.cpu_count() or 1, 2)) -> dict[str, Any]:
    """How the page is served; `demo.launch(**launch_options())` is all of it."""
    reloads = bool(os.environ.get("GRADIO_WATCH_DIRS"))  # set by `gradio app.py`
    return {
        "theme": theme(), "head": head(), "footer_links": ["api"],
        "favicon_path": PAGE / "icon.svg",
        "app_kwargs": {"routes": [Route("/microscope/boot.json", send_boot),
                                  Mount("/microscope/fonts", PageFiles(directory=FONTS)),
                                  Mount("/microscope", PageFiles(directory=PAGE))],
                       "middleware": [Middleware(CompressedPage, compresslevel=6),
                                      Middleware(RequestLimits, at_once=at_once,
                                                 has_mcp=has_mcp(), reloads=reloads)]},
        "run_history": False, "ssr_mode": False, "share": False, "enable_monitoring": False,
        "mcp_server": has_mcp(), "pwa": False, "max_file_size": 1, "state_session_capacity": 100,
        "quiet": True,
    }
