"""Teach the model what a sentence means, from the sentence vectors of a larger one.

    python -m bert.distill --teacher FOLDER --start-from checkpoints/pretrained \\
        --english LINES.txt --parallel KOREAN_ENGLISH.tsv --run-dir runs/distill --out distilled

A teacher is a BertModel folder whose mean token vector is a sentence vector, such as
all-MiniLM-L6-v2, or a classifier, whose vector is the one its answer is read from; of several
teachers the vectors stand side by side. English lines learn the vector of the line itself, Korean
lines that of their English rendering (`korean<TAB>english`). No weight of a teacher is copied. With
--mask-rate the lines are read with some pieces masked and the masked language model learns in the
same pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from bert.augment import Rewritten
from bert.checkpoint import (
    TOKENIZER,
    Checkpoint,
    check_replaceable,
    load_checkpoint,
    save_checkpoint,
    untrained,
)
from bert.config import Parser, add_options, described_call, option, read_options
from bert.corpus import PlannedData, batches_by_length, read_first_column
from bert.machine import tune_machine
from bert.metrics import metrics_file
from bert.model import BertForPreTraining, mlm_loss
from bert.pairs import Masking
from bert.sources import read_parallel
from bert.teachers import mean_vector, vectors_side_by_side
from bert.tokenizer import WordPieceTokenizer
from bert.training import (
    LoopConfig,
    Processes,
    Reporter,
    Sums,
    check_max_steps,
    fingerprint,
    fit,
)


@dataclass(frozen=True)
class DistillConfig(LoopConfig):
    """How distillation runs."""

    epochs: float = option(2.0, "times through the lines; 1.5 ends in the middle of the second")
    longest: int = option(64, "pieces of a line that are read")
    mask_rate: float = option(0.0, "share of pieces to mask and predict; 0: none")
    vary: float = option(0.0, "share of lines written differently: spaces, typos, case, ㅋㅋ")
    resplit: float = option(0.0, "share of pieces cut in two known ones")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_at_least(1, "epochs")
        self.check_at_least(3, "longest")
        self.check("a share from 0 to below 1", lambda share: 0 <= share < 1, "mask_rate",
                   "vary", "resplit")


@dataclass(frozen=True)
class DistillBatch:
    ids: np.ndarray        # (B, T), after masking
    is_token: np.ndarray   # (B, T)
    is_masked: np.ndarray  # (B, T)
    originals: np.ndarray  # (M,) the pieces that stood at the masked places
    vectors: np.ndarray    # (B, teacher's width)

    @property
    def num_tokens(self) -> int:
        return int(self.is_token.sum())


class Student(nn.Module):
    """A model that answers with a sentence vector, once from [CLS] and once from the mean."""

    def __init__(self, model: BertForPreTraining, width: int) -> None:
        super().__init__()
        self.model = model
        self.from_pooled = nn.Linear(model.config.hidden_size, width)
        self.from_mean = nn.Linear(model.config.hidden_size, width)


class DistillData(PlannedData):
    """Lines with the teachers' vector of each, computed once and kept in the run folder."""

    def __init__(self, teachers: Sequence[Path], texts: list[str], meanings: list[str],
                 tokenizer: WordPieceTokenizer, settings: DistillConfig, processes: Processes,
                 cache: Path) -> None:
        self.settings, self.processes = settings, processes
        unique = sorted(set(meanings))
        place = {text: i for i, text in enumerate(unique)}
        self.meaning = np.array([place[text] for text in meanings])
        self.vectors = vectors_side_by_side(teachers, unique, settings.longest, cache)
        self.tokenizer = tokenizer
        self.lines = Rewritten(texts, tokenizer, settings.longest, settings.vary, settings.resplit)
        self.masking = Masking(tokenizer)
        self.num_batches = len(self.planned(0))

    def plan(self, epoch: int) -> list[tuple[np.ndarray, list[list[int]]]]:
        """This process's part of every batch of an epoch: which lines, and their pieces."""
        draw = np.random.default_rng([self.settings.seed, epoch])
        tokens = self.settings.batch_tokens * self.processes.world_size
        rows, lengths = self.lines.read(draw)
        parts = [chosen[self.processes.rank::self.processes.world_size]
                 for chosen in batches_by_length(lengths, tokens, draw)
                 if len(chosen) >= self.processes.world_size]
        return [(chosen, [rows[i] for i in chosen]) for chosen in parts]

    def batch(self, epoch: int, number: int) -> DistillBatch:
        chosen, rows = self.planned(epoch)[number]
        draw = np.random.default_rng([self.settings.seed, epoch, 2, number])
        ids, is_token = self.tokenizer.frame(rows)
        vectors = self.vectors[self.meaning[chosen]].astype(np.float32)
        if not self.settings.mask_rate:
            nowhere = np.zeros_like(is_token)
            return DistillBatch(ids, is_token, nowhere, ids[nowhere], vectors)
        masked, is_masked = self.masking(ids, is_token, draw, self.settings.mask_rate)
        return DistillBatch(masked, is_token, is_masked, ids[is_masked], vectors)


def batch_losses(student: Student, batch: DistillBatch, device: torch.device) -> Sums:
    """One minus the cosine to the teacher's vector, for both ways of reading the student, and the
    masked language model where there is one."""
    mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token).to(device)
    target = torch.from_numpy(batch.vectors).to(device)
    output = student.model(torch.from_numpy(batch.ids).to(device), None, mask,
                           predict_at=torch.from_numpy(batch.is_masked).to(device))
    pooled = student.from_pooled(output.bert.pooled)
    mean = student.from_mean(mean_vector(output.bert.hidden, mask))
    rows, places = len(batch.ids), len(batch.originals)
    # Lines that mean different things are told apart as well: in-batch contrast.
    similarity = F.normalize(pooled, dim=-1) @ target.T * 20.0
    truth = (target @ target.T * 20.0).softmax(dim=-1)
    sums = {
        "pooled_loss": ((1 - F.cosine_similarity(pooled, target)).sum(), rows),
        "mean_loss": ((1 - F.cosine_similarity(mean, target)).sum(), rows),
        "contrast_loss": (0.1 * F.cross_entropy(similarity, truth, reduction="sum"), rows),
    }
    if places:
        originals = torch.from_numpy(batch.originals).to(device)
        sums["mlm_loss"] = (0.2 * mlm_loss(output.mlm_logits, originals) * places, places)
        sums["mlm_accuracy"] = ((output.mlm_logits.argmax(-1) == originals).sum(), places)
    return sums


def with_pretraining_heads(start: Checkpoint, seed: int) -> BertForPreTraining:
    """The model to teach, with the heads it has or new ones."""
    if start.has_mlm:
        return start.model
    model = untrained(start.config, BertForPreTraining, seed)
    model.bert.load_state_dict(getattr(start.model, "bert", start.model).state_dict())
    return model


def build_parser() -> Parser:
    parser = Parser(prog="bert.distill", description=__doc__.split("\n")[0])
    parser.add_argument("--teacher", type=Path, nargs="+", required=True, metavar="FOLDER",
                        help="a BertModel or a classifier; of several, the vectors side by side")
    parser.add_argument("--start-from", type=Path, required=True, help="checkpoint to teach")
    parser.add_argument("--english", type=Path, nargs="*", default=[], metavar="FILE",
                        help="English text, one line each; of a .tsv the first column")
    parser.add_argument("--parallel", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english lines")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder for the saved state")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps; 2 is a dry run, "
                        "which reads few lines and wants a run folder of its own")
    add_options(parser, DistillConfig)
    return parser


def distill(arguments) -> None:
    settings = read_options(arguments, DistillConfig)
    check_max_steps(arguments.max_steps)
    texts, meanings = [], []
    for path in arguments.english:
        english = list(read_first_column(path))
        texts += english
        meanings += english
    for path in arguments.parallel:
        korean, english = read_parallel(path)
        texts += korean
        meanings += english
    if not texts:
        raise ValueError("nothing to learn from: give --english or --parallel")
    if arguments.max_steps:  # a dry run needs no more lines than it can read
        most = arguments.max_steps * settings.batch_tokens
        texts, meanings = texts[:most], meanings[:most]
    processes = Processes.join()
    check_replaceable(arguments.out, TOKENIZER)
    start = load_checkpoint(arguments.start_from)
    settings = replace(settings, longest=min(settings.longest,
                                             start.config.max_position_embeddings))
    data = processes.main_first(lambda: DistillData(
        arguments.teacher, texts, meanings, start.tokenizer, settings, processes,
        arguments.run_dir / "vectors"))
    torch.manual_seed(settings.seed)
    student = Student(with_pretraining_heads(start, settings.seed), data.vectors.shape[1])
    student.to(processes.device)
    print(f"{len(texts):,} lines, {data.num_batches:,} batches an epoch", flush=True)
    read = fingerprint(start.tokenizer.digest(), texts, meanings, data.vectors[:1])

    def save(reporter: Reporter) -> None:
        facts = {"command": described_call("bert.distill"), "seed": settings.seed, "data": read,
                 "lines": len(texts), "curves": {"distill": reporter.curve()}}
        save_checkpoint(arguments.out, student.model, start.tokenizer, half=True,
                        files=metrics_file(facts))

    fit(student, lambda batch: batch_losses(student, batch, processes.device), data.batches,
        settings, int(settings.epochs * data.num_batches), arguments.run_dir, processes,
        data=read, max_steps=arguments.max_steps, save=save)
    processes.leave()


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    with parser.one_sentence():
        distill(arguments)


if __name__ == "__main__":
    main()
