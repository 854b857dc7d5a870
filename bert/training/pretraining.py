"""Pre-training: guess masked pieces, and whether one sentence follows another.

The network grows while it learns (progressive stacking, Gong et al. 2019): few layers read several
times as many tokens an hour and leave the plateau of word frequencies within minutes; then their
weights are copied to make twice as many. Where a teacher has read a line, its sentence vector is
learned in the same pass, so that both heads stay alive.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bert.arguments import option
from bert.checkpoint import TOKENIZER, load_checkpoint, save_checkpoint, untrained
from bert.config import BertConfig
from bert.errors import UserError
from bert.folders import check_replaceable
from bert.model import BertForPreTraining
from bert.tokenizer import WordPieceTokenizer
from bert.training.corpus import TokenCorpus
from bert.training.distillation import SentenceVectors, VectorHeads
from bert.training.loop import LoopConfig, Processes, Reporter, Schedule, Sums, fingerprint, fit
from bert.training.masking import IGNORED, PretrainBatch, PretrainData
from bert.training.metrics import metrics_file

LANGUAGES = ("ko", "en")
STAGE = "LAYERS:MILLION_TOKENS:LENGTH:LEARNING_RATE"
HELD_OUT_SEED = 12_345
MEASURED = 60  # batches of held-out documents that are read at every save


@dataclass(frozen=True)
class Stage:
    """So many layers, so many tokens, sequences up to so many pieces, this learning rate."""

    layers: int
    tokens: int
    length: int
    rate: float

    @classmethod
    def read(cls, text: str) -> Self:
        """LAYERS:MILLION_TOKENS:LENGTH:LEARNING_RATE

        >>> Stage.read("3:60:64:1e-3")
        Stage(layers=3, tokens=60000000, length=64, rate=0.001)
        """
        try:
            layers, millions, length, rate = text.split(":")
            stage = cls(int(layers), int(float(millions) * 1e6), int(length), float(rate))
        except (ValueError, OverflowError):
            raise UserError(f"the stage {text!r} is not {STAGE}") from None
        if stage.layers < 1 or stage.tokens < 1 or stage.length < 8 or not 0 < stage.rate < 1:
            raise UserError(f"the stage {text!r} has too few layers, tokens or pieces, or no "
                            "learning rate")
        return stage


@dataclass(frozen=True)
class PretrainConfig(LoopConfig):
    """How pre-training runs; the shape of the network is BertConfig."""

    stages: str = option("3:40:64:1.5e-3 6:60:64:1.2e-3 12:90:64:1e-3 12:20:128:1e-3",
                         f"{STAGE}, one after the other; the last has the layers of the network")
    batch_tokens: int = option(4_096, "tokens per batch and process")
    mask_rate: float = option(0.2, "share of pieces to predict")
    decay: float = option(0.3, "share of all tokens, at the end, over which the learning rate "
                          "falls to zero")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("a share between 0 and 1", lambda share: 0 < share < 1, "mask_rate")
        self.check("a share from 0 to 1", lambda share: 0 <= share <= 1, "decay")
        if not self.plan:
            raise UserError(f"--stages is empty: expected {STAGE}")

    @property
    def plan(self) -> list[Stage]:
        return [Stage.read(text) for text in self.stages.replace(",", " ").split()]

    def plan_for(self, config: BertConfig) -> list[Stage]:
        """The stages, if they end in this network."""
        stages = self.plan
        if stages[-1].layers != config.num_hidden_layers:
            raise UserError(f"the last stage has {stages[-1].layers} layers, the network "
                            f"{config.num_hidden_layers}: make them equal")
        if max(stage.length for stage in stages) > config.max_position_embeddings:
            raise UserError(f"a stage has longer sequences than --max-position-embeddings "
                            f"{config.max_position_embeddings}")
        return stages


# ---------------------------------------------------------------------------------- learning


class Student(nn.Module):
    """The model and, where there is a teacher, the heads that answer with its vectors."""

    def __init__(self, model: BertForPreTraining, width: int = 0) -> None:
        super().__init__()
        self.model = model
        self.vector_heads = VectorHeads(model.config.hidden_size, width) if width else None


def batch_losses(student: Student, batch: PretrainBatch, device: torch.device) -> Sums:
    """All losses as sums, with what each is a sum over, and both numbers of right guesses."""
    ids, segment_ids, is_masked, nsp_targets, vectors = (
        torch.from_numpy(value).to(device) for value in
        (batch.ids, batch.segment_ids, batch.is_masked, batch.nsp_targets, batch.vectors))
    is_padded = not batch.attention_mask.all()
    mask = torch.from_numpy(batch.attention_mask).to(device) if is_padded else None
    # With its weights: for short texts and narrow heads the explicit attention is the faster one.
    output = student.model(ids, segment_ids, mask, predict_at=is_masked)
    mlm_logits, nsp_logits = output.mlm_logits.float(), output.nsp_logits.float()
    mlm_targets = torch.from_numpy(batch.mlm_targets[batch.is_masked]).to(device)
    is_pair = nsp_targets != IGNORED
    pairs = int(is_pair.sum())
    sums: Sums = {
        "mlm_loss": (F.cross_entropy(mlm_logits, mlm_targets, reduction="sum"), len(mlm_targets)),
        "mlm_accuracy": ((mlm_logits.argmax(-1) == mlm_targets).sum(), len(mlm_targets)),
        "nsp_loss": (F.cross_entropy(nsp_logits[is_pair], nsp_targets[is_pair], reduction="sum"),
                     pairs),
        "nsp_accuracy": ((nsp_logits.argmax(-1) == nsp_targets).sum(), pairs),
    }
    if student.vector_heads is not None:
        sums |= student.vector_heads.losses(output.bert, mask, vectors)
    return sums


@torch.no_grad()
def grown(model: BertForPreTraining, num_layers: int, seed: int) -> BertForPreTraining:
    """A deeper copy: its layers are those of the model, over and over from the bottom up."""
    config = replace(model.config, num_hidden_layers=num_layers)
    deeper = untrained(config, BertForPreTraining, seed)
    old, new = model.state_dict(), deeper.state_dict()
    for name in new:
        before, is_layer, after = name.partition(".layer.")
        if is_layer:
            number, _, part = after.partition(".")
            name_below = f"{before}.layer.{int(number) % model.config.num_hidden_layers}.{part}"
            new[name].copy_(old[name_below])
        else:
            new[name].copy_(old[name])
    return deeper


def stage_schedule(stages: Sequence[Stage], number: int, settings: PretrainConfig,
                   batch_tokens: int) -> Schedule:
    """Climb to the stage's learning rate, hold, and fall to zero over the last tokens of all."""
    total = sum(stage.tokens for stage in stages)
    before = sum(stage.tokens for stage in stages[:number])

    def share_of(step: int) -> float:
        left = total - before - step * batch_tokens
        falling = left / (settings.decay * total) if settings.decay else 1.0
        return max(min((step + 1) / max(settings.warmup, 1), 1.0, falling), 0.0)
    return share_of


# ---------------------------------------------------------------------------------- measuring


@torch.inference_mode()
def measure_held_out(model: BertForPreTraining, corpus: TokenCorpus,
                     tokenizer: WordPieceTokenizer, length: int = 64,
                     most_batches: int | None = None) -> dict[str, Any]:
    """Both tasks on held-out documents, 15 % hidden, strangers from the same source: by source, and
    by language for masked pieces."""
    length = min(length, model.config.max_position_embeddings)
    data = PretrainData(corpus, tokenizer, length, 8_192, 0.15, HELD_OUT_SEED)
    order = np.random.default_rng(HELD_OUT_SEED).permutation(len(data.planned(0)))
    counts = np.zeros((len(corpus.sources), 4), dtype=np.int64)  # masked, right, pairs, right
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    loss = 0.0
    for number in order[:most_batches]:
        batch = data.batch(0, int(number))
        output = model(*(torch.from_numpy(value).to(device) for value in
                         (batch.ids, batch.segment_ids, batch.attention_mask)),
                       predict_at=torch.from_numpy(batch.is_masked).to(device))
        truth = batch.mlm_targets[batch.is_masked]
        loss += float(F.cross_entropy(output.mlm_logits.float(),
                                      torch.from_numpy(truth).to(device), reduction="sum"))
        source_of = np.repeat(batch.sources, batch.is_masked.sum(axis=1))
        is_right = output.mlm_logits.argmax(-1).cpu().numpy() == truth
        is_pair = batch.nsp_targets != IGNORED
        nsp_right = (output.nsp_logits.argmax(-1).cpu().numpy() == batch.nsp_targets)[is_pair]
        np.add.at(counts[:, 0], source_of, 1)
        np.add.at(counts[:, 1], source_of, is_right)
        np.add.at(counts[:, 2], batch.sources[is_pair], 1)
        np.add.at(counts[:, 3], batch.sources[is_pair], nsp_right)
    model.train(was_training)
    by_source = {name: {"masked": int(row[0]), "masked_right": ratio(row[1], row[0]),
                        "pairs": int(row[2]), "next_sentence_right": ratio(row[3], row[2])}
                 for name, row in zip(corpus.sources, counts, strict=True) if row[0]}
    languages = {}
    for language in LANGUAGES:
        rows = counts[[name.startswith(f"{language}_") for name in corpus.sources]].sum(axis=0)
        if rows[0]:
            languages[language] = {"masked": int(rows[0]), "masked_right": ratio(rows[1], rows[0])}
    pairs = [row[3] / row[2] for name, row in zip(corpus.sources, counts, strict=True)
             if row[2] and not is_review(name)]
    return {"mlm_loss": loss / max(int(counts[:, 0].sum()), 1), "languages": languages,
            "next_sentence_right": float(np.mean(pairs)) if pairs else None, "sources": by_source}


def is_review(source: str) -> bool:
    """Film reviews: their lines hardly follow each other, so they stand apart."""
    return "nsmc" in source or "imdb" in source


def ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


# ---------------------------------------------------------------------------------- the run


def pretrain(config: BertConfig, settings: PretrainConfig, train: TokenCorpus, held: TokenCorpus,
             tokenizer: WordPieceTokenizer, run: Path, out: Path, processes: Processes, *,
             command: str, max_steps: int | None = None, repeats: Mapping[str, int] | None = None,
             vectors: SentenceVectors | None = None,
             start_from: Path | None = None) -> BertForPreTraining:
    """All stages, from wherever the run was left; the last one writes the checkpoint."""
    check_replaceable(out, TOKENIZER)
    stages = settings.plan_for(config)
    first = replace(config, num_hidden_layers=stages[0].layers)
    model = (earlier_model(start_from, first, tokenizer) if start_from
             else untrained(first, BertForPreTraining, settings.seed))
    for number, stage in enumerate(stages):
        if stage.layers != model.config.num_hidden_layers:
            model = grown(model, stage.layers, settings.seed)
        print(f"stage {number + 1} of {len(stages)}: {stage.layers} layers, "
              f"{stage.tokens / 1e6:,.1f} M tokens, up to {stage.length} pieces", flush=True)
        read = fingerprint(tokenizer.digest(), train.sentences, train.documents, config, stage)

        def save(number: int = number, read: str = read,
                 model: BertForPreTraining = model) -> None:
            if number == len(stages) - 1:
                facts = {"pretrain": {
                    "command": command, "seed": settings.seed, "data": read,
                    "settings": asdict(settings), "pieces_in_corpus": len(train.ids)},
                    "curves": {"pretrain": all_curves(run, len(stages))}}
                save_checkpoint(out, model, tokenizer, half=True, files=metrics_file(facts))

        batch_tokens = settings.batch_tokens * processes.world_size
        data = PretrainData(train, tokenizer, stage.length, batch_tokens, settings.mask_rate,
                            settings.seed + number, repeats or {}, vectors)
        run_stage(model, data, held, replace(settings, learning_rate=stage.rate),
                  run / f"stage_{number + 1}", processes,
                  steps=math.ceil(stage.tokens / batch_tokens), read=read, max_steps=max_steps,
                  schedule=stage_schedule(stages, number, settings, batch_tokens), save=save)
    return model


def earlier_model(folder: Path, config: BertConfig,
                  tokenizer: WordPieceTokenizer) -> BertForPreTraining:
    """The network of an earlier run, if it has the shape and the vocabulary of this one."""
    found = load_checkpoint(folder)
    if found.tokenizer.digest() != tokenizer.digest():
        raise UserError(f"{folder} has another vocabulary than --tokenizer: give its own folder "
                        "as --tokenizer")
    if not isinstance(found.model, BertForPreTraining) or found.config != config:
        raise UserError(f"{folder} does not hold the network of the first stage: give a "
                        f"pre-trained checkpoint of {config.num_hidden_layers} layers and the "
                        "same shape")
    return found.model


def run_stage(model: BertForPreTraining, data: PretrainData, held: TokenCorpus,
              settings: PretrainConfig, run: Path, processes: Processes, *, steps: int, read: str,
              schedule: Schedule, save: Callable[[], None], max_steps: int | None) -> None:
    """One stage, measured on held-out documents at every save."""
    width = 0 if data.vectors is None else data.vectors.width
    torch.manual_seed(settings.seed)  # of the vector heads: the same in every process
    student = Student(model, width).to(processes.device)

    def losses(batch: PretrainBatch) -> Sums:
        return batch_losses(student, batch.rows(processes.rank, processes.world_size),
                            processes.device)

    def measure() -> dict[str, float]:
        if not len(held.ids):
            return {}
        with settings.autocast(processes.device):
            found = measure_held_out(model, held, data.tokenizer, most_batches=MEASURED)
        figures = {f"held_out_{language}": values["masked_right"]
                   for language, values in found["languages"].items()}
        figures |= {"held_out_loss": found["mlm_loss"],
                    "held_out_nsp": found["next_sentence_right"]}
        return {name: value for name, value in figures.items() if value is not None}

    fit(student, losses, data.batches, settings, steps, run, processes, data=read,
        max_steps=max_steps, schedule=schedule, save=lambda reporter: save(), measure=measure)


def all_curves(run: Path, num_stages: int) -> list[dict[str, float]]:
    """The reports of all stages as one curve: steps go on, each with its number of layers."""
    curve: list[dict[str, float]] = []
    for number in range(1, num_stages + 1):
        first = curve[-1]["step"] if curve else 0
        curve += [{**report, "step": first + report["step"], "stage": number}
                  for report in Reporter(run / f"stage_{number}", 0).curve()]
    return curve
