"""Fine-tune BERT on labelled lines: which of the ten feelings does a text hold?

    python -m bert finetune --start-from checkpoints/pretrained --train assets/data/train_*.tsv \\
        --dev assets/data/dev.tsv --run-dir runs/finetune --out checkpoints/emotion

--train and --dev have the columns label, lang, level, pair, text; lines labelled `none` pull
towards the uniform distribution; the --translations of those lines train with their labels, --mixed
lines (first, second, lang, text) with two. Of --mapped public sets the lines train whose labels
--label-map maps onto one feeling, and of --found-in files those that --llm-labels knows.
Interrupted at any moment, the same command goes on from the last save.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from bert.arguments import Parser, add_options, described_call, positive, read_options
from bert.cpu import configure_cpu
from bert.errors import UserError
from bert.training.examples import (
    Examples,
    labelled_examples,
    mapped_lines,
    mixed_examples,
    read_label_map,
    read_labelled,
    read_llm_labels,
    read_mixed,
    read_translations,
    translated_lines,
)
from bert.training.finetuning import FinetuneConfig, finetune


def build_parser() -> Parser:
    parser = Parser(prog="bert finetune", description=__doc__.split("\n")[0])
    parser.add_argument("--start-from", type=Path, required=True, metavar="CHECKPOINT",
                        help="any checkpoint; its network is the beginning")
    add_line_arguments(parser)
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="FILE",
                        help="labelled lines for temperature and threshold")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder for the saved state")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=positive, 
                        help="stop after this many steps; 2 is a dry run")
    add_options(parser, FinetuneConfig)
    return parser


def add_line_arguments(parser: Parser) -> None:
    """The files that lines are read from."""
    for name, what in (
            ("train", "labelled lines: label, lang, level, pair, text"),
            ("translations", "korean<TAB>english: a translation trains with its line's label"),
            ("mixed", "texts with two feelings: first, second, lang, text"),
            ("mapped", "public sets, text<TAB>label,label, of which --label-map knows labels"),
            ("found-in", "where the lines of --llm-labels are; of a .tsv the first column")):
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[], metavar="FILE",
                            help=what)
    parser.add_argument("--label-map", type=Path, metavar="FILE",
                        help="columns dataset, original_label, class10, quality")
    parser.add_argument("--llm-labels", type=Path, metavar="FILE",
                        help="columns split, labels, mark: labels that a language model gave")


def read_examples(arguments: Namespace, settings: FinetuneConfig) -> Examples:
    """Every file of the call, as lines with their targets."""
    own = [line for path in arguments.train for line in read_labelled(path)]
    own += translated_lines(own, read_translations(arguments.translations))
    mixed = [line for path in arguments.mixed for line in read_mixed(path)]
    if arguments.mapped and arguments.label_map is None:
        raise UserError("--mapped needs --label-map")
    label_map = read_label_map(arguments.label_map) if arguments.mapped else {}
    mapped = [line for path in arguments.mapped
              for line in mapped_lines(path, label_map, partly=True)]
    found = (read_llm_labels(arguments.llm_labels, arguments.found_in, "train")
             if arguments.llm_labels else [])
    print(f"{len(own):,} own lines, {len(mixed):,} with two feelings, {len(mapped):,} mapped and "
          f"{len(found):,} LLM-labelled public lines", flush=True)
    if not (own or mixed or mapped or found):
        raise UserError("nothing to learn from: give --train, --mixed, --mapped or --llm-labels")
    smoothing, none_weight = settings.label_smoothing, settings.none_weight
    return Examples.joined([
        labelled_examples(own, smoothing, none_weight),
        mixed_examples(mixed, smoothing, settings.mixed_weight),
        labelled_examples(mapped, smoothing, weight=settings.mapped_weight),
        labelled_examples(found, smoothing, none_weight, settings.llm_weight)])


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence():
        settings = read_options(arguments, FinetuneConfig)
        dev = [line for path in arguments.dev for line in read_labelled(path)]
        finetune(settings, arguments.start_from, read_examples(arguments, settings), dev,
                 arguments.run_dir, arguments.out, command=described_call("finetune"),
                 max_steps=arguments.max_steps)


if __name__ == "__main__":
    main()
