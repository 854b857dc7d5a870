"""The pictures of attention in a real browser: their colours, their figures, their controls."""

import re

import pytest
from page_helpers import (
    EXAMPLE,
    KOREAN,
    VIEWS,
    address,
    choose_view,
    figures,
    head_that_matters,
    point_at,
    requests_of,
    send,
)
from playwright.sync_api import Page, expect

from bert.drawing.texts import colours, say
from bert.explain import attention as views
from bert.explain.relevance import attribute


def heatmap_colours(page: Page) -> set[tuple[int, ...]]:
    found = page.evaluate("""() => {
        const canvas = document.querySelector('.view[data-view="heatmap"] canvas.matrix');
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


def test_the_page_opens_on_the_head_that_matters_most_and_says_so(visit, classifier):
    with visit(fresh=True) as page:
        layer, head = head_that_matters(classifier, EXAMPLE)
        expect(page.locator(".stage .info b")).to_have_text(f"Layer {layer} · Head {head}")
        expect(page.locator(".stage .finding")).to_have_text(say("en", "matters_here"))
        assert figures(page) == pytest.approx(
            {key: 100 * p for key, p in classifier(EXAMPLE).ranked()}, abs=0.051)
        for part in ("#your-text", ".strip", '.view[data-view="heatmap"] canvas.matrix'):
            box = page.locator(part).bounding_box()
            assert box["y"] + box["height"] <= 900 and box["x"] + box["width"] <= 1280
        other = (layer % 2) + 1
        page.locator(".stage").get_by_label("Layer", exact=True).select_option(str(other))
        page.get_by_role("button", name=say("en", "matters_show")).click()
        expect(page.locator(".stage .info b")).to_have_text(f"Layer {layer} · Head {head}")


def test_the_heatmap_has_the_colours_of_its_weights(visit, classifier):
    with visit(f"text={KOREAN}&layer=2&head=1&scale=one") as page:
        weights = classifier(KOREAN).attentions[1, 0]
        for weight in (weights.max(), weights.min()):
            at = round(255 * float(weight))
            assert table_colours(max(0, at - 1), at + 1) & heatmap_colours(page)


def test_colours_reach_up_to_the_largest_weight_unless_pictures_are_compared(visit, classifier):
    with visit(f"text={KOREAN}&layer=2&head=mean") as page:
        top = float(classifier(KOREAN).attentions[1].mean(axis=0).max())
        brightest = page.locator(".scale .figures span").first
        assert table_colours(255, 255) & heatmap_colours(page)
        assert float(brightest.inner_text()) == pytest.approx(top, abs=0.011)
        for view in VIEWS:
            choose_view(page, view)
            assert 0 < float(brightest.inner_text()) < 1
        choose_view(page, "heatmap")
        page.locator(".stage").get_by_label("Scale to max").uncheck()
        expect(brightest).to_have_text("1.0")
        assert not table_colours(255, 255) & heatmap_colours(page)
        assert address(page)["scale"] == "one"


def test_a_cell_says_its_weight_to_the_keyboard_and_at_the_pointer(visit, classifier):
    with visit(f"text={KOREAN}&layer=1&head=2") as page:
        expected = classifier(KOREAN)
        said = point_at(page, 1, 2)
        found = re.fullmatch(r"“(.+)” looks at “(.+)”: (?:< )?([\d.]+)", said)
        assert found.group(1, 2) == (expected.tokens[1], expected.tokens[2])
        assert float(found[3]) == pytest.approx(expected.attentions[0, 1, 1, 2], abs=0.01)


def test_switching_layer_head_options_and_views_asks_nobody(visit):
    with visit("layer=2&head=mean") as page:
        asked = requests_of(page)
        page.locator(".stage").get_by_label("Layer", exact=True).select_option("1")
        expect(page.locator(".stage .info b")).to_have_text("Layer 1 · Mean of heads")
        page.locator(".stage").get_by_label("Next head").click()
        expect(page.locator(".stage .info b")).to_have_text("Layer 1 · Head 1")
        page.locator(".stage").get_by_label("Layer", exact=True).select_option("rollout")
        expect(page.locator(".stage .info b")).to_have_text("Rollout")
        page.get_by_role("button", name="Words", exact=True).click()
        page.locator(".stage").get_by_label("Hide [CLS] [SEP]").check()
        page.locator(".stage").get_by_label("Fade below").fill("0.2")
        for view in VIEWS:
            choose_view(page, view)
        assert asked == []


def test_value_weighted_attention_is_another_picture_and_goes_back(visit):
    with visit(f"text={KOREAN}&layer=2&head=1&scale=one") as page:
        plain = heatmap_colours(page)
        with page.expect_response("**/run/moved"):
            page.locator(".stage").get_by_label("Value-weighted").check()
        expect(page).to_have_url(re.compile("weights=value"))
        page.locator(".stage").get_by_label("Value-weighted").uncheck()
        expect(page).not_to_have_url(re.compile("weights=value"))
        assert heatmap_colours(page) == plain


def test_play_walks_through_the_layers_unless_nothing_may_move(visit, classifier):
    with visit("layer=2&head=1") as page:
        page.get_by_role("button", name=say("en", "play")).click()
        expect(page.get_by_role("button", name=say("en", "pause"))).to_be_visible()
        for layer in range(1, classifier.config.num_hidden_layers + 1):
            expect(page.locator(".stage .info b")).to_have_text(f"Layer {layer} · Head 1")
        expect(page.get_by_role("button", name=say("en", "play"))).to_be_visible()
    with visit(reduced_motion="reduce") as page:
        expect(page.locator(".stage")).to_be_visible()
        expect(page.get_by_role("button", name=say("en", "play"))).to_be_hidden()
        moving = page.evaluate("""() => [...document.querySelectorAll(".microscope *")].filter(
            e => parseFloat(getComputedStyle(e).transitionDuration) > 0).length""")
        assert moving == 0


def test_a_click_on_a_head_selects_it(visit):
    with visit("view=heads&layer=1&head=mean") as page:
        page.get_by_role("button", name=re.compile("^Layer 1, head 2: .+ Select it")).click()
        expect(page.locator(".stage .info b")).to_have_text("Layer 1 · Head 2")
        choose_view(page, "layers")
        assert page.locator(".layer-grid .head").count() == 4
        page.locator('.layer-grid [data-layer="2"][data-head="1"]').click()
        expect(page.locator(".stage .info b")).to_have_text("Layer 2 · Head 1")
        assert address(page)["layer"] == "2" and address(page)["head"] == "1"


def test_heads_carry_the_tags_and_layers_the_summary_of_their_matrices(visit, classifier):
    with visit(f"text={KOREAN}&view=heads&layer=2&head=1") as page:
        prediction = classifier(KOREAN)
        tags = views.head_tags(prediction.encoding, prediction.attentions)[1]
        page.wait_for_selector(".head-grid .head")
        captions = page.locator(".head-grid .caption small").all_inner_texts()
        for caption, tag in zip(captions, tags, strict=True):
            assert caption.startswith(say("en", f"tag_{tag.name}", token=tag.token))
        name, count = views.layer_summary(tags)
        expect(page.locator(".stage .info")).to_have_text(
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
        said = page.locator(".stage .readout").inner_text()
        share = float(re.search(r"([\d.]+)\s%", said)[1])
        assert share == pytest.approx(100 * view.hidden_share, abs=0.5)
        cell = point_at(page, 1, 0)
        assert float(cell.rsplit(" ", 1)[1]) == pytest.approx(view.weights[1, 0], abs=0.02)
        page.get_by_role("button", name="Pieces", exact=True).click()
        page.locator(".stage").get_by_label("Hide [CLS] [SEP]").uncheck()
        assert page.locator(".strip .token").count() == len(prediction.tokens)


def test_pointing_at_a_token_highlights_it_everywhere(visit, classifier):
    with visit(f"text={KOREAN}") as page:
        point_at(page, 1, 2)
        expect(page.locator(".strip .token").nth(1)).to_have_class(re.compile("looking"))
        expect(page.locator(".strip .token").nth(2)).to_have_class(re.compile("looked-at"))
        page.locator(".strip .token").nth(3).hover()
        expect(page.locator(".stage .readout")).to_contain_text(
            f"“{classifier(KOREAN).tokens[3]}” looks most at")


def test_the_korean_page_puts_the_fitting_particle_after_a_token(visit, classifier):
    with visit(f"text={KOREAN}&lang=ko") as page:
        page.locator(".strip .token").nth(1).hover()
        said = say("ko", "token_looks", token=classifier(KOREAN).tokens[1], list="")
        assert "(" not in said
        expect(page.locator(".stage .readout")).to_contain_text(said.strip())


def test_words_are_coloured_for_the_answer_and_for_any_bar_that_is_clicked(visit, classifier):
    with visit(f"text={KOREAN}") as page:
        for key in (classifier(KOREAN).label, "joy"):
            if key == "joy":
                page.locator('[data-class="joy"]').click()
            name = {"achievement": "Achievement", "joy": "Joy"}[key]
            expect(page.locator(".strip-note b")).to_have_text(f"Words for and against {name}")
            found = attribute(classifier, KOREAN, key)
            shown = page.locator(".strip .token:not(.special)").all()
            for token, value in zip(shown, found.values[1:-1], strict=True):
                assert ("for" in token.get_attribute("class").split()) == bool(value >= 0)
            expect(page.locator(".strip-note .term")).to_have_text("AttnLRP")
        assert address(page)["class"] == "joy"
        page.get_by_role("button", name="Plain text").click()
        expect(page.locator(".strip .token.for")).to_have_count(0)
        send(page, KOREAN)
        expect(page.locator(".strip-note b")).to_have_text("Words for and against Achievement")
