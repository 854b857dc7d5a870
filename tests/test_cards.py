"""Model cards, the data card and the Space's front matter, read with the Hub's own classes."""

import json
import re
from pathlib import Path

import pytest
from huggingface_hub import DatasetCard, ModelCard, RepoCard
from huggingface_hub.repocard import metadata_eval_result, metadata_load

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.training import card

ROOT = Path(__file__).parent.parent
EMOTION, PRETRAINED = ROOT / "checkpoints" / "emotion", ROOT / "checkpoints" / "pretrained"
FOLDERS = pytest.mark.parametrize("folder", [EMOTION, PRETRAINED], ids=lambda path: path.name)
DATA = ROOT / "assets" / "data"
HANGUL = re.compile("[가-힣]")


def metrics_of(folder: Path) -> dict:
    return json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


# ---------------------------------------------------------------------------------- model cards


@FOLDERS
def test_a_card_is_what_the_command_writes(folder):
    """If not: python -m bert evaluate --card, with --pretrained for the other."""
    assert (folder / "README.md").read_text(encoding="utf-8") == card.card_text(folder)


@FOLDERS
def test_a_card_says_what_the_hub_asks_for_in_eighty_lines(folder):
    found = ModelCard.load(folder / "README.md")
    data = found.data
    assert data.language == ["ko", "en"] and data.license == "apache-2.0"
    assert data.library_name == "transformers" and data.metrics
    assert data.pipeline_tag == {"emotion": "text-classification",
                                 "pretrained": "fill-mask"}[folder.name]
    assert data.datasets == RepoCard.load(ROOT / "README.md").data.to_dict()["datasets"]
    assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) <= 80
    for part in ("## Intended use", "## How to call it", "## Data", "## Results", "## Limits"):
        assert part in found.text
    texts = [example["text"] for example in data.to_dict()["widget"]]
    assert {bool(HANGUL.search(text)) for text in texts} == {True, False}  # both languages
    assert all(("[MASK]" in text) == (folder == PRETRAINED) for text in texts)


def test_the_results_of_the_emotion_card_are_those_of_metrics_json():
    found = {(result.dataset_name[-6:].strip(" ,"), result.metric_type): result
             for result in ModelCard.load(EMOTION / "README.md").data.eval_results}
    for name, language in (("Korean", "ko"), ("English", "en")):
        values = metrics_of(EMOTION)["evaluate"]["languages"][language]
        for kind, key in (("accuracy", "accuracy"), ("f1", "macro_f1")):
            result = found[name[-6:], kind]
            assert result.metric_value == pytest.approx(values[key], abs=5e-5)
            assert (result.task_type, result.dataset_config, result.dataset_split) == (
                "text-classification", "emotions", "test")


def test_the_results_of_the_pretrained_card_are_those_of_metrics_json():
    results = ModelCard.load(PRETRAINED / "README.md").data.eval_results
    measured = metrics_of(PRETRAINED)["cloze"]["languages"]
    assert [result.metric_value for result in results] == pytest.approx(
        [measured[language]["first_ten"] for language in ("ko", "en")], abs=5e-5)
    assert {result.task_type for result in results} == {"fill-mask"}


@FOLDERS
def test_the_front_matter_stays_the_same_when_the_hub_writes_it_again(folder, tmp_path):
    found = ModelCard.load(folder / "README.md")
    found.save(tmp_path / "README.md")
    again = ModelCard.load(tmp_path / "README.md")
    assert again.data.to_dict() == found.data.to_dict() and again.text.strip() == found.text.strip()
    assert metadata_load(folder / "README.md")["model-index"][0]["name"] == found.data.model_name


def test_every_figure_of_the_results_is_one_of_metrics_json():
    text = ModelCard.load(EMOTION / "README.md").text
    evaluated = metrics_of(EMOTION)["evaluate"]["languages"]
    for level in ("easy", "hard"):
        shares = [evaluated[language][f"accuracy_{level}"] for language in ("ko", "en")]
        assert f"| test, {level} lines | {100 * shares[0]:.1f} / {100 * shares[1]:.1f} % |" in text
    assert f"`{EmotionClassifier.load(EMOTION).checkpoint.digest()}`" in text


def test_the_pretrained_card_says_how_the_next_sentence_head_does():
    """At chance it must say so."""
    right = metrics_of(PRETRAINED)["held_out"]["next_sentence_right"]
    text = ModelCard.load(PRETRAINED / "README.md").text
    assert f"| mean, without reviews | | {100 * right:.1f} % |" in text
    assert ("hardly better than guessing" in text) == (right <= 0.55)


@pytest.mark.parametrize(("right", "words"), [
    (0.5, "hardly better than"), (0.545, "hardly better than"), (0.6, "somewhat above"),
    (0.85, "well above"), (None, "not measured")])
def test_the_verdict_follows_the_figure(right, words):
    assert words in card.next_sentence_verdict(right)


def snippet(folder: Path) -> str:
    code = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"),
                     re.DOTALL)[1]
    assert f'"emotion-microscope/{folder.name}"' in code
    return code.replace(f'"emotion-microscope/{folder.name}"', repr(str(folder)))


def test_the_snippet_of_the_emotion_card_applies_the_threshold(capsys):
    exec(compile(snippet(EMOTION), "README.md", "exec"), {})
    classifier = EmotionClassifier.load(EMOTION)
    expected = [prediction.label if prediction.confident else "no clear feeling" for prediction in
                classifier.predict_many(["드디어 마라톤을 완주했다!", "The shop opens at nine"])]
    assert capsys.readouterr().out.split("\n")[:2] == expected
    assert expected == ["achievement", "no clear feeling"]


def test_the_snippet_of_the_pretrained_card_runs(capsys):
    exec(compile(snippet(PRETRAINED), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_a_checkpoint_that_was_not_measured_gets_no_card(emotion_folder, pretrained_folder):
    for folder in (emotion_folder, pretrained_folder):
        with pytest.raises(UserError, match="has not been measured: run bert evaluate"):
            card.card_text(folder)


def test_figures_that_are_not_there_are_dashes():
    part = {"ko": {"easy": 0.5}, "en": {}}
    assert card.both(part, "easy") == "50.0 / – %" and card.both({}, "easy") == "–"


# ---------------------------------------------------------------------------------- data, Space


def test_the_data_card_names_every_file_and_its_columns():
    assert len((DATA / "README.md").read_text(encoding="utf-8").splitlines()) <= 80
    data = DatasetCard.load(DATA / "README.md").data
    assert data.language == ["ko", "en"] and data.license == "apache-2.0"
    assert data.task_categories == ["text-classification"]
    assert data.size_categories and data.pretty_name and data.annotations_creators
    named = {file for config in data.configs for item in config["data_files"]
             for file in DATA.glob(item["path"])}
    assert named == set(DATA.glob("*.tsv"))
    assert [config["config_name"] for config in data.configs if config.get("default")] == [
        "emotions"]


def test_the_space_names_our_model_our_data_and_a_picture():
    space = RepoCard.load(ROOT / "README.md").data.to_dict()
    assert space["models"] == ["emotion-microscope/emotion"]  # and not a teacher
    assert space["datasets"] == ["emotion-microscope/lines"]
    assert (ROOT / space["thumbnail"]).is_file()


def test_an_eval_result_of_the_hub_has_the_form_of_ours():
    """What huggingface_hub itself would write for one of our figures."""
    theirs = metadata_eval_result(
        model_pretty_name="Emotion Microscope", task_pretty_name="Emotion classification",
        task_id="text-classification", metrics_pretty_name="accuracy", metrics_id="accuracy",
        metrics_value=0.9, dataset_pretty_name="lines", dataset_id="emotion-microscope/lines",
        dataset_config="emotions", dataset_split="test")
    ours = metadata_load(EMOTION / "README.md")
    expected, found = (card["model-index"][0]["results"][0] for card in (theirs, ours))
    assert set(found) == {"task", "dataset", "metrics"} <= set(expected)
    assert set(found["dataset"]) <= set(expected["dataset"])
    assert set(found["metrics"][0]) <= set(expected["metrics"][0])
