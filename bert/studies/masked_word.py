"""Fill the blank: words become [MASK], and the pre-trained network guesses what stood there."""

import re
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import Language, say
from bert.errors import UserError
from bert.explain.attention import is_special
from bert.explain.masked_words import (
    best_pieces,
    easiest_word,
    guess_pieces,
    mask_words,
    truth_at,
    words_of,
)
from bert.model import BertForPreTraining
from bert.studies.base import Study, StudyContext, StudyOptions
from bert.tokenizer import MASK, Encoding, WordPieceTokenizer

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

CANDIDATES = 10
DRAWS = 24         # maskings that are sent along: the next one asks nobody
MASK_RATE = 0.15   # of the pieces are masked in pre-training (BERT §3.1)
SHOWN_PLACES = 12  # blanks in the picture that leaves the page
NO_MLM = ("The pre-trained stage has no head for masked words: put one saved with "
          "BertForPreTraining beside this checkpoint. "
          "사전 학습 단계에 빈칸을 맞히는 출력층이 없어요.")
OTHER, TRUTH = "#b8c1d9", "#0b7d8a"


class MaskedWordOptions(StudyOptions):
    masked: str = ""  # "2.5" for the third and the sixth word

    def chosen(self, encoding: Encoding) -> list[int]:
        """The words to mask, of those that the text has."""
        count = len(words_of(encoding))
        is_list = re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})*", self.masked)
        words = sorted({int(word) for word in self.masked.split(".")} if is_list else ())
        return [word for word in words if word < count]


class Word(TypedDict):
    name: str
    places: list[int]


class Blank(TypedDict):
    """One mask: what stood there (None if it was typed), and the best guesses."""

    place: int
    piece: str | None
    rank: int | None
    probability: float | None
    best: list[tuple[str, float]]


class Masked(TypedDict):
    """A piece that a masking of pre-training drew."""

    place: int
    became: str | None


class MaskedWordData(TypedDict):
    words: list[Word]
    chosen: list[int]
    pieces: list[str]
    special: list[bool]
    truncated: bool
    vocabulary: int
    blanks: list[Blank]
    draws: list[list[Masked]]


def run(context: StudyContext, text: str, options: MaskedWordOptions) -> MaskedWordData:
    network = context.pretrained
    if not isinstance(network.model, BertForPreTraining):
        raise UserError(NO_MLM)
    tokenizer = network.tokenizer
    encoding = network.encode(text)
    chosen = options.chosen(encoding)
    if not chosen and tokenizer.mask_id not in encoding.ids:
        chosen = [easiest_word(network.bert, network.model.mlm, encoding, tokenizer.mask_id)]
    ids, places = mask_words(encoding, chosen, tokenizer.mask_id)
    found = guess_pieces(network.bert, network.model.mlm, ids, places)               # (M, V)
    blanks: list[Blank] = []
    for place, probabilities in zip(places, found, strict=True):
        truth = truth_at(encoding, place, probabilities, tokenizer)
        blanks.append({"place": place, "piece": truth.piece, "rank": truth.rank,
                       "probability": truth.probability,
                       "best": best_pieces(tokenizer, probabilities, CANDIDATES)})
    return {"words": [{"name": name, "places": at} for name, at in words_of(encoding)],
            "chosen": chosen, "pieces": encoding.pieces, "special": is_special(encoding),
            "truncated": encoding.truncated, "vocabulary": len(tokenizer), "blanks": blanks,
            "draws": draws_of(tokenizer, encoding)}


def draws_of(tokenizer: WordPieceTokenizer, encoding: Encoding) -> list[list[Masked]]:
    """What pre-training would mask of this text, drawn several times."""
    from bert.training.masking import Masking  # code of the training, only where it is shown
    masking = Masking(tokenizer)
    ids = np.array([encoding.ids])
    draws: list[list[Masked]] = []
    for seed in range(DRAWS):
        masked, is_masked = masking(ids, np.ones_like(ids, dtype=bool),
                                    np.random.default_rng(seed), MASK_RATE)
        draws.append([{"place": int(place), "became": tokenizer.backend.id_to_token(
            int(masked[0, place]))} for place in np.flatnonzero(is_masked[0])])
    return draws


def table(data: MaskedWordData) -> list[list[Any]]:
    rows: list[list[Any]] = [["place", "stood there", "rank", "candidate", "probability"]]
    for blank in data["blanks"]:
        if blank["rank"] is not None:
            rows.append([blank["place"], blank["piece"], blank["rank"], blank["piece"],
                         blank["probability"]])
        rows += [[blank["place"], blank["piece"], rank, piece, probability]
                 for rank, (piece, probability) in enumerate(blank["best"], 1)
                 if piece != blank["piece"]]
    return rows


def draw(data: MaskedWordData, language: Language) -> "Figure":
    from bert.drawing.figures import drawable, new_figure, wrapped
    blanks = data["blanks"][:SHOWN_PLACES]
    columns = min(3, len(blanks))
    rows = -(-len(blanks) // columns)
    figure = new_figure(max(8, 4 * columns), 3.2 * rows + 1.1)
    tall = figure.get_figheight()
    masked = {blank["place"] for blank in data["blanks"]}
    reading = " ".join(MASK if place in masked else piece
                       for place, piece in enumerate(data["pieces"]))
    for i, line in enumerate(wrapped(reading, 34 * columns + 30)[:3]):
        figure.text(0.02, 1 - (0.3 + 0.22 * i) / tall, line, fontsize=10, parse_math=False)
    for i, blank in enumerate(blanks):
        axes = figure.add_axes(((i % columns + 0.3) / columns,
                                1 - (1.4 + 3.2 * (i // columns) + 2.3) / tall,
                                0.6 / columns, 2.3 / tall))
        places = range(len(blank["best"]))
        axes.barh(places, [100 * probability for _, probability in blank["best"]], color=[
            TRUTH if piece == blank["piece"] else OTHER for piece, _ in blank["best"]])
        axes.set_yticks(places, [drawable(piece, 14) for piece, _ in blank["best"]],
                        parse_math=False)
        axes.invert_yaxis()
        axes.set(xlim=(0, 100), xlabel="%")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(drawable(truth_text(blank, language), 60), fontsize=9, parse_math=False)
    return figure


def truth_text(blank: Blank, language: str) -> str:
    """What stood behind a mask, as the page says it."""
    if blank["piece"] is None:
        return say(language, "masked_word_typed")
    if blank["rank"] is None or blank["probability"] is None:
        return say(language, "masked_word_unknown", piece=blank["piece"])
    return say(language, "masked_word_truth", piece=blank["piece"], rank=f"{blank['rank']:,}",
               percent=f"{100 * blank['probability']:.3g} %")


STUDY = Study("masked_word", MaskedWordOptions, run, draw, table)
