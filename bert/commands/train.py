"""Make both checkpoints from random weights: every stage in order, each resumed where it was.

    python -m bert train --sources DIR --out runs/full  ten hours on two cores
    python -m bert train --quick --out runs/quick       some ten minutes, on our own lines alone

--sources is a folder with train/*_docs.txt and *_lines.txt (.xz as well), labelled/*.train.tsv,
parallel/*.tsv and label_map.tsv. The commands that are run are printed, and can be run by hand.
"""

import json
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bert.arguments import Parser, positive
from bert.checkpoint import untrained
from bert.commands import distill, evaluate, finetune, pretrain, train_tokenizer
from bert.config import BertConfig
from bert.cpu import configure_cpu
from bert.errors import UserError
from bert.model import BertForPreTraining
from bert.training.corpus import read_first_column
from bert.training.examples import HANGUL, read_labelled, read_mixed, read_translations
from bert.training.loop import Processes, make_optimizer, train_step
from bert.training.masking import PretrainBatch
from bert.training.pretraining import PretrainConfig, Stage, Student, batch_losses

REPEATS = {"ko_own_lines": 3, "en_own_lines": 3, "ko_dialog_docs": 3, "ko_labelled_lines": 2,
           "en_labelled_lines": 2}  # what people type is read more often than encyclopaedias
EVERYDAY = ("own", "labelled", "dialog", "utter", "misc")
QUICK_STAGES, QUICK_EPOCHS = "4:6:48:1.5e-3", 2.0
QUICK_NETWORK: dict[str, Any] = {
    "num_hidden_layers": 4, "num_attention_heads": 4, "hidden_size": 128, "intermediate_size": 512,
    "max_position_embeddings": 64}


@dataclass(frozen=True)
class Step:
    """One command of the recipe."""

    name: str
    run: Callable[[Sequence[str]], None]
    arguments: list[str]
    purpose: str

    def __str__(self) -> str:
        return shlex.join(["python", "-m", "bert", self.name, *self.arguments])


@dataclass(frozen=True)
class Recipe:
    """Where everything is read from and written to."""

    data: Path
    sources: Path | None
    out: Path
    teacher: Path | None
    stages: str
    max_steps: int | None

    @property
    def is_quick(self) -> bool:
        return self.sources is None

    @property
    def texts(self) -> Path:
        return self.out / "texts"

    def find(self, pattern: str) -> list[Path]:
        found = sorted(self.sources.glob(pattern)) if self.sources else []
        if self.sources and not found:
            raise UserError(f"{self.sources} has no {pattern}: see `python -m bert train --help`")
        return found

    def corpus(self) -> list[Path]:
        """The text files of pre-training."""
        own = sorted(self.texts.glob("*_lines.txt"))
        if self.is_quick:
            return own
        documents = [*self.find("train/*_docs.txt*"), *self.find("train/*_lines.txt*")]
        return [*own, *documents]

    def own(self, pattern: str) -> list[Path]:
        found = sorted(self.data.glob(pattern))
        if not found:
            raise UserError(f"{self.data} has no {pattern}: give the project's lines with --data")
        return found


def write_texts(recipe: Recipe) -> None:
    """Our own lines and the public labelled ones as plain text, by language."""
    own = [line.text for path in recipe.own("train*.tsv") for line in read_labelled(path)]
    own += [line.text for path in recipe.own("mixed.tsv") for line in read_mixed(path)]
    own += [text for pair in read_translations(recipe.own("translations*.tsv")) for text in pair]
    labelled = [text for path in recipe.find("labelled/*.train.tsv")
                for text in read_first_column(path)]
    recipe.texts.mkdir(parents=True, exist_ok=True)
    known: set[str] = set()
    for name, texts in (("own", own), ("labelled", labelled)):
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(fresh)
        for language in ("ko", "en"):
            lines = [text for text in fresh if bool(HANGUL.search(text)) == (language == "ko")]
            if lines:
                (recipe.texts / f"{language}_{name}_lines.txt").write_text(
                    "\n".join(lines) + "\n", encoding="utf-8")


def steps_of(recipe: Recipe) -> list[Step]:
    """The whole recipe, in order."""
    out, corpus = recipe.out, recipe.corpus()
    dry = ["--max-steps", str(recipe.max_steps)] if recipe.max_steps else []
    groups = [[path for path in corpus if path.name.startswith(language)
               and (path.name.split("_")[1] in EVERYDAY) == is_everyday]
              for language in ("ko", "en") for is_everyday in (True, True, False)]  # twice as much
    text = [word for group in groups if group for word in ("--text", *map(str, group))]
    vocabulary = ["--vocab-size", "8000", "--megabytes", "4"] if recipe.is_quick else [
        "--vocab-size", "16000", "--megabytes", "12"]
    steps = [Step("train_tokenizer", train_tokenizer.main,
                  [*text, "--out", str(out / "tokenizer"), *vocabulary, *dry], "the vocabulary")]
    translations = [*recipe.own("translations*.tsv"), *recipe.find("parallel/*.tsv")]
    vectors: list[str] = []
    if recipe.teacher:
        english = [path for path in corpus if path.name in ("en_own_lines.txt",
                                                            "en_labelled_lines.txt")]
        steps.append(Step("distill", distill.main, [
            "--teacher", str(recipe.teacher), "--english", *map(str, english), "--translations",
            *map(str, translations), "--out", str(out / "vectors"), *dry],
            "a teacher's sentence vectors"))
        vectors = ["--vectors", str(out / "vectors")]
    present = {path.name.partition(".")[0] for path in corpus}
    repeats = [f"{name}={times}" for name, times in REPEATS.items() if name in present]
    network = [word for name, value in QUICK_NETWORK.items()
               for word in ("--" + name.replace("_", "-"), str(value))]
    steps.append(Step("pretrain", pretrain.main, [
        "--sources", *map(str, corpus), *(["--repeat", *repeats] if repeats else []),
        "--tokenizer", str(out / "tokenizer"), *vectors, "--run-dir", str(out / "run" / "pretrain"),
        "--out", str(out / "pretrained"), "--stages", recipe.stages,
        *(network if recipe.is_quick else []), *dry], "masked pieces and next sentences"))
    public = recipe.find("labelled/*.train.tsv")
    mapped = [path for path in public if "goemotions" in path.name or "edos" in path.name]
    labels = recipe.data / "llm_labels.tsv"
    lines = ["--train", *map(str, recipe.own("train*.tsv")), "--mixed",
             *map(str, recipe.own("mixed.tsv")), "--translations", *map(str, translations)]
    if mapped:
        label_map = recipe.find("label_map.tsv")[0]
        lines += ["--mapped", *map(str, mapped), "--label-map", str(label_map)]
    if labels.is_file() and recipe.sources:
        lines += ["--llm-labels", str(labels), "--found-in", *map(str, [
            *public, *recipe.find("train/*_lines.txt*"), *recipe.find("train/*_docs.txt*")])]
    quick = ["--epochs", str(QUICK_EPOCHS)] if recipe.is_quick else []
    steps.append(Step("finetune", finetune.main, [
        "--start-from", str(out / "pretrained"), *lines, "--dev", str(recipe.data / "dev.tsv"),
        "--run-dir", str(out / "run" / "finetune"), "--out", str(out / "emotion"), *quick, *dry],
        "the ten feelings"))
    steps.append(Step("evaluate", evaluate.main, [
        "--checkpoint", str(out / "emotion"), "--data", str(recipe.data / "test.tsv"), *dry],
        "every figure"))
    return steps


# ---------------------------------------------------------------------------------- the plan


def tokens_per_second(stage: Stage, settings: PretrainConfig, config: BertConfig) -> float:
    """How fast this machine trains so many layers: a step of random pieces, timed."""
    rng = np.random.default_rng(0)
    shape = (settings.batch_tokens // stage.length, stage.length)
    ids = rng.integers(5, config.vocab_size, shape)
    is_masked = rng.random(shape) < settings.mask_rate
    batch = PretrainBatch(ids, np.zeros_like(ids), np.ones(shape, bool), is_masked,
                          np.where(is_masked, ids, -100), rng.integers(0, 2, shape[0]),
                          np.zeros((shape[0], 0), np.float32), np.zeros(shape[0], np.int64))
    model = untrained(config, BertForPreTraining).train()
    optimizer, student = make_optimizer(model, 1e-3, 0.0), Student(model)
    began = time.monotonic()
    for step in range(3):
        if step == 1:
            began = time.monotonic()  # the first one warms up
        with settings.autocast(torch.device("cpu")):
            sums = batch_losses(student, batch, torch.device("cpu"))
        train_step(model, optimizer, sums, Processes(), 1.0)
    return 2 * ids.size / (time.monotonic() - began)


def print_plan(recipe: Recipe, steps: Sequence[Step]) -> None:
    """What will be done and how long it may take here."""
    settings = PretrainConfig(stages=recipe.stages)
    network = BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                         **(QUICK_NETWORK if recipe.is_quick else {}))
    stages = settings.plan_for(network)
    print("the plan:")
    for step in steps:
        print(f"  {step.name:16} {step.purpose}")
        for stage in stages if step.name == "pretrain" else ():
            config = replace(network, num_hidden_layers=stage.layers)
            hours = stage.tokens / tokens_per_second(stage, settings, config) / 3600
            print(f"  {'':16}   {stage.layers} layers, {stage.tokens / 1e6:,.0f} M tokens: about "
                  f"{hours:.1f} h here")
    print(flush=True)


def run_steps(recipe: Recipe, steps: Sequence[Step]) -> None:
    """Each step that is not done yet; a file in the run folder says which are."""
    done = recipe.out / "run" / "done.json"
    finished = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else []
    for step in steps:
        if str(step) in finished:
            print(f"{step.name}: done before", flush=True)
            continue
        print(f"\n$ {step}", flush=True)
        called_as, sys.argv = sys.argv, ["bert", step.name, *step.arguments]  # for metrics.json
        try:
            step.run(step.arguments)
        finally:
            sys.argv = called_as
        finished.append(str(step))
        done.parent.mkdir(parents=True, exist_ok=True)
        done.write_text(json.dumps(finished, indent=2), encoding="utf-8")


def build_parser() -> Parser:
    parser = Parser(prog="bert train", description=__doc__.split("\n")[0])
    parser.add_argument("--sources", type=Path, metavar="DIR", help="folder of public text")
    parser.add_argument("--quick", action="store_true",
                        help="a small network on the lines that ship with the project")
    parser.add_argument("--data", type=Path, default=Path("assets/data"), metavar="DIR",
                        help="the project's own lines (default: assets/data)")
    parser.add_argument("--teacher", type=Path, metavar="FOLDER",
                        help="a BertModel whose sentence vectors are learned beside the rest")
    parser.add_argument("--stages", help="of pre-training, as `pretrain --stages`")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR",
                        help="gets tokenizer, pretrained and emotion, and what a resume needs")
    parser.add_argument("--max-steps", type=positive, help="dry run: so many steps of every stage")
    return parser


def recipe_of(arguments: Namespace) -> Recipe:
    if arguments.quick == (arguments.sources is not None):
        raise UserError("give --sources DIR, or --quick for our own lines alone")
    if arguments.sources and not arguments.sources.is_dir():
        raise UserError(f"{arguments.sources} is not a folder: give one with train/, labelled/, "
                        "parallel/ and label_map.tsv")
    stages = arguments.stages or (QUICK_STAGES if arguments.quick else PretrainConfig.stages)
    return Recipe(arguments.data, arguments.sources, arguments.out, arguments.teacher, stages,
                  arguments.max_steps)


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    configure_cpu()
    with parser.one_sentence():
        recipe = recipe_of(arguments)
        write_texts(recipe)
        steps = steps_of(recipe)
        print_plan(recipe, steps)
        run_steps(recipe, steps)
    print(f"\nopen it: python app.py --checkpoint {arguments.out / 'emotion'}")


if __name__ == "__main__":
    main()
