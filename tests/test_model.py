import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import bert.model
from bert.checkpoint import untrained
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.model import (
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    BertSelfAttention,
    attention_weights,
    mlm_loss,
    nsp_loss,
    sinusoidal_positions,
)

CONFIG = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                    intermediate_size=48, max_position_embeddings=24, initializer_range=0.3,
                    id2label=KEYS)


def make(model_class=BertModel, seed=0, **changes):
    """A small model with lively weights: none zero, none one, as after training."""
    model = untrained(replace(CONFIG, **changes), model_class, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def some_ids(rows=2, length=7, seed=0):
    return torch.randint(5, 50, (rows, length), generator=torch.Generator().manual_seed(seed))


def differ(first, second):
    return bool((first - second).abs().max() > 1e-3)


# ---------------------------------------------------------------------------------- shapes


@torch.inference_mode()
def test_every_output_has_the_shape_it_is_documented_with():
    output = make()(some_ids())
    assert output.hidden.shape == (2, 7, 32) and output.pooled.shape == (2, 32)
    assert [state.shape for state in output.hidden_states] == [(2, 7, 32)] * 4
    assert [weights.shape for weights in output.attentions] == [(2, 4, 7, 7)] * 3
    assert torch.equal(output.hidden_states[-1], output.hidden)
    output = make(BertForPreTraining)(some_ids())
    assert output.mlm_logits.shape == (2, 7, 50) and output.nsp_logits.shape == (2, 2)
    assert make(BertForSequenceClassification)(some_ids()).logits.shape == (2, 10)


@torch.inference_mode()
def test_attention_rows_sum_to_one():
    for weights in make()(some_ids()).attentions:
        assert torch.allclose(weights.sum(dim=-1), torch.ones(2, 4, 7), atol=1e-6)
        assert bool((weights >= 0).all())


def test_a_text_beyond_the_position_table_is_refused():
    with pytest.raises(ValueError, match="has 25 pieces: this model reads at most 24"):
        make()(some_ids(1, 25))


def test_a_classifier_needs_classes():
    with pytest.raises(ValueError, match="names no classes"):
        BertForSequenceClassification(replace(CONFIG, id2label=()))


def test_only_primitives_are_used():
    source = Path(bert.model.__file__).read_text(encoding="utf-8")
    used = {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    assert not {name for name in used if name.startswith(("Transformer", "MultiheadAttention"))}


# ---------------------------------------------------------------------------------- formulas


@torch.inference_mode()
def test_one_layer_is_the_formula_of_the_paper():
    """Written again in numpy with loops over heads, for one sentence."""
    model = make(num_hidden_layers=1)
    ids = some_ids(1)
    weight = {name: value.double().numpy() for name, value in model.state_dict().items()}

    def linear(name, x):
        return x @ weight[name + ".weight"].T + weight[name + ".bias"]

    def norm(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred ** 2).mean(axis=-1, keepdims=True) + 1e-12)
        return scaled * weight[name + ".weight"] + weight[name + ".bias"]

    def gelu(x):
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    words = weight["embeddings.word_embeddings.weight"][ids[0].numpy()]
    places = weight["embeddings.position_embeddings.weight"][:7]
    x = norm("embeddings.LayerNorm",
             words + places + weight["embeddings.token_type_embeddings.weight"][0])
    layer = "encoder.layer.0."
    query, key, value = np.split(linear(layer + "attention.qkv", x), 3, axis=-1)
    heads = []
    for head in range(4):
        part = slice(8 * head, 8 * head + 8)
        scores = np.exp(query[:, part] @ key[:, part].T / math.sqrt(8))
        heads.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, part])
    x = norm(layer + "attention_norm",
             x + linear(layer + "attention.output", np.concatenate(heads, axis=1)))
    inner = gelu(linear(layer + "feed_forward.intermediate", x))
    x = norm(layer + "output_norm", x + linear(layer + "feed_forward.output", inner))
    output = model(ids)
    np.testing.assert_allclose(output.hidden[0], x, atol=2e-5)
    np.testing.assert_allclose(output.pooled[0], np.tanh(linear("pooler.dense", x[0])), atol=2e-5)


@torch.inference_mode()
def test_the_lean_way_agrees_with_the_explicit_one():
    model = make(BertForPreTraining)
    ids, mask = some_ids(3, 9), torch.ones(3, 9)
    mask[1, 5:] = 0
    lean, full = model(ids, None, mask, need_weights=False), model(ids, None, mask)
    assert torch.allclose(lean.nsp_logits, full.nsp_logits, atol=1e-5)
    assert torch.allclose(lean.mlm_logits[mask.bool()], full.mlm_logits[mask.bool()], atol=1e-4)
    assert (lean.bert.attentions, lean.bert.hidden_states) == ((), ())


@torch.inference_mode()
def test_segments_tell_the_sentences_of_a_pair_apart():
    model, ids = make(), some_ids()
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]] * 2)
    assert differ(model(ids, segments).hidden, model(ids).hidden)
    assert torch.equal(model(ids, torch.zeros_like(ids)).hidden, model(ids).hidden)


@torch.inference_mode()
def test_predicting_some_places_gives_the_scores_of_those_places():
    model, ids = make(BertForPreTraining), some_ids()
    places = torch.zeros(2, 7, dtype=torch.bool)
    places[0, 3] = places[1, 1] = places[1, 6] = True
    some, every = model(ids, predict_at=places), model(ids)
    assert some.mlm_logits.shape == (3, 50)
    assert torch.allclose(some.mlm_logits, every.mlm_logits[places], atol=1e-5)


def test_word_embeddings_are_tied_to_the_mlm_decoder():
    model, ids = make(BertForPreTraining), some_ids()
    words = model.bert.embeddings.word_embeddings.weight
    before = model(ids).mlm_logits
    with torch.no_grad():
        words[4] += 1.0  # id 4 is not in the text: only its score as an answer can change
    after = model(ids).mlm_logits
    assert differ(before[..., 4], after[..., 4])
    assert torch.equal(before[..., 5:], after[..., 5:])


# ---------------------------------------------------------------------------------- padding, masks


@pytest.mark.parametrize("changes", [
    {}, {"norm": "pre"}, {"positions": "sinusoidal"}, {"pooling": "mean"}])
@pytest.mark.parametrize("need_weights", [True, False])
@torch.inference_mode()
def test_padding_changes_no_prediction(changes, need_weights):
    model, ids = make(BertForSequenceClassification, **changes), some_ids(1, 6)
    alone = model(ids, need_weights=need_weights)
    padded = torch.cat([ids, some_ids(1, 9, seed=5)], dim=1)  # whatever stands in the padding
    mask = torch.tensor([[1] * 6 + [0] * 9])
    together = model(padded, None, mask, need_weights=need_weights)
    assert torch.allclose(alone.logits, together.logits, atol=1e-5)
    assert torch.allclose(alone.bert.hidden, together.bert.hidden[:, :6], atol=1e-5)


@torch.inference_mode()
def test_padding_gets_no_attention_at_all():
    """Also catches a mask that is added as 0 and 1 instead of as zero and minus infinity."""
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1]])
    for weights in make()(some_ids(), None, mask).attentions:
        assert not weights[0, :, :, 4:].any()
        assert bool((weights[1] > 0).all())


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("need_weights", [True, False])
@torch.inference_mode()
def test_every_usual_shape_of_mask_means_the_same(pooling, need_weights):
    model, ids = make(pooling=pooling), some_ids()
    mask = torch.tensor([[1, 1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 0]])
    expected = model(ids, None, mask, need_weights=need_weights)
    for same in (mask.bool(), mask.float(), mask[:, None].expand(2, 7, 7), mask[:, None, None],
                 mask[:, None, None].expand(2, 4, 7, 7)):
        found = model(ids, None, same, need_weights=need_weights)
        assert torch.allclose(found.hidden, expected.hidden, atol=1e-6)
        assert torch.allclose(found.pooled, expected.pooled, atol=1e-6)
    shared = model(ids, None, mask[:1], need_weights=need_weights)
    both = model(ids, None, mask[:1].expand(2, 7), need_weights=need_weights)
    assert torch.allclose(shared.pooled, both.pooled, atol=1e-6)
    with pytest.raises(ValueError, match=r"mask has shape \(7,\): expected \(B, T\)"):
        model(ids, None, mask[0], need_weights=need_weights)


@torch.inference_mode()
def test_a_mask_for_each_query_can_hide_the_future():
    causal = torch.ones(7, 7).tril()[None].expand(2, 7, 7)
    output = make()(some_ids(), None, causal)
    for weights in output.attentions:
        assert not weights.triu(1).any()
    changed = some_ids()
    changed[:, -1] = 4
    again = make()(changed, None, causal)
    assert torch.allclose(output.hidden[:, :-1], again.hidden[:, :-1], atol=1e-6)


@torch.inference_mode()
def test_a_row_without_any_token_gives_no_nan():
    weights = attention_weights(torch.randn(1, 1, 3, 3), torch.zeros(1, 1, 1, 3).bool())
    assert not weights.isnan().any()


# ---------------------------------------------------------------------------------- choices


@torch.inference_mode()
def test_post_norm_ends_each_layer_normed_and_pre_norm_does_not():
    identity = {"initializer_range": 0.3}
    post = untrained(replace(CONFIG, **identity), BertModel)
    pre = untrained(replace(CONFIG, norm="pre", **identity), BertModel)
    ids = some_ids()
    after_first = post(ids).hidden_states[1]
    assert torch.allclose(after_first.mean(dim=-1), torch.zeros(2, 7), atol=1e-5)
    assert torch.allclose(after_first.var(dim=-1, correction=0), torch.ones(2, 7), atol=1e-4)
    after_first = pre(ids).hidden_states[1]
    assert bool((after_first.var(dim=-1, correction=0) - 1).abs().min() > 0.05)
    final = pre(ids).hidden
    assert torch.allclose(final.var(dim=-1, correction=0), torch.ones(2, 7), atol=1e-4)


@torch.inference_mode()
def test_a_pre_norm_layer_passes_its_input_on_untouched_where_the_sublayers_are_silent():
    pre, post = make(norm="pre"), make(norm="post")
    for model in (pre, post):
        for layer in model.encoder.layer:
            for linear in (layer.attention.output, layer.feed_forward.output):
                linear.weight.zero_()
                linear.bias.zero_()
    states = pre(some_ids()).hidden_states
    assert torch.equal(states[0], states[1]) and torch.equal(states[0], states[2])
    states = post(some_ids()).hidden_states
    assert differ(states[0], states[1])


@torch.inference_mode()
def test_each_activation_is_the_function_of_its_name():
    x = torch.linspace(-4, 4, 41)
    exact = torch.tensor([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()])
    by_tanh = torch.tensor([0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi)
                                                     * (v + 0.044715 * v ** 3)))
                            for v in x.tolist()])
    expected = {"gelu": exact, "gelu_new": by_tanh, "relu": x.clamp(min=0)}
    assert float((exact - by_tanh).abs().max()) > 1e-4
    for name, values in expected.items():
        model = make(hidden_act=name)
        seen = {}
        model(some_ids(), hook=seen.__setitem__)
        assert torch.allclose(bert.model.ACTIVATIONS[name](x), values, atol=1e-6)
        inner = model.encoder.layer[0].feed_forward.intermediate(
            seen["layer 1 · attention LayerNorm"])
        assert torch.equal(seen["layer 1 · feed-forward activations"],
                           bert.model.ACTIVATIONS[name](inner))


@torch.inference_mode()
def test_sinusoidal_positions_are_waves_and_need_no_parameter():
    table = sinusoidal_positions(24, 32)
    for place, column in ((0, 0), (5, 0), (5, 1), (23, 30), (23, 31), (11, 17)):
        angle = place / 10_000 ** (2 * (column // 2) / 32)
        wave = math.sin(angle) if column % 2 == 0 else math.cos(angle)
        assert float(table[place, column]) == pytest.approx(wave, abs=1e-5)
    learned, fixed = make(), make(positions="sinusoidal")
    assert not [name for name, _ in fixed.named_parameters() if "position" in name]
    assert learned.embeddings.position_embeddings.weight.shape == (24, 32)
    seen = {}
    fixed(some_ids(), hook=seen.__setitem__)
    assert torch.equal(seen["position vectors"][1], table[:7])


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
@torch.inference_mode()
def test_positions_tell_an_order_from_its_reverse(positions):
    model, ids = make(positions=positions), some_ids()
    assert differ(model(ids).hidden, model(ids.flip(1)).hidden.flip(1))


def test_a_sinusoidal_model_can_be_trained_after_it_was_used():
    model = make(positions="sinusoidal", hidden_size=16)
    with torch.inference_mode():
        model(some_ids(length=11))
    model(some_ids(length=11)).pooled.sum().backward()
    assert model.embeddings.word_embeddings.weight.grad is not None


def test_odd_widths_have_sinusoidal_positions_too():
    assert sinusoidal_positions(5, 7).shape == (5, 7)


@torch.inference_mode()
def test_mean_pooling_reads_every_token_and_cls_pooling_the_first():
    for pooling in ("cls", "mean"):
        model, ids = make(pooling=pooling), some_ids()
        output = model(ids)
        first = output.hidden[:, 0] if pooling == "cls" else output.hidden.mean(dim=1)
        assert torch.allclose(output.pooled, model.pooler.dense(first).tanh(), atol=1e-6)
        mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
        output = model(ids, None, mask)
        first = output.hidden[1, 0] if pooling == "cls" else output.hidden[1, :4].mean(dim=0)
        assert torch.allclose(output.pooled[1], model.pooler.dense(first).tanh(), atol=1e-6)


# ---------------------------------------------------------------------------------- looking inside


@torch.inference_mode()
def test_looking_inside_changes_nothing():
    model, ids = make(BertForSequenceClassification), some_ids()
    names = []
    noted = model(ids, hook=lambda name, value: names.append(name))
    assert torch.equal(noted.logits, model(ids).logits)
    assert len(names) == len(set(names)) == 5 + 3 * 13 + 3


@torch.inference_mode()
def test_a_pre_norm_run_tells_its_last_norm_as_well():
    seen = {}
    output = make(norm="pre")(some_ids(), hook=seen.__setitem__)
    assert torch.equal(seen["final LayerNorm"], output.hidden)


@torch.inference_mode()
def test_a_head_that_is_off_equals_zeroing_its_slice_of_the_output_projection():
    ids, on = some_ids(), torch.ones(3, 4)
    on[1, 2] = 0
    model = make()
    off = model(ids, head_mask=on)
    with torch.no_grad():
        model.encoder.layer[1].attention.output.weight[:, 16:24] = 0
    silenced = model(ids)
    assert torch.allclose(off.hidden, silenced.hidden, atol=1e-6)
    assert differ(off.hidden, make()(ids).hidden)
    assert torch.allclose(off.attentions[1], make()(ids).attentions[1])


@torch.inference_mode()
def test_heads_can_be_switched_for_each_text_and_in_the_lean_way():
    model, ids = make(), some_ids()
    on = torch.ones(2, 3, 4)
    on[1, 0, 3] = 0
    mixed = model(ids, head_mask=on)
    assert torch.allclose(mixed.hidden[0], model(ids).hidden[0], atol=1e-6)
    assert torch.allclose(mixed.hidden[1], model(ids, head_mask=on[1]).hidden[1], atol=1e-6)
    lean = model(ids, head_mask=on, need_weights=False)
    assert torch.allclose(lean.hidden, mixed.hidden, atol=1e-6)
    assert torch.allclose(model(ids, head_mask=torch.ones(3, 4)).hidden, model(ids).hidden)


# --------------------------------------------------------------- known mistakes of other ports


def test_attention_is_returned_before_dropout():
    model = make(attention_probs_dropout_prob=0.9).train()
    for weights in model(some_ids()).attentions:
        assert torch.allclose(weights.sum(dim=-1), torch.ones(2, 4, 7), atol=1e-6)
        assert bool((weights > 0).all())


@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_dropout_drops_in_training_only(need_weights):
    config = replace(CONFIG, attention_probs_dropout_prob=0.5)
    attention, x = BertSelfAttention(config), torch.randn(1, 7, 32)
    assert differ(attention(x, None, need_weights)[0], attention(x, None, need_weights)[0])
    attention.eval()
    assert torch.equal(attention(x, None, need_weights)[0], attention(x, None, need_weights)[0])


@torch.inference_mode()
def test_the_residual_is_the_layer_input_added_after_the_projection():
    seen = {}
    model = make()
    model(some_ids(), hook=seen.__setitem__)
    for n, before in ((1, "LayerNorm"), (2, "layer 1 · feed-forward LayerNorm")):
        attention = model.encoder.layer[n - 1].attention
        joined = seen[f"layer {n} · context"].transpose(1, 2).flatten(2)
        assert torch.allclose(seen[f"layer {n} · attention output"], attention.output(joined))
        assert torch.allclose(seen[f"layer {n} · attention residual"],
                              seen[before] + attention.output(joined), atol=1e-6)
        assert torch.allclose(
            seen[f"layer {n} · feed-forward residual"],
            seen[f"layer {n} · attention LayerNorm"] + seen[f"layer {n} · feed-forward output"],
            atol=1e-6)


def test_mlm_loss_is_the_mean_over_predicted_places_only():
    logits = torch.randn(2, 4, 50, generator=torch.Generator().manual_seed(0), requires_grad=True)
    targets = torch.full((2, 4), -100)
    targets[0, 1], targets[1, 2], targets[1, 3] = 7, 0, 3  # 0 is an ordinary target
    parts = [-logits[r, c].log_softmax(dim=-1)[targets[r, c]] for r, c in ((0, 1), (1, 2), (1, 3))]
    loss = mlm_loss(logits, targets)
    assert loss.item() == pytest.approx(sum(parts).item() / 3, abs=1e-5)
    loss.backward()
    assert not logits.grad[targets == -100].any() and logits.grad[1, 2].any()


def test_mlm_loss_does_not_depend_on_padding():
    logits, targets = torch.randn(1, 4, 50), torch.tensor([[-100, 8, -100, 9]])
    longer = torch.cat([logits, torch.randn(1, 5, 50)], dim=1)
    padded = F.pad(targets, (0, 5), value=-100)
    assert mlm_loss(longer, padded).item() == pytest.approx(mlm_loss(logits, targets).item())
    chosen = targets != -100
    at_places = mlm_loss(logits[chosen], targets[chosen])
    assert at_places.item() == pytest.approx(mlm_loss(logits, targets).item())


def test_next_sentence_loss_learns_from_both_labels():
    for label in (0, 1):
        logits = torch.zeros(1, 2, requires_grad=True)
        loss = nsp_loss(logits, torch.tensor([label]))
        loss.backward()
        assert loss.item() == pytest.approx(math.log(2))
        assert logits.grad[0, label].item() == pytest.approx(-0.5)


def test_what_is_not_a_pair_is_left_out_of_the_next_sentence_loss():
    logits = torch.randn(3, 2, requires_grad=True)
    loss = nsp_loss(logits, torch.tensor([0, -100, 1]))
    expected = -(logits[0].log_softmax(-1)[0] + logits[2].log_softmax(-1)[1]) / 2
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_a_batch_without_anything_to_predict_costs_nothing():
    for loss, shape, targets in ((mlm_loss, (1, 3, 5), torch.full((1, 3), -100)),
                                 (mlm_loss, (0, 5), torch.zeros(0, dtype=torch.long)),
                                 (nsp_loss, (2, 2), torch.full((2,), -100))):
        logits = torch.randn(shape, requires_grad=True)
        value = loss(logits, targets)
        value.backward()
        assert value.item() == 0.0 and not logits.grad.any()


# ---------------------------------------------------------------------------------- weights


def test_the_untrained_model_is_made_from_a_seed():
    first, same, other = (untrained(CONFIG, BertForPreTraining, seed).state_dict()
                          for seed in (3, 3, 4))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["bert.pooler.dense.weight"], other["bert.pooler.dense.weight"])


def test_initial_weights_are_those_of_bert():
    model = untrained(replace(CONFIG, hidden_size=128, max_position_embeddings=50,
                              initializer_range=0.02), BertForPreTraining)
    for name, value in model.state_dict().items():
        if name.endswith("bias"):
            assert not value.any(), name
        elif "norm" in name.lower():
            assert bool((value == 1).all()), name
        elif value.numel() > 2_000:
            assert value.std().item() == pytest.approx(0.02, rel=0.1), name
    assert not model.bert.embeddings.word_embeddings.weight[0].any()
    assert model.bert.embeddings.position_embeddings.weight[0].any()


def test_one_batch_can_be_memorised():
    model = untrained(replace(CONFIG, initializer_range=0.02), BertForSequenceClassification)
    ids, targets = some_ids(6, 8), torch.tensor([0, 3, 9, 1, 3, 7])
    optimizer = torch.optim.Adam(model.train().parameters(), lr=3e-3)
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids, need_weights=False).logits, targets)
        loss.backward()
        optimizer.step()
    assert torch.equal(model.eval()(ids).logits.argmax(dim=-1), targets)
