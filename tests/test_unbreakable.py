"""What nobody can do to it: break an answer, the server, another visitor's answer.

Each property has a short form, and a long one that `bash tests/run --full` adds. More is in
tests/page/test_limits.py, tests/test_machine.py and tests/test_bad_checkpoints.py.
"""

import gc
import json
import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asking import TEXT, VIEW, ask, is_sentence, play, send
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from page_fixtures import new_context

from bert.page import downloads
from bert.page.visit import describe
from bert.studies import STUDIES
from bert.studies.base import StudyContext
from bert.tokenizer import clean

# Where texts usually break programs.
NASTY = (
    "\ud800", "\udfff", "\0", "\x7f", "\x85", "\u2028", "\ufeff", "\u200b", "\u00ad", "\u202e",
    "\u2066", "\ufffe", "\U0010ffff", "\ue000", "\u0301", "\u0301" * 200, "\u1100\u1161\u11a8",
    "\u3164", "ﷺ", "ß", "İ", "ǅ", "ﬃ", "שלום", "مرحبا", "नमस्ते", "ไทย", "漢字", "가",
    "👩‍👩‍👧‍👦", "🇰🇷", "👍🏽", "❤️", "1️⃣",
    "\U0001f3f4\U000e0067\U000e0062\U000e007f", "[MASK]", "[CLS]", "[PAD]", "##er", "$$",
    "$\\frac{1}{$", "<script>alert(1)</script>", "&lt;", "{0}", "%s", "=1+1", "-1", "'\"`", "\\",
    "\\u0000", "\r\n", "\t", " ", "\u3000", "a" * 300, "NaN", "null", "../..", "http://example.com")
LARGE = {
    "1 MB of text": "마라톤 " * 250_000, "one word of 1 MB": "a" * 1_000_000,
    "10,000 combining marks": "e" + "\u0301" * 10_000, "only spaces": " \t\n\u3000" * 1_000,
    "nothing": "", "only what is not seen": "\u200b\u200d\ufeff\0" * 50,
    "lone surrogates": "\ud800\udc00\udfff" * 500, "right to left": "\u202eשלום " * 2_000,
    "emoji sequences": "👩‍👩‍👧‍👦🇰🇷" * 2_000, "every kind of space": "".join(
        chr(code) for code in range(0x3001) if chr(code).isspace()),
}
VISIT = '{"texts": [], "lang": "en"}'
TEXTS = st.lists(st.one_of(st.characters(), st.sampled_from(NASTY)), max_size=30).map("".join)
NUMBERS = st.one_of(st.integers(), st.integers(-10**400, 10**400), st.floats(allow_subnormal=False),
                    st.sampled_from((0, -1, 3, 10**9, 2**63, 1e308, 1.5, float("nan"))))
JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6)


def tried(short: int, long: int) -> Callable:
    """A test with few examples, and with many under --full."""
    return pytest.mark.parametrize("examples", [short, pytest.param(long, marks=pytest.mark.full)])


def check(examples: int, *strategies: st.SearchStrategy) -> Callable:
    """Try a property on the same examples every time."""
    def run(holds: Callable) -> None:
        settings(max_examples=examples, deadline=None, derandomize=True, database=None,
                 suppress_health_check=list(HealthCheck))(given(*strategies)(holds))()
    return run


# ---------------------------------------------------------------------------------- any text


def assert_answered(classifier, text: str) -> bool:
    """Ten finite probabilities that sum to one, or one sentence."""
    try:
        prediction = classifier(text)
    except ValueError as error:
        assert is_sentence(str(error))
        return False
    assert prediction.probabilities.shape == (10,)
    assert np.isfinite(prediction.probabilities).all()
    assert abs(prediction.probabilities.sum() - 1) < 1e-5
    assert len(prediction.tokens) <= classifier.config.max_position_embeddings
    assert np.isfinite(prediction.attentions).all()
    json.dumps(prediction.to_dict(), ensure_ascii=False).encode("utf-8")
    return True


@tried(300, 10_000)
def test_any_text_gets_ten_probabilities_or_one_sentence(classifier, examples):
    answered = 0

    @check(examples, TEXTS)
    def holds(text: str) -> None:
        nonlocal answered
        answered += assert_answered(classifier, text)

    assert answered > examples / 2


@pytest.mark.parametrize("name", LARGE)
def test_large_and_strange_texts_are_answered_or_refused_in_one_sentence(classifier, name):
    is_empty = name in ("nothing", "only spaces", "only what is not seen", "every kind of space")
    assert assert_answered(classifier, LARGE[name]) is not is_empty


@tried(12, 200)
def test_any_text_can_be_drawn(classifier, pretrained_folder, examples):
    """Views and studies, in both languages; a warning about a glyph would be an error here."""
    context, drawn = StudyContext(classifier), 0
    config = classifier.config

    @check(examples, TEXTS, st.sampled_from((*downloads.PICTURES, *STUDIES)),
           st.sampled_from(("en", "ko")), st.sampled_from(("png", "svg", "pdf")))
    def holds(text: str, what: str, language: str, ending: str) -> None:
        nonlocal drawn
        try:
            if what in STUDIES:
                data = STUDIES[what].answer(context, text, {"second": text})
                file = downloads.make_study(STUDIES[what], data, ending, language)
            else:
                wanted = downloads.Wanted.checked(
                    what, ending, {**VIEW, "lang": language, "link": text},
                    config.num_hidden_layers, config.num_attention_heads)
                file = downloads.make(classifier(text), wanted, describe(classifier))
        except ValueError as error:
            assert is_sentence(str(error))
            return
        assert file.content.startswith(
            {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}[ending])
        drawn += 1

    assert drawn >= examples / 3


@tried(5, 50)
def test_any_text_can_be_typed_into_the_page(browser, server, classifier, examples):
    context = new_context(browser)
    page = context.new_page()
    page.goto(server.address)
    box = page.locator("#your-text textarea")

    @check(examples, TEXTS)
    def holds(text: str) -> None:
        text = "i " + text
        box.wait_for()
        box.evaluate(f"""(box) => {{
            box.value = {json.dumps(text)};
            box.dispatchEvent(new Event("input", {{ bubbles: true }}));
        }}""")
        said = clean(box.input_value())
        box.press("Enter")
        page.wait_for_function("said => JSON.parse(microscope.visit()).texts.at(-1) === said",
                               arg=said)
        shown = page.evaluate("""() => Object.fromEntries(
            [...document.querySelectorAll("button.bar")].map((bar) => [bar.dataset.class,
                parseFloat(bar.querySelector(".figure").textContent)]))""")
        expected = {key: 100 * p for key, p in classifier(said).ranked()}
        assert shown == pytest.approx(expected, abs=0.051)

    context.close()


# ---------------------------------------------------------------------------------- any request


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ENDPOINTS = {
    "predict": [TEXT], "attention": [TEXT, 1, 2], "moved": [TEXT], "attribute": [TEXT, "joy"],
    "export": [TEXT, "bars", "svg", VIEW],
    **{f"study/{name}": [TEXT, name, {}] for name in STUDIES}}
OPTION_NAMES = ("action", "at", "blank", "fade", "first", "head", "hide_special", "job", "joined",
                "key", "lang", "layer", "lessons", "link", "off", "order", "query", "result",
                "results", "second", "step", "token", "words")
OPTIONS = st.dictionaries(st.sampled_from(OPTION_NAMES), JUNK, max_size=4)
BODIES = [
    b"", b"null", b"7", b"[]", b"{}", b"{", b"\xff\xfe\x00", b'{"data": null}', b'{"data": {}}',
    b'{"data": "text"}', b'{"data": []}', b'{"data": [' + b"9" * 5_000 + b"]}",
    b'{"data": [1e999, NaN, -Infinity, 0]}', b'{"data": ' + deep(90) + b"}",
    b'{"data": ' + deep(900) + b"}", b'{"data": ' + deep(100_000) + b"}",
    b'{"data": [{"a": ' + deep(400) + b'}, "way", {"token": ' + deep(400) + b"}, {}]}",
    b'{"data": ["x"], "fn_index": 99}', b'{"data": ["x"], "fn_index": -1}',
    b'{"data": ["x"], "session_hash": 7}', b'{"data": ["x"], "trigger_id": "one"}',
    b'{"data": [{"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}}, 1, 1, {}]}',
    b'{"data": [{"path": "http://example.com/", "meta": {"_type": "gradio.FileData"}}, 1, 1, {}]}',
]


@st.composite
def wrong_values(draw: Callable, good: list) -> bytes:
    """The body of a request in which something is not as it should be."""
    values = list(good)
    how = draw(st.sampled_from(("one wrong", "one missing", "strange options", "one more", "raw")))
    if how == "raw":
        return draw(st.sampled_from(BODIES))
    if how == "one wrong":
        values[draw(st.integers(0, len(values) - 1))] = draw(JUNK)
    elif how == "one missing":
        del values[draw(st.integers(0, len(values) - 1))]
    elif how == "strange options" and isinstance(values[-1], dict):
        values[-1] = {**values[-1], **draw(OPTIONS)}
    else:
        values.append(draw(JUNK))
    return json.dumps({"data": values}).encode()


@tried(8, 60)
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_any_request_is_answered_or_refused_in_one_sentence(server, pretrained_folder, classifier,
                                                            endpoint, examples):
    expected = classifier(TEXT).to_dict()["probabilities"]

    @check(examples, wrong_values(ENDPOINTS[endpoint]))
    def holds(body: bytes) -> None:
        status, reply = send(server.address, f"run/{endpoint.partition('/')[0]}", body)
        if status == 200:
            assert isinstance(reply["data"][0], dict)
        else:
            assert is_sentence(reply["error"]), (body[:200], reply)
        assert ask(server.address, "predict", TEXT)["probabilities"] == pytest.approx(
            expected, abs=1e-6)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:24].decode("latin-1"))
def test_a_request_that_is_no_request_gets_one_sentence(server, body):
    for path in ("run/predict", "run/study", "call/predict", "queue/join", "run/nothing"):
        status, reply = send(server.address, path, body)
        assert (status == 200 and (reply.get("event_id") or reply["data"])) or is_sentence(
            reply["error"]), (path, reply)
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"


# ---------------------------------------------------------------------------------- many answers


def memory_and_files(process: int) -> tuple[float, int]:
    """Megabytes in use and open files of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes) / 1024, len(os.listdir(f"/proc/{process}/fd"))


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs /proc")
def test_two_thousand_answers_leave_memory_and_open_files_as_they_were(serve, emotion_folder,
                                                                       pretrained_folder, texts):
    server = serve(emotion_folder, port=17_940)
    random_source = random.Random(0)

    def answers(count: int) -> None:
        for number in range(count):
            text = " ".join(random_source.sample(texts, 2))
            play(server.address, "say", text, VISIT)
            if number % 5 == 0:
                ask(server.address, "attribute", text, "joy")
                ask(server.address, "study", text, random_source.choice(("hidden", "qkv", "lens")),
                    {})
            if number % 20 == 0:
                ask(server.address, "export", text, "card", "png", VIEW)

    answers(400)
    memory, files = memory_and_files(server.process.pid)
    answers(2_000)
    memory_after, files_after = memory_and_files(server.process.pid)
    assert abs(memory_after - memory) < 20
    assert abs(files_after - files) <= 2


def test_no_figure_outlives_its_file(classifier):
    from matplotlib.figure import Figure
    wanted = downloads.Wanted.checked("bars", "svg", VIEW, 2, 2)
    for _ in range(3):
        downloads.make(classifier(TEXT), wanted, describe(classifier))
    gc.collect()
    assert [thing for thing in gc.get_objects() if type(thing) is Figure] == []


# ---------------------------------------------------------------------------------- many visitors


def unlike(found: Any, expected: Any) -> bool:
    """Whether two answers differ by more than rounding."""
    if isinstance(expected, dict):
        return found.keys() != expected.keys() or any(
            unlike(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) != len(expected) or any(map(unlike, found, expected))
    if isinstance(expected, float):
        return found != pytest.approx(expected, rel=1e-4, abs=1e-4)
    return found != expected


@tried(40, 1_000)
def test_visitors_at_the_same_time_get_their_own_answers(server, classifier, texts, examples):
    random_source = random.Random(0)
    words = " ".join(texts).split()
    said = [" ".join(random_source.choices(words, k=random_source.randint(1, 9)))
            for _ in range(examples)]
    context = StudyContext(classifier)

    def visit(text: str) -> tuple[dict, dict, dict]:
        said = json.loads(play(server.address, "say", text, VISIT)[0])
        return (ask(server.address, "predict", text), said["answer"],
                ask(server.address, "study", text, "hidden", {"at": 2}))

    with ThreadPoolExecutor(8) as visitors:
        for text, (short, long, hidden) in zip(said, visitors.map(visit, said), strict=True):
            expected = classifier(text)
            assert short["tokens"] == expected.tokens and long["text"] == text
            assert short["probabilities"] == pytest.approx(
                expected.to_dict()["probabilities"], abs=1e-5)
            assert long["probabilities"] == pytest.approx(
                expected.probabilities.tolist(), abs=1e-5)
            data = STUDIES["hidden"].answer(context, text, {"at": 2})
            assert not any(unlike(hidden[key], data[key])
                           for key in ("tokens", "at", "token", "cosines", "norms"))
