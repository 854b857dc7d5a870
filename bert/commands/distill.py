"""Write down what a larger model makes of sentences: the vectors that pre-training learns from.

    python -m bert distill --teacher FOLDER --english LINES.txt --translations KO_EN.tsv \\
        --out runs/vectors

A teacher is a BertModel folder whose mean token vector is a sentence vector, such as
all-MiniLM-L6-v2, or a classifier, whose vector is the one its answer is read from. English lines
get the vector of the line itself, Korean lines that of their English translation. `pretrain
--vectors` learns them in the same pass as its two tasks. What was read before is not read again.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bert.arguments import Parser, positive
from bert.checkpoint import load_checkpoint
from bert.cpu import configure_cpu
from bert.errors import UserError
from bert.training.corpus import read_first_column
from bert.training.distillation import bert_vectors, read_sentences
from bert.training.examples import read_translations


def build_parser() -> Parser:
    parser = Parser(prog="bert distill", description=__doc__.split("\n")[0])
    parser.add_argument("--teacher", type=Path, required=True, metavar="FOLDER",
                        help="a BertModel or a classifier")
    parser.add_argument("--english", type=Path, nargs="*", default=[], metavar="FILE",
                        help="English text, one line each; of a .tsv the first column")
    parser.add_argument("--translations", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english lines")
    parser.add_argument("--longest", type=int, default=64, help="pieces of a line that are read")
    parser.add_argument("--out", type=Path, required=True, help="folder for the vectors")
    parser.add_argument("--max-steps", type=positive, help="dry run: only 100 × N lines")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence():
        meanings = {text: text for path in arguments.english for text in read_first_column(path)}
        for korean, english in read_translations(arguments.translations):
            meanings |= {korean: english, english: english}
        if not meanings:
            raise UserError("nothing to read: give --english or --translations")
        if arguments.max_steps:
            meanings = dict(list(meanings.items())[:arguments.max_steps * 100])
        teacher = load_checkpoint(arguments.teacher)
        vectors = read_sentences(arguments.out, f"{arguments.teacher.name} {teacher.digest()}",
                                 partial(bert_vectors, teacher, longest=arguments.longest),
                                 meanings)
        print(f"{len(vectors.marks):,} sentences, {vectors.width} numbers each -> {arguments.out}")


if __name__ == "__main__":
    main()
