"""The two tasks that taught the network before it knew feelings, to try on any text.

Blank   the masked language model: which piece stood behind [MASK]?
Next    the next-sentence task: does a second text follow the first?
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bert.lab import Lab, Options, Study
from bert.model import BertMLMHead, BertModel
from bert.texts import say
from bert.tokenizer import MASK, UNK, Encoding, WordPieceTokenizer
from bert.views import is_special

CANDIDATES = 10
DRAWS = 24         # draws of the masking that are sent along: the next one asks nobody
MASK_RATE = 0.15   # of the pieces are hidden in pre-training (BERT §3.1)
SHOWN_PLACES = 12  # blanks in the picture that leaves the page
NO_MLM = ("The pre-trained stage has no head for masked words: put one saved with "
          "BertForPreTraining beside this checkpoint. "
          "사전 학습 단계에 빈칸을 맞히는 출력층이 없어요.")
NO_NSP = ("The pre-trained stage has no head for the next sentence: it was trained without that "
          "task. 사전 학습 단계에 다음 문장을 판단하는 출력층이 없어요.")
INK, QUIET, TRUTH = "#3a4ea8", "#b8c1d9", "#0b7d8a"


# ---------------------------------------------------------------------------------- masked words


def words_of(encoding: Encoding) -> list[tuple[str, list[int]]]:
    """The words of a text with the places of their pieces, special tokens left out."""
    return [(name, places) for name, places in encoding.grouped()
            if encoding.word_ids[places[0]] is not None]


def middle_word(encoding: Encoding) -> int:
    return len(words_of(encoding)) // 2


def hide(encoding: Encoding, words: Sequence[int], mask_id: int) -> tuple[list[int], list[int]]:
    """The ids with every piece of some words masked, and the places of all masks, in order."""
    groups = words_of(encoding)
    ids = list(encoding.ids)
    for word in words:
        for place in groups[word][1]:
            ids[place] = mask_id
    return ids, [place for place, piece_id in enumerate(ids) if piece_id == mask_id]


@torch.inference_mode()
def guess(bert: BertModel, mlm: BertMLMHead, ids: Sequence[int],
          places: Sequence[int]) -> np.ndarray:
    """The probability of every piece of the vocabulary at some places: (M, V)."""
    hidden = bert(torch.tensor([ids]), lean=True).hidden[0, list(places)]            # (M, E)
    return mlm(hidden, bert.embeddings.word_embeddings.weight).softmax(dim=-1).numpy()


def best_pieces(tokenizer: WordPieceTokenizer, shares: np.ndarray, count: int) -> list[dict]:
    """The likeliest pieces of one place, best first."""
    order = np.argsort(-shares, kind="stable")[:count]
    return [{"piece": tokenizer.backend.id_to_token(int(i)) or UNK, "share": shares[i]}
            for i in order]


# ---------------------------------------------------------------------------------- fill the blank


def chosen_words(options: Options, encoding: Encoding, mask_id: int) -> list[int]:
    """The words to mask, "2.5" for the third and the sixth; else the middle one, unless the text
    has masks of its own."""
    count = len(words_of(encoding))
    wanted = re.fullmatch(r"\d{1,4}(\.\d{1,4})*", options.text("blank"))
    words = sorted({int(word) for word in wanted[0].split(".")} if wanted else ())
    words = [word for word in words if word < count]
    return words or ([] if mask_id in encoding.ids else [middle_word(encoding)])


def draws_of(tokenizer: WordPieceTokenizer, encoding: Encoding) -> list[list[dict]]:
    """What pre-training would hide of this text, drawn several times."""
    from bert.pairs import Masking  # code of the training, only where it is shown
    masking = Masking(tokenizer)
    ids = np.array([encoding.ids])
    draws = []
    for seed in range(DRAWS):
        masked, is_masked = masking(ids, np.ones_like(ids, dtype=bool),
                                    np.random.default_rng(seed), MASK_RATE)
        draws.append([{"place": int(place), "became": tokenizer.backend.id_to_token(
            int(masked[0, place]))} for place in np.flatnonzero(is_masked[0])])
    return draws


def run_blank(lab: Lab, text: str, options: Options) -> dict:
    stage = lab.pretrained
    if not stage.checkpoint.has_mlm:
        raise ValueError(NO_MLM)
    tokenizer = stage.tokenizer
    encoding = stage.encode(text)
    chosen = chosen_words(options, encoding, tokenizer.mask_id)
    ids, places = hide(encoding, chosen, tokenizer.mask_id)
    shares = guess(stage.model.bert, stage.model.mlm, ids, places)                   # (M, V)
    return {
        "words": [{"name": name, "places": at} for name, at in words_of(encoding)],
        "chosen": chosen, "pieces": encoding.pieces, "special": is_special(encoding),
        "truncated": encoding.truncated, "vocabulary": len(tokenizer),
        "blanks": [{"place": place, **stood_there(encoding, place, row, tokenizer),
                    "best": best_pieces(tokenizer, row, CANDIDATES)}
                   for place, row in zip(places, shares, strict=True)],
        "rate": MASK_RATE, "draws": draws_of(tokenizer, encoding)}


def stood_there(encoding: Encoding, place: int, shares: np.ndarray,
                tokenizer: WordPieceTokenizer) -> dict:
    """The piece behind a mask with its rank; nothing if the mask was typed, no rank if the
    vocabulary does not have the piece."""
    truth = encoding.ids[place]
    if truth == tokenizer.mask_id:
        return {"piece": None, "rank": None, "share": None}
    if truth == tokenizer.unk_id:
        return {"piece": encoding.pieces[place], "rank": None, "share": None}
    return {"piece": encoding.pieces[place], "share": shares[truth],
            "rank": int((shares > shares[truth]).sum()) + 1}


def blank_table(data: Mapping[str, Any]) -> list[list]:
    rows: list[list] = [["place", "stood there", "rank", "candidate", "probability"]]
    for blank in data["blanks"]:
        if blank["rank"] is not None:
            rows.append([blank["place"], blank["piece"], blank["rank"], blank["piece"],
                         blank["share"]])
        rows += [[blank["place"], blank["piece"], rank, best["piece"], best["share"]]
                 for rank, best in enumerate(blank["best"], 1) if best["piece"] != blank["piece"]]
    return rows


def draw_blank(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure, wrapped
    blanks = data["blanks"][:SHOWN_PLACES]
    columns = min(3, len(blanks))
    rows = -(-len(blanks) // columns)
    figure = new_figure(max(8, 4 * columns), 3.2 * rows + 1.1)
    tall = figure.get_figheight()
    hidden = {blank["place"] for blank in data["blanks"]}
    reading = " ".join(MASK if place in hidden else piece
                       for place, piece in enumerate(data["pieces"]))
    for i, line in enumerate(wrapped(reading, 34 * columns + 30)[:3]):
        figure.text(0.02, 1 - (0.3 + 0.22 * i) / tall, line, fontsize=10, parse_math=False)
    for i, blank in enumerate(blanks):
        axes = figure.add_axes(((i % columns + 0.3) / columns,
                                1 - (1.4 + 3.2 * (i // columns) + 2.3) / tall,
                                0.6 / columns, 2.3 / tall))
        shares = [100 * best["share"] for best in blank["best"]]
        axes.barh(range(len(shares)), shares, color=[
            TRUTH if best["piece"] == blank["piece"] else QUIET for best in blank["best"]])
        axes.set_yticks(range(len(shares)), [drawable(best["piece"], 14)
                                             for best in blank["best"]], parse_math=False)
        axes.invert_yaxis()
        axes.set(xlim=(0, 100), xlabel="%")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(drawable(truth_text(blank, language), 60), fontsize=9, parse_math=False)
    return figure


def truth_text(blank: Mapping[str, Any], language: str) -> str:
    """What stood behind a mask, as the page says it."""
    if blank["piece"] is None:
        return say(language, "blank_typed")
    if blank["rank"] is None:
        return say(language, "blank_unknown", piece=blank["piece"])
    return say(language, "blank_truth", piece=blank["piece"], rank=f"{blank['rank']:,}",
               percent=f"{100 * blank['share']:.3g} %")


# ---------------------------------------------------------------------------------- next sentence


def examples_for(text: str) -> dict[str, str]:
    """Second texts to try, in the language of the first."""
    language = "ko" if re.search("[가-힣]", text) else "en"
    return {"follows": say(language, "next_follows_text"),
            "random": say(language, "next_random_text"), "same": text.strip()}


@torch.inference_mode()
def run_next(lab: Lab, text: str, options: Options) -> dict:
    stage = lab.pretrained
    if not stage.checkpoint.has_nsp or stage.config.type_vocab_size < 2:
        raise ValueError(NO_NSP)
    stage.encode(text)  # an empty first text is refused as everywhere
    examples = examples_for(text)
    second = options.text("second")
    if len(stage.tokenizer.encode(second).ids) == 2:  # nothing between [CLS] and [SEP]
        second = examples["follows"]
    encoding = stage.encode(text, second)
    output = stage.model.bert(torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids]),
                              lean=True)
    return {"second": second, "examples": examples, "pieces": encoding.pieces,
            "segments": encoding.segment_ids, "special": is_special(encoding),
            "truncated": encoding.truncated,
            "shares": stage.model.nsp(output.pooled)[0].softmax(dim=-1).numpy()}


def next_table(data: Mapping[str, Any]) -> list[list]:
    follows, random = data["shares"]
    return [["follows", "random"], [follows, random], [], ["piece", "segment"],
            *([piece, "AB"[segment]] for piece, segment in
              zip(data["pieces"], data["segments"], strict=True))]


def draw_next(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure, wrapped
    figure = new_figure(9, 4.2)
    figure.suptitle(say(language, "study_next"), fontsize=13)
    down = 0.84
    for segment, colour in ((0, INK), (1, TRUTH)):
        reading = " ".join(piece for piece, own in zip(data["pieces"], data["segments"],
                                                       strict=True) if own == segment)
        for line in wrapped(reading, 105)[:4]:
            figure.text(0.04, down, line, color=colour, fontsize=10, parse_math=False)
            down -= 0.06
    axes = figure.add_axes((0.24, 0.12, 0.66, 0.22))
    shares = [100 * share for share in data["shares"]]
    axes.barh((0, 1), shares, color=(TRUTH, QUIET))
    for row, share in enumerate(shares):
        axes.text(min(share + 1, 101), row, f"{share:.1f} %", va="center", fontsize=9)
    axes.set_yticks((0, 1), [drawable(say(language, "next_follows")),
                             drawable(say(language, "next_random"))])
    axes.invert_yaxis()
    axes.set(xlim=(0, 112), xticks=range(0, 101, 25), xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


BLANK = Study("blank", run_blank, draw_blank, blank_table)
NEXT = Study("next", run_next, draw_next, next_table)
