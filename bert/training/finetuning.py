"""Fine-tuning: from a pre-trained network to the ten feelings, in one run with one set of settings.

What ships is an exponential moving average of the weights. The temperature fitted on dev is folded
into the classifier, the confidence threshold into the config.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from bert.arguments import option
from bert.checkpoint import TOKENIZER, load_checkpoint, save_checkpoint, untrained
from bert.emotions import KEYS, NONE
from bert.folders import check_replaceable
from bert.model import BertForSequenceClassification
from bert.tokenizer import WordPieceTokenizer
from bert.training.augmentation import Augmentation
from bert.training.batching import batches_by_length
from bert.training.examples import Examples, LabelledBatch, LabelledData, LabelledLine
from bert.training.loop import LoopConfig, Processes, Reporter, Sums, fingerprint, fit
from bert.training.metrics import fit_temperature, fit_threshold, metrics_file


@dataclass(frozen=True)
class FinetuneConfig(LoopConfig):
    """How fine-tuning runs."""

    batch_tokens: int = option(2_048, "tokens per batch and process")
    learning_rate: float = option(3e-4, "peak learning rate")
    warmup: int = option(100, "steps in which the learning rate climbs")
    layer_decay: float = option(0.95, "how much slower each layer learns than the one above it")
    epochs: float = option(3.0, "times through the lines; 2.5 ends in the middle of the third")
    longest: int = option(64, "pieces of a line that are read")
    dropout: float = option(0.1, "dropout of the hidden states and the pooled vector")
    label_smoothing: float = option(0.05, "share of the target spread over all classes")
    none_weight: float = option(1.2, "weight of lines without a feeling")
    mixed_weight: float = option(3.0, "weight of lines with two feelings")
    mapped_weight: float = option(1.0, "weight of public lines that map onto a feeling")
    llm_weight: float = option(1.0, "weight of public lines labelled by a language model")
    text_noise: float = option(0.3, "share of lines written differently: spaces, typos, case, ㅋㅋ")
    subword: float = option(0.05, "share of pieces cut in two known ones")
    token_dropout: float = option(0.05, "share of pieces hidden behind [MASK]")
    average: float = option(0.999, "decay of the moving average of the weights")
    keep_feeling: float = option(0.94, "share of dev's feeling lines that must stay confident")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("more than 0", lambda value: value > 0, "epochs")
        self.check_at_least(3, "longest")
        self.check("a share from 0 to 1", lambda share: 0 <= share <= 1, "dropout",
                   "label_smoothing", "text_noise", "subword", "token_dropout", "average",
                   "keep_feeling")


class Averaged(nn.Module):
    """A model that learns, and the moving average of its weights."""

    def __init__(self, model: BertForSequenceClassification, decay: float) -> None:
        super().__init__()
        self.model = model
        self.average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
        self.average.requires_grad_(False)

    def update(self) -> None:
        self.average.update_parameters(self.model)

    @property
    def averaged(self) -> BertForSequenceClassification:
        model = self.average.module
        assert isinstance(model, BertForSequenceClassification)
        return model


def batch_losses(model: BertForSequenceClassification, batch: LabelledBatch,
                 device: torch.device) -> Sums:
    """Weighted cross entropy as a sum over the lines."""
    is_padded = not batch.attention_mask.all()
    mask = torch.from_numpy(batch.attention_mask).to(device) if is_padded else None
    logits = model(torch.from_numpy(batch.ids).to(device), None, mask).logits.float()
    targets = torch.from_numpy(batch.targets).to(device)
    weights = torch.from_numpy(batch.weights).to(device)
    each = F.cross_entropy(logits, targets, reduction="none")
    has_class = targets.max(dim=-1).values > 0.5
    right = (logits.argmax(-1) == targets.argmax(-1)) & has_class
    # Over the lines, not over the weights: a batch of light lines takes a light step.
    return {"loss": ((each * weights).sum(), len(batch.weights)),
            "accuracy": (right.sum(), int(has_class.sum()))}


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
    device = next(model.parameters()).device
    for chosen in batches_by_length(lengths, batch_tokens, np.random.default_rng(0)):
        framed, mask = tokenizer.frame([ids[i] for i in chosen])
        logits = model(torch.from_numpy(framed).to(device), None,
                       torch.from_numpy(mask).to(device), need_weights=False).logits
        result[chosen] = logits.cpu().numpy()
    model.train(was_training)
    return result


# ---------------------------------------------------------------------------------- dev


def dev_score(logits: np.ndarray, lines: Sequence[LabelledLine]) -> float:
    """Mean of the accuracies on easy and hard lines of each language."""
    answers = logits.argmax(axis=1)
    parts: dict[tuple[str, str], list[bool]] = {}
    for answer, line in zip(answers, lines, strict=True):
        if line.label != NONE:
            parts.setdefault((line.language, line.level), []).append(KEYS[answer] == line.label)
    return float(np.mean([np.mean(part) for part in parts.values()]))


def fold_temperature(model: BertForSequenceClassification, logits: np.ndarray,
                     lines: Sequence[LabelledLine]) -> float:
    """Scale the classifier so that it is right as often as it says it is; returns by how much its
    logits have been divided."""
    is_feeling = np.array([line.label != NONE for line in lines])
    truth = np.array([KEYS.index(line.label) for line in lines if line.label != NONE])
    temperature = fit_temperature(logits[is_feeling], truth)
    with torch.no_grad():
        model.classifier.weight.div_(temperature)
        model.classifier.bias.div_(temperature)
    return temperature


def threshold_of(logits: np.ndarray, lines: Sequence[LabelledLine], keep: float) -> float:
    """The confidence threshold that tells lines with a feeling from those without."""
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    top = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)
    is_none = np.array([line.label == NONE for line in lines])
    return fit_threshold(top[~is_none], top[is_none], keep)


# ---------------------------------------------------------------------------------- the run


def starting_point(start_from: Path, settings: FinetuneConfig,
                   ) -> tuple[BertForSequenceClassification, WordPieceTokenizer]:
    """The network of a checkpoint under a new classifier."""
    start = load_checkpoint(start_from)
    config = replace(start.config, id2label=KEYS, hidden_dropout_prob=settings.dropout,
                     attention_probs_dropout_prob=0.0)
    model = untrained(config, BertForSequenceClassification, settings.seed)
    model.bert.load_state_dict(getattr(start.model, "bert", start.model).state_dict())
    return model, start.tokenizer


def finetune(settings: FinetuneConfig, start_from: Path, examples: Examples,
             dev: Sequence[LabelledLine], run: Path, out: Path, *, command: str,
             max_steps: int | None = None) -> None:
    """The whole run, from wherever it was left."""
    processes = Processes.join()
    check_replaceable(out, TOKENIZER)
    model, tokenizer = starting_point(start_from, settings)
    longest = min(settings.longest, model.config.max_position_embeddings)
    augmentation = Augmentation(tokenizer, longest, settings.text_noise, settings.subword,
                                settings.token_dropout)
    data = LabelledData(examples, augmentation, tokenizer,
                        settings.batch_tokens * processes.world_size, settings.seed)
    torch.manual_seed(settings.seed)
    both = Averaged(model, settings.average).to(processes.device)
    texts = [line.text for line in dev]

    def losses(batch: LabelledBatch) -> Sums:
        return batch_losses(model, batch.rows(processes.rank, processes.world_size),
                            processes.device)

    def measure() -> Mapping[str, float]:
        return {"dev": dev_score(logits_of(both.averaged, tokenizer, texts), dev)} if dev else {}

    read = fingerprint(tokenizer.digest(), examples.texts, examples.targets, examples.weights,
                       list(dev))
    steps = max(int(settings.epochs * data.num_batches), 1)
    print(f"{len(examples.texts):,} lines, {data.num_batches:,} batches an epoch, {steps:,} steps",
          flush=True)
    fit(both, losses, data.batches, settings, steps, run, processes, data=read,
        max_steps=max_steps, after_step=both.update, measure=measure)
    if processes.is_main:
        facts = {"finetune": {"command": command, "seed": settings.seed, "data": read,
                              "settings": asdict(settings), "lines": len(examples.texts)},
                 "curves": {"finetune": Reporter(run, 0).curve()}}
        finish(both.averaged, tokenizer, settings, dev, metrics_file(facts), out)
    processes.leave()


def finish(model: BertForSequenceClassification, tokenizer: WordPieceTokenizer,
           settings: FinetuneConfig, dev: Sequence[LabelledLine], files: Mapping[str, str],
           out: Path) -> None:
    """Calibrate the averaged weights and write the checkpoint."""
    if dev:
        logits = logits_of(model, tokenizer, [line.text for line in dev])
        temperature = fold_temperature(model, logits, dev)
        model.config = replace(model.config, confidence_threshold=threshold_of(
            logits / temperature, dev, settings.keep_feeling))
    save_checkpoint(out, model, tokenizer, half=True, files=files)
