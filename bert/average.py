"""The mean of several fine-tuned checkpoints of one family: often better than each of them.

    python -m bert.average runs/emotion_2 runs/emotion_3 --dev assets/data/dev.tsv --out averaged

All of them must have grown from the same weights (Wortsman et al. 2022, "Model soups"): then the
mean lies in the same valley, further from its walls. What the last of them has noted about its
fine-tuning is kept. The threshold is fitted anew on dev, the temperature on dev or on the lines of
--temperature-on.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from bert.checkpoint import TOKENIZER, check_replaceable, save_checkpoint
from bert.config import Parser, described_call
from bert.corpus import read_labelled
from bert.evaluate import load_ten
from bert.finetune import (
    FinetuneConfig,
    dev_score,
    fold_temperature,
    logits_of,
    set_threshold,
)
from bert.machine import tune_machine
from bert.metrics import checksum, metrics_file, read_metrics


@torch.no_grad()
def average(folders: Sequence[Path], shares: Sequence[float], dev: Path,
            temperature_on: Sequence[Path], out: Path,
            keep_feeling: float = FinetuneConfig.keep_feeling) -> float:
    """Write the mean of the checkpoints' weights; returns its score on dev."""
    check_replaceable(out, TOKENIZER)
    parts = [load_ten(folder) for folder in folders]
    weights = [part.model.state_dict() for part in parts]
    families = [(part.tokenizer.digest(), {name: value.shape for name, value in own.items()})
                for part, own in zip(parts, weights, strict=True)]
    for folder, family in zip(folders, families, strict=True):
        if family != families[0]:
            raise ValueError(f"{folder} is of another family than {folders[0]}: the mean of their "
                             "weights would mean nothing")
    model, tokenizer, lines = parts[0].model, parts[0].tokenizer, read_labelled(dev)
    model.load_state_dict({name: sum(share * own[name] for share, own in
                                     zip(shares, weights, strict=True)) for name in weights[0]})
    logits = logits_of(model, tokenizer, [line.text for line in lines])
    score = dev_score(logits, lines)
    told = [line for path in temperature_on for line in read_labelled(path)]
    temperature = fold_temperature(
        model, logits_of(model, tokenizer, [line.text for line in told]), told)
    set_threshold(model, logits / temperature, lines, keep_feeling)
    known = read_metrics(folders[-1])
    facts = {name: known[name] for name in ("finetune", "curves") if name in known}
    facts |= {"average": {"command": described_call("bert.average"), "shares": list(shares),
                         "data": {path.name: checksum(path) for path in (dev, *temperature_on)},
                         "dev_score": score}}
    save_checkpoint(out, model, tokenizer, half=True, files=metrics_file(facts))
    return score


def build_parser() -> Parser:
    parser = Parser(prog="bert.average", description=__doc__.split("\n")[0])
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="CHECKPOINT",
                        help="fine-tuned checkpoints that grew from the same weights")
    parser.add_argument("--shares", type=float, nargs="+", metavar="SHARE",
                        help="how much of each (default: all the same)")
    parser.add_argument("--dev", type=Path, default=Path("assets/data/dev.tsv"), metavar="FILE",
                        help="labelled lines for the score and the threshold")
    parser.add_argument("--temperature-on", type=Path, nargs="+", metavar="FILE",
                        help="labelled lines for the temperature (default: those of dev)")
    parser.add_argument("--keep-feeling", type=float, default=FinetuneConfig.keep_feeling,
                        metavar="SHARE", help="share of dev's feeling lines that must stay "
                        f"confident (default: {FinetuneConfig.keep_feeling})")
    parser.add_argument("--out", type=Path, required=True, help="checkpoint folder to write")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    tune_machine()
    with parser.one_sentence():
        given = arguments.shares or [1.0] * len(arguments.checkpoints)
        if len(given) != len(arguments.checkpoints) or min(given) < 0 or not sum(given):
            raise ValueError("--shares: give one share of 0 or more for each checkpoint")
        if not 0 <= arguments.keep_feeling <= 1:
            raise ValueError(f"--keep-feeling is {arguments.keep_feeling}: expected 0 to 1")
        shares = [share / sum(given) for share in given]
        score = average(arguments.checkpoints, shares, arguments.dev,
                        arguments.temperature_on or [arguments.dev], arguments.out,
                        arguments.keep_feeling)
        print(f"dev {score:.4f}")


if __name__ == "__main__":
    main()
