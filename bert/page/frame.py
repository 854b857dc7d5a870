"""How the page is served: theme, styles and scripts, and which requests are taken."""

import json
import os
from dataclasses import asdict
from typing import Any

import gradio as gr
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from bert.drawing.texts import PAGE, colours, texts
from bert.page.limits import RequestLimits
from bert.page.tour import steps
from bert.studies import GROUPS
from bert.studies.base import LONGEST

FONTS = PAGE.parent / "fonts"
FONT = ["Microscope Gothic", "system-ui", "sans-serif"]  # none is fetched from anywhere


def theme() -> gr.themes.Base:
    """Gradio's own, with our font and the colours of the scripts."""
    fonts = [gr.themes.Font(name) for name in FONT]
    return gr.themes.Base(primary_hue="indigo", neutral_hue="slate", font=fonts,
                          spacing_size="sm").set(
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


def head() -> str:
    """What the scripts know before they ask: texts, colours, studies, the tour, the gallery."""
    cards = json.loads((PAGE / "data" / "gallery.json").read_text(encoding="utf-8"))
    gallery = [{name: card[name] for name in ("key", "title", "says", "tab", "text", "options")}
               for card in cards]
    boot = json.dumps({
        "texts": texts(), "colours": colours(), "limit": LONGEST,
        "tour": [asdict(step) for step in steps()], "gallery": gallery, "studies": {
            group: {study.name: study.description() for study in studies}
            for group, studies in GROUPS.items()}}, ensure_ascii=False).replace("<", "\\u003c")
    return ('<link rel="stylesheet" href="microscope/style.css">\n'
            '<link rel="stylesheet" href="microscope/studies.css">\n'
            '<link rel="preload" href="microscope/fonts/MicroscopeGothic.woff2" as="font" '
            'type="font/woff2" crossorigin>\n'
            f'<script type="application/json" id="microscope-boot">{boot}</script>\n'
            + "".join(f'<link rel="modulepreload" href="microscope/{path}">\n'
                      for path in first_scripts()))


def first_scripts() -> list[str]:
    """What the first picture needs: fetched at once instead of one after the other."""
    return [path.relative_to(PAGE).as_posix() for folder in ("components", "views", "shared")
            for path in sorted((PAGE / folder).glob("*.js"))]


def launch_options(at_once: int = max(os.cpu_count() or 1, 2)) -> dict[str, Any]:
    """How the page is served; `demo.launch(**launch_options())` is all of it."""
    has_mcp = os.environ.get("GRADIO_MCP_SERVER", "").lower() == "true"
    return {
        "theme": theme(), "head": head(), "footer_links": ["api"],
        "favicon_path": PAGE / "icon.svg",
        "app_kwargs": {"routes": [Mount("/microscope/fonts", PageFiles(directory=FONTS)),
                                  Mount("/microscope", PageFiles(directory=PAGE))],
                       "middleware": [Middleware(RequestLimits, at_once=at_once,
                                                 has_mcp=has_mcp)]},
        "run_history": False, "ssr_mode": False, "share": False, "enable_monitoring": False,
        "mcp_server": has_mcp, "pwa": False, "max_file_size": 1, "state_session_capacity": 100,
        "quiet": True,
    }


