"""What attention moves, not only where it looks: the norms of the vectors that are added up.

A head adds α_ij · f(x_j) to token i, where f(x) = (x W_V + b_V) W_O. A large weight on a token with
a short f(x) moves nothing; the norm ‖α_ij f(x_j)‖ says how much is moved.

    norms         one head, ‖α f(x)‖               Kobayashi et al. 2020, arXiv 2004.10102
    block_norms   all heads of a layer together with the residual sum and LayerNorm
                                                   Kobayashi et al. 2021, arXiv 2109.07152

The biases of the output projection and of LayerNorm belong to no token and are left out. A pre-norm
layer has its LayerNorm before the values, so its summands are added as they are.
"""

from collections.abc import Iterator
from typing import cast

import numpy as np

from bert.classifier import ActivationCache, EmotionClassifier
from bert.model import BertLayer

NUMBERS_AT_ONCE = 1 << 22  # of the (rows, T, E) summands that are held at a time


def norms(classifier: EmotionClassifier, cache: ActivationCache) -> np.ndarray:
    """‖α_ij f(x_j)‖ of every head: (L, H, T, T), query × key."""
    layers = range(1, classifier.config.num_hidden_layers + 1)
    lengths = [np.linalg.norm(moved(classifier, cache, layer), axis=-1) for layer in layers]
    return np.stack([cache.value("attention", layer)[0] * length[:, None]
                     for layer, length in zip(layers, lengths, strict=True)])


def moved(classifier: EmotionClassifier, cache: ActivationCache, layer: int) -> np.ndarray:
    """f(x_j) of each head: the value of a token, brought back to the width of the model, (H, T, E).

    Layers are counted from 1.
    """
    value = cache.value("value", layer)[0]                                           # (H, T, D)
    weight = _layer(classifier, layer).attention.output.weight.detach().numpy()      # (E, H·D)
    back = weight.reshape(len(weight), len(value), -1).transpose(1, 2, 0)            # (H, D, E)
    return value @ back


def block_norms(classifier: EmotionClassifier, cache: ActivationCache) -> np.ndarray:
    """The norm of what each token adds to each other in a layer's attention block: (L, T, T)."""
    return np.stack([
        np.concatenate([np.linalg.norm(summands, axis=-1)
                        for _, summands in block_summands(classifier, cache, layer)])
        for layer in range(1, classifier.config.num_hidden_layers + 1)])


def block_summands(classifier: EmotionClassifier, cache: ActivationCache,
                   layer: int) -> Iterator[tuple[slice, np.ndarray]]:
    """What token j adds to the output of the attention block at token i, (rows, T, E), some rows
    at a time. Together with `block_bias` they are the block's output."""
    weights = cache.value("attention", layer)[0].transpose(2, 1, 0)                  # (T key, T, H)
    values = moved(classifier, cache, layer).transpose(1, 0, 2)                      # (T key, H, E)
    stream, scale = _stream(classifier, cache, layer), _scale(classifier, cache, layer)
    size, width = stream.shape
    step = max(NUMBERS_AT_ONCE // (size * width), 1)
    for first in range(0, size, step):
        rows = slice(first, min(first + step, size))
        summands = (weights[:, rows] @ values).transpose(1, 0, 2)                    # (rows, T, E)
        places = np.arange(first, rows.stop)
        summands[places - first, places] += stream[rows]
        if scale is not None:
            summands = summands - summands.mean(axis=-1, keepdims=True)
            summands *= scale[rows, None]
        yield rows, summands


def block_bias(classifier: EmotionClassifier, cache: ActivationCache, layer: int) -> np.ndarray:
    """What the biases add to the block's output, (T, E); it comes from no token."""
    block = _layer(classifier, layer)
    bias = block.attention.output.bias.detach().numpy()
    scale = _scale(classifier, cache, layer)
    if scale is None:
        return np.broadcast_to(bias, (len(cache.encoding.ids), len(bias)))
    return (bias - bias.mean()) * scale + block.attention_norm.bias.detach().numpy()


def block_output(classifier: EmotionClassifier, cache: ActivationCache, layer: int) -> np.ndarray:
    """The stream after a layer's attention block, (T, E), as it was computed."""
    is_pre_norm = classifier.config.norm == "pre"
    return cache.value("attention residual" if is_pre_norm else "attention LayerNorm", layer)[0]


def _layer(classifier: EmotionClassifier, layer: int) -> BertLayer:
    return cast(BertLayer, classifier.bert.encoder.layer[layer - 1])


def _stream(classifier: EmotionClassifier, cache: ActivationCache, layer: int) -> np.ndarray:
    """The residual stream that goes into a layer: (T, E)."""
    if layer == 1:
        return cache.value("LayerNorm")[0]
    is_pre_norm = classifier.config.norm == "pre"
    return cache.value("feed-forward residual" if is_pre_norm else "feed-forward LayerNorm",
                       layer - 1)[0]


def _scale(classifier: EmotionClassifier, cache: ActivationCache, layer: int) -> np.ndarray | None:
    """What LayerNorm multiplies the centred sum of each token with, (T, E); nothing if pre-norm."""
    if classifier.config.norm == "pre":
        return None
    norm = _layer(classifier, layer).attention_norm
    summed = cache.value("attention residual", layer)[0]                             # (T, E)
    deviation = np.sqrt(summed.var(axis=-1, keepdims=True) + norm.eps)
    return norm.weight.detach().numpy() / deviation
