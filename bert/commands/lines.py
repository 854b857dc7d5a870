"""What `fill` and `follows` share: an answer to the texts of the call, or to each line given."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bert.arguments import Parser, plain_output, text_lines
from bert.classifier import PretrainedBert
from bert.cpu import configure_cpu
from bert.errors import UserError

Answer = Callable[..., Mapping[str, Any]]  # the texts of a line -> the fields of its JSON object


def lines_parser(command: str, purpose: str, texts: Mapping[str, str], a_line: str) -> Parser:
    """A parser for texts by name, or --input with such texts, divided by tabs, in each line."""
    parser = Parser(prog=f"bert {command}", description=purpose)
    for name, what in texts.items():
        parser.add_argument(name, nargs="?", help=what)
    parser.add_argument("--input", metavar="FILE", help=f"{a_line}; - is standard input")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/pretrained"),
                        help="folder or Hub id (default: checkpoints/pretrained)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def answer_lines(parser: Parser, argv: Sequence[str] | None, names: Sequence[str],
                 prepare: Callable[[PretrainedBert], Answer],
                 show: Callable[[Mapping[str, Any]], str]) -> None:
    """Answer the call. What is wrong with one line of a file stands in its place."""
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence(), plain_output(arguments.json):
        given = [getattr(arguments, name) for name in names if getattr(arguments, name) is not None]
        if len(given) != (len(names) if arguments.input is None else 0):
            raise UserError(f"give {' and '.join(names)}, or --input FILE")
        answer = prepare(PretrainedBert.load(arguments.checkpoint))
        rows = [given] if arguments.input is None else read_rows(arguments.input, len(names))
        for row in rows:
            texts = dict(zip(names, row, strict=True))
            try:
                found = answer(*row)
            except UserError as error:
                if arguments.input is None:
                    raise
                print(json.dumps({**texts, "error": str(error)}, ensure_ascii=False))
                continue
            print(json.dumps({**texts, **found}, ensure_ascii=False) if arguments.json
                  else show(found))


def read_rows(name: str, columns: int) -> Iterator[list[str]]:
    """The texts of each line; those that are missing are empty."""
    for line in text_lines(name):
        row = line.split("\t", columns - 1)
        yield row + [""] * (columns - len(row))
