"""The half of bert bench that needs no server: one text, many texts, and a training step.

The peer is `transformers` with the same weights, or the same shape, in a process of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from bert.checkpoint import untrained
from bert.classifier import EmotionClassifier
from bert.commands.bench_engines import MATRIX, bench_engines
from bert.commands.bench_explain import bench_explain
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
from bert.model import BertForPreTraining
from bert.training.loop import Processes, make_optimizer, train_step
from bert.training.masking import PretrainBatch
from bert.training.pretraining import PretrainConfig, Student, batch_losses

TEXT_LENGTHS = {16: 0.70, 64: 0.80, 128: 0.85}  # tokens of one text, and the ratio wanted
PIPELINE_BATCHES = (1, 8, 32)                    # the pipeline is timed at the best of these
MANY, MANY_TEXTS = "many", 256
STEP = "step"
FIRST_PIECE, MASK_ID = 5, 4                      # the special tokens come first
SEQUENCE = 48  # pieces of a pre-training example


# ---------------------------------------------------------------------------------- model


def our_answers(folder: Path, ids: dict[int, list[int]], texts: list[str]) -> Functions:
    configure_cpu()
    classifier = EmotionClassifier.load(folder)

    def one_text(tokens: int) -> Callable[[], object]:
        batch = torch.tensor([ids[tokens]])
        return torch.inference_mode()(lambda: classifier.model(batch))

    return {**{tokens: one_text(tokens) for tokens in ids},
            MANY: lambda: classifier.predict_many(texts)}


def their_answers(folder: Path, ids: dict[int, list[int]], texts: list[str],
                  batch_sizes: Sequence[int]) -> Functions:
    """Eager attention with all outputs, and the pipeline at its best batch size for these texts."""
    import transformers
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager").eval()
    longest = model.config.max_position_embeddings
    pipeline = transformers.pipeline("text-classification", str(folder), device="cpu", top_k=None,
                                     truncation=True, max_length=longest)

    def one_text(tokens: int) -> Callable[[], object]:
        batch = torch.tensor([ids[tokens]])
        return torch.inference_mode()(
            lambda: model(batch, output_attentions=True, output_hidden_states=True))

    def seconds(batch_size: int) -> float:
        began = time.perf_counter()
        pipeline(texts, batch_size=batch_size)
        return time.perf_counter() - began

    best = min(batch_sizes, key=seconds)
    return {**{tokens: one_text(tokens) for tokens in ids},
            MANY: lambda: pipeline(texts, batch_size=best)}


def pure_products(config: BertConfig, lengths: Sequence[int]) -> Functions:
    """Only the matrix products of one text: what no program can leave out."""
    configure_cpu()
    width, inner = config.hidden_size, config.intermediate_size
    weights = [torch.randn(outputs, inputs) for inputs, outputs in
               ((width, 3 * width), (width, width), (width, inner), (inner, width))]

    def products(tokens: int) -> Callable[[], object]:
        inputs = [torch.randn(tokens, weight.size(1)) for weight in weights]
        query = torch.randn(config.num_attention_heads, tokens, config.head_size)
        key = query.transpose(1, 2).contiguous()
        attention = torch.randn(config.num_attention_heads, tokens, tokens)

        def run() -> None:
            for _ in range(config.num_hidden_layers):
                torch.bmm(query, key)
                torch.bmm(attention, query)
                for value, weight in zip(inputs, weights, strict=True):
                    torch.mm(value, weight.t())

        return torch.inference_mode()(run)

    return {tokens: products(tokens) for tokens in lengths}


def bench_model(bench: Bench) -> Iterator[Comparison]:
    """One text with everything there is to see, and many texts with probabilities only."""
    needs("transformers")
    classifier = bench.classifier()
    lengths = [n for n in TEXT_LENGTHS if n <= classifier.config.max_position_embeddings]
    ids = {tokens: classifier.encode(text_of(classifier, tokens, shuffled_words(seed=0))).ids
           for tokens in lengths}
    texts = mixed_texts(16 if bench.quick else MANY_TEXTS)
    batch_sizes = PIPELINE_BATCHES[-1:] if bench.quick else PIPELINE_BATCHES
    with runners((our_answers, bench.checkpoint, ids, texts),
                 (their_answers, bench.checkpoint, ids, texts, batch_sizes),
                 (pure_products, classifier.config, lengths)) as runs:
        for tokens in lengths:
            ours, theirs, products = map(milliseconds, in_turns(
                runs, tokens, bench.rounds(25), 1 if bench.quick else 10))
            what = f"one text, all attentions and states, {tokens} tokens"
            yield Comparison("model", what, "transformers, eager", "ms", ours, theirs,
                             f"≤ {TEXT_LENGTHS[tokens]:.2f}")
            yield Comparison("model", what, "pure matrix products", "ms", ours, products)
        ours, theirs = map(milliseconds, in_turns(runs[:2], MANY, bench.rounds(7), 1))
    yield Comparison("model", f"probabilities of {len(texts)} texts of mixed length",
                     "transformers, pipeline", "ms", ours, theirs, "≤ 0.50")
    yield from bench_engines(bench)
    yield from bench_explain(bench)


# ---------------------------------------------------------------------------------- training


def random_batch(config: BertConfig, settings: PretrainConfig, tokens: int) -> PretrainBatch:
    """A full batch of random pieces, masked as in pre-training."""
    draw = np.random.default_rng(settings.seed)
    shape = (tokens // SEQUENCE, SEQUENCE)
    pieces = draw.integers(FIRST_PIECE, config.vocab_size, shape)
    is_masked = draw.random(shape) < settings.mask_rate
    is_second = np.arange(shape[1]) >= shape[1] // 2
    return PretrainBatch(
        ids=np.where(is_masked, MASK_ID, pieces),
        segment_ids=np.broadcast_to(is_second, shape).astype(np.int64),
        attention_mask=np.ones(shape, dtype=bool), is_masked=is_masked,
        mlm_targets=np.where(is_masked, pieces, -100),
        nsp_targets=draw.integers(0, 2, shape[0]), vectors=np.zeros((shape[0], 0), np.float32),
        sources=np.zeros(shape[0], np.int64))


def our_step(config: BertConfig, settings: PretrainConfig,
             batch: PretrainBatch) -> Functions:
    configure_cpu()
    model = untrained(config, BertForPreTraining, settings.seed).train()
    student = Student(model)
    optimizer = make_optimizer(model, settings.learning_rate, settings.weight_decay)
    processes = Processes()
    return {STEP: lambda: train_step(model, optimizer,
                                     batch_losses(student, batch, processes.device),
                                     processes, settings.clip)}


def their_step(config: BertConfig, settings: PretrainConfig,
               batch: PretrainBatch) -> Functions:
    """The step that transformers' own trainer takes: its default attention, fused AdamW."""
    import transformers
    values = {name: value for name, value in config.to_dict().items() if name != "model_type"}
    model = transformers.BertForPreTraining(transformers.BertConfig(**values)).train()
    optimizer = torch.optim.AdamW(model.parameters(), settings.learning_rate, fused=True,
                                  weight_decay=settings.weight_decay)
    inputs = {"input_ids": batch.ids, "token_type_ids": batch.segment_ids,
              "attention_mask": batch.attention_mask.astype(np.int64), "labels": batch.mlm_targets,
              "next_sentence_label": batch.nsp_targets}
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}

    def step() -> None:
        optimizer.zero_grad()
        model(**tensors).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return {STEP: step}


def operations(step: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in one call."""
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def bench_training(bench: Bench) -> Iterator[Comparison]:
    """One full pre-training step of the shipped shape."""
    needs("transformers")
    config = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    settings = PretrainConfig()
    batch = random_batch(config, settings, 256 if bench.quick else settings.batch_tokens)
    with runners((our_step, config, settings, batch), (their_step, config, settings, batch),
                 (square_product, STEP, MATRIX)) as runs:
        ours, theirs, product = in_turns(runs, STEP, bench.rounds(15), 1 if bench.quick else 2)
    what = f"pre-training step of {batch.num_tokens:,} tokens"
    yield Comparison("training", what, "transformers, BertForPreTraining", "tokens/s",
                     [batch.num_tokens / value for value in ours],
                     [batch.num_tokens / value for value in theirs], "≥ 1.50")
    work = operations(our_step(config, settings, batch)[STEP])
    yield Comparison("training", "matrix products inside the step",
                     f"a product of {MATRIX} × {MATRIX}", "GFLOP/s",
                     [work / value / 1e9 for value in ours],
                     [2 * MATRIX ** 3 / value / 1e9 for value in product])
