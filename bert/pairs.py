"""Pre-training examples: sentence pairs from documents, masked pieces, batches of one length.

Everything is drawn from (seed, epoch, batch), never from a running state, so that any batch can be
made again after an interruption and every epoch masks afresh.
"""

from dataclasses import dataclass

import numpy as np

from bert.corpus import PlannedData, TokenCorpus, batches_by_length
from bert.tokenizer import WordPieceTokenizer

FOLLOWS, RANDOM, NOT_A_PAIR = 0, 1, -100
IGNORED = -100


@dataclass(frozen=True)
class Examples:
    """The spans of an epoch: [CLS] first [SEP], or [CLS] first [SEP] second [SEP]."""

    spans: np.ndarray    # (N, 4) int64: first begin, first end, second begin, second end
    targets: np.ndarray  # (N,) FOLLOWS, RANDOM or NOT_A_PAIR

    def lengths(self) -> np.ndarray:
        """Tokens of each example, special ones counted."""
        pieces = (self.spans[:, 1] - self.spans[:, 0]) + (self.spans[:, 3] - self.spans[:, 2])
        return pieces + np.where(self.targets == NOT_A_PAIR, 2, 3)


@dataclass(frozen=True)
class PretrainBatch:
    ids: np.ndarray          # (B, T) int64, after masking
    segment_ids: np.ndarray  # (B, T) int64
    is_token: np.ndarray     # (B, T) bool
    is_masked: np.ndarray    # (B, T) bool: the places to predict
    mlm_targets: np.ndarray  # (B, T) int64, the piece that stood there, else IGNORED
    nsp_targets: np.ndarray  # (B,) int64

    @property
    def num_tokens(self) -> int:
        return int(self.is_token.sum())

    def rows(self, rank: int, world_size: int) -> "PretrainBatch":
        """The share of one of several processes."""
        return PretrainBatch(*(value[rank::world_size] for value in vars(self).values()))


def plan_epoch(corpus: TokenCorpus, max_length: int, seed: int, epoch: int) -> Examples:
    """Cut every document into examples, half of the pairs with a stranger as second part.

    A chunk of consecutive sentences is split in two at a sentence boundary. The stranger comes from
    another document, so it is never the sentence itself nor its true successor; what it displaced
    is used again (BERT, appendix A.2).
    """
    draw = np.random.default_rng([seed, epoch])
    starts = np.asarray(corpus.sentences)
    firsts = np.asarray(corpus.documents)
    document_of = np.repeat(np.arange(corpus.num_documents), np.diff(firsts))
    num_sentences = len(starts) - 1
    chance = draw.random(3 * num_sentences + 3)  # one draw a use: much faster than one call each
    stranger = draw.integers(0, num_sentences, 3 * num_sentences + 3)
    starts_list, chance_list, used = starts.tolist(), chance.tolist(), 0
    room = max_length - 3
    spans, targets = [], []
    for document, (first, last) in enumerate(zip(firsts[:-1].tolist(), firsts[1:].tolist(),
                                                 strict=True)):
        here = first
        while here < last:
            begin = starts_list[here]
            goal = room if chance_list[used] > 0.1 else 2 + int(room * chance_list[used] * 10)
            until = here + 1
            while until < last and starts_list[until] - begin < goal:
                until += 1
            if until - here < 2 or corpus.num_documents < 2:
                spans.append((begin, min(starts_list[until], begin + room + 1), 0, 0))
                targets.append(NOT_A_PAIR)
                used, here = used + 3, until
                continue
            middle = here + 1 + int(chance_list[used + 1] * (until - here - 1))
            other = int(stranger[used])
            is_random = chance_list[used + 2] < 0.5 and document_of[other] != document
            if is_random:
                other_end = starts_list[firsts[document_of[other] + 1]]
                second = starts_list[other], min(other_end, starts_list[other] + goal)
                following = middle
            else:
                second = starts_list[middle], starts_list[until]
                following = until
            spans.append(_fit(begin, starts_list[middle], *second, room))
            targets.append(RANDOM if is_random else FOLLOWS)
            used, here = used + 3, following
    return Examples(np.asarray(spans, dtype=np.int64), np.asarray(targets, dtype=np.int64))


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
    """Ids, segment ids and token mask of some examples, special tokens put in."""
    shape = len(chosen), int(examples.lengths()[chosen].max())
    ids = np.full(shape, tokenizer.pad_id, dtype=np.int64)
    segment_ids = np.zeros(shape, dtype=np.int64)
    is_token = np.zeros(shape, dtype=bool)
    for row, example in enumerate(chosen):
        begin, end, second_begin, second_end = examples.spans[example]
        first = end - begin
        ids[row, 0] = tokenizer.cls_id
        ids[row, 1:first + 1] = corpus.ids[begin:end]
        ids[row, first + 1] = tokenizer.sep_id
        length = first + 2
        if examples.targets[example] != NOT_A_PAIR:
            second = second_end - second_begin
            ids[row, length:length + second] = corpus.ids[second_begin:second_end]
            ids[row, length + second] = tokenizer.sep_id
            segment_ids[row, length:length + second + 1] = 1
            length += second + 1
        is_token[row, :length] = True
    return ids, segment_ids, is_token


def mask_tokens(ids: np.ndarray, can_mask: np.ndarray, begins_word: np.ndarray, mask_id: int,
                replacements: np.ndarray, draw: np.random.Generator, rate: float = 0.15,
                whole_word: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Hide `rate` of the pieces of each row: 80 % as [MASK], 10 % as a random piece, 10 % as they
    are (BERT §3.1). Returns the masked ids and where to predict; at least one place a row.

    `begins_word` (V,) tells pieces that begin a word; with `whole_word` the pieces of a word are
    hidden together.
    """
    lottery = draw.random(ids.shape)
    if whole_word:
        word = np.cumsum(begins_word[ids] | ~can_mask, axis=1) - 1
        lottery = np.take_along_axis(lottery, np.clip(word, 0, None), axis=1)
    lottery[~can_mask] = 2.0
    wanted = np.maximum(1, np.rint(can_mask.sum(axis=1) * rate).astype(int))
    last_winner = np.take_along_axis(np.sort(lottery, axis=1), wanted[:, None] - 1, axis=1)
    is_masked = (lottery <= last_winner) & can_mask
    fate = draw.random(ids.shape)
    masked = np.where(is_masked & (fate < 0.8), mask_id, ids)
    swapped = is_masked & (fate >= 0.8) & (fate < 0.9)
    masked[swapped] = draw.choice(replacements, int(swapped.sum()))
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

    def __call__(self, ids: np.ndarray, is_token: np.ndarray, draw: np.random.Generator,
                 rate: float, whole_word: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return mask_tokens(ids, is_token & ~self.is_special[ids], self.begins_word, self.mask_id,
                           self.replacements, draw, rate, whole_word)


@dataclass
class PretrainData(PlannedData):
    """All batches of a run; `batch(epoch, number)` is the same whenever it is asked for."""

    corpus: TokenCorpus
    tokenizer: WordPieceTokenizer
    max_length: int
    batch_tokens: int
    mask_rate: float
    whole_word: bool
    seed: int

    def __post_init__(self) -> None:
        self._masking = Masking(self.tokenizer)
        self._examples: Examples | None = None

    def plan(self, epoch: int) -> list[np.ndarray]:
        self._examples = plan_epoch(self.corpus, self.max_length, self.seed, epoch)
        draw = np.random.default_rng([self.seed, epoch, 1])
        return batches_by_length(self._examples.lengths(), self.batch_tokens, draw)

    def batch(self, epoch: int, number: int) -> PretrainBatch:
        chosen = self.planned(epoch)[number]
        draw = np.random.default_rng([self.seed, epoch, 2, number])
        ids, segment_ids, is_token = assemble(self.corpus, self._examples, chosen, self.tokenizer)
        masked, is_masked = self._masking(ids, is_token, draw, self.mask_rate, self.whole_word)
        return PretrainBatch(masked, segment_ids, is_token, is_masked,
                             np.where(is_masked, ids, IGNORED), self._examples.targets[chosen])
