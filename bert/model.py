"""BERT, top to bottom: from token ids to ten probabilities.

Devlin et al. 2018, https://arxiv.org/abs/1810.04805. Names follow the original; only torch
primitives are used. Shapes are noted at the end of the line that changes them:

    B sentences   T tokens   E = H·D hidden size   H heads   D width of one head
    L layers      F feed-forward width   V vocabulary   C classes   M masked places

One sentence takes this way:

    ids (B, T) ─ BertEmbeddings ─> (B, T, E) ─ L × BertLayer ─> (B, T, E) ─ BertPooler ─> (B, E)
    BertLayer  = BertSelfAttention, BertFeedForward, each with dropout, residual sum, LayerNorm
    pooled (B, E) ─ classifier ─> logits (B, C) ─ softmax ─> probabilities

There are two ways through the attention. The explicit one keeps everything there is to see; the
lean one (`lean=True`) uses torch's fused kernel and keeps only the result. Both agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.config import BertConfig

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}
Note = Callable[[str, Tensor], None]  # is told the name and value of each step on the way


def ignore(name: str, value: Tensor) -> None:
    """The note-taker of an ordinary run: keeps nothing."""


# ---------------------------------------------------------------------------------- outputs


@dataclass(frozen=True)
class BertOutput:
    hidden: Tensor                      # (B, T, E) after the last layer
    pooled: Tensor                      # (B, E)
    hidden_states: tuple[Tensor, ...]   # L + 1 × (B, T, E): the embeddings, then each layer
    attentions: tuple[Tensor, ...]      # L × (B, H, T, T), query × key, before dropout


@dataclass(frozen=True)
class PreTrainingOutput:
    mlm_logits: Tensor                  # (B, T, V), or (M, V) at the masked places only
    nsp_logits: Tensor                  # (B, 2): class 0 "B follows A", class 1 "B is random"
    bert: BertOutput


@dataclass(frozen=True)
class ClassificationOutput:
    logits: Tensor                      # (B, C)
    bert: BertOutput


# ---------------------------------------------------------------------------------- the network


@lru_cache(maxsize=8)
def sinusoidal_positions(length: int, width: int) -> Tensor:
    """Sine and cosine waves of falling frequency ("Attention is all you need", §3.5)."""
    place = torch.arange(length)[:, None]                                            # (T, 1)
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))      # (E/2,)
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(place * rate)
    table[:, 1::2] = torch.cos(place * rate[: width // 2])
    return table


def vectors(number: int, width: int) -> nn.Embedding:
    """A table that `initialise` or a checkpoint fills. torch's own first filling is left out: for a
    model without memory yet it would load the compiler, a second and 70 MB of every start."""
    return nn.Embedding.from_pretrained(torch.zeros(number, width), freeze=False)


class BertEmbeddings(nn.Module):
    """Token + segment + position vectors, then LayerNorm and dropout."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = vectors(config.vocab_size, config.hidden_size)
        self.token_type_embeddings = vectors(config.type_vocab_size, config.hidden_size)
        self.position_embeddings = None
        if config.positions == "learned":
            self.position_embeddings = vectors(config.max_position_embeddings,
                                               config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, segment_ids: Tensor | None, note: Note = ignore) -> Tensor:
        token = self.word_embeddings(ids)                                            # (B, T, E)
        if segment_ids is None:
            segment = self.token_type_embeddings.weight[0]                           # (E,)
        else:
            segment = self.token_type_embeddings(segment_ids)                        # (B, T, E)
        position = self.positions(ids.size(-1)).to(token)                            # (T, E)
        total = token + segment + position
        normed = self.LayerNorm(total)
        note("token vectors", token)
        note("segment vectors", segment.expand_as(token))
        note("position vectors", position.expand_as(token))
        note("sum", total)
        note("LayerNorm", normed)
        return self.dropout(normed)

    def positions(self, length: int) -> Tensor:
        """The vectors that tell the first token from the second: (T, E)."""
        if self.position_embeddings is None:
            return sinusoidal_positions(length, self.word_embeddings.embedding_dim)
        return self.position_embeddings.weight[:length]


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ/√D: how well each token's question fits each token's label."""
    return query * (1.0 / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)         # (B, H, T, T)


def attention_weights(scores: Tensor, is_token: Tensor | None) -> Tensor:
    """How much each token looks at each other; rows sum to one, padding gets zero."""
    if is_token is not None:
        scores = scores.masked_fill(~is_token, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


def each_query(attention_mask: Tensor) -> Tensor:
    """Bring a 1/0 mask of any usual shape to four axes that stretch to (B, H, T, T)."""
    is_token = attention_mask.bool()
    if is_token.dim() == 2:
        return is_token[:, None, None]                                               # (B, 1, 1, T)
    if is_token.dim() == 3:
        return is_token[:, None]                                                     # (B, 1, T, T)
    if is_token.dim() == 4:
        return is_token
    raise ValueError(f"the attention mask has shape {tuple(attention_mask.shape)}: expected "
                     "(B, T), (B, T, T) or (B, H, T, T)")


class BertSelfAttention(nn.Module):
    """Q, K, V → heads → softmax(QKᵀ/√D) V → output projection.

    Query, key and value are one matrix product (`qkv`); on disk they have their own names.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def forward(self, hidden: Tensor, is_token: Tensor | None, lean: bool = False,
                heads_on: Tensor | None = None,
                note: Note = ignore) -> tuple[Tensor, Tensor | None]:
        heads = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))            # (B, T, 3, H, D)
        query, key, value = heads.permute(2, 0, 3, 1, 4)                             # (B, H, T, D)
        if lean and heads_on is None:
            weights = None
            rate = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(query, key, value, is_token, rate)
        else:
            scores = attention_scores(query, key)                                    # (B, H, T, T)
            weights = attention_weights(scores, is_token)                            # (B, H, T, T)
            context = self.dropout(weights) @ value                                  # (B, H, T, D)
            note("query", query)
            note("key", key)
            note("value", value)
            note("scores", scores)
            note("attention", weights)
        if heads_on is not None:
            context = context * heads_on[..., None, None]
        note("context", context)
        joined = context.transpose(1, 2).flatten(2)                                  # (B, T, E)
        return self.output(joined), weights


class BertFeedForward(nn.Module):
    """Each token by itself: widen, activate, narrow."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, note: Note = ignore) -> Tensor:
        inner = self.activation(self.intermediate(hidden))                           # (B, T, F)
        note("feed-forward activations", inner)
        return self.output(inner)                                                    # (B, T, E)


class BertLayer(nn.Module):
    """Attention and feed-forward, each with dropout, residual sum and LayerNorm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.is_pre_norm = config.norm == "pre"
        self.attention = BertSelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = BertFeedForward(config)
        self.output_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden: Tensor, is_token: Tensor | None, lean: bool = False,
                heads_on: Tensor | None = None,
                note: Note = ignore) -> tuple[Tensor, Tensor | None]:
        if self.is_pre_norm:
            normed = self.attention_norm(hidden)
            note("attention LayerNorm", normed)
            attended, weights = self.attention(normed, is_token, lean, heads_on, note)
            note("attention output", attended)
            hidden = hidden + self.dropout(attended)
            note("attention residual", hidden)
            normed = self.output_norm(hidden)
            note("feed-forward LayerNorm", normed)
            widened = self.feed_forward(normed, note)
            note("feed-forward output", widened)
            hidden = hidden + self.dropout(widened)
            note("feed-forward residual", hidden)
            return hidden, weights
        attended, weights = self.attention(hidden, is_token, lean, heads_on, note)
        note("attention output", attended)
        summed = hidden + self.dropout(attended)
        note("attention residual", summed)
        hidden = self.attention_norm(summed)
        note("attention LayerNorm", hidden)
        widened = self.feed_forward(hidden, note)
        note("feed-forward output", widened)
        summed = hidden + self.dropout(widened)
        note("feed-forward residual", summed)
        hidden = self.output_norm(summed)
        note("feed-forward LayerNorm", hidden)
        return hidden, weights


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        is_pre_norm = config.norm == "pre"  # a pre-norm stack ends un-normed: one LayerNorm more
        self.final_norm = (nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
                           if is_pre_norm else nn.Identity())

    def forward(self, hidden: Tensor, is_token: Tensor | None, lean: bool = False,
                heads_on: Tensor | None = None, note: Note = ignore,
                ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        states, attentions = [hidden], []
        for number, layer in enumerate(self.layer, 1):
            on = None if heads_on is None else heads_on[..., number - 1, :]          # (…, H)
            noting = note if note is ignore else _prefixed(note, f"layer {number} · ")
            hidden, weights = layer(hidden, is_token, lean, on, noting)
            if not lean:
                states.append(hidden)
                attentions.append(weights)
        hidden = self.final_norm(hidden)
        if isinstance(self.final_norm, nn.LayerNorm):
            note("final LayerNorm", hidden)
        if lean:
            return hidden, (), ()
        return hidden, (*states[:-1], hidden), tuple(attentions)


def _prefixed(note: Note, prefix: str) -> Note:
    return lambda name, value: note(prefix + name, value)


class BertPooler(nn.Module):
    """One vector for the whole text: [CLS] (or the mean of all tokens) → linear → tanh."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.takes_mean = config.pooling == "mean"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, is_token: Tensor | None) -> Tensor:
        if not self.takes_mean:
            first = hidden[:, 0]                                                     # (B, E)
        elif is_token is None:
            first = hidden.mean(dim=1)
        else:
            is_seen = is_token.flatten(1, 2).any(dim=1)[..., None]                   # (B, T, 1)
            first = (hidden * is_seen).sum(dim=1) / is_seen.sum(dim=1)
        return torch.tanh(self.dense(first))


class BertModel(nn.Module):
    """Embeddings, encoder and pooler."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config)

    def forward(self, ids: Tensor, segment_ids: Tensor | None = None,
                attention_mask: Tensor | None = None, *, lean: bool = False,
                heads_on: Tensor | None = None, note: Note = ignore) -> BertOutput:
        """Run the network on (B, T) ids.

        `attention_mask` is 1 (or True) for tokens and 0 for padding: (B, T), or (B, T, T) to say
        it for each query, or (B, H, T, T) for each head as well. `heads_on` switches heads off for
        this call: 1/0 of shape (L, H) or (B, L, H). `note` is told every tensor on the way.
        """
        if ids.size(-1) > self.config.max_position_embeddings:
            raise ValueError(f"the text has {ids.size(-1)} pieces: this model reads at most "
                             f"{self.config.max_position_embeddings}")
        is_token = None if attention_mask is None else each_query(attention_mask)
        hidden = self.embeddings(ids, segment_ids, note)                             # (B, T, E)
        hidden, states, attentions = self.encoder(hidden, is_token, lean, heads_on, note)
        pooled = self.pooler(hidden, is_token)                                       # (B, E)
        note("pooled", pooled)
        return BertOutput(hidden, pooled, states, attentions)


class BertMLMHead(nn.Module):
    """Which piece stood here? Scores against the token embeddings themselves (tied weights)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor, token_vectors: Tensor) -> Tensor:
        hidden = self.LayerNorm(self.activation(self.dense(hidden)))                 # (…, E)
        return F.linear(hidden, token_vectors, self.bias)                            # (…, V)


class BertForPreTraining(nn.Module):
    """BERT with its two pre-training tasks: masked language model and next sentence."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.mlm = BertMLMHead(config)
        self.nsp = nn.Linear(config.hidden_size, 2)

    def forward(self, ids: Tensor, segment_ids: Tensor | None = None,
                attention_mask: Tensor | None = None, *, predict_at: Tensor | None = None,
                lean: bool = False, heads_on: Tensor | None = None,
                note: Note = ignore) -> PreTrainingOutput:
        """Score every place, or with `predict_at` (a (B, T) mask) only those, which saves most of
        the work: the vocabulary is the widest layer of all."""
        output = self.bert(ids, segment_ids, attention_mask, lean=lean, heads_on=heads_on,
                           note=note)
        hidden = output.hidden if predict_at is None else output.hidden[predict_at]  # (M, E)
        mlm_logits = self.mlm(hidden, self.bert.embeddings.word_embeddings.weight)
        return PreTrainingOutput(mlm_logits, self.nsp(output.pooled), output)


class BertForSequenceClassification(nn.Module):
    """BERT with a classifier on the pooled vector."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if not config.id2label:
            raise ValueError("the config names no classes: set id2label")
        self.config = config
        self.bert = BertModel(config)
        rate = config.classifier_dropout
        self.dropout = nn.Dropout(config.hidden_dropout_prob if rate is None else rate)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label))

    def forward(self, ids: Tensor, segment_ids: Tensor | None = None,
                attention_mask: Tensor | None = None, *, lean: bool = False,
                heads_on: Tensor | None = None, note: Note = ignore) -> ClassificationOutput:
        output = self.bert(ids, segment_ids, attention_mask, lean=lean, heads_on=heads_on,
                           note=note)
        logits = self.classifier(self.dropout(output.pooled))                        # (B, C)
        note("logits", logits)
        note("probabilities", logits.softmax(dim=-1))
        return ClassificationOutput(logits, output)


# ---------------------------------------------------------------------------------- losses, weights


def mlm_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy, the mean over predicted places; targets of −100 are not predicted."""
    if bool((targets == -100).all()):
        return logits.sum() * 0.0
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-100)


def nsp_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of the next-sentence task: 0 follows, 1 random, −100 was not a pair.

    Its own loss, because an `ignore_index` shared with the MLM task would swallow one label.
    """
    if bool((targets == -100).all()):
        return logits.sum() * 0.0
    return F.cross_entropy(logits, targets, ignore_index=-100)


@torch.no_grad()
def initialise(model: nn.Module, config: BertConfig, generator: torch.Generator) -> None:
    """BERT's initial weights: normal with a small spread, biases zero, LayerNorm the identity."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.normal_(0.0, config.initializer_range, generator=generator)
        if isinstance(module, nn.Linear):
            module.bias.zero_()
        if isinstance(module, nn.LayerNorm):
            module.weight.fill_(1.0)
            module.bias.zero_()
        if isinstance(module, BertMLMHead):
            module.bias.zero_()
    for module in model.modules():
        if isinstance(module, BertEmbeddings):
            module.word_embeddings.weight[config.pad_token_id].zero_()
