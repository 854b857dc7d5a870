"""The same feeling, written or cut differently: more from the lines at hand.

Text noise changes how a line is written: a lost space, a typo, another case, a trailing ㅋㅋ.
Subword regularization cuts its words into other pieces. Token dropout hides pieces behind [MASK].
"""

from collections.abc import Sequence

import numpy as np

from bert.tokenizer import WordPieceTokenizer

# ---------------------------------------------------------------------------------- text noise

ENDINGS = ("ㅋㅋ", "ㅎㅎ", "ㅠㅠ", "ㅜㅜ", "!!", "!", "...", "~", "..", " ㅋㅋㅋ", "!!!", " !!")


def text_noise(text: str, rng: np.random.Generator) -> str:
    """One small change that leaves the feeling as it is."""
    change = rng.choice(4, p=(0.5, 0.2, 0.2, 0.1))
    if change == 0:
        return _move_a_space(text, rng)
    if change == 1:
        kept = text if rng.random() < 0.5 else text.rstrip(".!~ ")
        return kept + ENDINGS[rng.integers(len(ENDINGS))]
    if change == 2:
        return _mistype(text, rng)
    return text.upper() if rng.random() < 0.3 else text.lower().rstrip(".")


def _move_a_space(text: str, rng: np.random.Generator) -> str:
    """Join two words or many, or cut one in two."""
    words = text.split()
    place = int(rng.integers(len(words))) if words else 0
    if len(words) > 1 and rng.random() < 0.85:
        is_joined = np.arange(1, len(words)) == max(place, 1)
        if rng.random() < 0.4:
            is_joined |= rng.random(len(words) - 1) < 0.3
        spaces = ["", *("" if joined else " " for joined in is_joined)]
        return "".join(space + word for space, word in zip(spaces, words, strict=True))
    if words and len(words[place]) > 2:
        cut = int(rng.integers(1, len(words[place])))
        words[place:place + 1] = [words[place][:cut], words[place][cut:]]
    return " ".join(words)


def _mistype(text: str, rng: np.random.Generator) -> str:
    """Leave out, double or swap one letter of a word."""
    places = [i for i, letter in enumerate(text) if letter.isalpha()]
    if len(places) < 4:
        return text
    at = places[rng.integers(len(places) - 1)]
    kind = rng.integers(3)
    if kind == 0:
        return text[:at] + text[at + 1:]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    return text[:at] + text[at + 1:at + 2] + text[at] + text[at + 2:]


# ---------------------------------------------------------------------------------- pieces


def known_cuts(tokenizer: WordPieceTokenizer) -> list[list[tuple[int, int]]]:
    """For every piece the pairs of known pieces that it can be cut into."""
    known = {piece: i for i, piece in enumerate(tokenizer.vocabulary())
             if i not in tokenizer.special_ids}
    cuts: list[list[tuple[int, int]]] = [[] for _ in range(len(tokenizer))]
    for piece, i in known.items():
        inside = piece.startswith("##")
        cuts[i] = [(known[piece[:at]], known["##" + piece[at:]])
                   for at in range(3 if inside else 1, len(piece))
                   if piece[:at] in known and "##" + piece[at:] in known]
    return cuts


class Augmentation:
    """How lines are changed for every reading; all shares are of lines or of pieces.

    행복했다 in one piece and 행복 ##했다 mean the same; who meets both learns it from fewer lines.
    """

    def __init__(self, tokenizer: WordPieceTokenizer, longest: int, noise: float = 0.0,
                 subword: float = 0.0, dropout: float = 0.0) -> None:
        self.tokenizer, self.longest = tokenizer, longest
        self.noise, self.subword, self.dropout = noise, subword, dropout
        self.cuts = known_cuts(tokenizer) if subword else []

    def read(self, texts: Sequence[str],
             rng: np.random.Generator) -> tuple[list[list[int]], np.ndarray]:
        """The pieces of every line and how many they are in a frame of [CLS] and [SEP]: known
        before lines of one length are put together, so that almost nothing is padding."""
        is_changed = (rng.random(len(texts)) < self.noise).tolist()
        written = [text_noise(text, rng) if changed else text
                   for text, changed in zip(texts, is_changed, strict=True)]
        rows = [ids or [self.tokenizer.unk_id] for ids in self.tokenizer.encode_ids(written)]
        rows = [self.cut(ids, rng)[:self.longest - 2] for ids in rows]
        return rows, np.array([len(row) + 2 for row in rows])

    def cut(self, ids: list[int], rng: np.random.Generator) -> list[int]:
        """Some of the pieces cut in two known ones."""
        if not self.subword:
            return ids
        pieces: list[int] = []
        for i, chance in zip(ids, rng.random(len(ids)).tolist(), strict=True):
            cuts = self.cuts[i]
            if chance < self.subword and cuts:
                pieces += cuts[int(chance / self.subword * len(cuts))]
            else:
                pieces.append(i)
        return pieces

    def drop_tokens(self, ids: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Some of the pieces behind [MASK]."""
        if not self.dropout:
            return ids
        is_dropped = rng.random(ids.shape) < self.dropout
        is_special = np.isin(ids, self.tokenizer.special_ids)
        return np.where(is_dropped & ~is_special, self.tokenizer.mask_id, ids)
