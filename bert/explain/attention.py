"""Attention matrices: one head, means and rollout, pieces joined to words, patterns of heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from bert.explain.rollout import rollout
from bert.tokenizer import CLS, SEP, Encoding

MEAN, ROLLOUT = "mean", "rollout"
CLEAR_SHARE = 0.4    # a pattern names a head when it holds this much of the attention …
ABOVE_CHANCE = 1.5   # … and this many times what even attention would give it
SHOWN_TREND = 0.05   # a difference between first and last layer that is worth a word


class TagData(TypedDict):
    name: str
    share: float
    token: str | None


@dataclass(frozen=True)
class Tag:
    """What one head does with this text: the pattern, how much of it, and on which token."""

    name: str           # self, previous, next, sep, cls, word, focus, broad or mixed
    share: float        # attention held by the pattern, 0–1; for broad and mixed: tokens in use
    token: str | None = None

    def to_dict(self) -> TagData:
        return {"name": self.name, "share": round(self.share, 4), "token": self.token}


class EndsData(TypedDict):
    """First and last layer: the shares in both, and whether the usual trend is there."""

    near: list[float]
    sep: list[float]
    diagonal_early: bool
    sep_late: bool


@dataclass(frozen=True)
class View:
    """One matrix as it is shown: its tokens, its weights, and what was left out."""

    tokens: list[str]
    weights: np.ndarray   # (T, T) query × key
    hidden_share: float   # attention that the shown tokens gave to hidden ones, 0–1


# ---------------------------------------------------------------------------------- matrices


def select(attentions: np.ndarray, layer: int | str, head: int | str) -> np.ndarray:
    """One (T, T) matrix out of (L, H, T, T): counted from 1, or "mean"; layer may be "rollout"."""
    if layer == ROLLOUT:
        return rollout(attentions)
    chosen = attentions.mean(axis=0) if layer == MEAN else attentions[int(layer) - 1]  # (H, T, T)
    return chosen.mean(axis=0) if head == MEAN else chosen[int(head) - 1]


def group(weights: np.ndarray, places: Sequence[Sequence[int]]) -> np.ndarray:
    """Pieces to words: attention *to* a word is the sum over its pieces, *from* it the mean."""
    to_words = np.stack([weights[:, list(word)].sum(axis=1) for word in places], axis=1)
    return np.stack([to_words[list(word)].mean(axis=0) for word in places])


def is_special(encoding: Encoding) -> list[bool]:
    """Which pieces are [CLS] and [SEP] and not part of the text."""
    return [word is None for word in encoding.word_ids]


def shown(encoding: Encoding, weights: np.ndarray, words: bool = False,
          hide_special: bool = False) -> View:
    """A matrix with the token options of the page applied; nothing is scaled up again."""
    groups = (encoding.grouped() if words
              else [(piece, [place]) for place, piece in enumerate(encoding.pieces)])
    places = [list(group_places) for _, group_places in groups]
    if words:
        weights = group(weights, places)
    special = is_special(encoding)
    kept = [i for i, word in enumerate(places) if not (hide_special and special[word[0]])]
    hidden = [i for i in range(len(places)) if i not in kept]
    lost = float(weights[np.ix_(kept, hidden)].sum(axis=1).mean()) if kept and hidden else 0.0
    return View([groups[i][0] for i in kept], weights[np.ix_(kept, kept)], lost)


# ---------------------------------------------------------------------------------- head tags


def patterns(encoding: Encoding) -> dict[str, np.ndarray]:
    """Each pattern as the (T, T) cells it is made of; those that this text cannot show left out."""
    size = len(encoding.pieces)
    cells = {
        "self": np.eye(size, dtype=bool),
        "previous": np.eye(size, k=-1, dtype=bool),
        "next": np.eye(size, k=1, dtype=bool),
        "sep": np.tile(_is_marker(encoding, SEP), (size, 1)),
        "cls": np.tile(_is_marker(encoding, CLS), (size, 1)),
        "word": _same_word(encoding),
    }
    return {name: mask for name, mask in cells.items() if mask.any(axis=1).sum() >= 2}


def _is_marker(encoding: Encoding, marker: str) -> np.ndarray:
    return np.array([piece == marker and special for piece, special in
                     zip(encoding.pieces, is_special(encoding), strict=True)])


def _same_word(encoding: Encoding) -> np.ndarray:
    """The other pieces of one's own word."""
    size = len(encoding.pieces)
    mask = np.zeros((size, size), dtype=bool)
    for _, places in encoding.grouped():
        mask[np.ix_(places, places)] = True
    np.fill_diagonal(mask, False)
    return mask


def pattern_shares(encoding: Encoding, weights: np.ndarray) -> dict[str, float]:
    """How much of one head's attention each pattern holds."""
    return {name: float((weights * cells).sum() / cells.any(axis=1).sum())
            for name, cells in patterns(encoding).items()}


def group_shares(weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Attention between groups of tokens, from row to column: each row sums to one.

    (…, T, T) weights and (G, T) groups -> (…, G, G), the mean over the tokens that look.
    """
    groups = groups.astype(np.float64)
    return groups @ weights @ groups.T / np.maximum(groups.sum(axis=1), 1)[:, None]


def effective_tokens(weights: np.ndarray) -> np.ndarray:
    """Over how many tokens a row is spread, on average: the exponential of its entropy.
    (…, T, T) -> (…)."""
    safe = np.maximum(weights, 1e-12)
    return np.exp(-np.einsum("...t,...t", safe, np.log(safe))).mean(axis=-1)


def head_tags(encoding: Encoding, attentions: np.ndarray) -> list[list[Tag]]:
    """For every head of (L, H, T, T) the plainest true thing to say about it on this text."""
    cells = patterns(encoding)
    rows = np.array([mask.any(axis=1).sum() for mask in cells.values()])             # (P,)
    masks = np.stack([mask.ravel() for mask in cells.values()])                      # (P, T·T)
    flat = attentions.reshape(*attentions.shape[:2], -1)                             # (L, H, T·T)
    held = flat @ masks.T.astype(flat.dtype) / rows                                  # (L, H, P)
    chance = masks.sum(axis=1) / rows / len(encoding.pieces)                         # (P,)
    clear = np.where((held >= CLEAR_SHARE) & (held >= ABOVE_CHANCE * chance), held, 0.0)
    columns = attentions.mean(axis=-2)                                               # (L, H, T)
    spread = effective_tokens(attentions)                                            # (L, H)
    names = list(cells)

    def tag_of(layer: int, head: int) -> Tag:
        shares, looked_at = clear[layer, head], columns[layer, head]
        if shares.any():
            return Tag(names[shares.argmax()], float(shares.max()))
        favourite = int(looked_at.argmax())
        if looked_at[favourite] >= CLEAR_SHARE:
            return Tag("focus", float(looked_at[favourite]), encoding.pieces[favourite])
        tokens = float(spread[layer, head])
        return Tag("broad" if tokens >= len(looked_at) / 2 else "mixed", tokens)

    return [[tag_of(layer, head) for head in range(attentions.shape[1])]
            for layer in range(attentions.shape[0])]


def layer_summary(tags: Sequence[Tag]) -> tuple[str, int]:
    """The commonest tag of a layer and how many heads carry it; the first wins a draw."""
    names = [tag.name for tag in tags]
    name = max(dict.fromkeys(names), key=names.count)
    return name, names.count(name)


def first_and_last(encoding: Encoding, attentions: np.ndarray) -> EndsData:
    """Diagonals early, [SEP] columns late: the shares in both layers, and whether it is so here.

    "near" is attention to oneself and to both neighbours, "sep" attention to [SEP]; means over
    heads and tokens.
    """
    size = attentions.shape[-1]
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    on_sep = _is_marker(encoding, SEP)
    near, sep = [], []
    for layer in (attentions[0], attentions[-1]):
        mean = layer.mean(axis=0)
        near.append(float((mean * (distance <= 1)).sum(axis=1).mean()))
        sep.append(float(mean[:, on_sep].sum(axis=1).mean()))
    return {"near": near, "sep": sep,
            "diagonal_early": near[0] - near[1] >= SHOWN_TREND,
            "sep_late": sep[1] - sep[0] >= SHOWN_TREND}
