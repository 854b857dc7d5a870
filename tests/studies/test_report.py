"""The report: every figure is the one in metrics.json, and no file can break the page."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from bert.classifier import EmotionClassifier
from bert.page.downloads import make_study
from bert.studies.base import StudyContext
from bert.studies.report import STUDY, per_class

SCORES = {"ko": {"easy": 0.932, "hard": 0.858}, "en": {"easy": 0.939, "hard": 0.608}}
DRAW = np.random.default_rng(3)


def language_figures(easy: float) -> dict:
    counts = DRAW.integers(0, 9, (10, 10)) + 20 * np.eye(10, dtype=int)
    return {"lines": int(counts.sum()), "none_lines": 9, "accuracy": 0.711, "accuracy_easy": easy,
            "accuracy_hard": 0.523, "macro_f1": 0.702, "calibration_error": 0.051,
            "none_not_confident": 0.544, "feeling_confident": 0.927,
            "confusion": counts.tolist(), "robustness": {"space": 0.932, "typo": 0.877},
            "reliability": [{"lines": 12, "said": 0.45, "right": 0.5},
                            {"lines": 40, "said": 0.93, "right": 0.88}]}


LLM_LABELS = {"lines": 830, "accuracy": 0.71, "accuracy_confident": 0.76, "feeling_confident": 0.81,
            "none_not_confident": 0.62}
METRICS = {
    "finetune": {"command": "x", "dev_scores": [0.486, 0.625, 0.731]},
    "evaluate": {"languages": {"ko": language_figures(0.8645), "en": language_figures(0.7998)},
                 "public": {"en_goemotions.test.tsv": {"lines": 1750, "accuracy": 0.2726,
                                                       "macro_f1": 0.1842}},
                 "more": {"voices.tsv": {"checksum": "59431c", "ko": {"easy": 0.83, "hard": 0.52},
                                         "en": {"easy": 0.82, "hard": 0.51}}},
                 "readings": {"checksum": "59431c", "languages": {"ko": LLM_LABELS}}},
    "baselines": {"linear model": SCORES},
    "ablations": [{"name": "no distillation", "ko": {"easy": 0.71, "hard": 0.55},
                   "en": {"easy": 0.6}}],
    "learning_curve": {"1.0": SCORES, "0.25": {"ko": {"easy": 0.8, "hard": 0.7},
                                               "en": {"easy": 0.7, "hard": 0.5}}},
    "curves": {"finetune": [{"step": 25 * n, "emotion_loss": 2.0 / n, "emotion_accuracy": 0.1 * n,
                             "tokens_per_second": 900} for n in range(1, 8)],
               "pretrain": [{"step": 50 * n, "mlm_loss": 9.0 - n / 100} for n in range(1, 700)]},
}


@pytest.fixture
def context_with(emotion_folder, tmp_path):
    """A context whose checkpoint folder has this metrics.json: an object, bytes, or None."""
    loaded = EmotionClassifier.load(emotion_folder)

    def context_with(metrics: object, name: str = "served") -> StudyContext:
        folder = tmp_path / name
        shutil.copytree(emotion_folder, folder)
        if metrics is not None:
            content = metrics if isinstance(metrics, bytes) else json.dumps(metrics).encode()
            (folder / "metrics.json").write_bytes(content)
        return StudyContext(EmotionClassifier(replace(loaded.checkpoint, folder=folder)))

    return context_with


def report(context: StudyContext, **options) -> dict:
    return STUDY.answer(context, "whatever", options)


# ---------------------------------------------------------------------------------- figures


def test_every_figure_is_the_one_in_the_file(context_with):
    data = report(context_with(METRICS))
    assert (data["problem"], data["missing"], data["name"]) == (None, [], "served")
    for language in ("ko", "en"):
        found, part = METRICS["evaluate"]["languages"][language], data["languages"][language]
        assert part["figures"] == {name: found[name] for name in part["figures"]}
        assert set(part["figures"]) == {
            "lines", "accuracy", "accuracy_easy", "accuracy_hard", "macro_f1", "calibration_error",
            "feeling_confident", "none_not_confident"}
        assert part["confusion"] == found["confusion"]
        assert part["reliability"] == found["reliability"]
        assert part["robustness"] == [{"name": "space", "share": 0.932},
                                      {"name": "typo", "share": 0.877}]
    assert data["dev_scores"] == [0.486, 0.625, 0.731]
    assert data["baselines"] == [{"name": "linear model", **SCORES}]
    assert data["ablations"] == [{"name": "no distillation", "ko": {"easy": 0.71, "hard": 0.55},
                                  "en": {"easy": 0.6, "hard": None}}]
    assert data["more"] == [{"name": "voices.tsv", "ko": {"easy": 0.83, "hard": 0.52},
                             "en": {"easy": 0.82, "hard": 0.51}}]
    assert data["llm_labels"] == [{"language": "ko", **LLM_LABELS}]
    assert [row["share"] for row in data["learning_curve"]] == [0.25, 1.0]
    assert data["learning_curve"][1]["en"] == SCORES["en"]
    assert data["public"] == [{"name": "en_goemotions.test.tsv", "lines": 1750, "accuracy": 0.2726,
                               "macro_f1": 0.1842}]


def test_precision_recall_and_f1_come_from_the_confusion():
    counts = np.array([[8, 2, 0], [1, 5, 0], [0, 3, 0]])
    first, second, third = per_class(counts)
    assert first == {"lines": 10, "precision": pytest.approx(8 / 9), "recall": 0.8,
                     "f1": pytest.approx(2 * (8 / 9) * 0.8 / (8 / 9 + 0.8))}
    assert (second["precision"], second["recall"]) == (0.5, pytest.approx(5 / 6))
    assert third == {"lines": 3, "precision": None, "recall": 0.0, "f1": 0.0}


def test_curves_keep_losses_and_accuracies_and_no_more_points_than_can_be_seen(context_with):
    finetune, pretrain = report(context_with(METRICS))["curves"]
    assert (finetune["stage"], pretrain["stage"]) == ("finetune", "pretrain")
    assert [line["name"] for line in finetune["lines"]] == ["emotion_loss", "emotion_accuracy"]
    assert finetune["steps"] == [25 * n for n in range(1, 8)]
    reports = METRICS["curves"]["pretrain"]
    by_step = {entry["step"]: entry["mlm_loss"] for entry in reports}
    assert 100 <= len(pretrain["steps"]) <= 151
    assert (pretrain["steps"][0], pretrain["steps"][-1]) == (50, reports[-1]["step"])
    assert pretrain["lines"][0]["values"] == pytest.approx(
        [by_step[step] for step in pretrain["steps"]])


def test_the_curve_of_the_stage_before_is_found_in_its_own_folder(context_with):
    context = context_with({})
    context.pretrained_folder.mkdir()
    reports = [{"step": n, "mean_loss": 1.0 / n} for n in (1, 2, 3)]
    (context.pretrained_folder / "metrics.json").write_text(json.dumps(
        {"curves": {"distill": reports}}))
    curve, = report(context)["curves"]
    assert (curve["stage"], curve["steps"]) == ("distill", [1, 2, 3])


def test_each_missing_part_is_named_with_its_command(context_with):
    data = report(context_with({"evaluate": {"languages": {"ko": {"accuracy": 0.8}}}}))
    assert data["languages"]["ko"]["figures"] == {"accuracy": 0.8}
    assert {item["part"]: item["command"] for item in data["missing"]} == {
        "reliability": "evaluate", "curves": "finetune", "baselines": "baseline",
        "ablations": "evaluate", "learning_curve": "baseline"}


# ---------------------------------------------------------------------------------- foreign files


@pytest.mark.parametrize(("content", "problem"), [
    (None, "missing"), (b"", "unreadable"), (b"{", "unreadable"), (b"\xff\xfe", "unreadable"),
    (b"[1, 2]", "unreadable"), (b'"a"', "unreadable"), (b"[" * 100_000, "unreadable"),
    (b'{"a": ' + b"9" * 5_000 + b"}", "unreadable"), (b"{}", None)])
def test_a_file_that_is_missing_or_no_report_is_said_in_one_sentence(context_with, content,
                                                                     problem):
    data = report(context_with(content))
    assert data["problem"] == problem and data["languages"] == {} and data["curves"] == []
    for language in ("en", "ko"):
        assert make_study(STUDY, data, "png", language).content.startswith(b"\x89PNG")


def test_a_file_too_large_to_be_metrics_is_not_read(context_with, monkeypatch):
    monkeypatch.setattr("bert.studies.report.LARGEST_FILE", 10)
    assert report(context_with(METRICS))["problem"] == "unreadable"


@pytest.mark.parametrize("bad", [
    None, True, -0.1, 1.5, float("nan"), float("inf"), 10**400, "0.8", [0.8], {"a": 1}, "<b>",
    1e300])
def test_only_plain_shares_are_shown(context_with, bad):
    ko = {**METRICS["evaluate"]["languages"]["ko"], "accuracy": bad, "robustness": {"space": bad},
          "reliability": [{"lines": 3, "said": bad, "right": 0.5}, bad]}
    data = report(context_with({
        "evaluate": {"languages": {"ko": ko, "en": bad}, "public": {"a": {"accuracy": bad}},
                     "readings": {"languages": {"ko": {"lines": 3, "accuracy": bad}}}},
        "finetune": {"dev_scores": [bad, 0.5]}, "baselines": {"x": {"ko": {"easy": bad}}},
        "ablations": [bad, {"name": bad, "ko": bad}], "learning_curve": {"x": SCORES, "0.5": bad},
        "curves": {"finetune": [bad, {"step": bad, "loss": 1}, {"step": 1, "x_loss": bad}],
                   "distill": bad}}))
    part = data["languages"]["ko"]
    assert "accuracy" not in part["figures"] and part["figures"]["macro_f1"] == 0.702
    assert part["robustness"] == part["reliability"] == []
    assert data["dev_scores"] == [0.5]
    for name in ("baselines", "ablations", "learning_curve", "curves", "public", "llm_labels"):
        assert data[name] == []
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("confusion", [
    [[1, 2], [3, 4]], [[1] * 10] * 9, [[1.5] * 10] * 10, [[-1] * 10] * 10, [["a"] * 10] * 10, "x",
    [[10**30] * 10] * 10, [[True] * 10] * 10])
def test_a_confusion_that_is_no_matrix_of_counts_is_left_out(context_with, confusion):
    part = report(context_with({"evaluate": {"languages": {"ko": {
        "accuracy": 0.8, "confusion": confusion}}}}))["languages"]["ko"]
    assert part["confusion"] is None and part["per_class"] == []


def test_hostile_names_are_cut_and_can_be_sent_drawn_and_written(context_with):
    names = ["<img src=x onerror=alert(1)>" * 9, "=cmd()", "$\\frac{", "\ud800half", "이름"]
    data = report(context_with({"baselines": {name: SCORES for name in names} | {
        f"row {n}": SCORES for n in range(100)}}))
    assert len(data["baselines"]) == 30 and max(len(row["name"]) for row in data["baselines"]) == 60
    json.dumps(data, ensure_ascii=False).encode("utf-8")
    for ending in ("png", "csv", "json"):
        assert make_study(STUDY, data, ending, "ko").content


def test_a_checkpoint_without_a_classifier_has_a_report_as_well(pretrained_folder):
    data = report(StudyContext(EmotionClassifier.load(pretrained_folder)))
    assert data["classes"] == [] and data["problem"] == "missing"


# ---------------------------------------------------------------------------------- taking it away


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_report_can_be_taken_away(context_with, language):
    data = report(context_with(METRICS))
    assert make_study(STUDY, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(STUDY, data, "csv", language).content.decode("utf-8-sig").splitlines()
    for row in ("figures,ko,accuracy_easy,0.8645", "baselines,en,linear model · hard,0.608",
                "dev score,,3,0.731", "reliability,en,said 0.93 in 40 lines,0.88",
                "ablations,en,no distillation · easy,0.6", "more,ko,voices.tsv · hard,0.52",
                "llm labels,ko,none_not_confident,0.62"):
        assert row in sheet
    assert not [row for row in sheet if row.startswith("ablations,en,no distillation · hard")]


# ---------------------------------------------------------------------------------- the browser


@pytest.fixture
def measured_folder(emotion_folder, tmp_path) -> Path:
    folder = tmp_path / "measured"
    shutil.copytree(emotion_folder, folder)
    (folder / "metrics.json").write_text(json.dumps(METRICS))
    return folder


def test_the_page_shows_the_figures_of_the_chosen_language(visit, serve, measured_folder):
    with visit("view=report&text=hello", at=serve(measured_folder, port=17_990)) as page:
        place = page.locator('[data-study="report"]')
        for language in ("en", "ko"):
            place.locator(f'[data-results="{language}"]').click()
            expect(place.locator(f'[data-results="{language}"]')).to_have_attribute(
                "aria-pressed", "true")
            found = METRICS["evaluate"]["languages"][language]
            shown = place.locator('[data-figure="accuracy_easy"] dd').inner_text()
            assert float(shown[:-2]) == pytest.approx(100 * found["accuracy_easy"], abs=0.051)
            cells = place.locator(".confusion tbody td").all_inner_texts()
            assert [int(cell or 0) for cell in cells] == sum(found["confusion"], [])
        linear = place.locator('tr[data-name="linear model"] td').all_inner_texts()
        assert sorted(float(cell[:-2]) for cell in linear) == [60.8, 85.8, 93.2, 93.9]
        others = place.locator('tr[data-name="voices.tsv"] td').all_inner_texts()
        assert sorted(float(cell[:-2]) for cell in others) == [51, 52, 82, 83]
        read = place.locator('tr[data-language="ko"] td').all_inner_texts()
        assert [float(cell.rstrip(" %")) for cell in read] == [71, 76, 81, 62, 830]
        assert place.locator(".left-out li").count() == 0


def test_a_checkpoint_without_metrics_says_how_to_make_them(visit):
    with visit("view=report&text=hello") as page:
        sentence = page.locator('[data-study="report"] .finding')
        expect(sentence).to_contain_text("has no metrics.json")
