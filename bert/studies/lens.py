"""Emotion lens: the classifier after every layer, and where in the network the answer appears."""

from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.explain.activations import hidden_states
from bert.explain.lens import lens, settled_layer
from bert.studies.base import ClassItem, Numbers, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Figure


class LensOptions(StudyOptions):
    """Nothing can be chosen."""


class LensData(TypedDict):
    classes: list[ClassItem]
    probabilities: Numbers        # (L + 1, C), read as it is
    tuned: Numbers | None         # (L + 1, C), each layer translated first
    best: int                     # the answer
    settled: int                  # the layer from which on the answer leads
    tuned_settled: int | None


def run(context: StudyContext, text: str, options: LensOptions) -> LensData:
    context.classifier.needs_classifier()
    states = hidden_states(context.cache(text), context.config)                      # (L + 1, T, E)
    probabilities = lens(context.classifier, states)
    translated = context.tuned_lens
    tuned = None if translated is None else translated.read(context.classifier, states)
    return {"classes": context.classes, "probabilities": probabilities, "tuned": tuned,
            "best": int(probabilities[-1].argmax()), "settled": settled_layer(probabilities),
            "tuned_settled": None if tuned is None else settled_layer(tuned)}


def table(data: LensData) -> list[list[Any]]:
    keys = [item["key"] for item in data["classes"]]
    rows = [["layer", *keys], *([layer, *row] for layer, row in enumerate(data["probabilities"]))]
    if data["tuned"] is not None:
        rows += [[], ["layer, tuned lens", *keys],
                 *([layer, *row] for layer, row in enumerate(data["tuned"]))]
    return rows


def draw(data: LensData, language: Language) -> "Figure":
    from bert.drawing.figures import drawable, new_figure
    shown = {"lens_plain": data["probabilities"]}
    if data["tuned"] is not None:
        shown["lens_tuned"] = data["tuned"]
    figure = new_figure(4.5 + 4.5 * len(shown), 5)
    wide = 0.78 / len(shown)
    for place, (title, probabilities) in enumerate(shown.items()):
        axes = figure.add_axes((0.07 + place * (wide + 0.01), 0.12, wide - 0.05, 0.74))
        shares = 100 * np.array(probabilities)
        for column, item in enumerate(data["classes"]):
            is_best = column == data["best"]
            axes.plot(shares[:, column], color=item["colour"], linewidth=2.6 if is_best else 1.2,
                      label=drawable(item[language]), zorder=3 if is_best else 2)
        axes.set_xticks(range(len(shares)))
        axes.set(xlim=(0, len(shares) - 1), ylim=(0, 100), xlabel=say(language, "layer"),
                 ylabel="%")
        axes.set_title(say(language, title), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    figure.suptitle(say(language, "study_lens"))
    return figure


STUDY = Study("lens", LensOptions, run, draw, table)
