"""The server: its endpoints, its input checks, its command line."""

import base64
import io
import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError

import app
from bert.explain import attention as views
from bert.page import downloads as exports
from bert.studies.base import unpack

ROOT = Path(__file__).parent.parent
TEXT = "드디어 마라톤을 완주했다"
OPTIONS = {"layer": 1, "head": 2, "lang": "ko", "link": "http://127.0.0.1/?text=x"}


def post(address: str, name: str, *values, body: bytes | None = None) -> dict:
    """One plain POST: {"data": [...]} or {"error": "…"}."""
    request = urllib.request.Request(
        f"{address}gradio_api/run/{name}", headers={"Content-Type": "application/json"},
        data=json.dumps({"data": values}).encode() if body is None else body)
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def answer(address: str, name: str, *values) -> dict:
    return post(address, name, *values)["data"][0]


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.address, verbose=False, analytics_enabled=False)
    yield client
    client.close()


# ---------------------------------------------------------------------------------- endpoints


def test_predict_gives_what_the_command_gives(client, classifier):
    expected = classifier(TEXT).to_dict()
    given = client.predict(TEXT, api_name="/predict")
    assert list(given) == ["label", "confident", "probabilities", "tokens", "truncated"]
    assert given["label"] == "achievement"
    assert given["tokens"] == expected["tokens"]
    assert given["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)
    assert list(given["probabilities"]) == list(expected["probabilities"])


def test_attention_gives_exact_weights(client, classifier):
    given = client.predict(text=TEXT, layer=2, head=1, api_name="/attention")
    expected = classifier(TEXT)
    assert given["tokens"] == expected.tokens
    np.testing.assert_allclose(given["weights"], expected.attentions[1, 0], atol=1e-6)


def test_a_plain_post_gives_the_same(server, client):
    assert answer(server.address, "predict", TEXT) == client.predict(TEXT, api_name="/predict")


def test_the_api_view_lists_the_two_documented_endpoints_and_nothing_else(server):
    with urllib.request.urlopen(f"{server.address}gradio_api/info") as reply:
        described = json.load(reply)
    assert sorted(described["named_endpoints"]) == ["/attention", "/predict"]
    assert described["unnamed_endpoints"] == {}
    assert all(endpoint["description"] for endpoint in described["named_endpoints"].values())


def test_a_refusal_reaches_the_client_as_its_sentence(client):
    with pytest.raises(AppError, match="layer 3 does not exist: choose 1 to 2"):
        client.predict(TEXT, 3, 1, api_name="/attention")


@pytest.mark.parametrize("name, values, sentence", [
    ("predict", [""], "The text is empty"),
    ("predict", [" \n\u200b"], "The text is empty"),
    ("predict", [], "0 of 1 values were sent: predict needs all of them."),
    ("attention", [TEXT, 1], "2 of 3 values were sent: attention needs all of them."),
    ("predict", [None], "The text is a NoneType: send a string."),
    ("predict", [{"a": 1}], "The text is a dict: send a string."),
    ("predict", ["a" * 5_001], "The text has 5,001 characters: at most 5,000 are read."),
    ("attention", [TEXT, 0, 1], "layer 0 does not exist: choose 1 to 2"),
    ("attention", [TEXT, 1, 99], "head 99 does not exist: choose 1 to 2"),
    ("attention", [TEXT, "x", 1], "The layer is 'x': send a whole number, counted from 1."),
    ("attention", [TEXT, 1.5, 1], "The layer is 1.5: send a whole number, counted from 1."),
    ("attention", [TEXT, 1, True], "The head is True: send a whole number, counted from 1."),
    ("attention", [TEXT, 1, 1e400], "The head is inf: send a whole number, counted from 1."),
    ("look", [7], "The text is a int: send a string."),
    ("attribute", [TEXT, "boredom"], "'boredom' is not a class"),
    ("attribute", [TEXT, ["joy"]], "The class is a list: send its key."),
    ("export", [TEXT, "secrets", "png", OPTIONS], "There is no file of 'secrets'"),
    ("export", [TEXT, ["heatmap"], "png", OPTIONS], "There is no file of"),
    ("export", [TEXT, "bars", "exe", OPTIONS], "bars cannot be saved as 'exe'"),
    ("export", [TEXT, "numbers", "png", OPTIONS], "numbers cannot be saved as 'png'"),
    ("export", [TEXT, "bars", "png", "options"], "The options are a str: send an object."),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "layer": 9}], "layer '9' does not exist"),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "head": [1]}], "head '[1]' does not exist"),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "fade": "x"}], "fade is 'x'"),
])
def test_bad_input_gets_one_sentence(server, name, values, sentence):
    body = json.dumps({"data": values}).encode()
    error = post(server.address, name, body=body)["error"]
    assert error.startswith(sentence)
    assert "Traceback" not in error and "\n" not in error


def test_a_lone_surrogate_is_answered(server):
    body = json.dumps({"data": ["마라톤 \ud800"]}).encode()
    assert "probabilities" in post(server.address, "predict", body=body)["data"][0]


def test_the_page_gets_everything_it_draws_in_one_answer(server, classifier):
    given = answer(server.address, "look", TEXT)
    expected = classifier(TEXT)
    assert given["probabilities"] == pytest.approx(expected.probabilities.tolist(), abs=1e-6)
    assert given["care"] is False
    assert [item["key"] for item in given["model"]["classes"]] == list(classifier.keys)
    assert given["model"]["hash"] == classifier.checkpoint.digest()
    matrices = unpack(given["matrices"])
    assert matrices.shape == (2 * 2 + 1, len(given["pieces"]), len(given["pieces"]))
    np.testing.assert_allclose(matrices[3], expected.attentions[1, 1], atol=0.5 / 255 + 1e-5)


def test_a_long_text_is_cut_and_says_where(server, classifier):
    given = answer(server.address, "look", "마라톤을 완주했다 " * 60)
    assert given["truncated"]
    assert len(given["pieces"]) == classifier.config.max_position_embeddings
    assert given["text"].startswith(given["read"])


def test_a_checkpoint_without_classifier_shows_attention_and_says_so(serve, pretrained_folder):
    server = serve(pretrained_folder)
    given = answer(server.address, "look", TEXT)
    assert given["probabilities"] == [] and given["model"]["has_classifier"] is False
    assert len(answer(server.address, "attention", TEXT, 1, 1)["weights"]) == len(given["pieces"])
    assert "no classifier" in post(server.address, "predict", TEXT)["error"]
    assert "no classifier" in post(server.address, "export", TEXT, "bars", "png", OPTIONS)["error"]
    assert answer(server.address, "export", TEXT, "card", "png", OPTIONS)["name"].endswith(".png")


# ---------------------------------------------------------------------------------- files


def exported(server, what: str, ending: str, text: str = TEXT, **options) -> bytes:
    file = answer(server.address, "export", text, what, ending, {**OPTIONS, **options})
    assert re.fullmatch(rf"microscope-{what}[\w-]*\.{ending}", file["name"])
    return base64.b64decode(file["data"])


@pytest.mark.parametrize("what", exports.PICTURES)
def test_every_view_is_drawn_as_png_svg_and_pdf(server, what):
    assert exported(server, what, "png").startswith(b"\x89PNG\r\n\x1a\n")
    ElementTree.fromstring(exported(server, what, "svg"))
    assert exported(server, what, "pdf").startswith(b"%PDF-")


def test_pictures_survive_strange_texts(server):
    strange = "$\\foo$ <b> 😀\u202e שלום \u0301 #! " + "가" * 300
    for what in exports.PICTURES:
        assert exported(server, what, "png", strange, lang="en").startswith(b"\x89PNG")


def test_the_same_picture_is_drawn_from_the_same_text(server):
    assert exported(server, "card", "svg") == exported(server, "card", "svg")


def test_every_picture_of_attention_follows_the_colour_scale(server):
    changed = {what for what in exports.PICTURES
               if exported(server, what, "png", head="mean") != exported(
                   server, what, "png", head="mean", stretch=True)}
    assert changed == {*exports.PICTURES} - {"bars"}


def test_csv_holds_exact_numbers(server, classifier):
    rows = exported(server, "numbers", "csv").decode("utf-8-sig").splitlines()
    prediction = classifier(TEXT)
    assert rows[0].split(",")[1:] == prediction.tokens
    found = np.array([[float(cell) for cell in row.split(",")[1:]] for row in rows[1:]])
    np.testing.assert_allclose(found, prediction.attentions[0, 1], atol=1e-6)


def test_csv_cells_are_never_formulas(server):
    rows = exported(server, "numbers", "csv", "=1+1 @home").decode("utf-8-sig").splitlines()
    assert all(not row.startswith(("=", "+", "-", "@")) for row in rows)


def test_npz_holds_every_head(server, classifier):
    packed = np.load(io.BytesIO(exported(server, "numbers", "npz")))
    np.testing.assert_allclose(packed["attentions"], classifier(TEXT).attentions, atol=1e-6)
    assert packed["tokens"].tolist() == classifier(TEXT).tokens


def test_json_holds_the_answer_and_the_view(server, classifier):
    found = json.loads(exported(server, "numbers", "json", layer="rollout", head="mean",
                                words=True, hide_special=True))
    prediction = classifier(TEXT)
    view = views.shown(prediction.encoding, views.rollout(prediction.attentions), True, True)
    assert found["view"]["tokens"] == view.tokens == TEXT.split()
    np.testing.assert_allclose(found["view"]["weights"], view.weights, atol=1e-6)
    assert found["checkpoint"]["hash"] == classifier.checkpoint.digest()
    assert found["label"] == "achievement"


# ---------------------------------------------------------------------------------- the page


def test_scripts_styles_and_fonts_are_served(server):
    for name, kind in (("main.js", "javascript"), ("style.css", "css"),
                       ("fonts/MicroscopeGothic.woff2", "font")):
        with urllib.request.urlopen(f"{server.address}microscope/{name}") as reply:
            assert kind in reply.headers["Content-Type"]
            assert reply.headers["Cache-Control"] == "no-cache"


def test_nothing_outside_the_page_folder_is_served(server):
    for path in ("microscope/../../app.py", "microscope/%2e%2e/%2e%2e/app.py",
                 f"gradio_api/file={ROOT / 'app.py'}"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.address + path)
        caught.value.close()
        assert caught.value.code in (403, 404)


def test_the_page_asks_no_other_server_for_anything():
    for path in (*(ROOT / "assets" / "page").rglob("*.js"), ROOT / "assets" / "page" / "style.css"):
        assert "http://" not in path.read_text(encoding="utf-8")
        assert "https://" not in path.read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------- command line


def test_the_app_builds_with_a_fake_classifier_and_without_heavy_libraries():
    code = ("import sys, app; print(type(app.build_demo(object())).__name__, "
            "[name for name in ('transformers', 'matplotlib') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "Page []\n", done.stderr


def test_it_starts_the_way_a_space_does_and_takes_the_next_free_port(serve, emotion_folder):
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(emotion_folder, port=port, SYSTEM="spaces", SPACE_ID="a/b",
                       GRADIO_SERVER_NAME="0.0.0.0")
    assert f"port {port} is taken: using {server.port}" in server.said
    local = f"http://127.0.0.1:{server.port}/"
    assert answer(local, "predict", TEXT)["label"] == "achievement"


def test_host_and_port_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("GRADIO_SERVER_NAME", "0.0.0.0")
    monkeypatch.setenv("GRADIO_SERVER_PORT", "7999")
    arguments = app.build_parser().parse_args([])
    assert (arguments.host, arguments.port) == ("0.0.0.0", 7999)


@pytest.mark.parametrize("arguments, sentence", [
    (["--checkpoint", "nowhere"], "nowhere is not a folder: expected a checkpoint"),
    (["--port", "0"], "port 0 does not exist"),
    (["--port", "many"], "invalid int value: 'many'"),
    (["--listen"], "unrecognized arguments: --listen"),
])
def test_a_wrong_call_ends_with_one_line_and_code_2(call, emotion_folder, arguments, sentence):
    done = call("app", *arguments)
    assert done.code == 2
    assert sentence in done.err and done.err.count("\n") == 1 and done.out == ""


def test_an_unknown_host_ends_with_one_line_and_code_2(call, emotion_folder):
    done = call("app", "--checkpoint", emotion_folder, "--host", "no.such.host.invalid")
    assert done.code == 2
    assert "no.such.host.invalid" in done.err and done.err.count("\n") == 1


def test_a_foreign_address_ends_with_one_line_and_code_2(call, emotion_folder):
    done = call("app", "--checkpoint", emotion_folder, "--host", "192.0.2.1")
    assert done.code == 2
    assert "192.0.2.1" in done.err and done.err.count("\n") == 1
