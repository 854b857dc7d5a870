"""What the chat answers, with the shipped checkpoint and with classes that are not ours."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from bert.classifier import EmotionClassifier, Prediction
from bert.drawing.texts import LANGUAGES, say, texts
from bert.emotions import EMOTIONS, KEYS
from bert.explain.relevance import Attribution, attribute
from bert.page.replies import (
    core,
    escape,
    find_reasons,
    kind_of,
    reply,
    reply_without_classifier,
)
from bert.studies import STUDIES

EMOTION = Path(__file__).parents[2] / "checkpoints" / "emotion"
SURE = {"en": "I finally finished my thesis after four years of work",
        "ko": "석 달 만에 드디어 토익 900점을 넘겼다"}
FACTS = {"en": "the shop opens at nine", "ko": "가게는 아홉 시에 연다"}
HOSTILE = ("<img src=x onerror=alert(1)>", "${x}", "{{x}}", "**x**", "$\\foo$", "$$x$$", "`x`",
           "[x](javascript:alert(1))", "&lt;b&gt;", "http://x.com", "~~x~~", "x_y_z", "😀👍🏽",
           "שלום", "\u202emadam", "\u2067x", "슬픔이(가)", "{name}", "#x", "<", "a|b")


@pytest.fixture(scope="module")
def shipped() -> EmotionClassifier:
    return EmotionClassifier.load(EMOTION)


def with_shares(prediction: Prediction, confident: bool, **shares: float) -> Prediction:
    """The same text with another answer."""
    rest = (1 - sum(shares.values())) / (len(KEYS) - len(shares))
    return replace(prediction, confident=confident, probabilities=np.array(
        [shares.get(key, rest) for key in KEYS], dtype=np.float32))


def with_values(classifier: EmotionClassifier, text: str, *values: float) -> Attribution:
    """An attribution with one value for each word."""
    encoding = classifier.encode(text)
    spread = np.zeros(len(encoding.ids), dtype=np.float32)
    words = [places for _, places in encoding.grouped()[1:-1]]
    for places, value in zip(words, values, strict=True):
        spread[places[0]] = value
    return Attribution(encoding, KEYS[0], spread)


def shown(sentence: str) -> str:
    """What a browser shows of a sentence."""
    return unescape(re.sub("<[^>]*>", "", sentence))


def invisible_marks_out(text: str) -> str:
    return re.sub("[\u2068\u2069]", "", text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sure_answer_names_feeling_share_and_words(shipped, language):
    text = SURE[language]
    prediction = shipped(text)
    attribution = attribute(shipped, text, prediction.label)
    assert kind_of(prediction) == "sure" and prediction.label == "achievement"
    answer = reply(prediction, attribution, language)
    words = find_reasons(attribution).words
    assert 1 <= len(words) <= 2
    assert ("성취" if language == "ko" else "achievement") in answer.plain
    assert f"{100 * prediction.probabilities.max():.0f}\u00a0%" in answer.plain
    for word in words:
        assert say(language, "reply_word", word=word) in answer.plain
    assert shown(answer.sentence) == answer.plain
    assert answer.colour == EMOTIONS[0].colour and answer.colour in answer.sentence


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_without_feeling_is_answered_without_reason(shipped, language):
    text = FACTS[language]
    prediction = shipped(text)
    assert kind_of(prediction) == "none"
    answer = reply(prediction, attribute(shipped, text, prediction.label), language, (3, 5))
    assert not any(say(language, "reply_word", word=word) in answer.plain
                   for word in text.split())
    assert [question.key for question in answer.follow_ups] == ["layer", "head"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("kind", "confident", "shares"), [
    ("likely", True, {"joy": 0.7}), ("mixed", True, {"joy": 0.62, "anger": 0.3}),
    ("torn", False, {"joy": 0.45, "anger": 0.4}), ("unsure", False, {"joy": 0.5}),
    ("none", False, {"joy": 0.15})])
def test_each_kind_of_answer_has_words_of_its_own(shipped, language, kind, confident, shares):
    prediction = with_shares(shipped(SURE[language]), confident, **shares)
    assert kind_of(prediction) == kind
    answer = reply(prediction, None, language)
    strings = {key: value for key, value in texts()[language].items()
               if re.fullmatch(rf"reply_{kind}_\d", key)}
    names = {key: (item.korean if language == "ko" else item.english.lower())
             for key, item in zip(KEYS, EMOTIONS, strict=True)}
    percents = [f"{100 * share:.0f}\u00a0%" for share in shares.values()]
    possible = [say(language, key, name=names["joy"], percent=percents[0], second=names["anger"],
                    second_percent=percents[-1]) + "." for key in strings]
    assert len(possible) == 3 and answer.plain in possible


@pytest.mark.parametrize("language", LANGUAGES)
def test_when_no_word_speaks_for_the_class_it_is_said(shipped, language):
    text = "one two three"
    prediction = with_shares(shipped(text), True, joy=0.9)
    answer = reply(prediction, with_values(shipped, text, -1, -2, 0), language)
    assert any(answer.plain.endswith(say(language, f"reply_whole_{n}")) for n in (1, 2))
    assert "without" not in [question.key for question in answer.follow_ups]


def test_weaker_and_repeated_words_are_not_named(shipped):
    found = find_reasons(with_values(shipped, "good, very Good day", 3, 0.1, 2.9, 2))
    assert found.words == ["good", "day"] and found.are_most
    assert find_reasons(with_values(shipped, "a b c", 3, 1, 1)).words == ["a"]
    assert not find_reasons(with_values(shipped, "a b c d e", 1, .9, .9, .9, .9)).are_most


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_text_gets_the_same_words_and_others_get_others(shipped, language):
    said = set()
    for text in ("one", "two", "three", "four", "five", "six", "seven", "eight"):
        prediction = with_shares(shipped(text), True, joy=0.9)
        answer = reply(prediction, None, language)
        assert answer == reply(prediction, None, language)
        said.add(answer.plain)
    assert len(said) == 3


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("word", HOSTILE)
def test_words_of_the_visitor_are_shown_as_typed_and_do_nothing(shipped, language, word):
    text = f"{word} yes"
    prediction = with_shares(shipped(text), True, joy=0.9)
    attribution = with_values(shipped, text, *[9] * len(word.split()), 0)
    answer = reply(prediction, attribution, language)
    quoted = re.findall('<bdi class="word">(.*?)</bdi>', answer.sentence)
    assert quoted and not re.search(r"[!-/:-@\[-`{-~]", re.sub("&#[0-9]+;", "", "".join(quoted)))
    assert re.sub("<bdi.*?</bdi>|<strong.*?</strong>", "", answer.sentence).count("<") == 0
    assert shown(answer.sentence) == invisible_marks_out(answer.plain)
    assert [unescape(one) for one in quoted] == find_reasons(attribution).words


def test_escaped_text_is_the_same_text():
    everything = "".join(map(chr, range(32, 127)))
    assert unescape(escape(f"a{everything}b")) == f"a{everything}b"
    assert not re.search(r"[<>*_`\[\]()#~$\\{}|:.@]", re.sub("&#[0-9]+;", "", escape(everything)))
    assert escape("a\nb\u2028c") == "a b c"


def test_a_quoted_word_cannot_turn_the_sentence_around():
    assert core("\u202emadam!") == "madam"
    assert core("“exam!”") == "exam" and core("...") == "..." and len(core("a" * 5_000)) == 25


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_cut_text_says_where_it_was_cut(shipped, language):
    text = "<b>happy</b> " * 200
    prediction = shipped(text)
    answer = reply(prediction, attribute(shipped, text, prediction.label), language)
    read = text[:max(end for _, end in prediction.encoding.offsets)]
    note = say(language, "truncated", pieces=len(prediction.tokens), end=read[-12:])
    assert answer.plain.split("\n\n")[-1] == note
    assert shown(answer.sentence) == answer.plain


@pytest.mark.parametrize("language", LANGUAGES)
def test_whoever_speaks_of_self_harm_reads_first_where_help_is(shipped, language):
    text = "요즘 그냥 죽고 싶다"
    prediction = shipped(text)
    answer = reply(prediction, attribute(shipped, text, prediction.label), language, (1, 1))
    assert answer.plain.startswith(say(language, "care") + "\n\n")
    assert [question.key for question in answer.follow_ups] == ["layer", "head"]
    assert not any(say(language, "reply_word", word=word) in answer.plain for word in text.split())


@pytest.mark.parametrize("language", LANGUAGES)
def test_classes_that_are_not_ours_are_called_by_their_key(shipped, language):
    keys = ("<i>yes</i>", "LABEL_1")
    ours = shipped(SURE[language])
    prediction = replace(ours, keys=keys, probabilities=np.array([0.9, 0.1], dtype=np.float32))
    answer = reply(prediction, None, language)
    assert keys[0] in answer.plain and shown(answer.sentence) == answer.plain
    alone = replace(ours, keys=("LABEL_0",), probabilities=np.ones(1, dtype=np.float32))
    assert say(language, "reply_over") in reply(alone, None, language).plain


def test_a_checkpoint_of_other_classes_answers(deeper):
    text = "I finally fixed the bug"
    prediction = deeper(text)
    answer = reply(prediction, attribute(deeper, text, prediction.label), "en")
    assert prediction.label in answer.plain


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_checkpoint_without_classifier_says_so(shipped, language):
    answer = reply_without_classifier(shipped.encode("안녕 " * 300), language)
    assert answer.plain.startswith(say(language, "no_classifier_answer") + "\n\n")
    assert (answer.follow_ups, answer.colour) == ([], None)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_questions_open_the_views_that_answer_them(shipped, language):
    text = "I finally  passed!\nAt last."
    prediction = with_shares(shipped(text), True, achievement=0.9)
    answer = reply(prediction, with_values(shipped, text, 0, 1, 3, 0, 0), language, (3, 5))
    layer, head, without, trial = answer.follow_ups
    assert layer.tab in STUDIES
    assert (head.tab, head.options) == ("attention", {"layer": 3, "head": 5})
    assert without.text == "I finally At last." and "passed" in without.label
    assert trial.tab == "trial"
    assert len({question.label for question in answer.follow_ups}) == 4


def test_of_a_single_word_nothing_can_be_taken_out(shipped):
    prediction = with_shares(shipped("야호"), True, joy=0.9)
    answer = reply(prediction, with_values(shipped, "야호", 1), "ko")
    assert [question.key for question in answer.follow_ups] == ["layer", "trial"]
