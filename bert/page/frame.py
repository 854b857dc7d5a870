"""How the page is served: theme, styles and scripts, and which requests are taken."""

import inspect
import os
import re
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from bert.drawing.texts import PAGE
from bert.page.limits import RequestLimits
from bert.page.scripts import address_of, served

FONTS = PAGE.parent / "fonts"
LINKS = (f'<{address_of("css")}>; rel=preload; as=style, '
         f'<{address_of("js")}>; rel=modulepreload, '
         '<microscope/fonts/MicroscopeGothic.woff2>; rel=preload; as=font; crossorigin')
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


class FirstPage(GZipMiddleware):
    """The page itself in a fifth of its bytes, with a header that names our files: Gradio reads
    `head` only when its own scripts have run. Everything else passes as it is."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and scope["path"].removeprefix(
            scope.get("root_path", "")) in ("", "/")
        if not is_page:
            await self.app(scope, receive, send)
            return

        async def with_links(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("Link", LINKS)
            await send(message)

        await super().__call__(scope, receive, with_links)


def send_file(request: Request) -> Response:
    """Scripts and styles, which a browser may keep: another version has another address."""
    content, kind = served()[request.url.path.removeprefix(request.scope.get("root_path", ""))[1:]]
    return Response(content, media_type=kind, headers={
        "Cache-Control": "public, max-age=31536000, immutable"})


def head() -> str:
    """Our styles; scripts are asked for by the components."""
    return f'<link rel="stylesheet" href="{address_of("css")}">'


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
        "app_kwargs": {"routes": [*(Route(f"/{path}", send_file) for path in served()),
                                  Mount("/microscope/fonts", StaticFiles(directory=FONTS))],
                       "middleware": [Middleware(FirstPage, compresslevel=6),
                                      Middleware(RequestLimits, at_once=at_once,
                                                 has_mcp=has_mcp(), reloads=reloads)]},
        "run_history": False, "ssr_mode": False, "share": False, "enable_monitoring": False,
        "mcp_server": has_mcp(), "pwa": False, "max_file_size": 1, "state_session_capacity": 100,
        "quiet": True,
    }
