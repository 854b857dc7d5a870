"""Values in, matplotlib Figure out: everything that leaves the page as a picture.

Never pyplot: its registry is shared by all visitors and keeps every figure alive. Same input, same
picture; a fixed 0–1 colour scale, so that heads can be compared.
"""

import io
import logging
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve

from bert.drawing.texts import colours, say
from bert.emotions import class_colour, display_name
from bert.errors import UserError

FONT_FILE = Path(__file__).parents[2] / "assets" / "fonts" / "MicroscopeGothic.ttf"
COLOUR_MAP = "viridis"  # even steps for the eye, and for colour-blind readers


@lru_cache(maxsize=1)
def use_fonts() -> frozenset[int]:
    """Register the Hangul font once; returns the code points that can be drawn."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # ours has one weight
    families = ["DejaVu Sans"]
    if FONT_FILE.is_file():
        font_manager.fontManager.addfont(FONT_FILE)
        families.insert(0, font_manager.FontProperties(fname=FONT_FILE).get_name())
    matplotlib.rcParams["font.family"] = families
    matplotlib.rcParams["axes.unicode_minus"] = False
    matplotlib.rcParams["svg.hashsalt"] = "emotion-microscope"
    covered: set[int] = set()
    for family in families:
        covered |= set(font_manager.get_font(font_manager.findfont(family)).get_charmap())
    return frozenset(covered)


def drawable(text: str, longest: int = 24) -> str:
    """The text as the fonts can draw it: what they lack becomes ◇, what is too long is cut."""
    covered = use_fonts()
    shown = "".join(
        character if ord(character) in covered else "◇" for character in text
        if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Mn"))
    if text and not shown:
        return "◇"
    return shown if len(shown) <= longest else shown[:longest - 1] + "…"


def save_figure(figure: Figure, path: Path, dpi: int = 150) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of the name."""
    path.write_bytes(figure_bytes(figure, path.suffix.lower().removeprefix("."), dpi))


def figure_bytes(figure: Figure, ending: str, dpi: int = 150) -> bytes:
    """A figure as the bytes of a png, svg or pdf file."""
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    figure.savefig(file, format=ending, dpi=dpi, metadata={"Date": None} if ending == "svg" else
                   {"CreationDate": None} if ending == "pdf" else None)
    return file.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that can draw Hangul."""
    use_fonts()
    return Figure(figsize=(width, height))


def signed_map() -> ListedColormap:
    """The page's colours for −limit to limit."""
    return ListedColormap(colours()["signed"])


def draw_attention(tokens: Sequence[str], weights: np.ndarray, layer: int, head: int) -> Figure:
    """Heatmap of one head: row = token that looks, column = token looked at."""
    if weights.shape != (len(tokens), len(tokens)):
        raise UserError(f"{len(tokens)} tokens but weights of shape {weights.shape}: expected one "
                        "row and one column for each token")
    use_fonts()
    side = max(5.0, min(0.16 * len(tokens) + 2.2, 20.0))
    figure = Figure(figsize=(side, side))
    axes = figure.add_axes((0.2, 0.04, 0.68, 0.74))  # fixed axes: half the time of a layout engine
    image = axes.imshow(weights, vmin=0.0, vmax=1.0, cmap=COLOUR_MAP)  # (T, T)
    _label_tokens(axes, tokens)
    axes.set(xlabel="looked at (key)", ylabel="looking (query)")
    axes.xaxis.set_label_position("top")
    axes.set_title(f"layer {layer}, head {head}", pad=12)
    figure.colorbar(image, cax=figure.add_axes((0.905, 0.04, 0.025, 0.74)))
    return figure


def _label_tokens(axes: Axes, tokens: Sequence[str]) -> None:
    shown = [drawable(token, 12) for token in tokens]
    size = 9 if len(tokens) <= 32 else 6.5
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(shown)), shown, rotation=90, parse_math=False, fontsize=size)
    axes.set_yticks(range(len(shown)), shown, parse_math=False, fontsize=size)


def draw_confusion(names: Sequence[str], counts: np.ndarray, title: str = "") -> Figure:
    """Confusion matrix: row = true class, column = answer; colours are shares of the row."""
    figure = new_figure(7.5, 7)
    place_confusion(figure.add_axes((0.25, 0.24, 0.72, 0.7)), names, counts)
    figure.suptitle(drawable(title, 80), y=0.99, parse_math=False)
    return figure


def place_confusion(axes: Axes, names: Sequence[str], counts: np.ndarray, answer: str = "answer",
                    written: str = "written as") -> None:
    """A confusion matrix with its counts; `answer` and `written` name the axes."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, vmin=0.0, vmax=1.0, cmap=COLOUR_MAP, aspect="auto")
    for row, column in zip(*counts.nonzero(), strict=True):
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8,
                  color="black" if shares[row, column] > 0.43 else "white")
    shown = [drawable(name) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=45, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks(range(len(names)), shown, fontsize=8, parse_math=False)
    axes.set(xlabel=answer, ylabel=written)


def draw_reliability(bins: Sequence[Mapping[str, float]], title: str = "") -> Figure:
    """How often the model is right when it says so many per cent (`metrics.reliability`)."""
    figure = new_figure(5, 5)
    axes = figure.add_axes((0.14, 0.12, 0.8, 0.78))
    place_reliability(axes, bins)
    axes.set_title(drawable(title, 60), parse_math=False)
    return figure


def place_reliability(axes: Axes, bins: Sequence[Mapping[str, Any]],
                      said: str = "probability of the answer", right: str = "share right") -> None:
    """A bar for each bin with the number of its lines; the diagonal is honest."""
    for part in bins:
        axes.bar(part["said"], part["right"], width=0.05, color="#56B4E9")
        axes.text(part["said"], 0.02, f"{part['lines']:.0f}", ha="center", fontsize=7)
    axes.plot([0, 1], [0, 1], "--", color="#444444", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel=said, ylabel=right)


def draw_training_curves(reports: Sequence[Mapping[str, float]]) -> Figure:
    """Losses above, accuracies below, over the steps."""
    use_fonts()
    figure = Figure(figsize=(7, 6))
    for row, kind in enumerate(("loss", "accuracy")):
        axes = figure.add_axes((0.1, 0.55 - 0.47 * row, 0.86, 0.4))
        names = list(dict.fromkeys(name for report in reports for name in report
                                   if name.endswith(kind)))
        for name in names:
            points = [(report["step"], report[name]) for report in reports if name in report]
            axes.plot(*zip(*points, strict=True), label=name.replace("_", " "))
        axes.set(ylabel=kind, xlabel="step" if row else "")
        axes.grid(alpha=0.3)
        if names:
            axes.legend()
    return figure


# ---------------------------------------------------------------------------------- page views


INK, MUTED, LINE, ACCENT = "#17202b", "#566273", "#dbe1e8", "#3a4ea8"
FAINTEST = 0.02  # lines of less weight are not drawn


def draw_heatmap(tokens: Sequence[str], weights: np.ndarray, title: str, fade: float = 0.0,
                 language: str = "en", top: float = 1.0) -> Figure:
    """The heatmap of the page: rows look, columns are looked at, weights under `fade` paled. As in
    every picture of attention, the weight `top` gets the brightest colour."""
    use_fonts()
    side = max(6.0, min(0.17 * len(tokens) + 3.0, 20.0))
    figure = Figure(figsize=(side, side))
    _place_heatmap(figure, (0.19, 0.04, 0.67, 0.72), tokens, weights, fade, language, top)
    figure.text(0.5, 0.975, drawable(title, 80), ha="center", va="top", fontsize=13,
                fontweight="bold", color=INK, parse_math=False)
    _place_scale(figure, (0.874, 0.04, 0.022, 0.72), language, top)
    return figure


def draw_bars(keys: Sequence[str], probabilities: np.ndarray, language: str = "en") -> Figure:
    """The bar chart of the page: class order, exact per cent, the best bar emphasised."""
    use_fonts()
    figure = Figure(figsize=(7, 0.4 * len(keys) + 0.8))
    _place_bars(figure, (0.3, 0.06, 0.58, 0.88), keys, probabilities, language)
    return figure


def draw_heads(matrices: np.ndarray, captions: Sequence[str], title: str,
               fade: float = 0.0, top: float = 1.0) -> Figure:
    """Many heads side by side, (N, T, T), each with its caption below."""
    use_fonts()
    count = len(matrices)
    columns = min(count, 4 if count <= 16 else 6)
    rows = -(-count // columns)
    figure = Figure(figsize=(2.3 * columns + 0.4, 2.75 * rows + 0.6))
    bottom, ceiling = 0.02, 1 - 0.55 / figure.get_figheight()
    for i, (weights, caption) in enumerate(zip(matrices, captions, strict=True)):
        high, wide = (ceiling - bottom) / rows, 0.96 / columns
        axes = figure.add_axes((0.02 + wide * (i % columns + 0.04),
                                ceiling - high * (i // columns + 1) + 0.17 * high,
                                0.92 * wide, 0.8 * high))
        _show(axes, weights, fade, top)
        axes.set(xticks=[], yticks=[])
        axes.text(0.0, -0.04, drawable(caption, 40), transform=axes.transAxes, va="top",
                  fontsize=9, color=INK, parse_math=False)
    figure.text(0.5, 1 - 0.15 / figure.get_figheight(), drawable(title, 80), ha="center", va="top",
                fontsize=13, fontweight="bold", color=INK, parse_math=False)
    return figure


def draw_layers(attentions: np.ndarray, title: str, fade: float = 0.0,
                language: str = "en", top: float = 1.0) -> Figure:
    """Every head of every layer, (L, H, T, T), as one mosaic: a row for each layer."""
    use_fonts()
    num_layers, num_heads, size, _ = attentions.shape
    gap = max(1, size // 12)
    step = size + gap
    mosaic = np.ones((num_layers * step - gap, num_heads * step - gap, 4))
    for layer, head in np.ndindex(num_layers, num_heads):
        mosaic[layer * step:layer * step + size, head * step:head * step + size] = coloured(
            attentions[layer, head], fade, top)
    figure = Figure(figsize=(9, 9 * min(max(num_layers / num_heads, 0.3), 2.5) * 0.95 + 0.6))
    axes = figure.add_axes((0.07, 0.03, 0.82, 0.85))
    axes.imshow(mosaic, interpolation="nearest")
    middle = (size - 1) / 2
    axes.set_xticks([head * step + middle for head in range(num_heads)],
                    [str(head + 1) for head in range(num_heads)])
    axes.set_yticks([layer * step + middle for layer in range(num_layers)],
                    [str(layer + 1) for layer in range(num_layers)])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel(say(language, "head"), color=MUTED)
    axes.set_ylabel(say(language, "layer"), color=MUTED)
    axes.tick_params(length=0, colors=MUTED)
    axes.spines[:].set_visible(False)
    figure.text(0.5, 0.985, drawable(title, 80), ha="center", va="top", fontsize=13,
                fontweight="bold", color=INK, parse_math=False)
    _place_scale(figure, (0.915, 0.2, 0.015, 0.5), language, top)
    return figure


def draw_first_and_last(tokens: Sequence[str], first: np.ndarray, last: np.ndarray,
                        titles: Sequence[str], note: str, fade: float = 0.0,
                        language: str = "en", top: float = 1.0) -> Figure:
    """First layer beside last layer, with the sentence on what to look for."""
    use_fonts()
    side = max(5.5, min(0.17 * len(tokens) + 2.6, 16.0))
    figure = Figure(figsize=(2 * side, side + 0.7))
    for left, weights, title in zip((0.105, 0.575), (first, last), titles, strict=True):
        axes = _place_heatmap(figure, (left, 0.03, 0.34, 0.64), tokens, weights, fade, language,
                              top)
        figure.text(axes.get_position().x0 + 0.17, 0.865, drawable(title, 60), ha="center",
                    fontsize=12, fontweight="bold", color=INK, parse_math=False)
    for i, line in enumerate(wrapped(note, 120)[:3]):
        figure.text(0.5, 0.975 - i * 0.28 / figure.get_figheight(), line, ha="center", va="top",
                    fontsize=10, color=MUTED, parse_math=False)
    _place_scale(figure, (0.94, 0.1, 0.012, 0.5), language, top)
    return figure


def draw_lines(tokens: Sequence[str], weights: np.ndarray, title: str, fade: float = 0.0,
               language: str = "en", top: float = 1.0) -> Figure:
    """Lines between tokens, left to right: above looks, below is looked at; `top` is thickest."""
    use_fonts()
    shown = [drawable(token, 12) for token in tokens]
    widths = [max(_width(token), 2) * 0.105 + 0.22 for token in shown]
    figure = Figure(figsize=(max(sum(widths) + 0.4, 6.0), 5))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, figure.get_figwidth()), ylim=(0, 5))
    axes.axis("off")
    spare = (figure.get_figwidth() - 0.4 - sum(widths)) / len(tokens)
    ends = np.cumsum([width + spare for width in widths]) + 0.2
    middles = [end - (width + spare) / 2 for end, width in zip(ends, widths, strict=True)]
    for query, key in np.ndindex(weights.shape):
        weight = float(weights[query, key])
        if weight >= FAINTEST:
            way = [(middles[query], 3.75), (middles[query], 2.4), (middles[key], 2.4),
                   (middles[key], 1.05)]
            axes.add_patch(PathPatch(
                Curve(way, [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]),
                fill=False, edgecolor=ACCENT, linewidth=0.4 + 4 * weight / top,
                alpha=0.06 if weight < fade else min(1.0, 0.1 + weight / top)))
    for token, middle in zip(shown, middles, strict=True):
        for height in (3.9, 0.9):
            axes.text(middle, height, token, ha="center", va="center", fontsize=10, color=INK,
                      parse_math=False)
    for height, name in ((4.25, "query"), (0.5, "key")):
        axes.text(0.25, height, say(language, name), fontsize=9, color=MUTED, va="center")
    axes.text(figure.get_figwidth() / 2, 4.75, drawable(title, 80), ha="center", va="center",
              fontsize=13, fontweight="bold", color=INK, parse_math=False)
    return figure


def draw_card(text: str, keys: Sequence[str], probabilities: np.ndarray, tokens: Sequence[str],
              weights: np.ndarray, title: str, footer: str, link: str, fade: float = 0.0,
              language: str = "en", top: float = 1.0) -> Figure:
    """One slide, 16:9: the text, its bars, its heatmap, and where all of it came from."""
    use_fonts()
    figure = Figure(figsize=(12.8, 7.2), facecolor="white")
    figure.text(0.035, 0.945, say(language, "title"), fontsize=13, fontweight="bold", color=ACCENT)
    lines = wrapped(text, 44)
    if len(lines) > 5:
        lines = [*lines[:4], lines[4][:-1] + "…"]
    for i, line in enumerate(lines):
        figure.text(0.035, 0.885 - 0.048 * i, line, fontsize=17, color=INK, va="top",
                    parse_math=False)
    if len(keys):
        _place_bars(figure, (0.165, 0.1, 0.26, 0.5), keys, probabilities, language)
    figure.text(0.75, 0.945, drawable(title, 60), fontsize=13, fontweight="bold", color=INK,
                ha="center", parse_math=False)
    _place_heatmap(figure, (0.573, 0.1, 0.36, 0.64), tokens, weights, fade, language, top)
    _place_scale(figure, (0.942, 0.1, 0.009, 0.64), language, top)
    figure.text(0.035, 0.035, drawable(footer, 120), fontsize=9, color=MUTED, parse_math=False)
    figure.text(0.965, 0.035, drawable(link, 100), fontsize=9, color=MUTED, ha="right",
                parse_math=False)
    return figure


def coloured(weights: np.ndarray, fade: float = 0.0, top: float = 1.0) -> np.ndarray:
    """Weights of 0 to `top` as colours, (T, T, 4); those under `fade` fall back towards white."""
    shown = matplotlib.colormaps[COLOUR_MAP](np.clip(weights / top, 0.0, 1.0))
    keep = np.where(weights < fade, 0.12, 1.0)[..., None]
    shown[..., :3] = keep * shown[..., :3] + (1 - keep)
    return shown


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; Hangul counts two, a word longer than a line is cut."""
    lines, line = [], ""
    for word in re.split(r"\s+", text.strip()):
        word = drawable(word, 10_000)
        while word:
            candidate = f"{line} {word}" if line else word
            if _width(candidate) <= width:
                line, word = candidate, ""
            elif line:
                lines.append(line)
                line = ""
            else:
                # A character takes a column or two, so no more than `width` of them can fit.
                fits = next(n for n in range(min(len(word), width), 0, -1) if n == 1
                            or _width(word[:n]) <= width)
                lines.append(word[:fits])
                word = word[fits:]
    return [*lines, line] if line else lines


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _show(axes: Axes, weights: np.ndarray, fade: float, top: float) -> None:
    axes.imshow(coloured(weights, fade, top), interpolation="nearest")
    axes.spines[:].set_color(LINE)


def _place_heatmap(figure: Figure, place: tuple[float, float, float, float],
                   tokens: Sequence[str], weights: np.ndarray, fade: float,
                   language: str, top: float) -> Axes:
    axes = figure.add_axes(place)
    _show(axes, weights, fade, top)
    inches = min(place[2] * figure.get_figwidth(), place[3] * figure.get_figheight())
    every = max(1, -(-len(tokens) // max(int(inches * 7.5), 1)))
    places = list(range(0, len(tokens), every))
    shown = [drawable(tokens[i], 12) for i in places]
    size = max(5.5, min(10.0, 52 * inches / len(tokens))) if every == 1 else 7
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(places, shown, rotation=90, parse_math=False, fontsize=size, color=INK)
    axes.set_yticks(places, shown, parse_math=False, fontsize=size, color=INK)
    axes.tick_params(length=0)
    axes.set_xlabel(say(language, "key"), color=MUTED, fontsize=9)
    axes.set_ylabel(say(language, "query"), color=MUTED, fontsize=9)
    return axes


def _place_scale(figure: Figure, place: tuple[float, float, float, float], language: str,
                 top: float) -> None:
    scale = figure.colorbar(ScalarMappable(Normalize(0.0, top), COLOUR_MAP),
                            cax=figure.add_axes(place))
    digits = 1 if top == 1 else 3 if top < 0.1 else 2
    ticks = [top * i / 5 for i in range(6)]
    scale.set_ticks(ticks, labels=[f"{weight:.{digits}f}" for weight in ticks])
    scale.ax.tick_params(labelsize=8, colors=MUTED, length=2)
    scale.outline.set_visible(False)
    scale.set_label(say(language, "weight"), color=MUTED, fontsize=8)


def _place_bars(figure: Figure, place: tuple[float, float, float, float], keys: Sequence[str],
                probabilities: np.ndarray, language: str) -> None:
    axes = figure.add_axes(place)
    best = int(np.argmax(probabilities))
    names = [display_name(key) for key in keys]
    if language == "en":
        names = [" ".join(reversed(name.split(" ", 1))) for name in names]
    axes.barh(range(len(keys)), [100] * len(keys), height=0.52, color="#eef1f6")
    bars = axes.barh(range(len(keys)), 100 * np.asarray(probabilities), height=0.52,
                     color=[class_colour(key, i) for i, key in enumerate(keys)])
    for i, (bar, probability) in enumerate(zip(bars, probabilities, strict=True)):
        style: dict[str, Any] = {
            "fontsize": 11, "color": INK if i == best else MUTED,
            "fontweight": "bold" if i == best else "normal", "va": "center"}
        bar.set_alpha(1.0 if i == best else 0.72)
        axes.text(-2, i, drawable(names[i]), ha="right", parse_math=False, **style)
        axes.text(102, i, f"{100 * probability:.1f} %", **style)
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
