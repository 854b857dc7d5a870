"""The passage of a text through the network, with the real numbers of every stop.

Way    from ids to probabilities: the vector of one token at each station
Block  one layer from inside: its eight steps in the order in which this checkpoint takes them
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert.lab import Lab, Matrix, Options, Study, summary, unpacked
from bert.predict import Inspection
from bert.texts import colours, say
from bert.views import class_list

ENTRY = {"token": "token vectors", "segment": "segment vectors", "position": "position vectors",
         "sum": "sum"}


def shape_text(shape: Sequence[int]) -> str:
    """(1, 14, 192) as people write it."""
    return f"({', '.join(map(str, shape))})"


def signed_colours(values: np.ndarray, limit: float) -> np.ndarray:
    """Values of −limit … limit in the page's colours: (…) -> (…, 3), for matplotlib."""
    table = np.array([list(bytes.fromhex(colour[1:])) for colour in colours()["signed"]]) / 255
    return table[np.clip(np.rint(128 + 127 * np.asarray(values) / limit), 0, 255).astype(int)]


def signed_picture(packed: Mapping[str, Any]) -> np.ndarray:
    """A painted matrix as the browser got it, in the page's colours: (rows, columns, 3)."""
    return signed_colours(unpacked(packed), packed["limit"])


# ---------------------------------------------------------------------------------- the whole way


def station(name: str, shape: Sequence[int], vector: np.ndarray, **more: Any) -> dict:
    """One stop of a vector on its way; the shape is that of the whole tensor."""
    exact = vector.astype(np.float64)
    return {"name": name, "shape": shape_text(shape), "values": vector, "mean": exact.mean(),
            "spread": exact.std(), "norm": np.linalg.norm(exact), **more}


def on_one_scale(stations: Sequence[dict]) -> list[dict]:
    """Stations whose colours can be compared."""
    limit = max(float(np.abs(stop["values"]).max()) for stop in stations) or 1.0
    return [{**stop, "limit": limit} for stop in stations]


def run_way(lab: Lab, text: str, options: Options) -> dict:
    trace, checkpoint = lab.trace(text), lab.classifier.checkpoint
    config, encoding = checkpoint.config, trace.encoding
    token = options.number("token", 0, len(encoding.ids) - 1, 0)
    is_pre_norm = config.norm == "pre"
    layer_end = "feed-forward residual" if is_pre_norm else "feed-forward LayerNorm"
    states = [trace.value("LayerNorm"),
              *(trace.value(layer_end, n) for n in range(1, config.num_hidden_layers + 1))]

    def of_token(name: str, tensor: np.ndarray, **more: Any) -> dict:
        return station(name, tensor.shape, tensor[0, token], **more)

    entry = [of_token(name, trace.value(step)) for name, step in ENTRY.items()]
    layers = [of_token("norm", states[0])]
    for number, (before, after) in enumerate(zip(states, states[1:], strict=False), 1):
        moved = np.linalg.norm((after - before)[0, token].astype(np.float64))
        layers.append(of_token("layer", after, layer=number, moved=moved))
    last = trace.value("final LayerNorm") if is_pre_norm else states[-1]              # (1, T, E)
    if is_pre_norm:
        layers.append(of_token("final", last))
    end = []
    if "pooler" not in checkpoint.missing:
        read = last.mean(axis=1) if config.pooling == "mean" else last[:, 0]          # (1, E)
        pooled = trace.value("pooled")                                                # (1, E)
        layers.append(station("read", read.shape, read[0]))
        end.append({**station("pooled", pooled.shape, pooled[0]), "limit": 1.0})  # tanh ends at 1
    stations = [*on_one_scale(entry), *on_one_scale(layers), *end]
    found = {"token": token, "pieces": encoding.pieces, "ids": encoding.ids,
             "segment": encoding.segment_ids[token], "vocabulary": config.vocab_size,
             "pooling": config.pooling, "stations": stations, "classes": []}
    if checkpoint.has_classifier:
        found |= {"classes": class_list(config.id2label), "logits": trace.value("logits")[0],
                  "probabilities": trace.value("probabilities")[0]}
    return found


def stop_name(stop: Mapping[str, Any]) -> str:
    return f"layer {stop['layer']}" if "layer" in stop else stop["name"]


def way_table(data: Mapping[str, Any]) -> list[list]:
    width = len(data["stations"][0]["values"])
    rows = [["station", "shape", "mean", "spread", "norm", *range(1, width + 1)],
            *([stop_name(stop), stop["shape"], stop["mean"], stop["spread"], stop["norm"],
               *stop["values"]] for stop in data["stations"])]
    if data["classes"]:
        rows += [[], ["class", "logit", "probability"],
                 *([item["key"], *pair] for item, *pair in
                   zip(data["classes"], data["logits"], data["probabilities"], strict=True))]
    return rows


def station_title(stop: Mapping[str, Any], pooling: str, language: str) -> str:
    """A station as the page names it."""
    if "layer" in stop:
        return say(language, "layer_n", n=stop["layer"])
    if stop["name"] == "read":
        return say(language, "way_read_mean" if pooling == "mean" else "way_read_cls")
    return say(language, f"way_{stop['name']}")


def draw_way(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure
    stations, classes = data["stations"], data["classes"]
    figure = new_figure(10, max(4.5, 1.6 + 0.28 * len(stations)))
    axes = figure.add_axes((0.22, 0.08, 0.36 if classes else 0.66, 0.8))
    axes.imshow(np.stack([signed_colours(stop["values"], stop["limit"]) for stop in stations]),
                aspect="auto", interpolation="nearest")                              # (S, E, 3)
    axes.set_yticks(range(len(stations)), [station_title(stop, data["pooling"], language)
                                           for stop in stations], fontsize=9)
    axes.set_xticks([])
    axes.set_xlabel(say(language, "way_dimensions"))
    axes.tick_params(length=0)
    axes.text(1.02, 1.0, say(language, "way_norm_short"), transform=axes.transAxes, va="bottom",
              fontsize=8)
    for row, stop in enumerate(stations):
        axes.text(1.02, row, f"{stop['norm']:.2f}", transform=axes.get_yaxis_transform(),
                  va="center", fontsize=8)
    title = f"{say(language, 'study_way')} · {drawable(data['pieces'][data['token']])}"
    figure.text(0.02, 0.95, title, fontsize=12, parse_math=False)
    if classes:
        bars = figure.add_axes((0.79, 0.08, 0.16, 0.8))
        shares = 100 * np.array(data["probabilities"])
        bars.barh(range(len(classes)), shares, color=[item["colour"] for item in classes])
        bars.set_yticks(range(len(classes)), [drawable(item[language]) for item in classes],
                        fontsize=9, parse_math=False)
        for row, (share, logit) in enumerate(zip(shares, data["logits"], strict=True)):
            bars.text(share + 2, row, f"{share:.1f} % ({logit:.2f})", va="center", fontsize=8)
        bars.set(xlim=(0, 150), xticks=[], xlabel=f"% ({say(language, 'way_logit')})")
        bars.invert_yaxis()
        bars.spines[["top", "right", "bottom"]].set_visible(False)
    return figure


# ---------------------------------------------------------------------------------- one block


def steps_of(trace: Inspection, layer: int) -> Iterator[tuple[str, np.ndarray]]:
    """The eight steps of a layer and their (1, T, E) tensors, in the order they were computed.
    Dropout leaves no trace of its own: outside training it hands on what it gets."""
    prefix = f"layer {layer} · "
    for step in trace.steps:
        if not step.name.startswith(prefix):
            continue
        half, _, what = step.name.removeprefix(prefix).rpartition(" ")
        if what == "LayerNorm":
            yield "norm", step.value
        elif what == "residual":
            yield "residual", step.value
        elif what == "output":
            yield {"attention": "attention", "feed-forward": "feed"}[half], step.value
            yield "dropout", step.value


def run_block(lab: Lab, text: str, options: Options) -> dict:
    trace, config = lab.trace(text), lab.classifier.config
    layer = options.number("layer", 1, config.num_hidden_layers, config.num_hidden_layers)
    head = options.number("head", 1, config.num_attention_heads, 1)
    token = options.number("token", 0, len(trace.encoding.ids) - 1, 0)
    names = [step.name for step in trace.steps]
    first = next(i for i, name in enumerate(names) if name.startswith(f"layer {layer} · "))
    entering = trace.steps[first - 1].value                                          # (1, T, E)
    inner = {name: trace.value(name, layer) for name in
             ("query", "attention", "context", "feed-forward activations")}
    whole = shape_text(entering.shape)
    shapes = {
        "attention": f"{whole} → {shape_text(inner['query'].shape)} × 3 → "
                     f"{shape_text(inner['attention'].shape)} → {whole}",
        "feed": f"{whole} → {shape_text(inner['feed-forward activations'].shape)} → {whole}"}
    steps = []
    for kind, value in steps_of(trace, layer):
        step = {"kind": kind, "shape": shapes.get(kind, whole), **summary(value)}
        if kind != "dropout":  # the numbers of the step before, once more
            step |= {"picture": Matrix(value[0], is_painted=True), "row": value[0, token]}
        steps.append(step)
    return {"layer": layer, "layers": config.num_hidden_layers, "head": head, "token": token,
            "step": options.number("step", 1, len(steps), 1), "pieces": trace.encoding.pieces,
            "norm": config.norm, "dropout": config.hidden_dropout_prob,
            "entering": {"shape": whole, **summary(entering)}, "steps": steps,
            "weights": Matrix(inner["attention"][0, head - 1], is_painted=True),      # (T, T)
            "context": Matrix(inner["context"][0, head - 1], is_painted=True)}        # (T, D)


def with_numbers(steps: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    """The step whose picture and row a step shows: its own, or those that dropout handed on."""
    chosen = steps[number - 1]
    return steps[number - 2] if chosen["kind"] == "dropout" else chosen


def block_table(data: Mapping[str, Any]) -> list[list]:
    figures = ("mean", "spread", "low", "high")
    piece = data["pieces"][data["token"]]
    numbers = [with_numbers(data["steps"], number + 1)["row"]
               for number in range(len(data["steps"]))]
    return [["step", "name", "shape", *figures,
             *(f"{piece} {place + 1}" for place in range(len(numbers[0])))],
            *([number, step["kind"], step["shape"], *(step[name] for name in figures), *row]
              for number, (step, row) in enumerate(zip(data["steps"], numbers, strict=True), 1))]


def draw_block(data: Mapping[str, Any], language: str):
    from bert.figures import coloured, drawable, new_figure
    figure = new_figure(12, 6.6)
    opened = data["steps"][data["step"] - 1]
    title = (f"{say(language, 'study_block')} · {say(language, 'layer_n', n=data['layer'])} · "
             f"{data['step']} {say(language, 'block_' + opened['kind'])}")
    figure.text(0.02, 0.95, title, fontsize=12)
    _draw_boxes(figure.add_axes((0.02, 0.03, 0.42, 0.88)), data, language)
    pieces = [drawable(piece, 10) for piece in data["pieces"]]
    is_attention = opened["kind"] == "attention"

    def show(place: tuple[float, float, float, float], pixels: np.ndarray) -> Any:
        axes = figure.add_axes(place)
        axes.imshow(pixels, aspect="auto", interpolation="nearest")
        every = -(-len(pieces) // 30)
        axes.set_yticks(range(0, len(pieces), every), pieces[::every], fontsize=7,
                        parse_math=False)
        axes.set_xticks([])
        axes.axhspan(data["token"] - 0.5, data["token"] + 0.5, fill=False, edgecolor="black")
        return axes

    packed = with_numbers(data["steps"], data["step"])["picture"]
    axes = show((0.54, 0.44, 0.44, 0.47), signed_picture(packed))
    axes.set_xlabel(f"{say(language, 'way_dimensions')} (±{packed['limit']:.3g})", fontsize=8)
    bars = figure.add_axes((0.54, 0.08, 0.2 if is_attention else 0.44, 0.2))
    width = (opened["to"] - opened["from"]) / len(opened["counts"])
    bars.bar(opened["from"] + width * np.arange(len(opened["counts"])), opened["counts"], width,
             align="edge", color="#3a4ea8")
    bars.set_title(say(language, "block_figures", **{
        name: f"{opened[name]:.3f}" for name in ("mean", "spread", "low", "high")}), fontsize=8,
        loc="left")
    bars.spines[["top", "right"]].set_visible(False)
    bars.tick_params(labelsize=7)
    if is_attention:
        for left, name, pixels in ((0.8, "weights", coloured(unpacked(data["weights"]))),
                                   (0.92, "context", signed_picture(data["context"]))):
            axes = show((left, 0.08, 0.07, 0.2), pixels)
            axes.set_yticks([])
            axes.set_title(say(language, f"block_{name}_short", n=data["head"]), fontsize=7)
    return figure


def _draw_boxes(axes: Any, data: Mapping[str, Any], language: str) -> None:
    """The eight boxes from top to bottom, the residual sums as lines beside them."""
    axes.set(xlim=(0, 1), ylim=(len(data["steps"]) + 0.5, -0.5))
    axes.axis("off")
    lines = [say(language, "block_entering"),
             *(f"{number} {say(language, 'block_' + step['kind'])}"
               for number, step in enumerate(data["steps"], 1))]
    for row, (line, step) in enumerate(zip(lines, [data["entering"], *data["steps"]],
                                           strict=True)):
        is_open = row == data["step"]
        axes.text(0.13, row, f"{line}\n{step['shape']}\n{step['mean']:.3f} ± {step['spread']:.3f}",
                  va="center", fontsize=7, linespacing=1.3, bbox={
                      "boxstyle": "round", "facecolor": "#eef1f6" if is_open else "white",
                      "edgecolor": "#3a4ea8" if is_open else "#dbe1e8"})
        if row:
            axes.annotate("", (0.16, row - 0.33), (0.16, row - 0.67),
                          arrowprops={"arrowstyle": "->", "color": "#566273"})
    for start, end in bypasses(data["steps"]):
        axes.annotate("", (0.11, end - 0.1), (0.03, end - 0.1),
                      arrowprops={"arrowstyle": "->", "color": "#b04d14"})
        axes.plot([0.11, 0.03, 0.03], [start + 0.1, start + 0.1, end - 0.1], color="#b04d14")


def bypasses(steps: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Where each residual line leaves the stack and where it comes back, 0 being the input."""
    ends = [number for number, step in enumerate(steps, 1) if step["kind"] == "residual"]
    return list(zip((0, len(steps) // 2), ends, strict=True))


WAY = Study("way", run_way, draw_way, way_table)
BLOCK = Study("block", run_block, draw_block, block_table)
