"""Q, K, V: the matrices of one head, and how an attention weight comes out of them."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.qkv import head_matrices, weight_steps
from bert.studies.base import (
    HeadOptions,
    Matrix,
    Number,
    Study,
    StudyContext,
    plain,
    unpack,
    within,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure


class QkvOptions(HeadOptions):
    local = ("query", "key")
    query: Number = 0
    key: Number | None = None  # None: where the query looks most


class QkvData(TypedDict):
    tokens: list[str]
    layer: int
    head: int
    query: int
    key: int
    matrices: dict[str, Any]   # exact, (T, D) or (T, T)


def run(context: StudyContext, text: str, options: QkvOptions) -> QkvData:
    """The six matrices of one head, exactly, and the cell that is worked out."""
    layer, head = options.chosen(context.config)
    cache = context.cache(text)
    found = head_matrices(cache, layer, head)
    last = len(found["attention"]) - 1
    query = within(options.query, 0, last, 0)
    key = within(options.key, 0, last, int(found["attention"][query].argmax()))
    return {"tokens": cache.encoding.pieces, "layer": layer, "head": head, "query": query,
            "key": key, "matrices": {name: Matrix(matrix) for name, matrix in found.items()}}


def table(data: QkvData) -> list[list[Any]]:
    matrices = {name: unpack(matrix) for name, matrix in data["matrices"].items()}
    most = max(matrix.shape[1] for matrix in matrices.values())
    return [["matrix", "place", "token", *range(most)],
            *([name, place, data["tokens"][place], *plain(row)]
              for name, matrix in matrices.items() for place, row in enumerate(matrix))]


def draw(data: QkvData, language: Language) -> "Figure":
    from bert.drawing.figures import COLOUR_MAP, drawable, new_figure, signed_map
    names = [drawable(token, 10) for token in data["tokens"]]
    matrices = {name: unpack(matrix) for name, matrix in data["matrices"].items()}
    num_tokens, width = matrices["query"].shape
    steps = weight_steps(matrices, data["query"], data["key"])
    size = 9 if num_tokens <= 24 else 5
    figure = new_figure(12, 8.6)
    for place, (name, matrix) in enumerate(matrices.items()):
        line, column = divmod(place, 3)
        axes = figure.add_axes((0.08 + 0.315 * column, 0.58 - 0.41 * line, 0.2, 0.33))
        is_attention = name == "attention"
        limit = 1.0 if is_attention else float(np.abs(matrix).max()) or 1.0
        image = axes.imshow(matrix, aspect="auto", interpolation="nearest", vmax=limit,
                            vmin=0.0 if is_attention else -limit,
                            cmap=COLOUR_MAP if is_attention else signed_map())
        axes.set_title(say(language, f"qkv_{name}", width=width), fontsize=11)
        axes.set_yticks(range(num_tokens), names, parse_math=False, fontsize=size)
        if name in ("scores", "attention"):
            axes.set_xticks(range(num_tokens), names, parse_math=False, fontsize=size, rotation=90)
            axes.plot(data["key"], data["query"], "s", markerfacecolor="none",
                      markeredgecolor="#d81b60", markersize=max(4, 150 / num_tokens))
        scale = figure.add_axes((0.285 + 0.315 * column, 0.58 - 0.41 * line, 0.008, 0.33))
        figure.colorbar(image, cax=scale).ax.tick_params(labelsize=8)
    figure.text(0.5, 0.96, f"{say(language, 'layer_n', n=data['layer'])} · "
                f"{say(language, 'head_n', n=data['head'])}", ha="center", fontsize=12)
    figure.text(0.5, 0.045, f"{names[data['query']]} → {names[data['key']]}:  "
                f"q · k = {steps.total:.4f},  ÷ √{width} = {steps.score:.4f},  "
                f"exp({steps.score:.4f} − {steps.highest:.4f}) ÷ Σ = "
                f"{steps.power:.6f} ÷ {steps.powers:.6f} = {steps.weight:.7f}",
                ha="center", fontsize=11, parse_math=False)
    return figure


STUDY = Study("qkv", QkvOptions, run, draw, table)
