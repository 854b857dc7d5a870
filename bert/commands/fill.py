"""Which piece stood behind [MASK]? The ten likeliest, from the masked-language-model head.

    python -m bert fill "오늘은 [MASK]가 너무 좋다"
    python -m bert fill --input texts.txt --json        one object a line

Letters that touch [MASK] continue its word: [MASK]를 is a hidden piece and ##를.
"""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from bert.arguments import Parser, plain_output, text_lines
from bert.classifier import PretrainedBert
from bert.cpu import configure_cpu
from bert.errors import UserError


def build_parser() -> Parser:
    parser = Parser(prog="bert fill", description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", help="a text with one [MASK]")
    parser.add_argument("--input", metavar="FILE", help="one text a line; - is standard input")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/pretrained"),
                        help="folder or Hub id (default: checkpoints/pretrained)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def run(arguments: Namespace) -> None:
    if (arguments.text is None) == (arguments.input is None):
        raise UserError("give one text with [MASK], or --input FILE")
    model = PretrainedBert.load(arguments.checkpoint)
    for text in [arguments.text] if arguments.input is None else text_lines(arguments.input):
        try:
            candidates = model.fill(text)
        except UserError as error:
            if arguments.input is None:
                raise
            print(json.dumps({"text": text, "error": str(error)}, ensure_ascii=False))
            continue
        if arguments.json:
            print(json.dumps({"text": text, "candidates": [
                {"piece": piece, "probability": probability}
                for piece, probability in candidates]}, ensure_ascii=False))
        else:
            print("\n".join(f"{piece}\t{probability:.1%}" for piece, probability in candidates))


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence(), plain_output(arguments.json):
        run(arguments)


if __name__ == "__main__":
    main()
