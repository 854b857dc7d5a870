"""What every request passes before Gradio sees it: whether it is one of ours, its size, its slot.

A page without files has no use for Gradio's uploads, downloads, proxies and monitors. What is
allowed is listed; every other route is closed, so that nobody can read a file of this machine or
make it fetch something from another.
"""

import asyncio
import inspect
import json
import re
import traceback
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_REQUEST = 1_000_000  # bytes; more than the longest conversation (bert/page/visit.py)
DEEPEST = 30                 # brackets within brackets; the page sends six
MOST_WAITING = 100           # questions that wait for a slot
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))
QUEUED = "call/(?P<by_name>v2/)?(?P<queued>predict|attention)"
READ = re.compile(                 # GET and HEAD
    r"(?:|config|theme\.css|favicon\.ico|robots\.txt|manifest\.json"
    r"|microscope/(?:fonts/[\w.]+|[0-9a-f]{16}\.(?:js|css))|assets/.*|static/.*|svelte/.*"
    rf"|gradio_api/(?:info|startup-events|app_id|openapi\.json|heartbeat/[\w-]+|queue/data"
    rf"|{QUEUED}/\w+))")
ASKED = re.compile(                # POST: the caller waits for the answer
    r"gradio_api/(?:run|api)/(?P<asked>predict|attention|attribute|moved|study|export)/?")
SENT = re.compile(rf"gradio_api/(?:{QUEUED}|(?P<joined>queue/join)|cancel|reset)/?")  # POST
MCP = re.compile(r"gradio_api/mcp(?:/.*)?")
RELOAD = re.compile(r"gradio_api/dev/reload")
FILE_KEYS = {"path", "file", "component"}  # of what Gradio takes for a file, or a part made of one

BUSY = ("Many people are asking right now: try again in a moment. "
        "지금 많은 분이 묻고 있어요: 잠시 뒤에 다시 시도해 주세요.")
FAILED = ("Something went wrong here, and the server has noted it: try another text. "
          "문제가 생겨서 서버에 적어 두었어요: 다른 글로 해 보세요.")
UNREADABLE = 'The request cannot be read: send JSON such as {"data": ["a text"]}.'
UNKNOWN = "There is no such endpoint: choose predict or attention."
NO_FILES = "There are no files here: the page takes and gives none."
TOO_LARGE = f"The request has more than {LARGEST_REQUEST:,} bytes: send a shorter text."


class Refusal(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status, self.sentence = status, sentence


class RequestLimits:
    """ASGI middleware. `at_once` questions are worked on, MOST_WAITING wait, the next one is told
    that many people are asking; who leaves while waiting is not worked for."""

    def __init__(self, app: Callable, at_once: int, most_waiting: int = MOST_WAITING,
                 has_mcp: bool = False, reloads: bool = False) -> None:
        self.app, self.slots, self.most_waiting = app, asyncio.Semaphore(at_once), most_waiting
        self.has_mcp, self.reloads = has_mcp, reloads
        self.waiting = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = OneSentence(send)
        try:
            await self.take(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal.status, refusal.sentence)
        except Exception:
            if answer.has_begun:
                raise
            traceback.print_exc()
            await answer.refuse(500, FAILED)

    async def take(self, scope: Message, receive: Receive, answer: "OneSentence") -> None:
        """Pass on what is allowed: as it is, or with its body checked and in its turn."""
        route = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix("/")
        if self.has_mcp and MCP.fullmatch(route):
            body = await whole_body(receive)
            if body is not None:
                read_body(body)
                answer.has_begun = True  # MCP has its own form for errors
                await self.app(scope, first(body, receive), answer.send)
        elif scope["method"] in ("GET", "HEAD") and (
                READ.fullmatch(route) or (self.reloads and RELOAD.fullmatch(route))):
            await self.app(scope, receive, answer)
        elif scope["method"] == "POST" and (found := ASKED.fullmatch(route)
                                            or SENT.fullmatch(route)):
            body = await whole_body(receive)
            if body is None:
                return
            check_values(read_body(body), found.groupdict(), scope["app"].get_blocks().fns)
            if found.re is SENT:
                await self.app(scope, first(body, receive), answer)
            elif self.slots.locked() and self.waiting >= self.most_waiting:
                raise Refusal(503, BUSY)
            elif await self.has_slot(receive):
                try:
                    await self.app(scope, first(body, receive), answer)
                finally:
                    self.slots.release()
        else:
            raise Refusal(404, UNKNOWN)

    async def has_slot(self, receive: Receive) -> bool:
        """Wait for a slot; False when the visitor left before it came."""
        if not self.slots.locked():
            return await self.slots.acquire()
        slot = asyncio.ensure_future(self.slots.acquire())
        gone = asyncio.ensure_future(left(receive))
        self.waiting += 1
        try:
            await asyncio.wait({slot, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and slot.done():
                self.slots.release()
            return not gone.done()
        finally:
            self.waiting -= 1
            for unfinished in (slot, gone):
                unfinished.cancel()


class OneSentence:
    """A `send` with our headers, in which what Gradio or a bug leaves of an answer that failed
    becomes a sentence as well."""

    def __init__(self, send: Send) -> None:
        self.send, self.has_begun = send, False
        self.failed: Message | None = None  # how an answer that failed begins; its body waits
        self.body = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            if message["status"] >= 400:
                self.failed = message
                return
        elif self.failed is not None:
            self.body += message.get("body", b"")
            if message.get("more_body"):
                return
            if not has_sentence(self.body):
                await self.refuse(self.failed["status"], meaning(self.failed["status"]))
                return
            await self.send(self.failed)
            message = {"type": "http.response.body", "body": self.body}
        self.has_begun = True
        await self.send(message)

    async def refuse(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        self.has_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": [
            (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
            *HEADERS]})
        await self.send({"type": "http.response.body", "body": body})


def has_sentence(body: bytes) -> bool:
    """Whether a failed answer says what is wrong, as our handlers do."""
    try:
        return isinstance(json.loads(body)["error"], str)
    except (ValueError, KeyError, TypeError):
        return False


def meaning(status: int) -> str:
    """What the status of a failed answer means."""
    if status >= 500:
        return BUSY if status == 503 else FAILED
    return UNKNOWN if status in (404, 405) else UNREADABLE


def read_body(body: bytes) -> dict[str, Any]:
    """What is sent: an object in JSON, in which nothing could be taken for a file to fetch."""
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise Refusal(422, UNREADABLE) from None
    if not isinstance(given, dict):
        raise Refusal(422, UNREADABLE)
    check_no_files(given)
    return given


def check_no_files(value: Any, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise Refusal(422, UNREADABLE)
    if isinstance(value, dict) and FILE_KEYS & value.keys():
        raise Refusal(422, NO_FILES)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        check_no_files(one, depth + 1)


def check_values(given: Mapping[str, Any], route: Mapping[str, str | None],
                 events: Mapping[int, Any]) -> None:
    """Whether what is asked for exists and gets the values it needs. Gradio's queue is for the
    documented endpoints; the page's own events wait for their slot here."""
    name, number = route.get("asked") or route.get("queued"), given.get("fn_index")
    if name is None and not route.get("joined"):
        return  # cancel and reset name no event
    if number is not None and type(number) is not int:
        raise Refusal(422, UNREADABLE)
    event = (events.get(number) if number is not None
             else next((event for event in events.values() if event.api_name == name), None))
    if event is None or event.fn is None or not (event.queue or route.get("asked")):
        raise Refusal(404, UNKNOWN)
    if route.get("by_name"):
        needed = list(inspect.signature(event.fn).parameters)
        if given.keys() != set(needed):
            raise Refusal(422, f"Send {event.api_name} exactly these: {', '.join(needed)}.")
        return
    values = given.get("data")
    if not isinstance(values, list):
        raise Refusal(422, UNREADABLE)
    if len(values) < len(event.inputs):
        raise Refusal(422, f"{len(values)} of {len(event.inputs)} values were sent: "
                           f"{event.api_name} needs all of them.")


async def left(receive: Receive) -> None:
    """Returns when the visitor has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def whole_body(receive: Receive) -> bytes | None:
    """The body of a request; None when the visitor left before its end."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > LARGEST_REQUEST:
            raise Refusal(413, TOO_LARGE)
        if not message.get("more_body"):
            return bytes(body)


def first(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body again, and then what really comes."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()
    return again
