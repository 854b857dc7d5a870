"""What the tests of the studies share."""

import csv
import io
import re
import urllib.parse

from bert.classifier import EmotionClassifier
from bert.page.downloads import make_study
from bert.studies.base import Study


def model_bytes(classifier: EmotionClassifier) -> dict[str, bytes]:
    """Every weight, to see whether one has changed."""
    return {name: value.numpy().tobytes() for name, value in classifier.model.state_dict().items()}


def sheet(study: Study, data: dict) -> list[list[str]]:
    """The rows of a study's spreadsheet."""
    content = make_study(study, data, "csv", "en").content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content)))


def assert_drawn(study: Study, data: dict) -> None:
    """The picture that leaves the page can be drawn in both languages."""
    for language in ("en", "ko"):
        file = make_study(study, data, "png", language)
        assert file.name == f"microscope-{study.name}.png"
        assert file.content.startswith(b"\x89PNG") and len(file.content) > 10_000


def address(view: str, text: str, **options: object) -> str:
    """The address of the page that shows a study of a text."""
    return urllib.parse.urlencode({"tab": view, "text": text, "lang": "en", **options})


def numbers_in(text: str) -> list[float]:
    """The decimal numbers that a person reads in a text."""
    return [float(number.replace("−", "-")) for number in re.findall(r"−?\d+\.\d+", text)]


def wait_for(page, view: str) -> None:
    """Wait until a study is drawn."""
    page.wait_for_selector(f'.study-frame[data-drawn="{view}"]:not(.waiting)')
