"""What the page shows of a text, in numbers."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from bert import views
from bert.labels import OTHER_COLOURS
from bert.texts import LANGUAGES, PAGE, colours, say, speaks_of_self_harm, texts

TEXT = "팀장님이라면 모두 칭찬해주셨다"  # words of several pieces


@pytest.fixture(scope="module")
def prediction(classifier):
    return classifier(TEXT)


@pytest.fixture(scope="module")
def encoding(prediction):
    return prediction.encoding


def even(size: int) -> np.ndarray:
    return np.full((size, size), 1 / size)


def tag_of(encoding, weights: np.ndarray) -> views.Tag:
    return views.head_tags(encoding, weights[None, None])[0][0]


# ---------------------------------------------------------------------------------- matrices


def test_one_head_is_selected_counting_from_one(prediction):
    assert (views.select(prediction.attentions, 2, 1) == prediction.attentions[1, 0]).all()


def test_means_are_taken_over_heads_and_over_layers(prediction):
    attentions = prediction.attentions
    np.testing.assert_allclose(views.select(attentions, 1, "mean"), attentions[0].mean(axis=0))
    np.testing.assert_allclose(views.select(attentions, "mean", "mean"),
                               attentions.mean(axis=(0, 1)), rtol=1e-5)


def test_rollout_rows_sum_to_one(prediction):
    np.testing.assert_allclose(views.rollout(prediction.attentions).sum(axis=1), 1.0)


def test_rollout_of_heads_that_look_at_themselves_is_the_identity():
    attentions = np.tile(np.eye(5), (3, 2, 1, 1))
    np.testing.assert_allclose(views.rollout(attentions), np.eye(5))


def test_rollout_follows_attention_through_two_layers():
    to_the_left = np.eye(3, k=-1)
    to_the_left[0, 0] = 1.0
    rolled = views.rollout(np.tile(to_the_left, (2, 1, 1, 1)))
    np.testing.assert_allclose(rolled[2], [0.25, 0.5, 0.25])


def test_words_keep_rows_that_sum_to_one(encoding, prediction):
    view = views.shown(encoding, prediction.attentions[0, 0], words=True)
    assert view.tokens == encoding.words()
    np.testing.assert_allclose(view.weights.sum(axis=1), 1.0, rtol=1e-5)


def test_attention_to_a_word_is_the_sum_and_from_a_word_the_mean():
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    np.testing.assert_allclose(views.group(weights, [[0, 1], [2]]), [[0.45, 0.55], [0.9, 0.1]])


def test_hiding_special_tokens_says_how_much_attention_went_with_them(encoding, prediction):
    weights = prediction.attentions[0, 0]
    view = views.shown(encoding, weights, hide_special=True)
    assert view.tokens == encoding.pieces[1:-1]
    np.testing.assert_array_equal(view.weights, weights[1:-1, 1:-1])
    assert view.hidden_share == pytest.approx(weights[1:-1][:, [0, -1]].sum(axis=1).mean())


def test_nothing_is_lost_while_nothing_is_hidden(encoding, prediction):
    assert views.shown(encoding, prediction.attentions[0, 0]).hidden_share == 0.0


# ---------------------------------------------------------------------------------- head tags


@pytest.mark.parametrize("name, shift", [("self", 0), ("previous", -1), ("next", 1)])
def test_a_diagonal_gets_its_name(encoding, name, shift):
    size = len(encoding.pieces)
    weights = 0.7 * np.eye(size, k=shift) + 0.3 * even(size)
    tag = tag_of(encoding, weights)
    assert tag.name == name
    assert tag.share == pytest.approx(0.7 + 0.3 / size)


@pytest.mark.parametrize("name, column", [("cls", 0), ("sep", -1)])
def test_a_column_of_a_special_token_gets_its_name(encoding, name, column):
    weights = 0.4 * even(len(encoding.pieces))
    weights[:, column] += 0.6
    assert tag_of(encoding, weights).name == name


def test_a_head_that_stays_inside_the_word_is_called_so(encoding):
    size = len(encoding.pieces)
    weights = np.eye(size)
    for _, places in encoding.grouped():
        for place in places:
            others = [other for other in places if other != place]
            if others:
                weights[place] = 0.0
                weights[place, others] = 1 / len(others)
    tag = tag_of(encoding, weights)
    assert tag.name == "word"
    assert tag.share == pytest.approx(1.0)


def test_a_head_that_rests_on_one_piece_names_it(encoding):
    weights = 0.4 * even(len(encoding.pieces))
    weights[:, 2] += 0.6
    assert tag_of(encoding, weights).name == "focus"
    assert tag_of(encoding, weights).token == encoding.pieces[2]


def test_even_attention_is_broad_and_says_over_how_many_tokens(encoding):
    size = len(encoding.pieces)
    tag = tag_of(encoding, even(size))
    assert (tag.name, pytest.approx(tag.share)) == ("broad", size)


def test_attention_to_two_far_tokens_is_neither_broad_nor_a_pattern(encoding):
    size = len(encoding.pieces)
    weights = np.zeros((size, size))
    for row in range(size):
        weights[row, [(row + 3) % size, (row + 5) % size]] = 0.5
    assert tag_of(encoding, weights).name == "mixed"


def test_a_short_text_is_not_called_a_pattern_by_chance(classifier):
    encoding = classifier.encode("a")
    assert tag_of(encoding, even(3)).name == "broad"


def test_a_layer_is_summed_up_by_its_commonest_tag():
    tags = [views.Tag("sep", 0.9), views.Tag("self", 0.5), views.Tag("sep", 0.6)]
    assert views.layer_summary(tags) == ("sep", 2)


def test_diagonals_early_and_sep_late_are_found_where_they_are(encoding):
    size = len(encoding.pieces)
    on_sep = np.zeros((size, size))
    on_sep[:, -1] = 1.0
    found = views.first_and_last(encoding, np.stack([np.eye(size)[None], on_sep[None]]))
    assert found["diagonal_early"] and found["sep_late"]
    assert found["near"][0] == pytest.approx(1.0)
    assert found["sep"] == [pytest.approx(1 / size), pytest.approx(1.0)]
    turned = views.first_and_last(encoding, np.stack([on_sep[None], np.eye(size)[None]]))
    assert not turned["diagonal_early"] and not turned["sep_late"]


# ---------------------------------------------------------------------------------- payload


def test_packed_weights_are_off_by_at_most_half_a_step(prediction):
    attentions = prediction.attentions
    unpacked = views.unpack(views.pack(attentions), attentions.shape)
    assert np.abs(unpacked - attentions).max() <= 0.5 / 255 + 1e-6


def test_the_payload_holds_every_head_and_the_rollout(encoding, prediction):
    made = views.payload(encoding, prediction.attentions)
    size = len(encoding.pieces)
    stored = zlib.decompress(base64.b64decode(made["matrices"]))
    assert len(stored) == (made["layers"] * made["heads"] + 1) * size * size
    last = np.frombuffer(stored, dtype=np.uint8)[-size * size:].reshape(size, size) / 255
    np.testing.assert_allclose(last, views.rollout(prediction.attentions), atol=0.5 / 255 + 1e-6)


def test_the_payload_is_plain_json(encoding, prediction):
    made = views.payload(encoding, prediction.attentions)
    assert json.loads(json.dumps(made)) == made
    assert made["read"] == TEXT
    assert "".join(made["sources"]) == TEXT.replace(" ", "")


def test_classes_that_are_not_ours_keep_their_key_and_get_a_colour():
    assert views.class_list(["joy", "boredom"])[1] == {
        "key": "boredom", "ko": "boredom", "en": "boredom", "colour": OTHER_COLOURS[1]}


# ---------------------------------------------------------------------------------- texts


def test_both_languages_have_the_same_strings_with_the_same_gaps():
    english, korean = (texts()[language] for language in LANGUAGES)
    assert english.keys() == korean.keys()
    for key, value in english.items():
        if isinstance(value, str):
            assert set(re.findall(r"{\w+}", value)) == set(re.findall(r"{\w+}", korean[key])), key


def test_every_string_the_scripts_ask_for_exists():
    scripts = "".join(path.read_text(encoding="utf-8") for path in PAGE.glob("*.js"))
    asked = set(re.findall(r'say\("(\w+)"', scripts))
    assert len(asked) > 40
    assert asked <= texts()["en"].keys()


def test_strings_are_filled_in():
    assert say("en", "layer_n", n=3) == "Layer 3"
    assert say("ko", "layer_n", n=3) == "3층"


@pytest.mark.parametrize(("token", "said"), [("슬픔", "“슬픔”이 많이"), ("분노", "“분노”가 많이"),
                                             ("joy", "“joy”이(가) 많이")])
def test_korean_particles_fit_the_word_before_them(token, said):
    assert say("ko", "token_looks", token=token, list="").startswith(said)


def test_six_example_texts_one_of_them_about_achievement():
    for language in LANGUAGES:
        assert len(texts()[language]["example_texts"]) == 6
    assert "합격" in texts()["ko"]["example_texts"][0]


def test_the_colour_table_is_the_colour_map_of_the_figures():
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    from bert.figures import COLOUR_MAP
    assert colours()["viridis"] == [to_hex(colormaps[COLOUR_MAP](i)) for i in range(256)]


@pytest.mark.parametrize("text", [
    "요즘 그냥 죽고 싶다", "죽고싶어", "자해를 했다", "I want to die",
    "I don't want to live anymore", "thinking about suicide", "사라지고 싶어요",
    "I keep hurting myself", "주\u200b고 자\u200b살"])
def test_texts_about_self_harm_are_noticed(text):
    assert speaks_of_self_harm(text)


@pytest.mark.parametrize("text", [
    "배고파 죽겠다", "I killed it on stage tonight", "오늘 정말 즐거웠다",
    "the deadline is tomorrow"])
def test_other_texts_are_left_in_peace(text):
    assert not speaks_of_self_harm(text)


def luminance(colour: str) -> float:
    channels = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("front, ground", [
    ("ink", "panel"), ("ink", "soft"), ("muted", "panel"), ("muted", "ground"), ("muted", "soft"),
    ("accent", "panel"), ("on-accent", "accent"), ("against", "panel"), ("ink", "care")])
def test_text_has_enough_contrast(scheme, front, ground):
    style = (PAGE / "style.css").read_text(encoding="utf-8")
    block = re.findall(r"#microscope-root {\n(  --ground.*?)}", style, re.DOTALL)[scheme]
    values = dict(re.findall(r"--([\w-]+): (#\w{6});", block))
    light, dark = sorted((luminance(values[front]), luminance(values[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
