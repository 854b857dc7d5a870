"""Probes: reading the answer where it was not meant to be read, and without parts of the network.

Lens   the classifier after every layer: where in the network the feeling appears
Off    heads switched off: what the answer owes to each of them
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from bert.lab import Lab, Options, Study
from bert.predict import EmotionClassifier
from bert.tensors import hidden_states
from bert.texts import say
from bert.views import class_list

TOKENS_AT_ONCE = 4_096  # of all copies of a text that run together with different heads off
KEPT_MAPS = 8           # texts whose map of heads is kept: 6 KB each
RANKED = 5              # heads that are named
HEAD = re.compile(r"([0-9]{1,4})\.([0-9]{1,4}|\*)")


# ---------------------------------------------------------------------------------- emotion lens


@torch.inference_mode()
def lens(classifier: EmotionClassifier, hidden_states: np.ndarray) -> np.ndarray:
    """The class probabilities read after each layer: (L + 1, T, E) -> (L + 1, C).

    Pooler and classifier were trained on the last layer only; on the others this is a probe.
    """
    model = classifier.model
    states = torch.from_numpy(np.ascontiguousarray(hidden_states))                   # (L + 1, T, E)
    states = torch.cat([model.bert.encoder.final_norm(states[:-1]), states[-1:]])
    logits = model.classifier(model.bert.pooler(states, None))                       # (L + 1, C)
    return logits.softmax(dim=-1).numpy()


def run_lens(lab: Lab, text: str, options: Options) -> dict:
    lab.classifier.needs_classifier()
    config = lab.classifier.config
    states = hidden_states(lab.trace(text), config.num_hidden_layers, config.norm == "pre")
    shares = lens(lab.classifier, states)
    best = int(shares[-1].argmax())
    wrong = np.flatnonzero(shares.argmax(axis=1) != best)
    # From layer 1: at layer 0 [CLS] has looked at nothing and is the same for every text.
    return {"classes": class_list(lab.classifier.keys), "shares": shares, "best": best,
            "settled": int(wrong.max(initial=0)) + 1}


def lens_table(data: Mapping[str, Any]) -> list[list]:
    return [["layer", *(item["key"] for item in data["classes"])],
            *([layer, *row] for layer, row in enumerate(data["shares"]))]


def draw_lens(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure
    figure = new_figure(9, 5)
    axes = figure.add_axes((0.08, 0.12, 0.66, 0.78))
    shares = 100 * np.array(data["shares"])
    for column, item in enumerate(data["classes"]):
        is_best = column == data["best"]
        axes.plot(shares[:, column], color=item["colour"], linewidth=2.6 if is_best else 1.2,
                  label=drawable(item[language]), zorder=3 if is_best else 2)
    axes.set_xticks(range(len(shares)))
    axes.set(xlim=(0, len(shares) - 1), ylim=(0, 100), xlabel=say(language, "layer"), ylabel="%")
    axes.set_title(say(language, "study_lens"))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    return figure


LENS = Study("lens", run_lens, draw_lens, lens_table)


# ---------------------------------------------------------------------------------- heads off


def read_heads(given: Any, num_layers: int, num_heads: int) -> list[tuple[int, int]]:
    """The heads of "1.3,5.*", counted from 1; whatever names no head is passed over.

    >>> read_heads("1.2,2.*,9.9,no", num_layers=2, num_heads=2)
    [(1, 2), (2, 1), (2, 2)]
    """
    named = [HEAD.fullmatch(part) for part in given.split(",")] if isinstance(given, str) else []
    pairs = {found.group(1, 2) for found in named if found}
    return [(layer, head) for layer in range(1, num_layers + 1) for head in range(1, num_heads + 1)
            if {(str(layer), str(head)), (str(layer), "*")} & pairs]


@torch.inference_mode()
def answers(classifier: EmotionClassifier, text: str, heads_on: torch.Tensor) -> np.ndarray:
    """The class probabilities of a text under many switches: (B, L, H) of 1 and 0 -> (B, C)."""
    ids = torch.tensor([classifier.encode(text).ids])                                # (1, T)
    parts = heads_on.split(max(1, TOKENS_AT_ONCE // ids.size(1)))
    return torch.cat([
        classifier.model(ids.expand(len(part), -1), lean=True, heads_on=part).logits.softmax(dim=-1)
        for part in parts]).numpy()


@lru_cache(maxsize=KEPT_MAPS)
def without_each_head(classifier: EmotionClassifier, text: str) -> tuple[np.ndarray, np.ndarray]:
    """The answer with every head on, (C,), and with each one off by itself, (L, H, C)."""
    shape = classifier.config.num_hidden_layers, classifier.config.num_attention_heads
    count = shape[0] * shape[1]
    heads_on = torch.cat([torch.ones(1, count), 1 - torch.eye(count)])              # (1 + L·H, L·H)
    found = answers(classifier, text, heads_on.unflatten(1, shape))                  # (1 + L·H, C)
    return found[0], found[1:].reshape(*shape, -1)


def run_off(lab: Lab, text: str, options: Options) -> dict:
    classifier = lab.classifier
    classifier.needs_classifier()
    before, alone = without_each_head(classifier, text)
    num_layers, num_heads = alone.shape[:2]
    off = read_heads(options.given.get("off"), num_layers, num_heads)
    if len(off) > 1:
        after = answers(classifier, text, classifier.heads_on(off)[None])[0]
    else:
        after = alone[off[0][0] - 1, off[0][1] - 1] if off else before
    best = int(before.argmax())
    effects = alone[..., best] - before[best]                                        # (L, H)
    order = np.argsort(-np.abs(effects), axis=None, kind="stable")[:RANKED]
    return {"classes": class_list(classifier.keys), "before": before, "after": after, "best": best,
            "off": off, "effects": effects,
            "ranked": [(place // num_heads + 1, place % num_heads + 1) for place in order.tolist()]}


def off_table(data: Mapping[str, Any]) -> list[list]:
    off = {tuple(head) for head in data["off"]}
    answer = data["classes"][data["best"]]["key"]
    return [["class", "all heads on", "heads off"],
            *([item["key"], before, after] for item, before, after in
              zip(data["classes"], data["before"], data["after"], strict=True)),
            [], ["layer", "head", f"change of {answer} without this head alone", "off"],
            *([layer, head, effect, int((layer, head) in off)]
              for layer, row in enumerate(data["effects"], 1)
              for head, effect in enumerate(row, 1))]


def draw_off(data: Mapping[str, Any], language: str):
    from bert.figures import INK, MUTED, drawable, new_figure, signed_map
    figure = new_figure(11, 5.6)
    effects = 100 * np.array(data["effects"])
    num_layers, num_heads = effects.shape
    name = data["classes"][data["best"]][language]
    axes = figure.add_axes((0.06, 0.2, 0.4, 0.66))
    limit = float(np.abs(effects).max()) or 1.0
    image = axes.imshow(effects, cmap=signed_map(), vmin=-limit, vmax=limit,
                        aspect="auto")
    axes.set_xticks(range(num_heads), range(1, num_heads + 1))
    axes.set_yticks(range(num_layers), range(1, num_layers + 1))
    axes.set(xlabel=say(language, "head"), ylabel=say(language, "layer"))
    for layer, head in data["off"]:
        is_strong = abs(effects[layer - 1, head - 1]) > limit / 2
        axes.text(head - 1, layer - 1, "×", ha="center", va="center", fontsize=13,
                  color="white" if is_strong else INK)
    scale = figure.colorbar(image, cax=figure.add_axes((0.06, 0.085, 0.4, 0.02)),
                            orientation="horizontal")
    scale.set_label(drawable(say(language, "off_scale", name=name), 80), fontsize=9)
    bars = figure.add_axes((0.6, 0.34, 0.32, 0.52))
    places = np.arange(len(data["classes"]))
    ink = [item["colour"] for item in data["classes"]]
    bars.barh(places - 0.2, 100 * np.array(data["before"]), 0.36, color=ink)
    bars.barh(places + 0.2, 100 * np.array(data["after"]), 0.36, color=ink, alpha=0.5)
    for place, (before, after) in enumerate(zip(data["before"], data["after"], strict=True)):
        change = round(100 * (after - before), 1) + 0.0  # no "-0.0"
        bars.text(100 * max(before, after) + 1, place, f"{change:+.1f}", va="center", fontsize=8)
    bars.set_yticks(places, [drawable(item[language]) for item in data["classes"]],
                    parse_math=False)
    bars.invert_yaxis()
    bars.set(xlim=(0, 112), xlabel="%")
    bars.set_title(f"{say(language, 'off_before')} → {say(language, 'off_after')}", fontsize=10)
    bars.spines[["top", "right"]].set_visible(False)
    figure.text(0.5, 0.22, say(language, "off_ranked"), fontsize=9, color=MUTED)
    for place, (layer, head) in enumerate(data["ranked"]):
        named = say(language, "off_chip", layer=layer, head=head)
        figure.text(0.5 + 0.25 * (place % 2), 0.17 - 0.045 * (place // 2),
                    f"{named}   {effects[layer - 1, head - 1]:+.2f}", fontsize=9, color=INK)
    figure.suptitle(say(language, "study_off"))
    return figure


OFF = Study("off", run_off, draw_off, off_table)
