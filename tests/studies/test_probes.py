"""The claim about early, middle and late layers."""

import json
from collections import Counter

import pytest
from playwright.sync_api import expect
from study_helpers import address, assert_drawn, sheet

from bert.classifier import EmotionClassifier
from bert.drawing.texts import PAGE, say
from bert.emotions import KEYS
from bert.explain import probes
from bert.explain.probes import MEASURES
from bert.studies.base import StudyContext
from bert.studies.probes import STUDY, probe_texts
from bert.training.examples import read_labelled

KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"


def test_the_texts_of_the_set_are_balanced_and_none_was_trained_on():
    groups = json.loads((PAGE / "data" / "probes.json").read_text(encoding="utf-8"))
    assert tuple(groups) == KEYS
    found = Counter(len(texts) for languages in groups.values() for texts in languages.values())
    assert found == {4: 20} and all(set(group) == {"ko", "en"} for group in groups.values())
    texts = [text for _, _, text in probe_texts()]
    assert len(set(texts)) == 80
    for split in ("train_ko", "train_en", "dev", "test"):
        lines = {line.text for line in read_labelled(PAGE.parent / "data" / f"{split}.tsv")}
        assert not lines & set(texts)


def test_the_study_has_the_measures_of_its_text_and_the_mean_over_the_set(deeper):
    data = STUDY.answer(StudyContext(deeper), KOREAN)
    alone = deeper(KOREAN)
    expected = probes.measure(alone.attentions, alone.hidden_states)
    each = [probes.measure(text.attentions, text.states)
            for text in probes.run_texts(deeper, probe_texts())]
    assert data["texts"] == len(each) == 80 and data["thirds"] == [[1, 2], [3], [4]]
    for name in MEASURES:
        assert data["measures"][name]["text"] == pytest.approx(expected[name], abs=1e-5)
        mean = sum(one[name] for one in each) / 80
        assert data["measures"][name]["set"] == pytest.approx(mean, abs=1e-5)
    assert [probe["name"] for probe in data["probes"]] == ["form", "relation", "meaning"]
    meaning = data["probes"][2]
    assert meaning["chance"] == 0.1 and len(meaning["accuracy"]) == 5
    early, middle, late = meaning["by_third"]
    layers = meaning["accuracy"]
    assert (early, middle, late) == pytest.approx(
        ((layers[1] + layers[2]) / 2, layers[3], layers[4]))
    assert meaning["lead"] == pytest.approx(late - max(early, middle))


def test_the_set_is_run_once_for_all_texts(deeper, monkeypatch):
    context = StudyContext(deeper)
    STUDY.answer(context, KOREAN)
    monkeypatch.setattr(probes, "run_texts", None)
    assert STUDY.answer(context, ENGLISH)["texts"] == 80


def test_a_checkpoint_without_classifier_has_probes_too(pretrained_folder):
    data = STUDY.answer(StudyContext(EmotionClassifier.load(pretrained_folder)), KOREAN)
    assert data["thirds"] == [] and all(probe["supported"] is None for probe in data["probes"])
    assert len(data["measures"]["distance"]["text"]) == 2


def test_the_probes_can_be_taken_away(deeper):
    data = STUDY.answer(StudyContext(deeper), KOREAN)
    assert_drawn(STUDY, data)
    rows = sheet(STUDY, data)
    assert [row[0] for row in rows[1:6]] == ["0", "1", "2", "3", "4"]
    column = rows[0].index("distance (text)")
    assert [float(row[column]) for row in rows[2:6]] == data["measures"]["distance"]["text"]
    assert [float(row[-1]) for row in rows[1:6]] == data["probes"][2]["accuracy"]


def test_the_page_says_what_becomes_of_each_part_of_the_claim(visit, context):
    data = STUDY.answer(context, KOREAN)
    with visit(address("probes", KOREAN)) as page:
        place = page.locator('[data-study="probes"]')
        figure = place.locator(".legend .strong .figure").last
        expect(figure).to_have_text(f"{100 * data['probes'][2]['accuracy'][-1]:.1f}\u00a0%")
        expect(place.locator(".verdicts li")).to_have_count(3)
        expect(place.locator(".verdicts li").last).to_contain_text(say("en", "probes_untested"))
        label = place.locator('[data-measure="distance"]').get_attribute("aria-label")
        assert label.endswith(", ".join(f"{value:.1f}" for value in
                                        data["measures"]["distance"]["text"]))
