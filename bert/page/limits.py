"""What every request passes before Gradio sees it: whether it is one of ours, its size, its slot.

A page without files has no use for Gradio's uploads, downloads, proxies and monitors. What is
allowed is listed; every other route is closed, so that nobody can read a file of this machine or
make it fetch something from another.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bert.errors import UserError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_REQUEST = 1_000_000  # bytes; several times the longest conversation
MOST_WAITING = 100           # questions that wait for a slot
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))
API = "(?:gradio_api/)?"
ENDPOINTS = "(?:predict|attention|attribute|moved|study|export)"
READ = re.compile(                 # GET and HEAD
    r"(?:|config|theme\.css|favicon\.ico|robots\.txt|manifest\.json|openapi\.json"
    r"|microscope/.*|assets/.*|static/.*|svelte/.*"
    rf"|{API}(?:info|startup-events|app_id|config|openapi\.json|heartbeat/[\w-]+|queue/data"
    rf"|call/{ENDPOINTS}/\w+|queue/status))")
ASKED = re.compile(rf"{API}(?:run|api)/{ENDPOINTS}/?")  # POST: the caller waits for the answer
SENT = re.compile(rf"{API}(?:call/{ENDPOINTS}(?:/v2)?|queue/join|cancel|reset)/?")  # POST, others
MCP = re.compile(rf"{API}mcp(?:/.*)?")
FILE_MARK = "gradio.FileData"      # of a value that Gradio takes for a file to fetch

BUSY = ("Many people are asking right now: try again in a moment. "
        "지금 많은 분이 묻고 있어요: 잠시 뒤에 다시 시도해 주세요.")
UNREADABLE = 'The request cannot be read: send JSON such as {"data": ["a text"]}.'
UNKNOWN = "There is no such endpoint: choose predict or attention."
NO_FILES = "There are no files here: the page takes and gives none."
TOO_LARGE = f"The request has more than {LARGEST_REQUEST:,} bytes: send a shorter text."


class RequestLimits:
    """ASGI middleware. `at_once` questions are worked on, MOST_WAITING wait, the next one is told
    that many people are asking; who leaves while waiting is not worked for."""

    def __init__(self, app: Callable, at_once: int, most_waiting: int = MOST_WAITING,
                 has_mcp: bool = False) -> None:
        self.app, self.most_waiting, self.has_mcp = app, most_waiting, has_mcp
        self.slots = asyncio.Semaphore(at_once)
        self.waiting = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = with_headers(send)
        root = scope.get("root_path", "")
        route = scope["path"].removeprefix(root).removeprefix("/")
        is_reading = scope["method"] in ("GET", "HEAD")
        if (is_reading and READ.fullmatch(route)) or (self.has_mcp and MCP.fullmatch(route)):
            await self.app(scope, receive, send)
        elif is_reading or not (ASKED.fullmatch(route) or SENT.fullmatch(route)):
            await refuse(send, 404, UNKNOWN)
        else:
            await self.take(scope, receive, send, waits=bool(ASKED.fullmatch(route)))

    async def take(self, scope: Message, receive: Receive, send: Send, waits: bool) -> None:
        """A request with a body: checked, and if the caller waits for an answer, in its turn."""
        try:
            body = await whole_body(receive)
            if body is None:
                return
            check_body(body)
        except UserError as error:
            await refuse(send, 413 if str(error) == TOO_LARGE else 422, str(error))
            return
        if not waits:
            await self.app(scope, first(body, receive), send)
        elif self.slots.locked() and self.waiting >= self.most_waiting:
            await refuse(send, 503, BUSY)
        elif await self.has_slot(receive):
            try:
                await self.app(scope, first(body, receive), send)
            finally:
                self.slots.release()

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


def check_body(body: bytes) -> None:
    """Refuse what is no JSON, and what Gradio would take for a file to fetch."""
    try:
        given = json.loads(body or b"{}")
    except ValueError:
        raise UserError(UNREADABLE) from None
    if not isinstance(given, dict):
        raise UserError(UNREADABLE)
    if names_a_file(given):
        raise UserError(NO_FILES)


def names_a_file(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("_type") == FILE_MARK or any(map(names_a_file, value.values()))
    return isinstance(value, list) and any(map(names_a_file, value))


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
            raise UserError(TOO_LARGE)
        if not message.get("more_body"):
            return bytes(body)


def first(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body again, and then what really comes."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()
    return again


def with_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
        await send(message)
    return send_more


async def refuse(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}, ensure_ascii=False).encode()
    await send({"type": "http.response.start", "status": status, "headers": [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
