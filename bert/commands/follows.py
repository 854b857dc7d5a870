"""Does a second text follow the first? A probability, from the next-sentence head.

    python -m bert follows "비가 온다." "우산을 챙겨야겠다."
    python -m bert follows --input pairs.tsv --json     FIRST<TAB>SECOND a line, one object a line
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bert.arguments import Parser
from bert.classifier import PretrainedBert
from bert.commands.lines import Answer, answer_lines, lines_parser

TEXTS = {"first": "a text", "second": "a text that may follow it"}


def build_parser() -> Parser:
    return lines_parser("follows", __doc__.split("\n")[0], TEXTS, "FIRST<TAB>SECOND a line")


def prepare(model: PretrainedBert) -> Answer:
    model.needs_next_sentence()
    return lambda first, second: {"follows": model.follows(first, second)}


def show(found: Mapping[str, Any]) -> str:
    return f"{found['follows']:.1%}"


def main(argv: Sequence[str] | None = None) -> None:
    answer_lines(build_parser(), argv, list(TEXTS), prepare, show)


if __name__ == "__main__":
    main()
