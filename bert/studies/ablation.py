"""Ablation: heads switched off, and what the answer owes to each of them."""

import re
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.ablation import strongest, without_each_head, without_heads
from bert.studies.base import ClassItem, Numbers, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

RANKED = 5  # heads that are named
HEAD = re.compile(r"([0-9]{1,4})\.([0-9]{1,4}|\*)")


class AblationOptions(StudyOptions):
    heads_off: str = ""  # "1.3,5.*": head 3 of layer 1, all heads of layer 5


class AblationData(TypedDict):
    classes: list[ClassItem]
    before: Numbers               # (C,)
    after: Numbers                # (C,)
    best: int                     # the answer with all heads on
    off: list[tuple[int, int]]    # layer and head, from 1
    effects: Numbers              # (L, H), change of the answer without each head alone
    ranked: list[tuple[int, int]]


def read_heads(given: str, num_layers: int, num_heads: int) -> list[tuple[int, int]]:
    """The heads of "1.3,5.*", counted from 1; whatever names no head is passed over.

    >>> read_heads("1.2,2.*,9.9,no", num_layers=2, num_heads=2)
    [(1, 2), (2, 1), (2, 2)]
    """
    named = {found.group(1, 2) for part in given.split(",") if (found := HEAD.fullmatch(part))}
    return [(layer, head) for layer in range(1, num_layers + 1) for head in range(1, num_heads + 1)
            if {(str(layer), str(head)), (str(layer), "*")} & named]


def run(context: StudyContext, text: str, options: AblationOptions) -> AblationData:
    classifier = context.classifier
    classifier.needs_classifier()
    before, alone = without_each_head(classifier, text)
    off = read_heads(options.heads_off, *alone.shape[:2])
    best = int(before.argmax())
    effects = alone[..., best] - before[best]                                        # (L, H)
    return {"classes": context.classes, "before": before,
            "after": without_heads(classifier, text, off), "best": best, "off": off,
            "effects": effects, "ranked": strongest(effects, RANKED)}


def table(data: AblationData) -> list[list[Any]]:
    off = {tuple(head) for head in data["off"]}
    answer = data["classes"][data["best"]]["key"]
    return [["class", "all heads on", "heads off"],
            *([item["key"], before, after] for item, before, after in
              zip(data["classes"], data["before"], data["after"], strict=True)),
            [], ["layer", "head", f"change of {answer} without this head alone", "off"],
            *([layer, head, effect, int((layer, head) in off)]
              for layer, row in enumerate(data["effects"], 1)
              for head, effect in enumerate(row, 1))]


def draw(data: AblationData, language: Language) -> "Figure":
    from bert.drawing.charts import finish_bars
    from bert.drawing.figures import INK, MUTED, drawable, new_figure, signed_map
    figure = new_figure(11, 5.6)
    effects = 100 * np.array(data["effects"])
    num_layers, num_heads = effects.shape
    name = data["classes"][data["best"]][language]
    axes = figure.add_axes((0.06, 0.2, 0.4, 0.66))
    limit = float(np.abs(effects).max()) or 1.0
    image = axes.imshow(effects, cmap=signed_map(), vmin=-limit, vmax=limit, aspect="auto")
    axes.set_xticks(range(num_heads), [str(head + 1) for head in range(num_heads)])
    axes.set_yticks(range(num_layers), [str(layer + 1) for layer in range(num_layers)])
    axes.set(xlabel=say(language, "head"), ylabel=say(language, "layer"))
    for layer, head in data["off"]:
        is_strong = abs(effects[layer - 1, head - 1]) > limit / 2
        axes.text(head - 1, layer - 1, "×", ha="center", va="center", fontsize=13,
                  color="white" if is_strong else INK)
    scale = figure.colorbar(image, cax=figure.add_axes((0.06, 0.085, 0.4, 0.02)),
                            orientation="horizontal")
    scale.set_label(drawable(say(language, "ablation_scale", name=name), 80), fontsize=9)
    bars = figure.add_axes((0.6, 0.34, 0.32, 0.52))
    places = np.arange(len(data["classes"]))
    ink = [item["colour"] for item in data["classes"]]
    bars.barh(places - 0.2, 100 * np.array(data["before"]), 0.36, color=ink)
    bars.barh(places + 0.2, 100 * np.array(data["after"]), 0.36, color=ink, alpha=0.5)
    for place, (before, after) in enumerate(zip(data["before"], data["after"], strict=True)):
        change = round(100 * (after - before), 1) + 0.0  # no "-0.0"
        bars.text(100 * max(before, after) + 1, place, f"{change:+.1f}", va="center", fontsize=8)
    finish_bars(bars, data["classes"], language, widest=112)
    bars.set_title(f"{say(language, 'ablation_before')} → {say(language, 'ablation_after')}",
                   fontsize=10)
    figure.text(0.5, 0.22, say(language, "ablation_ranked"), fontsize=9, color=MUTED)
    for place, (layer, head) in enumerate(data["ranked"]):
        named = say(language, "ablation_chip", layer=layer, head=head)
        figure.text(0.5 + 0.25 * (place % 2), 0.17 - 0.045 * (place // 2),
                    f"{named}   {effects[layer - 1, head - 1]:+.2f}", fontsize=9, color=INK)
    figure.suptitle(say(language, "study_ablation"))
    return figure


STUDY = Study("ablation", AblationOptions, run, draw, table)
