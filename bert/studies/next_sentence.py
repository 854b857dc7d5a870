"""Next sentence: the second task of pre-training. Does a second text follow the first?"""

import re
from typing import TYPE_CHECKING, Any, TypedDict

import torch

from bert.drawing.texts import Language, say
from bert.errors import UserError
from bert.explain.attention import is_special
from bert.model import BertForPreTraining
from bert.studies.base import Numbers, Study, StudyContext, StudyOptions, Text

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

NO_NSP = ("The pre-trained stage has no head for the next sentence: it was trained without that "
          "task. 사전 학습 단계에 다음 문장을 판단하는 출력층이 없어요.")
FIRST, SECOND, RANDOM = "#3a4ea8", "#0b7d8a", "#b8c1d9"


class NextSentenceOptions(StudyOptions):
    second: Text = ""


class NextSentenceData(TypedDict):
    second: str
    examples: dict[str, str]   # second texts to try
    pieces: list[str]
    segments: list[int]
    special: list[bool]
    truncated: bool
    probabilities: Numbers     # (2,): follows, random


def examples_for(text: str) -> dict[str, str]:
    """Second texts to try, in the language of the first."""
    language = "ko" if re.search("[가-힣]", text) else "en"
    return {"follows": say(language, "next_sentence_follows_text"),
            "random": say(language, "next_sentence_random_text"), "same": text.strip()}


@torch.inference_mode()
def run(context: StudyContext, text: str, options: NextSentenceOptions) -> NextSentenceData:
    network = context.pretrained
    model = network.model
    if (not isinstance(model, BertForPreTraining) or not network.checkpoint.has_nsp
            or network.config.type_vocab_size < 2):
        raise UserError(NO_NSP)
    network.encode(text)  # an empty first text is refused as everywhere
    examples = examples_for(text)
    second = options.second
    if len(network.tokenizer.encode(second).ids) == 2:  # nothing between [CLS] and [SEP]
        second = examples["random"]
    encoding = network.encode(text, second)
    output = model.bert(torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids]),
                        need_weights=False)
    return {"second": second, "examples": examples, "pieces": encoding.pieces,
            "segments": encoding.segment_ids, "special": is_special(encoding),
            "truncated": encoding.truncated,
            "probabilities": model.nsp(output.pooled)[0].softmax(dim=-1).numpy()}


def table(data: NextSentenceData) -> list[list[Any]]:
    return [["follows", "random"], [*data["probabilities"]], [], ["piece", "segment"],
            *([piece, "AB"[segment]] for piece, segment in
              zip(data["pieces"], data["segments"], strict=True))]


def draw(data: NextSentenceData, language: Language) -> "Figure":
    from bert.drawing.figures import drawable, new_figure, wrapped
    figure = new_figure(9, 4.2)
    figure.suptitle(say(language, "study_next_sentence"), fontsize=13)
    down = 0.84
    for segment, colour in ((0, FIRST), (1, SECOND)):
        reading = " ".join(piece for piece, own in zip(data["pieces"], data["segments"],
                                                       strict=True) if own == segment)
        for line in wrapped(reading, 105)[:4]:
            figure.text(0.04, down, line, color=colour, fontsize=10, parse_math=False)
            down -= 0.06
    axes = figure.add_axes((0.24, 0.12, 0.66, 0.22))
    shares = [100 * probability for probability in data["probabilities"]]
    axes.barh((0, 1), shares, color=(SECOND, RANDOM))
    for row, share in enumerate(shares):
        axes.text(min(share + 1, 101), row, f"{share:.1f} %", va="center", fontsize=9)
    axes.set_yticks((0, 1), [drawable(say(language, "next_sentence_follows")),
                             drawable(say(language, "next_sentence_random"))])
    axes.invert_yaxis()
    axes.set(xlim=(0, 112), xticks=range(0, 101, 25), xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


STUDY = Study("next_sentence", NextSentenceOptions, run, draw, table)
