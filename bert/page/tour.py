"""The tour: seven steps that lead a visitor's own sentence through the model.

Its sentences are tour_1_title, tour_1_text and so on in assets/page/texts/tour.json.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """What a step opens, and which part of the page it speaks of."""

    tab: str
    part: str                                            # strip, study or bars
    options: dict[str, str | int] = field(default_factory=dict)


def steps(head: tuple[int, int] | None = None, token: int = 1) -> tuple[Step, ...]:
    """The steps in order. `head` is the layer and head that matter most for this text, from 1, and
    `token` the place of the piece to follow; the first one behind [CLS] always exists."""
    cell: dict[str, str | int] = {} if head is None else {"layer": head[0], "head": head[1]}
    return (Step("attention", "strip", {"tokens": "words"}),
            Step("forward", "strip", {"tokens": "pieces"}),
            Step("forward", "study", {"token": token}),
            Step("qkv", "study", {**cell, "query": 0}),  # [CLS] looks: the classifier reads it
            Step("lens", "study"),
            Step("attention", "bars"),
            Step("trial", "study"))
