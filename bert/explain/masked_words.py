"""The masked language model on any text: words hidden, and what the network guesses instead."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bert.model import BertMLMHead, BertModel
from bert.tokenizer import UNK, Encoding, WordPieceTokenizer

TRIED_TOKENS = 1_024  # of all copies of a text in which another word is hidden


@dataclass(frozen=True)
class Truth:
    """What stood behind a mask: None if the mask was typed; no rank if the vocabulary lacks it."""

    piece: str | None = None
    rank: int | None = None
    probability: float | None = None


def words_of(encoding: Encoding) -> list[tuple[str, list[int]]]:
    """The words of a text with the places of their pieces, special tokens left out."""
    return [(name, places) for name, places in encoding.grouped()
            if encoding.word_ids[places[0]] is not None]


def middle_word(encoding: Encoding) -> int:
    return len(words_of(encoding)) // 2


def mask_words(encoding: Encoding, words: Sequence[int],
               mask_id: int) -> tuple[list[int], list[int]]:
    """The ids with every piece of some words masked, and the places of all masks, in order."""
    groups = words_of(encoding)
    ids = list(encoding.ids)
    for word in words:
        for place in groups[word][1]:
            ids[place] = mask_id
    return ids, [place for place, piece_id in enumerate(ids) if piece_id == mask_id]


@torch.inference_mode()
def guess_pieces(bert: BertModel, mlm: BertMLMHead, ids: Sequence[int],
                 places: Sequence[int]) -> np.ndarray:
    """The probability of every piece of the vocabulary at some places: (M, V)."""
    hidden = bert(torch.tensor([ids]), need_weights=False).hidden[0, list(places)]   # (M, E)
    return mlm(hidden, bert.embeddings.word_embeddings.weight).softmax(dim=-1).numpy()


@torch.inference_mode()
def easiest_word(bert: BertModel, mlm: BertMLMHead, encoding: Encoding, mask_id: int) -> int:
    """The longest word of which every piece is the first guess, or else the one that comes closest
    to it; of a text that is too long to try all words, the middle one."""
    groups = words_of(encoding)
    if len(groups) * len(encoding.ids) > TRIED_TOKENS:
        return middle_word(encoding)
    ids = torch.tensor([mask_words(encoding, [word], mask_id)[0] for word in range(len(groups))])
    words, places = zip(*((word, place) for word, (_, at) in enumerate(groups) for place in at),
                        strict=True)
    hidden = bert(ids, need_weights=False).hidden[list(words), list(places)]        # (P, E)
    logits = mlm(hidden, bert.embeddings.word_embeddings.weight)                    # (P, V)
    truth = torch.tensor(encoding.ids)[list(places)]                                # (P,)
    ahead = (logits > logits.gather(1, truth[:, None])).sum(dim=1).numpy()          # (P,)
    worst = [int(ahead[np.array(words) == word].max()) for word in range(len(groups))]
    return min(range(len(groups)), key=lambda word: (worst[word], -len(groups[word][0])))


def best_pieces(tokenizer: WordPieceTokenizer, probabilities: np.ndarray,
                count: int) -> list[tuple[str, float]]:
    """The likeliest pieces of one place with their probabilities, best first."""
    order = np.argsort(-probabilities, kind="stable")[:count]
    return [(tokenizer.backend.id_to_token(int(i)) or UNK, float(probabilities[i]))
            for i in order]


def truth_at(encoding: Encoding, place: int, probabilities: np.ndarray,
             tokenizer: WordPieceTokenizer) -> Truth:
    """The piece behind a mask with its rank among the guesses."""
    truth = encoding.ids[place]
    if truth == tokenizer.mask_id:
        return Truth()
    if truth == tokenizer.unk_id:
        return Truth(encoding.pieces[place])
    return Truth(encoding.pieces[place], int((probabilities > probabilities[truth]).sum()) + 1,
                 float(probabilities[truth]))
