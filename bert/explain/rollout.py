"""Attention followed through all layers: from each token of the last layer to the tokens read.

    rollout   of the plain weights, the residual sum counted as half of each layer
              Abnar & Zuidema 2020, arXiv 2005.00928
    alti      of what is really added up, residual sum, LayerNorm and values included
              Ferrando et al. 2022, arXiv 2203.04212, in the form for an encoder
"""

import numpy as np

from bert.classifier import ActivationCache, EmotionClassifier
from bert.explain.value_weighted import block_output, block_summands


def rollout(attentions: np.ndarray) -> np.ndarray:
    """The weights of (L, H, T, T), averaged over heads, through all layers: (T, T), rows sum to
    one."""
    size = attentions.shape[-1]
    total = np.eye(size)
    for layer in attentions.mean(axis=1, dtype=np.float64):                          # (T, T)
        total = (0.5 * layer + 0.5 * np.eye(size)) @ total
    return total / total.sum(axis=-1, keepdims=True)


def alti(classifier: EmotionClassifier, cache: ActivationCache) -> np.ndarray:
    """The contributions of all layers one after the other: (T, T), rows sum to one."""
    total = np.eye(len(cache.encoding.ids))
    for layer in contributions(classifier, cache):
        total = layer @ total
    return total


def contributions(classifier: EmotionClassifier, cache: ActivationCache) -> np.ndarray:
    """How much of each token's vector after an attention block comes from each token: (L, T, T).

    A summand counts by how much nearer (in the sum of absolute differences) it is to the whole
    vector than nothing would be, and not below zero; the rows are scaled to one. A token to which
    no summand is near keeps itself.
    """
    layers = []
    for layer in range(1, classifier.config.num_hidden_layers + 1):
        output = block_output(classifier, cache, layer)                              # (T, E)
        near = np.concatenate([
            np.abs(output[rows]).sum(axis=-1, dtype=np.float64)[:, None]
            - np.abs(output[rows, None] - summands).sum(axis=-1, dtype=np.float64)
            for rows, summands in block_summands(classifier, cache, layer)]).clip(min=0.0)
        total = near.sum(axis=-1, keepdims=True)
        is_lost = total[:, 0] == 0.0
        near[is_lost], total[is_lost] = np.eye(len(near))[is_lost], 1.0
        layers.append(near / total)
    return np.stack(layers)                                                          # (L, T, T)
