"""The strings and colours of the page."""

import re

import pytest

from bert.drawing.texts import LANGUAGES, PAGE, colours, say, speaks_of_self_harm, texts


def test_both_languages_have_the_same_strings_with_the_same_gaps():
    english, korean = (texts()[language] for language in LANGUAGES)
    assert english.keys() == korean.keys()
    for key, value in english.items():
        if isinstance(value, str):
            assert set(re.findall(r"{\w+}", value)) == set(re.findall(r"{\w+}", korean[key])), key


def test_every_string_the_scripts_ask_for_exists():
    scripts = "".join(path.read_text(encoding="utf-8") for path in PAGE.rglob("*.js"))
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


@pytest.mark.parametrize(("name", "said"), [
    ("슬픔", "슬픔으로 읽혀요"), ("분노", "분노로 읽혀요"), ("술", "술로 읽혀요"),
    ("<b>슬픔</b>", "<b>슬픔</b>으로 읽혀요"), ("joy", "joy(으)로 읽혀요")])
def test_direction_particles_fit_the_word_inside_its_tags(name, said):
    assert say("ko", "reply_sure_1", name=name, percent="").startswith(said)


def test_what_fills_a_gap_is_not_changed():
    assert say("ko", "token_looks", token="슬픔이(가) {list}", list="").startswith(
        "“슬픔이(가) {list}”이(가)")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_term_of_the_glossary_has_a_short_meaning(language):
    strings = texts()[language]
    terms = {key.removeprefix("term_") for key in strings if key.startswith("term_")}
    meanings = {key.removeprefix("meaning_") for key in strings if key.startswith("meaning_")}
    assert terms == meanings
    assert {"cls", "query", "rollout", "logit", "nsp"} <= terms
    assert {f"tag_{name}" for name in ("self", "previous", "next", "sep", "cls", "word", "focus",
                                       "broad", "mixed")} <= terms
    for term in terms:
        assert len(strings[f"meaning_{term}"]) <= 140 and strings[f"meaning_{term}"][-1] == "."


def test_four_example_texts_the_first_about_achievement():
    for language in LANGUAGES:
        assert len(texts()[language]["example_texts"]) == 4
    assert "합격" in texts()["ko"]["example_texts"][0]


def test_the_colour_table_is_the_colour_map_of_the_figures():
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    from bert.drawing.figures import COLOUR_MAP
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
    block = re.findall(r"\.microscope {\n(  --ground.*?)}", style, re.DOTALL)[scheme]
    values = dict(re.findall(r"--([\w-]+): (#\w{6});", block))
    light, dark = sorted((luminance(values[front]), luminance(values[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
