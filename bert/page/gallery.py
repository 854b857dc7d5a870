"""Examples worth a click, each with a claim that the shipped model must keep.

    gallery.json          six cards for the page
    study_examples.json   what the pre-trained stage gets right and wrong, for the views of it

    python -m bert.page.gallery    after new weights: take the first candidate of each card whose
                                   claim holds, and write it into the files in assets/page/data

A claim is a function that gets an example and gives back the options with which the example keeps
it, or nothing. Which head it is depends on the weights: an example without one gets it there.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bert.classifier import EmotionClassifier
from bert.drawing.texts import PAGE
from bert.errors import UserError
from bert.explain.ablation import without_each_head
from bert.explain.attention import head_tags
from bert.explain.word_order import reordered
from bert.studies import STUDIES
from bert.studies.base import StudyContext

DATA = PAGE / "data"
GALLERY, STUDY_EXAMPLES = "gallery.json", "study_examples.json"
ALIKE, UNRELATED = 0.95, 0.5   # cosines in the last layer: of the pair, of the page's examples
CLEARLY = 0.6                  # of a head's attention; of an answer that counts
WIDE = 10                      # a hidden piece that is guessed later than this was missed
UNDECIDED = 0.2                # a second feeling as large as this
TURNED = 0.4                   # what the new answer has at least

Options = dict[str, str | int]


@dataclass(frozen=True)
class Example:
    """A card: what it says, and the address that it opens."""

    key: str
    title: dict[str, str]      # by language of the page
    says: dict[str, str]
    claim: str
    tab: str
    language: str              # of the text
    text: str
    options: Options = field(default_factory=dict)
    meant: str | None = None   # what a person would answer


def gallery() -> list[Example]:
    """The cards in their order."""
    return [_example(card, card) for card in _cards(GALLERY)]


def study_examples(tab: str, language: str) -> list[Example]:
    """Examples for the view of a pre-training task, in a language: one right, one wrong."""
    examples = [_example(card, card) for card in _cards(STUDY_EXAMPLES)]
    return [example for example in examples if (example.tab, example.language) == (tab, language)]


def check(example: Example, classifier: EmotionClassifier) -> bool:
    """Whether the model still does what the card claims."""
    return CLAIMS[example.claim](example, classifier) is not None


def choose(card: dict[str, Any], classifier: EmotionClassifier) -> Example:
    """The first candidate of a card that keeps its claim."""
    for candidate in card["candidates"]:
        example = _example(card, candidate)
        options = CLAIMS[example.claim](example, classifier)
        if options is not None:
            return replace(example, options=options)
    raise UserError(f"no candidate of {card['key']!r} keeps its claim: write others beside it")


def _cards(name: str) -> list[dict[str, Any]]:
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def _example(card: dict[str, Any], chosen: dict[str, Any]) -> Example:
    return Example(card["key"], card["title"], card["says"], card["claim"], card["tab"],
                   chosen["language"], chosen["text"], chosen.get("options", {}),
                   chosen.get("meant"))


# ---------------------------------------------------------------------------------- claims


def _same_vector(example: Example, classifier: EmotionClassifier) -> Options | None:
    """Two texts whose [CLS] vectors are nearly the same, where those of others are not."""
    data = STUDIES["compare"].answer(StudyContext(classifier), example.text, example.options)
    pair, usual = data["similarity"]["cls"][-1], data["usual"]["cls"][-1]
    return example.options if pair >= ALIKE and usual <= UNRELATED else None


def _flips(example: Example, classifier: EmotionClassifier) -> Options | None:
    """Two texts that get different answers, both of them sure."""
    one, other = classifier.predict_many([example.text, str(example.options["second"])])
    is_so = one.label != other.label and one.confident and other.confident
    return example.options if is_so else None


def _looks_ahead(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A head in which tokens look at the next one."""
    encoding, attentions = classifier.attentions(example.text)
    found = [(tag.share, layer, head)
             for layer, tags in enumerate(head_tags(encoding, attentions), 1)
             for head, tag in enumerate(tags, 1) if tag.name == "next" and tag.share >= CLEARLY
             and example.options in ({}, {"layer": layer, "head": head})]
    if not found:
        return None
    _, layer, head = max(found)
    return {"layer": layer, "head": head}


def _hangs_on_a_head(example: Example, classifier: EmotionClassifier) -> Options | None:
    """Two feelings at once, and one head without which the answer is another."""
    before, alone = without_each_head(classifier, example.text)              # (C,), (L, H, C)
    if np.sort(before)[-2] < UNDECIDED:
        return None
    is_turned = alone.argmax(axis=-1) != before.argmax()
    lead = np.where(is_turned, alone.max(axis=-1), 0.0)                      # (L, H)
    if example.options:
        layer, head = map(int, re.findall("[0-9]+", str(example.options["heads_off"])))
    else:
        layer, head = (int(place) + 1 for place in np.unravel_index(lead.argmax(), lead.shape))
    is_so = lead[layer - 1, head - 1] >= TURNED
    return {"heads_off": f"{layer}.{head}"} if is_so else None


def _needs_its_order(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A sure answer that is another one when the words change places."""
    order, _, seed = str(example.options["order"]).partition(".")
    changed = reordered(example.text, order, int(seed or 1))
    one, other = classifier.predict_many([example.text, changed])
    is_so = one.confident and other.label != one.label and other.probabilities.max() >= CLEARLY
    return example.options if is_so else None


def _misses_irony(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A sure answer that is not the feeling a person hears."""
    found = classifier.predict_many([example.text])[0]
    return example.options if found.confident and found.label != example.meant else None


def _hidden(example: Example, classifier: EmotionClassifier) -> tuple[list[int], Options]:
    """The rank of every hidden piece, and which words are hidden; 0: not in the vocabulary."""
    data = STUDIES["masked_word"].answer(StudyContext(classifier), example.text, example.options)
    return ([blank["rank"] or 0 for blank in data["blanks"]],
            {"masked": ".".join(map(str, data["chosen"]))})


def _guesses(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A hidden word that is the pre-trained network's first guess."""
    ranks, options = _hidden(example, classifier)
    return options if set(ranks) == {1} else None


def _misses(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A hidden word of which a piece is far from the pre-trained network's first guesses."""
    ranks, options = _hidden(example, classifier)
    return options if 0 not in ranks and max(ranks) > WIDE else None


def _verdict(example: Example, classifier: EmotionClassifier) -> str | None:
    """"follows" or "random", if the pre-trained network is clear about the second text."""
    data = STUDIES["next_sentence"].answer(StudyContext(classifier), example.text, example.options)
    share = data["probabilities"][0]
    return "follows" if share >= CLEARLY else "random" if share <= 1 - CLEARLY else None


def _judges(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A second text of which the network clearly says what a person says."""
    return example.options if _verdict(example, classifier) == example.meant else None


def _misjudges(example: Example, classifier: EmotionClassifier) -> Options | None:
    """A second text of which it clearly says the contrary."""
    return (example.options if _verdict(example, classifier) not in (None, example.meant)
            else None)


CLAIMS: dict[str, Callable[[Example, EmotionClassifier], Options | None]] = {
    "same_vector": _same_vector, "flips": _flips, "looks_ahead": _looks_ahead,
    "hangs_on_a_head": _hangs_on_a_head, "needs_its_order": _needs_its_order,
    "misses_irony": _misses_irony, "guesses": _guesses, "misses": _misses, "judges": _judges,
    "misjudges": _misjudges}


def main() -> None:
    classifier = EmotionClassifier.load(Path("checkpoints/emotion"))
    for name in (GALLERY, STUDY_EXAMPLES):
        cards = []
        for card in _cards(name):
            chosen = choose(card, classifier)
            print(f"{chosen.key}: {chosen.text} {chosen.options}")
            cards.append({**asdict(chosen), "candidates": card["candidates"]})
        (DATA / name).write_text(json.dumps(cards, ensure_ascii=False, indent=2) + "\n",
                                 encoding="utf-8")


if __name__ == "__main__":
    main()
