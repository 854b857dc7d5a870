"""The league table: every method on trial over many texts, with the certainty of each figure."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bert.classifier import EmotionClassifier
from bert.explain.faithfulness import BINS, MEASURES, METHODS, Method, judge, random_scores
from bert.explain.target import Target

TWO_SIDED_95 = 1.96  # standard errors on each side of a mean


def league(classifier: EmotionClassifier, texts: Mapping[str, Sequence[str]], seed: int = 0,
           progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Each group of texts (a language) by itself; each text is explained for its own answer.

    Of every measure the mean and its 95 % interval, and the same for the difference from the random
    ranking of the same texts; an interval that holds zero is no better than chance.
    """
    return {"seed": seed, "bins": list(BINS), "more_is_better": dict(MEASURES),
            "languages": {name: _table(classifier, own, seed, partial(_told, progress, name))
                          for name, own in texts.items() if own}}


def _told(progress: Callable[[str], None], name: str, done: int, total: int) -> None:
    if done % 50 == 0 or done == total:
        progress(f"{name}: {done} of {total} texts explained")


def _table(classifier: EmotionClassifier, texts: Sequence[str], seed: int,
           tell: Callable[[int, int], None]) -> dict[str, Any]:
    methods = {**METHODS, "random": Method(partial(random_scores, seed=seed), is_cheap=True)}
    found: dict[str, list[list[float]]] = {name: [] for name in methods}             # (N, measures)
    seconds = dict.fromkeys(methods, 0.0)
    for number, text in enumerate(texts, 1):
        target = Target.leading(classifier, text)
        for name, method in methods.items():
            start = time.perf_counter()
            scores = method.scores(classifier, text, target)
            seconds[name] += time.perf_counter() - start
            found[name].append(list(judge(classifier, text, target, scores).measures().values()))
        tell(number, len(texts))
    values = {name: np.array(rows) for name, rows in found.items()}
    return {"texts": len(texts), "methods": {name: {
        "cheap": methods[name].is_cheap,
        "milliseconds": 1_000 * seconds[name] / len(texts),
        **{measure: {**interval(own[:, column]),
                     "over_random": interval(own[:, column] - values["random"][:, column])}
           for column, measure in enumerate(MEASURES)},
    } for name, own in values.items()}}


def interval(values: np.ndarray) -> dict[str, float]:
    """The mean and its 95 % confidence interval, by the normal approximation; a single value has
    an interval without width."""
    mean = float(values.mean())
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return {"mean": mean, "low": float(mean - TWO_SIDED_95 * error),
            "high": float(mean + TWO_SIDED_95 * error)}


def league_rows(found: Mapping[str, Any]) -> list[str]:
    """The table as a person reads it, best comprehensiveness first."""
    rows = []
    for language, table in found["languages"].items():
        rows.append(f"{language}, {table['texts']} texts".ljust(24)
                    + "".join(name.rjust(26) for name in MEASURES) + "ms a text".rjust(11))
        best_first = sorted(table["methods"].items(),
                            key=lambda item: -item[1]["comprehensiveness"]["mean"])
        for name, values in best_first:
            cells = (f"{values[measure]['mean']:.3f} [{values[measure]['low']:.3f}, "
                     f"{values[measure]['high']:.3f}]" for measure in MEASURES)
            rows.append(name.ljust(24) + "".join(cell.rjust(26) for cell in cells)
                        + f"{values['milliseconds']:11.1f}")
    return rows
