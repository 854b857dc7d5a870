"""What a browser tells of a visit, and what it gets for a text."""

import json
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bert.classifier import EmotionClassifier, Prediction
from bert.drawing.texts import Language, speaks_of_self_harm
from bert.errors import UserError
from bert.explain.relevance import Attribution, attribute
from bert.explain.saliency import gradients, importance
from bert.explain.target import Target
from bert.explain.value_weighted import norms
from bert.page.answer import answer_data
from bert.page.replies import Reply, escape, reply, reply_without_classifier
from bert.studies.base import LONGEST, class_list

MOST_TEXTS = 200   # of a conversation
MOST_LETTERS = 100_000  # of all its texts together: a request holds them twice
REPLAYED = 12      # answers that are given again after a reload
RELOAD = ("The page sent something that cannot be read: reload it. "
          "페이지를 새로 고쳐 주세요.")
Chat = list[dict[str, Any]]  # messages of gr.Chatbot


class Visit(BaseModel):
    """The conversation so far, which of its texts is on show, and the language of the page."""

    model_config = ConfigDict(frozen=True)
    texts: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=MOST_TEXTS)
                     ] = []
    current: int | None = None
    lang: Language = "en"
    text: str | None = None   # a text that is said now, from a card or a link
    is_new: bool = False      # the text on show was just sent and waits for its reply
    taught: str = ""          # the copy that the visitor talks to; the model itself without one

    @classmethod
    def read(cls, given: Any) -> "Visit":
        try:
            return cls.model_validate_json(given if isinstance(given, str) and given else "{}")
        except ValidationError:
            raise UserError(RELOAD) from None

    @property
    def shown(self) -> int:
        """The number of the text on show; the last one unless another was chosen."""
        last = len(self.texts) - 1
        return last if self.current is None or not 0 <= self.current <= last else self.current

    def saying(self, text: str) -> "Visit":
        """The visit with one more text, which is on show; the oldest make room for it."""
        texts = [*self.texts[-(MOST_TEXTS - 1):], text]
        while sum(map(len, texts)) > MOST_LETTERS:
            del texts[0]
        return self.model_copy(update={"texts": texts, "current": len(texts) - 1, "text": None})

    def choosing(self, chat: Chat, number: int) -> "Visit":
        """The visit with the text of a bubble on show; the chat may begin later than the visit."""
        is_text = [message["role"] == "user" for message in chat]
        current = len(self.texts) - sum(is_text) + sum(is_text[:number + 1]) - 1
        return self.model_copy(update={"current": current})


def read(classifier: EmotionClassifier, text: str) -> Prediction:
    """One forward pass with all attention; without a classifier there are no probabilities."""
    if classifier.checkpoint.has_classifier:
        return classifier(text)
    encoding, attentions = classifier.attentions(text)
    return Prediction(encoding, (), np.zeros(0, dtype=np.float32), False, attentions)


@lru_cache(maxsize=8)  # reads the weights for their hash
def describe(classifier: EmotionClassifier) -> dict[str, Any]:
    """What the page says of the checkpoint."""
    checkpoint = classifier.checkpoint
    keys = classifier.keys if checkpoint.has_classifier else ()
    return {"name": checkpoint.name, "hash": checkpoint.digest(),
            "classes": class_list(keys), "has_classifier": checkpoint.has_classifier,
            "threshold": classifier.config.confidence_threshold,
            "limit": classifier.config.max_position_embeddings}


def read_with_head(classifier: EmotionClassifier,
                   text: str) -> tuple[Prediction, tuple[int, int]]:
    """The answer, and the layer and head, from 1, whose attention weights carry most of its margin
    (Michel et al. 2019), from one pass forward and backward; without a classifier the last layer's
    first head."""
    if not classifier.checkpoint.has_classifier:
        return read(classifier, text), (classifier.config.num_hidden_layers, 1)
    found = gradients(classifier, text,
                      lambda logits: Target(int(logits.argmax())).margin(logits))
    weight = importance(found)                                                       # (L, H)
    layer, head = np.unravel_index(int(weight.argmax()), weight.shape)
    probabilities = torch.from_numpy(found.logits).softmax(dim=-1).numpy()
    is_confident = bool(probabilities.max() >= classifier.config.confidence_threshold)
    return (Prediction(found.encoding, classifier.keys, probabilities, is_confident,
                       found.attentions), (int(layer) + 1, int(head) + 1))


def answer_data_of(classifier: EmotionClassifier, text: str) -> dict[str, Any]:
    """What the browser draws of one text."""
    prediction, head = read_with_head(classifier, text)
    return {**answer_data(prediction.encoding, prediction.weights),
            "model": describe(classifier), "probabilities": prediction.probabilities.tolist(),
            "confident": prediction.confident, "matters": head,
            "care": speaks_of_self_harm(prediction.text)}


def answer(classifier: EmotionClassifier, visit: Visit) -> str:
    """The value of Bars: what the browser draws of the text on show, and the conversation."""
    if not visit.texts:
        return ""
    return json.dumps({"messages": visit.texts, "current": visit.shown,
                       "answer": answer_data_of(classifier, visit.texts[visit.shown])},
                      ensure_ascii=False)


def explained(classifier: EmotionClassifier, text: str,
              language: Language) -> tuple[Reply, Attribution | None]:
    """The reply of the chat, and how much each piece speaks for the leading class."""
    prediction, head = read_with_head(classifier, text)
    if not classifier.checkpoint.has_classifier:
        return reply_without_classifier(prediction.encoding, language), None
    found = attribute(classifier, text, prediction.label)
    return reply(prediction, found, language, head), found


def colour_words(classifier: EmotionClassifier, visit: Visit) -> str:
    """The value of Strip for the text on show."""
    if not visit.texts or not classifier.checkpoint.has_classifier:
        return ""
    text = visit.texts[visit.shown]
    return strip_value(text, attribute(classifier, text, classifier(text).label))


def strip_value(text: str, found: Attribution | None) -> str:
    """The value of Strip."""
    return "" if found is None else json.dumps(
        {"text": text, "key": found.key, "values": found.values.tolist()}, ensure_ascii=False)


def said(text: str) -> dict[str, Any]:
    """The visitor's bubble: the text as it was typed."""
    return {"role": "user", "content": "\n".join(map(escape, text.splitlines()))}


def answered(found: Reply) -> dict[str, Any]:
    """The bubble of the answer, with questions to click; what each opens is its value."""
    options = [{"label": follow.label, "value": json.dumps(
        {"text": follow.text} if follow.text is not None
        else {"tab": follow.tab, **follow.options}, ensure_ascii=False)}
        for follow in found.follow_ups]
    return {"role": "assistant", "content": found.sentence, "options": options}


def conversation(classifier: EmotionClassifier, visit: Visit) -> tuple[Chat, str]:
    """The whole chat again, in the language of the visit: its last texts with their answers, and
    the value of Strip for the text on show."""
    chat: Chat = []
    coloured = None
    for number in range(len(visit.texts))[-REPLAYED:]:
        text = visit.texts[number]
        found, attribution = explained(classifier, text, visit.lang)
        chat += [said(text), answered(found)]
        if number == visit.shown:
            coloured = strip_value(text, attribution)
    return chat, colour_words(classifier, visit) if coloured is None else coloured


def moved_shares(classifier: EmotionClassifier, text: str) -> np.ndarray:
    """How much each look moves, ‖α f(x)‖, as a share of the largest: (L, H, T, T)."""
    found = norms(classifier, classifier.run_with_cache(text))
    return found / max(float(found.max()), 1e-12)
