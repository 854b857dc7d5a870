"""Give the rarest pieces' places to frequent words written without a space before them.

    python -m bert.repiece checkpoints/emotion --text KOREAN.txt --text ENGLISH.txt --words 1500 \\
        --out runs/repieced

"sohappy" is so ##ha ##ppy to a vocabulary that knows happy only at the start of a word: a lost
space turns a known word into rubble. Afterwards it is so ##happy, and ##happy begins with the
vector of happy. The vocabulary keeps its size and every other piece its id; the same texts make the
same exchange, so checkpoints of one family stay one. Letters are never given up.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer

from bert.checkpoint import TOKENIZER, Model, check_replaceable, load_checkpoint, save_checkpoint
from bert.config import Parser, described_call
from bert.metrics import checksum, metrics_file, read_metrics
from bert.model import BertForPreTraining
from bert.tokenizer import WordPieceTokenizer
from bert.train_tokenizer import balanced_lines

JOINED_RARER = 100  # times that a word stands alone for each time it is joined to the one before
SHORTEST = 2, 3     # Hangul syllables, other letters: shorter pieces are syllables of other words


def count_pieces(tokenizer: WordPieceTokenizer, lines: Iterable[str],
                 at_once: int = 10_000) -> Counter[int]:
    """How often each piece stands in a text."""
    counts: Counter[int] = Counter()
    waiting: list[str] = []
    for line in lines:
        waiting.append(line)
        if len(waiting) == at_once:
            counts.update(i for ids in tokenizer.encode_ids(waiting) for i in ids)
            waiting = []
    counts.update(i for ids in tokenizer.encode_ids(waiting) for i in ids)
    return counts


def exchanges(vocabulary: Sequence[str], counts: Mapping[int, int], words: int) -> dict[int, int]:
    """Which id becomes the joined form of which word: rarest piece -> most frequent word."""
    known = set(vocabulary)
    by_use = sorted(range(len(vocabulary)), key=lambda i: (-counts.get(i, 0), i))
    wanted = [i for i in by_use
              if is_word(vocabulary[i]) and "##" + vocabulary[i] not in known][:words]
    kept = set(wanted)
    rare = [i for i in reversed(by_use) if may_go(vocabulary[i]) and i not in kept]
    return dict(zip(rare, wanted, strict=False))


def may_go(piece: str) -> bool:
    """Words and parts of words can be spelled with other pieces; letters and signs cannot."""
    return is_word(piece) or (piece.startswith("##") and len(piece) > len("##") + 1)


def is_word(piece: str) -> bool:
    """Could people write it as a word of its own?"""
    syllables, letters = SHORTEST
    if not piece.isalpha():
        return False
    return len(piece) >= (syllables if "가" <= piece[0] <= "힣" else letters)


def repieced(tokenizer: WordPieceTokenizer, exchange: Mapping[int, int]) -> WordPieceTokenizer:
    """The same rules with other pieces."""
    vocabulary = tokenizer.vocabulary()
    for place, word in exchange.items():
        vocabulary[place] = "##" + vocabulary[word]
    described = json.loads(tokenizer.backend.to_str())
    described["model"]["vocab"] = {piece: i for i, piece in enumerate(vocabulary)}
    return WordPieceTokenizer(Tokenizer.from_str(json.dumps(described)))


@torch.no_grad()
def move_vectors(model: Model, exchange: Mapping[int, int]) -> None:
    """Let each joined form begin as the word it is a form of, only rarer."""
    places, words = list(exchange), list(exchange.values())
    table = getattr(model, "bert", model).embeddings.word_embeddings.weight
    table[places] = table[words]
    if isinstance(model, BertForPreTraining):
        model.mlm.bias[places] = model.mlm.bias[words] - math.log(JOINED_RARER)


def build_parser() -> Parser:
    parser = Parser(prog="bert.repiece", description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="any checkpoint of ours")
    parser.add_argument("--text", type=Path, nargs="+", action="append", required=True,
                        metavar="FILE", help="a group of UTF-8 text files by which words and "
                        "pieces are counted; give --text once for each language")
    parser.add_argument("--words", type=int, default=1_500,
                        help="words that get a joined form (default: 1500)")
    parser.add_argument("--megabytes", type=float, default=5.0,
                        help="million characters read from each group (default: 5)")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if arguments.words < 1 or not 0 < arguments.megabytes < 1e6:
            raise ValueError("--words and --megabytes: expected more than 0")
        check_replaceable(arguments.out, TOKENIZER)
        start = load_checkpoint(arguments.checkpoint)
        lines = balanced_lines(arguments.text, math.ceil(arguments.megabytes * 1e6), seed=0)
        exchange = exchanges(start.tokenizer.vocabulary(), count_pieces(start.tokenizer, lines),
                             arguments.words)
        move_vectors(start.model, exchange)
        facts = read_metrics(arguments.checkpoint) | {"repiece": {
            "command": described_call("bert.repiece"), "pieces": len(exchange),
            "data": {path.name: checksum(path) for group in arguments.text for path in group}}}
        save_checkpoint(arguments.out, start.model, repieced(start.tokenizer, exchange), half=True,
                        files=metrics_file(facts))
        print(f"{len(exchange):,} pieces exchanged -> {arguments.out}")


if __name__ == "__main__":
    main()
