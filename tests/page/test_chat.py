"""The conversation in a real browser: what people send, and what the chat answers."""

from dataclasses import replace

import pytest
from page_helpers import (
    ENGLISH,
    EXAMPLE,
    KOREAN,
    address,
    clear,
    figures,
    head_that_matters,
    replies,
    said,
    send,
)
from playwright.sync_api import expect

from bert.checkpoint import save_checkpoint
from bert.drawing.texts import say, texts
from bert.explain.relevance import attribute
from bert.page.replies import reply
from bert.page.visit import Visit

HOSTILE = (
    '<img src=x onerror="document.title=\'broken\'"> <b>bold</b>',
    "</script><script>document.title='broken'</script>",
    "${document.title='broken'} {{document.title='broken'}} $x^2$ \\(y\\)",
    "**bold** [link](https://example.org) `code` ![picture](x.png) # heading www.example.org",
    "rtl \u202eabc\u202c zero\u200bwidth שלום 🙂",
    "첫 줄\n둘째 줄\n\n- 셋째 줄",
)


def expected_reply(classifier, text: str, language: str) -> str:
    prediction = classifier(text)
    return reply(prediction, attribute(classifier, text, prediction.label), language,
                 head_that_matters(classifier, text)).plain


def test_typing_a_text_gives_the_figures_and_the_reply_that_python_gives(visit, classifier):
    with visit() as page:
        send(page, KOREAN)
        assert list(figures(page)) == list(classifier.keys)
        assert figures(page) == pytest.approx(
            {key: 100 * p for key, p in classifier(KOREAN).ranked()}, abs=0.051)
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "achievement")
        assert replies(page)[-1] == expected_reply(classifier, KOREAN, "en")
        assert page.get_by_label("Your text").input_value() == ""


def test_the_answer_is_announced(visit):
    with visit() as page:
        log = page.get_by_role("log")
        expect(log).to_have_attribute("aria-live", "polite")
        assert log.locator(".bot-row").count() == 1


def test_a_click_on_an_earlier_text_brings_its_charts_back(visit):
    with visit(f"text={KOREAN}") as page:
        send(page, ENGLISH)
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "anger")
        page.locator("#chat").get_by_text(KOREAN, exact=True).click()
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "achievement")
        expect(page.locator(".strip")).to_contain_text("마라톤을")
        assert said(page) == [KOREAN, ENGLISH] and address(page)["text"] == KOREAN


@pytest.mark.parametrize("number, shown", [(0, 3), (1, 3), (22, 14)])
def test_a_bubble_is_found_when_the_chat_begins_later_than_the_visit(number, shown):
    visited = Visit(texts=[f"text {n}" for n in range(15)])
    chat = [{"role": role, "content": ""} for _ in range(12) for role in ("user", "assistant")]
    assert visited.choosing(chat, number).shown == shown


def test_nothing_of_a_text_stays_once_it_is_cleared_and_undo_brings_it_back(visit):
    with visit(f"text={KOREAN}&layer=1&head=2&class=joy") as page:
        send(page, ENGLISH)
        clear(page)
        expect(page.locator("div.bar")).to_have_count(10)
        expect(page.locator("#chat")).to_contain_text(say("en", "chat_empty"))
        for part in (".bars", ".strip", ".strip-note", ".stage .finding", ".stage .info",
                     ".stage .readout"):
            expect(page.locator(part)).to_have_text("")
        assert not {"text", "class"} & address(page).keys() and address(page)["layer"] == "1"
        everything = page.evaluate("document.body.outerHTML + location.href"
                                   " + JSON.stringify(sessionStorage)")
        assert "마라톤을" not in everything and "blamed" not in everything
        page.locator(".stage .download summary").click()
        expect(page.locator('.stage [data-file="heatmap.png"]')).to_be_disabled()
        page.get_by_role("button", name=say("en", "undo_clear")).click()
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [KOREAN, ENGLISH]
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "anger")
        expect(page.get_by_role("button", name=say("en", "undo_clear"))).to_be_hidden()


def test_who_goes_on_after_clearing_is_no_longer_offered_the_old_conversation(visit):
    with visit() as page:
        clear(page)
        undo = page.get_by_role("button", name=say("en", "undo_clear"))
        expect(undo).to_be_visible()
        send(page, KOREAN)
        expect(undo).to_be_hidden()


def test_a_text_that_could_not_be_sent_stays_in_the_box(visit):
    with visit() as page:
        page.route("**/gradio_api/run/predict**",
                   lambda route: route.fulfill(status=500, json={"error": "No."}))
        box = page.get_by_label("Your text")
        box.fill(KOREAN)
        with page.expect_response("**/gradio_api/run/predict**"):
            box.press("Enter")
        expect(box).to_have_value(KOREAN)
        page.unroute("**/gradio_api/run/predict**")
        box.press("Enter")
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [EXAMPLE, KOREAN]
        page.complaints.clear()  # the browser itself reports the answer of 500


def test_shift_enter_breaks_the_line_and_an_enter_that_ends_a_syllable_does_not_send(visit):
    with visit() as page:
        box = page.get_by_label("Your text")
        box.focus()
        keyboard = page.context.new_cdp_session(page)
        keyboard.send("Input.imeSetComposition",
                      {"text": "첫눈이", "selectionStart": 3, "selectionEnd": 3})
        for kind in ("rawKeyDown", "keyUp"):  # as an input method sends it
            keyboard.send("Input.dispatchKeyEvent", {"type": kind, "key": "Enter",
                          "code": "Enter", "windowsVirtualKeyCode": 229})
        keyboard.send("Input.insertText", {"text": "첫눈이"})
        box.press("Shift+Enter")
        box.press_sequentially("와서")
        assert box.input_value() == "첫눈이\n와서"
        assert said(page) == [EXAMPLE]
        box.press("Enter")
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [EXAMPLE, "첫눈이\n와서"]


def test_an_example_is_sent_with_one_click(visit):
    with visit() as page:
        wanted = texts()["en"]["example_texts"][2]
        page.locator("#examples-en").get_by_role("button", name=wanted).click()
        expect(page.locator("#chat .bot-row")).to_have_count(2)
        assert said(page) == [EXAMPLE, wanted]


def test_a_text_about_self_harm_gets_a_calm_line_with_help(visit):
    with visit("text=요즘 그냥 죽고 싶다&lang=ko") as page:
        expect(page.locator(".care")).to_contain_text("109")
        assert "109" in replies(page)[0]
        send(page, KOREAN)
        expect(page.locator(".care")).to_be_hidden()


def test_a_long_text_is_cut_with_a_visible_note(visit, classifier):
    with visit() as page:
        send(page, "마라톤을 완주했다. " * 60)
        assert (f"Only the first {classifier.config.max_position_embeddings} pieces were read"
                in replies(page)[-1])
        assert len(address(page)["text"]) < 600


def test_two_visitors_do_not_see_each_other(visit):
    with visit() as one, visit(fresh=True) as other:
        send(one, KOREAN)
        send(other, ENGLISH)
        assert said(one) == [EXAMPLE, KOREAN] and said(other) == [EXAMPLE, ENGLISH]


def test_hostile_texts_are_shown_as_they_were_typed_and_executed_nowhere(visit):
    with visit() as page:
        for number, text in enumerate(HOSTILE, start=1):
            send(page, text)
            assert said(page)[number] == text
            page.locator('[data-class="joy"]').click()
            expect(page.locator(".strip-note b")).to_contain_text("Joy")
            assert page.locator(
                "#chat :is(img, script, b, a, code, h1, em, .katex), .microscope :is(img, script),"
                " #chat .user-row strong, .strip b").count() == 0
            assert page.title() == say("en", "title")
        page.reload()
        expect(page.locator("#chat .bot-row")).to_have_count(len(HOSTILE) + 1)
        assert said(page)[1:] == list(HOSTILE)
        assert page.title() == say("en", "title")


def test_unsure_answers_say_so_and_a_checkpoint_without_classes_shows_attention(
        visit, serve, classifier, pretrained_folder, tmp_path):
    model = classifier.model
    hesitant = replace(model.config, confidence_threshold=1.0)
    model_config, model.config = model.config, hesitant
    save_checkpoint(tmp_path / "hesitant", model, classifier.tokenizer)
    model.config = model_config
    server = serve(tmp_path / "hesitant", port=18_200)
    with visit(f"text={KOREAN}&lang=en", at=server) as page:
        unsure = {say("en", f"reply_unsure_{n}", name="achievement", percent="") for n in (1, 2, 3)}
        assert any(replies(page)[0].startswith(phrase[:12]) for phrase in unsure)
        server.stop()
        serve(pretrained_folder, port=server.port)
        send(page, ENGLISH)
        assert replies(page)[-1] == say("en", "no_classifier_answer")
        expect(page.locator(".feelings .none")).to_be_visible()
        expect(page.locator('.view[data-view="heatmap"] canvas.matrix')).to_be_visible()
        page.complaints.clear()  # the browser itself reports connections that were refused
