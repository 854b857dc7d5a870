"""What the chat answers: the feeling, how sure, and why, in one or two sentences; what to ask next.

    Reply.sentence   Markdown and HTML, for gr.Chatbot; words of the visitor are escaped
    Reply.plain      the same without markup, for screen readers and files

The phrasing depends on the text alone: the same text is always answered with the same words.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from bert.classifier import Prediction
from bert.drawing.texts import Language, say, speaks_of_self_harm, texts
from bert.emotions import EMOTIONS, class_colour
from bert.explain.relevance import Attribution
from bert.explain.words import sum_to_words, text_words
from bert.tokenizer import Encoding

SURE = 0.85         # a probability that needs no "probably"
FAINT = 0.25        # a largest probability below this is no feeling worth a reason
MIXED = 0.25        # a second class as large as this is named
TORN = 0.6          # together: below it the two are only the first of many
NAMED = 0.5         # of the strongest word: a second one as strong as this is named
CLEAR = 0.5         # of all that speaks for the class: enough for "mostly because of"
LONGEST_WORD = 24   # characters of a word that are quoted
SHOWN_END = 12      # characters of a cut text that say where it was cut
AROUND = ".,!?;:…~\"'“”‘’"  # punctuation around a word that is not quoted with it
# Marks that turn the direction of what follows; a quoted word must not do that to our sentence.
DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]")
# Whatever HTML, Markdown, KaTeX, a template or an automatic link could take for its own.
MARKUP = re.compile(r"[!-/:-@\[-`{-~]")

Values = dict[str, str]  # what fills the gaps of a string
Quote = Callable[[str], str]


@dataclass(frozen=True)
class FollowUp:
    """A question to click. It opens a view on this text or, with `text`, sends a new message."""

    key: str
    label: str                  # plain text
    tab: str = ""
    options: dict[str, str | int] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True)
class Reply:
    sentence: str
    plain: str
    follow_ups: list[FollowUp]
    colour: str | None = None   # of the class that leads


@dataclass(frozen=True)
class Reasons:
    """The words that speak most for a class, and whether they are most of what does."""

    words: list[str]
    spans: list[tuple[int, int]]   # where they stand in the text
    are_most: bool


def reply(prediction: Prediction, attribution: Attribution | None, language: Language,
          head: tuple[int, int] | None = None) -> Reply:
    """The answer to a text. The attribution is that of the leading class; `head` is the layer and
    head that matter most, from 1. Without them there is no reason, and fewer questions."""
    encoding, kind = prediction.encoding, kind_of(prediction)
    reasons = None
    # Whoever speaks of self-harm is not told which of their words weighed most.
    if attribution is not None and kind != "none" and not speaks_of_self_harm(prediction.text):
        reasons = find_reasons(attribution)
    versions = [_answer(prediction, kind, reasons, language, name, quote)
                for name, quote in ((_coloured, _quoted), (_bare, _quoted_plainly))]
    marked, plain = (_with_notes(answer, encoding, language, escaped)
                     for answer, escaped in zip(versions, (True, False), strict=True))
    best = int(prediction.probabilities.argmax())
    return Reply(marked, plain, _follow_ups(encoding, kind, reasons, language, head),
                 class_colour(prediction.keys[best], best))


def reply_without_classifier(encoding: Encoding, language: Language) -> Reply:
    """The answer of a checkpoint that knows no feelings."""
    answer = say(language, "no_classifier_answer")
    return Reply(_with_notes(answer, encoding, language, True),
                 _with_notes(answer, encoding, language, False), [])


def kind_of(prediction: Prediction) -> str:
    """How the model answers: sure, likely or mixed if it commits itself, else torn, unsure or none.
    """
    shares = [share for _, share in prediction.ranked()]
    first, second = shares[0], shares[1] if len(shares) > 1 else 0.0
    if not prediction.confident and first < FAINT:
        return "none"
    if not prediction.confident:
        return "torn" if second >= MIXED and first + second >= TORN else "unsure"
    if second >= MIXED:
        return "mixed"
    return "sure" if first >= SURE else "likely"


def find_reasons(attribution: Attribution) -> Reasons:
    """At most two different words that speak for the class; none if no word does."""
    encoding = attribution.encoding
    found = text_words(encoding)
    values = sum_to_words(encoding, attribution.values)                              # (W,)
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    held = 0.0
    for i in sorted(range(len(found)), key=lambda i: -values[i]):
        name, places = found[i]
        word = core(name)
        is_new = word.lower() not in [other.lower() for other in words]
        if values[i] <= 0 or len(words) == 2 or values[i] < NAMED * values.max():
            break
        if is_new:
            words.append(word)
            spans.append((encoding.offsets[places[0]][0], encoding.offsets[places[-1]][1]))
        held += float(values[i])
    return Reasons(words, spans, held >= CLEAR * float(values[values > 0].sum()))


def core(word: str) -> str:
    """A word without the punctuation around it, cut if it is long: “exam!” -> exam."""
    word = DIRECTIONS.sub("", word)
    word = word.strip(AROUND) or word
    return word if len(word) <= LONGEST_WORD else word[:LONGEST_WORD] + "…"


def escape(text: str) -> str:
    """A text that is shown as it was typed: every ASCII sign as an HTML entity, line breaks as
    spaces."""
    text = " ".join(text.split())
    return MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", text)


# ---------------------------------------------------------------------------------- sentences


def _answer(prediction: Prediction, kind: str, reasons: Reasons | None, language: Language,
            name: Callable[[str, int, Language], str], quote: Quote) -> str:
    order = [prediction.keys.index(key) for key, _ in prediction.ranked()[:2]]
    first, second = order[0], order[-1]
    named = {"name": name(prediction.keys[first], first, language),
             "percent": _percent(prediction.probabilities[first], language),
             "second": name(prediction.keys[second], second, language),
             "second_percent": _percent(prediction.probabilities[second], language)}
    return (_phrase(language, f"reply_{kind}", prediction.text, named)
            + _reason(kind, reasons, language, prediction.text, named, quote))


def _reason(kind: str, reasons: Reasons | None, language: Language, text: str, named: Values,
            quote: Quote) -> str:
    if reasons is None:
        return "."
    if not reasons.words:
        return "." if kind == "unsure" else _phrase(language, "reply_whole", text, named)
    quoted = [say(language, "reply_word", word=quote(word)) for word in reasons.words]
    if kind == "unsure":
        return _phrase(language, "reply_hint", text, {"words": quoted[0]})
    words = (quoted[0] if len(quoted) == 1
             else say(language, "reply_two_words", first=quoted[0], second=quoted[1]))
    why = {"torn": "pull", "mixed": "pull"}.get(kind, "because" if reasons.are_most else "spread")
    return _phrase(language, f"reply_{why}", text, {**named, "words": words})


def _phrase(language: Language, key: str, text: str, values: Values) -> str:
    """One of the phrasings key_1, key_2, …: always the same one for a text."""
    count = 1
    while f"{key}_{count + 1}" in texts()[language]:
        count += 1
    chosen = zlib.crc32(f"{key} {text}".encode()) % count + 1
    return say(language, f"{key}_{chosen}", **values)


def _percent(share: float, language: Language) -> str:
    return say(language, "reply_over") if share > 0.995 else f"{100 * share:.0f}\u00a0%"


def _bare(key: str, place: int, language: Language) -> str:
    """A class inside a sentence; one that is not ours is called by its key."""
    for emotion in EMOTIONS:
        if emotion.key == key:
            return emotion.korean if language == "ko" else emotion.english.lower()
    return key


def _coloured(key: str, place: int, language: Language) -> str:
    """The line below has the colour, not the letters: those must be readable on any ground."""
    return (f'<strong class="feeling" style="border-bottom: 3px solid '
            f'{class_colour(key, place)}">{escape(_bare(key, place, language))}</strong>')


def _quoted(word: str) -> str:
    return f'<bdi class="word">{escape(word)}</bdi>'


def _quoted_plainly(word: str) -> str:
    word = " ".join(word.split())
    return f"\u2068{word}\u2069" if RIGHT_TO_LEFT.search(word) else word


def _with_notes(answer: str, encoding: Encoding, language: Language, escaped: bool) -> str:
    """The answer in a paragraph of its own; before it where help is, after it what was not read."""
    text = encoding.texts[0]
    paragraphs = [say(language, "care")] if speaks_of_self_harm(text) else []
    paragraphs.append(answer)
    if encoding.truncated:
        read = text[:max(end for _, end in encoding.offsets)]
        end = DIRECTIONS.sub("", read)[-SHOWN_END:]
        paragraphs.append(say(language, "truncated", pieces=len(encoding.pieces),
                              end=escape(end) if escaped else _quoted_plainly(end)))
    return "\n\n".join(paragraphs)


# ---------------------------------------------------------------------------------- follow-ups


def _follow_ups(encoding: Encoding, kind: str, reasons: Reasons | None, language: Language,
                head: tuple[int, int] | None) -> list[FollowUp]:
    layer_key = "follow_layer_unsure" if kind in ("torn", "unsure", "none") else "follow_layer"
    found = [FollowUp("layer", say(language, layer_key), "lens")]
    if head is not None:
        found.append(FollowUp("head", say(language, "follow_head"), "attention",
                              {"layer": head[0], "head": head[1]}))
    if reasons is not None and reasons.words:
        rest = without(encoding.texts[0], reasons.spans[0])
        if rest:
            found.append(FollowUp("without", say(
                language, "follow_without", word=_quoted_plainly(reasons.words[0])), text=rest))
        found.append(FollowUp("trial", say(language, "follow_trial"), "trial"))
    return found


def without(text: str, span: tuple[int, int]) -> str:
    """A text without the characters of a word, and without the gap that this leaves."""
    before, after = text[:span[0]].rstrip(), text[span[1]:].lstrip()
    return f"{before} {after}".strip()
