"""How the app starts, what it serves, and what it says when it cannot."""

import asyncio
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asking import TEXT, VIEW, ask, complaint, event, post, send
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

import app
from bert.classifier import EmotionClassifier
from bert.page.frame import launch_options
from bert.page.limits import FAILED, UNKNOWN
from bert.page.model import Served

ROOT = Path(__file__).parent.parent.parent


# ---------------------------------------------------------------------------------- files


def test_scripts_styles_and_fonts_are_served(server):
    with urllib.request.urlopen(server.address) as page:
        linked = re.findall(r"<(microscope/[^>]+)>", page.headers["Link"])
    kinds = {path.rpartition(".")[2]: path for path in linked}
    assert sorted(kinds) == ["css", "js", "woff2"]
    for ending, kind in (("js", "javascript"), ("css", "css"), ("woff2", "font")):
        with urllib.request.urlopen(server.address + kinds[ending]) as reply:
            assert kind in reply.headers["Content-Type"]
            assert (reply.headers["Cache-Control"] or "").endswith("immutable") == (
                ending != "woff2")


def test_nothing_outside_the_page_folder_is_served(server):
    for path in ("microscope/../../app.py", "microscope/%2e%2e/%2e%2e/app.py",
                 f"gradio_api/file={ROOT / 'app.py'}"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.address + path)
        caught.value.close()
        assert caught.value.code in (403, 404)


def test_the_page_asks_no_other_server_for_anything():
    """A Space's frame is told the address; that is a message and no request."""
    page = ROOT / "assets" / "page"
    for path in (*page.rglob("*.js"), *page.rglob("*.css")):
        text = path.read_text(encoding="utf-8").replace('"https://huggingface.co"', "")
        assert "http://" not in text and "https://" not in text, path


# ---------------------------------------------------------------------------------- starting


def test_importing_the_app_loads_no_weights_and_opens_no_port():
    code = ("import sys, app, gradio; print(isinstance(app.demo, gradio.Blocks), "
            "app.demo.is_running, app.model._context, "
            "[name for name in ('transformers', 'matplotlib') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True False None []\n", done.stderr


def test_visitors_at_the_same_time_wait_for_one_loading(emotion_folder, monkeypatch):
    loaded: list[Path] = []
    load = EmotionClassifier.load
    monkeypatch.setattr(EmotionClassifier, "load",
                        lambda folder: loaded.append(folder) or load(folder))
    served = Served(emotion_folder)
    with ThreadPoolExecutor(8) as visitors:
        found = set(visitors.map(lambda _: served.classifier, range(8)))
    assert len(found) == 1 and loaded == [emotion_folder]


def test_it_starts_the_way_a_space_does_and_takes_the_next_free_port(serve, emotion_folder):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(emotion_folder, port=port, SYSTEM="spaces", SPACE_ID="a/b",
                       GRADIO_SERVER_NAME="0.0.0.0")
    assert f"port {port} is taken: using {server.port}" in server.said
    local = f"http://127.0.0.1:{server.port}/"
    assert ask(local, "predict", TEXT)["label"] == "achievement"


@pytest.mark.full
def test_with_gradio_app_py_a_changed_file_changes_the_running_page(emotion_folder, tmp_path):
    for name in ("app.py", "bert", "assets"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", "from gradio.cli import cli; cli()", "app.py", "--", "--checkpoint",
         emotion_folder, "--port", str(port)], cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert any("is at http" in line for line in process.stdout)
        address = f"http://127.0.0.1:{port}/"
        assert ask(address, "predict", TEXT)["label"] == "achievement"
        with urllib.request.urlopen(f"{address}gradio_api/dev/reload") as changes:
            text = (tmp_path / "app.py").read_text(encoding="utf-8")
            (tmp_path / "app.py").write_text(text.replace("Read the feeling", "Find the feeling"),
                                             encoding="utf-8")
            assert any(line == b"event: reload\n" for line in changes)
        assert ask(address, "predict", TEXT)["label"] == "achievement"
        with urllib.request.urlopen(f"{address}gradio_api/info") as reply:
            described = json.load(reply)["named_endpoints"]["/predict"]["description"]
        assert described.startswith("Find the feeling")
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the command and the app that it started
        process.communicate()


def test_it_serves_this_machine_only_and_shares_nothing(monkeypatch):
    for name in ("GRADIO_SERVER_NAME", "GRADIO_MCP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    assert app.build_parser().parse_args([]).host == "127.0.0.1"
    options = launch_options()
    assert [options[name] for name in ("share", "enable_monitoring", "mcp_server", "run_history")
            ] == [False] * 4


@pytest.mark.full
def test_nobody_is_measured_and_at_most_200_wait_in_the_queue():
    code = ("import app; print(app.demo.analytics_enabled, app.demo.api_open, "
            "app.demo._queue.max_size)")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "GRADIO_ANALYTICS_ENABLED": "True"})
    assert done.stdout == "False True 200\n", done.stderr


# ---------------------------------------------------------------------------------- command line


def test_host_and_port_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    monkeypatch.setenv("GRADIO_SERVER_PORT", "7999")
    arguments = app.build_parser().parse_args([])
    assert (arguments.host, arguments.port) == ("0.0.0.0", 7999)


@pytest.fixture
def other_model(monkeypatch):
    """A model of its own for a call that names another checkpoint."""
    monkeypatch.setattr(app, "model", Served())


@pytest.mark.parametrize("arguments, sentence", [
    (["--checkpoint", "nowhere"], "nowhere is not a folder: expected a checkpoint"),
    (["--port", "0"], "port 0 does not exist"),
    (["--port", "many"], "invalid int value: 'many'"),
    (["--listen"], "unrecognized arguments: --listen"),
])
def test_a_wrong_call_ends_with_one_line_and_code_2(call, other_model, arguments, sentence):
    done = call("app", *arguments)
    assert done.code == 2
    assert sentence in done.err and done.err.count("\n") == 1 and done.out == ""


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_a_host_that_is_not_here_ends_with_one_line_and_code_2(call, other_model, emotion_folder,
                                                              host):
    done = call("app", "--checkpoint", emotion_folder, "--host", host)
    assert done.code == 2
    assert host in done.err and done.err.count("\n") == 1


# ---------------------------------------------------------------------------------- bugs


PLANTED = """
import bert.page.visit

def broken(*values):
    raise RuntimeError("planted")

bert.page.visit.moved_shares = bert.page.visit.explained = broken
"""


def test_a_bug_is_a_neutral_sentence_for_the_visitor_and_a_traceback_in_the_log(
        serve, emotion_folder, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    server = serve(emotion_folder, PYTHONPATH=os.pathsep.join((str(tmp_path), str(ROOT))))
    told = json.dumps({"texts": [TEXT], "lang": "en"})
    assert complaint(server.address, "moved", TEXT) == FAILED
    assert post(server.address, "predict", [], told, fn_index=event("reply"))["error"] == FAILED
    assert ask(server.address, "predict", TEXT)["label"] == "achievement"
    server.process.terminate()
    log, _ = server.process.communicate()
    assert log.count("RuntimeError: planted") == 2 and "Traceback" in log
    assert TEXT not in log


# ---------------------------------------------------------------------------------- MCP


async def tools_and_answers(address: str) -> tuple[dict, list]:
    async with streamablehttp_client(f"{address}gradio_api/mcp/") as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = {tool.name: tool for tool in (await session.list_tools()).tools}
            return tools, [await session.call_tool("predict", {"text": TEXT}),
                           await session.call_tool("attention", {"text": TEXT, "layer": 9,
                                                                 "head": 1}),
                           await session.call_tool("export", {"text": TEXT})]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the client's own libraries
def test_the_documented_endpoints_are_tools_if_the_environment_asks_for_them(serve,
                                                                             emotion_folder):
    server = serve(emotion_folder, GRADIO_MCP_SERVER="True")
    with ThreadPoolExecutor(1) as stage:  # the browser's event loop may be in this thread
        tools, (predicted, refused, private) = stage.submit(
            lambda: asyncio.run(tools_and_answers(server.address))).result()
    assert sorted(tools) == ["attention", "predict"]
    assert tools["predict"].description.startswith("Read the feeling of a text")
    described = tools["attention"].inputSchema
    assert {name: (one["type"], one["description"])
            for name, one in described["properties"].items()} == {
        "text": ("string", "what somebody wrote; at most 5,000 characters are read"),
        "layer": ("integer", "the layer, counted from 1"),
        "head": ("integer", "the head, counted from 1")}
    assert described["required"] == ["text", "layer", "head"]
    assert "'label': 'achievement'" in predicted.content[0].text
    assert refused.isError
    assert refused.content[0].text == "layer 9 does not exist: choose 1 to 2"
    assert private.isError
    assert ask(server.address, "export", TEXT, "bars", "svg", VIEW)["name"].endswith(".svg")


def test_there_are_no_tools_unless_somebody_asks_for_them(server):
    assert send(server.address, "mcp/", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}',
                Accept="application/json, text/event-stream") == (404, {"error": UNKNOWN})


def test_the_page_itself_is_sent_compressed(server):
    asked = urllib.request.Request(server.address, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        page = gzip.decompress(reply.read()).decode()
    with urllib.request.urlopen(server.address) as reply:
        assert reply.headers["Content-Encoding"] is None
        assert len(reply.read().decode()) == len(page)
