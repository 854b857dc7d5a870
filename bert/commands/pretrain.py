"""Pre-train BERT: guess masked pieces, and whether one sentence follows another.

    python -m bert pretrain --tokenizer FOLDER --sources x_docs.txt y_lines.txt \\
        --run-dir runs/pretrain --out checkpoints/pretrained

A source NAME_docs.txt holds one sentence a line and a blank line after each document,
NAME_lines.txt independent lines, which have no next sentence; .xz is read as it is. One document in
a hundred is held out and measured at every save. With --vectors a teacher's sentence vectors are
learned in the same pass. Interrupted at any moment, the same command goes on from the last save.
Under `torchrun --nproc-per-node N` the processes share each batch (N times --batch-tokens).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bert.arguments import Parser, add_options, described_call, positive, read_options
from bert.config import BertConfig
from bert.cpu import configure_cpu
from bert.errors import UserError
from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import TokenCorpus
from bert.training.distillation import SentenceVectors
from bert.training.loop import Processes
from bert.training.pretraining import PretrainConfig, pretrain


def build_parser() -> Parser:
    head, _, rest = __doc__.partition("\n\n")
    parser = Parser(prog="bert pretrain", description=head, epilog=rest.rpartition("\n\n")[2])
    parser.add_argument("--sources", type=Path, nargs="+", required=True, metavar="FILE",
                        help="NAME_docs.txt: documents; NAME_lines.txt: independent lines")
    parser.add_argument("--repeat", nargs="*", default=[], metavar="NAME=TIMES",
                        help="sources that are read several times in an epoch")
    parser.add_argument("--tokenizer", type=Path, required=True,
                        help="folder with tokenizer.json (from train_tokenizer)")
    parser.add_argument("--vectors", type=Path, metavar="FOLDER",
                        help="a teacher's sentence vectors (from distill)")
    parser.add_argument("--start-from", type=Path, metavar="CHECKPOINT",
                        help="begin with the network of an earlier run, not with random weights")
    parser.add_argument("--run-dir", type=Path, required=True,
                        help="folder for the saved state, the metrics and the tokenised corpus")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=positive,
                        help="stop every stage after this many steps; 2 is a dry run")
    add_options(parser.add_argument_group("training"), PretrainConfig,
                without=("learning_rate", "layer_decay"))  # every stage has its own rate
    add_options(parser.add_argument_group("network"), BertConfig,
                without=("vocab_size",))  # the tokenizer says it
    parser.set_defaults(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return parser


def read_repeats(given: Sequence[str], sources: Sequence[str]) -> dict[str, int]:
    """["ko_own_lines=3"] -> {"ko_own_lines": 3}."""
    repeats = {}
    for word in given:
        name, _, times = word.partition("=")
        if name not in sources or not times.isdecimal() or int(times) < 1:
            raise UserError(f"--repeat {word!r}: expected NAME=TIMES with one of the sources "
                            f"{', '.join(sources)}")
        repeats[name] = int(times)
    return repeats


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence():
        tokenizer = WordPieceTokenizer.load(arguments.tokenizer / "tokenizer.json")
        arguments.vocab_size = len(tokenizer)
        config = read_options(arguments, BertConfig)
        settings = read_options(arguments, PretrainConfig)
        processes = Processes.join()
        train, held = processes.main_first(lambda: TokenCorpus.prepare(
            arguments.run_dir / "tokens", tokenizer, arguments.sources))
        repeats = read_repeats(arguments.repeat, train.sources)
        if np.diff(train.documents).max() < 2:
            print("no source has a document of two sentences: nothing is learned about the next "
                  "sentence", flush=True)
        print(f"{len(train.ids):,} pieces, {len(train.sentences) - 1:,} sentences, "
              f"{train.num_documents:,} documents", flush=True)
        vectors = SentenceVectors.open(arguments.vectors) if arguments.vectors else None
        pretrain(config, settings, train, held, tokenizer, arguments.run_dir, arguments.out,
                 processes, command=described_call("pretrain"), max_steps=arguments.max_steps,
                 repeats=repeats, vectors=vectors, start_from=arguments.start_from)
        processes.leave()


if __name__ == "__main__":
    main()
