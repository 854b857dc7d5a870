"""Teach it: a copy learns, everything else stays as it was."""

import re
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from bert import teaching
from bert.corpus import read_labelled
from bert.exports import make_study
from bert.lab import Lab, Options, plain
from bert.predict import EmotionClassifier
from bert.teaching import BUSY, GONE, TEACH, Adam, Lesson, School, check_lessons, fixed_set, learn
from bert.views import class_list

expect.set_options(timeout=60_000)  # a limit for a hang, never reached otherwise
TEXT, LABEL = "The cat fell asleep on my lap", "curiosity"  # the tiny model says: connection
LESSONS = [Lesson(TEXT, LABEL)]


def weights_of(classifier: EmotionClassifier) -> dict[str, bytes]:
    return {name: value.numpy().tobytes() for name, value in classifier.model.state_dict().items()}


def always(progress: dict) -> bool:
    return True


@pytest.fixture
def lab(classifier) -> Lab:
    return Lab(classifier)


@pytest.fixture
def school(monkeypatch) -> School:
    """An empty school for the study, and no copy that outlives the test."""
    school = School()
    monkeypatch.setattr(teaching, "SCHOOL", school)
    return school


def finished(lab: Lab, job: str) -> dict:
    """Ask for a job until it is over."""
    while (found := TEACH.run(lab, "", Options({"action": "progress", "job": job})))[
            "state"] == "learning":
        pass
    return found


# ---------------------------------------------------------------------------------- learning


def test_a_lesson_is_learned_and_the_shared_model_stays_byte_identical(classifier):
    before, answer = weights_of(classifier), classifier(TEXT)
    seen = []

    def look(progress: dict) -> bool:
        seen.append((progress["step"], progress["loss"], classifier(TEXT).probabilities))
        return True

    result = learn(classifier, LESSONS, look)
    line = result["taught"][0]
    assert classifier.keys[line["before"]["best"]] == "connection" != LABEL
    assert classifier.keys[line["after"]["best"]] == LABEL and line["after"]["share"] > 0.5
    assert (result["ended"], result["steps"]) == ("learned", seen[-1][0])
    assert [step for step, *_ in seen] == list(range(len(seen))) and seen[-1][1] < seen[0][1]
    for _, _, probabilities in seen:  # others get their usual answers while the copy learns
        assert np.array_equal(probabilities, answer.probabilities)
    assert weights_of(classifier) == before
    assert all(weight.grad is None for weight in classifier.model.parameters())


def test_learning_draws_no_random_numbers(classifier):
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first = learn(classifier, LESSONS, always)
    assert torch.equal(torch.get_rng_state(), state)
    assert learn(classifier, LESSONS, always) == first


def test_what_is_said_of_the_texts_is_what_the_model_answers(classifier):
    result = learn(classifier, LESSONS, always)
    lines = fixed_set()
    assert [line["text"] for line in result["fixed"]] == [line.text for line in lines]
    for line, lesson in zip(result["fixed"], lines, strict=True):
        expected = classifier(lesson.text).probabilities
        assert line["label"] == classifier.keys.index(lesson.label)
        assert line["before"]["best"] == expected.argmax()
        assert line["before"]["share"] == pytest.approx(expected.max(), abs=1e-5)


def test_a_taught_text_of_the_fixed_set_no_longer_counts_as_untaught(classifier):
    taught = fixed_set()[0].text
    result = learn(classifier, [Lesson(taught, "anger")], always)
    assert taught not in [line["text"] for line in result["fixed"]]
    assert len(result["fixed"]) == len(fixed_set()) - 1


def test_only_the_upper_part_of_the_copy_learns(classifier, monkeypatch):
    monkeypatch.setattr(teaching, "UPPER_LAYERS", 1)
    copy = teaching.copied(classifier.model)
    learning = {name for name, weight in copy.named_parameters() if weight.requires_grad}
    assert learning == {name for name, _ in copy.named_parameters()
                        if re.match(r"bert\.encoder\.layer\.1\.|bert\.pooler|classifier", name)}
    assert all(weight.requires_grad for weight in classifier.model.parameters())


def test_the_steps_are_those_of_adam():
    ours = torch.linspace(-1.0, 1.0, 6).reshape(2, 3).requires_grad_()
    theirs = ours.detach().clone().requires_grad_()
    adam, expected = Adam([ours], 0.01), torch.optim.Adam([theirs], lr=0.01)
    for step in range(4):
        adam.step(((ours - step) ** 3).sum())
        expected.zero_grad()
        ((theirs - step) ** 3).sum().backward()
        expected.step()
    torch.testing.assert_close(ours, theirs)


def test_lessons_that_contradict_each_other_end_after_the_most_steps(classifier, monkeypatch):
    monkeypatch.setattr(teaching, "MOST_STEPS", 3)
    result = learn(classifier, [Lesson(TEXT, "anger"), Lesson(TEXT, "joy")], always)
    assert (result["ended"], result["steps"]) == ("steps", 3)


def test_learning_ends_when_its_time_is_up(classifier, monkeypatch):
    monkeypatch.setattr(teaching, "SECONDS", 0.0)
    assert learn(classifier, LESSONS, always)["ended"] == "time"


def test_learning_ends_when_nobody_waits(classifier):
    asked = []
    assert learn(classifier, LESSONS, lambda progress: asked.append(progress)) is None
    assert len(asked) == 1


def test_the_fixed_set_has_three_texts_a_class_in_both_languages(classifier):
    lines = fixed_set()
    assert [sum(line.label == key for line in lines) for key in classifier.keys] == [3] * 10
    for key in classifier.keys:
        is_korean = [bool(re.search("[가-힣]", line.text)) for line in lines if line.label == key]
        assert True in is_korean and False in is_korean
    assert len({line.text for line in lines}) == 30


# ---------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize(("lessons", "part"), [
    (None, "There are no lessons"), ([], "There are no lessons"), ("joy", "There are no lessons"),
    ([{"text": "a", "label": "joy"}] * 21, "21 lessons: at most 20"),
    ([{"text": TEXT, "label": "hunger"}], "the class 'hunger'"),
    ([{"text": 3, "label": "joy"}], "Lesson 1 is not a text with a class"),
    ([{"text": TEXT, "label": ["joy"]}], "Lesson 1 is not a text with a class"),
    ([TEXT], "Lesson 1 is not a text with a class"),
    ([{"text": "a" * 5_001, "label": "joy"}], "5,001 characters"),
    ([{"text": "  ", "label": "joy"}], "The text is empty"),
])
def test_wrong_lessons_are_refused_in_one_sentence(lab, school, lessons, part):
    with pytest.raises(ValueError, match=re.escape(part)):
        TEACH.run(lab, "", Options({"action": "start", "lessons": lessons}))
    assert school._jobs == {}


def test_twenty_lessons_are_taken(classifier):
    assert len(check_lessons(classifier, [{"text": TEXT, "label": "joy"}] * 20)) == 20


def test_a_checkpoint_without_a_classifier_says_so(pretrained_folder):
    with pytest.raises(ValueError, match="has no classifier"):
        TEACH.run(Lab(EmotionClassifier.load(pretrained_folder)), "", Options())


def test_classes_that_are_not_ours_can_be_taught_without_a_fixed_set(classifier):
    names = tuple(f"class {number}" for number in range(10))
    checkpoint = replace(classifier.checkpoint, config=replace(classifier.config, id2label=names))
    foreign = EmotionClassifier(checkpoint)
    data = TEACH.answer(Lab(foreign), "", Options())
    assert data["fixed"] == [] and data["classes"] == class_list(names)
    result = learn(foreign, [Lesson(TEXT, "class 6")], always)
    assert (result["taught"][0]["after"]["best"], result["fixed"]) == (6, [])
    for drawn in (data, plain(result)):
        assert make_study(TEACH, drawn, "png", "ko").content.startswith(b"\x89PNG")


class Slow:
    """Learning that takes a step whenever the test says so."""

    def __init__(self) -> None:
        self.turn, self.stepped, self.ended = (threading.Semaphore(0) for _ in range(3))

    def __call__(self, classifier, lessons, go_on):
        going = True
        while going:
            self.turn.acquire()
            going = go_on({"step": 1})
            self.stepped.release()
        self.ended.release()

    def step(self) -> None:
        self.turn.release()
        self.stepped.acquire()


def leave(school: School) -> None:
    """Wait until the threads of a school have ended."""
    for thread in threading.enumerate():
        if getattr(thread, "_target", None) == school._teach:
            thread.join()


def test_when_all_places_are_taken_the_next_visitor_is_told_to_come_back(classifier):
    slow = Slow()
    school = School(slow)
    names = [school.start(classifier, LESSONS) for _ in range(teaching.AT_ONCE)]
    with pytest.raises(ValueError, match=re.escape(BUSY)):
        school.start(classifier, LESSONS)
    for name in names:
        school.stop(name)
    for _ in names:
        slow.step()
    leave(school)
    last = school.start(classifier, LESSONS)  # there is room again
    school.stop(last)
    slow.step()
    leave(school)
    assert school._jobs == {}


def test_a_stopped_job_ends_at_its_next_step_and_is_forgotten(classifier):
    slow = Slow()
    school = School(slow)
    name = school.start(classifier, LESSONS)
    slow.step()
    assert school.ask(name) == {"state": "learning", "step": 1}
    school.stop(name)
    with pytest.raises(ValueError, match=re.escape(GONE)):
        school.ask(name)
    slow.step()
    leave(school)
    assert school._jobs == {} and slow.ended.acquire(blocking=False)


def test_a_job_that_nobody_asks_for_ends_and_is_forgotten(classifier):
    slow, now = Slow(), [100.0]
    school = School(slow, clock=lambda: now[0])
    name = school.start(classifier, LESSONS)
    now[0] += teaching.PATIENCE - 1
    slow.step()
    school.ask(name)
    now[0] += teaching.PATIENCE - 1
    slow.step()
    now[0] += 2
    slow.step()
    leave(school)
    assert school._jobs == {} and slow.ended.acquire(blocking=False)


def test_a_result_that_nobody_fetches_gives_its_place_away(classifier):
    now = [100.0]
    school = School(lambda *_: {"state": "done"}, clock=lambda: now[0])
    for _ in range(teaching.AT_ONCE):
        school.start(classifier, LESSONS)
    leave(school)
    with pytest.raises(ValueError, match=re.escape(BUSY)):
        school.start(classifier, LESSONS)
    now[0] += teaching.PATIENCE
    name = school.start(classifier, LESSONS)
    leave(school)
    assert list(school._jobs) == [name]


def test_a_result_is_handed_over_once_and_nothing_is_kept(lab, school):
    lessons = [{"text": TEXT, "label": LABEL}]
    started = TEACH.run(lab, "", Options({"action": "start", "lessons": lessons}))
    result = finished(lab, started["job"])
    assert result == learn(lab.classifier, LESSONS, always)
    assert school._jobs == {}
    with pytest.raises(ValueError, match=re.escape(GONE)):
        TEACH.run(lab, "", Options({"action": "progress", "job": started["job"]}))


@pytest.mark.parametrize("job", [None, 3, "nobody", ["a"], {}])
def test_unknown_jobs_are_refused_and_stopping_them_does_nothing(lab, school, job):
    with pytest.raises(ValueError, match=re.escape(GONE)):
        TEACH.run(lab, "", Options({"action": "progress", "job": job}))
    assert TEACH.run(lab, "", Options({"action": "stop", "job": job})) == {"state": "stopped"}


# ---------------------------------------------------------------------------------- taking it away


def test_without_an_action_the_fixed_set_is_answered(lab, classifier):
    for options in ({}, {"action": "dance"}, {"result": "x"}, {"result": {"taught": [3]}}):
        data = TEACH.run(lab, "", Options(options))
        assert data["classes"] == class_list(classifier.keys) and data["taught"] == []
        assert [line["before"]["best"] for line in data["fixed"]] == [
            classifier(line.text).probabilities.argmax() for line in fixed_set()]


def test_a_result_sent_back_is_drawn_and_what_is_unsound_in_it_left_out(lab, classifier):
    result = plain(learn(classifier, LESSONS, always))
    bad = [{**result["fixed"][0], "label": 99}, {**result["fixed"][0], "after": {"best": 0}},
           {**result["fixed"][0], "before": {"best": 0, "share": float("nan")}}, None]
    sent = {"taught": result["taught"], "fixed": [*result["fixed"], *bad]}
    data = TEACH.answer(lab, "", Options({"result": sent}))
    assert (data["taught"], data["fixed"]) == (result["taught"], result["fixed"])


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_comparison_can_be_taken_away(lab, classifier, language):
    untaught = TEACH.answer(lab, "", Options())
    result = plain(learn(classifier, LESSONS, always))
    for data in (untaught, result):
        assert make_study(TEACH, data, "png", language).content.startswith(b"\x89PNG")
    sheet = make_study(TEACH, result, "csv", language).content.decode("utf-8-sig")
    rows = [line.split(",") for line in sheet.splitlines()]
    after = result["taught"][0]["after"]
    assert rows[1] == ["taught", TEXT, LABEL, "connection",
                       str(result["taught"][0]["before"]["share"]), LABEL, str(after["share"])]
    assert len(rows) == 1 + 1 + len(fixed_set())


def test_a_job_under_way_has_nothing_to_draw(lab, school):
    with pytest.raises(ValueError, match="nothing to draw"):
        make_study(TEACH, {"state": "learning"}, "png", "en")


# ---------------------------------------------------------------------------------- the browser


def test_a_visitor_teaches_one_line_and_saves_it(visit, classifier, tmp_path):
    with visit(f"view=teach&text={TEXT}") as page:
        place = page.locator('[data-study="teach"]')
        expect(place.locator(".fixed tbody tr")).to_have_count(len(fixed_set()))
        place.get_by_label("It should be").select_option(LABEL)
        place.get_by_role("button", name="Add lesson").click()
        expect(place.locator(".lessons .text")).to_have_text(TEXT)
        place.get_by_role("button", name="Learn", exact=True).click()
        row = place.locator(".taught tbody tr")
        expect(row.locator('[data-when="after"]')).to_contain_text("Curiosity")
        expected = learn(classifier, LESSONS, always)["taught"][0]
        for when in ("before", "after"):
            shown = row.locator(f'[data-when="{when}"] .figure').inner_text()
            assert float(shown[:-2]) == pytest.approx(100 * expected[when]["share"], abs=0.06)
        with page.expect_download() as saved:
            place.get_by_role("button", name="Save lessons").click()
        saved.value.save_as(tmp_path / "lessons.tsv")
        line, = read_labelled(tmp_path / "lessons.tsv")
        assert (line.label, line.language, line.level, line.text) == (LABEL, "en", "easy", TEXT)
        with page.expect_download() as picture:
            place.get_by_role("button", name="Save comparison").click()
        assert picture.value.suggested_filename == "microscope-teach.png"
        page.locator(".download summary").click()
        with page.expect_download() as sheet:
            page.locator('[data-file="teach.csv"]').click()
        sheet.value.save_as(tmp_path / "teach.csv")
        taught = (tmp_path / "teach.csv").read_text(encoding="utf-8-sig").splitlines()[1].split(",")
        assert (taught[0], taught[5]) == ("taught", LABEL)


def test_a_lesson_keeps_while_other_texts_are_read_and_tabs_never_break_the_file(visit, tmp_path):
    text = "드디어\t마라톤을 \"완주\"했다"
    with visit(f"view=teach&text={TEXT}") as page:
        place = page.locator('[data-study="teach"]')
        place.get_by_label("It should be").select_option("joy")
        place.get_by_role("button", name="Add lesson").click()
        box = page.get_by_label("Your text")
        box.fill(text)
        box.press("Enter")
        expect(place.locator(".now")).to_contain_text("완주")
        place.get_by_label("It should be").select_option("anger")
        place.get_by_role("button", name="Add lesson").click()
        place.get_by_label(f"Class of “{TEXT}”").select_option("sadness")
        with page.expect_download() as saved:
            place.get_by_role("button", name="Save lessons").click()
        saved.value.save_as(tmp_path / "lessons.tsv")
        assert [(line.label, line.language, line.text)
                for line in read_labelled(tmp_path / "lessons.tsv")] == [
            ("sadness", "en", TEXT), ("anger", "ko", '드디어 마라톤을 "완주"했다')]
        place.get_by_role("button", name=f"Remove the lesson “{TEXT}”").click()
        expect(place.locator(".lessons li")).to_have_count(1)
