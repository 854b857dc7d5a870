"""Text in, `Prediction` out; numpy from here on, no torch leaves.

    python -m bert.predict "드디어 해냈다!"                      ten lines, best first
    python -m bert.predict                                       asks again and again
    python -m bert.predict --input texts.txt --json              one JSON object a line
    python -m bert.predict "TEXT" --attention 12 3 --out a.png   a heatmap (.svg .pdf .csv .npz)
"""

import csv
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Self

import numpy as np
import torch

from bert.checkpoint import Checkpoint, load_checkpoint
from bert.config import Parser
from bert.labels import display_name
from bert.machine import quicken, tune_machine
from bert.model import BertOutput
from bert.tokenizer import Encoding

EMPTY = "The text is empty: type a few words. 글이 비어 있어요: 몇 마디를 적어 주세요."
BATCH_TOKENS, LINES_AT_ONCE = 1_024, 256
COMBINATIONS = ("last", "sum4", "concat4")
FIGURE_ENDINGS, NUMBER_ENDINGS = (".png", ".svg", ".pdf"), (".csv", ".npz")
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
    def label(self) -> str:
        return self.keys[int(self.probabilities.argmax())]

    def ranked(self) -> list[tuple[str, float]]:
        """Classes with their probabilities, best first."""
        order = np.argsort(-self.probabilities, kind="stable")
        return [(self.keys[i], float(self.probabilities[i])) for i in order]

    def to_dict(self) -> dict:
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
class Inspection:
    """Everything inside one run of the model; `steps` in the order they were computed."""

    encoding: Encoding
    steps: tuple[Step, ...]

    def value(self, name: str, layer: int | None = None) -> np.ndarray:
        """The tensor of a step: value("query", layer=3) is (1, H, T, D)."""
        wanted = name if layer is None else f"layer {layer} · {name}"
        for step in self.steps:
            if step.name == wanted:
                return step.value
        raise KeyError(f"no step {wanted!r}; there are {', '.join(s.name for s in self.steps)}")


class EmotionClassifier:
    """A loaded checkpoint that answers texts. Nothing a call computes is kept."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.tokenizer = checkpoint.tokenizer
        self.model = checkpoint.model

    @classmethod
    def load(cls, folder: Path | str) -> Self:
        checkpoint = load_checkpoint(folder)
        quicken(checkpoint.model)
        return cls(checkpoint)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.config.id2label

    def encode(self, text: str, pair: str | None = None) -> Encoding:
        """Cut a text into pieces, at most as many as the model reads; empty text is refused."""
        encoding = self.tokenizer.encode(text, pair, self.config.max_position_embeddings)
        if len(encoding.ids) == 2 + (pair is not None):
            raise ValueError(EMPTY)
        return encoding

    @torch.inference_mode()
    def __call__(self, text: str) -> Prediction:
        """One text, with every attention matrix and hidden state."""
        self.needs_classifier()
        encoding = self.encode(text)
        output = self.model(torch.tensor([encoding.ids]))
        return self._prediction(encoding, output.logits[0], output.bert)

    @torch.inference_mode()
    def predict_many(self, texts: Sequence[str]) -> list[Prediction]:
        """Many texts, probabilities only; batches of similar length, answers in order."""
        self.needs_classifier()
        encodings = [self.encode(text) for text in texts]
        answers: list[Prediction | None] = [None] * len(encodings)
        for chosen in _batches_by_length([len(encoding.ids) for encoding in encodings]):
            batch = self.tokenizer.pad([encodings[i] for i in chosen])
            mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token)
            logits = self.model(torch.from_numpy(batch.ids), None, mask, lean=True).logits
            for row, i in enumerate(chosen):
                answers[i] = self._prediction(encodings[i], logits[row])
        return answers

    @torch.inference_mode()
    def attentions(self, text: str) -> tuple[Encoding, np.ndarray]:
        """A text's pieces and every head's matrix, (L, H, T, T); needs no classifier."""
        encoding = self.encode(text)
        bert = getattr(self.model, "bert", self.model)
        return encoding, torch.cat(bert(torch.tensor([encoding.ids])).attentions).numpy()

    @torch.inference_mode()
    def inspect(self, text: str, pair: str | None = None,
                heads_off: Iterable[tuple[int, int]] = ()) -> Inspection:
        """Every tensor on the way of one text. Heads to switch off: (layer, head), from 1."""
        encoding = self.encode(text, pair)
        steps: list[Step] = []
        shapes: dict[str, tuple[int, ...]] = {" ids": (1, len(encoding.ids))}

        def note(name: str, value: torch.Tensor) -> None:
            prefix, _, short = name.rpartition(" · ")
            source = MADE_FROM.get(short)
            last = steps[-1].value.shape if steps else shapes[" ids"]
            if short in ("query", "attention LayerNorm") and f"{prefix} input" not in shapes:
                shapes[f"{prefix} input"] = last
            made_from = shapes.get(f"{prefix} {source}", last)
            shapes[f"{prefix} {short}"] = tuple(value.shape)
            steps.append(Step(name, tuple(made_from), value.numpy().copy()))

        self.model(torch.tensor([encoding.ids]), torch.tensor([encoding.segment_ids]),
                   heads_on=self.heads_on(heads_off), note=note)
        return Inspection(encoding, tuple(steps))

    def heads_on(self, heads_off: Iterable[tuple[int, int]]) -> torch.Tensor | None:
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
                raise ValueError(f"{name} {value} does not exist: choose 1 to {most}")

    @torch.inference_mode()
    def embed(self, text: str, layers: int | str = "last") -> np.ndarray:
        """A vector per token, (T, E): from one layer (0 is the embeddings), "last", the sum of the
        last four ("sum4") or their concatenation ("concat4", (T, 4·E))."""
        encoding = self.encode(text)
        bert = getattr(self.model, "bert", self.model)
        states = [state[0].numpy() for state in bert(torch.tensor([encoding.ids])).hidden_states]
        if layers == "last":
            return states[-1]
        if layers in ("sum4", "concat4") and len(states) < 5:
            raise ValueError(f"layers is {layers!r}: this model has only {len(states) - 1} layers")
        if layers == "sum4":
            return np.sum(states[-4:], axis=0)
        if layers == "concat4":
            return np.concatenate(states[-4:], axis=-1)
        if isinstance(layers, int) and 0 <= layers < len(states):
            return states[layers]
        raise ValueError(f"layers is {layers!r}: choose 0 to {len(states) - 1} or one of "
                         f"{', '.join(COMBINATIONS)}")

    def needs_classifier(self) -> None:
        """Say so if the checkpoint can answer nothing: some folders hold only the network."""
        if not self.checkpoint.has_classifier:
            raise ValueError(f"{self.checkpoint.folder.name} has no classifier: choose a "
                             "fine-tuned checkpoint, or make one with bert.finetune")

    def _prediction(self, encoding: Encoding, logits: torch.Tensor,
                    output: BertOutput | None = None) -> Prediction:
        probabilities = logits.softmax(dim=-1).numpy()
        confident = bool(probabilities.max() >= self.config.confidence_threshold)
        if output is None:
            return Prediction(encoding, self.keys, probabilities, confident)
        return Prediction(encoding, self.keys, probabilities, confident,
                          torch.cat(output.attentions).numpy(),
                          torch.cat(output.hidden_states).numpy())


def _batches_by_length(lengths: Sequence[int]) -> Iterable[list[int]]:
    """Indices in batches of similar length, so that little is padding."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * lengths[i] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


# ---------------------------------------------------------------------------------- command line


def print_answer(prediction: Prediction) -> None:
    """Ten lines, name and per cent, best first."""
    for key, probability in prediction.ranked():
        print(f"{display_name(key)}\t{probability:.1%}")
    if prediction.truncated:
        print(f"note: only the first {len(prediction.tokens)} pieces were read", file=sys.stderr)


def write_attention(tokens: Sequence[str], weights: np.ndarray, layer: int, head: int,
                    path: Path) -> None:
    """One head's matrix as a picture or as exact numbers."""
    ending = path.suffix.lower()
    if ending == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["query \\ key", *tokens])
            for token, row in zip(tokens, weights, strict=True):
                writer.writerow([token, *(repr(float(value)) for value in row)])
    elif ending == ".npz":
        with path.open("wb") as file:  # given a name, numpy would add its own ending to .NPZ
            np.savez(file, tokens=np.array(tokens), weights=weights)
    else:
        from bert.figures import draw_attention, save_figure
        save_figure(draw_attention(tokens, weights, layer, head), path)


def answer_lines(classifier: EmotionClassifier, lines: Iterable[str]) -> None:
    """One JSON object a line, in order; a blank line gets its error in its place."""
    lines = (line.rstrip("\r\n") for line in lines)
    while chunk := list(islice(lines, LINES_AT_ONCE)):
        is_text = [_is_text(classifier, text) for text in chunk]
        answers = iter(classifier.predict_many(list(compress(chunk, is_text))))
        for text, good in zip(chunk, is_text, strict=True):
            answer = next(answers).to_dict() if good else {"text": text.strip(), "error": EMPTY}
            print(json.dumps(answer, ensure_ascii=False))
        sys.stdout.flush()


def print_lines(classifier: EmotionClassifier, lines: Iterable[str]) -> None:
    """Each text with its ten lines; blank lines are passed over."""
    for line in lines:
        if _is_text(classifier, line):
            prediction = classifier(line)
            print(f"# {prediction.text.strip()}")
            print_answer(prediction)


def _is_text(classifier: EmotionClassifier, text: str) -> bool:
    try:
        classifier.encode(text)
    except ValueError:
        return False
    return True


def ask_again_and_again(classifier: EmotionClassifier) -> None:
    """The chat on a terminal: ends with an empty line, the end of input or Ctrl-C."""
    sys.stdin.reconfigure(errors="surrogateescape")  # half a deleted syllable is no reason to stop
    while True:
        try:
            text = input("Your text: ")
            if not text.strip():
                return
            print_answer(classifier(text))
        except (EOFError, KeyboardInterrupt):
            print()
            return
        except ValueError as error:
            print(error)


def build_parser() -> Parser:
    parser = Parser(prog="bert.predict", description="Which of the ten feelings does a text hold?")
    parser.add_argument("text", nargs="?", help="the text; without it you are asked on a terminal")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="checkpoint folder (default: checkpoints/emotion)")
    parser.add_argument("--input", metavar="FILE", help="one text a line; - is standard input")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--attention", type=int, nargs=2, metavar=("LAYER", "HEAD"),
                        help="save one head's attention, counted from 1; needs --out")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="where to: .png, .svg, .pdf, .csv or .npz")
    return parser


def check_call(parser: Parser, arguments) -> None:
    """Refuse combinations that make no sense, before the model is loaded."""
    if arguments.text is not None and arguments.input is not None:
        parser.error("give a text or --input, not both")
    if arguments.json and arguments.text is None and arguments.input is None:
        parser.error("--json needs a text or --input FILE")
    if arguments.json and arguments.attention is not None:
        parser.error("--json and --attention do not go together")
    if (arguments.attention is None) != (arguments.out is None):
        parser.error("--attention LAYER HEAD and --out FILE go together")
    if arguments.attention is not None:
        if arguments.text is None:
            parser.error("--attention needs a text")
        if arguments.out.suffix.lower() not in FIGURE_ENDINGS + NUMBER_ENDINGS:
            parser.error(f"--out {arguments.out} ends in {arguments.out.suffix or 'nothing'}: "
                         f"expected one of {', '.join(FIGURE_ENDINGS + NUMBER_ENDINGS)}")


def run(parser: Parser, arguments) -> None:
    if arguments.text is not None and not arguments.text.strip():
        raise ValueError(EMPTY)
    classifier = EmotionClassifier.load(arguments.checkpoint)
    if arguments.attention is not None:
        layer, head = arguments.attention
        classifier.check_head(layer, head)
        encoding, weights = classifier.attentions(arguments.text)
        write_attention(encoding.pieces, weights[layer - 1, head - 1], layer, head, arguments.out)
        print(f"saved {arguments.out}")
        return
    classifier.needs_classifier()
    if arguments.text is not None and arguments.json:
        answer_lines(classifier, [arguments.text.replace("\n", " ")])
    elif arguments.text is not None:
        print_answer(classifier(arguments.text))
    elif arguments.input is not None:
        source = sys.stdin.fileno() if arguments.input == "-" else arguments.input
        with open(source, encoding="utf-8-sig", errors="surrogateescape",
                  closefd=arguments.input != "-") as lines:
            (answer_lines if arguments.json else print_lines)(classifier, lines)
    elif sys.stdin.isatty():
        ask_again_and_again(classifier)
    else:
        parser.error("no text: give one, or --input FILE")


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    check_call(parser, arguments)
    sys.stdout.reconfigure(encoding="utf-8" if arguments.json else None, errors="replace")
    tune_machine()
    with parser.one_sentence():
        try:
            run(parser, arguments)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough, as in `| head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
