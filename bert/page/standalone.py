"""One answer as one interactive file: no server, no network, the same scripts as the page."""

import base64
import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bert.classifier import EmotionClassifier
from bert.drawing.texts import PAGE, Language, say
from bert.errors import UserError
from bert.explain.relevance import attribute
from bert.page.boot import boot_data
from bert.page.downloads import ATTENTION_VIEWS
from bert.page.scripts import as_script, known, scripts
from bert.page.visit import answer_data_of, moved_shares
from bert.studies.base import Matrix

FRAME_HEIGHT = 640  # pixels in a notebook
START = 'await use("components/standalone.js");\n'
FONT = re.compile(r'url\("(fonts/[\w.]+)"\)')


def standalone(classifier: EmotionClassifier, text: str, language: Language = "en",
               view: str = "heatmap", layer: int | None = None, head: int | None = None) -> str:
    """The page of one text: bars, coloured words, and attention with every control alive."""
    answer = answer_data_of(classifier, text)
    keys = classifier.keys if classifier.checkpoint.has_classifier else ()
    answer["attributions"] = {key: {"values": attribute(classifier, text, key).values.tolist()}
                              for key in keys}
    moved = moved_shares(classifier, text)
    answer["moved"] = Matrix(moved.reshape(-1, *moved.shape[2:]), "weights").pack()
    visit = {"messages": [text], "current": 0, "answer": answer}
    chosen = {"view": view, "layer": layer, "head": head, "language": language}
    boot = {**boot_data(), "gallery": [], "examples": {}, "tour": []}
    title = html.escape(f"{say(language, 'title')}: {text[:60]}")
    return (f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title>\n<style>{styles()}</style>\n"
            f'<script type="module">\n{known(boot)}globalThis.microscopeAnswer = '
            f'{as_script({"visit": visit, "chosen": chosen})};\n{scripts()}{START}</script>\n'
            '</head>\n<body class="standalone"></body>\n</html>\n')


@dataclass(frozen=True)
class Interactive:
    """A page of its own, in a frame of a notebook or as a file."""

    html: str

    @classmethod
    def of(cls, classifier: EmotionClassifier, text: str, layer: int | None, head: int | None,
           view: str) -> Self:
        """The page of one text, opened on a layer and a head counted from 1."""
        if view not in ATTENTION_VIEWS:
            raise UserError(f"view is {view!r}: choose one of {', '.join(ATTENTION_VIEWS)}")
        classifier.check_head(1 if layer is None else layer, 1 if head is None else head)
        return cls(standalone(classifier, text, view=view, layer=layer, head=head))

    def save(self, path: str | Path) -> None:
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts '
                f'allow-downloads" width="100%" height="{FRAME_HEIGHT}" style="border:0">'
                "</iframe>")


def styles() -> str:
    """The style sheet of the page, its font inside."""
    sheet = (PAGE / "style.css").read_text(encoding="utf-8")
    return FONT.sub(lambda name: f'url("{data_address("font/woff2", font(name[1]))}")', sheet)


def font(name: str) -> bytes:
    return (PAGE.parent / name).read_bytes()


def data_address(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode('ascii')}"
