"""Does a second text follow the first? A probability, from the next-sentence head.

    python -m bert follows "비가 온다." "우산을 챙겨야겠다."
    python -m bert follows --input pairs.tsv --json     FIRST<TAB>SECOND a line, one object a line
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from bert.arguments import Parser, plain_output, text_lines
from bert.classifier import PretrainedBert
from bert.cpu import configure_cpu
from bert.errors import UserError


def build_parser() -> Parser:
    parser = Parser(prog="bert follows", description=__doc__.split("\n")[0])
    parser.add_argument("first", nargs="?", help="a text")
    parser.add_argument("second", nargs="?", help="a text that may follow it")
    parser.add_argument("--input", metavar="FILE",
                        help="FIRST<TAB>SECOND a line; - is standard input")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/pretrained"),
                        help="folder or Hub id (default: checkpoints/pretrained)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def read_pairs(name: str) -> Iterator[tuple[str, str]]:
    """The two texts of each line; the second is empty where there is no tab."""
    for line in text_lines(name):
        first, _, second = line.partition("\t")
        yield first, second


def run(arguments: Namespace) -> None:
    if (arguments.second is None) == (arguments.input is None) or (
            arguments.first is not None and arguments.input is not None):
        raise UserError("give two texts, or --input FILE")
    model = PretrainedBert.load(arguments.checkpoint)
    pairs = ([(arguments.first, arguments.second)] if arguments.input is None
             else read_pairs(arguments.input))
    for first, second in pairs:
        try:
            probability = model.follows(first, second)
        except UserError as error:
            if arguments.input is None or not model.checkpoint.has_nsp:
                raise
            print(json.dumps({"first": first, "second": second, "error": str(error)},
                             ensure_ascii=False))
            continue
        if arguments.json:
            print(json.dumps({"first": first, "second": second, "follows": probability},
                             ensure_ascii=False))
        else:
            print(f"{probability:.1%}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence(), plain_output(arguments.json):
        run(arguments)


if __name__ == "__main__":
    main()
