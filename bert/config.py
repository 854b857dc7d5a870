"""The shape of the network: defaults, checks, and the config.json of a checkpoint."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from bert.arguments import option
from bert.errors import UserError

# Keys of a Hugging Face config.json that change nothing here, so they are passed over.
HUGGING_FACE_ONLY = frozenset({
    "_attn_implementation_autoset", "_name_or_path", "_num_labels", "architectures",
    "attn_implementation", "bos_token_id", "chunk_size_feed_forward", "directionality", "dtype",
    "eos_token_id", "finetuning_task", "gradient_checkpointing", "label2id", "language", "name",
    "max_length", "num_labels",
    "output_attentions", "output_hidden_states", "output_past", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
    "problem_type", "return_dict", "sep_token_id", "cls_token_id",
    "task_specific_params", "tokenizer_class", "torch_dtype",
    "transformers_version", "use_cache",
})
# Keys that would change the network: only BERT's own value is accepted.
HUGGING_FACE_FIXED = {
    "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
    "cross_attention_hidden_size": None, "is_encoder_decoder": False, "pruned_heads": {},
    "tie_word_embeddings": True,
}
LARGEST = {
    "vocab_size": 1_000_000, "hidden_size": 16_384, "num_hidden_layers": 256,
    "num_attention_heads": 256, "intermediate_size": 131_072, "max_position_embeddings": 65_536,
    "type_vocab_size": 64,
}
CHOICES = {
    "hidden_act": ("gelu", "gelu_new", "relu"),
    "norm": ("post", "pre"),
    "positions": ("learned", "sinusoidal"),
    "pooling": ("cls", "mean"),
}


@dataclass(frozen=True)
class BertConfig:
    """Shape of the network; saved beside the weights so that a checkpoint explains itself."""

    vocab_size: int = option(16_000, "number of pieces the tokenizer knows")
    hidden_size: int = option(192, "width of every token vector")
    num_hidden_layers: int = option(12, "number of layers")
    num_attention_heads: int = option(12, "heads per layer; must divide the hidden size")
    intermediate_size: int = option(768, "width inside the feed-forward network")
    hidden_act: str = option("gelu", "feed-forward activation: gelu, gelu_new (tanh form) or relu")
    hidden_dropout_prob: float = option(0.1, "dropout on embeddings and sub-layer outputs")
    attention_probs_dropout_prob: float = option(0.1, "dropout on attention weights")
    max_position_embeddings: int = option(128, "longest text, in pieces")
    type_vocab_size: int = option(2, "number of segments: sentence A and sentence B")
    initializer_range: float = option(0.02, "spread of the random initial weights")
    layer_norm_eps: float = option(1e-12, "added to the variance inside LayerNorm")
    pad_token_id: int = option(0, "id of [PAD]")
    classifier_dropout: float | None = option(None, "dropout before the classifier")
    norm: str = option("post", "LayerNorm after each residual sum (post: BERT) or before (pre)")
    positions: str = option("learned", "position vectors: learned (BERT) or sinusoidal")
    pooling: str = option("cls", "what the pooler reads: cls (BERT) or mean of all tokens")
    id2label: tuple[str, ...] = option((), "class keys in order; empty without a classifier")
    confidence_threshold: float = option(0.0, "below this top probability: no clear feeling")

    def __post_init__(self) -> None:
        for name, largest in LARGEST.items():
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= largest:
                raise UserError(
                    f"{name} is {value!r}: expected a whole number from 1 to {largest}")
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"{name} is {getattr(self, name)!r}: expected one of {', '.join(choices)}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
                     "confidence_threshold"):
            value = getattr(self, name)
            if value is None and name == "classifier_dropout":
                continue
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise UserError(f"{name} is {value!r}: expected a number from 0 to 1")
        for name in ("initializer_range", "layer_norm_eps"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1:
                raise UserError(f"{name} is {value!r}: expected a number between 0 and 1")
        if type(self.pad_token_id) is not int or not 0 <= self.pad_token_id < self.vocab_size:
            raise UserError(f"pad_token_id is {self.pad_token_id!r}: expected one of the "
                            f"{self.vocab_size} ids of the vocabulary")
        if len(set(self.id2label)) < len(self.id2label):
            raise UserError(f"id2label names a class twice: {', '.join(self.id2label)}")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"hidden_size {self.hidden_size} cannot be shared by num_attention_heads "
                f"{self.num_attention_heads}: choose a multiple")

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_attention_heads

    @property
    def is_hugging_face(self) -> bool:
        """Whether Hugging Face BERT can express this network."""
        return (self.norm, self.positions, self.pooling) == ("post", "learned", "cls")

    def to_dict(self) -> dict[str, Any]:
        """The contents of config.json, in the field names of Hugging Face BERT."""
        values = asdict(self)
        labels = values.pop("id2label")
        values["model_type"] = "bert" if self.is_hugging_face else "scratch-bert"
        values["dtype"] = "float32"
        if labels:
            values["id2label"] = {str(i): label for i, label in enumerate(labels)}
            values["label2id"] = {label: i for i, label in enumerate(labels)}
        if self.is_hugging_face:
            for name in ("norm", "positions", "pooling"):
                del values[name]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Read a config.json, ours or Hugging Face's; an unknown key is an error."""
        values = dict(values)
        model_type = values.pop("model_type", "bert")
        if model_type not in ("bert", "scratch-bert"):
            raise UserError(f"model_type is {model_type!r}: expected a BERT")
        for key, expected in HUGGING_FACE_FIXED.items():
            if (found := values.pop(key, expected)) != expected and found is not None:
                raise UserError(f"{key} is {found!r}: only {expected!r} is BERT as built here")
        labels = values.pop("id2label", None) or {}
        if not isinstance(labels, dict) or sorted(labels) != sorted(map(str, range(len(labels)))):
            raise UserError(f'id2label is {labels!r}: expected {{"0": name, "1": name, …}}')
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(values) - known - HUGGING_FACE_ONLY)
        if unknown:
            raise UserError(f"unknown setting {', '.join(unknown)}: remove it or correct its name")
        values = {key: value for key, value in values.items() if key in known}
        return cls(**values, id2label=tuple(str(labels[str(i)]) for i in range(len(labels))))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a config.json; what is wrong with it is said with the file's name."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise UserError(f"{path} holds a {type(values).__name__}: expected settings in {{}}")
        try:
            return cls.from_dict(values)
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: {' '.join(str(error).split())}") from None
