"""Learn the WordPiece vocabulary from text files.

    python -m bert train_tokenizer --text KOREAN.txt --text ENGLISH.txt --out checkpoints/tokenizer

Each --text has an equal say: its lines are repeated or thinned to the same amount of text, so that
a large corpus in one language does not crowd out the other.
"""

import math
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bert.arguments import Parser, positive
from bert.checkpoint import TOKENIZER
from bert.errors import UserError
from bert.folders import replace_folder
from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import read_text_lines


def balanced_lines(groups: Sequence[Sequence[Path]], characters: int, seed: int) -> Iterator[str]:
    """About `characters` characters of text from each group of files, in random order within it."""
    for number, group in enumerate(groups):
        lines = [line.strip() for path in group for line in read_text_lines(path) if line.strip()]
        if not lines:
            raise UserError(f"{', '.join(map(str, group))}: no text in it")
        random.Random(seed + number).shuffle(lines)
        taken = 0
        while taken < characters:
            for line in lines:
                yield line
                taken += len(line)
                if taken >= characters:
                    break


def build_parser() -> Parser:
    parser = Parser(prog="bert train_tokenizer", description=__doc__.split("\n")[0])
    parser.add_argument("--text", type=Path, nargs="+", action="append", required=True,
                        metavar="FILE", help="a group of UTF-8 text files, one sentence a line; "
                        "give --text once for each language")
    parser.add_argument("--out", type=Path, required=True, help="folder for tokenizer.json")
    parser.add_argument("--vocab-size", type=int, default=16_000, help="pieces (default: 16000)")
    parser.add_argument("--alphabet-size", type=int, default=2_000,
                        help="single characters that may be pieces (default: 2000)")
    parser.add_argument("--lower-case", action="store_true", default=True, help="the default")
    parser.add_argument("--keep-case", dest="lower_case", action="store_false",
                        help="tell capital letters apart")
    parser.add_argument("--megabytes", type=float, default=30.0,
                        help="million characters read from each group (default: 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=positive,
                        help="dry run: read only this many thousand characters of each group")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if not 0 < arguments.megabytes < 1e6:
            raise UserError(f"--megabytes is {arguments.megabytes}: expected more than 0")
        characters = (arguments.max_steps * 1_000 if arguments.max_steps
                      else math.ceil(arguments.megabytes * 1e6))
        print(f"reading {len(arguments.text)} group(s), {characters:,} characters each", flush=True)
        tokenizer = WordPieceTokenizer.train(
            balanced_lines(arguments.text, characters, arguments.seed), arguments.vocab_size,
            arguments.lower_case, arguments.alphabet_size)
        replace_folder(arguments.out, tokenizer.save, marker=TOKENIZER)
    print(f"{len(tokenizer):,} pieces -> {arguments.out}/tokenizer.json", file=sys.stdout)


if __name__ == "__main__":
    main()
