"""The page in a real browser: what people type, click and see."""

import io
import json
import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from bert.checkpoint import save_checkpoint
from bert.drawing.texts import colours, say, texts
from bert.explain import attention as views
from bert.explain.gradients import attribute

expect.set_options(timeout=60_000)  # a limit for a hang, never reached otherwise
KOREAN, ENGLISH = "드디어 마라톤을 완주했다", "They blamed me for their own mistake"
EXAMPLE = texts()["en"]["example_texts"][0]
VIEWS = ("heatmap", "lines", "heads", "layers", "ends")


def send(page: Page, text: str) -> None:
    """Type a text, press Enter, and wait for its answer."""
    before = page.locator(".message").count()
    box = page.get_by_label("Your text")
    box.fill(text)
    box.press("Enter")
    expect(page.locator(".message")).to_have_count(before + 1)
    page.wait_for_selector(".message:last-child .answer:not(.waiting)")


def refuse(page: Page) -> None:
    """From now on the server understands no text."""
    page.route("**/run/look", lambda route: route.fulfill(status=500, json={"error": "No."}))


def figures(page: Page) -> dict[str, float]:
    """The per cent beside each bar, by class."""
    return {bar.get_attribute("data-class"): float(bar.locator(".figure").inner_text()[:-2])
            for bar in page.locator("button.bar").all()}


def point_at(page: Page, row: int, column: int) -> str:
    """Go to a cell of the heatmap by arrow keys from the corner; what is said of it."""
    pad = page.locator('[data-view="heatmap"] .pad')
    pad.focus()
    pad.press("ArrowRight")
    for _ in range(row):
        pad.press("ArrowDown")
    for _ in range(column):
        pad.press("ArrowRight")
    return page.locator(".readout").inner_text()


def address(page: Page) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))


# ---------------------------------------------------------------------------------- first screen


def test_the_page_opens_with_an_example_answered_and_needs_no_scrolling(visit, classifier):
    with visit() as page:
        expect(page.locator(".said")).to_have_text(EXAMPLE)
        expected = classifier(EXAMPLE)
        assert figures(page) == pytest.approx(
            {key: 100 * p for key, p in expected.ranked()}, abs=0.051)
        assert page.evaluate("document.documentElement.scrollHeight") <= 900
        for part in ("#your-text", ".bars", '[data-view="heatmap"] canvas.matrix', ".scale"):
            box = page.locator(part).bounding_box()
            assert box["y"] + box["height"] <= 900 and box["x"] + box["width"] <= 1280


def test_typing_a_text_gives_the_figures_that_predict_gives(visit, classifier):
    with visit("layer=1&head=2") as page:
        send(page, KOREAN)
        expected = classifier(KOREAN)
        assert list(figures(page)) == list(classifier.keys)
        assert figures(page) == pytest.approx(
            {key: 100 * p for key, p in expected.ranked()}, abs=0.051)
        assert page.locator(".bar.best").get_attribute("data-class") == "achievement"
        sentence = page.locator(".message:last-child .sentence").inner_text()
        assert sentence.startswith(f"Achievement {100 * expected.probabilities.max():.0f}")
        weights = expected.attentions[0, 1]
        said = point_at(page, 1, 2)
        found = re.fullmatch(r"“(.+)” looks at “(.+)”: (?:< )?([\d.]+)", said)
        assert found.group(1, 2) == (expected.tokens[1], expected.tokens[2])
        assert float(found[3]) == pytest.approx(weights[1, 2], abs=0.01)


def heatmap_colours(page: Page) -> set[tuple[int, ...]]:
    found = page.evaluate("""() => {
        const canvas = document.querySelector('[data-view="heatmap"] canvas.matrix');
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4) {
            if (data[i + 3] === 255) seen.add([...data.slice(i, i + 3)].join());
        }
        return [...seen];
    }""")
    return {tuple(map(int, colour.split(","))) for colour in found}


def table_colours(first: int, last: int) -> set[tuple[int, ...]]:
    return {tuple(bytes.fromhex(colour[1:])) for colour in colours()["viridis"][first:last + 1]}


def test_the_heatmap_has_the_colours_of_its_weights(visit, classifier):
    with visit(f"text={KOREAN}&layer=2&head=1") as page:
        weights = classifier(KOREAN).attentions[1, 0]
        for weight in (weights.max(), weights.min()):
            at = round(255 * float(weight))
            assert table_colours(max(0, at - 1), at + 1) & heatmap_colours(page)


def test_the_largest_weight_is_brightest_if_asked_for(visit, classifier):
    with visit(f"text={KOREAN}&layer=2&head=mean") as page:
        top = float(classifier(KOREAN).attentions[1].mean(axis=0).max())
        assert not table_colours(255, 255) & heatmap_colours(page)
        expect(page.locator(".scale .figures span").first).to_have_text("1.0")
        page.get_by_label("To max").check()
        assert table_colours(255, 255) & heatmap_colours(page)
        shown = float(page.locator(".scale .figures span").first.inner_text())
        assert shown == pytest.approx(top, abs=0.011)
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            expect(page.locator(f'.view[data-view="{view}"]')).to_be_visible()
            assert 0 < float(page.locator(".scale .figures span").first.inner_text()) <= 1
        assert address(page)["scale"] == "max"


def test_switching_layer_head_options_and_views_asks_nobody(visit):
    with visit() as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.get_by_label("Layer", exact=True).select_option("1")
        expect(page.locator(".info b")).to_have_text("Layer 1 · Mean of heads")
        page.get_by_label("Next head").click()
        expect(page.locator(".info b")).to_have_text("Layer 1 · Head 1")
        page.get_by_label("Layer", exact=True).select_option("rollout")
        expect(page.locator(".info b")).to_have_text("Rollout")
        page.get_by_role("button", name="Words", exact=True).click()
        page.get_by_label("Hide [CLS] [SEP]").check()
        page.get_by_label("Fade below").fill("0.2")
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            expect(page.locator(f'.view[data-view="{view}"]')).to_be_visible()
        assert asked == []


# ---------------------------------------------------------------------------------- conversation


def test_earlier_messages_bring_their_charts_back_and_can_go(visit, classifier):
    with visit() as page:
        send(page, KOREAN)
        send(page, ENGLISH)
        assert page.locator(".bar.best").get_attribute("data-class") == "anger"
        page.locator(".said", has_text=KOREAN).click()
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "achievement")
        expect(page.locator(".strip")).to_contain_text("마라톤을")
        page.locator(".message", has_text=KOREAN).get_by_role(
            "button", name="Delete this message").click()
        expect(page.locator(".said")).to_have_count(2)
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "anger")
        page.get_by_role("button", name="Clear").click()
        expect(page.locator(".messages")).to_contain_text("Nothing here yet")


def test_nothing_of_a_text_stays_on_the_page_once_it_is_gone(visit):
    with visit(f"text={KOREAN}&layer=1&head=2") as page:
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("div.bar")).to_have_count(10)
        for part in (".bars", ".strip", ".info", ".readout"):
            expect(page.locator(part)).to_have_text("")
        assert "text" not in address(page) and address(page)["layer"] == "1"
        page.locator(".download summary").click()
        expect(page.locator('[data-file="heatmap.png"]')).to_be_disabled()
        page.locator('[data-group="answer"]').click()
        send(page, ENGLISH)
        expect(page.locator('[data-study="lens"]')).to_be_visible()
        refuse(page)
        send(page, KOREAN)
        expect(page.locator(".message:last-child [role=alert]")).to_have_text("No.")
        expect(page.locator("div.bar")).to_have_count(10)
        expect(page.locator('[data-study="lens"]')).to_be_hidden()
        page.locator(".said", has_text=ENGLISH).click()
        expect(page.locator(".bar.best")).to_have_attribute("data-class", "anger")
        expect(page.locator('[data-study="lens"]')).to_be_visible()
        page.complaints.clear()  # the browser itself reports the answer of 500


def test_trying_again_with_the_keyboard_never_leads_to_the_delete_button(visit):
    with visit() as page:
        refuse(page)
        send(page, KOREAN)
        again = page.locator(".message:last-child").get_by_role("button", name="Try again")
        again.focus()
        page.get_by_role("button", name="한국어로 보기").evaluate("button => button.click()")
        again = page.locator(".message:last-child .retry")
        expect(again).to_have_text("다시 시도")
        expect(again).to_be_focused()
        page.unroute("**/run/look")
        page.keyboard.press("Enter")
        page.wait_for_selector(".message:last-child .answer.done")
        expect(page.get_by_label("Your text")).to_be_focused()
        page.complaints.clear()  # the browser itself reports the answer of 500


def test_shift_enter_breaks_the_line_and_a_composing_enter_does_not_send(visit):
    with visit(locale="ko-KR") as page:
        box = page.get_by_label("Your text")
        box.press_sequentially("첫눈이")
        box.evaluate("""box => box.dispatchEvent(new KeyboardEvent("keydown",
            {key: "Enter", isComposing: true, bubbles: true, cancelable: true}))""")
        box.press("Shift+Enter")
        box.press_sequentially("와서")
        assert box.input_value() == "첫눈이\n와서"
        expect(page.locator(".message")).to_have_count(1)
        box.press("Enter")
        expect(page.locator(".said").last).to_have_text("첫눈이\n와서")
        assert box.input_value() == ""


def test_an_example_is_sent_with_one_click(visit):
    with visit() as page:
        page.get_by_role("group", name="Examples").get_by_role("button").nth(4).click()
        expect(page.locator(".said").last).to_have_text(texts()["en"]["example_texts"][4])
        page.wait_for_selector(".message:last-child .answer.done")


def test_a_text_about_self_harm_gets_a_calm_line_with_help(visit):
    with visit(f"text={urllib.parse.quote('요즘 그냥 죽고 싶다')}&lang=ko") as page:
        expect(page.locator(".care")).to_contain_text("109")
        send(page, KOREAN)
        expect(page.locator(".care")).to_be_hidden()
        send(page, "I told them no")
        send(page, "너무 힘들어서 죽고 싶다는 생각이 든다")
        expect(page.locator(".care")).to_be_visible()
        expect(page.locator(".message:last-child .answer")).to_be_in_viewport()


def test_a_long_text_is_cut_with_a_visible_note(visit, classifier):
    with visit() as page:
        send(page, "마라톤을 완주했다. " * 60)
        note = page.locator(".message:last-child small")
        expect(note).to_contain_text(
            f"Only the first {classifier.config.max_position_embeddings} pieces were read")
        assert len(address(page)["text"]) < 600


def test_two_visitors_do_not_see_each_other(visit):
    with visit() as one, visit(locale="en-US") as other:
        send(one, KOREAN)
        send(other, ENGLISH)
        assert one.locator(".said").all_inner_texts() == [EXAMPLE, KOREAN]
        assert other.locator(".said").all_inner_texts() == [EXAMPLE, ENGLISH]


@pytest.mark.parametrize("text", [
    '<img src=x onerror="document.title=\'broken\'"> <b>bold</b>',
    "</script><script>document.title='broken'</script>",
    "${document.title='broken'} {{document.title='broken'}}",
    "rtl \u202eabc\u202c zero\u200bwidth שלום",
])
def test_hostile_texts_are_shown_as_text_everywhere(visit, text):
    with visit(f"text={urllib.parse.quote(text)}&class=joy") as page:
        assert page.locator(".said").inner_text() == text
        assert page.locator("#microscope-root :is(img, script, b:has-text('bold'))").count() == 0
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
        assert page.title() == "Emotion Microscope"
        assert page.evaluate("window.getSelection() !== null")


# ---------------------------------------------------------------------------------- views


def test_a_click_on_a_head_selects_it(visit):
    with visit("view=heads&layer=1") as page:
        page.get_by_role("button", name=re.compile("^Layer 1, head 2: .+ Select it")).click()
        expect(page.locator(".info b")).to_have_text("Layer 1 · Head 2")
        page.locator("#tab-layers").click()
        assert page.locator(".layer-grid .head").count() == 4
        page.locator('.layer-grid [data-layer="2"][data-head="1"]').click()
        expect(page.locator(".info b")).to_have_text("Layer 2 · Head 1")
        assert address(page)["layer"] == "2" and address(page)["head"] == "1"


def test_heads_carry_the_tags_and_layers_the_summary_of_their_matrices(visit, classifier):
    with visit(f"text={KOREAN}&view=heads&layer=2&head=1") as page:
        prediction = classifier(KOREAN)
        tags = views.head_tags(prediction.encoding, prediction.attentions)[1]
        captions = page.locator(".head-grid .caption small").all_inner_texts()
        for caption, tag in zip(captions, tags, strict=True):
            assert caption.startswith(say("en", f"tag_{tag.name}", token=tag.token))
        name, count = views.layer_summary(tags)
        expect(page.locator(".info")).to_have_text(
            "Layer 2: " + say("en", f"summary_{name}", count=count, heads=2))


def test_first_beside_last_layer_says_what_to_look_for_and_what_is_there(visit, classifier):
    with visit(f"text={KOREAN}&view=ends&layer=mean&head=2") as page:
        expect(page.locator(".ends figcaption")).to_have_text(
            ["First layer: Layer 1 · Head 2", "Last layer: Layer 2 · Head 2"])
        prediction = classifier(KOREAN)
        found = views.first_and_last(prediction.encoding, prediction.attentions)
        expect(page.locator(".ends-note")).to_contain_text(
            f"near the diagonal {100 * found['near'][0]:.0f}")
        expect(page.locator(".ends-note b")).to_contain_text("On this text" if not (
            found["diagonal_early"] and found["sep_late"]) else "both")


def test_words_and_hidden_special_tokens_follow_the_exact_figures(visit, classifier):
    text = "마라톤이라면 완주했다네"
    with visit(f"text={text}&layer=1&head=1&tokens=words&special=hidden") as page:
        prediction = classifier(text)
        view = views.shown(prediction.encoding, prediction.attentions[0, 0], True, True)
        assert page.locator(".strip .token").all_inner_texts() == view.tokens == text.split()
        said = page.locator(".readout").inner_text()
        share = float(re.search(r"([\d.]+)\s%", said)[1])
        assert share == pytest.approx(100 * view.hidden_share, abs=0.5)
        cell = point_at(page, 1, 0)
        assert float(cell.rsplit(" ", 1)[1]) == pytest.approx(view.weights[1, 0], abs=0.02)
        page.get_by_role("button", name="Pieces", exact=True).click()
        page.get_by_label("Hide [CLS] [SEP]").uncheck()
        assert page.locator(".strip .token").count() == len(prediction.tokens)


def test_pointing_at_a_token_highlights_it_everywhere(visit, classifier):
    with visit(f"text={KOREAN}") as page:
        point_at(page, 1, 2)
        expect(page.locator(".strip .token").nth(1)).to_have_class(re.compile("looking"))
        expect(page.locator(".strip .token").nth(2)).to_have_class(re.compile("looked-at"))
        page.locator(".strip .token").nth(3).hover()
        expect(page.locator(".readout")).to_contain_text(
            f"“{classifier(KOREAN).tokens[3]}” looks most at")


def test_what_a_finger_touched_stays_when_it_is_lifted(visit, classifier):
    tokens = classifier(KOREAN).tokens
    with visit(f"text={KOREAN}", has_touch=True, viewport={"width": 390, "height": 844}) as page:
        readout = page.locator(".readout")
        page.locator('[data-view="heatmap"] .pad').tap()
        expect(readout).to_contain_text("” looks at “")
        page.locator(".strip .token").nth(1).tap()
        expect(readout).to_contain_text(f"“{tokens[1]}” looks most at")
        page.locator("#tab-ends").tap()
        for number in (0, 1):
            page.locator('[data-view="ends"] .pad').nth(number).tap()
            expect(readout).to_contain_text("Layer 2 “")
        page.locator("h1").tap()
        expect(readout).to_have_text(say("en", "cell_hint"))


def test_the_korean_page_puts_the_fitting_particle_after_a_token(visit, classifier):
    with visit(f"text={KOREAN}&lang=ko") as page:
        page.locator(".strip .token").nth(1).hover()
        said = say("ko", "token_looks", token=classifier(KOREAN).tokens[1], list="")
        assert "(" not in said
        expect(page.locator(".readout")).to_contain_text(said.strip())


def test_a_click_on_a_bar_colours_the_words_for_and_against_it(visit, classifier):
    with visit(f"text={KOREAN}") as page:
        page.locator('[data-class="achievement"]').click()
        expect(page.locator(".strip-note b")).to_have_text("Words for and against Achievement")
        found = attribute(classifier, KOREAN, "achievement")
        shown = page.locator(".strip .token:not(.special)").all()
        for token, value in zip(shown, found.values[1:-1], strict=True):
            assert ("for" in token.get_attribute("class").split()) == bool(value >= 0)
        assert f"{found.total:+.2f}" in page.locator(".strip-note").inner_text().replace("−", "-")
        assert address(page)["class"] == "achievement"
        page.get_by_role("button", name="Plain text").click()
        expect(page.locator(".strip .token.for")).to_have_count(0)


@pytest.mark.parametrize("scheme, language, width, height", [
    ("light", "ko", 1280, 900), ("dark", "en", 1280, 900), ("dark", "ko", 390, 844),
    ("light", "en", 390, 844)])
def test_every_view_renders_without_boxes_or_clipped_labels(visit, scheme, language, width, height):
    with visit(f"lang={language}", color_scheme=scheme,
               viewport={"width": width, "height": height}) as page:
        page.evaluate("document.fonts.ready")
        assert page.evaluate("""() => [...document.fonts].some(
            face => face.family.includes("Microscope Gothic") && face.status === "loaded")""")
        for view in VIEWS:
            page.locator(f"#tab-{view}").click()
            expect(page.locator(f'.view[data-view="{view}"] canvas').first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        clipped = page.evaluate("""() => [...document.querySelectorAll(
            "#microscope-root :is(h1, h2, .bar .name, .figure, .tabs button, .masthead button,"
            + " .compose label, .info, .privacy)")].filter(
            element => element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0)
            .map(element => element.textContent)""")
        assert clipped == []
        ground = page.evaluate("getComputedStyle(document.querySelector('.panel')).backgroundColor")
        assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 28, 37)")


# ---------------------------------------------------------------------------------- address


def test_a_link_restores_the_exact_view(visit):
    query = (f"text={urllib.parse.quote(ENGLISH)}&layer=2&head=2&view=lines&tokens=words"
             "&special=hidden&fade=0.15&scale=max&class=anger&lang=ko")
    with visit(query) as page:
        expect(page.locator(".said")).to_have_text(ENGLISH)
        expect(page.locator("#tab-lines")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".info b")).to_have_text("2층 · 헤드 2")
        expect(page.locator("#fade")).to_have_value("0.15")
        expect(page.locator("#stretch")).to_be_checked()
        expect(page.locator("#hide-special")).to_be_checked()
        expect(page.locator(".strip .token").first).to_have_class(re.compile("for|against"))
        assert page.locator("html").get_attribute("lang") == "ko"
        assert address(page) == dict(urllib.parse.parse_qsl(query))


def test_impossible_values_in_the_address_fall_back_to_the_defaults(visit):
    nonsense = "layer=99&head=-3&view=nothing&lang=xx&fade=lots&scale=9&class=boredom&tokens=7"
    with visit(nonsense) as page:
        expect(page.locator(".said")).to_have_text(EXAMPLE)
        expect(page.locator(".info b")).to_have_text("Layer 2 · Mean of heads")
        expect(page.locator("#tab-heatmap")).to_have_attribute("aria-selected", "true")
        expect(page.locator("#stretch")).not_to_be_checked()
        assert not {"class", "scale"} & address(page).keys()


def test_the_link_button_copies_the_address_of_the_view(visit):
    with visit("lang=en", permissions=["clipboard-read", "clipboard-write"]) as page:
        send(page, KOREAN)
        page.get_by_role("button", name="Copy link").click()
        expect(page.locator(".copied")).to_have_text("Link copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        assert address(page)["text"] == KOREAN


def test_the_language_follows_the_browser_and_can_be_switched(visit):
    with visit(locale="ko-KR") as page:
        expect(page.locator("h1")).to_have_text("감정 현미경")
        expect(page.locator(".said")).to_have_text(texts()["ko"]["example_texts"][0])
        page.get_by_role("button", name="Switch to English").click()
        expect(page.locator("h1")).to_have_text("Emotion Microscope")
        assert address(page)["lang"] == "en"


# ---------------------------------------------------------------------------------- files


def test_the_download_buttons_give_valid_files(visit, classifier):
    with visit(f"text={KOREAN}&layer=1&head=1") as page:
        page.locator(".download summary").click()
        found = {}
        for name in ("heatmap.png", "bars.svg", "card.pdf", "numbers.csv", "numbers.npz",
                     "numbers.json"):
            with page.expect_download() as caught:
                page.locator(f'[data-file="{name}"]').click()
            found[name] = Path(caught.value.path()).read_bytes()
        assert found["heatmap.png"].startswith(b"\x89PNG")
        ElementTree.fromstring(found["bars.svg"])
        assert found["card.pdf"].startswith(b"%PDF-")
        prediction = classifier(KOREAN)
        assert found["numbers.csv"].decode("utf-8-sig").count("\n") == len(prediction.tokens) + 1
        np.testing.assert_allclose(np.load(io.BytesIO(found["numbers.npz"]))["attentions"],
                                   prediction.attentions, atol=1e-6)
        assert json.loads(found["numbers.json"])["text"] == KOREAN
        assert json.loads(found["numbers.json"])["link"] == page.url


# ---------------------------------------------------------------------------------- everybody


def test_the_page_can_be_used_with_the_keyboard_alone(visit):
    with visit() as page:
        page.get_by_label("Your text").focus()
        page.keyboard.type(ENGLISH)
        page.keyboard.press("Enter")
        page.wait_for_selector(".message:nth-child(2) .answer.done")
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset"
                                      ".class || document.activeElement.className"))
        assert {"tab-heatmap", "choose-layer", "choose-head", "hide-special", "fade", "anger",
                "pad"} <= reached
        page.locator("#tab-heatmap").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#tab-heads")).to_be_focused()
        page.locator(".head-grid .head").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(".info b")).to_have_text("Layer 2 · Head 2")


def test_everything_that_can_be_clicked_has_a_name(visit):
    with visit("view=layers") as page:
        nameless = page.evaluate("""() => [...document.querySelectorAll(
            "#microscope-root :is(button, select, textarea, input, [role=img], .pad)")].filter(
            e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
            .map(e => e.outerHTML)""")
        assert nameless == []


def test_nothing_moves_for_those_who_ask(visit):
    with visit(reduced_motion="reduce") as page:
        moving = page.evaluate("""() => [...document.querySelectorAll("#microscope-root *")].filter(
            e => parseFloat(getComputedStyle(e).transitionDuration) > 0).length""")
        assert moving == 0


def test_unsure_answers_give_their_reason_and_the_page_survives_a_restart(
        visit, serve, classifier, pretrained_folder, tmp_path):
    model = classifier.model
    hesitant = replace(model.config, confidence_threshold=1.0)
    model_config, model.config = model.config, hesitant
    save_checkpoint(tmp_path / "hesitant", model, classifier.tokenizer)
    model.config = model_config
    server = serve(tmp_path / "hesitant", port=18_200)
    with visit("lang=en", at=server) as page:
        send(page, "the cat and the door")
        sentence = page.locator(".message:last-child .sentence")
        expect(sentence).to_contain_text("No clear feeling here: ")
        expect(sentence).to_contain_text("from 100 % on")
        server.stop()
        box = page.get_by_label("Your text")
        box.fill(KOREAN)
        box.press("Enter")
        expect(page.locator(".message:last-child .progress")).to_contain_text("Trying again")
        serve(pretrained_folder, port=server.port)
        expect(sentence).to_contain_text("no classifier")
        expect(page.locator(".said").last).to_have_text(KOREAN)
        expect(page.locator(".feelings .none")).to_be_visible()
        expect(page.locator('[data-view="heatmap"] canvas.matrix')).to_be_visible()
        page.complaints.clear()  # the browser itself reports connections that were refused
