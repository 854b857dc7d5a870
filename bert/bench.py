"""How fast, beside what people would use instead: every figure is a ratio from one run.

    python -m bert.bench                              all sections, about fifteen minutes
    python -m bert.bench model training --out speed.json
    python -m bert.bench --quick                      a minute: does it run?

Sections: model, training, start, page, load. Ours and the peer take turns in processes of their
own; a ratio is the median over the rounds, with its quartiles. Without --checkpoint and without
checkpoints/emotion a random model of the shipped shape is used. Besides the model itself, the peers
are needed: pip install -r tests/requirements.txt, and Chromium for the page.
"""

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert.checkpoint import save_checkpoint, untrained
from bert.config import BertConfig, Parser
from bert.labels import KEYS
from bert.model import BertForPreTraining, BertForSequenceClassification
from bert.pairs import PretrainBatch
from bert.predict import EmotionClassifier
from bert.pretrain import PretrainConfig, batch_losses
from bert.tokenizer import WordPieceTokenizer
from bert.training import Processes, make_optimizer, train_step, tune_machine

ROOT = Path(__file__).parent.parent
SHIPPED = ROOT / "checkpoints" / "emotion"
DATA = ROOT / "assets" / "data" / "train.tsv"
TEXT_LENGTHS = {16: 0.70, 64: 0.80, 128: 0.85}  # tokens of one text, and the ratio wanted
PIPELINE_BATCHES = (1, 8, 32)                    # the pipeline is timed at the best of these
MANY, MANY_TEXTS = "many", 256
STEP = "step"
MATRIX = 1_024                                   # side of the product that measures the peak
FIRST_PIECE, MASK_ID = 5, 4                      # the special tokens come first


# ---------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Comparison:
    """One row of the table: the same work done here and by a peer, in turns."""

    section: str
    what: str
    peer: str
    unit: str
    ours: Sequence[float]    # one value a round
    theirs: Sequence[float]  # of the same rounds
    bar: str = ""            # what the ratio should be, e.g. "≤ 0.70"

    def to_dict(self) -> dict[str, Any]:
        ratios = np.asarray(self.ours, dtype=float) / np.asarray(self.theirs, dtype=float)
        return {"section": self.section, "what": self.what, "peer": self.peer, "unit": self.unit,
                "ours": spread(self.ours), "theirs": spread(self.theirs), "ratio": spread(ratios),
                "bar": self.bar, "rounds": len(ratios)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median and the quartiles around it."""
    low, middle, high = np.quantile(np.asarray(values, dtype=float), (0.25, 0.5, 0.75))
    return {"median": float(middle), "low": float(low), "high": float(high)}


@dataclass(frozen=True)
class Bench:
    """What every section needs to know."""

    checkpoint: Path
    quick: bool = False
    max_steps: int | None = None

    def rounds(self, usual: int) -> int:
        """How often ours and the peer take turns."""
        return min(1 if self.quick else usual, self.max_steps or usual)

    def classifier(self) -> EmotionClassifier:
        classifier = EmotionClassifier.load(self.checkpoint)
        classifier.needs_classifier()
        if not classifier.config.is_hugging_face:
            raise ValueError(f"{self.checkpoint} is a network that transformers cannot express: "
                             "there is nothing to compare it with")
        return classifier


def needs(*modules: str) -> None:
    """Say what to install before anything is measured."""
    for module in modules:
        if find_spec(module) is None:
            raise ValueError(f"{module} is not installed, and the comparison needs it: "
                             "pip install -r tests/requirements.txt")


Functions = dict[Any, Callable[[], object]]  # what a process can be told to run, by name


class Runner:
    """A process of its own that runs functions when told, so that no peer gains or suffers from the
    settings of another. `make(*values)` is called there and gives the functions."""

    def __init__(self, make: Callable[..., Functions], *values: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=_run_when_told, args=(end, make, values), daemon=True)
        self.process.start()
        end.close()

    def answer(self) -> Any:
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise ValueError("a measured process ended before it answered: see above") from None
        if isinstance(answer, str):
            raise ValueError(answer)
        return answer

    def seconds(self, name: Any, calls: int) -> float:
        """How long one call of a function took, the mean over `calls` of them."""
        self.pipe.send((name, calls))
        return self.answer()

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(timeout=10)
        self.process.kill()
        self.process.join()


def _run_when_told(pipe: Any, make: Callable[..., Functions], values: tuple) -> None:
    try:
        functions = make(*values)
        for function in functions.values():
            function()  # the first call of anything is slower
        pipe.send(None)
        while True:
            name, calls = pipe.recv()
            began = time.perf_counter()
            for _ in range(calls):
                functions[name]()
            pipe.send((time.perf_counter() - began) / calls)
    except EOFError:
        return
    except (ImportError, OSError, ValueError) as error:
        pipe.send(f"{make.__name__}: {error}")


@contextmanager
def runners(*made: tuple) -> Iterator[list[Runner]]:
    """Start a process for each `(make, *values)`; all are ready before the first is measured."""
    with ExitStack() as stack:
        started = []
        for make, *values in made:
            started.append(Runner(make, *values))
            stack.callback(started[-1].stop)
        for runner in started:
            runner.answer()
        yield started


def in_turns(runs: Sequence[Runner], name: Any, rounds: int, calls: int) -> list[list[float]]:
    """Seconds a call of each runner, round by round, the order turned over every time."""
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        places = range(len(runs)) if number % 2 == 0 else reversed(range(len(runs)))
        for place in places:
            taken[place].append(runs[place].seconds(name, calls))
    return taken


def milliseconds(seconds: Sequence[float]) -> list[float]:
    return [1000 * value for value in seconds]


# ---------------------------------------------------------------------------------- what is fed


def data_lines() -> list[str]:
    """The texts of the project's own training data."""
    rows = DATA.read_text(encoding="utf-8").splitlines()[1:]
    return [row.rsplit("\t", 1)[-1] for row in rows]


def save_random_model(folder: Path) -> None:
    """A model of the shipped shape that has learned nothing."""
    config = BertConfig(id2label=KEYS)
    tokenizer = WordPieceTokenizer.train(data_lines(), config.vocab_size)
    save_checkpoint(folder, untrained(config, BertForSequenceClassification), tokenizer)


def text_of(classifier: EmotionClassifier, tokens: int, words: Sequence[str]) -> str:
    """A text of exactly so many tokens (special ones counted), made of the first words that fit."""
    text = ""
    for word in words:
        longer = f"{text} {word}".strip()
        length = len(classifier.tokenizer.encode(longer).ids)
        if length <= tokens:
            text = longer
        if length == tokens:
            return text
    raise ValueError(f"the training data has no text of {tokens} tokens")


def shuffled_words(seed: int) -> list[str]:
    words = " ".join(data_lines()).split()
    np.random.default_rng(seed).shuffle(words)
    return words


def mixed_texts(count: int) -> list[str]:
    """Texts of one to four lines, so that lengths differ as they do in life."""
    draw, lines = np.random.default_rng(0), data_lines()
    return [" ".join(lines[i] for i in draw.integers(0, len(lines), draw.integers(1, 5)))
            for _ in range(count)]


# ---------------------------------------------------------------------------------- model


def our_answers(folder: Path, ids: dict[int, list[int]], texts: list[str]) -> Functions:
    tune_machine()
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
    tune_machine()
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


# ---------------------------------------------------------------------------------- training


def random_batch(config: BertConfig, settings: PretrainConfig, tokens: int) -> PretrainBatch:
    """A full batch of random pieces, masked as in pre-training."""
    draw = np.random.default_rng(settings.seed)
    shape = (tokens // settings.sequence_length, settings.sequence_length)
    pieces = draw.integers(FIRST_PIECE, config.vocab_size, shape)
    is_masked = draw.random(shape) < settings.mask_rate
    is_second = np.arange(shape[1]) >= shape[1] // 2
    return PretrainBatch(
        ids=np.where(is_masked, MASK_ID, pieces),
        segment_ids=np.broadcast_to(is_second, shape).astype(np.int64),
        is_token=np.ones(shape, dtype=bool), is_masked=is_masked,
        mlm_targets=np.where(is_masked, pieces, -100),
        nsp_targets=draw.integers(0, 2, shape[0]))


def our_step(config: BertConfig, settings: PretrainConfig,
             batch: PretrainBatch) -> Functions:
    tune_machine()
    model = untrained(config, BertForPreTraining, settings.seed).train()
    optimizer = make_optimizer(model, settings.learning_rate, settings.weight_decay)
    processes = Processes()
    return {STEP: lambda: train_step(model, optimizer,
                                     batch_losses(model, batch, processes.device),
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
              "attention_mask": batch.is_token.astype(np.int64), "labels": batch.mlm_targets,
              "next_sentence_label": batch.nsp_targets}
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}

    def step() -> None:
        optimizer.zero_grad()
        model(**tensors).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return {STEP: step}


def square_product(side: int) -> Functions:
    left, right = torch.randn(side, side), torch.randn(side, side)
    return {STEP: lambda: left @ right}


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
                 (square_product, MATRIX)) as runs:
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


# ---------------------------------------------------------------------------------- command line


def sections() -> dict[str, Callable[[Bench], Iterator[Comparison]]]:
    from bert.bench_app import bench_load, bench_page, bench_start
    return {"model": bench_model, "training": bench_training, "start": bench_start,
            "page": bench_page, "load": bench_load}


def print_row(row: dict[str, Any]) -> None:
    ours, theirs, ratio = row["ours"]["median"], row["theirs"]["median"], row["ratio"]
    print(f"{row['section']:<9}{row['what']:<52}{ours:>11,.4g}{theirs:>11,.4g} {row['unit']:<9}"
          f"{ratio['median']:>6.2f}× ({ratio['low']:.2f}–{ratio['high']:.2f})  {row['bar']:<7}"
          f" {row['peer']}", flush=True)


def measure(bench: Bench, names: Sequence[str]) -> list[dict[str, Any]]:
    """Run the sections; each row is printed as soon as it is known."""
    print(f"{'section':<9}{'what':<52}{'ours':>11}{'theirs':>11} {'unit':<9}{'ratio':>7} "
          f"{'(quartiles)':<13}{'wanted':<8}against", flush=True)
    rows = []
    known = sections()
    for name in names:
        for comparison in known[name](bench):
            rows.append(comparison.to_dict())
            print_row(rows[-1])
    return rows


def build_parser() -> Parser:
    head, _, rest = __doc__.partition("\n\n")
    parser = Parser(prog="bert.bench", description=head, epilog=rest.rpartition("\n\n")[2])
    parser.add_argument("sections", nargs="*", metavar="SECTION",
                        help="model, training, start, page, load (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round of everything")
    parser.add_argument("--checkpoint", type=Path,
                        help="checkpoint folder (default: checkpoints/emotion, or a random model)")
    parser.add_argument("--max-steps", type=int, help="most rounds of a measurement")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the figures there")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    os.environ["HF_HUB_OFFLINE"] = "1"  # the peers have their weights from us
    with tempfile.TemporaryDirectory() as spare:
        try:
            unknown = sorted(set(arguments.sections) - set(sections()))
            if unknown:
                raise ValueError(f"no section {unknown[0]!r}: choose from {', '.join(sections())}")
            if arguments.max_steps is not None and arguments.max_steps < 1:
                raise ValueError(f"--max-steps is {arguments.max_steps}: expected at least 1")
            checkpoint = arguments.checkpoint
            if checkpoint is None and SHIPPED.is_dir():
                checkpoint = SHIPPED
            if checkpoint is None:
                checkpoint = Path(spare) / "random"
                save_random_model(checkpoint)
                print(f"{SHIPPED} does not exist: a random model of the same shape is used")
            bench = Bench(checkpoint, arguments.quick, arguments.max_steps)
            rows = measure(bench, arguments.sections or list(sections()))
            if arguments.out is not None:
                arguments.out.write_text(json.dumps({
                    "command": "python -m bert.bench " + " ".join(argv or sys.argv[1:]),
                    "checkpoint": str(checkpoint), "processors": os.cpu_count(),
                    "threads": torch.get_num_threads(), "torch": torch.__version__,
                    "rows": rows}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
                print(f"saved {arguments.out}")
        except (ValueError, OSError) as error:
            parser.error(str(error))


if __name__ == "__main__":
    main()
