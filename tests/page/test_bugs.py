"""A bug on the page: one neutral sentence for the visitor, a traceback for who runs the server."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from asking import send

ROOT = Path(__file__).parent.parent.parent
BROKEN = """
import sys
from dataclasses import replace
from bert.studies import STUDIES
import app

def broken(context, text, options):
    raise ValueError("planted in a study")

STUDIES["lens"] = replace(STUDIES["lens"], run=broken)
app.main(sys.argv[1:])
"""


@pytest.fixture
def broken_server(emotion_folder: Path) -> Iterator[subprocess.Popen]:
    """The app with a bug in one study."""
    with subprocess.Popen(
            [sys.executable, "-u", "-c", BROKEN, "--checkpoint", str(emotion_folder), "--port",
             "18870"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True) as process:
        yield process
        process.kill()


def study(address: str, name: str) -> tuple[int, dict]:
    asked = {"data": ["The cat fell asleep on my lap", name, {}, ""]}
    return send(address, "run/study", json.dumps(asked).encode())


def test_a_bug_in_a_study_is_one_neutral_sentence_and_a_traceback_in_the_log(broken_server):
    line = next(line for line in broken_server.stdout if "is at http" in line)
    address = re.search(r"http://[\w.]+:\d+/", line)[0]
    status, reply = study(address, "lens")
    assert status == 500 and reply["error"].startswith("Something went wrong here")
    assert "planted" not in json.dumps(reply) and "Traceback" not in json.dumps(reply)
    status, reply = study(address, "ablation")  # the rest of the page goes on
    assert status == 200 and "error" not in reply
    broken_server.terminate()
    log = broken_server.stdout.read()
    assert "Traceback" in log and "ValueError: planted in a study" in log
