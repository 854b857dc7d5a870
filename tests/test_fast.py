"""The fast network gives the numbers of the readable one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bert.checkpoint import untrained
from bert.classifier import EmotionClassifier
from bert.config import BertConfig
from bert.emotions import KEYS
from bert.fast import BATCH_TOKENS, FastBert, batches
from bert.model import BertForPreTraining, BertForSequenceClassification, BertModel

SHIPPED = Path(__file__).parent.parent / "checkpoints" / "emotion"
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def random_config(rng: np.random.Generator, **fixed) -> BertConfig:
    heads = int(rng.integers(1, 5))
    values = {
        "vocab_size": 60, "num_attention_heads": heads,
        "hidden_size": heads * 2 * int(rng.integers(2, 9)),
        "num_hidden_layers": int(rng.integers(1, 5)), "intermediate_size": int(rng.integers(8, 99)),
        "hidden_act": str(rng.choice(["gelu", "gelu_new", "relu"])),
        "positions": str(rng.choice(["learned", "sinusoidal"])), "max_position_embeddings": 64,
        "initializer_range": 0.2, "id2label": KEYS}
    return BertConfig(**{**values, **fixed})


def random_model(config: BertConfig, kind=BertForSequenceClassification):
    """Every weight random, those that begin as zeros and ones as well."""
    model = untrained(config, kind).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return model


def random_texts(rng: np.random.Generator, count: int, longest: int, vocabulary: int) -> list:
    return [rng.integers(5, vocabulary, rng.integers(3, longest + 1)).tolist()
            for _ in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_one_text_gives_the_logits_attentions_and_states_of_the_readable_model(seed):
    rng = np.random.default_rng(seed)
    model = random_model(random_config(rng))
    for ids in random_texts(rng, 4, 64, 60):
        with torch.inference_mode():
            wanted = model(torch.tensor([ids]))
        found = FastBert.of(model)(ids)
        torch.testing.assert_close(found.logits, wanted.logits[0], **CLOSE)
        torch.testing.assert_close(found.attentions, torch.cat(wanted.bert.attentions), **CLOSE)
        torch.testing.assert_close(found.hidden_states, torch.cat(wanted.bert.hidden_states),
                                   **CLOSE)


@pytest.mark.parametrize("seed", range(4))
def test_many_texts_of_any_length_give_what_each_gives_alone(seed):
    rng = np.random.default_rng(seed)
    model = random_model(random_config(rng))
    texts = random_texts(rng, 90, 64, 60)  # several batches
    with torch.inference_mode():
        wanted = torch.cat([model(torch.tensor([ids])).logits for ids in texts])
    torch.testing.assert_close(FastBert.of(model).logits(texts), wanted, **CLOSE)


def test_the_shipped_checkpoint_answers_as_its_readable_network_does():
    classifier = EmotionClassifier.load(SHIPPED)
    readable = EmotionClassifier(classifier.checkpoint)
    assert classifier.fast is not None and readable.fast is None
    texts = ["드디어 마라톤을 완주했다 😀", "I miss my old friends. " * 5, "화가 나",
             "so curious " * 90]
    for text, many, few in zip(texts, classifier.predict_many(texts), readable.predict_many(texts),
                               strict=True):
        found, wanted = classifier(text), readable(text)
        for name in ("probabilities", "attentions", "hidden_states"):
            np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), **CLOSE)
        for other in (many, few):
            np.testing.assert_allclose(other.probabilities, wanted.probabilities, **CLOSE)
        np.testing.assert_array_equal(classifier.attentions(text)[1], found.attentions)


@pytest.mark.parametrize("kind", [BertModel, BertForPreTraining])
def test_a_network_without_a_classifier_gives_attentions_and_states(kind):
    config = random_config(np.random.default_rng(0), id2label=())
    found = FastBert.of(random_model(config, kind))([2, 7, 8, 3])
    assert found.logits is None
    assert found.hidden_states.shape == (config.num_hidden_layers + 1, 4, config.hidden_size)


@pytest.mark.parametrize("only_readable", [{"norm": "pre"}, {"pooling": "mean"}])
def test_what_the_fast_network_cannot_do_is_left_to_the_readable_one(only_readable, tiny_config):
    config = replace(tiny_config, **only_readable)
    assert FastBert.of(untrained(config, BertForSequenceClassification)) is None


def test_a_network_that_is_still_trained_is_never_answered_for_by_old_weights(classifier):
    copy = EmotionClassifier(classifier.checkpoint)
    before = copy("드디어").probabilities
    bias = copy.needs_classifier().classifier.bias
    with torch.no_grad():
        bias[3] += 5.0
    after = copy("드디어").probabilities
    with torch.no_grad():
        bias[3] -= 5.0
    assert after[3] > before[3]


def test_batches_hold_every_text_once_and_few_tokens():
    lengths = np.random.default_rng(0).integers(1, 200, 300).tolist()
    found = batches([*lengths, 3 * BATCH_TOKENS])
    assert sorted(i for batch in found for i in batch) == list(range(301))
    assert all(sum(lengths[i] for i in batch) <= BATCH_TOKENS for batch in found[:-1])
    assert found[-1] == [300] and batches([]) == []
