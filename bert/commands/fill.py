"""Which piece stood behind [MASK]? The ten likeliest, from the masked-language-model head.

    python -m bert fill "오늘은 [MASK]가 너무 좋다"
    python -m bert fill --input texts.txt --json        one object a line

Letters that touch [MASK] continue its word: [MASK]를 is a hidden piece and ##를.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bert.arguments import Parser
from bert.classifier import PretrainedBert
from bert.commands.lines import Answer, answer_lines, lines_parser

TEXTS = {"text": "a text with one [MASK]"}


def build_parser() -> Parser:
    return lines_parser("fill", __doc__.split("\n")[0], TEXTS, "one text a line")


def prepare(model: PretrainedBert) -> Answer:
    return lambda text: {"candidates": [{"piece": piece, "probability": probability}
                                        for piece, probability in model.fill(text)]}


def show(found: Mapping[str, Any]) -> str:
    return "\n".join(f"{guess['piece']}\t{guess['probability']:.1%}"
                     for guess in found["candidates"])


def main(argv: Sequence[str] | None = None) -> None:
    answer_lines(build_parser(), argv, list(TEXTS), prepare, show)


if __name__ == "__main__":
    main()
