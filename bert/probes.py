"""Probes: reading the answer out of places where it was not meant to be read.

Lens   the classifier after every layer: where in the network the feeling appears
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from bert.lab import Lab, Options, Study
from bert.predict import EmotionClassifier
from bert.texts import say
from bert.views import class_list


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
    prediction = lab.classifier(text)
    shares = lens(lab.classifier, prediction.hidden_states)
    best = int(shares[-1].argmax())
    wrong = np.flatnonzero(shares.argmax(axis=1) != best)
    return {"classes": class_list(lab.classifier.keys), "shares": shares, "best": best,
            "settled": int(wrong.max()) + 1 if len(wrong) else 0}


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
