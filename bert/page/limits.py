"""What every request passes before Gradio sees it: its size, its turn, and one sentence if refused.

A page without files has no use for Gradio's uploads, downloads and proxies: those doors are closed,
so that nobody can read a file of this machine or make it fetch something from another.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from bert.errors import UserError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

LARGEST_REQUEST = 1_000_000  # bytes; several times the longest text, or a visitor's lessons
MOST_WAITING = 100           # questions that wait for their turn
QUESTIONS = ("run/", "api/")  # doors at which the caller waits for the answer
CLOSED = ("file", "proxy", "upload", "stream", "component_server", "process_recording", "vibe",
          "undo-vibe", "run-history", "deep_link")
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"same-origin"))

BUSY = ("Many people are asking right now: try again in a moment. "
        "지금 많은 분이 묻고 있어요: 잠시 뒤에 다시 시도해 주세요.")
NO_FILES = "There are no files here: the page takes and gives none."
TOO_LARGE = f"The request has more than {LARGEST_REQUEST:,} bytes: send a shorter text."


class Gate:
    """ASGI middleware. `at_once` questions are worked on, MOST_WAITING wait, the next one is told
    that many people are asking; who leaves while waiting is not worked for."""

    def __init__(self, app: Callable, at_once: int, most_waiting: int = MOST_WAITING) -> None:
        self.app, self.most_waiting = app, most_waiting
        self.turns = asyncio.Semaphore(at_once)
        self.waiting = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = with_headers(send)
        door = scope["path"].partition("/gradio_api/")[2]
        if door.startswith(CLOSED):
            await refuse(send, 404, NO_FILES)
            return
        if scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        try:
            body = await whole_body(receive)
        except UserError as error:
            await refuse(send, 413, str(error))
            return
        if body is None:
            return
        if not door.startswith(QUESTIONS):
            await self.app(scope, first(body, receive), send)
        elif self.turns.locked() and self.waiting >= self.most_waiting:
            await refuse(send, 503, BUSY)
        elif await self.has_turn(receive):
            try:
                await self.app(scope, first(body, receive), send)
            finally:
                self.turns.release()

    async def has_turn(self, receive: Receive) -> bool:
        """Wait for a turn; False when the visitor left before it came."""
        if not self.turns.locked():
            return await self.turns.acquire()
        turn = asyncio.ensure_future(self.turns.acquire())
        gone = asyncio.ensure_future(left(receive))
        self.waiting += 1
        try:
            await asyncio.wait({turn, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and turn.done():
                self.turns.release()
            return not gone.done()
        finally:
            self.waiting -= 1
            for unfinished in (turn, gone):
                unfinished.cancel()


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
