"""Beside the engines that people take for speed on a CPU: ONNX Runtime and OpenVINO.

The readable network is exported as it is; every engine gives the same outputs, checked to 1e-5,
with as many threads as we have. Engines take turns in processes of their own, with pauses, because
their threads spin on for a while and would spin into the time of the next one.
"""

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bert.checkpoint import load_checkpoint
from bert.classifier import EmotionClassifier
from bert.commands.measuring import (
    Bench,
    Comparison,
    Functions,
    in_turns,
    milliseconds,
    mixed_texts,
    needs,
    runners,
    shuffled_words,
    square_product,
    text_of,
)
from bert.config import BertConfig
from bert.cpu import configure_cpu
from bert.errors import UserError

ALL, ONE, MANY, PEAK = "all", "one", "many", "peak"
BARS = {16: 1.1, 64: 1.0, 128: 1.0}  # tokens of one text, and the ratio wanted
BATCHES = (8, 32, 64)                # ONNX Runtime is timed at the best of these
MANY_TEXTS = 2_000
TOLERANCE = 1e-5
PAUSE = 0.1                          # seconds; longer than idle threads spin
MATRIX = 1_024                       # side of the product that measures the peak


# ---------------------------------------------------------------------------------- export


class Everything(nn.Module):
    """Probabilities, attentions and hidden states of a batch without padding."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        output = self.model(ids)
        return (output.logits.softmax(-1), torch.stack(output.bert.attentions),
                torch.stack(output.bert.hidden_states))


class Probabilities(Everything):
    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        return super().forward(ids)[:1]


class MaskedProbabilities(Everything):
    """Probabilities of a batch with padding."""

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return (self.model(ids, None, mask).logits.softmax(-1),)


def export(checkpoint: Path, folder: Path) -> None:
    """Write all.onnx, one.onnx and many.onnx; any number of texts and tokens."""
    warnings.simplefilter("ignore")
    model = load_checkpoint(checkpoint).model.eval()
    ids = torch.full((2, 8), model.config.pad_token_id)
    axes = {0: torch.export.Dim("texts"),
            1: torch.export.Dim("tokens", max=model.config.max_position_embeddings)}
    for name, kind, values in ((ALL, Everything, (ids,)), (ONE, Probabilities, (ids,)),
                               (MANY, MaskedProbabilities, (ids, ids == ids))):
        inputs = ["ids", "mask"][:len(values)]
        torch.onnx.export(kind(model), values, folder / f"{name}.onnx", input_names=inputs,
                          dynamic_shapes={input: axes for input in inputs}, verbose=False,
                          external_data=False)


# ---------------------------------------------------------------------------------- engines

Answers = dict[int, list[np.ndarray]]  # what the readable network gives, by number of tokens


def agrees(run: Callable[[], Sequence[Any]], wanted: Sequence[np.ndarray]) -> Callable[[], object]:
    """The function, once its outputs were compared."""
    for found, expected in zip(run(), wanted, strict=True):
        if not np.allclose(found, expected, TOLERANCE, TOLERANCE):
            difference = np.abs(np.asarray(found) - expected).max()
            raise UserError(f"the outputs differ by {difference:.1e}: expected {TOLERANCE:.0e}")
    return run


def ours(checkpoint: Path, ids: dict[int, list[int]], wanted: Answers, texts: list[str],
         folder: Path, threads: int) -> Functions:
    configure_cpu()
    torch.set_num_threads(threads)
    classifier = EmotionClassifier.load(checkpoint)
    fast = classifier.fast
    if fast is None:
        raise UserError(f"{checkpoint} is a network without a fast form")

    def everything(tokens: int) -> Callable[[], object]:
        def run() -> list[np.ndarray]:
            output = fast(ids[tokens])
            assert output.logits is not None
            return [output.logits[None].softmax(-1).numpy(), output.attentions[:, None].numpy(),
                    output.hidden_states[:, None].numpy()]
        return agrees(run, wanted[tokens])

    def probabilities(tokens: int) -> Callable[[], object]:
        return agrees(lambda: [fast.logits([ids[tokens]]).softmax(-1).numpy()], wanted[tokens][:1])

    return {**{(ALL, tokens): everything(tokens) for tokens in ids},
            **{(ONE, tokens): probabilities(tokens) for tokens in ids},
            MANY: lambda: classifier.predict_many(texts)}


def onnx_runtime(checkpoint: Path, ids: dict[int, list[int]], wanted: Answers, texts: list[str],
                 folder: Path, threads: int) -> Functions:
    """Every graph optimisation; padded batches of the best size, sorted by length."""
    import onnxruntime
    from tokenizers import Tokenizer
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    sessions = {name: onnxruntime.InferenceSession(folder / f"{name}.onnx", options,
                                                   providers=["CPUExecutionProvider"])
                for name in (ALL, ONE, MANY)}
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    tokenizer.enable_truncation(load_checkpoint(checkpoint).config.max_position_embeddings)

    def one(name: str, tokens: int) -> Callable[[], object]:
        feed = {"ids": np.array([ids[tokens]])}
        return agrees(lambda: sessions[name].run(None, feed),
                      wanted[tokens] if name == ALL else wanted[tokens][:1])

    def many(size: int) -> np.ndarray:
        rows = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        answers: list[Any] = [None] * len(rows)
        for start in range(0, len(order), size):
            chosen = order[start:start + size]
            batch = np.zeros((len(chosen), len(rows[chosen[-1]])), dtype=np.int64)
            for row, i in zip(batch, chosen, strict=True):
                row[:len(rows[i])] = rows[i]
            lengths = np.array([[len(rows[i])] for i in chosen])
            mask = np.arange(batch.shape[1]) < lengths
            found = sessions[MANY].run(None, {"ids": batch, "mask": mask})[0]
            for i, row in zip(chosen, found, strict=True):
                answers[i] = row
        return np.stack(answers)

    def seconds(size: int) -> float:
        began = time.perf_counter()
        many(size)
        return time.perf_counter() - began

    best = min(BATCHES, key=seconds) if texts else BATCHES[0]
    return {**{(name, tokens): one(name, tokens) for name in (ALL, ONE) for tokens in ids},
            MANY: lambda: many(best) if texts else None}


def open_vino(checkpoint: Path, ids: dict[int, list[int]], wanted: Answers, texts: list[str],
              folder: Path, threads: int) -> Functions:
    """Tuned for latency, in float32 as the others are."""
    import openvino
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads,
                "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    requests = {name: core.compile_model(folder / f"{name}.onnx", "CPU",
                                         settings).create_infer_request() for name in (ALL, ONE)}

    def one(name: str, tokens: int) -> Callable[[], object]:
        feed = [np.array([ids[tokens]])]
        return agrees(lambda: list(requests[name].infer(feed, share_inputs=True).values()),
                      wanted[tokens] if name == ALL else wanted[tokens][:1])

    return {(name, tokens): one(name, tokens) for name in (ALL, ONE) for tokens in ids}


PEERS = {"ONNX Runtime": onnx_runtime, "OpenVINO": open_vino}


# ---------------------------------------------------------------------------------- the rows


def products(config: BertConfig, lengths: Sequence[int]) -> float:
    """Floating-point operations of the matrix products that texts of these lengths need."""
    width, inner = config.hidden_size, config.intermediate_size
    per_token = 8 * width * width + 4 * width * inner
    return config.num_hidden_layers * sum(n * per_token + 4 * n * n * width for n in lengths)


@torch.inference_mode()
def readable_answers(classifier: EmotionClassifier, ids: dict[int, list[int]]) -> Answers:
    model = classifier.needs_classifier()
    return {tokens: [value.numpy() for value in Everything(model)(torch.tensor([row]))]
            for tokens, row in ids.items()}


def bench_engines(bench: Bench) -> Iterator[Comparison]:
    """One text by one and by all threads, then many texts by all."""
    needs("onnxruntime", "openvino", "onnx", "onnxscript")
    classifier = bench.classifier()
    lengths = [n for n in BARS if n <= classifier.config.max_position_embeddings]
    ids = {tokens: classifier.encode(text_of(classifier, tokens, shuffled_words(seed=0))).ids
           for tokens in lengths}
    wanted = readable_answers(classifier, ids)
    texts = mixed_texts(16 if bench.quick else MANY_TEXTS)
    processors = os.cpu_count() or 1
    checkpoint = bench.checkpoint.resolve()
    pause, calls = (0.0, 1) if bench.quick else (PAUSE, 10)
    with tempfile.TemporaryDirectory() as spare:
        folder = Path(spare)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(export, checkpoint, folder).result()  # exporting warns and prints
        for threads in sorted({1, processors}):
            has_many = threads == processors
            values = checkpoint, ids, wanted, texts if has_many else [], folder, threads
            made = [(make, *values) for make in (ours, *PEERS.values())]
            with runners(*made, (square_product, PEAK, MATRIX)) as runs:
                for kind, what in ((ALL, "all attentions and states"), (ONE, "probabilities")):
                    for tokens in lengths:
                        taken = map(milliseconds, in_turns(runs[:3], (kind, tokens),
                                                           bench.rounds(25), calls, pause))
                        mine, *theirs = taken
                        for peer, values_of_peer in zip(PEERS, theirs, strict=True):
                            yield Comparison(
                                "model", f"one text, {what}, {tokens} tokens",
                                f"{peer}, threads: {threads}", "ms", mine, values_of_peer,
                                f"≤ {BARS[tokens]:.2f}" if kind == ALL else "")
                if has_many:
                    what = f"probabilities of {len(texts)} texts, tokenising included"
                    mine, theirs_many = in_turns(runs[:2], MANY, bench.rounds(5), 1, pause)
                    yield Comparison("model", what, "ONNX Runtime, padded, sorted", "s", mine,
                                     theirs_many, "≤ 0.80")
                    peak = in_turns(runs[3:], PEAK, bench.rounds(5), 2, pause)[0]
                    work = products(classifier.config,
                                    [len(classifier.encode(text).ids) for text in texts])
                    yield Comparison("model", what, f"a product of {MATRIX} × {MATRIX}", "GFLOP/s",
                                     [work / seconds / 1e9 for seconds in mine],
                                     [2 * MATRIX ** 3 / seconds / 1e9 for seconds in peak])
