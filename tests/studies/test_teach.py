"""Teach it: a copy learns, everything else stays as it was."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from study_helpers import address, model_bytes

from bert.classifier import EmotionClassifier
from bert.drawing.texts import say
from bert.explain import correction
from bert.explain.correction import Correction
from bert.page.downloads import make_study
from bert.studies import teach
from bert.studies.base import StudyContext, class_list, plain
from bert.studies.jobs import GONE, FinetuneJobs
from bert.studies.teach import STUDY, check_corrections, fixed_set, learn
from bert.training.examples import read_labelled

TEXT, LABEL = "The cat fell asleep on my lap", "curiosity"  # the tiny model says: connection
CORRECTIONS = [Correction(TEXT, LABEL)]


def always(progress: dict) -> bool:
    return True


def told(*given) -> dict | None:
    """What is told of a copy that has learned."""
    found = learn(*given)
    return found and found[0]


@pytest.fixture
def jobs(monkeypatch) -> FinetuneJobs:
    """No jobs of other tests in the study, and no copy that outlives the test."""
    jobs = FinetuneJobs(learn)
    monkeypatch.setattr(teach, "JOBS", jobs)
    return jobs


def finished(context: StudyContext, job: str) -> dict:
    """Ask for a job until it is over."""
    while (found := STUDY.answer(context, "", {"action": "progress", "job": job}))[
            "state"] == "learning":
        pass
    return found


# ---------------------------------------------------------------------------------- learning


def test_a_correction_is_learned_and_the_shared_model_stays_byte_identical(classifier):
    before, answer = model_bytes(classifier), classifier(TEXT)
    seen = []

    def look(progress: dict) -> bool:
        seen.append((progress["step"], progress["loss"], classifier(TEXT).probabilities))
        return True

    result = told(classifier, CORRECTIONS, look)
    line = result["taught"][0]
    assert classifier.keys[line["before"]["best"]] == "connection" != LABEL
    assert classifier.keys[line["after"]["best"]] == LABEL and line["after"]["probability"] > 0.5
    assert (result["ended"], result["steps"]) == ("learned", seen[-1][0])
    assert [step for step, *_ in seen] == list(range(len(seen))) and seen[-1][1] < seen[0][1]
    for _, _, probabilities in seen:  # others get their usual answers while the copy learns
        assert np.array_equal(probabilities, answer.probabilities)
    assert model_bytes(classifier) == before
    assert all(weight.grad is None for weight in classifier.model.parameters())


def test_learning_draws_no_random_numbers(classifier):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first = told(classifier, CORRECTIONS, always)
    assert torch.equal(torch.get_rng_state(), state)
    assert told(classifier, CORRECTIONS, always) == first


def test_what_is_said_of_the_texts_is_what_the_model_answers(classifier):
    result = told(classifier, CORRECTIONS, always)
    lines = fixed_set()
    assert [line["text"] for line in result["fixed"]] == [line.text for line in lines]
    for line, known in zip(result["fixed"], lines, strict=True):
        expected = classifier(known.text).probabilities
        assert line["label"] == classifier.keys.index(known.label)
        assert line["before"]["best"] == expected.argmax()
        assert line["before"]["probability"] == pytest.approx(expected.max(), abs=1e-5)


def test_a_taught_text_of_the_fixed_set_no_longer_counts_as_untaught(classifier):
    taught = fixed_set()[0].text
    result = told(classifier, [Correction(taught, "anger")], always)
    assert taught not in [line["text"] for line in result["fixed"]]
    assert len(result["fixed"]) == len(fixed_set()) - 1


def test_corrections_that_contradict_each_other_end_after_the_most_steps(classifier, monkeypatch):
    monkeypatch.setattr(correction, "MOST_STEPS", 3)
    result = told(classifier, [Correction(TEXT, "anger"), Correction(TEXT, "joy")], always)
    assert (result["ended"], result["steps"]) == ("steps", 3)


def test_learning_ends_when_its_time_is_up(classifier, monkeypatch):
    monkeypatch.setattr(correction, "SECONDS", 0.0)
    assert told(classifier, CORRECTIONS, always)["ended"] == "time"


def test_learning_ends_when_nobody_waits(classifier):
    asked = []
    assert told(classifier, CORRECTIONS, lambda progress: asked.append(progress)) is None
    assert len(asked) == 1


def test_the_fixed_set_has_three_texts_a_class_in_both_languages(classifier):
    lines = fixed_set()
    assert [sum(line.label == key for line in lines) for key in classifier.keys] == [3] * 10
    for key in classifier.keys:
        is_korean = [bool(re.search("[가-힣]", line.text)) for line in lines if line.label == key]
        assert True in is_korean and False in is_korean
    assert len({line.text for line in lines}) == 30


# ---------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(("corrections", "part"), [
    (None, "There are no corrections"), ([], "There are no corrections"),
    ("joy", "There are no corrections"),
    ([{"text": "a", "label": "joy"}] * 21, "21 corrections: at most 20"),
    ([{"text": TEXT, "label": "hunger"}], "the class 'hunger'"),
    ([{"text": 3, "label": "joy"}], "Correction 1 is not a text with a class"),
    ([{"text": TEXT, "label": ["joy"]}], "Correction 1 is not a text with a class"),
    ([TEXT], "Correction 1 is not a text with a class"),
    ([{"text": "a" * 5_001, "label": "joy"}], "5,001 characters"),
    ([{"text": "  ", "label": "joy"}], "The text is empty"),
])
def test_wrong_corrections_are_refused_in_one_sentence(context, jobs, corrections, part):
    with pytest.raises(ValueError, match=re.escape(part)):
        STUDY.answer(context, "", {"action": "start", "corrections": corrections})
    assert jobs._jobs == {}


def test_twenty_corrections_are_taken(classifier):
    assert len(check_corrections(classifier, [{"text": TEXT, "label": "joy"}] * 20)) == 20


def test_a_checkpoint_without_a_classifier_says_so(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        STUDY.answer(StudyContext(EmotionClassifier.load(pretrained_folder)), "")


def test_classes_that_are_not_ours_can_be_taught_without_a_fixed_set(classifier):
    names = tuple(f"class {number}" for number in range(10))
    checkpoint = replace(classifier.checkpoint, config=replace(classifier.config, id2label=names))
    foreign = EmotionClassifier(checkpoint)
    data = STUDY.answer(StudyContext(foreign), "")
    assert data["fixed"] == [] and data["classes"] == class_list(names)
    result = told(foreign, [Correction(TEXT, "class 6")], always)
    assert (result["taught"][0]["after"]["best"], result["fixed"]) == (6, [])
    for drawn in (data, plain(result)):
        assert make_study(STUDY, drawn, "png", "ko").content.startswith(b"\x89PNG")


def test_a_result_is_handed_over_once_and_nothing_is_kept(context, jobs):
    corrections = [{"text": TEXT, "label": LABEL}]
    started = STUDY.answer(context, "", {"action": "start", "corrections": corrections})
    result = finished(context, started["job"])
    assert result == {**plain(told(context.classifier, CORRECTIONS, always)),
                      "copy": started["job"]}
    assert jobs._jobs == {}
    with pytest.raises(ValueError, match=re.escape(GONE)):
        STUDY.answer(context, "", {"action": "progress", "job": started["job"]})


@pytest.mark.parametrize("job", [None, 3, "nobody", ["a"], {}])
def test_unknown_jobs_are_refused_and_stopping_them_does_nothing(context, jobs, job):
    with pytest.raises(ValueError, match=re.escape(GONE)):
        STUDY.answer(context, "", {"action": "progress", "job": job})
    assert STUDY.answer(context, "", {"action": "stop", "job": job}) == {"state": "stopped"}


# ---------------------------------------------------------------------------------- taking it away


def test_without_an_action_the_fixed_set_is_answered(context, classifier):
    for options in ({}, {"action": "dance"}, {"result": "x"}, {"result": {"taught": [3]}}):
        data = STUDY.answer(context, "", options)
        assert data["classes"] == class_list(classifier.keys) and data["taught"] == []
        assert [line["before"]["best"] for line in data["fixed"]] == [
            classifier(line.text).probabilities.argmax() for line in fixed_set()]


def test_a_result_sent_back_is_drawn_and_what_is_unsound_in_it_left_out(context, classifier):
    result = plain(told(classifier, CORRECTIONS, always))
    bad = [{**result["fixed"][0], "label": 99}, {**result["fixed"][0], "after": {"best": 0}},
           {**result["fixed"][0], "before": {"best": 0, "probability": float("nan")}}, None]
    sent = {"taught": result["taught"], "fixed": [*result["fixed"], *bad]}
    data = STUDY.answer(context, "", {"result": sent})
    assert (data["taught"], data["fixed"]) == (result["taught"], result["fixed"])


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_comparison_can_be_taken_away(context, classifier, language):
    untaught = STUDY.answer(context, "")
    result = plain(told(classifier, CORRECTIONS, always))
    for data in (untaught, result):
        assert make_study(STUDY, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(STUDY, result, "csv", language).content.decode("utf-8-sig")
    rows = [line.split(",") for line in sheet.splitlines()]
    before, after = (str(result["taught"][0][when]["probability"]) for when in ("before", "after"))
    assert rows[1] == ["taught", TEXT, LABEL, "connection", before, LABEL, after]
    assert len(rows) == 1 + 1 + len(fixed_set())


def test_a_job_under_way_has_nothing_to_draw(context, jobs):
    with pytest.raises(ValueError, match="nothing to draw"):
        make_study(STUDY, {"state": "learning"}, "png", "en")


# ---------------------------------------------------------------------------------- the browser


def test_a_visitor_runes_one_line_and_saves_it(visit, classifier, tmp_path):
    with visit(address("teach", TEXT), fresh=True) as page:
        place = page.locator('[data-study="teach"]')
        expect(place.locator(".fixed tbody tr")).to_have_count(len(fixed_set()))
        place.get_by_label("It should be").select_option(LABEL)
        place.get_by_role("button", name="Add correction").click()
        expect(place.locator(".corrections .text")).to_have_text(TEXT)
        place.get_by_role("button", name="Learn", exact=True).click()
        row = place.locator(".taught tbody tr")
        expect(row.locator('[data-when="after"]')).to_contain_text("Curiosity")
        expected = told(classifier, CORRECTIONS, always)["taught"][0]
        for when in ("before", "after"):
            shown = row.locator(f'[data-when="{when}"] .figure').inner_text()
            assert float(shown[:-2]) == pytest.approx(100 * expected[when]["probability"], abs=0.06)
        with page.expect_download() as saved:
            place.get_by_role("button", name="Save corrections").click()
        saved.value.save_as(tmp_path / "corrections.tsv")
        line, = read_labelled(tmp_path / "corrections.tsv")
        assert (line.label, line.language, line.level, line.text) == (LABEL, "en", "easy", TEXT)
        with page.expect_download() as picture:
            place.get_by_role("button", name="Save comparison").click()
        assert picture.value.suggested_filename == "microscope-teach.png"
        page.locator('.study:has([data-study="teach"]) .download summary').click()
        with page.expect_download() as sheet:
            page.locator('[data-file="teach.csv"]').click()
        sheet.value.save_as(tmp_path / "teach.csv")
        taught = (tmp_path / "teach.csv").read_text(encoding="utf-8-sig").splitlines()[1].split(",")
        assert (taught[0], taught[5]) == ("taught", LABEL)


def test_a_correction_keeps_while_other_texts_are_read_and_tabs_never_break_the_file(visit,
                                                                                     tmp_path):
    text = "드디어\t마라톤을 \"완주\"했다"
    with visit(address("teach", TEXT), fresh=True) as page:
        place = page.locator('[data-study="teach"]')
        place.get_by_label("It should be").select_option("joy")
        place.get_by_role("button", name="Add correction").click()
        box = page.get_by_label("Your text")
        box.fill(text)
        box.press("Enter")
        expect(place.locator(".now")).to_contain_text("완주")
        place.get_by_label("It should be").select_option("anger")
        place.get_by_role("button", name="Add correction").click()
        place.get_by_label(f"Class of “{TEXT}”").select_option("sadness")
        with page.expect_download() as saved:
            place.get_by_role("button", name="Save corrections").click()
        saved.value.save_as(tmp_path / "corrections.tsv")
        assert [(line.label, line.language, line.text)
                for line in read_labelled(tmp_path / "corrections.tsv")] == [
            ("sadness", "en", TEXT), ("anger", "ko", '드디어 마라톤을 "완주"했다')]
        place.get_by_role("button", name=f"Remove the correction of “{TEXT}”").click()
        expect(place.locator(".corrections li")).to_have_count(1)


def test_the_chat_can_be_handed_to_the_copy_and_back(visit, classifier):
    with visit(address("teach", TEXT), fresh=True) as page:
        place = page.locator('[data-study="teach"]')
        place.get_by_label("It should be").select_option(LABEL)
        place.get_by_role("button", name="Add correction").click()
        place.get_by_role("button", name="Learn", exact=True).click()
        expect(place.locator(".finding")).to_contain_text("Texts it was not taught")
        best = page.locator(".bar.best")
        expect(best).to_have_attribute("data-class", "connection")
        place.get_by_role("button", name="Talk to your copy").click()
        expect(best).to_have_attribute("data-class", LABEL)
        expect(page.locator(".feelings .copy")).to_contain_text("Your own copy is answering")
        expect(page.locator("#chat .bot-row")).to_contain_text("curiosity")
        page.get_by_label("Your text").fill("The cat fell asleep")
        page.get_by_label("Your text").press("Enter")
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        page.get_by_role("tab", name=say("en", "group_answer"), exact=True).click()
        page.wait_for_selector('.study-frame[data-drawn="lens"]:not(.waiting)')
        expect(page.locator('[data-study="lens"] .legend .strong')).to_contain_text(
            best.locator(".figure").inner_text())  # the studies read the copy as well
        page.get_by_role("button", name="Back to the original").click()
        expect(page.locator(".feelings .copy")).to_be_hidden()
        expect(page.locator("#chat .bot-row").first).to_contain_text("connection")
