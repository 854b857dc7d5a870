"""A prediction as a piece of HTML for notebooks: its text, its bars, one heatmap.

Static and complete in itself: no script, no address, the matrix a small picture inside. Text of
people is escaped.
"""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from bert.drawing.texts import colours
from bert.emotions import class_colour, display_name

if TYPE_CHECKING:
    from bert.classifier import Prediction

CELL, LABELS = 16, 92  # pixels: a cell of the heatmap, and the room beside it for the pieces
MOST_CELLS = 480       # pixels of the whole heatmap; longer texts get smaller cells
SMALLEST_TEXT = 7      # pixels of a cell that still gets a label
FRAME = "font:13px/1.5 system-ui,sans-serif;display:flex;flex-wrap:wrap;gap:24px"
TRACK = "background:#8882;border-radius:3px;height:12px"


def prediction_html(prediction: "Prediction") -> str:
    """The bars, and the last layer's attention as the mean of its heads (if it was kept)."""
    parts = [f'<div style="flex:1 1 300px;max-width:420px">{_heading(prediction)}'
             f'{_bars(prediction.keys, prediction.probabilities)}</div>']
    if prediction.attentions is not None:
        weights = prediction.attentions[-1].mean(axis=0)                             # (T, T)
        parts.append(f'<div>{_heatmap(prediction.tokens, weights)}<div style="opacity:.7">'
                     f'layer {len(prediction.attentions)}, mean of its heads; a row looks at the '
                     f'columns, the brightest with {weights.max():.2f}</div></div>')
    return f'<div style="{FRAME}">{"".join(parts)}</div>'


def _heading(prediction: "Prediction") -> str:
    notes = [note for note, holds in (("no clear feeling", not prediction.confident),
                                      ("only the beginning was read", prediction.truncated))
             if holds]
    shown = f' <span style="opacity:.7">({", ".join(notes)})</span>' if notes else ""
    return f'<p style="margin:0 0 8px"><b>{escape(prediction.text)}</b>{shown}</p>'


def _bars(keys: Sequence[str], probabilities: np.ndarray) -> str:
    """A row for each class in the fixed order, the best one in bold."""
    rows = []
    for i, (key, share) in enumerate(zip(keys, probabilities, strict=True)):
        weight = "bold" if i == probabilities.argmax() else "normal"
        rows.append(
            f'<tr style="background:none;font-weight:{weight}">'
            f'<td style="text-align:left;white-space:nowrap">{escape(display_name(key))}</td>'
            f'<td style="width:60%"><div style="{TRACK}"><div style="width:{100 * share:.1f}%;'
            f'background:{class_colour(key, i)};border-radius:3px;height:12px"></div></div></td>'
            f'<td style="text-align:right">{share:.1%}</td></tr>')
    return f'<table style="width:100%;border:0">{"".join(rows)}</table>'


def _heatmap(tokens: Sequence[str], weights: np.ndarray) -> str:
    """Weights from 0 to the largest as one picture, (T, T), with the pieces above and beside it."""
    cell = min(CELL, MOST_CELLS / len(tokens))
    size = cell * len(tokens)
    labels = []
    for i, token in enumerate(tokens if cell >= SMALLEST_TEXT else ()):
        name, middle = escape(token if len(token) <= 12 else token[:11] + "…"), (i + 0.5) * cell
        labels.append(f'<text x="{LABELS - 4}" y="{LABELS + middle:.1f}" text-anchor="end" '
                      f'dominant-baseline="central">{name}</text>')
        labels.append(f'<text transform="translate({LABELS + middle:.1f} {LABELS - 4}) '
                      f'rotate(-90)" dominant-baseline="central">{name}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABELS + size:.0f}" '
            f'height="{LABELS + size:.0f}" font-size="{min(11.0, cell * 0.8):.1f}" '
            f'fill="currentColor" role="img" aria-label="attention">{"".join(labels)}'
            f'<image x="{LABELS}" y="{LABELS}" width="{size:.0f}" height="{size:.0f}" '
            'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{base64.b64encode(_png(weights)).decode("ascii")}"/>'
            '</svg>')


def _png(weights: np.ndarray) -> bytes:
    """A picture of one pixel a weight: an index into the page's 256 colours."""
    height, width = weights.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each row begins with its filter, none
    rows[:, 1:] = np.rint(255 * weights / weights.max())
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours()["viridis"])
    return b"\x89PNG\r\n\x1a\n" + b"".join((
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        _chunk(b"PLTE", palette), _chunk(b"IDAT", zlib.compress(rows.tobytes())),
        _chunk(b"IEND", b"")))


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
