"""The half of bert bench that needs servers: how soon the app starts, answers, and for how many.

The peers are an empty Gradio app that imports torch (start), tests/plain_app.py (page, load) and
BertViz (bytes). Every server is a process of its own on a free port of this machine.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert.classifier import EmotionClassifier
from bert.commands.browser import browser
from bert.commands.measuring import ROOT, Bench, Comparison, needs, shuffled_words, text_of
from bert.errors import UserError

APP, PLAIN_APP = ROOT / "app.py", ROOT / "tests" / "plain_app.py"
EMPTY_APP = "import gradio, torch\nwith gradio.Blocks() as demo: pass\ndemo.launch(ssr_mode=False)"
PLAIN = "gr.Interface, pipeline, pyplot"
PATIENCE = 600          # seconds: a limit for a hang
PAGE_TOKENS = (16, 64)
LONG = 512              # tokens: too many for the plain app and for BertViz
VISITORS, LOAD_SECONDS, LOAD_TOKENS = 50, 30, (8, 16, 24, 32, 48)


# ---------------------------------------------------------------------------------- servers


class Server:
    """A Gradio app in a process of its own; `seconds` is how long its first page took."""

    def __init__(self, *command: str | Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/"
        self.complaints = tempfile.TemporaryFile()
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=self.complaints, env={**os.environ, "GRADIO_SERVER_PORT": str(port),
                                         "GRADIO_ANALYTICS_ENABLED": "False"})
        while not self._answers():
            if self.process.poll() is not None or time.perf_counter() - began > PATIENCE:
                reason = self._last_words()
                self.stop()
                raise UserError(f"{Path(command[0]).name} did not start: {reason}")
            time.sleep(0.02)
        self.seconds = time.perf_counter() - began

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.address, timeout=PATIENCE) as page:
                page.read()
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _last_words(self) -> str:
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no reason given"

    def megabytes(self) -> float:
        """Memory that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status")
        if status.is_file():
            return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(self.process.pid)],
                               capture_output=True, check=True)
        return int(shown.stdout) / 1024

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.complaints.close()


@contextmanager
def served(*command: str | Path) -> Iterator[Server]:
    server = Server(*command)
    try:
        yield server
    finally:
        server.stop()


# ---------------------------------------------------------------------------------- start


def bench_start(bench: Bench) -> Iterator[Comparison]:
    """From the command to the first page, and the memory held afterwards."""
    commands = ((APP, "--checkpoint", bench.checkpoint.resolve()), ("-c", EMPTY_APP))
    seconds: tuple[list, list] = ([], [])
    memory: tuple[list, list] = ([], [])
    for number in range(bench.rounds(5)):
        for place in (0, 1) if number % 2 == 0 else (1, 0):
            with served(*commands[place]) as server:
                seconds[place].append(server.seconds)
                memory[place].append(server.megabytes())
    peer = "an empty Gradio app with torch"
    yield Comparison("start", "python app.py to the first page", peer, "s", *seconds, "≤ 1.30")
    yield Comparison("start", "memory of the idle app", peer, "MB", *memory, "≤ 1.20")


# ---------------------------------------------------------------------------------- page

# Wait until every picture on the screen is another one than now; the clock starts at the event.
UNTIL_PAINTED = """([event, source, patience]) => {
  const pictures = new Function(`return ${source}`);
  const before = pictures();
  window.painted = new Promise((resolve) => addEventListener(event, (start) => {
    const look = () => {
      const now = pictures();
      const isNew = now.length === before.length && now.every((one, i) => one && one !== before[i]);
      if (!isNew) requestAnimationFrame(look);
      else requestAnimationFrame(() => setTimeout(
        () => resolve(performance.now() - start.timeStamp)));
    };
    requestAnimationFrame(look);
    setTimeout(() => resolve(null), patience);
  }, { capture: true, once: true }));
}"""


class Visit:
    """A page in the browser; each action gives the milliseconds until its result was painted."""

    ready = text_box = answer_pictures = layer_pictures = layer_event = ""

    def __init__(self, browser: Any, address: str) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.set_default_timeout(PATIENCE * 1000)
        self.requests, self.bytes = 0, 0
        wire = self.page.context.new_cdp_session(self.page)
        wire.send("Network.enable")
        wire.on("Network.requestWillBeSent", self._count_request)
        wire.on("Network.loadingFinished", self._count_bytes)
        self.page.goto(address)
        self.page.wait_for_selector(self.ready)

    def _count_request(self, event: dict) -> None:
        """What the page asks for; the browser itself asks again for the icon of a new address."""
        asked = event["request"]["url"]
        self.requests += not asked.startswith("data:") and not asked.endswith("/favicon.ico")

    def _count_bytes(self, event: dict) -> None:
        self.bytes += event["encodedDataLength"]

    def enter(self, text: str) -> float:
        """Send a text with Enter."""
        self.page.fill(self.text_box, text)
        self._watch("keydown", self.answer_pictures)
        self.page.press(self.text_box, "Enter")
        return self._painted()

    def change_layer(self, layer: int) -> float:
        """Look at another layer."""
        self._watch(self.layer_event, self.layer_pictures)
        self.choose_layer(layer)
        return self._painted()

    def choose_layer(self, layer: int) -> None:
        raise NotImplementedError

    def _watch(self, event: str, pictures: str) -> None:
        self.page.evaluate(UNTIL_PAINTED, [event, pictures, PATIENCE * 1000])
        self.requests, self.bytes = 0, 0

    def _painted(self) -> float:
        milliseconds = self.page.evaluate("window.painted")
        if milliseconds is None:
            raise UserError(f"{self.page.url} painted no new picture in {PATIENCE} s")
        return milliseconds


class OurVisit(Visit):
    ready = ".frame[data-drawn]"
    text_box = "#your-text textarea"
    answer_pictures = layer_pictures = '[document.querySelector(".frame").dataset.drawn]'
    layer_event = "change"

    def enter(self, text: str) -> float:
        """The reply of the chat follows the picture; the next measurement waits for it."""
        replies = self.page.locator("#chat .bot-row")
        before = replies.count()
        painted = super().enter(text)
        replies.nth(before).wait_for()
        return painted

    def choose_layer(self, layer: int) -> None:
        self.page.select_option("select.choose-layer", str(layer))


class PlainVisit(Visit):
    """The layer's number is typed before the clock starts at the button."""

    ready = "button.primary"
    text_box = "textarea, input[type=text]"
    answer_pictures = ('[...document.querySelectorAll("[data-testid=matplotlib] img")]'
                       '.map((image) => image.complete && image.src)')
    layer_pictures = answer_pictures + ".slice(1)"
    layer_event = "click"

    def choose_layer(self, layer: int) -> None:
        self.page.fill("input[type=number] >> nth=0", str(layer))
        self.page.click("button.primary")


def bertviz_bytes(classifier: EmotionClassifier, text: str) -> dict[str, int]:
    """The size of BertViz's two views of a text, as HTML."""
    from bertviz import head_view, model_view
    encoding, attentions = classifier.attentions(text)
    layers = [torch.from_numpy(layer)[None] for layer in attentions]
    with warnings.catch_warnings(category=ResourceWarning, action="ignore"):  # leaves files open
        return {f"BertViz, {view.__name__}": len(view(
            layers, encoding.pieces, html_action="return").data.encode())
            for view in (model_view, head_view)}


def bench_page(bench: Bench) -> Iterator[Comparison]:
    """From Enter, or from the choice of a layer, to the picture in Chromium."""
    needs("playwright", "transformers", "bertviz", "IPython")
    classifier = bench.classifier()
    if classifier.config.num_hidden_layers < 2:
        raise UserError(f"{bench.checkpoint} has one layer: there is no other to choose")
    sizes = [n for n in PAGE_TOKENS if n <= classifier.config.max_position_embeddings]
    checkpoint = bench.checkpoint.resolve()
    with (browser() as chromium, served(APP, "--checkpoint", checkpoint) as our_server,
          served(PLAIN_APP, checkpoint) as plain_server):
        visits = (OurVisit(chromium, our_server.address + "#layer=1"),
                  PlainVisit(chromium, plain_server.address))
        first_pictures(visits[1])
        other_layer = cycle((2, 1))
        for tokens in sizes:
            entered: tuple[list[float], list[float]] = ([], [])
            layers: tuple[list[float], list[float]] = ([], [])
            requests: tuple[list[int], list[int]] = ([], [])
            our_bytes: list[int] = []
            for number in range(bench.rounds(12)):
                text = text_of(classifier, tokens, shuffled_words(number + 1))
                layer = next(other_layer)
                for place in (0, 1) if number % 2 == 0 else (1, 0):
                    visit = visits[place]
                    entered[place].append(visit.enter(text))
                    if place == 0:
                        our_bytes.append(visit.bytes)
                    layers[place].append(visit.change_layer(layer))
                    requests[place].append(visit.requests)
            yield Comparison("page", f"Enter to bars and heatmap, {tokens} tokens", PLAIN, "ms",
                             *entered, "≤ 0.30")
            yield Comparison("page", f"another layer to its heatmap, {tokens} tokens", PLAIN, "ms",
                             *layers, "≤ 0.10")
            yield Comparison("page", f"requests for another layer, {tokens} tokens", PLAIN,
                             "requests", *requests, "= 0")
        for peer, size in bertviz_bytes(classifier, text).items():
            yield Comparison("page", f"bytes to the browser for one answer, {sizes[-1]} tokens",
                             peer, "bytes", our_bytes, [size] * len(our_bytes),
                             "≤ 0.25" if peer == "BertViz, model_view" else "")
    if classifier.config.max_position_embeddings >= LONG and not bench.quick:
        yield from long_text(bench, classifier)


def long_text(bench: Bench, classifier: EmotionClassifier) -> Iterator[Comparison]:
    """A text as long as BERT reads, beside what its network and its numbers take by themselves."""
    entered, passes, layers, sizes = [], [], [], []
    with browser() as chromium, served(APP, "--checkpoint", bench.checkpoint.resolve()) as server:
        visit = OurVisit(chromium, server.address + "#layer=1")
        idle = server.megabytes()
        for number in range(bench.rounds(3)):
            text = text_of(classifier, LONG, shuffled_words(number + 1))
            began = time.perf_counter()
            weights = classifier.attentions(text)[1]
            passes.append(1000 * (time.perf_counter() - began))
            entered.append(visit.enter(text))
            sizes.append(visit.bytes)
            layers.append(visit.change_layer(2 - number % 2))
        memory = server.megabytes()
    yield Comparison("page", f"Enter to bars and heatmap, {LONG} tokens", "one pass forward", "ms",
                     entered, passes)
    yield Comparison("page", f"another layer to its heatmap, {LONG} tokens", "one pass forward",
                     "ms", layers, passes)
    yield Comparison("page", f"bytes to the browser for one answer, {LONG} tokens",
                     "its weights as 32-bit numbers", "bytes", sizes, [weights.nbytes] * len(sizes))
    yield Comparison("page", f"memory of the app after {LONG} tokens", "the same app before", "MB",
                     [memory], [idle])


def first_pictures(visit: PlainVisit) -> None:
    """The plain page has no pictures to compare with before its first answer."""
    visit.page.fill(visit.text_box, "first")
    visit.page.press(visit.text_box, "Enter")
    visit.page.wait_for_function(f"{visit.answer_pictures}.filter(Boolean).length === 2")


# ---------------------------------------------------------------------------------- load


@dataclass(frozen=True)
class Load:
    """What a crowd of visitors got."""

    waits: list[float]  # seconds, one for each answer
    failed: int
    seconds: float      # until the last answer


def ask_ours(address: str) -> Any:
    """As the page asks: bars and attention, then the reply of the chat with the coloured words."""
    with urllib.request.urlopen(f"{address}config") as config:
        numbers = {event["api_name"]: event["id"] for event in json.load(config)["dependencies"]}

    async def post(client: Any, name: str, *values: Any) -> list:
        reply = await client.post("gradio_api/run/predict",
                                  json={"data": values, "fn_index": numbers[name]})
        return reply.json()["data"]

    async def ask(client: Any, text: str) -> None:
        (chat, _), (_, visit, _) = await asyncio.gather(
            post(client, "add_bubble", text, [], ""), post(client, "say", text, ""))
        chat, _ = await post(client, "reply", chat, visit)
        if len(chat) != 2:
            raise UserError("no reply")
    return ask


async def ask_plain(client: Any, text: str) -> None:
    """As Gradio's page asks: join the queue, listen to the events."""
    reply = await client.post("gradio_api/call/look", json={"data": [text, 1, 1]})
    async with client.stream("GET", f"gradio_api/call/look/{reply.json()['event_id']}") as events:
        async for line in events.aiter_lines():
            if line == "event: complete":
                return
            if line == "event: error":
                break
    raise UserError("no answer")


async def crowd(ask: Any, address: str, texts: Sequence[str], visitors: int,
                seconds: float) -> Load:
    """Visitors who each send a text as soon as the last one is answered."""
    import httpx
    waits, failed, turns = [], 0, count()
    began = time.perf_counter()

    async def visitor() -> None:
        nonlocal failed
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
            while time.perf_counter() - began < seconds:
                asked = time.perf_counter()
                try:
                    await ask(client, texts[next(turns) % len(texts)])
                except (httpx.HTTPError, ValueError, KeyError):
                    failed += 1
                else:
                    waits.append(time.perf_counter() - asked)

    await asyncio.gather(*(visitor() for _ in range(visitors)))
    if not waits:
        raise UserError(f"{address} answered none of {failed} requests")
    return Load(waits, failed, time.perf_counter() - began)


def bench_load(bench: Bench) -> Iterator[Comparison]:
    """Many visitors at once, first at one app, then at the other."""
    needs("transformers", "httpx")
    classifier = bench.classifier()
    texts = [text_of(classifier, LOAD_TOKENS[seed % len(LOAD_TOKENS)], shuffled_words(seed))
             for seed in range(8 if bench.quick else 60)]
    visitors, seconds = (4, 2) if bench.quick else (VISITORS, LOAD_SECONDS)
    checkpoint = bench.checkpoint.resolve()
    loads: tuple[list[Load], list[Load]] = ([], [])
    with (served(APP, "--checkpoint", checkpoint) as our_server,
          served(PLAIN_APP, checkpoint) as plain_server):
        sides = ((ask_ours(our_server.address), our_server.address),
                 (ask_plain, plain_server.address))
        for ask, address in sides:
            asyncio.run(crowd(ask, address, texts, 2, 1))  # the first answers are slower
        before = our_server.megabytes()
        for number in range(bench.rounds(3)):
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                ask, address = sides[place]
                loads[place].append(asyncio.run(crowd(ask, address, texts, visitors, seconds)))
        after = our_server.megabytes()
    who = f"{visitors} visitors for {seconds} s"
    ours, theirs = ([len(load.waits) / load.seconds for load in side] for side in loads)
    yield Comparison("load", f"answers, {who}", PLAIN, "/s", ours, theirs, "≥ 4.00")
    ours, theirs = ([float(np.quantile(load.waits, 0.95)) for load in side] for side in loads)
    yield Comparison("load", f"wait of the slowest twentieth, {who}", PLAIN, "s", ours, theirs,
                     "≤ 0.25")
    yield Comparison("load", f"requests without an answer, {who}", "all its requests", "requests",
                     [load.failed for load in loads[0]],
                     [load.failed + len(load.waits) for load in loads[0]], "= 0")
    yield Comparison("load", f"memory after {who}", "the same before", "MB", [after], [before])
