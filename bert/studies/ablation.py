"""Ablation: heads switched off, and what the answer owes to each of them."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from torch import Tensor

from bert.drawing.texts import Language, say
from bert.explain.ablation import KEPT_MAPS, rank_correlation, strongest
from bert.explain.mean_ablation import logits_without, without_each
from bert.explain.saliency import head_importance
from bert.explain.target import Target
from bert.studies.base import ClassItem, Numbers, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

RANKED = 5     # heads that are named
MATTERS = 0.1  # share of the margin that a head must move to matter
# An effect with the strongest colour is at least this large, in logits and as a share of the
# margin: where nothing matters, the map stays pale.
FLOOR, PALE = 0.5, 0.25
HEAD = re.compile(r"([0-9]{1,4})\.([0-9]{1,4}|\*)")


class AblationOptions(StudyOptions):
    heads_off: str = ""  # "1.3,5.*": head 3 of layer 1, all heads of layer 5
    by: Literal["zero", "mean"] = "zero"  # what a head gives that is off


class AblationData(TypedDict):
    classes: list[ClassItem]
    by: str
    has_means: bool               # whether mean ablation can be chosen
    before: Numbers               # (C,)
    after: Numbers                # (C,)
    best: int                     # the answer with all heads on
    margin: float                 # how far its logit is ahead of the next one
    margin_after: float
    off: list[tuple[int, int]]    # layer and head, from 1
    effects: Numbers              # (L, H), change of the margin without each head alone
    importance: Numbers           # (L, H), what the gradient says of it
    agreement: float              # rank correlation of the two
    limit: float                  # the effect with the strongest colour
    matter: int                   # heads that matter
    turning: list[tuple[int, int]]  # heads without which another class leads
    ranked: list[tuple[int, int]]


def read_heads(given: str, num_layers: int, num_heads: int) -> list[tuple[int, int]]:
    """The heads of "1.3,5.*", counted from 1; whatever names no head is passed over.

    >>> read_heads("1.2,2.*,9.9,no", num_layers=2, num_heads=2)
    [(1, 2), (2, 1), (2, 2)]
    """
    named = {found.group(1, 2) for part in given.split(",") if (found := HEAD.fullmatch(part))}
    return [(layer, head) for layer in range(1, num_layers + 1) for head in range(1, num_heads + 1)
            if {(str(layer), str(head)), (str(layer), "*")} & named]


@lru_cache(maxsize=KEPT_MAPS)
def each_head_off(context: StudyContext, text: str, by: str) -> Tensor:
    """The logits with all heads on and without each one: (1 + L·H, C)."""
    return without_each(context.classifier, text, means_of(context) if by == "mean" else None)


@lru_cache(maxsize=KEPT_MAPS)
def importance_of(context: StudyContext, text: str, best: int) -> np.ndarray:
    return head_importance(context.classifier, text, Target(best))


def means_of(context: StudyContext) -> np.ndarray | None:
    """The mean output of every head, (L, H, D), if somebody has measured it."""
    survey = context.head_survey
    return None if survey is None else np.array(survey["mean_outputs"], dtype=np.float32)


def run(context: StudyContext, text: str, options: AblationOptions) -> AblationData:
    context.classifier.needs_classifier()
    has_means = context.head_survey is not None
    by = options.by if has_means else "zero"
    logits = each_head_off(context, text, by)                                        # (1 + L·H, C)
    shape = context.config.num_hidden_layers, context.config.num_attention_heads
    best = int(logits[0].argmax())
    margins = Target(best).margin(logits).numpy()
    margin, effects = float(margins[0]), (margins[1:] - margins[0]).reshape(shape)   # (L, H)
    off = read_heads(options.heads_off, *shape)
    after = logits[0] if not off else logits_without(
        context.classifier, text, [off], means_of(context) if by == "mean" else None)[0]
    importance = importance_of(context, text, best)
    is_turned = (logits[1:].argmax(dim=-1) != best).numpy().reshape(shape)
    return {
        "classes": context.classes, "by": by, "has_means": has_means, "best": best, "off": off,
        "before": logits[0].softmax(dim=-1).numpy(), "after": after.softmax(dim=-1).numpy(),
        "margin": margin, "margin_after": float(Target(best).margin(after)), "effects": effects,
        "importance": importance, "agreement": rank_correlation(np.abs(effects), importance),
        "limit": float(max(np.abs(effects).max(), FLOOR, PALE * margin)),
        "matter": int((np.abs(effects) >= MATTERS * margin).sum()),
        "turning": [(int(layer) + 1, int(head) + 1) for layer, head in np.argwhere(is_turned)],
        "ranked": strongest(effects, RANKED)}


def table(data: AblationData) -> list[list[Any]]:
    off = {tuple(head) for head in data["off"]}
    answer = data["classes"][data["best"]]["key"]
    return [["class", "all heads on", "heads off"],
            *([item["key"], before, after] for item, before, after in
              zip(data["classes"], data["before"], data["after"], strict=True)),
            [], ["margin", data["margin"], data["margin_after"]],
            [], ["layer", "head", f"change of the margin of {answer} without this head alone "
                 f"({data['by']} ablation)", "importance by gradient", "off"],
            *([layer, head, effect, data["importance"][layer - 1][head - 1],
               int((layer, head) in off)]
              for layer, row in enumerate(data["effects"], 1)
              for head, effect in enumerate(row, 1))]


def draw(data: AblationData, language: Language) -> "Figure":
    from bert.drawing.charts import place_paired_bars
    from bert.drawing.figures import COLOUR_MAP, INK, MUTED, drawable, new_figure, signed_map
    figure = new_figure(11, 7.2)
    effects, limit = np.array(data["effects"]), data["limit"]
    name = data["classes"][data["best"]][language]
    maps = (((0.06, 0.3, 0.4, 0.54), effects, signed_map(), -limit, limit,
             say(language, "ablation_scale", name=name)),
            ((0.6, 0.57, 0.22, 0.27), np.array(data["importance"]), COLOUR_MAP, 0.0,
             float(np.max(data["importance"])) or 1.0, say(language, "ablation_importance")))
    for place, values, colours, low, high, title in maps:
        axes = figure.add_axes(place)
        image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
        for tick, count in ((axes.set_xticks, values.shape[1]), (axes.set_yticks, values.shape[0])):
            every = -(-count // 12)
            tick(range(0, count, every), [str(i + 1) for i in range(0, count, every)])
        axes.set(xlabel=say(language, "head"), ylabel=say(language, "layer"))
        scale = figure.colorbar(image, cax=figure.add_axes((place[0], place[1] - 0.1, place[2],
                                                            0.015)), orientation="horizontal")
        scale.set_label(drawable(title, 80), fontsize=9, parse_math=False)
        if colours == COLOUR_MAP:
            continue
        for layer, head in data["off"]:
            axes.text(head - 1, layer - 1, "×", ha="center", va="center", fontsize=13,
                      color="white" if abs(values[layer - 1, head - 1]) > limit / 2 else INK)
    place_paired_bars(figure, (0.6, 0.08, 0.34, 0.3), data["classes"], {
        say(language, "ablation_before"): data["before"],
        say(language, "ablation_after"): data["after"]}, language)
    figure.text(0.06, 0.1, say(language, "ablation_ranked"), fontsize=9, color=MUTED)
    for number, (layer, head) in enumerate(data["ranked"]):
        named = say(language, "ablation_chip", layer=layer, head=head)
        figure.text(0.06 + 0.16 * (number % 3), 0.065 - 0.035 * (number // 3),
                    f"{named}   {effects[layer - 1, head - 1]:+.2f}", fontsize=9, color=INK)
    figure.suptitle(say(language, "study_ablation"))
    figure.text(0.5, 0.915, drawable(finding(data, language), 130), ha="center", fontsize=9.5,
                color=MUTED, parse_math=False)
    return figure


def finding(data: AblationData, language: Language) -> str:
    """What the map shows, in a sentence."""
    name, margin = data["classes"][data["best"]][language], f"{data['margin']:.2f}"
    (layer, head), *_ = data["ranked"]
    effect = data["effects"][layer - 1][head - 1]
    if not data["matter"]:
        return say(language, "ablation_no_head", name=name, margin=margin,
                   most=f"{abs(effect):.2f}")
    return say(language, "ablation_top_head", name=name, margin=margin, layer=layer, head=head,
               after=f"{data['margin'] + effect:.2f}")


STUDY = Study("ablation", AblationOptions, run, draw, table)
