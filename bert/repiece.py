"""Give the rarest pieces' places to words that a vocabulary cuts, or knows only after a space.

    python -m bert.repiece checkpoints/emotion --text KOREAN.txt --text ENGLISH.txt --whole 2500 \\
        --joined 500 --out runs/repieced

A vocabulary learned from encyclopaedias and film reviews spells a diary with rubble: scar ##ed.
Afterwards `scared` is one piece that begins with the mean of the vectors of its parts (--whole).
And "sohappy" is so ##ha ##ppy to a vocabulary that knows happy only at the start of a word;
afterwards it is so ##happy, and ##happy begins with the vector of happy (--joined).
The vocabulary keeps its size and every other piece its id; the same texts make the same exchange,
so checkpoints of one family stay one. Letters and joined forms are never given up.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer

from bert.checkpoint import TOKENIZER, Model, check_replaceable, load_checkpoint, save_checkpoint
from bert.config import Parser, described_call
from bert.metrics import checksum, metrics_file, read_metrics
from bert.model import BertForPreTraining
from bert.sources import HANGUL
from bert.tokenizer import WordPieceTokenizer
from bert.train_tokenizer import balanced_lines

# What was measured of the checkpoint, or of others beside it: it no longer holds.
MEASURED = ("average", "evaluate", "baselines", "ablations", "learning_curve", "baseline",
            "earlier")
RARER = 100           # times that the parts of a new piece are seen for each time that it is
SHORTEST = 2, 3       # Hangul syllables, other letters: shorter pieces are syllables of other words
LONGEST_STEM = 5      # syllables
ENDINGS = 5           # a Korean stem goes on in at least so many ways
MOSTLY = 0.7          # of the words that begin with 케이, so many begin with 케이크: take that


class NewPiece(NamedTuple):
    """What comes into the place of a rare piece; it begins as the mean vector of `parts`."""

    text: str
    parts: tuple[int, ...]


Exchange = Mapping[int, NewPiece]  # by the id of the piece that goes


# ---------------------------------------------------------------------------------- counting


def count_words(tokenizer: WordPieceTokenizer, lines: Iterable[str]) -> Counter[str]:
    """How often each word, as WordPiece is given it, stands in a text."""
    normal, split = tokenizer.backend.normalizer, tokenizer.backend.pre_tokenizer
    return Counter(word for line in lines
                   for word, _ in split.pre_tokenize_str(normal.normalize_str(line)))


def count_pieces(spelled: Mapping[str, Sequence[int]], counts: Mapping[str, int]) -> Counter[int]:
    """How often each piece stands in a text of these words."""
    pieces: Counter[int] = Counter()
    for word, ids in spelled.items():
        for i in ids:
            pieces[i] += counts[word]
    return pieces


def is_word(piece: str) -> bool:
    """Could people write it as a word of its own?"""
    syllables, letters = SHORTEST
    if not piece.isalpha():
        return False
    return len(piece) >= (syllables if is_hangul(piece) else letters)


def is_hangul(word: str) -> bool:
    return all("가" <= letter <= "힣" for letter in word)


# ---------------------------------------------------------------------------------- choosing


def wanted_wholes(counts: Mapping[str, int], spelled: Mapping[str, Sequence[int]],
                  vocabulary: Sequence[str]) -> list[str]:
    """Words that are cut now, the most frequent first. An English word counts by itself;
    in Korean endings are written onto the stem, so a stem counts by all words it begins."""
    gains: Counter[str] = Counter()
    stems: Counter[str] = Counter()
    next_letters: dict[str, set[str]] = defaultdict(set)
    for word, ids in spelled.items():
        if len(ids) < 2:
            continue
        if not is_hangul(word):
            if is_word(word) and not HANGUL.search(word):  # 중ㅋㅋ is neither stem nor word
                gains[word] = counts[word]
            continue
        known = len(vocabulary[ids[0]])
        for end in range(max(known + 1, SHORTEST[0]), min(len(word), LONGEST_STEM) + 1):
            stems[word[:end]] += counts[word]
            next_letters[word[:end]].add(word[end:end + 1])
    for stem in list(stems):
        while longer := [stem + letter for letter in sorted(next_letters[stem]) if letter
                         and stems[stem + letter] >= MOSTLY * stems[stem]]:
            stem = longer[0]
        if len(next_letters[stem]) >= ENDINGS:
            gains[stem] = stems[stem]
    return sorted(gains, key=lambda word: (-gains[word], word))


def exchanges(tokenizer: WordPieceTokenizer, counts: Mapping[str, int], whole: int,
              joined: int) -> dict[int, NewPiece]:
    """What comes into which place: the most wanted `whole` words and `joined` forms into the
    places of the rarest pieces."""
    vocabulary = tokenizer.vocabulary()
    known = set(vocabulary)
    spelled = dict(zip(counts, tokenizer.encode_ids(list(counts)), strict=True))
    uses = count_pieces(spelled, counts)
    by_use = sorted(range(len(vocabulary)), key=lambda i: (-uses[i], i))
    cut = wanted_wholes(counts, spelled, vocabulary)[:whole]
    new = [NewPiece(word, tuple(ids)) for word, ids in
           zip(cut, tokenizer.encode_ids(cut), strict=True)]
    new += [NewPiece("##" + vocabulary[i], (i,)) for i in by_use
            if is_word(vocabulary[i]) and "##" + vocabulary[i] not in known][:joined]
    parents = {i for piece in new if piece.text.startswith("##") for i in piece.parts}
    rare = [i for i in reversed(by_use) if may_go(vocabulary[i], known) and i not in parents]
    return dict(zip(rare, new, strict=False))


def may_go(piece: str, known: set[str]) -> bool:
    """Words and parts of words can be spelled with other pieces; letters and signs cannot. The
    joined form of a word waits for texts that lost a space, however rare those are."""
    inside = piece.removeprefix("##")
    if inside == piece:
        return is_word(piece)
    return len(inside) > 1 and not (is_word(inside) and inside in known)


# ---------------------------------------------------------------------------------- exchanging


def repieced(tokenizer: WordPieceTokenizer, exchange: Exchange) -> WordPieceTokenizer:
    """The same rules with other pieces."""
    vocabulary = tokenizer.vocabulary()
    for place, piece in exchange.items():
        vocabulary[place] = piece.text
    described = json.loads(tokenizer.backend.to_str())
    described["model"]["vocab"] = {piece: i for i, piece in enumerate(vocabulary)}
    return WordPieceTokenizer(Tokenizer.from_str(json.dumps(described)))


@torch.no_grad()
def move_vectors(model: Model, exchange: Exchange) -> None:
    """Let each new piece begin as the mean of its parts, only rarer."""
    tables = [getattr(model, "bert", model).embeddings.word_embeddings.weight]
    if isinstance(model, BertForPreTraining):
        tables.append(model.mlm.bias)
    for table in tables:
        before = table.clone()  # a place that is given up may be a part of another new piece
        for place, piece in exchange.items():
            table[place] = before[list(piece.parts)].mean(dim=0)
    if isinstance(model, BertForPreTraining):
        model.mlm.bias[list(exchange)] -= math.log(RARER)


# ---------------------------------------------------------------------------------- command line


def build_parser() -> Parser:
    parser = Parser(prog="bert.repiece", description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=Path, help="any checkpoint of ours")
    parser.add_argument("--text", type=Path, nargs="+", action="append", required=True,
                        metavar="FILE", help="a group of UTF-8 text files by which words and "
                        "pieces are counted; give --text once for each language")
    parser.add_argument("--whole", type=int, default=0,
                        help="words and stems that are cut now and get a piece (default: 0)")
    parser.add_argument("--joined", type=int, default=0,
                        help="words that get a form for a lost space before them (default: 0)")
    parser.add_argument("--megabytes", type=float, default=5.0,
                        help="million characters read from each group (default: 5)")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if min(arguments.whole, arguments.joined) < 0 or not arguments.whole + arguments.joined:
            raise ValueError("--whole and --joined: expected how many pieces to exchange")
        if not 0 < arguments.megabytes < 1e6:
            raise ValueError("--megabytes: expected more than 0")
        check_replaceable(arguments.out, TOKENIZER)
        start = load_checkpoint(arguments.checkpoint)
        lines = balanced_lines(arguments.text, math.ceil(arguments.megabytes * 1e6), seed=0)
        exchange = exchanges(start.tokenizer, count_words(start.tokenizer, lines),
                             arguments.whole, arguments.joined)
        move_vectors(start.model, exchange)
        facts = {name: part for name, part in read_metrics(arguments.checkpoint).items()
                 if name not in MEASURED}
        facts["repiece"] = {
            "command": described_call("bert.repiece"), "pieces": len(exchange),
            "data": {path.name: checksum(path) for group in arguments.text for path in group}}
        save_checkpoint(arguments.out, start.model, repieced(start.tokenizer, exchange), half=True,
                        files=metrics_file(facts))
        print(f"{len(exchange):,} pieces exchanged -> {arguments.out}")


if __name__ == "__main__":
    main()
