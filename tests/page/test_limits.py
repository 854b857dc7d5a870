"""What a request passes before Gradio sees it: its route, its size, its values, its slot."""

import asyncio
import http.client
import json
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from asking import TEXT, ask, event, is_sentence, send

from bert.page.frame import launch_options
from bert.page.limits import (
    BUSY,
    FAILED,
    LARGEST_REQUEST,
    NO_FILES,
    TOO_LARGE,
    UNKNOWN,
    UNREADABLE,
    RequestLimits,
)
from bert.page.scripts import address_of

FILE = {"path": "http://example.com/x", "meta": {"_type": "gradio.FileData"}}
VISIT = '{"texts": [], "lang": "en"}'

# ---------------------------------------------------------------------------------- slots


class Visitor:
    """Somebody who asks: what is sent to them, and when they leave."""

    def __init__(self, limits: RequestLimits) -> None:
        self.sent: list[dict] = []
        self.left = asyncio.Event()
        self.has_sent = False
        moved = SimpleNamespace(api_name="moved", fn=print, queue=False, inputs=["text"])
        blocks = SimpleNamespace(fns={7: moved})
        scope = {"type": "http", "method": "POST", "path": "/gradio_api/run/moved",
                 "app": SimpleNamespace(get_blocks=lambda: blocks)}
        self.done = asyncio.ensure_future(limits(scope, self.receive, self.send))

    async def receive(self) -> dict:
        if not self.has_sent:
            self.has_sent = True
            return {"type": "http.request", "body": b'{"data": ["text"]}', "more_body": False}
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
        assert (await receive())["body"] == b'{"data": ["text"]}'
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
        limits = RequestLimits(worker, at_once=2, most_waiting=3)
        visitors = [Visitor(limits) for _ in range(9)]
        await settle()
        assert worker.started == 2
        told = [visitor for visitor in visitors if visitor.status == 503]
        assert len(told) == 4 and all(visitor.done.done() for visitor in told)
        assert json.loads(told[0].sent[1]["body"]) == {"error": BUSY}
        worker.may_end.set()
        await asyncio.gather(*(visitor.done for visitor in visitors))
        assert worker.started == 5
        assert sorted(visitor.status for visitor in visitors) == [200] * 5 + [503] * 4
        later = Visitor(limits)
        await later.done
        assert later.status == 200
    play(scene)


def test_who_leaves_while_waiting_is_not_worked_for():
    async def scene() -> None:
        worker = Worker()
        limits = RequestLimits(worker, at_once=1, most_waiting=2)
        working, leaving, staying = (Visitor(limits) for _ in range(3))
        await settle()
        leaving.left.set()
        await leaving.done
        assert leaving.sent == [] and limits.waiting == 1
        next_one = Visitor(limits)  # takes the place that became free
        worker.may_end.set()
        await asyncio.gather(working.done, staying.done, next_one.done)
        assert worker.started == 3
        assert [visitor.status for visitor in (working, staying, next_one)] == [200] * 3
        assert limits.waiting == 0 and not limits.slots.locked()
    play(scene)


def test_who_leaves_while_being_served_gives_the_slot_back():
    async def scene() -> None:
        worker = Worker()
        limits = RequestLimits(worker, at_once=1)
        served, waiting = Visitor(limits), Visitor(limits)
        await settle()
        served.left.set()
        worker.may_end.set()
        await asyncio.gather(served.done, waiting.done)
        assert waiting.status == 200 and not limits.slots.locked()
    play(scene)


def test_an_error_gives_the_slot_back_and_is_one_sentence_with_a_traceback(capsys):
    async def scene() -> None:
        async def broken(scope: dict, receive: Callable, send: Callable) -> None:
            raise RuntimeError("broken")
        limits = RequestLimits(broken, at_once=1)
        visitors = [Visitor(limits) for _ in range(3)]
        await asyncio.gather(*(visitor.done for visitor in visitors))
        assert [json.loads(visitor.sent[1]["body"]) for visitor in visitors] == [
            {"error": FAILED}] * 3
        assert [visitor.status for visitor in visitors] == [500] * 3 and not limits.slots.locked()
    play(scene)
    assert capsys.readouterr().err.count("RuntimeError: broken") == 3


def test_every_request_passes_the_limits():
    _, middleware = launch_options(at_once=3)["app_kwargs"]["middleware"]
    assert middleware.cls is RequestLimits
    assert middleware.kwargs == {"at_once": 3, "has_mcp": False, "reloads": False}


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


# ---------------------------------------------------------------------------------- routes


CLOSED = ("upload", "upload_progress?upload_id=x", "component_server", "process_recording",
          "file=http://example.com/", "file=https://127.0.0.1/", "file/app.py",
          "proxy=https://a.hf.space/", "stream/x", "stream/x/close", "vibe-code", "vibe-edit/",
          "undo-vibe-edit", "vibe-starter-queries", "run-history/records", "run-history/connect",
          "deep_link?session_hash=x", "runs", "runs/", "user", "token", "login_check", "dev/reload",
          "custom_component/x/client/component/x.js", "profiling/traces", "mcp", "mcp/", "mcp/sse",
          "queue/status", "run/say", "call/export", "nothing", "info/../runs")


@pytest.mark.parametrize("route", CLOSED)
def test_routes_that_the_page_does_not_need_do_not_exist(server, route):
    for body in (None, b"{}"):
        assert send(server.address, route, body) == (404, {"error": UNKNOWN})


@pytest.mark.parametrize("route", ["login", "login/", "logout", "monitoring", "monitoring/summary",
                                   "openapi.json", "docs", "pwa_icon", "run/predict", "page"])
def test_nor_do_those_beside_the_api(server, route):
    for method in ("GET", "POST", "PUT", "DELETE"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request(method, f"/{route}", b"{}", {"Content-Type": "application/json"})
        reply = connection.getresponse()
        assert (reply.status, json.load(reply)) == (404, {"error": UNKNOWN})
        connection.close()


def test_every_reply_says_what_it_is_and_may_be_shown_in_a_frame(server):
    for path in ("", address_of("js"), "microscope/fonts/MicroscopeGothic.woff2",
                 "config"):
        with urllib.request.urlopen(server.address + path) as reply:
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            assert reply.headers["Referrer-Policy"] == "same-origin"
            assert "X-Frame-Options" not in reply.headers  # a Space shows the page in a frame


# ---------------------------------------------------------------------------------- values


@pytest.mark.parametrize("path", ["run/predict", "call/predict", "queue/join"])
def test_a_large_request_is_not_read_to_its_end(server, path):
    body = json.dumps({"data": ["a" * LARGEST_REQUEST]}).encode()
    assert send(server.address, path, body) == (413, {"error": TOO_LARGE})


def test_a_large_request_of_unknown_length_is_not_read_to_its_end(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("POST", "/gradio_api/run/predict", iter([b"x" * 100_000] * 11),
                       {"Content-Type": "application/json"}, encode_chunked=True)
    assert json.load(connection.getresponse()) == {"error": TOO_LARGE}
    connection.close()


@pytest.mark.parametrize("value", [
    FILE, {"path": "/etc/passwd"}, {"text": [{"path": "app.py", "meta": {}}]},
    [{"role": "user", "content": [{"type": "file", "file": FILE}]}],
    [{"role": "user", "content": [{"type": "component", "component": "image", "value": "app.py",
                                   "constructor_args": {}, "props": {}}]}]],
    ids=["a file", "a path", "a file inside", "a file in a bubble", "a component in a bubble"])
def test_nothing_that_could_be_a_file_is_taken(server, value):
    """By no route, by no event of the page, and not if its name is written in escapes."""
    plain = json.dumps({"data": ["text", value, VISIT], "fn_index": event("add_bubble"),
                        "session_hash": "a"})
    escaped = plain.replace('"path"', r'"\u0070ath"').replace('"component"', r'"c\u006fmponent"')
    assert escaped != plain
    for path in ("run/predict", "run/study", "api/export", "queue/join", "call/predict",
                 "call/v2/attention"):
        for body in (plain, escaped, json.dumps({"text": value, "layer": 1, "head": 1})):
            assert send(server.address, path, body.encode()) == (422, {"error": NO_FILES})


def test_the_queue_is_for_the_documented_endpoints_only(server):
    values = {"say": ["text", VISIT], "export": [TEXT, "bars", "png", {}]}
    for name, data in values.items():
        body = json.dumps({"data": data, "fn_index": event(name), "session_hash": "a"}).encode()
        assert send(server.address, "queue/join", body) == (404, {"error": UNKNOWN})


@pytest.mark.parametrize("number", ["2", 2.0, True, [2], {"a": 2}])
def test_the_number_of_an_event_is_a_whole_number(server, number):
    body = json.dumps({"data": [TEXT], "fn_index": number}).encode()
    assert send(server.address, "run/predict", body) == (422, {"error": UNREADABLE})


def test_an_event_of_the_page_with_nonsense_gets_one_sentence(server):
    for name, values in {"say": [7, 7], "add_bubble": [7, 7, 7], "reply": [[[]], "{}"],
                         "show": ["{"], "recall": [[]],
                         "choose_message": [[], VISIT], "labels": [{"texts": 1}]}.items():
        body = {"data": values, "fn_index": event(name), "event_data": {"index": "x", "value": 1}}
        status, reply = send(server.address, "run/predict", json.dumps(body).encode())
        assert status == 200 or is_sentence(reply["error"]) or reply["error"] == FAILED
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"
