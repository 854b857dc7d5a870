"""The machine that serves: its files stay its own, no text leaves it, what it lacks is named."""

import http.client
import os
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from asking import TEXT, VIEW, ask, complaint, send

from bert.drawing import figures
from bert.page import downloads
from bert.page.limits import NO_FILES
from bert.page.visit import describe
from bert.studies import STUDIES

ROOT = Path(__file__).parent.parent

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


ROUTES = ("/", "/microscope/", "/microscope/fonts/", "/static/", "/assets/", "/svelte/", "/file=",
         "/file/", "/gradio_api/file=", "/gradio_api/file/", "/gradio_api/proxy=",
         "/gradio_api/stream/", "/gradio_api/custom_component/x/client/component/", "/pwa_icon/",
         "/gradio_api/deep_link?session_hash=", "/monitoring/", "/?deep_link=")
STEPS = ("../", "%2e%2e/", "..%2f", "%2e%2e%2f", "%252e%252e%252f", "..\\", "..%5c", "....//",
         "..;/", "%c0%ae%c0%ae/", "./../", "/../")
WANTED = {"etc/passwd": b"root:", "app.py": b"def one_sentence"}


@pytest.mark.parametrize("route", ROUTES)
def test_no_file_of_the_machine_is_given_away(server, route):
    count = 0
    for file, secret in WANTED.items():
        paths = [route + step * times + file for step in STEPS for times in (2, 3, 9)]
        for whole in (f"/{file}", str(ROOT / file), (ROOT / file).as_uri()):
            paths += [route + whole, route + urllib.parse.quote(whole, safe="")]
        for path in paths:
            status, content = fetch(server.port, path)
            assert secret not in content, path
            if not route.startswith(("/?", "/gradio_api/deep_link")) and path.strip("/.") != file:
                assert status >= 300, path
            count += 1
    assert count == 84


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
    assert complaint(server.address, "predict", file) == NO_FILES
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
        wanted = downloads.Wanted.checked("card", "png", VIEW, 2, 2)
        file = downloads.make(classifier(TEXT + " 😀"), wanted, describe(classifier))
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
                 "'/dev/null/nowhere'): name one with GRADIO_TEMP_DIR\n",
                 marks=pytest.mark.full),
    ("import os; os.environ['GRADIO_MCP_SERVER'] = 'True'; sys.modules['mcp'] = None",
     "app.py: GRADIO_MCP_SERVER needs a package: run `python -m pip install \"mcp<2\"`, then start "
     "again\n"),
    *(pytest.param(
        f"sys.modules[{name!r}] = None",
        f"app.py: {name} is missing: run `python -m pip install -r requirements.txt`, then start "
        "again\n", marks=[pytest.mark.full] * (name not in ("gradio", "torch")))
      for name in ("gradio", "torch", "numpy", "tokenizers", "safetensors"))])
def test_what_is_missing_is_named_with_what_to_do(before, sentence):
    code = f"import sys, runpy; {before}; runpy.run_path('app.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)
