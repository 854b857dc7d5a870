"""One answer as one interactive file."""

import pytest
from page_fixtures import new_context

from bert.commands import predict
from bert.errors import UserError
from bert.page.standalone import standalone

TEXT = "드디어 해냈다 </script><img src=x onerror=alert(1)> ${1+1}"


@pytest.fixture(scope="module")
def saved(emotion_folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("standalone") / "answer.html"
    predict.main([TEXT, "--checkpoint", str(emotion_folder), "--out", str(path)])
    return path


def test_the_file_asks_nobody_and_every_control_is_alive(browser, saved, classifier):
    context = new_context(browser)
    page = context.new_page()
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(saved.as_uri())
    page.wait_for_selector("body[data-ready]")
    drawn = "document.querySelector('.frame').dataset.drawn"
    first = page.evaluate(drawn)
    page.locator("select.choose-layer").select_option("1")
    page.locator("select.choose-head").select_option("2")
    assert page.evaluate(drawn).endswith("/heatmap/1/2") and page.evaluate(drawn) != first
    for view in ("lines", "heads", "layers", "ends"):
        page.locator(f'.views [data-view="{view}"]').click()
        assert f"/{view}/" in page.evaluate(drawn)
    page.locator("input.moved").check()
    page.locator('[data-unit="words"]').click()
    shares = page.locator(".bar .figure").all_text_contents()
    expected = [f"{100 * share:.1f}\u00a0%" for share in classifier(TEXT).probabilities]
    assert shares == expected
    page.locator(".bar").nth(3).click()
    assert page.locator(".strip .token:is(.for, .against)").count() > 0
    assert page.locator("h1").text_content() == TEXT
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert complaints == []
    context.close()


def test_a_layer_and_a_head_can_be_asked_for(browser, emotion_folder, tmp_path):
    path = tmp_path / "head.html"
    predict.main(["좋아", "--checkpoint", str(emotion_folder), "--attention", "2", "1",
                  "--out", str(path)])
    context = new_context(browser)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.evaluate("document.querySelector('.frame').dataset.drawn") == "좋아/heatmap/2/1"
    context.close()


def test_sixty_four_tokens_of_the_shipped_model_take_less_than_a_megabyte_and_a_half(shipped):
    text = "I finally passed the exam and everyone cheered for me today. " * 5
    text = text[:-1]
    page = standalone(shipped, text)
    assert len(shipped(text).tokens) >= 60
    assert len(page.encode()) < 1_500_000


# ---------------------------------------------------------------------------------- a notebook


def test_a_prediction_shows_the_living_page_in_a_notebook(browser, classifier):
    context = browser.new_context()
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(classifier(TEXT).show(layer=2, head=1, view="lines")._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("body[data-ready]").wait_for()
    drawn = frame.locator(".frame")
    assert drawn.get_attribute("data-drawn") == f"{TEXT}/lines/2/1"
    frame.locator("select.choose-head").select_option("2")
    assert drawn.get_attribute("data-drawn") == f"{TEXT}/lines/2/2"
    frame.locator(".bar").nth(3).click()
    assert frame.locator(".strip .token:is(.for, .against)").count() > 0
    assert complaints == []
    context.close()


def test_what_a_notebook_shows_can_be_kept_as_a_file(classifier, tmp_path):
    shown = classifier.predict_many(["좋아"])[0].show()
    shown.save(tmp_path / "answer.html")
    assert (tmp_path / "answer.html").read_text(encoding="utf-8") == standalone(classifier, "좋아")


@pytest.mark.parametrize("wrong, said", [({"view": "circle"}, "view is 'circle'"),
                                         ({"layer": 99}, "layer 99 does not exist"),
                                         ({"head": 0}, "head 0 does not exist")])
def test_what_cannot_be_shown_is_said(classifier, wrong, said):
    with pytest.raises(UserError, match=said):
        classifier("좋아").show(**wrong)
