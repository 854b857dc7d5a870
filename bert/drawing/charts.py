"""Charts that several studies draw into their figures; values in, axes out."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from bert.drawing.figures import COLOUR_MAP, Axes, Figure, drawable
from bert.drawing.texts import colours

Place = tuple[float, float, float, float]  # left, bottom, width, height of 1
SIMILARITY_INKS = {"cls": "#3a4ea8", "mean": "#b04d14"}


class Line(NamedTuple):
    values: Sequence[float]
    style: str
    colour: str
    name: str


def signed_pixels(values: np.ndarray, limit: float) -> np.ndarray:
    """Values of −limit … limit in the page's colours: (…) -> (…, 3)."""
    table = np.array([list(bytes.fromhex(colour[1:])) for colour in colours()["signed"]]) / 255
    return table[np.clip(np.rint(128 + 127 * np.asarray(values) / limit), 0, 255).astype(int)]


def name_tokens(axes: Axes, tokens: Sequence[str], most: int, size: float) -> None:
    """The tokens above and beside a matrix, at most so many of them."""
    every = -(-len(tokens) // most)
    places = list(range(0, len(tokens), every))
    shown = [drawable(token, 10) for token in tokens[::every]]
    axes.xaxis.tick_top()
    axes.set_xticks(places, shown, rotation=90, parse_math=False, fontsize=size)
    axes.set_yticks(places, shown, parse_math=False, fontsize=size)


def place_paired_bars(figure: Figure, place: Place, classes: Sequence[Mapping[str, Any]],
                      answers: Mapping[str, Sequence[float]], language: str) -> None:
    """A group of bars for each class; the first answer strongest."""
    if not classes:
        return
    axes = figure.add_axes(place)
    height = 0.8 / len(answers)
    for number, (name, probabilities) in enumerate(answers.items()):
        axes.barh(np.arange(len(classes)) + (number - (len(answers) - 1) / 2) * height,
                  100 * np.array(probabilities), height=0.9 * height, label=name,
                  color=[item["colour"] for item in classes], alpha=1.0 - 0.3 * number)
    axes.legend(frameon=False, fontsize=8, loc="lower right")
    finish_bars(axes, classes, language)


def finish_bars(axes: Axes, classes: Sequence[Mapping[str, Any]], language: str,
                size: float = 10, widest: float = 100) -> None:
    """Names and frame of bars that stand for classes, in per cent."""
    axes.set_yticks(range(len(classes)), [drawable(item[language]) for item in classes],
                    fontsize=size, parse_math=False)
    axes.invert_yaxis()
    axes.set(xlim=(0, widest), xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)


def place_cosines(figure: Figure, place: Place, lines: Sequence[Line], across: str, title: str,
                  first: int = 0) -> Axes:
    """Lines of cosines over numbered places; the axis begins below the lowest one."""
    axes = figure.add_axes(place)
    for line in lines:
        axes.plot(range(first, first + len(line.values)), line.values, line.style,
                  color=line.colour, label=line.name)
    lowest = min((min(line.values) for line in lines if line.values), default=0.0)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel=across, ylim=(min(0.9, np.floor(10 * lowest) / 10), 1.01))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes


def show_weights(axes: Axes, weights: np.ndarray | Sequence[Sequence[float]],
                 aspect: Literal["equal", "auto"] = "equal") -> None:
    """Attention or shares on the fixed scale of 0 to 1."""
    axes.imshow(weights, vmin=0.0, vmax=1.0, cmap=COLOUR_MAP, aspect=aspect,
                interpolation="nearest")
