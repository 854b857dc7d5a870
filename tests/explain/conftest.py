"""Classifiers of every build: post- and pre-norm, both poolings, one head and several, other
classes, and a folder made by transformers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bert.checkpoint import save_checkpoint, untrained
from bert.classifier import EmotionClassifier
from bert.model import BertForSequenceClassification

BUILDS = {
    "post": {},
    "pre": {"norm": "pre", "positions": "sinusoidal"},
    "mean": {"pooling": "mean", "num_attention_heads": 1, "num_hidden_layers": 3},
    "pre mean": {"norm": "pre", "pooling": "mean", "hidden_act": "relu", "num_hidden_layers": 1},
    "two classes": {"id2label": ("no", "yes"), "num_attention_heads": 4, "num_hidden_layers": 4},
}


def lively(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights as after training: none zero, none one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.15 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.fixture(scope="session", params=[*BUILDS, "transformers"])
def any_classifier(request, tmp_path_factory: pytest.TempPathFactory, tokenizer,
                   tiny_config) -> EmotionClassifier:
    folder: Path = tmp_path_factory.mktemp("build") / "model"
    if request.param == "transformers":
        import transformers
        config = transformers.BertConfig(
            vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=40, max_position_embeddings=48, num_labels=3)
        torch.manual_seed(0)
        lively(transformers.BertForSequenceClassification(config)).save_pretrained(folder)
        tokenizer.save(folder)
    else:
        model = untrained(replace(tiny_config, **BUILDS[request.param]),
                          BertForSequenceClassification)
        save_checkpoint(folder, lively(model), tokenizer)
    return EmotionClassifier.load(folder)
