"""Inside a layer: its eight steps in the order in which this checkpoint takes them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.activations import Summary, layer_input, layer_steps, summary
from bert.studies.base import (
    HeadOptions,
    Matrix,
    Number,
    Numbers,
    Study,
    StudyContext,
    unpack,
    within,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Axes, Figure

FIGURES = ("mean", "std", "low", "high")


class LayerOptions(HeadOptions):
    local = ("step",)
    token: Number = 0
    step: Number = 1


class InputData(Summary):
    shape: str


class StepData(InputData):
    """One step; dropout has the numbers of the step before and sends none of its own."""

    kind: str
    picture: NotRequired[Any]  # a matrix, (T, E)
    row: NotRequired[Numbers]  # the chosen token's, (E,)


class LayerData(TypedDict):
    layer: int
    layers: int
    head: int
    token: int
    step: int
    pieces: list[str]
    norm: str
    dropout: float
    entering: InputData
    steps: list[StepData]
    weights: Any               # a matrix, (T, T)
    context: Any               # a matrix, (T, D)


def shape_text(tensor: np.ndarray) -> str:
    """(1, 14, 192) as people write it."""
    return f"({', '.join(map(str, tensor.shape))})"


def run(context: StudyContext, text: str, options: LayerOptions) -> LayerData:
    cache, config = context.cache(text), context.config
    layer, head = options.chosen(config)
    token = within(options.token, 0, len(cache.encoding.ids) - 1, 0)
    entering = layer_input(cache, layer)                                             # (1, T, E)
    whole = shape_text(entering)
    shape_of = {name: shape_text(cache.value(name, layer))
                for name in ("query", "attention", "feed-forward activations")}
    shapes = {"attention": f"{whole} → {shape_of['query']} × 3 → {shape_of['attention']} → {whole}",
              "feed": f"{whole} → {shape_of['feed-forward activations']} → {whole}"}
    steps: list[StepData] = []
    for kind, value in layer_steps(cache, layer):
        step: StepData = {"kind": kind, "shape": shapes.get(kind, whole), **summary(value)}
        if kind != "dropout":
            step |= {"picture": Matrix(value[0], "signed"), "row": value[0, token]}
        steps.append(step)
    return {"layer": layer, "layers": config.num_hidden_layers, "head": head, "token": token,
            "step": within(options.step, 1, len(steps), 1), "pieces": cache.encoding.pieces,
            "norm": config.norm, "dropout": config.hidden_dropout_prob,
            "entering": {"shape": whole, **summary(entering)}, "steps": steps,
            "weights": Matrix(cache.value("attention", layer)[0, head - 1], "weights"),
            "context": Matrix(cache.value("context", layer)[0, head - 1], "signed")}


def with_numbers(steps: Sequence[StepData], number: int) -> StepData:
    """The step whose picture and row a step shows: its own, or those that dropout handed on."""
    chosen = steps[number - 1]
    return steps[number - 2] if chosen["kind"] == "dropout" else chosen


def table(data: LayerData) -> list[list[Any]]:
    piece = data["pieces"][data["token"]]
    numbers = [with_numbers(data["steps"], number + 1)["row"]
               for number in range(len(data["steps"]))]
    return [["step", "name", "shape", *FIGURES,
             *(f"{piece} {place + 1}" for place in range(len(numbers[0])))],
            *([number, step["kind"], step["shape"], step["mean"], step["std"], step["low"],
               step["high"], *row]
              for number, (step, row) in enumerate(zip(data["steps"], numbers, strict=True), 1))]


def draw(data: LayerData, language: Language) -> "Figure":
    from bert.drawing.charts import signed_pixels
    from bert.drawing.figures import coloured, drawable, new_figure
    figure = new_figure(12, 6.6)
    opened = data["steps"][data["step"] - 1]
    title = (f"{say(language, 'study_layer')} · {say(language, 'layer_n', n=data['layer'])} · "
             f"{data['step']} {say(language, 'layer_' + opened['kind'])}")
    figure.text(0.02, 0.95, title, fontsize=12)
    _draw_boxes(figure.add_axes((0.02, 0.03, 0.42, 0.88)), data, language)
    pieces = [drawable(piece, 10) for piece in data["pieces"]]
    is_attention = opened["kind"] == "attention"

    def show(place: tuple[float, float, float, float], pixels: np.ndarray) -> "Axes":
        axes = figure.add_axes(place)
        axes.imshow(pixels, aspect="auto", interpolation="nearest")
        every = -(-len(pieces) // 30)
        axes.set_yticks(range(0, len(pieces), every), pieces[::every], fontsize=7,
                        parse_math=False)
        axes.set_xticks([])
        axes.axhspan(data["token"] - 0.5, data["token"] + 0.5, fill=False, edgecolor="black")
        return axes

    picture = with_numbers(data["steps"], data["step"])["picture"]
    axes = show((0.54, 0.44, 0.44, 0.47), signed_pixels(unpack(picture), picture["limit"]))
    axes.set_xlabel(f"{say(language, 'dimensions')} (±{picture['limit']:.3g})", fontsize=8)
    bars = figure.add_axes((0.54, 0.08, 0.2 if is_attention else 0.44, 0.2))
    width = (opened["end"] - opened["start"]) / len(opened["counts"])
    bars.bar(opened["start"] + width * np.arange(len(opened["counts"])), opened["counts"], width,
             align="edge", color="#3a4ea8")
    bars.set_title(say(language, "layer_figures", mean=f"{opened['mean']:.3f}",
                       std=f"{opened['std']:.3f}", low=f"{opened['low']:.3f}",
                       high=f"{opened['high']:.3f}"), fontsize=8, loc="left")
    bars.spines[["top", "right"]].set_visible(False)
    bars.tick_params(labelsize=7)
    if is_attention:
        pixels = {"weights": coloured(unpack(data["weights"])), "context": signed_pixels(
            unpack(data["context"]), data["context"]["limit"])}
        for left, (name, shown) in zip((0.8, 0.92), pixels.items(), strict=True):
            axes = show((left, 0.08, 0.07, 0.2), shown)
            axes.set_yticks([])
            axes.set_title(say(language, f"layer_{name}_short", n=data["head"]), fontsize=7)
    return figure


def _draw_boxes(axes: "Axes", data: LayerData, language: str) -> None:
    """The eight boxes from top to bottom, the residual sums as lines beside them."""
    axes.set(xlim=(0, 1), ylim=(len(data["steps"]) + 0.5, -0.5))
    axes.axis("off")
    lines = [say(language, "layer_entering"),
             *(f"{number} {say(language, 'layer_' + step['kind'])}"
               for number, step in enumerate(data["steps"], 1))]
    boxes: list[InputData] = [data["entering"], *data["steps"]]
    for row, (line, box) in enumerate(zip(lines, boxes, strict=True)):
        is_open = row == data["step"]
        axes.text(0.13, row, f"{line}\n{box['shape']}\n{box['mean']:.3f} ± {box['std']:.3f}",
                  va="center", fontsize=7, linespacing=1.3, bbox={
                      "boxstyle": "round", "facecolor": "#eef1f6" if is_open else "white",
                      "edgecolor": "#3a4ea8" if is_open else "#dbe1e8"})
        if row:
            axes.annotate("", (0.16, row - 0.33), (0.16, row - 0.67),
                          arrowprops={"arrowstyle": "->", "color": "#566273"})
    for start, end in residual_lines(data["steps"]):
        axes.annotate("", (0.11, end - 0.1), (0.03, end - 0.1),
                      arrowprops={"arrowstyle": "->", "color": "#b04d14"})
        axes.plot([0.11, 0.03, 0.03], [start + 0.1, start + 0.1, end - 0.1], color="#b04d14")


def residual_lines(steps: Sequence[StepData]) -> list[tuple[int, int]]:
    """Where each residual line leaves the stack and where it comes back, 0 being the input."""
    ends = [number for number, step in enumerate(steps, 1) if step["kind"] == "residual"]
    return list(zip((0, len(steps) // 2), ends, strict=True))


STUDY = Study("layer", LayerOptions, run, draw, table)
