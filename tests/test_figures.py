"""Pictures: real glyphs, nothing typed can break them, nothing stays in memory."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import bert.drawing.figures
from bert.drawing.figures import (
    coloured,
    draw_attention,
    draw_bars,
    draw_confusion,
    draw_heatmap,
    draw_reliability,
    draw_training_curves,
    drawable,
    save_figure,
    wrapped,
)
from bert.emotions import EMOTIONS, KEYS, class_colour, display_name
from bert.training.metrics import reliability

TOKENS = ["[CLS]", "드디어", "##했다", r"$\foo$", "🦄", "$", "\\", "{", "ﷺ", "\u0301", "[SEP]"]


def even(size: int) -> np.ndarray:
    return np.full((size, size), 1 / size, dtype=np.float32)


def pixels(figure: Figure) -> np.ndarray:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def every_figure() -> list[Figure]:
    probabilities = np.linspace(0.01, 0.19, 10)
    return [draw_attention(TOKENS, even(len(TOKENS)), 1, 2),
            draw_bars(KEYS, probabilities),
            draw_confusion([display_name(key) for key in KEYS], np.arange(100).reshape(10, 10),
                           r"한글 $\foo$ 🦄"),
            draw_reliability(reliability(np.linspace(0, 1, 50), np.arange(50) % 2 == 0),
                             r"한글 $\foo$ 🦄"),
            draw_training_curves([{"step": 1, "mlm_loss": 3.0, "nsp_accuracy": 0.5},
                                  {"step": 2, "mlm_loss": 2.0, "nsp_accuracy": 0.6}])]


# ---------------------------------------------------------------------------------- glyphs


def test_every_hangul_syllable_has_a_glyph():
    syllables = [chr(code) for code in range(0xAC00, 0xD7A4)]
    assert len(syllables) == 11_172
    assert [syllable for syllable in syllables if drawable(syllable) != syllable] == []


def test_hangul_is_drawn_and_not_boxes():
    """Two syllables without a glyph would be the same box; a stand-in would be the same diamond."""
    first, again, second, stand_in = (
        pixels(draw_attention([token], even(1), 1, 1)) for token in ("가", "가", "뷁", "◇"))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second) and not np.array_equal(first, stand_in)


def test_every_class_name_can_be_drawn():
    for emotion in EMOTIONS:
        assert drawable(display_name(emotion.key)) == f"{emotion.korean} {emotion.english}"


@pytest.mark.parametrize(("text", "shown"), [
    ("🦄", "◇"), ("고마워🦄!", "고마워◇!"), ("👩\u200d👧", "◇◇"), ("❤\ufe0f", "❤"), ("\u0301", "◇"),
    ("漢字", "◇◇"), ("😀", "😀"),
    ("a\x00b\ud800", "ab"), ("", ""), ("x" * 30, "x" * 23 + "…"), ("가" * 24, "가" * 24)])
def test_what_the_fonts_lack_has_a_visible_stand_in(text, shown):
    assert drawable(text) == shown


def test_a_token_that_looks_like_a_formula_is_drawn_as_it_stands():
    tokens = [r"$\foo$", "$x^2$", "$$", r"\frac"]
    figure = draw_attention(tokens, even(4), 1, 1)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == tokens
    plain = draw_attention(["$x^2$", "b"], even(2), 1, 1)
    formula = draw_attention(["$x^2$", "b"], even(2), 1, 1)
    for label in (*formula.axes[0].get_xticklabels(), *formula.axes[0].get_yticklabels()):
        label.set_parse_math(True)
    assert not np.array_equal(pixels(plain), pixels(formula))
    pixels(figure)


@pytest.mark.parametrize("number", range(5))
def test_every_figure_can_be_saved_in_every_format(number, tmp_path):
    """A glyph that is missing would be a warning, and warnings are errors."""
    figure = every_figure()[number]
    for ending, begins in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        save_figure(figure, tmp_path / f"figure{ending}", dpi=50)
        assert (tmp_path / f"figure{ending}").read_bytes().startswith(begins)


# ---------------------------------------------------------------------------------- memory, threads


def test_figures_leave_pyplot_empty(tmp_path):
    import matplotlib.pyplot as plt

    for figure in every_figure():
        save_figure(figure, tmp_path / "figure.png", dpi=40)
    assert plt.get_fignums() == []
    tree = ast.parse(Path(bert.drawing.figures.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree)
             if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any("pyplot" in str(name) for name in names | modules)


def test_figures_drawn_in_threads_do_not_mix():
    def draw(number: int) -> np.ndarray:
        return pixels(draw_attention(["가", "나"], np.eye(2) * number / 8, 1, number))

    alone = [draw(number) for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, list(range(8)) * 2))
    for number, image in enumerate(together):
        assert np.array_equal(image, alone[number % 8])


# ---------------------------------------------------------------------------------- content


def test_a_heatmap_shows_the_weights_on_a_fixed_scale():
    weights = np.array([[0.1, 0.9], [0.3, 0.7]])
    axes = draw_attention(["a", "b"], weights, 3, 5).axes[0]
    image = axes.get_images()[0]
    assert np.array_equal(image.get_array(), weights) and image.get_clim() == (0.0, 1.0)
    assert axes.get_title() == "layer 3, head 5"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("looked at (key)", "looking (query)")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b"]


def test_a_scale_up_to_the_largest_weight_makes_it_brightest_and_says_so():
    weights = np.array([[0.02, 0.08], [0.06, 0.04]])
    figure = draw_heatmap(["a", "b"], weights, "mean", top=0.08)
    pixels = figure.axes[0].get_images()[0].get_array()
    assert np.allclose(pixels[0, 1], coloured(np.ones(1))[0])
    assert [label.get_text() for label in figure.axes[1].get_yticklabels()] == [
        "0.000", "0.016", "0.032", "0.048", "0.064", "0.080"]


def test_weights_that_do_not_fit_the_tokens_are_refused():
    with pytest.raises(ValueError, match=r"3 tokens but weights of shape \(2, 2\): expected"):
        draw_attention(["a", "b", "c"], even(2), 1, 1)


def test_bars_stand_in_class_order_with_their_exact_shares():
    probabilities = np.linspace(0.19, 0.01, 10)
    axes = draw_bars(KEYS, probabilities).axes[0]
    bars = axes.patches[len(KEYS):]  # in front of their tracks
    assert [bar.get_width() for bar in bars] == pytest.approx(list(100 * probabilities))
    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [
        emotion.colour for emotion in EMOTIONS]
    names, figures = axes.texts[::2], axes.texts[1::2]
    assert [text.get_text() for text in names] == [
        f"{emotion.english} {emotion.korean}" for emotion in EMOTIONS]
    assert [text.get_text() for text in figures] == [f"{100 * p:.1f} %" for p in probabilities]
    assert [text.get_fontweight() for text in figures] == ["bold"] + ["normal"] * 9


def test_a_long_word_is_wrapped_in_lines_that_fit():
    lines = wrapped("가" * 25 + " " + "a" * 30, 20)
    assert lines == ["가" * 10, "가" * 10, "가" * 5, "a" * 20, "a" * 10]


def test_classes_that_are_not_ours_have_colours_too():
    assert class_colour("joy", 0) == "#F0C808"
    assert len({class_colour(f"LABEL_{i}", i) for i in range(28)}) == 28


def test_a_confusion_matrix_shows_counts_and_shares_of_the_row():
    counts = np.array([[3, 1], [0, 0]])
    axes = draw_confusion(["a", "b"], counts).axes[0]
    np.testing.assert_allclose(axes.get_images()[0].get_array(), [[0.75, 0.25], [0.0, 0.0]])
    assert sorted(text.get_text() for text in axes.texts) == ["1", "3"]


def test_reliability_bars_are_the_share_that_was_right():
    confidences = np.array([0.95, 0.95, 0.95, 0.95, 0.15])
    is_right = np.array([True, True, True, False, False])
    axes = draw_reliability(reliability(confidences, is_right)).axes[0]
    assert sorted(bar.get_height() for bar in axes.patches) == [0.0, 0.75]
    assert sorted(text.get_text() for text in axes.texts) == ["1", "4"]
