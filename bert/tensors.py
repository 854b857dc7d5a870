"""Tensors to look at: the vector of every token after every layer, and one head's arithmetic.

Hidden   the hidden states, layer by layer, and how much each layer changed them
QKV      query, key and value of one head, and how an attention weight comes out of them
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert.lab import BINS, Lab, Matrix, Options, Study, plain, summary, unpacked
from bert.predict import Inspection
from bert.texts import say

BLOCK = 128        # hidden dimensions shown at a time
COLOURED = 0.99    # share of the values that the colour scale covers
MATRICES = ("query", "key", "value", "scores", "attention", "context")


# ---------------------------------------------------------------------------------- hidden states


def hidden_states(trace: Inspection, num_layers: int, is_pre_norm: bool) -> np.ndarray:
    """The embeddings, then what each layer hands on: (L + 1, T, E), as the model returns them."""
    last_step = "feed-forward residual" if is_pre_norm else "feed-forward LayerNorm"
    states = [trace.value("LayerNorm"),
              *(trace.value(last_step, layer) for layer in range(1, num_layers + 1))]
    if is_pre_norm:
        states[-1] = trace.value("final LayerNorm")
    return np.concatenate(states)


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of the angle between vectors, along the last axis."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return (one * other).sum(axis=-1) / np.maximum(lengths, np.finfo(np.float64).tiny)


def cosines(states: np.ndarray) -> np.ndarray:
    """Each token's cosine to itself one layer before: (L + 1, T, E) -> (L, T)."""
    return cosine(states[:-1], states[1:])


def distributions(states: np.ndarray) -> list[dict]:
    """Mean, spread and histogram of every layer's values, all over the same range."""
    low, high = states.min(), states.max()
    return [{**summary(layer), "counts": np.histogram(layer, BINS, (low, high))[0],
             "from": low, "to": high} for layer in states]


def run_hidden(lab: Lab, text: str, options: Options) -> dict:
    """All tokens after all layers at 8 bits, so that the browser can switch by itself; cosines and
    norms, and the values of what is chosen, exactly."""
    config = lab.classifier.config
    trace = lab.trace(text)
    exact = hidden_states(trace, config.num_hidden_layers, config.norm == "pre")     # (L + 1, T, E)
    states = exact.astype(np.float64)
    num_tokens, width = states.shape[1:]
    token = options.number("token", 0, num_tokens - 1, 0)
    at = options.number("at", 0, config.num_hidden_layers, -1)
    first = min(options.number("first", 0, 10**9, 0), width - 1) // BLOCK * BLOCK
    rows = exact[:, token] if at < 0 else exact[at]
    return {"tokens": trace.encoding.pieces, "token": token, "at": None if at < 0 else at,
            "first": first, "block": BLOCK, "width": width,
            "states": [Matrix(layer, is_painted=True) for layer in states],
            "limit": float(np.quantile(np.abs(states), COLOURED)) or 1.0,
            "cosines": cosines(states), "norms": np.linalg.norm(states, axis=-1),
            "distributions": distributions(states),
            "values": Matrix(rows[:, first:first + BLOCK])}


def hidden_rows(data: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The (layer, token) of each row on the screen."""
    if data["at"] is None:
        return [(layer, data["token"]) for layer in range(len(data["norms"]))]
    return [(data["at"], token) for token in range(len(data["tokens"]))]


def hidden_table(data: Mapping[str, Any]) -> list[list]:
    values = unpacked(data["values"])
    dimensions = range(data["first"], data["first"] + values.shape[1])
    return [["layer", "place", "token", "cosine to the layer before", "norm",
             *(f"dimension {number}" for number in dimensions)],
            *([layer, token, data["tokens"][token],
               data["cosines"][layer - 1][token] if layer else "", data["norms"][layer][token],
               *plain(row)]
              for (layer, token), row in zip(hidden_rows(data), values, strict=True))]


def draw_hidden(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure, signed_map
    rows, values = hidden_rows(data), unpacked(data["values"])
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
    is_token = data["at"] is None
    names = ([say(language, "layer_n", n=layer) for layer, _ in rows] if is_token
             else [drawable(data["tokens"][token], 12) for _, token in rows])
    axes.set_yticks(range(len(rows)), names, parse_math=False)
    axes.xaxis.tick_top()
    chosen = (drawable(data["tokens"][data["token"]]) if is_token
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
        small_axes.stairs(found["counts"], np.linspace(found["from"], found["to"], BINS + 1),
                          fill=True)
        small_axes.set(yticks=[], xticks=[])
        small_axes.spines[["top", "left", "right"]].set_visible(False)
        mean = round(found["mean"], 2) + 0.0  # no −0.00
        small_axes.set_title(f"{say(language, 'layer_n', n=layer)} · "
                             f"{mean:.2f} ± {found['spread']:.2f}", fontsize=8, pad=2)
    return figure


HIDDEN = Study("hidden", run_hidden, draw_hidden, hidden_table)


# ---------------------------------------------------------------------------------- Q, K, V


def run_qkv(lab: Lab, text: str, options: Options) -> dict:
    """The six matrices of one head, exactly, and the cell that is worked out."""
    config = lab.classifier.config
    layer = options.number("layer", 1, config.num_hidden_layers, config.num_hidden_layers)
    head = options.number("head", 1, config.num_attention_heads, 1)
    trace = lab.trace(text)
    found = {name: trace.value(name, layer)[0, head - 1] for name in MATRICES}  # (T, D) or (T, T)
    last = len(found["attention"]) - 1
    query = options.number("query", 0, last, 0)
    key = options.number("key", 0, last, int(found["attention"][query].argmax()))
    return {"tokens": trace.encoding.pieces, "layer": layer, "head": head, "query": query,
            "key": key, "matrices": {name: Matrix(matrix) for name, matrix in found.items()}}


def arithmetic(data: Mapping[str, Any]) -> dict:
    """How the weight of the chosen cell comes out of its query and key, step by step."""
    of = {name: unpacked(packed).astype(np.float64)
          for name, packed in data["matrices"].items()}
    products = of["query"][data["query"]] * of["key"][data["key"]]                   # (D,)
    row = of["scores"][data["query"]]                                                # (T,)
    powers = np.exp(row - row.max())
    return {"products": products, "sum": products.sum(),
            "score": products.sum() / np.sqrt(len(products)), "highest": row.max(),
            "power": powers[data["key"]], "powers": powers.sum(),
            "weight": powers[data["key"]] / powers.sum(),
            "heatmap": of["attention"][data["query"], data["key"]]}


def qkv_table(data: Mapping[str, Any]) -> list[list]:
    matrices = {name: unpacked(packed) for name, packed in data["matrices"].items()}
    most = max(matrix.shape[1] for matrix in matrices.values())
    return [["matrix", "place", "token", *range(most)],
            *([name, place, data["tokens"][place], *plain(row)]
              for name, matrix in matrices.items() for place, row in enumerate(matrix))]


def draw_qkv(data: Mapping[str, Any], language: str):
    from bert.figures import COLOUR_MAP, drawable, new_figure, signed_map
    names = [drawable(token, 10) for token in data["tokens"]]
    num_tokens, width = len(names), data["matrices"]["query"]["columns"]
    steps = arithmetic(data)
    size = 9 if num_tokens <= 24 else 5
    figure = new_figure(12, 8.6)
    for place, (name, packed) in enumerate(data["matrices"].items()):
        line, column = divmod(place, 3)
        axes = figure.add_axes((0.08 + 0.315 * column, 0.58 - 0.41 * line, 0.2, 0.33))
        matrix = unpacked(packed)
        limit = float(np.abs(matrix).max()) or 1.0
        scale = ({"cmap": COLOUR_MAP, "vmin": 0.0, "vmax": 1.0} if name == "attention" else
                 {"cmap": signed_map(), "vmin": -limit, "vmax": limit})
        image = axes.imshow(matrix, aspect="auto", interpolation="nearest", **scale)
        axes.set_title(say(language, f"qkv_{name}", width=width), fontsize=11)
        axes.set_yticks(range(num_tokens), names, parse_math=False, fontsize=size)
        if name in ("scores", "attention"):
            axes.set_xticks(range(num_tokens), names, parse_math=False, fontsize=size, rotation=90)
            axes.plot(data["key"], data["query"], "s", markerfacecolor="none",
                      markeredgecolor="#d81b60", markersize=max(4, 150 / num_tokens))
        colours_of = figure.add_axes((0.285 + 0.315 * column, 0.58 - 0.41 * line, 0.008, 0.33))
        figure.colorbar(image, cax=colours_of).ax.tick_params(labelsize=8)
    figure.text(0.5, 0.96, f"{say(language, 'layer_n', n=data['layer'])} · "
                f"{say(language, 'head_n', n=data['head'])}", ha="center", fontsize=12)
    figure.text(0.5, 0.045, f"{names[data['query']]} → {names[data['key']]}:  "
                f"q · k = {steps['sum']:.4f},  ÷ √{width} = {steps['score']:.4f},  "
                f"exp({steps['score']:.4f} − {steps['highest']:.4f}) ÷ Σ = "
                f"{steps['power']:.6f} ÷ {steps['powers']:.6f} = {steps['weight']:.7f}",
                ha="center", fontsize=11, parse_math=False)
    return figure


QKV = Study("qkv", run_qkv, draw_qkv, qkv_table)
