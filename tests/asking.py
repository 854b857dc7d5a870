"""One request to a running server, and whether what it says is a sentence."""

import gc
import json
import urllib.error
import urllib.request
from functools import cache
from typing import Any

from bert.page.limits import FAILED

TEXT = "드디어 마라톤을 완주했다"
OF_A_COPY = {"attribute": 2, "moved": 1, "study": 3, "export": 4}  # how many values come before
VIEW = {"layer": 1, "head": 1, "lang": "ko"}


def send(address: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    """One request below gradio_api, and its reply as JSON."""
    request = urllib.request.Request(f"{address}gradio_api/{path}", data=body,
                                     headers={"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def post(address: str, name: str, *values: Any, **more: Any) -> dict:
    """One plain POST: {"data": [...]} or {"error": "…"}; copies are asked only when named."""
    if name in OF_A_COPY and len(values) == OF_A_COPY[name]:
        values = (*values, "")
    return send(address, f"run/{name}", json.dumps({"data": values, **more}).encode())[1]


def ask(address: str, name: str, *values: Any) -> Any:
    return post(address, name, *values)["data"][0]


def complaint(address: str, name: str, *values: Any) -> str:
    return post(address, name, *values)["error"]


@cache
def event(name: str) -> int:
    """The number of an event of the page, as its browser sends it."""
    import app
    gc.collect()  # the event loops that Gradio leaves behind go here, not while a source is parsed
    return next(number for number, one in app.demo.fns.items() if one.api_name == name)


def play(address: str, name: str, *values: Any, **more: Any) -> list:
    """What the page gets when something happens on it."""
    return post(address, "predict", *values, fn_index=event(name), **more)["data"]


def is_sentence(said: Any) -> bool:
    """One line for people, not a look into the program."""
    return (isinstance(said, str) and 10 < len(said) < 600 and said.splitlines() == [said]
            and "Traceback" not in said and 'File "' not in said and said != FAILED)
