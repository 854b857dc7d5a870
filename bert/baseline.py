"""The linear model to beat: TF-IDF of character and word n-grams, logistic regression.

    python -m bert.baseline --train assets/data/train*.tsv --test assets/data/test.tsv

Prints accuracy by language and level, and the learning curve at 1/8, 1/4, 1/2 and all of the lines.
With --answers it teaches instead: it writes what it makes of every line it learned from, read by a
model that has not seen the line, in the form that `bert.finetune --taught` reads. Needs
scikit-learn, which the app itself does not.
"""

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.config import Parser, described_call
from bert.corpus import LabelledLine, read_first_column, read_labelled
from bert.labels import KEYS, NONE
from bert.metrics import accuracy_by_level, checksum, levels_row, write_metrics
from bert.sources import (
    add_readings,
    read_mapped,
    read_pairs,
    read_readings,
    rendered_lines,
    write_answers,
)

SHARES = (0.125, 0.25, 0.5, 1.0)


def fit_linear(lines: Sequence[LabelledLine], strength: float = 10.0, rounds: int = 300):
    """A trained scikit-learn pipeline."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline, make_union
    except ImportError:
        raise ValueError("scikit-learn is not installed: pip install scikit-learn") from None
    model = make_pipeline(
        make_union(TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True,
                                   min_df=2),
                   TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)),
        LogisticRegression(C=strength, max_iter=rounds))
    return model.fit([line.text for line in lines], [line.label for line in lines])


def score(model: Any, lines: Sequence[LabelledLine]) -> dict[str, dict[str, float]]:
    """Accuracy by language and level."""
    return accuracy_by_level(lines, model.predict([line.text for line in lines]))


def answers_of_strangers(lines: Sequence[LabelledLine], unlabelled: Sequence[str], folds: int,
                         seed: int) -> dict[str, np.ndarray]:
    """text -> (C,): each labelled line is read by a model that learned from the other folds, the
    rest by all of them (their mean). More of the answer is left open than in a model that is to
    score: a teacher that is always sure teaches nothing beyond its best class."""
    texts = sorted({line.text for line in lines})
    fold_of = dict(zip(texts, np.random.default_rng(seed).integers(folds, size=len(texts)),
                       strict=True))
    rest = sorted(set(unlabelled) - fold_of.keys())
    answers = {text: np.zeros(len(KEYS), dtype=np.float32) for text in [*texts, *rest]}
    for fold in range(folds):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lbfgs failed to converge")  # 60 rounds are meant
            model = fit_linear([line for line in lines if fold_of[line.text] != fold],
                               strength=3.0, rounds=60)
        columns = [KEYS.index(key) for key in model.classes_]
        held = [text for text in texts if fold_of[text] == fold]
        for chosen, share in ((held, 1.0), (rest, 1.0 / folds)):
            for text, row in zip(chosen, model.predict_proba(chosen) if chosen else [],
                                 strict=True):
                answers[text][columns] += share * row
        print(f"fold {fold + 1} of {folds}: {len(held):,} lines answered", flush=True)
    return answers


def with_feeling(lines: Sequence[LabelledLine]) -> list[LabelledLine]:
    return [line for line in lines if line.label != NONE]


def build_parser() -> Parser:
    parser = Parser(prog="bert.baseline", description=__doc__.split("\n")[0])
    parser.add_argument("--train", type=Path, nargs="*", metavar="FILE",
                        default=sorted(Path("assets/data").glob("train*.tsv")),
                        help="labelled lines (default: assets/data/train*.tsv)")
    parser.add_argument("--test", type=Path, default=Path("assets/data/test.tsv"))
    parser.add_argument("--more", type=Path, nargs="*", default=[], metavar="FILE",
                        help="further lines to score the last model on")
    parser.add_argument("--parallel", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english: renderings train with the label of their line")
    parser.add_argument("--mapped", type=Path, nargs="*", default=[], metavar="FILE",
                        help="public lines to train on as well, where --label-map maps them")
    parser.add_argument("--label-map", type=Path)
    parser.add_argument("--partly-mapped", action="store_true",
                        help="also public lines of whose labels only some are mapped")
    add_readings(parser, "train")
    parser.add_argument("--answers", type=Path, metavar="FILE",
                        help="teach instead of scoring: write what it makes of the lines it learns "
                             "from, each read by a model that has not seen it")
    parser.add_argument("--unlabelled", type=Path, nargs="*", default=[], metavar="FILE",
                        help="further lines for --answers; of a .tsv the first column")
    parser.add_argument("--folds", type=int, default=5, help="models for --answers")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, help="dry run: only 200 × N lines")
    parser.add_argument("--checkpoint", type=Path,
                        help="put the figures into this checkpoint's metrics.json, beside its own")
    return parser


def read_train(arguments) -> list[LabelledLine]:
    """The lines with a feeling of every file of the call, in random order."""
    public = read_mapped(arguments.mapped, arguments.label_map, arguments.partly_mapped)
    train = with_feeling([line for path in arguments.train for line in read_labelled(path)])
    train += rendered_lines(train, read_pairs(arguments.parallel))
    train += public
    if arguments.readings:
        train += [line for line in read_readings(arguments.readings, arguments.found_in, "train")
                  if line.label in KEYS]
    random.Random(arguments.seed).shuffle(train)
    if arguments.max_steps:
        train = train[:arguments.max_steps * 200]
    if not train:
        raise ValueError("nothing to learn from: give --train, --mapped or --readings")
    return train


def teach(arguments) -> None:
    if arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2, not {arguments.folds}: a line is read by a "
                         "model that has not seen it")
    train = read_train(arguments)
    unlabelled = [text for path in arguments.unlabelled for text in read_first_column(path)]
    arguments.answers.open("a", encoding="utf-8").close()  # refused now, not after all folds
    write_answers(arguments.answers, answers_of_strangers(
        train, unlabelled, arguments.folds, arguments.seed))


def run(arguments) -> dict[str, Any]:
    if arguments.checkpoint and not arguments.checkpoint.is_dir():
        raise ValueError(f"{arguments.checkpoint} is not there: give a checkpoint folder")
    train, test = read_train(arguments), with_feeling(read_labelled(arguments.test))
    curve = {}
    for share in SHARES:
        model = fit_linear(train[:int(len(train) * share)])
        curve[str(share)] = score(model, test)
        print(f"{int(len(train) * share):6,} lines", levels_row(curve[str(share)]), sep="   ",
              flush=True)
    more = {path.name: score(model, with_feeling(read_labelled(path))) for path in arguments.more}
    for name, scores in more.items():
        print(name, levels_row(scores), sep="   ")
    files = [*arguments.train, arguments.test, *arguments.parallel, *arguments.mapped,
             *arguments.more, *([arguments.readings] if arguments.readings else [])]
    return {"command": described_call("bert.baseline"), "seed": arguments.seed,
            "data": {path.name: checksum(path) for path in files}, "lines": len(train),
            "curve": curve, "more": more}


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if arguments.answers:
            teach(arguments)
            return
        results = run(arguments)
        if arguments.checkpoint and not arguments.max_steps:
            write_metrics(arguments.checkpoint, {
                "baselines": {"linear model": results["curve"]["1.0"]},
                "learning_curve": results.pop("curve"), "baseline": results})


if __name__ == "__main__":
    main()
