"""`evaluate --explanations`, `--heads`, `--pruning`, `--lens`: what is measured of the network
itself, for a checkpoint with any classes."""

import random
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert.arguments import described_call
from bert.classifier import EmotionClassifier
from bert.emotions import NONE
from bert.errors import UserError
from bert.explain import heads, tuned_lens
from bert.explain.league import league, league_rows
from bert.explain.pruning import pruning_curve
from bert.training.evaluation import LANGUAGES
from bert.training.examples import read_labelled
from bert.training.metrics import checksum, write_metrics

LENS_LINES = 10_000  # of the training lines, taken by chance: fifty for each number of a map's row
SEED = 0  # which lines are taken, and the random ranking among the explanations


def chosen_texts(arguments: Namespace, most: int,
                 more: Sequence[Path] = ()) -> dict[str, list[str]]:
    """Lines with a feeling, taken by chance, at most so many a language."""
    if most < 1:
        raise UserError(f"{most} lines: expected at least 1")
    lines = [line for path in (arguments.data, *more) for line in read_labelled(path)]
    found = {}
    for language in LANGUAGES:
        own = [line.text for line in lines if line.language == language and line.label != NONE]
        own = random.Random(SEED).sample(own, min(most, len(own)))
        found[language] = own[:arguments.max_steps] if arguments.max_steps else own
    if not any(found.values()):
        raise UserError(f"{arguments.data} has no Korean or English line with a feeling")
    return found


def with_origin(found: dict[str, Any], *files: Path) -> dict[str, Any]:
    """Figures with the command, the seed and the lines behind them."""
    return {"command": described_call("evaluate"), "seed": SEED,
            "data": {path.name: checksum(path) for path in files}, **found}


def is_kept(arguments: Namespace) -> bool:
    return not (arguments.dry or arguments.max_steps)


def evaluate_explanations(arguments: Namespace) -> None:
    """The league table of explanations."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    classifier.needs_classifier()
    found = league(classifier, chosen_texts(arguments, arguments.explanations), SEED, tell)
    print(*league_rows(found), sep="\n")
    if is_kept(arguments):
        write_metrics(arguments.checkpoint, {"explanations": with_origin(found, arguments.data)})


def evaluate_heads(arguments: Namespace) -> None:
    """What every head does in general, over --data and the training lines beside it."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    more = sorted(arguments.data.parent.glob("train_*.tsv"))
    texts = chosen_texts(arguments, arguments.heads, more)
    found = heads.describe_heads(classifier, texts, tell)
    for language, tables in found["languages"].items():
        kinds = [kind for row in tables["kind"] for kind in row]
        print(f"{language}, {tables['texts']} lines:", ", ".join(
            f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds)))
    if is_kept(arguments):
        heads.write_heads(arguments.checkpoint, with_origin(found, arguments.data, *more))


def evaluate_pruning(arguments: Namespace) -> None:
    """How many heads can go before the answers change."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    classifier.needs_classifier()
    found = pruning_curve(classifier, chosen_texts(arguments, arguments.pruning), tell)
    print("answers unchanged without" + "".join(f"{name:>8}" for name in found["languages"]))
    for place, count in enumerate(found["removed"]):
        print(f"{count:4} heads".ljust(25) + "".join(
            f"{own['unchanged'][place]:8.1%}" for own in found["languages"].values()))
    for language, own in found["languages"].items():
        print(f"{language}: {own['can_go']} of {found['removed'][-1]} heads can go while "
              f"{found['at_least']:.0%} of the answers stay")
    if is_kept(arguments):
        write_metrics(arguments.checkpoint, {"pruning": with_origin(found, arguments.data)})


def fit_lens(arguments: Namespace) -> None:
    """The tuned lens, and how much nearer to the answer it reads than the plain one."""
    classifier = EmotionClassifier.load(arguments.checkpoint)
    texts = [line.text for path in arguments.lens for line in read_labelled(path)]
    random.Random(SEED).shuffle(texts)
    texts = texts[:arguments.max_steps * 32 if arguments.max_steps else LENS_LINES]
    lens, found = tuned_lens.fit(classifier, texts)
    print("divergence from the answer   plain   tuned")
    for layer, (plain, tuned) in enumerate(zip(found["plain"], found["tuned"], strict=True)):
        print(f"after layer {layer}".ljust(26) + f"{plain:8.3f}{tuned:8.3f}")
    if is_kept(arguments):
        lens.save(arguments.checkpoint)
        write_metrics(arguments.checkpoint,
                      {"tuned_lens": with_origin(found, *arguments.lens)})


def tell(line: str) -> None:
    print(line, flush=True)
