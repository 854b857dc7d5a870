"""Values in, matplotlib Figure out: everything that leaves the page as a picture.

Never pyplot: its registry is shared by all visitors and keeps every figure alive. Same input, same
picture; a fixed 0–1 colour scale, so that heads can be compared.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bert.labels import EMOTIONS, display_name

FONT_FILE = Path(__file__).parent.parent / "assets" / "fonts" / "MicroscopeGothic.ttf"
COLOUR_MAP = "viridis"  # even steps for the eye, and for colour-blind readers
OTHER_COLOURS = ("#4C78A8", "#F58518", "#54A24B", "#E45756", "#72B7B2", "#B279A2")


@lru_cache(maxsize=1)
def use_fonts() -> frozenset[int]:
    """Register the Hangul font once; returns the code points that can be drawn."""
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
    FigureCanvasAgg(figure)
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(path, dpi=dpi, metadata=undated.get(path.suffix.lower()))


def class_colour(key: str, position: int) -> str:
    """A class's own colour, or one from a plain row for classes that are not ours."""
    for emotion in EMOTIONS:
        if emotion.key == key:
            return emotion.colour
    return OTHER_COLOURS[position % len(OTHER_COLOURS)]


def draw_attention(tokens: Sequence[str], weights: np.ndarray, layer: int, head: int) -> Figure:
    """Heatmap of one head: row = token that looks, column = token looked at."""
    if weights.shape != (len(tokens), len(tokens)):
        raise ValueError(f"{len(tokens)} tokens but weights of shape {weights.shape}: expected one "
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


def draw_probabilities(keys: Sequence[str], probabilities: np.ndarray) -> Figure:
    """Horizontal bars in class order, the best one emphasised, exact per cent."""
    use_fonts()
    figure = Figure(figsize=(6, 0.38 * len(keys) + 0.9))
    axes = figure.add_axes((0.3, 0.08, 0.6, 0.88))
    best = int(probabilities.argmax())
    bars = axes.barh(range(len(keys)), 100 * probabilities,
                     color=[class_colour(key, i) for i, key in enumerate(keys)])
    for i, (bar, probability) in enumerate(zip(bars, probabilities, strict=True)):
        bar.set_alpha(1.0 if i == best else 0.65)
        axes.text(100 * probability + 1, i, f"{probability:.1%}", va="center", fontsize=9,
                  fontweight="bold" if i == best else "normal")
    axes.set_yticks(range(len(keys)), [drawable(display_name(key)) for key in keys],
                    parse_math=False)
    axes.invert_yaxis()
    axes.set(xlim=(0, 112), xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_confusion(names: Sequence[str], counts: np.ndarray, title: str = "") -> Figure:
    """Confusion matrix: row = true class, column = answer; colours are shares of the row."""
    use_fonts()
    figure = Figure(figsize=(7.5, 7))
    axes = figure.add_axes((0.22, 0.03, 0.75, 0.73))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, vmin=0.0, vmax=1.0, cmap=COLOUR_MAP)
    for row, column in np.ndindex(counts.shape):
        if counts[row, column]:
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8,
                      color="black" if shares[row, column] > 0.6 else "white")
    _label_tokens(axes, [])
    shown = [drawable(name) for name in names]
    axes.set_xticks(range(len(names)), shown, rotation=90, parse_math=False)
    axes.set_yticks(range(len(names)), shown, parse_math=False)
    axes.set(xlabel="answer", ylabel="written as")
    axes.xaxis.set_label_position("top")
    figure.suptitle(drawable(title, 80), y=0.99, parse_math=False)
    return figure


def draw_reliability(confidences: np.ndarray, is_right: np.ndarray, title: str = "") -> Figure:
    """How often the model is right when it says so many per cent; the diagonal is honest."""
    use_fonts()
    figure = Figure(figsize=(5, 5))
    axes = figure.add_axes((0.14, 0.12, 0.8, 0.78))
    edges = np.linspace(0.0, 1.0, 11)
    for low, high in zip(edges[:-1], edges[1:], strict=True):
        inside = (confidences > low) & (confidences <= high)
        if inside.any():
            axes.bar((low + high) / 2, is_right[inside].mean(), width=0.09, color="#56B4E9")
            axes.text((low + high) / 2, 0.02, str(int(inside.sum())), ha="center", fontsize=7)
    axes.plot([0, 1], [0, 1], "--", color="#444444", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability of the answer", ylabel="share right")
    axes.set_title(drawable(title, 60), parse_math=False)
    return figure


def draw_training_curves(reports: Sequence[Mapping[str, float]]) -> Figure:
    """Losses above, accuracies below, over the steps."""
    use_fonts()
    figure = Figure(figsize=(7, 6))
    for row, kind in enumerate(("loss", "accuracy")):
        axes = figure.add_axes((0.1, 0.55 - 0.47 * row, 0.86, 0.4))
        names = [name for name in reports[-1] if name.endswith(kind)]
        for name in names:
            points = [(report["step"], report[name]) for report in reports if name in report]
            axes.plot(*zip(*points, strict=True), label=name.replace("_", " "))
        axes.set(ylabel=kind, xlabel="step" if row else "")
        axes.grid(alpha=0.3)
        if names:
            axes.legend()
    return figure
