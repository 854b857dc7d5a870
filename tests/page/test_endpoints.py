"""What other programs and the page's own scripts ask."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from asking import TEXT, ask, complaint, is_sentence, post, send
from gradio_client import Client
from gradio_client.exceptions import AppError

from bert.emotions import KEYS
from bert.explain.relevance import relevance
from bert.explain.target import Target

ROOT = Path(__file__).parents[2]
OPTIONS = {"layer": 1, "head": 2, "lang": "ko", "link": "http://127.0.0.1/#text=x"}


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.address, verbose=False, analytics_enabled=False)
    yield client
    client.close()


# ---------------------------------------------------------------------------------- documented


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
    assert ask(server.address, "predict", TEXT) == client.predict(TEXT, api_name="/predict")


@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
@pytest.mark.parametrize("program", ["curl ", "python -c "])
def test_the_lines_of_the_readme_give_the_same(server, readme, program):
    lines = (ROOT / readme).read_text(encoding="utf-8").splitlines()
    command, = (line for line in lines if line.startswith(program))
    assert "http://127.0.0.1:7860" in command
    words = shlex.split(command.replace("http://127.0.0.1:7860", server.address.rstrip("/")))
    if words[0] == "python":
        words[0] = sys.executable
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found, = re.findall(r"""['"]label['"]: ?['"](\w+)['"]""", done.stdout)
    assert found == ask(server.address, "predict", "고마워")["label"]


@pytest.mark.parametrize(("route", "body"), [
    ("call/predict", {"data": [TEXT]}), ("call/v2/predict", {"text": TEXT})])
def test_the_commands_of_the_api_view_give_the_same(server, route, body):
    status, joined = send(server.address, route, json.dumps(body).encode())
    assert status == 200
    where = f"{server.address}gradio_api/call/predict/{joined['event_id']}"
    with urllib.request.urlopen(where) as reply:
        lines = reply.read().decode().splitlines()
    assert lines[0] == "event: complete"
    assert json.loads(lines[1].removeprefix("data: ")) == [ask(server.address, "predict", TEXT)]


def test_a_long_text_is_read_as_far_as_5000_characters(server):
    given = ask(server.address, "predict", "마라톤을 완주했다 " * 2_000)
    assert given["truncated"] is True
    assert given == ask(server.address, "predict", ("마라톤을 완주했다 " * 2_000)[:5_000])


def test_the_api_view_lists_the_two_documented_endpoints_and_nothing_else(server):
    with urllib.request.urlopen(f"{server.address}gradio_api/info") as reply:
        described = json.load(reply)
    assert sorted(described["named_endpoints"]) == ["/attention", "/predict"]
    assert described["unnamed_endpoints"] == {}
    assert all(endpoint["description"] for endpoint in described["named_endpoints"].values())


def test_the_api_view_describes_every_argument(server):
    with urllib.request.urlopen(f"{server.address}gradio_api/info") as reply:
        arguments = json.load(reply)["named_endpoints"]["/attention"]["parameters"]
    assert [(argument["parameter_name"], argument["python_type"]["type"],
             argument["python_type"]["description"]) for argument in arguments] == [
        ("text", "str", "what somebody wrote; at most 5,000 characters are read"),
        ("layer", "int", "the layer, counted from 1"), ("head", "int", "the head, counted from 1")]


# ---------------------------------------------------------------------------------- bad input


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
    ("attention", [TEXT, 0, 1], "layer 0 does not exist: choose 1 to 2"),
    ("attention", [TEXT, 1, 99], "head 99 does not exist: choose 1 to 2"),
    ("attention", [TEXT, "x", 1], "The layer is 'x': send a whole number, counted from 1."),
    ("attention", [TEXT, 1.5, 1], "The layer is 1.5: send a whole number, counted from 1."),
    ("attention", [TEXT, 1, True], "The head is True: send a whole number, counted from 1."),
    ("attention", [TEXT, 1, 1e400], "The head is inf: send a whole number, counted from 1."),
    ("moved", [7], "The text is a int: send a string."),
    ("attribute", [TEXT, "boredom"], "'boredom' is not a class"),
    ("attribute", [TEXT, ["joy"]], "The class is a list: send its key."),
    ("study", [TEXT, "secrets", {}], "There is no view 'secrets': choose one of forward"),
    ("export", [TEXT, "secrets", "png", OPTIONS], "There is no file of 'secrets'"),
    ("export", [TEXT, ["heatmap"], "png", OPTIONS], "There is no file of"),
    ("export", [TEXT, "bars", "exe", OPTIONS], "bars cannot be saved as 'exe'"),
    ("export", [TEXT, "numbers", "png", OPTIONS], "numbers cannot be saved as 'png'"),
    ("export", [TEXT, "lens", "exe", OPTIONS], "lens cannot be saved as 'exe'"),
    ("export", [TEXT, "bars", "png", "options"], "The options are a str: send an object."),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "layer": 9}], "layer '9' does not exist"),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "head": [1]}], "head '[1]' does not exist"),
    ("export", [TEXT, "bars", "png", {**OPTIONS, "fade": "x"}], "fade is 'x'"),
])
def test_bad_input_gets_one_sentence(server, name, values, sentence):
    error = complaint(server.address, name, *values)
    assert error.startswith(sentence) and is_sentence(error)


@pytest.mark.parametrize("body", [{}, {"texts": TEXT}, {"text": TEXT, "layer": 1}])
def test_a_call_with_other_names_is_told_which_ones(server, body):
    status, said = send(server.address, "call/v2/predict", json.dumps(body).encode())
    assert (status, said) == (422, {"error": "Send predict exactly these: text."})


def test_a_lone_surrogate_is_answered(server):
    assert "probabilities" in ask(server.address, "predict", "마라톤 \ud800")


@pytest.mark.parametrize("study", ["compare", "next_sentence"])
def test_the_second_text_is_limited_by_the_server(server, pretrained_folder, study):
    said = complaint(server.address, "study", TEXT, study, {"second": "a" * 5_001})
    assert said == "The text has 5,001 characters: at most 5,000 are read."


# ---------------------------------------------------------------------------------- of the page


def test_the_attribution_of_a_class_is_its_relevance(server, classifier):
    given = ask(server.address, "attribute", TEXT, "anger")
    expected = relevance(classifier, TEXT, Target(KEYS.index("anger")))
    assert given["values"] == pytest.approx(expected.tolist(), abs=1e-5)


def test_value_weighted_attention_of_every_head_is_sent(server, classifier):
    given = ask(server.address, "moved", TEXT)
    tokens = len(classifier(TEXT).tokens)
    assert given["shape"] == [2 * 2, tokens, tokens]


def test_a_checkpoint_without_classifier_shows_attention_and_says_so(serve, pretrained_folder):
    server = serve(pretrained_folder)
    given = ask(server.address, "attention", TEXT, 1, 1)
    assert len(given["weights"]) == len(given["tokens"])
    assert "no classifier" in complaint(server.address, "predict", TEXT)
    assert "no classifier" in post(server.address, "export", TEXT, "bars", "png", OPTIONS)["error"]
    assert ask(server.address, "export", TEXT, "card", "png", OPTIONS)["name"].endswith(".png")
