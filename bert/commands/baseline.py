"""The linear model to beat: TF-IDF of character and word n-grams, a linear support vector machine.

    python -m bert baseline --train assets/data/train*.tsv --test assets/data/test.tsv

Prints accuracy by language and level after 1/8, 1/4, 1/2 and all of the lines, and with --contrast
by group of the contrast set. Needs scikit-learn, which the app itself does not.
"""

import random
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bert.arguments import Parser, described_call, positive
from bert.emotions import NONE
from bert.errors import UserError
from bert.training.examples import (
    LabelledLine,
    read_contrast,
    read_labelled,
    read_translations,
    translated_lines,
)
from bert.training.metrics import (
    accuracy_by_level,
    checksum,
    levels_row,
    shares_by_group,
    write_metrics,
)

SHARES = (0.125, 0.25, 0.5, 1.0)


def fit_linear(lines: Sequence[LabelledLine]):
    """A trained scikit-learn pipeline."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline, make_union
        from sklearn.svm import LinearSVC
    except ImportError:
        raise UserError("scikit-learn is not installed: pip install scikit-learn") from None
    model = make_pipeline(
        make_union(TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True,
                                   min_df=2),
                   TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)),
        LinearSVC(random_state=0))  # as good as logistic regression here, in a tenth of the time
    return model.fit([line.text for line in lines], [line.label for line in lines])


def score(model: Any, lines: Sequence[LabelledLine]) -> dict[str, dict[str, float]]:
    """Accuracy by language and level."""
    return accuracy_by_level(lines, model.predict([line.text for line in lines]))


def with_feeling(lines: Sequence[LabelledLine]) -> list[LabelledLine]:
    return [line for line in lines if line.label != NONE]


def contrast_scores(model: Any, path: Path) -> dict[str, dict[str, float]]:
    """Share of accepted answers by language and group of the contrast set's test lines that have a
    feeling; a linear model is always sure, so `none` is never its answer."""
    lines = [line for line in read_contrast(path, "test") if line.accepted[0] != NONE]
    answers = model.predict([line.text for line in lines])
    return shares_by_group(lines, [answer in line.accepted
                                   for line, answer in zip(lines, answers, strict=True)])


def build_parser() -> Parser:
    parser = Parser(prog="bert baseline", description=__doc__.split("\n")[0])
    parser.add_argument("--train", type=Path, nargs="*", metavar="FILE",
                        default=sorted(Path("assets/data").glob("train*.tsv")),
                        help="labelled lines (default: assets/data/train*.tsv)")
    parser.add_argument("--translations", type=Path, nargs="*", default=[], metavar="FILE",
                        help="korean<TAB>english: translations train with the label of their line")
    parser.add_argument("--test", type=Path, default=Path("assets/data/test.tsv"))
    parser.add_argument("--more", type=Path, nargs="*", default=[], metavar="FILE",
                        help="further lines to score the last model on")
    parser.add_argument("--contrast", type=Path, metavar="FILE",
                        help="the contrast set, to score the models on as well")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=positive, help="dry run: only 200 × N lines")
    parser.add_argument("--checkpoint", type=Path,
                        help="put the figures into this checkpoint's metrics.json, beside its own")
    return parser


def read_train(arguments: Namespace) -> list[LabelledLine]:
    """The lines with a feeling of every file of the call, in random order."""
    train = with_feeling([line for path in arguments.train for line in read_labelled(path)])
    train += translated_lines(train, read_translations(arguments.translations))
    random.Random(arguments.seed).shuffle(train)
    if arguments.max_steps:
        train = train[:arguments.max_steps * 200]
    if not train:
        raise UserError("nothing to learn from: give --train")
    return train


def run(arguments: Namespace) -> dict[str, Any]:
    if arguments.checkpoint and not arguments.checkpoint.is_dir():
        raise UserError(f"{arguments.checkpoint} is not there: give a checkpoint folder")
    train, test = read_train(arguments), with_feeling(read_labelled(arguments.test))
    curve: dict[str, dict[str, dict[str, float]]] = {}
    contrast: dict[str, dict[str, float]] = {}
    for share in SHARES:
        model = fit_linear(train[:int(len(train) * share)])
        curve[str(share)] = score(model, test)
        print(f"{int(len(train) * share):6,} lines", levels_row(curve[str(share)]), sep="   ",
              flush=True)
        if arguments.contrast:
            contrast = contrast_scores(model, arguments.contrast)
            print(f"{'':12}   {levels_row(contrast)}", flush=True)
    more = {path.name: score(model, with_feeling(read_labelled(path))) for path in arguments.more}
    for name, scores in more.items():
        print(name, levels_row(scores), sep="   ")
    files = [*arguments.train, *arguments.translations, arguments.test, *arguments.more,
             *([arguments.contrast] if arguments.contrast else [])]
    return {"command": described_call("baseline"), "seed": arguments.seed,
            "data": {path.name: checksum(path) for path in files}, "lines": len(train),
            "curve": curve, "more": more, "contrast": contrast}


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        results = run(arguments)
        if arguments.checkpoint and not arguments.max_steps:
            write_metrics(arguments.checkpoint, {
                "baselines": {"linear model": results["curve"]["1.0"]},
                "learning_curve": results.pop("curve"), "baseline": results})


if __name__ == "__main__":
    main()
