"""What nobody can do to it: break an answer, the server, another visitor's answer, the machine.

Each property has a short form, and a long one that `bash tests/run --full` adds.
"""

import asyncio
import gc
import http.client
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import app
from bert.drawing import figures
from bert.page import downloads as exports
from bert.page.limits import BUSY, LARGEST_REQUEST, NO_FILES, TOO_LARGE, Gate
from bert.studies import STUDIES
from bert.studies.base import StudyContext

ROOT = Path(__file__).parent.parent
TEXT = "드디어 마라톤을 완주했다"
VIEW = {"layer": 1, "head": 1, "lang": "ko"}

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


def is_sentence(said: Any) -> bool:
    """One line for people, not a look into the program."""
    return (isinstance(said, str) and 10 < len(said) < 600 and said.splitlines() == [said]
            and "Traceback" not in said and 'File "' not in said and said != app.FAILED)


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

    @check(examples, TEXTS, st.sampled_from((*exports.PICTURES, *STUDIES)),
           st.sampled_from(("en", "ko")), st.sampled_from(("png", "svg", "pdf")))
    def holds(text: str, what: str, language: str, ending: str) -> None:
        nonlocal drawn
        try:
            if what in STUDIES:
                data = STUDIES[what].answer(context, text, {"second": text})
                file = exports.make_study(STUDIES[what], data, ending, language)
            else:
                wanted = exports.Wanted.checked(
                    what, ending, {**VIEW, "lang": language, "link": text},
                    config.num_hidden_layers, config.num_attention_heads)
                file = exports.make(classifier(text), wanted, app.describe(classifier))
        except ValueError as error:
            assert is_sentence(str(error))
            return
        assert file.content.startswith(
            {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF-"}[ending])
        drawn += 1

    assert drawn >= examples / 3


@tried(5, 50)
def test_any_text_can_be_typed_into_the_page(visit, classifier, examples):
    with visit() as page:
        @check(examples, TEXTS)
        def holds(text: str) -> None:
            text = "i " + text
            page.evaluate(f"""() => {{
                const box = document.getElementById("your-text");
                box.value = {json.dumps(text)};
                box.dispatchEvent(new Event("input", {{ bubbles: true }}));
            }}""")
            count = page.locator(".message").count()
            page.locator("#your-text").press("Enter")
            page.wait_for_function(
                "count => document.querySelectorAll('.message').length > count"
                " && document.querySelector('.message:last-child .answer:not(.waiting)')",
                arg=count)
            shown = page.evaluate("""() => Object.fromEntries(
                [...document.querySelectorAll("button.bar")].map((bar) => [bar.dataset.class,
                    parseFloat(bar.querySelector(".figure").textContent)]))""")
            expected = {key: 100 * p for key, p in classifier(text).ranked()}
            assert shown == pytest.approx(expected, abs=0.051)


# ---------------------------------------------------------------------------------- any request


def send(address: str, path: str, body: bytes | None = None) -> tuple[int, dict]:
    """One request, and its reply as JSON."""
    request = urllib.request.Request(f"{address}gradio_api/{path}", data=body,
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ask(address: str, name: str, *values: Any) -> Any:
    return send(address, f"run/{name}", json.dumps({"data": values}).encode())[1]["data"][0]


def complaint(address: str, name: str, *values: Any) -> str:
    return send(address, f"run/{name}", json.dumps({"data": values}).encode())[1]["error"]


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


ENDPOINTS = {
    "predict": [TEXT], "attention": [TEXT, 1, 2], "look": [TEXT], "attribute": [TEXT, "joy"],
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
            assert is_sentence(reply.get("error") or reply.get("detail")), (body[:200], reply)
        assert ask(server.address, "predict", TEXT)["probabilities"] == pytest.approx(
            expected, abs=1e-6)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:24].decode("latin-1"))
def test_a_request_that_is_no_request_gets_one_sentence(server, body):
    for path in ("run/predict", "run/study", "call/predict", "queue/join", "run/nothing"):
        status, reply = send(server.address, path, body)
        assert (status == 200 and reply["event_id"]) or is_sentence(
            reply.get("error") or reply.get("detail")), (path, reply)
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"


# ---------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_the_server_itself_limits_the_length_of_a_text(server, pretrained_folder, endpoint):
    _, *others = ENDPOINTS[endpoint]
    said = complaint(server.address, endpoint.partition("/")[0], "a" * 5_001, *others)
    assert said == "The text has 5,001 characters: at most 5,000 are read."


@pytest.mark.parametrize("study", ["compare", "next_sentence"])
def test_the_second_text_is_limited_as_well(server, pretrained_folder, study):
    said = complaint(server.address, "study", TEXT, study, {"second": "a" * 5_001})
    assert said == "The text has 5,001 characters: at most 5,000 are read."


@pytest.mark.parametrize("path", ["run/predict", "call/predict", "queue/join", "nothing"])
def test_a_large_request_is_not_read_to_its_end(server, path):
    body = json.dumps({"data": ["a" * LARGEST_REQUEST]}).encode()
    assert send(server.address, path, body) == (413, {"error": TOO_LARGE})


def test_a_large_request_of_unknown_length_is_not_read_to_its_end(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/gradio_api/run/predict", iter([b"x" * 100_000] * 11),
                       {"Content-Type": "application/json"}, encode_chunked=True)
    assert json.load(connection.getresponse()) == {"error": TOO_LARGE}
    connection.close()


class Visitor:
    """Somebody at the gate: what is sent to them, and when they leave."""

    def __init__(self, gate: Gate, path: str = "/gradio_api/run/look") -> None:
        self.sent: list[dict] = []
        self.left = asyncio.Event()
        self.has_sent = False
        scope = {"type": "http", "method": "POST", "path": path}
        self.done = asyncio.ensure_future(gate(scope, self.receive, self.send))

    async def receive(self) -> dict:
        if not self.has_sent:
            self.has_sent = True
            return {"type": "http.request", "body": b"{}", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


class Worker:
    """An app that works until it is let go."""

    def __init__(self) -> None:
        self.started = 0
        self.may_end = asyncio.Event()

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        assert (await receive())["body"] == b"{}"
        self.started += 1
        await self.may_end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})


async def settle() -> None:
    """Let everything happen that can happen without anybody else."""
    for _ in range(20):
        await asyncio.sleep(0)


def play(scene: Callable) -> None:
    """Run a scene in a thread of its own: the browser's event loop may be in this one."""
    with ThreadPoolExecutor(1) as stage:
        stage.submit(lambda: asyncio.run(scene())).result()


def test_when_too_many_wait_the_next_one_is_told_so():
    async def scene() -> None:
        worker = Worker()
        gate = Gate(worker, at_once=2, most_waiting=3)
        visitors = [Visitor(gate) for _ in range(9)]
        await settle()
        assert worker.started == 2
        told = [visitor for visitor in visitors if visitor.status == 503]
        assert len(told) == 4 and all(visitor.done.done() for visitor in told)
        assert json.loads(told[0].sent[1]["body"]) == {"error": BUSY}
        worker.may_end.set()
        await asyncio.gather(*(visitor.done for visitor in visitors))
        assert worker.started == 5
        assert sorted(visitor.status for visitor in visitors) == [200] * 5 + [503] * 4
        later = Visitor(gate)
        await later.done
        assert later.status == 200
    play(scene)


def test_who_leaves_while_waiting_is_not_worked_for():
    async def scene() -> None:
        worker = Worker()
        gate = Gate(worker, at_once=1, most_waiting=2)
        working, leaving, staying = (Visitor(gate) for _ in range(3))
        await settle()
        leaving.left.set()
        await leaving.done
        assert leaving.sent == [] and gate.waiting == 1
        next_one = Visitor(gate)  # takes the place that became free
        worker.may_end.set()
        await asyncio.gather(working.done, staying.done, next_one.done)
        assert worker.started == 3
        assert [visitor.status for visitor in (working, staying, next_one)] == [200] * 3
        assert gate.waiting == 0 and not gate.turns.locked()
    play(scene)


def test_who_leaves_while_being_served_gives_the_turn_back():
    async def scene() -> None:
        worker = Worker()
        gate = Gate(worker, at_once=1)
        served, waiting = Visitor(gate), Visitor(gate)
        await settle()
        served.left.set()
        worker.may_end.set()
        await asyncio.gather(served.done, waiting.done)
        assert waiting.status == 200 and not gate.turns.locked()
    play(scene)


def test_an_error_gives_the_turn_back():
    async def scene() -> None:
        async def broken(scope: dict, receive: Callable, send: Callable) -> None:
            raise RuntimeError("broken")
        gate = Gate(broken, at_once=1)
        visitors = [Visitor(gate) for _ in range(3)]
        ends = await asyncio.gather(*(visitor.done for visitor in visitors), return_exceptions=True)
        assert [str(end) for end in ends] == ["broken"] * 3 and not gate.turns.locked()
    play(scene)


def test_the_gate_is_in_the_way_of_every_request():
    middleware, = app.launch_options()["app_kwargs"]["middleware"]
    assert middleware.cls is Gate and middleware.kwargs == {"at_once": app.NUM_AT_ONCE}


@pytest.mark.full
def test_four_hundred_at_once_get_their_answer_or_a_friendly_sentence(server, classifier, texts):
    def visit(number: int) -> bool:
        text = texts[number % len(texts)]
        status, reply = send(server.address, "run/predict", json.dumps({"data": [text]}).encode())
        assert (status, reply) == (503, {"error": BUSY}) or (
            reply["data"][0]["label"] == classifier(text).label)
        return status == 200

    with ThreadPoolExecutor(400) as visitors:
        answered = sum(visitors.map(visit, range(400)))
    assert answered >= 100
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
            ask(server.address, "look", text)
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
    wanted = exports.Wanted.checked("bars", "svg", VIEW, 2, 2)
    for _ in range(3):
        exports.make(classifier(TEXT), wanted, app.describe(classifier))
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
        return (ask(server.address, "predict", text), ask(server.address, "look", text),
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


# ---------------------------------------------------------------------------------- no way out


def fetch(port: int, path: str) -> tuple[int, bytes]:
    """A path exactly as it is written, which browsers would tidy first."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.putrequest("GET", path, skip_accept_encoding=True)
    connection.endheaders()
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


DOORS = ("/", "/microscope/", "/microscope/fonts/", "/static/", "/assets/", "/svelte/", "/file=",
         "/file/", "/gradio_api/file=", "/gradio_api/file/", "/gradio_api/proxy=",
         "/gradio_api/stream/", "/gradio_api/custom_component/x/client/component/", "/pwa_icon/",
         "/gradio_api/deep_link?session_hash=", "/monitoring/", "/?deep_link=")
STEPS = ("../", "%2e%2e/", "..%2f", "%2e%2e%2f", "%252e%252e%252f", "..\\", "..%5c", "....//",
         "..;/", "%c0%ae%c0%ae/", "./../", "/../")
WANTED = {"etc/passwd": b"root:", "app.py": b"def build_demo"}


@pytest.mark.parametrize("door", DOORS)
def test_no_file_of_the_machine_is_given_away(server, door):
    count = 0
    for file, secret in WANTED.items():
        paths = [door + step * times + file for step in STEPS for times in (2, 3, 9)]
        for whole in (f"/{file}", str(ROOT / file), (ROOT / file).as_uri()):
            paths += [door + whole, door + urllib.parse.quote(whole, safe="")]
        for path in paths:
            status, content = fetch(server.port, path)
            assert secret not in content, path
            if not door.startswith(("/?", "/gradio_api/deep_link")) and path.strip("/.") != file:
                assert status >= 300, path
            count += 1
    assert count == 84


def test_uploads_downloads_and_proxies_are_closed(server):
    for door in ("upload", "upload_progress?upload_id=x", "component_server", "process_recording",
                 "file=http://example.com/", "file=https://127.0.0.1/", "proxy=https://a.hf.space/",
                 "stream/x", "vibe-code", "run-history/records", "deep_link?session_hash=x"):
        for body in (None, b"{}"):
            assert send(server.address, door, body) == (404, {"error": NO_FILES})


GUARD = '''
import sys

def guard(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.bind"):
        address = arguments[1]
        if not isinstance(address, tuple) or address[0] in ("127.0.0.1", "::1", "localhost"):
            return
    elif event == "socket.getaddrinfo":
        address = arguments[0]
        if address in (None, "127.0.0.1", "::1", "localhost", b"127.0.0.1", b"localhost"):
            return
    elif event == "socket.gethostbyname":
        address = arguments[0]
    else:
        return
    with open({seen!r}, "a") as file:
        file.write(f"{{event}} {{address}}\\n")
    raise OSError("the network is cut")

sys.addaudithook(guard)
'''


def test_with_the_network_cut_it_starts_answers_and_misses_nothing(serve, emotion_folder,
                                                                   pretrained_folder, tmp_path):
    """Even if the environment asks for sharing and analytics, and visitors for addresses."""
    seen = tmp_path / "seen"
    (tmp_path / "sitecustomize.py").write_text(GUARD.format(seen=str(seen)))
    server = serve(emotion_folder, port=17_930, PYTHONPATH=str(tmp_path), GRADIO_SHARE="True",
                   GRADIO_ANALYTICS_ENABLED="True", HF_HUB_OFFLINE="0")
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"
    assert ask(server.address, "export", TEXT, "card", "png", VIEW)["name"].endswith(".png")
    for name in STUDIES:
        ask(server.address, "study", TEXT, name, {})
    with urllib.request.urlopen(server.address) as reply:
        assert b"microscope" in reply.read()
    file = {"path": "http://example.com/x", "url": "http://example.com/x",
            "meta": {"_type": "gradio.FileData"}}
    assert complaint(server.address, "predict", file) == "The text is a dict: send a string."
    assert send(server.address, "file=http://example.com/x")[0] == 404
    assert not seen.exists(), seen.read_text()
    if sys.platform == "linux":  # all of 127.0.0.0/8 is this machine: 0.0.0.0 would answer here
        with socket.socket() as other:
            assert other.connect_ex(("127.0.0.2", server.port)) != 0


def test_the_guard_of_that_test_would_notice(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(GUARD.format(seen=str(tmp_path / "seen")))
    code = "import socket; socket.create_connection(('192.0.2.1', 9))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1 and b"the network is cut" in done.stderr
    assert (tmp_path / "seen").read_text() == "socket.getaddrinfo 192.0.2.1\n"


def test_it_serves_this_machine_only_and_shares_nothing(monkeypatch):
    monkeypatch.delenv("GRADIO_SERVER_NAME", raising=False)
    assert app.build_parser().parse_args([]).host == "127.0.0.1"
    options = app.launch_options()
    assert [options[name] for name in ("share", "enable_monitoring", "mcp_server", "run_history")
            ] == [False] * 4


@pytest.mark.full
def test_nobody_is_measured_and_at_most_200_wait_in_the_queue():
    code = ("import app; demo = app.build_demo(object()); "
            "print(demo.analytics_enabled, demo.api_open, demo._queue.max_size)")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "True"})
    assert done.stdout == "False True 200\n", done.stderr


def test_every_reply_says_what_it_is_and_may_be_shown_in_a_frame(server):
    for path in ("", "microscope/main.js", "microscope/fonts/MicroscopeGothic.woff2", "config"):
        with urllib.request.urlopen(server.address + path) as reply:
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert reply.headers["Referrer-Policy"] == "same-origin"
            assert "X-Frame-Options" not in reply.headers  # a Space shows the page in a frame


# ---------------------------------------------------------------------------------- bad checkpoints


LOADING = """
import json, resource, sys
from bert.checkpoint import load_checkpoint
load_checkpoint(sys.argv[1])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + 400_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for folder in sys.argv[2:]:
    try:
        load_checkpoint(folder)
        print(json.dumps("loaded"))
    except (ValueError, OSError) as error:
        print(json.dumps(str(error)))
"""
MARK = "a pickle was here"


class Pickled:
    """Writes a file when it is unpickled."""

    def __reduce__(self) -> tuple:
        return os.system, (f"touch '{MARK}'",)


def weights_file(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header, which may lie about its length."""
    described = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(described) if length is None else length) + described + data


def tensor(shape: list[int], end: int, kind: str = "F32") -> dict:
    return {"classifier.weight": {"dtype": kind, "shape": shape, "data_offsets": [0, end]}}


def pickled() -> bytes:
    import pickle
    return pickle.dumps(Pickled())


BAD_WEIGHTS = {
    "a pickle": pickled(),
    "a pickle after a header": weights_file({}, pickled()),
    "a header of 10 GB": weights_file({}, length=10**10),
    "a header of 2⁶³": weights_file({}, length=2**63),
    "a shape of 4 TB": weights_file(tensor([10**6, 10**6], 4 * 10**12)),
    "a shape beyond 64 bits": weights_file(tensor([2**62, 8], 4), b"\0" * 4),
    "a shape of nothing times much": weights_file(tensor([0, 10**18], 0)),
    "a negative shape": weights_file(tensor([-1], 4), b"\0" * 4),
    "a number type of its own": weights_file(tensor([1], 4, "F1024"), b"\0" * 4),
    "a deep header": weights_file(b'{"a":' * 50_000),
    "a header of 50 MB": weights_file(b" " * 50_000_000),
    "a million names": weights_file(
        {f"bert.{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
         for n in range(100_000)}),
    "a name of many lines": weights_file({"a\nb\nc": tensor([1], 4)["classifier.weight"]},
                                         b"\0" * 4),
}
BAD_CONFIGS = {
    "10⁹ layers": {"num_hidden_layers": 10**9}, "10¹² pieces": {"vocab_size": 10**12},
    "10⁹ places": {"max_position_embeddings": 10**9}, "a width of 10⁴⁰⁰": {"hidden_size": 10**400},
    "the largest of everything": {
        "vocab_size": 1_000_000, "hidden_size": 16_384, "num_hidden_layers": 256,
        "num_attention_heads": 256, "intermediate_size": 131_072,
        "max_position_embeddings": 65_536},
    "infinite heads": {"num_attention_heads": float("inf")},
    "a million classes": {"id2label": {str(n): f"class {n}" for n in range(100_000)}},
    "classes that are no names": {"id2label": {"0": [[]], "1": {}}},
    "classes without order": {"id2label": {"7": "joy"}},
    "a name of many lines": {"one\ntwo": 1}, "a type of many lines": {"model_type": "a\nb"},
    "an activation that is no name": {"hidden_act": ["gelu"]},
}
BAD_TOKENIZERS: dict[str, Callable[[dict], Any]] = {
    "nothing": lambda all: {}, "a list": lambda all: [1], "no model": lambda all: {"model": None},
    "another model": lambda all: {**all, "model": {"type": "BPE", "vocab": {}, "merges": []}},
    "no vocabulary": lambda all: {**all, "model": {**all["model"], "vocab": {}}},
    "a vocabulary of nothing known": lambda all: {**all, "model": {
        **all["model"], "vocab": {"a": 0}}},
    "an id of 2³²": lambda all: {**all, "model": {
        **all["model"], "vocab": {**all["model"]["vocab"], "a word": 2**32 - 1}}},
    "a negative id": lambda all: {**all, "model": {
        **all["model"], "vocab": {**all["model"]["vocab"], "a word": -1}}},
    "no unknown token": lambda all: {**all, "model": {**all["model"], "unk_token": "nowhere"}},
    "words without end": lambda all: {**all, "model": {
        **all["model"], "max_input_chars_per_word": 10**9}},
    "a text a million times as long": lambda all: {**all, "normalizer": {
        "type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"},
                                             "content": "aa"}] * 20}},
    "a table that ends the process": lambda all: {**all, "normalizer": {
        "type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "pieces of length nothing": lambda all: {**all, "pre_tokenizer": {
        "type": "FixedLength", "length": 0}},
    "a broken expression": lambda all: {**all, "pre_tokenizer": {
        "type": "Split", "pattern": {"Regex": "(("}, "behavior": "Isolated", "invert": False}},
    "a part that is a list": lambda all: {**all, "normalizer": {"type": ["NFC"]}},
    "a part of many lines": lambda all: {**all, "normalizer": {"type": "N\nF\nC"}},
}


@pytest.fixture(scope="module")
def refusals(emotion_folder, tmp_path_factory) -> dict[str, str]:
    """What is said to each bad folder by a process that may use little more memory than it needs
    for a good one."""
    place = tmp_path_factory.mktemp("bad")

    def folder(kind: str, name: str) -> Path:
        return shutil.copytree(emotion_folder, place / f"{kind}: {name}")

    for name, content in BAD_WEIGHTS.items():
        (folder("weights", name) / "model.safetensors").write_bytes(content)
    settings = json.loads((emotion_folder / "config.json").read_text(encoding="utf-8"))
    for name, changes in BAD_CONFIGS.items():
        (folder("config", name) / "config.json").write_text(json.dumps({**settings, **changes}))
    described = json.loads((emotion_folder / "tokenizer.json").read_text(encoding="utf-8"))
    for name, change in BAD_TOKENIZERS.items():
        (folder("tokenizer", name) / "tokenizer.json").write_text(json.dumps(change(described)))
    for name in ("config.json", "tokenizer.json"):
        with (folder("3 GB of", name) / name).open("wb") as file:
            file.truncate(3 * 10**9)  # on disk it is empty
    names = sorted(path.name for path in place.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", LOADING, emotion_folder, *(place / name for name in names)],
        cwd=place, capture_output=True, text=True, env={
            **os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert not (place / MARK).exists(), "code from a checkpoint ran"
    assert done.stderr == ""
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is Linux's")
@pytest.mark.parametrize("name", [
    *(f"weights: {name}" for name in BAD_WEIGHTS), *(f"config: {name}" for name in BAD_CONFIGS),
    *(f"tokenizer: {name}" for name in BAD_TOKENIZERS), "3 GB of: config.json",
    "3 GB of: tokenizer.json"])
def test_a_bad_checkpoint_is_refused_in_one_sentence_and_little_memory(refusals, name):
    assert refusals[name] != "loaded"
    assert is_sentence(refusals[name].replace(name, "").strip()), refusals[name]
    assert name in refusals[name]  # the folder is in the sentence


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "float64"])
def test_numbers_of_other_sizes_are_read_as_float32(classifier, emotion_folder, tmp_path, kind):
    import torch
    folder = shutil.copytree(emotion_folder, tmp_path / "other")
    weights = load_file(folder / "model.safetensors")
    changed = weights["bert.pooler.dense.bias"].to(getattr(torch, kind))
    save_file({**weights, "bert.pooler.dense.bias": changed}, folder / "model.safetensors")
    found = type(classifier).load(folder).model.bert.pooler.dense.bias
    assert found.dtype == torch.float32 and torch.equal(found, changed.float())


# ---------------------------------------------------------------------------------- bad machines


def test_it_runs_where_nothing_can_be_written(serve, emotion_folder):
    """No home, no folder for temporary files, no cache of fonts."""
    nowhere = "/proc/nowhere" if sys.platform == "linux" else "/dev/null/nowhere"
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "MPLCONFIGDIR")
    server = serve(emotion_folder, port=17_950, **dict.fromkeys(names, nowhere))
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"
    assert ask(server.address, "export", TEXT, "card", "png", VIEW)["name"].endswith(".png")


@pytest.mark.filterwarnings("ignore:Glyph")  # of the page's own Korean words
def test_without_its_font_a_figure_is_still_drawn(classifier, monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "FONT_FILE", tmp_path / "missing.ttf")
    figures.use_fonts.cache_clear()
    try:
        wanted = exports.Wanted.checked("card", "png", VIEW, 2, 2)
        file = exports.make(classifier(TEXT + " 😀"), wanted, app.describe(classifier))
        assert file.content.startswith(b"\x89PNG")
        assert "◇" in figures.drawable(TEXT)
    finally:
        figures.use_fonts.cache_clear()


@pytest.mark.parametrize(("before", "sentence"), [
    ("sys.version_info = (3, 9, 1)",
     "app.py: Python 3.9 is too old: start it with Python 3.11 or later\n"),
    ("import tempfile; tempfile._candidate_tempdir_list = lambda: ['/dev/null/nowhere']",
     "app.py: [Errno 2] No usable temporary directory found in ['/dev/null/nowhere']\n"),
    pytest.param("import os; os.environ['GRADIO_TEMP_DIR'] = '/dev/null/nowhere'",
                 "app.py: no place for temporary files ([Errno 20] Not a directory: "
                 "'/dev/null/nowhere/vibe_edit_history'): name one with GRADIO_TEMP_DIR (see "
                 "--help)\n",
                 marks=pytest.mark.full),
    *(pytest.param(
        f"sys.modules[{name!r}] = None",
        f"app.py: {name} is missing: run `python -m pip install -r requirements.txt`, then start "
        "again\n", marks=[pytest.mark.full] * (name not in ("gradio", "torch")))
      for name in ("gradio", "torch", "numpy", "tokenizers", "safetensors"))])
def test_what_is_missing_is_named_with_what_to_do(before, sentence):
    code = f"import sys, runpy; {before}; runpy.run_path('app.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
