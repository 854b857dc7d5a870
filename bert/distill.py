"""Teach the model what a sentence means, from the sentence vectors of a larger one.

    python -m bert.distill --teacher FOLDER --start-from checkpoints/pretrained \\
        --english LINES.txt --parallel KOREAN_ENGLISH.tsv --run runs/distill --out distilled

The teacher is a BertModel folder whose mean token vector is a sentence vector, such as
all-MiniLM-L6-v2. English lines learn the teacher's vector of the line itself, Korean lines that of
their English rendering (`korean<TAB>english`). No weight of the teacher is copied.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bert.checkpoint import Checkpoint, load_checkpoint, replace_folder, save_checkpoint
from bert.config import Parser, add_options, option, read_options
from bert.corpus import read_text_lines
from bert.model import BertModel
from bert.tokenizer import WordPieceTokenizer
from bert.training import (
    LoopConfig,
    Processes,
    Reporter,
    Sums,
    batches_by_length,
    fit,
    tune_machine,
)


@dataclass(frozen=True)
class DistillConfig(LoopConfig):
    """How distillation runs."""

    epochs: int = option(2, "times through the lines")
    longest: int = option(64, "pieces of a line that are read")


@dataclass(frozen=True)
class DistillBatch:
    ids: np.ndarray       # (B, T)
    is_token: np.ndarray  # (B, T)
    vectors: np.ndarray   # (B, teacher's width)

    @property
    def num_tokens(self) -> int:
        return int(self.is_token.sum())


class Student(nn.Module):
    """A BertModel that answers with a sentence vector, once from [CLS] and once from the mean."""

    def __init__(self, bert: BertModel, width: int) -> None:
        super().__init__()
        self.bert = bert
        self.from_pooled = nn.Linear(bert.config.hidden_size, width)
        self.from_mean = nn.Linear(bert.config.hidden_size, width)

    def forward(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        output = self.bert(ids, None, mask)
        return self.from_pooled(output.pooled), self.from_mean(mean_vector(output.hidden, mask))


def mean_vector(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real tokens: (B, T, E) -> (B, E)."""
    if mask is None:
        return hidden.mean(dim=1)
    share = mask.to(hidden)[..., None]
    return (hidden * share).sum(dim=1) / share.sum(dim=1)


@torch.inference_mode()
def teacher_vectors(teacher: Checkpoint, texts: Sequence[str], longest: int = 64) -> np.ndarray:
    """Unit sentence vectors, (N, width) as float16."""
    bert = getattr(teacher.model, "bert", teacher.model)
    result = np.zeros((len(texts), teacher.config.hidden_size), dtype=np.float16)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for begin in range(0, len(order), 128):
        chosen = order[begin:begin + 128]
        batch = teacher.tokenizer.pad(teacher.tokenizer.encode_many(
            [texts[i] for i in chosen], max_length=longest))
        mask = torch.from_numpy(batch.is_token)
        hidden = bert(torch.from_numpy(batch.ids), None, mask, lean=True).hidden
        result[chosen] = F.normalize(mean_vector(hidden, mask), dim=-1).numpy()
        if begin // 128 % 100 == 0:
            print(f"teacher: {begin:,} of {len(texts):,} lines", flush=True)
    return result


class DistillData:
    """Lines with the teacher's vector of each, computed once and kept in the run folder."""

    def __init__(self, teacher_folder: Path, texts: list[str], meanings: list[str],
                 tokenizer: WordPieceTokenizer, settings: DistillConfig, cache: Path) -> None:
        self.settings = settings
        unique = sorted(set(meanings))
        place = {text: i for i, text in enumerate(unique)}
        self.meaning = np.array([place[text] for text in meanings])
        key = hashlib.sha256("\n".join([str(teacher_folder), *unique]).encode()).hexdigest()
        marker = cache / f"{key[:16]}.npy"
        if not marker.is_file():
            vectors = teacher_vectors(load_checkpoint(teacher_folder), unique)
            replace_folder(cache, lambda fresh: np.save(fresh / marker.name, vectors))
        self.vectors = np.load(marker, mmap_mode="r")
        self.ids = [ids[:settings.longest - 2] for ids in tokenizer.encode_ids(texts)]
        self.lengths = np.array([len(ids) + 2 for ids in self.ids])
        self.tokenizer = tokenizer
        self.num_batches = len(self._plan(0))

    def _plan(self, epoch: int) -> list[np.ndarray]:
        draw = np.random.default_rng([self.settings.seed, epoch])
        return batches_by_length(self.lengths, self.settings.batch_tokens, draw)

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, int, DistillBatch]]:
        while True:
            plan = self._plan(epoch)
            for number in range(first, len(plan)):
                yield epoch, number, self._batch(plan[number])
            epoch, first = epoch + 1, 0

    def _batch(self, chosen: np.ndarray) -> DistillBatch:
        ids = np.full((len(chosen), self.lengths[chosen].max()), self.tokenizer.pad_id)
        for row, i in enumerate(chosen):
            ids[row, 0], ids[row, self.lengths[i] - 1] = self.tokenizer.cls_id, self.tokenizer.sep_id
            ids[row, 1:self.lengths[i] - 1] = self.ids[i]
        is_token = np.arange(ids.shape[1]) < self.lengths[chosen][:, None]
        return DistillBatch(ids, is_token, self.vectors[self.meaning[chosen]].astype(np.float32))


def batch_losses(student: Student, batch: DistillBatch, device: torch.device) -> Sums:
    """One minus the cosine to the teacher's vector, for both ways of reading the student."""
    mask = None if batch.is_token.all() else torch.from_numpy(batch.is_token).to(device)
    target = torch.from_numpy(batch.vectors).to(device)
    pooled, mean = student(torch.from_numpy(batch.ids).to(device), mask)
    rows = len(batch.ids)
    # Lines that mean different things are told apart as well: in-batch contrast.
    similarity = F.normalize(pooled, dim=-1) @ target.T * 20.0
    truth = (target @ target.T * 20.0).softmax(dim=-1)
    return {
        "pooled_loss": ((1 - F.cosine_similarity(pooled, target)).sum(), rows),
        "mean_loss": ((1 - F.cosine_similarity(mean, target)).sum(), rows),
        "contrast_loss": (0.1 * F.cross_entropy(similarity, truth, reduction="sum"), rows),
    }


def read_parallel(path: Path) -> tuple[list[str], list[str]]:
    """Korean lines and their English renderings."""
    korean, english = [], []
    for number, line in enumerate(read_text_lines(path), 1):
        parts = line.split("\t")
        if len(parts) != 2 or not all(part.strip() for part in parts):
            raise ValueError(f"{path}, line {number}: expected korean<TAB>english")
        if parts != ["ko", "en"]:
            korean.append(parts[0])
            english.append(parts[1])
    return korean, english


def build_parser() -> Parser:
    parser = Parser(prog="bert.distill", description=__doc__.split("\n")[0])
    parser.add_argument("--teacher", type=Path, required=True, help="folder of a BertModel")
    parser.add_argument("--start-from", type=Path, required=True, help="checkpoint to teach")
    parser.add_argument("--english", type=Path, nargs="*", default=[], metavar="FILE",
                        help="English text, one line each; of a .tsv the first column")
    parser.add_argument("--parallel", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english lines")
    parser.add_argument("--run", type=Path, required=True, help="folder for the saved state")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    parser.add_argument("--max-steps", type=int, help="stop after this many steps; 2 is a dry run")
    add_options(parser, DistillConfig)
    return parser


def distill(arguments) -> None:
    settings = read_options(arguments, DistillConfig)
    texts, meanings = [], []
    for path in arguments.english:
        for line in read_text_lines(path):
            if text := line.split("\t")[0].strip():
                texts.append(text)
                meanings.append(text)
    for path in arguments.parallel:
        korean, english = read_parallel(path)
        texts += korean
        meanings += english
    if not texts:
        raise ValueError("nothing to learn from: give --english or --parallel")
    if arguments.max_steps:  # a dry run needs no more lines than it reads
        texts, meanings = texts[:2_000], meanings[:2_000]
    processes = Processes.join()
    start = load_checkpoint(arguments.start_from)
    data = DistillData(arguments.teacher, texts, meanings, start.tokenizer, settings,
                       arguments.run / "vectors")
    torch.manual_seed(settings.seed)
    student = Student(getattr(start.model, "bert", start.model), data.vectors.shape[1])
    student.to(processes.device)
    print(f"{len(texts):,} lines, {data.num_batches:,} batches an epoch", flush=True)

    def save(reporter: Reporter) -> None:
        facts = {"seed": settings.seed, "lines": len(texts), "reports": reporter.read()[-5:]}
        save_checkpoint(arguments.out, student.bert, start.tokenizer, half=True,
                        files={"metrics.json": json.dumps(facts, indent=2) + "\n"})

    fit(student, lambda batch: batch_losses(student, batch, processes.device), data.batches,
        settings, settings.epochs * data.num_batches, arguments.run, processes,
        max_steps=arguments.max_steps, save=save)
    processes.leave()


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    try:
        distill(arguments)
    except (ValueError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
