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
    probabilities: Numbers   # (L + 1, C)
    best: int                # the answer
    settled: int             # the layer from which on the answer leads


def run(context: StudyContext, text: str, options: LensOptions) -> LensData:
    context.classifier.needs_classifier()
    probabilities = lens(context.classifier, hidden_states(context.cache(text), context.config))
    return {"classes": context.classes, "probabilities": probabilities,
            "best": int(probabilities[-1].argmax()), "settled": settled_layer(probabilities)}


def table(data: LensData) -> list[list[Any]]:
    return [["layer", *(item["key"] for item in data["classes"])],
            *([layer, *row] for layer, row in enumerate(data["probabilities"]))]


def draw(data: LensData, language: Language) -> "Figure":
    from bert.drawing.figures import drawable, new_figure
    figure = new_figure(9, 5)
    axes = figure.add_axes((0.08, 0.12, 0.66, 0.78))
    shares = 100 * np.array(data["probabilities"])
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


STUDY = Study("lens", LensOptions, run, draw, table)
