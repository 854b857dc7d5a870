"""The network of model.py once more, for answering only: the same numbers in less time.

model.py is the one to read, to train and to look into. Here

- weights are plain tensors, laid out once for the product, without modules or hooks around them,
- results go into buffers, and each head's weights right to where they are answered from,
- texts of any length are joined without padding: only the attention knows where one ends,
- where only [CLS] is asked for, the last layer computes nothing else after its attention.

Shapes as in model.py; N is all tokens of a batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.model import ACTIVATIONS, BertForSequenceClassification, BertLayer, BertModel

BATCH_TOKENS = 1_024  # more would leave the processor's cache


@dataclass(frozen=True)
class FastOutput:
    """Everything about one text."""

    logits: Tensor | None  # (C,), if there is a classifier
    attentions: Tensor     # (L, H, T, T)
    hidden_states: Tensor  # (L + 1, T, E)


class LayerWeights(NamedTuple):
    """The weights of one BertLayer; matrices are (inputs, outputs)."""

    qkv: Tensor             # (E, 3·E), 1/√D inside the query's part
    qkv_bias: Tensor
    output: Tensor          # (E, E)
    output_bias: Tensor
    attention_norm: tuple[Tensor, Tensor]
    widen: Tensor           # (E, F)
    widen_bias: Tensor
    narrow: Tensor          # (F, E)
    narrow_bias: Tensor
    output_norm: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, layer: nn.Module) -> Self:
        assert isinstance(layer, BertLayer)
        attention, feed_forward = layer.attention, layer.feed_forward
        width = attention.output.in_features
        scale = torch.ones(3 * width)
        scale[:width] = 1 / math.sqrt(width // attention.num_heads)
        return cls(
            (attention.qkv.weight.t() * scale).contiguous(), attention.qkv.bias * scale,
            *transposed(attention.output), weights_of(layer.attention_norm),
            *transposed(feed_forward.intermediate), *transposed(feed_forward.output),
            weights_of(layer.output_norm))


def transposed(part: nn.Linear) -> tuple[Tensor, Tensor]:
    return part.weight.t().contiguous(), part.bias.detach()


def weights_of(part: nn.Linear | nn.LayerNorm) -> tuple[Tensor, Tensor]:
    return part.weight.detach(), part.bias.detach()


class FastBert:
    """A network that answers. Large weights are copied: what is trained later it does not know."""

    @torch.inference_mode()
    def __init__(self, bert: BertModel, classifier: nn.Linear | None = None) -> None:
        self.config = bert.config
        self.shape = (bert.config.hidden_size,)
        self.activation = ACTIVATIONS[bert.config.hidden_act]
        embeddings = bert.embeddings
        self.words = embeddings.word_embeddings.weight.detach()                      # (V, E)
        self.places = (embeddings.positions(bert.config.max_position_embeddings)
                       + embeddings.token_type_embeddings.weight[0])                 # (T, E)
        self.norm = weights_of(embeddings.LayerNorm)
        self.layers = [LayerWeights.of(layer) for layer in bert.encoder.layer]
        self.pooler = weights_of(bert.pooler.dense)
        self.head = None if classifier is None else weights_of(classifier)

    @classmethod
    def of(cls, model: nn.Module) -> Self | None:
        """The fast form of a network; None for what only model.py can do."""
        bert = model if isinstance(model, BertModel) else model.bert
        assert isinstance(bert, BertModel)
        if bert.config.norm != "post" or bert.config.pooling != "cls":
            return None
        return cls(bert, model.classifier if isinstance(model, BertForSequenceClassification)
                   else None)

    # ------------------------------------------------------------------------------ one text

    @torch.inference_mode()
    def __call__(self, ids: Sequence[int]) -> FastOutput:
        """One text, with every attention matrix and hidden state."""
        length, heads, width = len(ids), self.config.num_attention_heads, self.config.hidden_size
        attentions = torch.empty(len(self.layers), heads, length, length)
        scores = torch.empty(heads, length, length)
        qkv = torch.empty(length, 3 * width)
        query, key, value = qkv.view(length, 3, heads, -1).permute(1, 2, 0, 3)       # (H, T, D)
        key = key.transpose(1, 2)                                                    # (H, D, T)
        by_head = torch.empty(heads, length, width // heads)
        context = torch.empty(length, width)
        joined = context.view(length, heads, -1).transpose(0, 1)                     # (H, T, D)
        buffers = self.buffers(length)
        hidden = self.embed(torch.tensor(ids), self.places[:length])
        states = [hidden]
        for layer, weights in zip(self.layers, attentions, strict=True):
            torch.addmm(layer.qkv_bias, hidden, layer.qkv, out=qkv)
            torch.bmm(query, key, out=scores)
            torch.softmax(scores, -1, out=weights)
            joined.copy_(torch.bmm(weights, value, out=by_head))
            hidden = self.after_attention(layer, hidden, context, buffers)
            states.append(hidden)
        logits = None if self.head is None else self.classify(hidden[:1])[0]
        return FastOutput(logits, attentions, torch.stack(states))

    # ------------------------------------------------------------------------------ many texts

    @torch.inference_mode()
    def logits(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Many texts, (B, C): the classifier's scores alone."""
        chosen = batches([len(ids) for ids in texts])
        logits = torch.cat([self.batch_logits([texts[i] for i in batch]) for batch in chosen])
        answers = torch.empty_like(logits)
        answers[[i for batch in chosen for i in batch]] = logits
        return answers

    def batch_logits(self, texts: Sequence[Sequence[int]]) -> Tensor:
        lengths = [len(ids) for ids in texts]
        starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)                          # (B,)
        groups = [(length, len(list(same))) for length, same in groupby(lengths)]
        places = torch.cat([self.places[:length] for length in lengths])             # (N, E)
        hidden = self.embed(torch.tensor([i for ids in texts for i in ids]), places)
        qkv = torch.empty(len(hidden), 3 * self.config.hidden_size)
        context = torch.empty_like(hidden)
        buffers = self.buffers(len(hidden))
        for layer in self.layers[:-1]:
            self.attend(torch.addmm(layer.qkv_bias, hidden, layer.qkv, out=qkv), groups, context)
            hidden = self.after_attention(layer, hidden, context, buffers)
        layer = self.layers[-1]
        self.attend(torch.addmm(layer.qkv_bias, hidden, layer.qkv, out=qkv), groups, context)
        first = self.after_attention(layer, hidden[starts], context[starts],
                                     self.buffers(len(starts)))
        return self.classify(first)

    def attend(self, qkv: Tensor, groups: Sequence[tuple[int, int]], context: Tensor) -> None:
        """Each text by itself; those of the same length at once."""
        heads, end = self.config.num_attention_heads, 0
        for length, count in groups:
            rows = slice(end, end + length * count)
            end = rows.stop
            shape = (count, length, 3, heads, -1)
            query, key, value = qkv[rows].view(shape).permute(2, 0, 3, 1, 4)         # (B, H, T, D)
            mixed = F.scaled_dot_product_attention(query, key, value, scale=1.0)
            context[rows].view(count, length, heads, -1).copy_(mixed.transpose(1, 2))

    # ------------------------------------------------------------------------------ both

    def buffers(self, tokens: int) -> tuple[Tensor, Tensor]:
        """Where the sums (N, E) and the widened vectors (N, F) of every layer go."""
        return (torch.empty(tokens, self.config.hidden_size),
                torch.empty(tokens, self.config.intermediate_size))

    def embed(self, ids: Tensor, places: Tensor) -> Tensor:
        return self.normalise(F.embedding(ids, self.words).add_(places), self.norm)  # (N, E)

    def after_attention(self, layer: LayerWeights, hidden: Tensor, context: Tensor,
                        buffers: tuple[Tensor, Tensor]) -> Tensor:
        """Output projection and feed-forward, with their residual sums and LayerNorms."""
        summed, inner = buffers
        torch.addmm(layer.output_bias, context, layer.output, out=summed).add_(hidden)
        hidden = self.normalise(summed, layer.attention_norm)
        torch.addmm(layer.widen_bias, hidden, layer.widen, out=inner)
        torch.addmm(layer.narrow_bias, self.activation(inner), layer.narrow, out=summed)
        return self.normalise(summed.add_(hidden), layer.output_norm)

    def normalise(self, values: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
        return torch.layer_norm(values, self.shape, *norm, self.config.layer_norm_eps)

    def classify(self, first: Tensor) -> Tensor:
        """From the vectors of [CLS] to logits, (B, C)."""
        assert self.head is not None
        return F.linear(torch.tanh(F.linear(first, *self.pooler)), *self.head)


def batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices of texts in batches of similar length, about BATCH_TOKENS tokens each."""
    found: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lengths.__getitem__):
        if lengths[i] > room:
            found.append([])
            room = max(BATCH_TOKENS, lengths[i])
        found[-1].append(i)
        room -= lengths[i]
    return found
