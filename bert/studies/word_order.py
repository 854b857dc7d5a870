"""Word order: words shuffled or reversed, or positions switched off; what is left of the answer."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

from bert.classifier import EmotionClassifier
from bert.drawing.texts import Language, say
from bert.explain.activations import cosine, similarity, text_vectors
from bert.explain.word_order import (
    difference,
    has_same_pieces,
    position_tables,
    reordered,
    without_positions,
)
from bert.studies.base import (
    ClassItem,
    Matrix,
    Numbers,
    Study,
    StudyContext,
    StudyOptions,
    unpack,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

SHOWN_POSITIONS = 64
PIZZA = (("I ate pizza", "pizza ate I"), ("나는 피자를 먹었다", "피자는 나를 먹었다"))


class WordOrderOptions(StudyOptions):
    order: str = "reverse"  # reverse, nopos, shuffle, or "shuffle.3" for the third shuffle

    def chosen(self) -> tuple[str, int]:
        """The order and the seed of a shuffle."""
        if shuffle := re.fullmatch(r"shuffle(?:\.([1-9][0-9]{0,4}))?", self.order):
            return "shuffle", int(shuffle[1] or 1)
        return ("nopos" if self.order == "nopos" else "reverse"), 1


class Pizza(TypedDict):
    """Two fixed texts, read with positions and without: cosines and pooled difference."""

    texts: tuple[str, str]
    same_pieces: bool
    on: dict[str, float]
    off: dict[str, float]


class Positions(TypedDict):
    picture: Any         # a matrix, (P, E)
    neighbours: Numbers  # (P − 1,), cosine of each position and the next


class WordOrderData(TypedDict):
    order: str
    seed: int
    text: str
    changed: str
    same: bool                           # the new order is the old one
    truncated: bool
    classes: list[ClassItem]
    before: Numbers
    after: Numbers
    similarity: dict[str, Numbers]       # cosine after every layer, (L + 1,), of "cls" and "mean"
    in_bag: dict[str, Numbers] | None    # the same without positions
    pizza: list[Pizza]
    positions: dict[str, Positions | None]


def run(context: StudyContext, text: str, options: WordOrderOptions) -> WordOrderData:
    classifier, bag = context.classifier, without_positions(context.classifier)
    order, seed = options.chosen()
    before = context.cache(text)
    original = before.encoding.texts[0]
    changed = reordered(original, order, seed)
    after = (bag if order == "nopos" else classifier).run_with_cache(changed)
    in_bag = None if order == "nopos" else similarity(*(
        text_vectors(bag.run_with_cache(version), bag.config) for version in (original, changed)))
    return {
        "order": order, "seed": seed, "text": original, "changed": changed,
        "same": order != "nopos" and original.split() == changed.split(),
        "truncated": before.encoding.truncated, "classes": context.classes,
        "before": context.probabilities(before), "after": context.probabilities(after),
        "similarity": similarity(text_vectors(before, context.config),
                                 text_vectors(after, context.config)),
        "in_bag": in_bag, "pizza": pizza(classifier), "positions": positions(classifier),
    }


@lru_cache(maxsize=1)
def pizza(classifier: EmotionClassifier) -> list[Pizza]:
    """Who ate whom? Two fixed pairs, read with positions and without."""
    bag = without_positions(classifier)
    return [{"texts": pair, "same_pieces": has_same_pieces(classifier, *pair),
             "on": difference(classifier, *pair), "off": difference(bag, *pair)}
            for pair in PIZZA]


def positions(classifier: EmotionClassifier) -> dict[str, Positions | None]:
    """The first position vectors, learned and sinusoidal, and how alike neighbours are."""
    tables = {name: None if table is None else table[:SHOWN_POSITIONS]
              for name, table in position_tables(classifier).items()}
    return {name: None if table is None else {"picture": Matrix(table, "signed"),
                                              "neighbours": cosine(table[:-1], table[1:])}
            for name, table in tables.items()}


def table(data: WordOrderData) -> list[list[Any]]:
    rows: list[list[Any]] = [["figure", "of", "value"]]
    for name, answer in (("before", data["before"]), ("after", data["after"])):
        rows += [[f"probability {name}", item["key"], share]
                 for item, share in zip(data["classes"], answer, strict=True)]
    for title, cosines in (("before to after", data["similarity"]),
                           ("the same without positions", data["in_bag"] or {})):
        rows += [[f"cosine of {name}, {title}", f"layer {layer}", value]
                 for name, values in cosines.items() for layer, value in enumerate(values)]
    for example in data["pizza"]:
        rows += [[f"{figure}, positions {switch}", " / ".join(example["texts"]), value]
                 for switch, found in (("on", example["on"]), ("off", example["off"]))
                 for figure, value in found.items()]
    for name, found in data["positions"].items():
        rows += [[f"cosine of neighbouring positions, {name}", f"{place} and {place + 1}", value]
                 for place, value in enumerate(found["neighbours"] if found else (), 1)]
    return rows


def draw(data: WordOrderData, language: Language) -> "Figure":
    from bert.drawing.charts import (
        SIMILARITY_INKS,
        Line,
        place_cosines,
        place_paired_bars,
        signed_pixels,
    )
    from bert.drawing.figures import drawable, new_figure
    figure = new_figure(12, 9)
    figure.suptitle(say(language, "study_word_order"))
    name = say(language, f"word_order_{data['order']}")
    figure.text(0.5, 0.925, drawable(f"{name}: {data['changed']}", 110), ha="center",
                parse_math=False)
    place_paired_bars(figure, (0.1, 0.5, 0.34, 0.38), data["classes"],
                      {say(language, "word_order_before"): data["before"],
                       say(language, "word_order_after"): data["after"]}, language)
    lines = [(data["similarity"], "-", ""),
             (data["in_bag"], "--", say(language, "word_order_nopos"))]
    place_cosines(figure, (0.56, 0.55, 0.4, 0.31), [
        Line(values[part], style, ink, f"{say(language, f'word_order_{part}')} {suffix}".strip())
        for values, style, suffix in lines if values for part, ink in SIMILARITY_INKS.items()],
        say(language, "layer"), say(language, "word_order_similarity"))
    tables = [(kind, found) for kind, found in data["positions"].items() if found]
    for column, (kind, found) in enumerate(tables):
        axes = figure.add_axes((0.06 + 0.25 * column, 0.07, 0.22, 0.3))
        axes.imshow(signed_pixels(unpack(found["picture"]), found["picture"]["limit"]),
                    aspect="auto", interpolation="nearest")
        axes.set_title(say(language, f"word_order_{kind}"), fontsize=10)
        axes.set(yticks=[], xticks=[], xlabel=say(language, "dimensions"))
        if column == 0:
            axes.set_ylabel(say(language, "word_order_position"))
    place_cosines(figure, (0.62, 0.09, 0.34, 0.26), [
        Line(found["neighbours"], "-", ink, say(language, f"word_order_{kind}"))
        for (kind, found), ink in zip(tables, SIMILARITY_INKS.values(), strict=False)],
        say(language, "word_order_position"), say(language, "word_order_neighbours"), first=1)
    return figure


STUDY = Study("word_order", WordOrderOptions, run, draw, table)
