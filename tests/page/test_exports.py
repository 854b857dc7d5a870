"""Files that leave the page, asked for as its scripts ask."""

import base64
import io
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from asking import TEXT, ask

from bert.explain import attention as views
from bert.page import downloads
from bert.studies import STUDIES

OPTIONS = {"layer": 1, "head": 2, "lang": "ko", "link": "http://127.0.0.1/#text=x"}


def exported(server, what: str, ending: str, text: str = TEXT, **options) -> bytes:
    file = ask(server.address, "export", text, what, ending, {**OPTIONS, **options})
    assert re.fullmatch(rf"microscope-{what}[\w-]*\.{ending}", file["name"])
    return base64.b64decode(file["data"])


@pytest.mark.parametrize("what", [*downloads.PICTURES, *STUDIES])
def test_every_view_is_drawn_as_png_svg_and_pdf(server, pretrained_folder, what):
    assert exported(server, what, "png").startswith(b"\x89PNG\r\n\x1a\n")
    ElementTree.fromstring(exported(server, what, "svg"))
    assert exported(server, what, "pdf").startswith(b"%PDF-")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_gives_its_numbers(server, pretrained_folder, name):
    assert json.loads(exported(server, name, "json"))
    rows = exported(server, name, "csv").decode("utf-8-sig").splitlines()
    assert rows[0] and (len(rows) > 1 or name == "report")  # the tiny model has no metrics


def test_pictures_survive_strange_texts(server):
    strange = "$\\foo$ <b> 😀\u202e שלום \u0301 #! " + "가" * 300
    for what in downloads.PICTURES:
        assert exported(server, what, "png", strange, lang="en").startswith(b"\x89PNG")


def test_the_same_picture_is_drawn_from_the_same_text(server):
    assert exported(server, "card", "svg") == exported(server, "card", "svg")


def test_every_picture_of_attention_follows_the_colour_scale(server):
    changed = {what for what in downloads.PICTURES
               if exported(server, what, "png", head="mean") != exported(
                   server, what, "png", head="mean", stretch=True)}
    assert changed == {*downloads.PICTURES} - {"bars"}


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
