"""The same feeling in other words: more labelled lines from those at hand.

`refill` masks words and lets the pre-trained model fill them in again (with the shipped one it
costs more than it gives, see the model card); `vary` changes how a line is written: a lost space, a
typo, another case, a trailing ㅋㅋ; `Resplit` cuts its words into other pieces; `Rewritten` does
both anew for every epoch.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from bert.checkpoint import Checkpoint
from bert.corpus import LabelledLine, batches_by_length
from bert.pairs import Masking
from bert.tokenizer import WordPieceTokenizer


@torch.inference_mode()
def refill(lines: Sequence[LabelledLine], checkpoint: Checkpoint, rate: float = 0.15,
           seed: int = 0, choices: int = 10, batch_tokens: int = 4_096) -> list[LabelledLine]:
    """A copy of each line in which whole words were masked and drawn anew from the model's
    `choices` best guesses; lines that come out unchanged are left out."""
    if not checkpoint.has_mlm:
        raise ValueError(f"{checkpoint.folder} has no masked-language-model head: give a "
                         "checkpoint made by bert.pretrain")
    tokenizer, masking = checkpoint.tokenizer, Masking(checkpoint.tokenizer)
    draw = np.random.default_rng(seed)
    generator = torch.Generator().manual_seed(seed)
    longest = checkpoint.config.max_position_embeddings - 2
    rows = [ids[:longest] for ids in tokenizer.encode_ids([line.text for line in lines])]
    lengths = np.array([len(row) + 2 for row in rows])
    filled: dict[int, LabelledLine] = {}
    for chosen in batches_by_length(lengths, batch_tokens, draw):
        ids, is_token = tokenizer.frame([rows[i] for i in chosen])
        _, is_masked = masking(ids, is_token, draw, rate, whole_word=True)
        hidden = np.where(is_masked, tokenizer.mask_id, ids)
        places = torch.from_numpy(is_masked)
        logits = checkpoint.model(torch.from_numpy(hidden), None, torch.from_numpy(is_token),
                                  predict_at=places, lean=True).mlm_logits   # (M, V)
        logits[:, list(tokenizer.special_ids)] = float("-inf")
        best = logits.topk(choices)
        picked = torch.multinomial(best.values.softmax(-1), 1, generator=generator)
        new = ids.copy()
        new[is_masked] = best.indices.gather(1, picked)[:, 0].numpy()
        for row, i in enumerate(chosen):
            if (new[row] != ids[row]).any():
                text = tokenizer.decode(new[row][is_token[row]])
                filled[int(i)] = replace(lines[i], text=text, pair="")
    return [filled[i] for i in sorted(filled)]


# ---------------------------------------------------------------------------------- other spellings

ENDINGS = ("ㅋㅋ", "ㅎㅎ", "ㅠㅠ", "ㅜㅜ", "!!", "!", "...", "~", "..", " ㅋㅋㅋ", "!!!", " !!")


def vary(text: str, draw: np.random.Generator) -> str:
    """One small change that leaves the feeling as it is."""
    change = draw.choice(4, p=(0.5, 0.2, 0.2, 0.1))
    if change == 0:
        return _move_a_space(text, draw)
    if change == 1:
        kept = text if draw.random() < 0.5 else text.rstrip(".!~ ")
        return kept + ENDINGS[draw.integers(len(ENDINGS))]
    if change == 2:
        return _mistype(text, draw)
    return text.upper() if draw.random() < 0.3 else text.lower().rstrip(".")


def _move_a_space(text: str, draw: np.random.Generator) -> str:
    """Join two words or many, or cut one in two."""
    words = text.split()
    place = int(draw.integers(len(words))) if words else 0
    if len(words) > 1 and draw.random() < 0.85:
        is_joined = np.arange(1, len(words)) == max(place, 1)
        if draw.random() < 0.4:
            is_joined |= draw.random(len(words) - 1) < 0.3
        spaces = ["", *("" if joined else " " for joined in is_joined)]
        return "".join(space + word for space, word in zip(spaces, words, strict=True))
    if words and len(words[place]) > 2:
        cut = int(draw.integers(1, len(words[place])))
        words[place:place + 1] = [words[place][:cut], words[place][cut:]]
    return " ".join(words)


def _mistype(text: str, draw: np.random.Generator) -> str:
    """Leave out, double or swap one letter of a word."""
    places = [i for i, letter in enumerate(text) if letter.isalpha()]
    if len(places) < 4:
        return text
    at = places[draw.integers(len(places) - 1)]
    kind = draw.integers(3)
    if kind == 0:
        return text[:at] + text[at + 1:]
    if kind == 1:
        return text[:at] + text[at] + text[at:]
    return text[:at] + text[at + 1:at + 2] + text[at] + text[at + 2:]


# ---------------------------------------------------------------------------------- other pieces


class Resplit:
    """The same words in other pieces: a share of the pieces is cut in two known ones.

    행복했다 in one piece and 행복 ##했다 mean the same; who meets both learns it from fewer lines.
    """

    def __init__(self, tokenizer: WordPieceTokenizer, share: float) -> None:
        self.share = share
        known = {piece: i for i, piece in enumerate(tokenizer.vocabulary())
                 if i not in tokenizer.special_ids}
        self.cuts: list[list[tuple[int, int]]] = [[] for _ in range(len(tokenizer))]
        for piece, i in known.items():
            inside = piece.startswith("##")
            self.cuts[i] = [(known[piece[:at]], known["##" + piece[at:]])
                            for at in range(3 if inside else 1, len(piece))
                            if piece[:at] in known and "##" + piece[at:] in known]

    def __call__(self, ids: list[int], draw: np.random.Generator) -> list[int]:
        if not self.share:
            return ids
        pieces: list[int] = []
        for i, chance in zip(ids, draw.random(len(ids)).tolist(), strict=True):
            cuts = self.cuts[i]
            if chance < self.share and cuts:
                pieces += cuts[int(chance / self.share * len(cuts))]
            else:
                pieces.append(i)
        return pieces


class Rewritten:
    """Lines as pieces, written a little differently for every reading: a share of the lines by
    `vary`, a share of their pieces by `Resplit`."""

    def __init__(self, texts: Sequence[str], tokenizer: WordPieceTokenizer, longest: int,
                 varied: float, resplit: float) -> None:
        self.texts, self.tokenizer = texts, tokenizer
        self.longest, self.varied = longest, varied
        self.resplit = Resplit(tokenizer, resplit)
        self.ids = self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [ids[:self.longest - 2] for ids in self.tokenizer.encode_ids(list(texts))]

    def read(self, draw: np.random.Generator) -> tuple[list[list[int]], np.ndarray]:
        """The pieces of every line and how many they are in a frame of [CLS] and [SEP]: known
        before lines of one length are put together, so that almost nothing is padding."""
        rows = list(self.ids)
        changed = np.flatnonzero(draw.random(len(rows)) < self.varied)
        texts = [vary(self.texts[place], draw) for place in changed]
        for place, ids in zip(changed, self._encode(texts) if texts else [], strict=True):
            rows[place] = ids or rows[place]
        rows = [self.resplit(ids, draw)[:self.longest - 2] for ids in rows]
        return rows, np.array([len(row) + 2 for row in rows])
