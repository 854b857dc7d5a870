"""Our BERT and the one of `transformers`, with the same weights: the same numbers."""

from dataclasses import dataclass, replace

import pytest
import torch
import transformers
from torch import nn

from bert.checkpoint import hugging_face_names, to_hugging_face
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.model import (
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    mlm_loss,
    nsp_loss,
)

BASE = BertConfig(vocab_size=211, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                  intermediate_size=64, max_position_embeddings=40, id2label=KEYS)
SHAPES = {
    "tiny": BASE,
    "one wide head": replace(BASE, num_attention_heads=1, num_hidden_layers=5, hidden_act="relu",
                             type_vocab_size=3, vocab_size=97),
    "many narrow heads": replace(BASE, hidden_size=48, num_attention_heads=16, intermediate_size=52,
                                 hidden_act="gelu_new", layer_norm_eps=1e-5, id2label=KEYS[:3]),
    "bert-base": replace(BASE, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                         intermediate_size=3072, vocab_size=400),
}
LABELS = torch.tensor([0, 1, 1, 0])


@dataclass(frozen=True)
class Examples:
    """Four texts of different length, padded; the second and the fourth are pairs."""

    ids: torch.Tensor
    segment_ids: torch.Tensor
    mask: torch.Tensor
    mlm_targets: torch.Tensor

    @classmethod
    def make(cls, config: BertConfig) -> "Examples":
        generator = torch.Generator().manual_seed(1)
        lengths, pair_starts = (17, 9, 3, 14), (17, 4, 3, 6)
        ids = torch.randint(5, config.vocab_size, (4, 17), generator=generator)
        place = torch.arange(17)
        mask = (place < torch.tensor(lengths)[:, None]).long()
        segments = (place >= torch.tensor(pair_starts)[:, None]).long() * mask
        chosen = (torch.rand(4, 17, generator=generator) < 0.3) & mask.bool()
        chosen[0, 2] = True
        return cls(ids * mask, segments, mask, torch.where(chosen, ids, -100))

    def theirs(self) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids, "token_type_ids": self.segment_ids,
                "attention_mask": self.mask}


@pytest.fixture(scope="module", params=SHAPES, ids=lambda name: name.replace(" ", "-"))
def config(request) -> BertConfig:
    return SHAPES[request.param]


def reference(config: BertConfig, model_class: type) -> nn.Module:
    """A model of transformers in which no weight has a value that could hide a mistake."""
    theirs = model_class(transformers.BertConfig(
        **{**config.to_dict(), "id2label": dict(enumerate(config.id2label))},
        attn_implementation="eager")).eval()
    generator = torch.Generator().manual_seed(2)
    spread = 0.02 if config.hidden_size > 100 else 0.15
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
            if name.endswith("LayerNorm.weight"):
                parameter += 1.0
    return theirs


def twin(theirs: nn.Module, model_class: type, config: BertConfig) -> nn.Module:
    """Ours with the weights of theirs."""
    ours, state = model_class(config), theirs.state_dict()
    names = {name: hugging_face_names(name) for name in ours.state_dict()}
    ours.load_state_dict({name: torch.cat([state[part] for part in parts])
                          for name, parts in names.items()})
    left = set(state) - {part for parts in names.values() for part in parts}
    assert left <= {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    return ours.eval()


def assert_close(ours: torch.Tensor, theirs: torch.Tensor, what: str) -> None:
    assert ours.shape == theirs.shape, what
    error = (ours - theirs).abs().max().item()
    assert error < 1e-5, f"{what}: {error:.1e}"


def assert_same_inside(ours, theirs) -> None:
    assert len(ours.hidden_states) == len(theirs.hidden_states)
    for number, (mine, reference) in enumerate(
            zip(ours.hidden_states, theirs.hidden_states, strict=True)):
        assert_close(mine, reference, f"hidden state {number}")
    for number, (mine, reference) in enumerate(
            zip(ours.attentions, theirs.attentions, strict=True), 1):
        assert_close(mine, reference, f"attention of layer {number}")


def assert_same_gradients(ours: nn.Module, theirs: nn.Module) -> None:
    found = to_hugging_face({name: p.grad for name, p in ours.named_parameters()})
    expected = {name: p.grad for name, p in theirs.named_parameters()}
    assert set(found) == set(expected)
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        size = gradient.abs().max().item()
        if name.endswith("key.bias"):  # softmax does not see it: zero but for rounding
            size = largest
        assert size > 0, name
        error = (found[name] - gradient).abs().max().item() / size
        assert error < 1e-4, f"{name}: {error:.1e}"


def test_pre_training_gives_the_same_outputs_and_gradients(config):
    theirs = reference(config, transformers.BertForPreTraining)
    ours = twin(theirs, BertForPreTraining, config)
    examples = Examples.make(config)
    expected = theirs(**examples.theirs(), labels=examples.mlm_targets,
                      next_sentence_label=LABELS, output_hidden_states=True,
                      output_attentions=True)
    found = ours(examples.ids, examples.segment_ids, examples.mask)
    assert_same_inside(found.bert, expected)
    assert_close(found.mlm_logits, expected.prediction_logits, "MLM logits")
    assert_close(found.nsp_logits, expected.seq_relationship_logits, "NSP logits")
    loss = mlm_loss(found.mlm_logits, examples.mlm_targets) + nsp_loss(found.nsp_logits, LABELS)
    assert_close(loss, expected.loss, "loss")
    loss.backward()
    expected.loss.backward()
    assert_same_gradients(ours, theirs)


def test_classification_gives_the_same_outputs_and_gradients(config):
    theirs = reference(config, transformers.BertForSequenceClassification)
    ours = twin(theirs, BertForSequenceClassification, config)
    examples = Examples.make(config)
    expected = theirs(**examples.theirs(), labels=LABELS, output_hidden_states=True,
                      output_attentions=True)
    found = ours(examples.ids, examples.segment_ids, examples.mask)
    assert_same_inside(found.bert, expected)
    assert_close(found.logits, expected.logits, "logits")
    pooled = theirs.bert(**examples.theirs()).pooler_output
    assert_close(found.bert.pooled, pooled, "pooled output")
    torch.nn.functional.cross_entropy(found.logits, LABELS).backward()
    expected.loss.backward()
    assert_same_gradients(ours, theirs)


@torch.inference_mode()
def test_the_lean_way_gives_the_same_outputs_as_transformers(config):
    theirs = reference(config, transformers.BertModel)
    ours = twin(theirs, BertModel, config)
    examples = Examples.make(config)
    expected = theirs(**examples.theirs())
    found = ours(examples.ids, examples.segment_ids, examples.mask, need_weights=False)
    assert_close(found.hidden, expected.last_hidden_state, "hidden")
    assert_close(found.pooled, expected.pooler_output, "pooled output")
