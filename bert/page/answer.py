"""One answer as the browser gets it: every attention matrix at 8 bits a value, and the figures that
need exact numbers (head tags, layer summaries, rollout) already computed."""

from typing import TypedDict

import numpy as np

from bert.explain.attention import (
    EndsData,
    TagData,
    first_and_last,
    head_tags,
    is_special,
    layer_summary,
    rollout,
)
from bert.studies.base import Matrix, PackedMatrix
from bert.tokenizer import Encoding


class Word(TypedDict):
    name: str
    places: list[int]


class LayerTag(TypedDict):
    """The commonest tag of a layer and how many heads carry it."""

    name: str
    count: int


class AnswerData(TypedDict):
    """What assets/page/answer.js is made from."""

    text: str
    read: str                   # what of the text was read
    truncated: bool
    pieces: list[str]
    sources: list[str]          # the characters of each piece
    words: list[Word]
    special: list[bool]
    layers: int
    heads: int
    matrices: PackedMatrix      # (L·H + 1, T, T), the rollout last
    tags: list[list[TagData]]
    summaries: list[LayerTag]
    ends: EndsData


def answer_data(encoding: Encoding, attentions: np.ndarray) -> AnswerData:
    """Everything the browser needs to draw one text without asking again."""
    num_layers, num_heads, size, _ = attentions.shape
    tags = head_tags(encoding, attentions)
    matrices = np.concatenate([attentions.reshape(-1, size, size), rollout(attentions)[None]])
    summaries: list[LayerTag] = []
    for layer in tags:
        name, count = layer_summary(layer)
        summaries.append({"name": name, "count": count})
    text = encoding.texts[0]
    return {
        "text": text,
        "read": text[:max((end for _, end in encoding.offsets), default=0)],
        "truncated": encoding.truncated,
        "pieces": encoding.pieces,
        "sources": [text[start:end] for start, end in encoding.offsets],
        "words": [{"name": name, "places": places} for name, places in encoding.grouped()],
        "special": is_special(encoding),
        "layers": num_layers,
        "heads": num_heads,
        "matrices": Matrix(matrices, "weights").pack(),
        "tags": [[tag.to_dict() for tag in layer] for layer in tags],
        "summaries": summaries,
        "ends": first_and_last(encoding, attentions),
    }
