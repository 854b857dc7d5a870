"""One loop for every training: optimizer, schedule, processes, progress, surviving a kill.

A run folder holds everything that is needed to go on: `state.safetensors` (weights, optimizer,
random state, position), `metrics.jsonl` (one line per report) and `curves.png`.
"""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import torch.distributed as dist
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from bert.arguments import option
from bert.errors import UserError

MAY_CHANGE = ("epochs", "report_every", "save_minutes")  # between two calls of one run
PRECISIONS = ("auto", "float32", "bfloat16")
STATE, METRICS, CURVES = "state.safetensors", "metrics.jsonl", "curves.png"


# ---------------------------------------------------------------------------------- the machine


@dataclass(frozen=True)
class Processes:
    """This process among those that train together (one, unless started by torchrun)."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")

    @classmethod
    def join(cls) -> Self:
        """Join the others if torchrun started us; take the GPU if there is one."""
        has_gpu = torch.cuda.is_available()
        if "WORLD_SIZE" in os.environ:
            dist.init_process_group("cpu:gloo,cuda:nccl" if has_gpu else "gloo")
            local = int(os.environ.get("LOCAL_RANK", "0"))
            if has_gpu:
                torch.cuda.set_device(local)
            device = torch.device("cuda", local) if has_gpu else torch.device("cpu")
            return cls(dist.get_rank(), dist.get_world_size(), device)
        return cls(device=torch.device("cuda" if has_gpu else "cpu"))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def total(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        if self.world_size > 1:
            dist.all_reduce(value)
        return value

    def main_first(self, make: Callable[[], Any]) -> Any:
        """Let the main process make something that the others then find made."""
        made = make() if self.is_main else None
        if self.world_size > 1:
            dist.barrier()
        return made if self.is_main else make()

    def share_gradients(self, model: nn.Module) -> None:
        """Add up the gradients of all processes, in one message. A task without an example in the
        whole batch leaves its head without a gradient, in every process alike."""
        if self.world_size == 1:
            return
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        sizes = [gradient.numel() for gradient in gradients]
        for gradient, part in zip(gradients, flat.split(sizes), strict=True):
            gradient.copy_(part.view_as(gradient))

    def leave(self) -> None:
        if self.world_size > 1:
            dist.destroy_process_group()


# ---------------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class LoopConfig:
    """Settings that every kind of training shares."""

    batch_tokens: int = option(2_048, "tokens per batch and process")
    learning_rate: float = option(1e-3, "peak learning rate")
    warmup: int = option(200, "steps in which the learning rate climbs")
    weight_decay: float = option(0.01, "pull of the weights towards zero")
    layer_decay: float = option(1.0, "how much slower each layer learns than the one above it")
    clip: float = option(1.0, "longest gradient")
    seed: int = option(0, "of weights, order and masks")
    precision: str = option("auto", "of matrix products: float32, bfloat16, or auto, which takes "
                            "bfloat16 where the processor multiplies it")
    report_every: int = option(50, "steps between two reports")
    save_minutes: float = option(5.0, "minutes between two saves")

    def __post_init__(self) -> None:
        self.check_at_least(1, "batch_tokens", "report_every")
        self.check("more than 0", lambda value: value > 0, "learning_rate", "clip", "layer_decay")
        if self.precision not in PRECISIONS:
            raise UserError(f"--precision is {self.precision!r}: expected one of "
                            f"{', '.join(PRECISIONS)}")

    def check(self, expected: str, is_right: Callable[[float], bool], *names: str) -> None:
        """Refuse settings that make no sense, each with one sentence."""
        for name in names:
            if not is_right(value := getattr(self, name)):
                raise UserError(f"--{name.replace('_', '-')} is {value}: expected {expected}")

    def check_at_least(self, least: int, *names: str) -> None:
        self.check(f"at least {least}", lambda value: value >= least, *names)

    def autocast(self, device: torch.device) -> torch.autocast:
        """The context in which a batch is computed."""
        is_half = self.precision == "bfloat16" or (self.precision == "auto" and has_bfloat16())
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_half)


@cache
def has_bfloat16() -> bool:
    """Whether this processor has units for bfloat16; without them it is emulated, and slow."""
    facts = Path("/proc/cpuinfo")
    flags = facts.read_text(encoding="utf-8") if facts.is_file() else ""
    return torch.cuda.is_available() or "avx512_bf16" in flags or "amx_bf16" in flags


# ---------------------------------------------------------------------------------- optimizer


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float,
                   layer_decay: float = 1.0) -> torch.optim.AdamW:
    """AdamW; biases and LayerNorm do not decay (BERT §A.2).

    With `layer_decay` below 1 each layer learns that much slower than the one above it.
    """
    layers = [_layer_of(name) for name, _ in model.named_parameters()]
    top = max((layer for layer in layers if layer is not None), default=0) + 1
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        layer = _layer_of(name)
        rate = learning_rate * layer_decay ** (0 if layer is None else top - layer)
        decay = weight_decay if parameter.dim() > 1 else 0.0
        groups.setdefault((rate, decay), []).append(parameter)
    return torch.optim.AdamW(
        [{"params": parameters, "lr": rate, "peak_lr": rate, "weight_decay": decay}
         for (rate, decay), parameters in groups.items()], betas=(0.9, 0.98), eps=1e-6, fused=True)


def _layer_of(name: str) -> int | None:
    """0 for the embeddings, 1 … L for the layers, None for what comes after."""
    if ".layer." in name:
        return int(name.split(".layer.")[1].split(".")[0]) + 1
    return 0 if "embeddings" in name else None


Schedule = Callable[[int], float]  # step -> share of the peak learning rate


def linear_schedule(steps: int, warmup: int) -> Schedule:
    """Climb for `warmup` steps, then fall to zero at the last one."""
    return lambda step: min((step + 1) / max(warmup, 1),
                            max(steps - step, 0) / max(steps - warmup, 1))


def set_learning_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * share


# ---------------------------------------------------------------------------------- saving


def save_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer,
               progress: Mapping[str, Any]) -> None:
    """Write everything a run needs to go on, in one move."""
    tensors = {f"model.{name}": value.detach().cpu() for name, value in model.state_dict().items()}
    names: dict[Tensor, str] = {weights: name for name, weights in model.named_parameters()}
    for parameter, moments in optimizer.state.items():
        for kind, value in moments.items():
            tensors[f"optimizer.{kind}.{names[parameter]}"] = value.detach().cpu().float()
    tensors["random"] = torch.get_rng_state()
    fresh = folder / (STATE + ".new")
    try:
        save_file({name: value.contiguous() for name, value in tensors.items()}, fresh,
                  metadata={"progress": json.dumps(progress)})
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        fresh.replace(folder / STATE)
    except (OSError, SafetensorError) as error:
        fresh.unlink(missing_ok=True)
        raise UserError(f"{folder / STATE} could not be written ({error}); the last save is "
                      "untouched: make room and run the same command again") from None


def load_state(folder: Path, model: nn.Module,
               optimizer: torch.optim.Optimizer) -> dict[str, Any] | None:
    """Put a saved run back in place and return its progress; None if there is none."""
    path = folder / STATE
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            progress = json.loads(file.metadata()["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} is damaged ({error}): remove it to begin anew") from None
    try:
        model.load_state_dict({name.removeprefix("model."): value
                               for name, value in tensors.items() if name.startswith("model.")})
    except RuntimeError:
        raise UserError(f"{path} is of a model of another shape: give another --run-dir") from None
    for name, parameter in model.named_parameters():
        moments = {kind: tensors[f"optimizer.{kind}.{name}"] for kind in
                   ("step", "exp_avg", "exp_avg_sq") if f"optimizer.{kind}.{name}" in tensors}
        if moments:
            optimizer.state[parameter] = {kind: value.to(parameter.device)
                                          for kind, value in moments.items()}
    torch.set_rng_state(tensors["random"])
    return progress


# ---------------------------------------------------------------------------------- progress


@dataclass
class Reporter:
    """Tells a person how a run goes, and a file as well.

    On a terminal it is one line that renews itself; elsewhere a plain line for every report.
    """

    folder: Path
    steps: int
    is_main: bool = True
    began: float = field(default_factory=time.monotonic)

    def resume_at(self, step: int) -> None:
        """Forget lines that were written after the save we go on from."""
        self.first_step = step
        path = self.folder / METRICS
        if self.is_main and path.is_file():
            kept = [report for report in self.read() if report.get("step", 0) <= step]
            fresh = path.with_suffix(".new")
            fresh.write_text("".join(json.dumps(report) + "\n" for report in kept),
                             encoding="utf-8")
            fresh.replace(path)

    def report(self, step: int, values: Mapping[str, float]) -> None:
        if not self.is_main:
            return
        with (self.folder / METRICS).open("a", encoding="utf-8") as file:
            rounded = {key: float(f"{value:.6g}") for key, value in values.items()}
            file.write(json.dumps({"step": step, **rounded}) + "\n")
        shown = "  ".join(f"{key} {value:.4g}" for key, value in values.items())
        pace = (time.monotonic() - self.began) / max(step - self.first_step, 1)
        left = pace * (self.steps - step)
        line = f"{self._bar(step)} {step}/{self.steps}  {shown}  {_clock(left)} left"
        print(f"\r\x1b[K{line}" if sys.stdout.isatty() else line,
              end="" if sys.stdout.isatty() else "\n", flush=True)

    def _bar(self, step: int, width: int = 20) -> str:
        done = round(width * step / max(self.steps, 1))
        return "[" + "=" * done + " " * (width - done) + "]"

    def read(self) -> list[dict[str, float]]:
        """All reports of the run so far; a line that was cut off while it was written is none."""
        path = self.folder / METRICS
        reports = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
            try:
                reports.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return reports

    def curve(self, most: int = 150) -> list[dict[str, float]]:
        """The reports of the whole run, evenly thinned out."""
        reports = self.read()
        every = max(1, -(-len(reports) // most))
        return [*reports[:-1:every], *reports[-1:]]


def draw_curves(reporter: Reporter) -> None:
    """Losses and accuracies over the steps, as a PNG in the run folder."""
    from bert.drawing.figures import (  # matplotlib, only when it is drawn
        draw_training_curves,
        save_figure,
    )
    if reports := reporter.read():
        save_figure(draw_training_curves(reports), reporter.folder / CURVES)


def _clock(seconds: float) -> str:
    minutes = math.ceil(max(seconds, 0) / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


class Averages:
    """Running sums between two reports; each mean is a sum over a count."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.counts: dict[str, float] = {}

    def add(self, sums: Mapping[str, tuple[float, float]]) -> None:
        for name, (total, count) in sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + total
            self.counts[name] = self.counts.get(name, 0.0) + count

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        means = {name: total / self.counts[name] for name, total in self.sums.items()
                 if self.counts[name]}
        self.sums, self.counts = {}, {}
        return means


# ---------------------------------------------------------------------------------- the loop

Sums = dict[str, tuple[Tensor, float]]  # name: (sum, what it is a sum over)
Batches = Callable[[int, int], Iterator[tuple[int, int, Any]]]  # from (epoch, batch) on, for ever


def fingerprint(*parts: Any) -> str:
    """A short name for values: the same ones have the same name."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
    return digest.hexdigest()[:16]


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, sums: Sums,
               processes: Processes, clip: float) -> dict[str, tuple[float, float]]:
    """Backward, clipping, optimizer. The loss is the sum of all means whose name ends in "loss";
    counts are added up over the processes first, so that many processes equal one large batch."""
    counts = processes.total(torch.tensor([float(count) for _, count in sums.values()]))
    count_of = dict(zip(sums, counts.tolist(), strict=True))
    loss = sum(total / count_of[name] for name, (total, _) in sums.items()
               if name.endswith("loss") and count_of[name])
    if isinstance(loss, Tensor):  # else no line of the batch had anything to learn
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        processes.share_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    totals = processes.total(torch.tensor([float(total.detach()) for total, _ in sums.values()]))
    return {name: (total, count_of[name])
            for name, total in zip(sums, totals.tolist(), strict=True)}


def fit(model: nn.Module, losses: Callable[[Any], Sums], batches: Batches, settings: LoopConfig,
        steps: int, run: Path, processes: Processes, *, data: str, schedule: Schedule | None = None,
        max_steps: int | None = None, after_step: Callable[[], None] = lambda: None,
        save: Callable[[Reporter], None] = lambda reporter: None,
        measure: Callable[[], Mapping[str, float]] = dict) -> dict[str, Any]:
    """Train for `steps` steps, from wherever the run was left; returns the progress at the end.

    `data` tells one set of examples from another: a run goes on only with what it began with. A
    batch tells its size as `num_tokens`. `measure` is asked for figures at every save, which go
    into the next report; `save` writes what others may use.
    """
    run.mkdir(parents=True, exist_ok=True)
    schedule = schedule or linear_schedule(steps, settings.warmup)
    optimizer = make_optimizer(model, settings.learning_rate, settings.weight_decay,
                               settings.layer_decay)
    torch.manual_seed(settings.seed + 1 + processes.rank)
    weights = (value.detach().cpu().numpy() for value in model.state_dict().values())
    made_with = {"data": data, "start": fingerprint(*weights),
                 **{name: value for name, value in asdict(settings).items()
                    if name not in MAY_CHANGE}}
    progress = load_state(run, model, optimizer) or {
        "step": 0, "epoch": 0, "batch": 0, "tokens": 0, "seconds": 0.0, "made_with": made_with}
    check_same_run(run, progress, made_with)
    last_step = min(steps, max_steps or steps)
    reporter = Reporter(run, last_step, processes.is_main)
    reporter.resume_at(progress["step"])
    if progress["step"] >= last_step:
        if processes.is_main:
            save(reporter)  # the run may have ended before it could
        return progress
    averages, tokens = Averages(), 0
    since = saved = time.monotonic()
    model.train()
    for epoch, number, batch in batches(progress["epoch"], progress["batch"]):
        set_learning_rate(optimizer, schedule(progress["step"]))
        with settings.autocast(processes.device):
            sums = losses(batch)
        averages.add(train_step(model, optimizer, sums, processes, settings.clip))
        after_step()
        progress |= {"step": progress["step"] + 1, "epoch": epoch, "batch": number + 1,
                     "tokens": progress["tokens"] + batch.num_tokens}
        tokens += batch.num_tokens
        is_last = progress["step"] == last_step
        is_due = is_last or time.monotonic() - saved > settings.save_minutes * 60
        if is_due or progress["step"] % settings.report_every == 0:
            passed = time.monotonic() - since
            progress["seconds"] += passed
            figures = {"epoch": epoch, **averages.take(), "tokens_per_second": tokens / passed}
            if is_due and processes.is_main:
                figures |= measure()
                model.train()
            reporter.report(progress["step"], figures)
            tokens, since = 0, time.monotonic()
        if is_due and processes.is_main:
            save_state(run, model, optimizer, progress)
            draw_curves(reporter)
            save(reporter)
            saved = time.monotonic()
        if is_last:
            break
    return progress


def check_same_run(run: Path, progress: Mapping[str, Any], made_with: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that was begun with other lines, another start or settings."""
    for name, value in made_with.items():
        before = progress["made_with"].get(name, value)
        if before != value:
            what = {"data": "other lines", "start": "another start"}.get(
                name, f"--{name.replace('_', '-')} {before}, not {value}")
            raise UserError(f"{run} holds a run with {what}: give another --run-dir")
