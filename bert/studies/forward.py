"""The forward pass: one token from its id to the probabilities, station by station."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.activations import layer_outputs
from bert.studies.base import (
    ClassItem,
    Number,
    Numbers,
    Study,
    StudyContext,
    StudyOptions,
    within,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

EMBEDDING_STEPS = {"token": "token vectors", "segment": "segment vectors",
                   "position": "position vectors", "sum": "sum"}


class ForwardOptions(StudyOptions):
    token: Number = 0


class Station(TypedDict):
    """One stop of a token's vector; the shape is that of the whole tensor."""

    name: str
    shape: str
    values: Numbers            # (E,)
    mean: float
    std: float
    norm: float
    limit: float               # of the colours
    layer: NotRequired[int]
    moved: NotRequired[float]  # how far the layer moved the vector


class ForwardData(TypedDict):
    token: int
    pieces: list[str]
    ids: list[int]
    segment: int
    vocabulary: int
    pooling: str
    stations: list[Station]
    classes: list[ClassItem]
    logits: Numbers            # (C,)
    probabilities: Numbers     # (C,)


def station(name: str, tensor: np.ndarray, vector: np.ndarray) -> Station:
    exact = vector.astype(np.float64)
    shape = f"({', '.join(map(str, tensor.shape))})"
    return {"name": name, "shape": shape, "values": vector, "mean": exact.mean(),
            "std": exact.std(), "norm": float(np.linalg.norm(exact)), "limit": 1.0}


def on_one_scale(stations: Sequence[Station]) -> list[Station]:
    """Stations whose colours can be compared."""
    limit = max(float(np.abs(stop["values"]).max()) for stop in stations) or 1.0
    return [{**stop, "limit": limit} for stop in stations]


def run(context: StudyContext, text: str, options: ForwardOptions) -> ForwardData:
    cache, checkpoint, config = context.cache(text), context.classifier.checkpoint, context.config
    encoding = cache.encoding
    token = within(options.token, 0, len(encoding.ids) - 1, 0)
    embeddings = [station(name, tensor, tensor[0, token]) for name, tensor in
                  ((name, cache.value(step)) for name, step in EMBEDDING_STEPS.items())]
    states = layer_outputs(cache, config)                                   # L + 1 × (1, T, E)
    layers = [station("norm", states[0], states[0][0, token])]
    for number, (before, after) in enumerate(zip(states, states[1:], strict=False), 1):
        moved = float(np.linalg.norm((after - before)[0, token].astype(np.float64)))
        layers.append({**station("layer", after, after[0, token]), "layer": number,
                       "moved": moved})
    last = states[-1]
    if config.norm == "pre":
        last = cache.value("final LayerNorm")
        layers.append(station("final", last, last[0, token]))
    end = []
    if "pooler" not in checkpoint.missing:
        read = last.mean(axis=1) if config.pooling == "mean" else last[:, 0]          # (1, E)
        pooled = cache.value("pooled")                                                # (1, E)
        layers.append(station("read", read, read[0]))
        end.append(station("pooled", pooled, pooled[0]))  # tanh ends at the limit of 1
    has_classifier = checkpoint.has_classifier
    return {"token": token, "pieces": encoding.pieces, "ids": encoding.ids,
            "segment": encoding.segment_ids[token], "vocabulary": config.vocab_size,
            "pooling": config.pooling, "classes": context.classes,
            "stations": [*on_one_scale(embeddings), *on_one_scale(layers), *end],
            "logits": cache.value("logits")[0] if has_classifier else [],
            "probabilities": context.probabilities(cache)}


def table(data: ForwardData) -> list[list[Any]]:
    width = len(data["stations"][0]["values"])
    rows = [["station", "shape", "mean", "std", "norm", *range(1, width + 1)],
            *([f"layer {stop['layer']}" if "layer" in stop else stop["name"], stop["shape"],
               stop["mean"], stop["std"], stop["norm"], *stop["values"]]
              for stop in data["stations"])]
    if data["classes"]:
        rows += [[], ["class", "logit", "probability"],
                 *([item["key"], *figures] for item, *figures in
                   zip(data["classes"], data["logits"], data["probabilities"], strict=True))]
    return rows


def station_title(stop: Station, pooling: str, language: str) -> str:
    """A station as the page names it."""
    if "layer" in stop:
        return say(language, "layer_n", n=stop["layer"])
    if stop["name"] == "read":
        return say(language, "forward_read_mean" if pooling == "mean" else "forward_read_cls")
    return say(language, f"forward_{stop['name']}")


def draw(data: ForwardData, language: Language) -> "Figure":
    from bert.drawing.charts import finish_bars, signed_pixels
    from bert.drawing.figures import drawable, new_figure
    stations, classes = data["stations"], data["classes"]
    figure = new_figure(10, max(4.5, 1.6 + 0.28 * len(stations)))
    axes = figure.add_axes((0.22, 0.08, 0.36 if classes else 0.66, 0.8))
    axes.imshow(np.stack([signed_pixels(stop["values"], stop["limit"]) for stop in stations]),
                aspect="auto", interpolation="nearest")                              # (S, E, 3)
    axes.set_yticks(range(len(stations)), [station_title(stop, data["pooling"], language)
                                           for stop in stations], fontsize=9)
    axes.set_xticks([])
    axes.set_xlabel(say(language, "dimensions"))
    axes.tick_params(length=0)
    axes.text(1.02, 1.0, say(language, "forward_norm_short"), transform=axes.transAxes,
              va="bottom", fontsize=8)
    for row, stop in enumerate(stations):
        axes.text(1.02, row, f"{stop['norm']:.2f}", transform=axes.get_yaxis_transform(),
                  va="center", fontsize=8)
    title = f"{say(language, 'study_forward')} · {drawable(data['pieces'][data['token']])}"
    figure.text(0.02, 0.95, title, fontsize=12, parse_math=False)
    if classes:
        bars = figure.add_axes((0.79, 0.08, 0.16, 0.8))
        shares = 100 * np.array(data["probabilities"])
        bars.barh(range(len(classes)), shares, color=[item["colour"] for item in classes])
        for row, (share, logit) in enumerate(zip(shares, data["logits"], strict=True)):
            bars.text(share + 2, row, f"{share:.1f} % ({logit:.2f})", va="center", fontsize=8)
        finish_bars(bars, classes, language, size=9, widest=150)
        bars.set(xticks=[], xlabel=f"% ({say(language, 'forward_logit')})")
        bars.spines["bottom"].set_visible(False)
    return figure


STUDY = Study("forward", ForwardOptions, run, draw, table)
