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
other (`need_weights=False`) uses torch's fused kernel and keeps only the result. Both agree.
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
# Is told the name and value of each step on the way; a tensor that it returns takes the value's
# place, None leaves it as it is.
Hook = Callable[[str, Tensor], Tensor | None]


def no_hook(name: str, value: Tensor) -> None:
    """The hook of an ordinary run: keeps and changes nothing."""


def tell(hook: Hook, name: str, value: Tensor) -> Tensor:
    """Tell the hook of a step; what the run goes on with."""
    if hook is no_hook:
        return value
    replacement = hook(name, value)
    return value if replacement is None else replacement


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
    table: nn.Embedding = nn.Embedding.from_pretrained(torch.zeros(number, width), freeze=False)
    return table


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

    def forward(self, ids: Tensor, segment_ids: Tensor | None, hook: Hook = no_hook) -> Tensor:
        token = self.word_embeddings(ids)                                            # (B, T, E)
        if segment_ids is None:
            segment = self.token_type_embeddings.weight[0]                           # (E,)
        else:
            segment = self.token_type_embeddings(segment_ids)                        # (B, T, E)
        position = self.positions(ids.size(-1)).to(token)                            # (T, E)
        token = tell(hook, "token vectors", token)
        segment = tell(hook, "segment vectors", segment.expand_as(token))
        position = tell(hook, "position vectors", position.expand_as(token))
        total = tell(hook, "sum", token + segment + position)
        return self.dropout(tell(hook, "LayerNorm", self.LayerNorm(total)))

    def positions(self, length: int) -> Tensor:
        """The vectors that tell the first token from the second: (T, E)."""
        if self.position_embeddings is None:
            return sinusoidal_positions(length, self.word_embeddings.embedding_dim)
        return self.position_embeddings.weight[:length]


def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ/√D: how well each token's question fits each token's label."""
    return query * (1.0 / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)         # (B, H, T, T)


def attention_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """How much each token looks at each other; rows sum to one, padding gets zero."""
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


def broadcast_mask(attention_mask: Tensor) -> Tensor:
    """Bring a 1/0 mask of any usual shape to four axes that stretch to (B, H, T, T)."""
    mask = attention_mask.bool()
    if mask.dim() == 2:
        return mask[:, None, None]                                               # (B, 1, 1, T)
    if mask.dim() == 3:
        return mask[:, None]                                                     # (B, 1, T, T)
    if mask.dim() == 4:
        return mask
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

    def forward(self, hidden: Tensor, mask: Tensor | None, need_weights: bool = True,
                head_mask: Tensor | None = None,
                hook: Hook = no_hook) -> tuple[Tensor, Tensor | None]:
        heads = self.qkv(hidden).unflatten(-1, (3, self.num_heads, -1))            # (B, T, 3, H, D)
        query, key, value = heads.permute(2, 0, 3, 1, 4)                             # (B, H, T, D)
        if not need_weights and head_mask is None:
            weights = None
            rate = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(query, key, value, mask, rate)
        else:
            query, key = tell(hook, "query", query), tell(hook, "key", key)
            value = tell(hook, "value", value)
            scores = tell(hook, "scores", attention_scores(query, key))              # (B, H, T, T)
            weights = tell(hook, "attention", attention_weights(scores, mask))       # (B, H, T, T)
            context = self.dropout(weights) @ value                                  # (B, H, T, D)
        if head_mask is not None:
            context = context * head_mask[..., None, None]
        context = tell(hook, "context", context)
        joined = context.transpose(1, 2).flatten(2)                                  # (B, T, E)
        return self.output(joined), weights


class BertFeedForward(nn.Module):
    """Each token by itself: widen, activate, narrow."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, hook: Hook = no_hook) -> Tensor:
        inner = self.activation(self.intermediate(hidden))                           # (B, T, F)
        inner = tell(hook, "feed-forward activations", inner)
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

    def forward(self, hidden: Tensor, mask: Tensor | None, need_weights: bool = True,
                head_mask: Tensor | None = None,
                hook: Hook = no_hook) -> tuple[Tensor, Tensor | None]:
        if self.is_pre_norm:
            normed = tell(hook, "attention LayerNorm", self.attention_norm(hidden))
            attended, weights = self.attention(normed, mask, need_weights, head_mask, hook)
            attended = tell(hook, "attention output", attended)
            hidden = tell(hook, "attention residual", hidden + self.dropout(attended))
            normed = tell(hook, "feed-forward LayerNorm", self.output_norm(hidden))
            widened = tell(hook, "feed-forward output", self.feed_forward(normed, hook))
            hidden = tell(hook, "feed-forward residual", hidden + self.dropout(widened))
            return hidden, weights
        attended, weights = self.attention(hidden, mask, need_weights, head_mask, hook)
        attended = tell(hook, "attention output", attended)
        summed = tell(hook, "attention residual", hidden + self.dropout(attended))
        hidden = tell(hook, "attention LayerNorm", self.attention_norm(summed))
        widened = tell(hook, "feed-forward output", self.feed_forward(hidden, hook))
        summed = tell(hook, "feed-forward residual", hidden + self.dropout(widened))
        hidden = tell(hook, "feed-forward LayerNorm", self.output_norm(summed))
        return hidden, weights


class BertEncoder(nn.Module):
    """The stack of layers."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        is_pre_norm = config.norm == "pre"  # a pre-norm stack ends un-normed: one LayerNorm more
        self.final_norm = (nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
                           if is_pre_norm else nn.Identity())

    def forward(self, hidden: Tensor, mask: Tensor | None, need_weights: bool = True,
                head_mask: Tensor | None = None, hook: Hook = no_hook,
                ) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
        states, attentions = [hidden], []
        for number, layer in enumerate(self.layer, 1):
            on = None if head_mask is None else head_mask[..., number - 1, :]          # (…, H)
            layer_hook = hook if hook is no_hook else _prefixed(hook, f"layer {number} · ")
            hidden, weights = layer(hidden, mask, need_weights, on, layer_hook)
            if need_weights:
                states.append(hidden)
                attentions.append(weights)
        hidden = self.final_norm(hidden)
        if isinstance(self.final_norm, nn.LayerNorm):
            hidden = tell(hook, "final LayerNorm", hidden)
        if not need_weights:
            return hidden, (), ()
        return hidden, (*states[:-1], hidden), tuple(attentions)


def _prefixed(hook: Hook, prefix: str) -> Hook:
    return lambda name, value: hook(prefix + name, value)


class BertPooler(nn.Module):
    """One vector for the whole text: [CLS] (or the mean of all tokens) → linear → tanh."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.takes_mean = config.pooling == "mean"
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if not self.takes_mean:
            first = hidden[:, 0]                                                     # (B, E)
        elif mask is None:
            first = hidden.mean(dim=1)
        else:
            is_seen = mask.flatten(1, 2).any(dim=1)[..., None]                   # (B, T, 1)
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
                attention_mask: Tensor | None = None, *, need_weights: bool = True,
                head_mask: Tensor | None = None, hook: Hook = no_hook) -> BertOutput:
        """Run the network on (B, T) ids.

        `attention_mask` is 1 (or True) for tokens and 0 for padding: (B, T), or (B, T, T) to say
        it for each query, or (B, H, T, T) for each head as well. `head_mask` switches heads off for
        this call: 1/0 of shape (L, H) or (B, L, H). `hook` is told every tensor on the way and may
        put another in its place.
        """
        if ids.size(-1) > self.config.max_position_embeddings:
            raise ValueError(f"the text has {ids.size(-1)} pieces: this model reads at most "
                             f"{self.config.max_position_embeddings}")
        mask = None if attention_mask is None else broadcast_mask(attention_mask)
        hidden = self.embeddings(ids, segment_ids, hook)                             # (B, T, E)
        hidden, states, attentions = self.encoder(hidden, mask, need_weights, head_mask, hook)
        pooled = tell(hook, "pooled", self.pooler(hidden, mask))                     # (B, E)
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
                need_weights: bool = True, head_mask: Tensor | None = None,
                hook: Hook = no_hook) -> PreTrainingOutput:
        """Score every place, or with `predict_at` (a (B, T) mask) only those, which saves most of
        the work: the vocabulary is the widest layer of all."""
        output = self.bert(ids, segment_ids, attention_mask, need_weights=need_weights,
                           head_mask=head_mask, hook=hook)
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
                attention_mask: Tensor | None = None, *, need_weights: bool = True,
                head_mask: Tensor | None = None, hook: Hook = no_hook) -> ClassificationOutput:
        output = self.bert(ids, segment_ids, attention_mask, need_weights=need_weights,
                           head_mask=head_mask, hook=hook)
        logits = self.classifier(self.dropout(output.pooled))                        # (B, C)
        logits = tell(hook, "logits", logits)
        hook("probabilities", logits.softmax(dim=-1))
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
