"""Fine-tune BERT on labelled lines: ten feelings, and any number of other label sets on the side.

    python -m bert.finetune --start-from checkpoints/pretrained --train assets/data/train.tsv \\
        --dev assets/data/dev.tsv --run-dir runs/finetune --out checkpoints/emotion

--train and --dev have the columns label, lang, level, pair, text; lines labelled `none` pull
towards the uniform distribution. --auxiliary files (`text<TAB>label,label`) each get a head of
their own that is thrown away at the end; of --mapped files the lines whose labels --label-map maps
onto one feeling train the ten classes as well. The weights of the best epoch on dev are kept; the
temperature fitted on dev is folded into the classifier, the confidence threshold into the config.
Interrupted at any moment, the same command goes on from the last save.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bert.augment import refill
from bert.checkpoint import load_checkpoint, save_checkpoint, untrained
from bert.config import Parser, add_options, described_call, option, read_options
from bert.corpus import LabelledLine, read_labelled, read_text_lines
from bert.labels import KEYS, NONE
from bert.metrics import fit_temperature, fit_threshold
from bert.model import BertForSequenceClassification
from bert.tokenizer import WordPieceTokenizer
from bert.training import (
    LoopConfig,
    Processes,
    Sums,
    batches_by_length,
    fit,
    tune_machine,
)

MAIN = "emotion"


@dataclass(frozen=True)
class FinetuneConfig(LoopConfig):
    """How fine-tuning runs."""

    learning_rate: float = option(3e-4, "peak learning rate")
    warmup: int = option(50, "steps in which the learning rate climbs")
    layer_decay: float = option(0.9, "how much slower each layer learns than the one above it")
    epochs: int = option(6, "times through the lines")
    longest: int = option(64, "pieces of a line that are read")
    dropout: float = option(0.1, "dropout everywhere")
    label_smoothing: float = option(0.05, "share of the target spread over all classes")
    none_weight: float = option(1.0, "weight of lines without a feeling")
    mapped_weight: float = option(0.3, "weight of public lines that map onto a feeling")
    auxiliary_weight: float = option(0.5, "weight of the other label sets")
    balance: bool = option(False, "weigh classes so that each counts the same")
    freeze: int = option(0, "layers, from the embeddings up, that do not learn")
    patience: int = option(3, "epochs without a better dev score before stopping")
    augment: int = option(0, "copies of each line with words filled in anew (--augment-with)")
    keep_feeling: float = option(0.9, "share of dev's feeling lines that must stay confident")


@dataclass(frozen=True)
class Source:
    """Lines that share one head: targets are probabilities (one row sums to one) or yes/no."""

    head: str
    ids: list[list[int]]
    targets: np.ndarray   # (N, K) float32
    weights: np.ndarray   # (N,) float32
    is_exclusive: bool    # one class a line (softmax), or any number (yes/no each)

    def lengths(self) -> np.ndarray:
        return np.array([len(ids) + 2 for ids in self.ids])


@dataclass(frozen=True)
class LabelledBatch:
    source: Source
    ids: np.ndarray       # (B, T)
    is_token: np.ndarray  # (B, T)
    targets: np.ndarray   # (B, K)
    weights: np.ndarray   # (B,)

    @property
    def num_tokens(self) -> int:
        return int(self.is_token.sum())

    def rows(self, rank: int, world_size: int) -> "LabelledBatch":
        """The share of one of several processes."""
        return replace(self, **{name: getattr(self, name)[rank::world_size]
                                for name in ("ids", "is_token", "targets", "weights")})


# ---------------------------------------------------------------------------------- data


def emotion_source(lines: Sequence[LabelledLine], tokenizer: WordPieceTokenizer,
                   settings: FinetuneConfig) -> Source:
    """Our own lines: smoothed one-hot targets, uniform ones for `none`."""
    targets = np.full((len(lines), len(KEYS)), 1.0 / len(KEYS), dtype=np.float32)
    weights = np.full(len(lines), settings.none_weight, dtype=np.float32)
    counts = {key: sum(line.label == key for line in lines) for key in KEYS}
    mean_count = sum(counts.values()) / len(KEYS)
    for row, line in enumerate(lines):
        if line.label == NONE:
            continue
        targets[row] = settings.label_smoothing / len(KEYS)
        targets[row, KEYS.index(line.label)] += 1.0 - settings.label_smoothing
        weights[row] = mean_count / counts[line.label] if settings.balance else 1.0
    ids = [ids[:settings.longest - 2] for ids in tokenizer.encode_ids([i.text for i in lines])]
    return Source(MAIN, ids, targets, weights, is_exclusive=True)


def read_public(path: Path) -> list[tuple[str, list[str]]]:
    """Lines of `text<TAB>label,label`."""
    rows = []
    for number, line in enumerate(read_text_lines(path), 1):
        text, tab, labels = line.partition("\t")
        if not tab or not labels.strip():
            raise ValueError(f"{path}, line {number}: expected text<TAB>label,label")
        if text.strip():
            rows.append((text.strip(), labels.split(",")))
    if not rows:
        raise ValueError(f"{path} is empty: expected lines of text<TAB>label,label")
    return rows


def read_label_map(path: Path) -> dict[tuple[str, str], str]:
    """(data set, original label) -> one of our classes, where the map says `clean`."""
    rows = csv.DictReader(read_text_lines(path), delimiter="\t")
    expected = ["dataset", "original_label", "class10", "quality"]
    if rows.fieldnames != expected:
        raise ValueError(f"{path}, line 1: expected the columns {', '.join(expected)}")
    return {(row["dataset"], row["original_label"]): row["class10"] for row in rows
            if row["quality"] == "clean" and row["class10"] in KEYS}


def mapped_lines(path: Path, label_map: Mapping[tuple[str, str], str]) -> list[LabelledLine]:
    """Public lines all of whose labels are known to mean one and the same feeling."""
    data_set = path.name.split(".")[0]
    lines = []
    for text, labels in read_public(path):
        found = {label_map.get((data_set, label)) for label in labels}
        if len(found) == 1 and None not in found:
            lines.append(LabelledLine(found.pop(), data_set[:2], "easy", "", text))
    return lines


def auxiliary_source(path: Path, tokenizer: WordPieceTokenizer,
                     settings: FinetuneConfig) -> Source:
    """A public set with its own labels, any number a line."""
    rows = read_public(path)
    names = sorted({label for _, labels in rows for label in labels})
    targets = np.zeros((len(rows), len(names)), dtype=np.float32)
    for row, (_, labels) in enumerate(rows):
        targets[row, [names.index(label) for label in labels]] = 1.0
    ids = [ids[:settings.longest - 2] for ids in tokenizer.encode_ids([text for text, _ in rows])]
    weights = np.full(len(rows), settings.auxiliary_weight, dtype=np.float32)
    return Source(path.name.split(".")[0], ids, targets, weights, is_exclusive=False)


class LabelledData:
    """The batches of all sources, mixed; each batch is of one source."""

    def __init__(self, sources: Sequence[Source], tokenizer: WordPieceTokenizer,
                 batch_tokens: int, seed: int) -> None:
        self.sources, self.tokenizer = list(sources), tokenizer
        self.batch_tokens, self.seed = batch_tokens, seed
        self.num_batches = len(self._plan(0))

    def _plan(self, epoch: int) -> list[tuple[Source, np.ndarray]]:
        draw = np.random.default_rng([self.seed, epoch])
        plan = [(source, chosen) for source in self.sources for chosen in
                batches_by_length(source.lengths(), self.batch_tokens, draw)]
        draw.shuffle(plan)
        return plan

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, int, LabelledBatch]]:
        while True:
            plan = self._plan(epoch)
            for number in range(first, len(plan)):
                source, chosen = plan[number]
                ids, is_token = self.tokenizer.frame([source.ids[i] for i in chosen])
                yield epoch, number, LabelledBatch(source, ids, is_token, source.targets[chosen],
                                                   source.weights[chosen])
            epoch, first = epoch + 1, 0


# ---------------------------------------------------------------------------------- learning


class MultiHead(nn.Module):
    """The classifier that ships, and a head for every auxiliary label set."""

    def __init__(self, classifier: BertForSequenceClassification,
                 sources: Sequence[Source]) -> None:
        super().__init__()
        self.main = classifier
        self.heads = nn.ModuleDict({
            source.head: nn.Linear(classifier.config.hidden_size, source.targets.shape[1])
            for source in sources if source.head != MAIN})


def batch_losses(model: MultiHead, batch: LabelledBatch, device: torch.device) -> Sums:
    """Weighted cross entropy of the batch's head, as a sum over the weights."""
    mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token).to(device)
    output = model.main(torch.from_numpy(batch.ids).to(device), None, mask)
    targets = torch.from_numpy(batch.targets).to(device)
    weights = torch.from_numpy(batch.weights).to(device)
    name = batch.source.head
    if batch.source.is_exclusive:
        logits = output.logits
        each = F.cross_entropy(logits, targets, reduction="none")
    else:
        logits = model.heads[name](model.main.dropout(output.bert.pooled))
        each = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(dim=-1)
    rows = len(batch.weights)
    # Over the rows, not over the weights: a batch of light lines takes a light step.
    sums: Sums = {f"{name}_loss": ((each * weights).sum(), rows)}
    if name == MAIN:
        has_class = targets.max(dim=-1).values > 0.5
        right = (logits.argmax(-1) == targets.argmax(-1)) & has_class
        sums[f"{name}_accuracy"] = (right.sum(), int(has_class.sum()))
    return sums


@torch.inference_mode()
def logits_of(model: BertForSequenceClassification, tokenizer: WordPieceTokenizer,
              texts: Sequence[str], batch_tokens: int = 4_096) -> np.ndarray:
    """Logits of many texts, (N, C), in order."""
    was_training = model.training
    model.eval()
    longest = model.config.max_position_embeddings - 2
    ids = [row[:longest] for row in tokenizer.encode_ids(list(texts))]
    lengths = np.array([len(row) + 2 for row in ids])
    result = np.zeros((len(ids), len(model.config.id2label)), dtype=np.float32)
    for chosen in batches_by_length(lengths, batch_tokens, np.random.default_rng(0)):
        framed, is_token = tokenizer.frame([ids[i] for i in chosen])
        mask = None if is_token.all() else torch.from_numpy(is_token)
        device = next(model.parameters()).device
        mask = mask if mask is None else mask.to(device)
        logits = model(torch.from_numpy(framed).to(device), None, mask, lean=True).logits
        result[chosen] = logits.cpu().numpy()
    model.train(was_training)
    return result


def dev_score(logits: np.ndarray, lines: Sequence[LabelledLine]) -> float:
    """Mean of the accuracies on easy and hard lines of each language."""
    answers = logits.argmax(axis=1)
    parts: dict[tuple[str, str], list[bool]] = {}
    for answer, line in zip(answers, lines, strict=True):
        if line.label != NONE:
            parts.setdefault((line.language, line.level), []).append(KEYS[answer] == line.label)
    return float(np.mean([np.mean(part) for part in parts.values()]))


def calibrate(model: BertForSequenceClassification, logits: np.ndarray,
              lines: Sequence[LabelledLine], keep: float) -> BertForSequenceClassification:
    """Fold the temperature into the classifier and put the threshold into the config."""
    is_feeling = np.array([line.label != NONE for line in lines])
    truth = np.array([KEYS.index(line.label) for line in lines if line.label != NONE])
    temperature = fit_temperature(logits[is_feeling], truth)
    with torch.no_grad():
        model.classifier.weight /= temperature
        model.classifier.bias /= temperature
    scaled = torch.from_numpy(logits / temperature).softmax(-1).numpy().max(axis=1)
    threshold = fit_threshold(scaled[is_feeling], scaled[~is_feeling], keep)
    model.config = replace(model.config, confidence_threshold=round(threshold, 4))
    return model


def starting_point(folder: Path, settings: FinetuneConfig,
                   ) -> tuple[BertForSequenceClassification, WordPieceTokenizer]:
    """A classifier whose BERT comes from a checkpoint of any kind; its head is new unless the
    checkpoint has one for the same classes."""
    start = load_checkpoint(folder)
    config = replace(start.config, id2label=KEYS, hidden_dropout_prob=settings.dropout,
                     attention_probs_dropout_prob=settings.dropout)
    model = untrained(config, BertForSequenceClassification, settings.seed)
    bert = getattr(start.model, "bert", start.model)
    model.bert.load_state_dict(bert.state_dict())
    if start.has_classifier and start.config.id2label == KEYS:
        model.classifier.load_state_dict(start.model.classifier.state_dict())
    if settings.freeze:
        model.bert.embeddings.requires_grad_(False)
        for layer in model.bert.encoder.layer[:settings.freeze - 1]:
            layer.requires_grad_(False)
    return model, start.tokenizer


def finetune(settings: FinetuneConfig, start_from: Path, sources_of, dev: Sequence[LabelledLine],
             run: Path, out: Path, max_steps: int | None = None) -> None:
    """The whole run; `sources_of(tokenizer)` makes the sources."""
    processes = Processes.join()
    model, tokenizer = starting_point(start_from, settings)
    sources = sources_of(tokenizer)
    data = LabelledData(sources, tokenizer, settings.batch_tokens * processes.world_size,
                        settings.seed)
    torch.manual_seed(settings.seed)
    both = MultiHead(model, sources).to(processes.device)
    best = run / "best"

    def losses(batch: LabelledBatch) -> Sums:
        return batch_losses(both, batch.rows(processes.rank, processes.world_size),
                            processes.device)

    def after_epoch(progress: dict[str, Any]) -> bool:
        if not dev:
            save_checkpoint(best, model, tokenizer)
            return False
        score = dev_score(logits_of(model, tokenizer, [line.text for line in dev]), dev)
        if processes.is_main:
            print(f"\nepoch {progress['epoch']}: dev {score:.4f}", flush=True)
        history = [*progress.get("dev_scores", []), score]
        progress["dev_scores"] = history
        if score == max(history) and processes.is_main:
            save_checkpoint(best, model, tokenizer)
        return len(history) - 1 - int(np.argmax(history)) >= settings.patience

    progress = fit(both, losses, data.batches, settings, settings.epochs * data.num_batches, run,
                   processes, max_steps=max_steps, after_epoch=after_epoch)
    if processes.is_main:
        if not best.is_dir():
            save_checkpoint(best, model, tokenizer)
        finish(best, settings, dev, progress, out)
    processes.leave()


def finish(best: Path, settings: FinetuneConfig, dev: Sequence[LabelledLine],
           progress: Mapping[str, Any], out: Path) -> None:
    """Calibrate the best weights and write the checkpoint."""
    kept = load_checkpoint(best)
    model = kept.model
    if dev:
        logits = logits_of(model, kept.tokenizer, [line.text for line in dev])
        model = calibrate(model, logits, dev, settings.keep_feeling)
    facts = {"finetune": {
        "command": described_call("bert.finetune"), "seed": settings.seed,
        "settings": asdict(settings), "dev_scores": progress.get("dev_scores", [])}}
    save_checkpoint(out, model, kept.tokenizer, half=True,
                    files={"metrics.json": json.dumps(facts, indent=2, ensure_ascii=False) + "\n"})


# ---------------------------------------------------------------------------------- command line


def build_parser() -> Parser:
    parser = Parser(prog="bert.finetune", description=__doc__.split("\n")[0])
    parser.add_argument("--start-from", type=Path, required=True, metavar="CHECKPOINT",
                        help="any checkpoint; its BERT is the beginning")
    parser.add_argument("--train", type=Path, nargs="*", default=[], metavar="FILE",
                        help="labelled lines: label, lang, level, pair, text")
    parser.add_argument("--dev", type=Path, nargs="*", default=[], metavar="FILE",
                        help="labelled lines that choose the epoch, temperature and threshold")
    parser.add_argument("--auxiliary", type=Path, nargs="*", default=[], metavar="FILE",
                        help="text<TAB>label,label; each file has a head of its own")
    parser.add_argument("--mapped", type=Path, nargs="*", default=[], metavar="FILE",
                        help="text<TAB>label,label; lines that --label-map maps onto a feeling")
    parser.add_argument("--label-map", type=Path, metavar="FILE",
                        help="columns dataset, original_label, class10, quality")
    parser.add_argument("--augment-with", type=Path, metavar="CHECKPOINT",
                        help="pre-trained checkpoint that fills in the words for --augment")
    parser.add_argument("--languages", nargs="*", default=[], metavar="LANG",
                        help="use only our lines in these languages (default: all)")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder for the saved state")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps; 2 is a dry run")
    add_options(parser, FinetuneConfig)
    return parser


def read_sources(arguments, settings: FinetuneConfig):
    """A function that makes the sources once the tokenizer is known; files are read now."""
    own = [line for path in arguments.train for line in read_labelled(path)
           if not arguments.languages or line.language in arguments.languages]
    if settings.augment and arguments.augment_with is None:
        raise ValueError("--augment needs --augment-with")
    if settings.augment:
        filler = load_checkpoint(arguments.augment_with)
        own += [line for copy in range(settings.augment)
                for line in refill(own, filler, seed=settings.seed + copy)]
    if arguments.mapped and arguments.label_map is None:
        raise ValueError("--mapped needs --label-map")
    label_map = read_label_map(arguments.label_map) if arguments.mapped else {}
    public = [line for path in arguments.mapped for line in mapped_lines(path, label_map)]
    if not own and not public and not arguments.auxiliary:
        raise ValueError("nothing to learn from: give --train, --mapped or --auxiliary")
    print(f"{len(own):,} own lines, {len(public):,} mapped public lines, "
          f"{len(arguments.auxiliary)} auxiliary set(s)", flush=True)

    def sources_of(tokenizer: WordPieceTokenizer) -> list[Source]:
        sources = [auxiliary_source(path, tokenizer, settings) for path in arguments.auxiliary]
        if own:
            sources.append(emotion_source(own, tokenizer, settings))
        if public:
            source = emotion_source(public, tokenizer, settings)
            sources.append(replace(source, weights=source.weights * settings.mapped_weight))
        return sources

    return sources_of


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    try:
        settings = read_options(arguments, FinetuneConfig)
        dev = [line for path in arguments.dev for line in read_labelled(path)
               if not arguments.languages or line.language in arguments.languages]
        finetune(settings, arguments.start_from, read_sources(arguments, settings), dev,
                 arguments.run_dir, arguments.out, arguments.max_steps)
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
