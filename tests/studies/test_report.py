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
from bert.studies.report import STUDY
from bert.training.report import per_class

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
GROUPS = {"all": 0.75, "negation": 0.7, "mixed": 0.9}
TWO_FEELINGS = {"right": 0.52, "both_first": 0.71, "room_for_both": 0.6, "lines": 35}
SAID = {"mean": 0.41, "low": 0.38, "high": 0.44, "over_random": {"low": 0.1, "high": 0.2}}
GUESSED = {"mean": 0.1, "low": 0.0, "high": 0.2, "over_random": {"low": -0.1, "high": 0.1}}
METRICS = {
    "finetune": {"command": "x"},
    "evaluate": {"languages": {"ko": language_figures(0.8645), "en": language_figures(0.7998)},
                 "public": {"en_goemotions.test.tsv": {"lines": 1750, "accuracy": 0.2726,
                                                       "macro_f1": 0.1842}},
                 "more": {"personas.tsv": {"checksum": "59431c", "ko": {"easy": 0.83, "hard": 0.52},
                                           "en": {"easy": 0.82, "hard": 0.51}}},
                 "contrast": {"split": "test", "languages": {"ko": GROUPS, "en": {"all": 0.8}}},
                 "two_feelings": {"languages": {"en": TWO_FEELINGS}},
                 "llm_labels": {"checksum": "59431c", "languages": {"ko": LLM_LABELS}}},
    "baselines": {"linear model": SCORES},
    "baseline": {"contrast": {"ko": {"all": 0.6, "mixed": 0.5}}},
    "learning_curve": {"1.0": SCORES, "0.25": {"ko": {"easy": 0.8, "hard": 0.7},
                                               "en": {"easy": 0.7, "hard": 0.5}}},
    "explanations": {"languages": {"ko": {"texts": 4, "methods": {
        "attention": {"milliseconds": 3.0, "comprehensiveness": GUESSED, "sufficiency": GUESSED},
        "occlusion_mask": {"milliseconds": 40.0, "comprehensiveness": SAID}}}}},
    "pruning": {"removed": [0, 4, 8], "at_least": 0.95, "order": [[1, 1]], "languages": {
        "ko": {"texts": 9, "unchanged": [1.0, 0.97, 0.4], "can_go": 4}}},
    "curves": {"finetune": [{"step": 25 * n, "loss": 2.0 / n, "accuracy": 0.1 * n,
                             "tokens_per_second": 900, **({"dev": 0.1 * n} if n % 2 else {})}
                            for n in range(1, 8)],
               "pretrain": [{"step": 50 * n, "mlm_loss": 9.0 - n / 100} for n in range(1, 700)]},
}
PRETRAINED = {
    "held_out": {"languages": {"ko": {"masked": 900, "masked_right": 0.36}},
                 "next_sentence_right": 0.79, "sources": {
                     "ko_wiki_docs": {"masked": 90, "masked_right": 0.3, "pairs": 40,
                                      "next_sentence_right": 0.8},
                     "ko_own_lines": {"masked": 90, "masked_right": 0.4, "pairs": 0,
                                      "next_sentence_right": None}}},
    "cloze": {"languages": {"en": {"sentences": 50, "first": 0.2, "first_ten": 0.5}}}}


@pytest.fixture
def context_with(emotion_folder, tmp_path):
    """A context whose checkpoint folder has this metrics.json: an object, bytes, or None; and the
    folder of the stage before it."""
    loaded = EmotionClassifier.load(emotion_folder)

    def context_with(metrics: object, pretrained: object = None) -> StudyContext:
        folder = tmp_path / "served"
        shutil.copytree(emotion_folder, folder)
        if metrics is not None:
            content = metrics if isinstance(metrics, bytes) else json.dumps(metrics).encode()
            (folder / "metrics.json").write_bytes(content)
        if pretrained is not None:
            (tmp_path / "pretrained").mkdir()
            (tmp_path / "pretrained" / "metrics.json").write_text(json.dumps(pretrained))
        return StudyContext(EmotionClassifier(replace(loaded.checkpoint, folder=folder)))

    return context_with


def report(context: StudyContext, **options) -> dict:
    return STUDY.answer(context, "whatever", options)


# ---------------------------------------------------------------------------------- figures


def test_every_figure_is_the_one_in_the_file(context_with):
    data = report(context_with(METRICS, PRETRAINED))
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
    assert data["baselines"] == [{"name": "linear model", **SCORES}]
    assert data["more"] == [{"name": "personas.tsv", "ko": {"easy": 0.83, "hard": 0.52},
                             "en": {"easy": 0.82, "hard": 0.51}}]
    assert data["llm_labels"] == [{"name": "ko", "figures": LLM_LABELS}]
    assert [row["share"] for row in data["learning_curve"]] == [0.25, 1.0]
    assert data["learning_curve"][1]["en"] == SCORES["en"]
    assert data["public"] == [{"name": "en_goemotions.test.tsv", "figures": {
        "lines": 1750, "accuracy": 0.2726, "macro_f1": 0.1842}}]


def test_contrast_stands_beside_the_linear_model_and_two_feelings_apart(context_with):
    data = report(context_with(METRICS))
    assert data["contrast"] == [
        {"group": "all", "model": {"ko": 0.75, "en": 0.8}, "linear": {"ko": 0.6, "en": None}},
        {"group": "negation", "model": {"ko": 0.7, "en": None}, "linear": {"ko": None, "en": None}},
        {"group": "mixed", "model": {"ko": 0.9, "en": None}, "linear": {"ko": 0.5, "en": None}}]
    assert data["two_feelings"] == [{"name": "en", "figures": TWO_FEELINGS}]


def test_held_out_figures_are_those_of_the_stage_before(context_with):
    data = report(context_with(METRICS, PRETRAINED))
    assert data["masked"] == [{"name": "ko", "figures": {"masked": 900, "masked_right": 0.36}}]
    assert [row["name"] for row in data["sources"]] == ["ko_wiki_docs", "ko_own_lines"]
    assert data["sources"][1]["figures"]["next_sentence_right"] is None
    assert data["next_sentence_right"] == 0.79
    assert data["cloze"] == [{"name": "en", "figures": {"sentences": 50, "first": 0.2,
                                                        "first_ten": 0.5}}]


def test_the_best_explanation_is_first_and_chance_is_said(context_with):
    first, second = report(context_with(METRICS))["explanations"]["ko"]
    assert first == {"name": "occlusion_mask", "milliseconds": 40.0, "beats_chance": True,
                     "measures": {"comprehensiveness": 0.41}}
    assert (second["name"], second["beats_chance"]) == ("attention", False)


def test_the_pruning_curve_has_a_share_for_every_count(context_with):
    found = report(context_with(METRICS))["pruning"]
    assert found == {"removed": [0, 4, 8], "at_least": 0.95, "can_go": {"ko": 4},
                     "lines": [{"name": "ko", "values": [1.0, 0.97, 0.4]}]}


def test_a_pruning_curve_with_shares_missing_is_left_out(context_with):
    cut = {**METRICS["pruning"], "removed": [0, 4]}
    assert report(context_with({"pruning": cut}))["pruning"] is None


def test_precision_recall_and_f1_come_from_the_confusion():
    counts = np.array([[8, 2, 0], [1, 5, 0], [0, 3, 0]])
    first, second, third = per_class(counts)
    assert first == {"lines": 10, "precision": pytest.approx(8 / 9), "recall": 0.8,
                     "f1": pytest.approx(2 * (8 / 9) * 0.8 / (8 / 9 + 0.8))}
    assert (second["precision"], second["recall"]) == (0.5, pytest.approx(5 / 6))
    assert third == {"lines": 3, "precision": None, "recall": 0.0, "f1": 0.0}


def test_curves_keep_losses_and_accuracies_and_no_more_points_than_can_be_seen(context_with):
    pretrain, loss, accuracy, dev = report(context_with(METRICS))["curves"]
    assert [(curve["stage"], curve["kind"]) for curve in (pretrain, loss, accuracy, dev)] == [
        ("pretrain", "loss"), ("finetune", "loss"), ("finetune", "accuracy"),
        ("finetune", "measured")]
    line, = loss["lines"]
    assert line["values"] == pytest.approx([2.0 / n for n in range(1, 8)])
    assert accuracy["steps"] == [25 * n for n in range(1, 8)]
    assert dev["steps"] == [25, 75, 125, 175]
    reports = METRICS["curves"]["pretrain"]
    by_step = {entry["step"]: entry["mlm_loss"] for entry in reports}
    assert 100 <= len(pretrain["steps"]) <= 151
    assert (pretrain["steps"][0], pretrain["steps"][-1]) == (50, reports[-1]["step"])
    assert pretrain["lines"][0]["values"] == pytest.approx(
        [by_step[step] for step in pretrain["steps"]])


def test_a_curve_of_one_point_is_no_chart(context_with):
    data = report(context_with({"curves": {"finetune": [
        {"step": 1, "loss": 2.0, "dev": 0.5}, {"step": 2, "loss": 1.0}]}}))
    assert [curve["kind"] for curve in data["curves"]] == ["loss"]


def test_the_curve_of_the_stage_before_is_found_in_its_own_folder(context_with):
    reports = [{"step": n, "mlm_loss": 1.0 / n} for n in (1, 2, 3)]
    curve, = report(context_with({}, {"curves": {"pretrain": reports}}))["curves"]
    assert (curve["stage"], curve["steps"]) == ("pretrain", [1, 2, 3])


def test_each_missing_part_is_named_with_its_command(context_with):
    data = report(context_with({"evaluate": {"languages": {"ko": {"accuracy": 0.8}}}}))
    assert data["languages"]["ko"]["figures"] == {"accuracy": 0.8}
    missing = {item["part"]: item["command"] for item in data["missing"]}
    assert missing.keys() == {"contrast", "baselines", "held_out", "explanations", "pruning",
                              "curves"}
    assert missing["pruning"] == "python -m bert evaluate --pruning"


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
    monkeypatch.setattr("bert.training.report.LARGEST_FILE", 10)
    assert report(context_with(METRICS))["problem"] == "unreadable"


@pytest.mark.parametrize("bad", [
    None, True, -0.1, 1.5, float("nan"), float("inf"), 10**400, "0.8", [0.8], {"a": 1}, "<b>",
    1e300])
def test_only_plain_shares_are_shown(context_with, bad):
    ko = {**METRICS["evaluate"]["languages"]["ko"], "accuracy": bad, "robustness": {"space": bad},
          "reliability": [{"lines": 3, "said": bad, "right": 0.5}, bad]}
    data = report(context_with({
        "evaluate": {"languages": {"ko": ko, "en": bad}, "public": {"a": {"accuracy": bad}},
                     "llm_labels": {"languages": {"ko": {"lines": 3, "accuracy": bad}}},
                     "contrast": {"languages": {"ko": {"all": bad}, "en": [bad]}},
                     "two_feelings": {"languages": {"ko": {"right": bad}}}},
        "baselines": {"x": {"ko": {"easy": bad}}}, "baseline": bad,
        "learning_curve": {"x": SCORES, "0.5": bad},
        "explanations": {"languages": {"ko": {"methods": {"a": {"comprehensiveness": {
            "mean": None if bad == -0.1 else bad}}}}}},
        "pruning": {"removed": [0, 1], "at_least": 0.9, "languages": {
            "ko": {"unchanged": [1.0, bad], "can_go": bad}}},
        "curves": {"finetune": [bad, {"step": bad, "loss": 1}, {"step": 1, "x_loss": bad}],
                   "pretrain": bad}}, {"held_out": {"languages": {"ko": {"masked_right": bad}},
                                                    "sources": bad, "next_sentence_right": bad},
                                       "cloze": bad}))
    part = data["languages"]["ko"]
    assert "accuracy" not in part["figures"] and part["figures"]["macro_f1"] == 0.702
    assert part["robustness"] == part["reliability"] == []
    assert data["explanations"] == {} and data["pruning"] is data["next_sentence_right"] is None
    for name in ("baselines", "learning_curve", "curves", "public", "llm_labels", "contrast",
                 "two_feelings", "masked", "sources", "cloze"):
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
    data = report(context_with({
        "baselines": {name: SCORES for name in names} | {f"row {n}": SCORES for n in range(100)},
        "evaluate": {"contrast": {"languages": {"ko": {name: 0.5 for name in names}}}}}))
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
    data = report(context_with(METRICS, PRETRAINED))
    assert make_study(STUDY, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(STUDY, data, "csv", language).content.decode("utf-8-sig").splitlines()
    for row in ("figures,ko,accuracy_easy,0.8645", "baselines,en,linear model · hard,0.608",
                "reliability,en,said 0.93 in 40 lines,0.88", "more,ko,personas.tsv · hard,0.52",
                "llm labels,ko,none_not_confident,0.62", "contrast,ko,negation,0.7",
                '"contrast, linear model",ko,mixed,0.5', "two feelings,en,right,0.52",
                "masked,ko,masked_right,0.36", "sources,,ko_wiki_docs next_sentence_right,0.8",
                "cloze,en,first_ten,0.5", "pruning,ko,without 4 heads,0.97",
                "explanations,ko,attention sufficiency,0.1"):
        assert row in sheet
    assert not [row for row in sheet if row.startswith("contrast,en,negation")]


# ---------------------------------------------------------------------------------- the browser


@pytest.fixture
def measured_folder(emotion_folder, tmp_path) -> Path:
    folder = tmp_path / "measured"
    shutil.copytree(emotion_folder, folder)
    (folder / "metrics.json").write_text(json.dumps(METRICS))
    (tmp_path / "pretrained").mkdir()
    (tmp_path / "pretrained" / "metrics.json").write_text(json.dumps(PRETRAINED))
    return folder


def test_the_page_shows_the_figures_of_the_chosen_language(visit, serve, measured_folder):
    with visit("tab=report&text=hello", at=serve(measured_folder, port=17_990)) as page:
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
        others = place.locator('tr[data-name="personas.tsv"] td').all_inner_texts()
        assert sorted(float(cell[:-2]) for cell in others) == [51, 52, 82, 83]
        groups = place.locator('tr[data-group="mixed"] td').all_inner_texts()
        assert groups == ["–", "90.0\u00a0%", "–", "50.0\u00a0%"]
        rows = {tuple(texts) for texts in (row.locator("td").all_inner_texts() for row in
                                           place.locator("tr[data-row]").all())}
        assert ("52.0\u00a0%", "71.0\u00a0%", "60.0\u00a0%", "35") in rows    # two feelings
        assert ("71.0\u00a0%", "76.0\u00a0%", "81.0\u00a0%", "62.0\u00a0%", "830") in rows
        assert ("30.0\u00a0%", "80.0\u00a0%") in rows                       # a source
        methods = place.locator("tr[data-method]")
        assert methods.evaluate_all("rows => rows.map((row) => row.className)") == ["", "chance"]
        expect(place.locator('[data-can-go="ko"]')).to_contain_text("4 of 8 can go")
        assert place.locator("[data-left]").count() == 0


def test_a_part_that_was_not_measured_is_named(visit, serve, measured_folder):
    (measured_folder / "metrics.json").write_text(json.dumps(
        {**METRICS, "pruning": {}, "curves": {}}))
    with visit("tab=report&text=hello", at=serve(measured_folder, port=17_991)) as page:
        left = page.locator('[data-study="report"] [data-left]')
        expect(left).to_have_count(2)
        expect(left.first).to_contain_text("python -m bert evaluate --pruning adds it")
        page.set_viewport_size({"width": 390, "height": 844})
        page.wait_for_selector('.study-frame[data-drawn="report"]:not(.waiting)')
        cut = page.locator('[data-study="report"] .scroll').evaluate_all(
            "boxes => boxes.filter((box) => box.scrollWidth > box.clientWidth + 1).length")
        assert cut == 0



def test_a_checkpoint_without_metrics_says_how_to_make_them(visit):
    with visit("tab=report&text=hello") as page:
        sentence = page.locator('[data-study="report"] .finding')
        expect(sentence).to_contain_text("has no metrics.json")
