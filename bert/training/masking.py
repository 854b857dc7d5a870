"""Pre-training examples: sentence pairs from documents, masked pieces, batches of one length.

Everything is drawn from (seed, epoch, batch), never from a running state, so that any batch can be
made again after an interruption and every epoch masks afresh.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bert.tokenizer import WordPieceTokenizer
from bert.training.batching import PlannedData, batches_by_length
from bert.training.corpus import TokenCorpus
from bert.training.distillation import SentenceVectors

FOLLOWS, RANDOM, NOT_A_PAIR = 0, 1, -100
IGNORED = -100
TWO_SENTENCES = 0.3  # share of the pairs that are just two sentences, as people type them
ANY_LENGTH = 0.1     # share of the pairs of a random length (BERT, appendix A.2)


@dataclass(frozen=True)
class Examples:
    """The spans of an epoch: [CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""

    spans: np.ndarray      # (N, 4) int64: first begin, first end, second begin, second end
    targets: np.ndarray    # (N,) FOLLOWS, RANDOM or NOT_A_PAIR
    sentences: np.ndarray  # (N,) number of the first sentence
    sources: np.ndarray    # (N,) number of the source

    def lengths(self) -> np.ndarray:
        """Tokens of each example, special ones counted."""
        pieces = (self.spans[:, 1] - self.spans[:, 0]) + (self.spans[:, 3] - self.spans[:, 2])
        return pieces + np.where(self.targets == NOT_A_PAIR, 2, 3)


@dataclass(frozen=True)
class PretrainBatch:
    ids: np.ndarray             # (B, T) int64, after masking
    segment_ids: np.ndarray     # (B, T) int64
    attention_mask: np.ndarray  # (B, T) bool
    is_masked: np.ndarray       # (B, T) bool: the places to predict
    mlm_targets: np.ndarray     # (B, T) int64, the piece that stood there, else IGNORED
    nsp_targets: np.ndarray     # (B,) int64
    vectors: np.ndarray         # (B, W) float32: a teacher's, zeros where there is none
    sources: np.ndarray         # (B,) number of the source

    @property
    def num_tokens(self) -> int:
        return int(self.attention_mask.sum())

    def rows(self, rank: int, world_size: int) -> "PretrainBatch":
        """The share of one of several processes."""
        return PretrainBatch(*(value[rank::world_size] for value in vars(self).values()))


def plan_epoch(corpus: TokenCorpus, max_length: int, rng: np.random.Generator,
               repeats: Mapping[str, int] | None = None) -> Examples:
    """Cut every document into examples, half of the pairs with a stranger as second part.

    A chunk of consecutive sentences is split in two at a sentence boundary. The stranger comes from
    another document of the same source: drawn from everywhere, it would be told by its language
    alone. What it displaced is used again (BERT, appendix A.2).
    """
    rows: list[tuple[int, ...]] = []  # a span, its target, its first sentence, its source
    for number, name in enumerate(corpus.sources):
        for _ in range((repeats or {}).get(name, 1)):
            rows += _plan_source(corpus, number, max_length, rng)
    table = np.asarray(rows, dtype=np.int64).reshape(-1, 7)
    return Examples(table[:, :4], *table[:, 4:].T)


def _plan_source(corpus: TokenCorpus, number: int, max_length: int,
                 rng: np.random.Generator) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    first_document, end_document = corpus.first_documents[number:number + 2].tolist()
    firsts = corpus.documents[first_document:end_document + 1].tolist()
    if len(firsts) < 2:
        return rows
    offset, num_sentences = firsts[0], firsts[-1] - firsts[0]
    starts = corpus.sentences[offset:firsts[-1] + 1].tolist()  # of this source's sentences
    firsts = [first - offset for first in firsts]
    document_of = np.repeat(np.arange(len(firsts) - 1), np.diff(firsts)).tolist()
    uses = 4 * (num_sentences + 1)  # one draw a use, all at once: much faster than a call each
    chance = rng.random(uses).tolist()
    stranger = rng.integers(0, num_sentences, uses).tolist()
    room, used = max_length - 3, 0
    for document in range(len(firsts) - 1):
        here, last = firsts[document], firsts[document + 1]
        while here < last:
            begin, kind = starts[here], chance[used]
            if kind < TWO_SENTENCES:
                goal, until = room, min(here + 2, last)
            else:
                goal = room
                if kind < TWO_SENTENCES + ANY_LENGTH:
                    goal = 2 + int(room * (kind - TWO_SENTENCES) / ANY_LENGTH)
                until = here + 1
                while until < last and starts[until] - begin < goal:
                    until += 1
            if until - here < 2 or len(firsts) < 3:
                rows.append((begin, min(starts[until], begin + room + 1), 0, 0, NOT_A_PAIR,
                             offset + here, number))
                used, here = used + 1, until
                continue
            middle = here + 1 + int(chance[used + 1] * (until - here - 1))
            other = stranger[used]
            is_random = chance[used + 2] < 0.5 and document_of[other] != document
            if is_random:
                other_end = firsts[document_of[other] + 1]
                if kind < TWO_SENTENCES:
                    other_end = other + 1
                second = starts[other], min(starts[other_end], starts[other] + goal)
                following = middle
            else:
                second = starts[middle], starts[until]
                following = until
            rows.append((*_fit(begin, starts[middle], *second, room),
                         RANDOM if is_random else FOLLOWS, offset + here, number))
            used, here = used + 3, following
    return rows


def _fit(begin: int, end: int, second_begin: int, second_end: int,
         room: int) -> tuple[int, int, int, int]:
    """Shorten the two parts until both fit: the first at its front, the second at its end."""
    first, second = end - begin, second_end - second_begin
    if first + second > room:
        first_room = max(room - second, room // 2)
        first = min(first, first_room)
        second = min(second, room - first)
    return end - first, end, second_begin, second_begin + second


def assemble(corpus: TokenCorpus, examples: Examples, chosen: np.ndarray,
             tokenizer: WordPieceTokenizer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids, segment ids and attention mask of some examples, special tokens put in."""
    spans, targets = examples.spans[chosen], examples.targets[chosen]
    widths = np.stack([spans[:, 1] - spans[:, 0], spans[:, 3] - spans[:, 2]], axis=1).tolist()
    is_pair = (targets != NOT_A_PAIR).tolist()
    longest = max(first + second + 2 + pair
                  for (first, second), pair in zip(widths, is_pair, strict=True))
    ids = np.full((len(chosen), longest), tokenizer.pad_id, dtype=np.int64)
    segment_ids = np.zeros_like(ids)
    attention_mask = np.zeros(ids.shape, dtype=bool)
    ids[:, 0] = tokenizer.cls_id
    for row, (begin, end, second_begin, second_end) in enumerate(spans.tolist()):
        first, second = widths[row]
        ids[row, 1:first + 1] = corpus.ids[begin:end]
        ids[row, first + 1] = tokenizer.sep_id
        length = first + 2
        if is_pair[row]:
            ids[row, length:length + second] = corpus.ids[second_begin:second_end]
            ids[row, length + second] = tokenizer.sep_id
            segment_ids[row, length:length + second + 1] = 1
            length += second + 1
        attention_mask[row, :length] = True
    return ids, segment_ids, attention_mask


def mask_tokens(ids: np.ndarray, can_mask: np.ndarray, begins_word: np.ndarray, mask_id: int,
                replacements: np.ndarray, rng: np.random.Generator, rate: float = 0.15,
                whole_word: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Hide `rate` of the pieces of each row: 80 % as [MASK], 10 % as a random piece, 10 % as they
    are (BERT §3.1). Returns the masked ids and where to predict; at least one place a row.

    `begins_word` (V,) tells pieces that begin a word; with `whole_word` the pieces of a word are
    hidden together.
    """
    lottery = rng.random(ids.shape)
    if whole_word:
        word = np.cumsum(begins_word[ids] | ~can_mask, axis=1) - 1
        lottery = np.take_along_axis(lottery, np.clip(word, 0, None), axis=1)
    lottery[~can_mask] = 2.0
    wanted = np.maximum(1, np.rint(can_mask.sum(axis=1) * rate).astype(int))
    last_winner = np.take_along_axis(np.sort(lottery, axis=1), wanted[:, None] - 1, axis=1)
    is_masked = (lottery <= last_winner) & can_mask
    fate = rng.random(ids.shape)
    masked = np.where(is_masked & (fate < 0.8), mask_id, ids)
    swapped = is_masked & (fate >= 0.8) & (fate < 0.9)
    masked[swapped] = rng.choice(replacements, int(swapped.sum()))
    return masked, is_masked


class Masking:
    """What of a vocabulary may be masked, and with what; calls `mask_tokens`."""

    def __init__(self, tokenizer: WordPieceTokenizer) -> None:
        pieces = tokenizer.vocabulary()
        self.begins_word = np.array([not piece.startswith("##") for piece in pieces])
        self.is_special = np.zeros(len(pieces), dtype=bool)
        self.is_special[list(tokenizer.special_ids)] = True
        self.replacements = np.flatnonzero(~self.is_special)
        self.mask_id = tokenizer.mask_id

    def __call__(self, ids: np.ndarray, attention_mask: np.ndarray, rng: np.random.Generator,
                 rate: float, whole_word: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return mask_tokens(ids, attention_mask & ~self.is_special[ids], self.begins_word,
                           self.mask_id, self.replacements, rng, rate, whole_word)


@dataclass
class PretrainData(PlannedData):
    """All batches of a run; `batch(epoch, number)` is the same whenever it is asked for.

    `repeats` says how often a source is read in an epoch, if not once; `vectors` are a teacher's,
    for single sentences that it has read.
    """

    corpus: TokenCorpus
    tokenizer: WordPieceTokenizer
    max_length: int
    batch_tokens: int
    mask_rate: float
    seed: int
    repeats: Mapping[str, int] = field(default_factory=dict)
    vectors: SentenceVectors | None = None

    def __post_init__(self) -> None:
        self._masking = Masking(self.tokenizer)

    def plan(self, epoch: int) -> list[np.ndarray]:
        rng = np.random.default_rng([self.seed, epoch])
        self._examples = plan_epoch(self.corpus, self.max_length, rng, self.repeats)
        return batches_by_length(self._examples.lengths(), self.batch_tokens, rng)

    def batch(self, epoch: int, number: int) -> PretrainBatch:
        chosen = self.planned(epoch)[number]
        rng = np.random.default_rng([self.seed, epoch, 2, number])
        ids, segment_ids, mask = assemble(self.corpus, self._examples, chosen, self.tokenizer)
        masked, is_masked = self._masking(ids, mask, rng, self.mask_rate)
        targets = self._examples.targets[chosen]
        if self.vectors is None:
            vectors = np.zeros((len(chosen), 0), dtype=np.float32)
        else:
            marks = self.corpus.marks[self._examples.sentences[chosen]]
            vectors = self.vectors.of(marks) * (targets == NOT_A_PAIR)[:, None]
        return PretrainBatch(masked, segment_ids, mask, is_masked,
                             np.where(is_masked, ids, IGNORED), targets, vectors,
                             self._examples.sources[chosen])
