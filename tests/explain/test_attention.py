"""Attention matrices and the patterns of heads."""

import numpy as np
import pytest

from bert.explain import attention


def even(size: int) -> np.ndarray:
    return np.full((size, size), 1 / size)


def tag_of(encoding, weights: np.ndarray) -> attention.Tag:
    return attention.head_tags(encoding, weights[None, None])[0][0]


def test_one_head_is_selected_counting_from_one(prediction):
    assert (attention.select(prediction.attentions, 2, 1) == prediction.attentions[1, 0]).all()


def test_means_are_taken_over_heads_and_over_layers(prediction):
    attentions = prediction.attentions
    np.testing.assert_allclose(attention.select(attentions, 1, "mean"), attentions[0].mean(axis=0))
    np.testing.assert_allclose(attention.select(attentions, "mean", "mean"),
                               attentions.mean(axis=(0, 1)), rtol=1e-5)


def test_rollout_rows_sum_to_one(prediction):
    np.testing.assert_allclose(attention.rollout(prediction.attentions).sum(axis=1), 1.0)


def test_rollout_of_heads_that_look_at_themselves_is_the_identity():
    attentions = np.tile(np.eye(5), (3, 2, 1, 1))
    np.testing.assert_allclose(attention.rollout(attentions), np.eye(5))


def test_rollout_follows_attention_through_two_layers():
    to_the_left = np.eye(3, k=-1)
    to_the_left[0, 0] = 1.0
    rolled = attention.rollout(np.tile(to_the_left, (2, 1, 1, 1)))
    np.testing.assert_allclose(rolled[2], [0.25, 0.5, 0.25])


def test_words_keep_rows_that_sum_to_one(encoding, prediction):
    view = attention.shown(encoding, prediction.attentions[0, 0], words=True)
    assert view.tokens == encoding.words()
    np.testing.assert_allclose(view.weights.sum(axis=1), 1.0, rtol=1e-5)


def test_attention_to_a_word_is_the_sum_and_from_a_word_the_mean():
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.4, 0.1]])
    np.testing.assert_allclose(attention.group(weights, [[0, 1], [2]]), [[0.45, 0.55], [0.9, 0.1]])


def test_hiding_special_tokens_says_how_much_attention_went_with_them(encoding, prediction):
    weights = prediction.attentions[0, 0]
    view = attention.shown(encoding, weights, hide_special=True)
    assert view.tokens == encoding.pieces[1:-1]
    np.testing.assert_array_equal(view.weights, weights[1:-1, 1:-1])
    assert view.hidden_share == pytest.approx(weights[1:-1][:, [0, -1]].sum(axis=1).mean())


def test_nothing_is_lost_while_nothing_is_hidden(encoding, prediction):
    assert attention.shown(encoding, prediction.attentions[0, 0]).hidden_share == 0.0


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
    tags = [attention.Tag("sep", 0.9), attention.Tag("self", 0.5), attention.Tag("sep", 0.6)]
    assert attention.layer_summary(tags) == ("sep", 2)


def test_diagonals_early_and_sep_late_are_found_where_they_are(encoding):
    size = len(encoding.pieces)
    on_sep = np.zeros((size, size))
    on_sep[:, -1] = 1.0
    found = attention.first_and_last(encoding, np.stack([np.eye(size)[None], on_sep[None]]))
    assert found["diagonal_early"] and found["sep_late"]
    assert found["near"][0] == pytest.approx(1.0)
    assert found["sep"] == [pytest.approx(1 / size), pytest.approx(1.0)]
    turned = attention.first_and_last(encoding, np.stack([on_sep[None], np.eye(size)[None]]))
    assert not turned["diagonal_early"] and not turned["sep_late"]


def test_attention_between_groups_is_what_loops_count():
    draw = np.random.default_rng(1)
    weights = draw.dirichlet(np.ones(6), size=(2, 6))                                # (H, T, T)
    groups = np.array([[0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0], [1, 0, 0, 1, 0, 1]], dtype=bool)
    found = attention.group_shares(weights, groups)
    for head in range(2):
        for start in range(3):
            for end in range(3):
                lookers = [i for i in range(6) if groups[start, i]]
                given = [sum(weights[head, i, j] for j in range(6) if groups[end, j])
                         for i in lookers]
                assert found[head, start, end] == pytest.approx(sum(given) / len(given))
    assert found.sum(axis=-1) == pytest.approx(np.ones((2, 3)))
