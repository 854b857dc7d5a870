"""Text in, `Prediction` out; numpy from here on, no torch leaves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from bert.checkpoint import Checkpoint, load_checkpoint
from bert.errors import UserError
from bert.fast import FastBert, FastOutput, batches
from bert.hook_names import BY_TOKEN_FIRST, full_name, hook_names
from bert.model import (
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
    BertOutput,
    ClassificationOutput,
)
from bert.tokenizer import MASK, Encoding

if TYPE_CHECKING:
    from bert.page.standalone import Interactive

EMPTY = "The text is empty: type a few words. 글이 비어 있어요: 몇 마디를 적어 주세요."
COMBINATIONS = ("last", "sum4", "concat4")
# What each recorded step of a layer was computed from.
MADE_FROM = {
    "segment vectors": "ids", "position vectors": "ids",
    "query": "input", "key": "input", "value": "input", "scores": "query", "attention": "scores",
    "context": "attention", "attention output": "context", "attention residual": "attention output",
    "feed-forward output": "feed-forward activations",
    "feed-forward residual": "feed-forward output",
}


@dataclass(frozen=True)
class Prediction:
    """What the model says about a text, and what it looked at on the way."""

    encoding: Encoding
    keys: tuple[str, ...]          # the classes, in their fixed order
    probabilities: np.ndarray      # (C,) float32
    confident: bool
    attentions: np.ndarray | None = None     # (L, H, T, T), query × key
    hidden_states: np.ndarray | None = None  # (L + 1, T, E)
    classifier: "EmotionClassifier | None" = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        return self.encoding.texts[0]

    @property
    def tokens(self) -> list[str]:
        return self.encoding.pieces

    @property
    def truncated(self) -> bool:
        return self.encoding.truncated

    @property
    def weights(self) -> np.ndarray:
        """The attention of a text that was read by itself: (L, H, T, T)."""
        if self.attentions is None:
            raise ValueError("predict_many keeps no attention: call the classifier with this text")
        return self.attentions

    @property
    def label(self) -> str:
        return self.keys[int(self.probabilities.argmax())]

    def ranked(self) -> list[tuple[str, float]]:
        """Classes with their probabilities, best first."""
        order = np.argsort(-self.probabilities, kind="stable")
        return [(self.keys[i], float(self.probabilities[i])) for i in order]

    def _repr_html_(self) -> str:
        """How a notebook shows it: the bars and a heatmap."""
        from bert.drawing.notebook import prediction_html
        return prediction_html(self)

    def show(self, layer: int | None = None, head: int | None = None,
             view: str = "heatmap") -> "Interactive":
        """The page's own bars and attention in a notebook, alive; `view` is heatmap, lines, heads,
        layers or ends. `show().save("answer.html")` keeps it as a file."""
        from bert.page.standalone import Interactive
        if self.classifier is None:
            raise UserError("this prediction has lost its classifier: predict the text again")
        return Interactive.of(self.classifier, self.text, layer, head, view)

    def to_dict(self) -> dict[str, Any]:
        """The answer in the form of `--json` and of the HTTP endpoint."""
        return {
            "text": self.text, "tokens": self.tokens, "truncated": self.truncated,
            "label": self.label, "confident": self.confident,
            "probabilities": {key: float(p) for key, p in
                              zip(self.keys, self.probabilities, strict=True)},
        }


@dataclass(frozen=True)
class Step:
    """One tensor on the way: its name, the shape it was made from, its value."""

    name: str
    made_from: tuple[int, ...]
    value: np.ndarray

    def __str__(self) -> str:
        return f"{self.name}: {self.made_from} → {self.value.shape}"


@dataclass(frozen=True)
class ActivationCache:
    """Everything inside one run of the model; `steps` in the order they were computed.

    Tensors are found by our names, `value("query", layer=3)`, and by those of TransformerLens,
    `cache["blocks.2.attn.hook_q"]` or `cache["q", 2]`: bert/hook_names.py lists them.
    """

    encoding: Encoding
    steps: tuple[Step, ...]

    def value(self, name: str, layer: int | None = None) -> np.ndarray:
        """The tensor of a step: value("query", layer=3) is (1, H, T, D)."""
        wanted = name if layer is None else f"layer {layer} · {name}"
        for step in self.steps:
            if step.name == wanted:
                return step.value
        raise KeyError(f"no step {wanted!r}; there are {', '.join(s.name for s in self.steps)}")

    def keys(self) -> list[str]:
        """The names of TransformerLens that this run has."""
        return list(self._hook_names())

    def __getitem__(self, name: str | tuple[str, int]) -> np.ndarray:
        """A tensor by its name in TransformerLens, or by that of its step."""
        names = self._hook_names()
        if not isinstance(name, str):
            name = full_name(*name, list(names))
        value = self.value(names.get(name, name))
        return value.swapaxes(1, 2) if name.endswith(BY_TOKEN_FIRST) else value

    def _hook_names(self) -> dict[str, str]:
        return hook_names([step.name for step in self.steps])


class EmotionClassifier:
    """A loaded checkpoint that answers texts. Nothing a call computes is kept."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.tokenizer = checkpoint.tokenizer
        self.model = checkpoint.model
        self.fast: FastBert | None = None

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        """A classifier whose weights stay as they are, so that the fast network may answer."""
        classifier = cls(load_checkpoint(folder))
        classifier.fast = FastBert.of(classifier.model)
        return classifier

    @property
    def keys(self) -> tuple[str, ...]:
        return self.config.id2label

    @property
    def bert(self) -> BertModel:
        """The network without its heads."""
        return self.model if isinstance(self.model, BertModel) else self.model.bert

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Cut a text into pieces, at most as many as the model reads; empty text is refused."""
        return self._encode([text], None if pair is None else [pair])[0]

    def _encode(self, texts: list[str], pairs: list[str] | None = None) -> list[Encoding]:
        encodings = self.tokenizer.encode_many(texts, pairs, self.config.max_position_embeddings)
        if any(len(encoding.ids) == 2 + (pairs is not None) for encoding in encodings):
            raise UserError(EMPTY)
        return encodings

    @torch.inference_mode()
    def __call__(self, text: str) -> Prediction:
        """One text, with every attention matrix and hidden state."""
        self.needs_classifier()
        encoding = self.encode(text)
        output = self._everything(encoding)
        assert output.logits is not None
        return self._predictions([encoding], output.logits[None], output)[0]

    @torch.inference_mode()
    def predict_many(self, texts: Sequence[str]) -> list[Prediction]:
        """Many texts, probabilities only; batches of similar length, answers in order."""
        self.needs_classifier()
        if not texts:
            return []
        encodings = self._encode(list(texts))
        return self._predictions(encodings, self._logits(encodings))

    @torch.inference_mode()
    def attentions(self, text: str) -> tuple[Encoding, np.ndarray]:
        """A text's pieces and every head's matrix, (L, H, T, T); needs no classifier."""
        encoding = self.encode(text)
        return encoding, self._everything(encoding).attentions.numpy()

    @torch.inference_mode()
    def run_with_cache(self, text: str, pair: str | None = None,
                       heads_off: Iterable[tuple[int, int]] = ()) -> ActivationCache:
        """Every tensor on the way of one text, also under the names of TransformerLens:
        `run_with_cache(text)["blocks.0.attn.hook_pattern"]` (bert/hook_names.py). Heads to switch
        off: (layer, head), from 1."""
        encoding = self.encode(text, pair)
        steps: list[Step] = []
        shapes: dict[str, tuple[int, ...]] = {" ids": (1, len(encoding.ids))}

        def hook(name: str, value: torch.Tensor) -> None:
            prefix, _, short = name.rpartition(" · ")
            source = MADE_FROM.get(short)
            last = steps[-1].value.shape if steps else shapes[" ids"]
            if short in ("query", "attention LayerNorm") and f"{prefix} input" not in shapes:
                shapes[f"{prefix} input"] = last
            made_from = shapes.get(f"{prefix} {source}", last)
            shapes[f"{prefix} {short}"] = tuple(value.shape)
            steps.append(Step(name, tuple(made_from), value.numpy().copy()))

        self.model(torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids]),
                   head_mask=self.head_mask(heads_off), hook=hook)
        return ActivationCache(encoding, tuple(steps))

    def head_mask(self, heads_off: Iterable[tuple[int, int]]) -> torch.Tensor | None:
        """The 1/0 switch of every head, (L, H); None when nothing is switched off."""
        heads_off = list(heads_off)
        if not heads_off:
            return None
        switches = torch.ones(self.config.num_hidden_layers, self.config.num_attention_heads)
        for layer, head in heads_off:
            self.check_head(layer, head)
            switches[layer - 1, head - 1] = 0.0
        return switches

    def check_head(self, layer: int, head: int) -> None:
        """Layers and heads are counted from 1, as people see them."""
        for name, value, most in (("layer", layer, self.config.num_hidden_layers),
                                  ("head", head, self.config.num_attention_heads)):
            if not 1 <= value <= most:
                raise UserError(f"{name} {value} does not exist: choose 1 to {most}")

    @torch.inference_mode()
    def embed(self, text: str, layers: int | str = "last") -> np.ndarray:
        """A vector per token, (T, E): from one layer (0 is the embeddings), "last", the sum of the
        last four ("sum4") or their concatenation ("concat4", (T, 4·E))."""
        encoding = self.encode(text)
        output = self.bert(torch.tensor([encoding.ids]))
        states = [state[0].numpy() for state in output.hidden_states]
        if layers == "last":
            return states[-1]
        if layers in ("sum4", "concat4") and len(states) < 5:
            raise UserError(f"layers is {layers!r}: this model has only {len(states) - 1} layers")
        if layers == "sum4":
            return np.sum(states[-4:], axis=0)
        if layers == "concat4":
            return np.concatenate(states[-4:], axis=-1)
        if isinstance(layers, int) and 0 <= layers < len(states):
            return states[layers]
        raise UserError(f"layers is {layers!r}: choose 0 to {len(states) - 1} or one of "
                        f"{', '.join(COMBINATIONS)}")

    def needs_classifier(self) -> BertForSequenceClassification:
        """The network with its classifier; says so if the folder holds only the network."""
        if not isinstance(self.model, BertForSequenceClassification):
            raise UserError(f"{self.checkpoint.name} has no classifier: choose a "
                            "fine-tuned checkpoint, or make one with bert finetune")
        return self.model

    def _everything(self, encoding: Encoding) -> FastOutput:
        """One text through the network, with all there is to see."""
        if self.fast is not None:
            return self.fast(encoding.ids)
        output = self.model(torch.tensor([encoding.ids]))
        bert = output if isinstance(output, BertOutput) else output.bert
        logits = output.logits[0] if isinstance(output, ClassificationOutput) else None
        return FastOutput(logits, torch.cat(bert.attentions), torch.cat(bert.hidden_states))

    def _logits(self, encodings: Sequence[Encoding]) -> torch.Tensor:
        """Many texts through the network, (B, C)."""
        if self.fast is not None:
            return self.fast.logits([encoding.ids for encoding in encodings])
        model = self.needs_classifier()
        logits = torch.empty(len(encodings), len(self.keys))
        for chosen in batches([len(encoding.ids) for encoding in encodings]):
            batch = self.tokenizer.pad([encodings[i] for i in chosen])
            logits[chosen] = model(torch.from_numpy(batch.ids), None,
                                   torch.from_numpy(batch.attention_mask),
                                   need_weights=False).logits
        return logits

    def _predictions(self, encodings: Sequence[Encoding], logits: torch.Tensor,
                     output: FastOutput | None = None) -> list[Prediction]:
        rows = logits.softmax(dim=-1).numpy()                                        # (B, C)
        attentions = None if output is None else output.attentions.numpy()
        states = None if output is None else output.hidden_states.numpy()
        return [Prediction(encoding, self.keys, probabilities,
                           bool(probabilities.max() >= self.config.confidence_threshold),
                           attentions, states, self)
                for encoding, probabilities in zip(encodings, rows, strict=True)]


class PretrainedBert:
    """A loaded checkpoint with the two heads of pre-training."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        if not isinstance(checkpoint.model, BertForPreTraining):
            raise UserError(f"{checkpoint.name} has no masked-language-model head: choose "
                            "a pre-trained checkpoint")
        self.checkpoint, self.tokenizer = checkpoint, checkpoint.tokenizer
        self.model: BertForPreTraining = checkpoint.model

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        return cls(load_checkpoint(folder))

    @torch.inference_mode()
    def fill(self, text: str, count: int = 10) -> list[tuple[str, float]]:
        """The likeliest pieces behind the one [MASK] of a text, best first. A mask that touches a
        letter before it continues a word (##), any other begins one."""
        ids, place = self.tokenizer.encode_masked(text)
        longest = self.checkpoint.config.max_position_embeddings
        if len(ids) > longest:
            raise UserError(f"the text has {len(ids)} pieces: this model reads {longest}")
        hidden = self.model.bert(torch.tensor([ids]), need_weights=False).hidden[:, place]
        pieces = self.tokenizer.vocabulary()  # others' networks may have more rows than pieces
        vectors = self.model.bert.embeddings.word_embeddings.weight
        logits = self.model.mlm(hidden, vectors)[0, :len(pieces)]
        before = text.partition(MASK)[0]
        is_inside = bool(before) and (before[-1].isalpha() or before[-1].isdigit())
        fits = [piece.startswith("##") == is_inside and i not in self.tokenizer.special_ids
                for i, piece in enumerate(pieces)]
        logits[~torch.tensor(fits)] = float("-inf")
        best = logits.softmax(dim=-1).topk(min(count, sum(fits)))
        return [(pieces[i], p) for i, p in zip(best.indices.tolist(), best.values.tolist(),
                                               strict=True)]

    @torch.inference_mode()
    def follows(self, first: str, second: str) -> float:
        """The probability that the second text follows the first."""
        self.needs_next_sentence()
        if not first.strip() or not second.strip():
            raise UserError(EMPTY)
        encoding = self.tokenizer.encode(first, second,
                                         self.checkpoint.config.max_position_embeddings)
        output = self.model(torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids]),
                            predict_at=torch.zeros(1, len(encoding.ids), dtype=torch.bool),
                            need_weights=False)
        return float(output.nsp_logits[0].softmax(dim=-1)[0])

    def needs_next_sentence(self) -> None:
        """Says so if the folder was trained without the next-sentence task."""
        if not self.checkpoint.has_nsp:
            raise UserError(f"{self.checkpoint.name} has no next-sentence head: it was "
                            "trained without that task")
