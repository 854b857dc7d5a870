"""The README's front matter, as a Hugging Face Space reads it."""

from pathlib import Path

import pytest
from huggingface_hub import RepoCard

ROOT = Path(__file__).parent.parent
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


@pytest.fixture(scope="module")
def space() -> dict:
    return RepoCard.load(ROOT / "README.md").data.to_dict()


def test_the_space_runs_the_pinned_gradio(space):
    pins = dict(line.split("==") for line in (ROOT / "requirements.txt").read_text().split())
    assert space["sdk"] == "gradio"
    assert space["sdk_version"] == pins["gradio"]
    assert space["python_version"] in ("3.11", "3.12", "3.13")


def test_the_space_starts_a_file_that_exists(space):
    assert (ROOT / space["app_file"]).is_file()


def test_the_space_describes_itself_within_the_limits(space):
    assert 0 < len(space["short_description"]) <= 60
    assert {space["colorFrom"], space["colorTo"]} <= COLOURS
    assert space["license"] == "apache-2.0"
    assert space["title"] and space["emoji"] and space["tags"] and space["models"]
    assert space["suggested_hardware"] == "cpu-basic"


def test_only_the_weights_are_large_enough_to_need_xet():
    large = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*")
             if path.is_file() and path.stat().st_size > 10_000_000
             and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)]
    assert all(name.endswith("model.safetensors") for name in large), large
