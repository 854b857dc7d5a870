"""Hidden states: the vector of every token after every layer, and how each layer changed it."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.activations import BINS, Summary, hidden_states, layer_cosines, summary
from bert.studies.base import (
    Matrix,
    Number,
    Numbers,
    Study,
    StudyContext,
    StudyOptions,
    plain,
    unpack,
    within,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

BLOCK = 128        # hidden dimensions shown at a time
COLOURED = 0.99    # share of the values that the colour scale covers


class HiddenOptions(StudyOptions):
    local = ("token", "first", "at")
    token: Number = 0
    first: Number = 0          # dimension
    at: Number | None = None   # layer of which all tokens are shown; None: one token, all layers


class HiddenData(TypedDict):
    tokens: list[str]
    token: int
    at: int | None
    first: int
    block: int
    width: int
    states: list[Any]                # a matrix for each layer, (T, E)
    limit: float                     # of the colours
    cosines: Numbers                 # (L, T) to the layer before
    norms: Numbers                   # (L + 1, T)
    distributions: list[Summary]     # of each layer, all over the same range
    values: Any                      # an exact matrix of what is chosen


def run(context: StudyContext, text: str, options: HiddenOptions) -> HiddenData:
    """All tokens after all layers at 8 bits, so that the browser can switch by itself; cosines and
    norms, and the values of what is chosen, exactly."""
    cache = context.cache(text)
    exact = hidden_states(cache, context.config)                                     # (L + 1, T, E)
    states = exact.astype(np.float64)
    num_tokens, width = states.shape[1:]
    token = within(options.token, 0, num_tokens - 1, 0)
    at = within(options.at, 0, len(states) - 1, -1)
    first = min(max(options.first, 0), width - 1) // BLOCK * BLOCK
    rows = exact[:, token] if at < 0 else exact[at]
    return {"tokens": cache.encoding.pieces, "token": token, "at": None if at < 0 else at,
            "first": first, "block": BLOCK, "width": width,
            "states": [Matrix(layer, "signed") for layer in states],
            "limit": float(np.quantile(np.abs(states), COLOURED)) or 1.0,
            "cosines": layer_cosines(states), "norms": np.linalg.norm(states, axis=-1),
            "distributions": [summary(layer, (states.min(), states.max())) for layer in states],
            "values": Matrix(rows[:, first:first + BLOCK])}


def shown_rows(data: HiddenData) -> list[tuple[int, int]]:
    """The (layer, token) of each row on the screen."""
    if data["at"] is None:
        return [(layer, data["token"]) for layer in range(len(data["norms"]))]
    return [(data["at"], token) for token in range(len(data["tokens"]))]


def table(data: HiddenData) -> list[list[Any]]:
    values = unpack(data["values"])
    dimensions = range(data["first"], data["first"] + values.shape[1])
    return [["layer", "place", "token", "cosine to the layer before", "norm",
             *(f"dimension {number}" for number in dimensions)],
            *([layer, token, data["tokens"][token],
               data["cosines"][layer - 1][token] if layer else "", data["norms"][layer][token],
               *plain(row)]
              for (layer, token), row in zip(shown_rows(data), values, strict=True))]


def draw(data: HiddenData, language: Language) -> "Figure":
    from bert.drawing.figures import drawable, new_figure, signed_map
    rows, values = shown_rows(data), unpack(data["values"])
    layers = data["distributions"]
    columns = min(len(layers), 7)
    lines = -(-len(layers) // columns)
    tall, small, edge = 0.24 * len(rows) + 0.3, 0.95 * lines, 0.75   # inches
    height = tall + small + 2 * edge
    figure = new_figure(11, height)
    axes = figure.add_axes((0.1, (small + edge) / height, 0.69, tall / height))
    axes.imshow(values, cmap=signed_map(), vmin=-data["limit"], vmax=data["limit"],
                aspect="auto", interpolation="nearest",
                extent=(data["first"] - 0.5, data["first"] + values.shape[1] - 0.5,
                        len(rows) - 0.5, -0.5))
    is_one_token = data["at"] is None
    names = ([say(language, "layer_n", n=layer) for layer, _ in rows] if is_one_token
             else [drawable(data["tokens"][token], 12) for _, token in rows])
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.xaxis.tick_top()
    chosen = (drawable(data["tokens"][data["token"]]) if is_one_token
              else say(language, "layer_n", n=data["at"]))
    limit = f"{data['limit']:.2f}"
    axes.set_title(f"{say(language, 'study_hidden')}: {chosen} · "
                   f"{say(language, 'hidden_colours', limit=limit)}", parse_math=False, fontsize=11)
    for x, key in ((1.07, "hidden_cosine"), (1.2, "hidden_norm")):
        axes.text(x, 1.02, say(language, key), transform=axes.transAxes, ha="center", fontsize=9)
    for row, (layer, token) in enumerate(rows):
        cosine = f"{data['cosines'][layer - 1][token]:.4f}" if layer else "–"
        for x, shown in ((1.07, cosine), (1.2, f"{data['norms'][layer][token]:.2f}")):
            axes.text(x, row, shown, transform=axes.get_yaxis_transform(), ha="center",
                      va="center", fontsize=9)
    for layer, found in enumerate(layers):
        line, column = divmod(layer, columns)
        small_axes = figure.add_axes((0.04 + 0.94 * column / columns,
                                      (small - 0.95 * line - 0.55) / height,
                                      0.94 / columns - 0.02, 0.5 / height))
        small_axes.stairs(found["counts"], np.linspace(found["start"], found["end"], BINS + 1),
                          fill=True)
        small_axes.set(yticks=[], xticks=[])
        small_axes.spines[["top", "left", "right"]].set_visible(False)
        mean = round(found["mean"], 2) + 0.0  # no −0.00
        small_axes.set_title(f"{say(language, 'layer_n', n=layer)} · "
                             f"{mean:.2f} ± {found['std']:.2f}", fontsize=8, pad=2)
    return figure


STUDY = Study("hidden", HiddenOptions, run, draw, table)
