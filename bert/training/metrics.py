"""Accuracy, F1, confusion, calibration: numbers from arrays, and the file they are kept in."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.training.examples import ContrastLine, LabelledLine

METRICS = "metrics.json"


def confusion_matrix(truth: np.ndarray, answer: np.ndarray, num_classes: int) -> np.ndarray:
    """Counts, row = true class, column = answer."""
    counts = np.zeros((num_classes, num_classes), dtype=int)
    np.add.at(counts, (truth, answer), 1)
    return counts


def accuracy(truth: np.ndarray, answer: np.ndarray) -> float:
    return float((truth == answer).mean()) if len(truth) else float("nan")


def accuracy_by_level(lines: Sequence[LabelledLine],
                      answer: Sequence[str]) -> dict[str, dict[str, float]]:
    """Accuracy for each language and level that occurs."""
    is_right = np.array([line.label == key for line, key in zip(lines, answer, strict=True)])
    scores: dict[str, dict[str, float]] = {}
    for language in ("ko", "en"):
        for level in ("easy", "hard"):
            chosen = [i for i, line in enumerate(lines)
                      if (line.language, line.level) == (language, level)]
            if chosen:
                scores.setdefault(language, {})[level] = float(is_right[chosen].mean())
    return scores


def shares_by_group(lines: Sequence[ContrastLine],
                    is_right: Sequence[bool]) -> dict[str, dict[str, float]]:
    """Share of right answers to the contrast lines of each language, of all and by group."""
    parts: dict[str, dict[str, list[bool]]] = {}
    for line, right in zip(lines, is_right, strict=True):
        groups = parts.setdefault(line.language, {"all": []})
        groups["all"].append(right)
        groups.setdefault(line.group, []).append(right)
    return {language: {group: float(np.mean(part)) for group, part in groups.items()}
            for language, groups in parts.items()}


def levels_row(scores: Mapping[str, Any]) -> str:
    """Accuracies by language and level on one line, what else is in the table left out."""
    return "   ".join(f"{language} {level} {share:.1%}" for language, levels in scores.items()
                      if isinstance(levels, Mapping) for level, share in levels.items())


def recalls(truth: np.ndarray, answer: np.ndarray, num_classes: int) -> np.ndarray:
    """Share of each class that was found; NaN for a class that does not occur."""
    counts = confusion_matrix(truth, answer, num_classes)
    with np.errstate(invalid="ignore"):
        return counts.diagonal() / counts.sum(axis=1)


def macro_f1(truth: np.ndarray, answer: np.ndarray, num_classes: int) -> float:
    """F1 of each class that occurs or is answered, averaged."""
    counts = confusion_matrix(truth, answer, num_classes)
    total = counts.sum(axis=0) + counts.sum(axis=1)
    occurs = total > 0
    return float((2 * counts.diagonal()[occurs] / total[occurs]).mean())


def reliability(confidence: np.ndarray, is_right: np.ndarray, bins: int = 15) -> list[dict]:
    """The answers in equal bins of the probability said: how many, their mean, the share right."""
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    return [{"lines": int(inside.sum()), "said": float(confidence[inside].mean()),
             "right": float(is_right[inside].mean())}
            for number in range(bins) if (inside := place == number).any()]


def calibration_error(confidence: np.ndarray, is_right: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: |share right − probability said|, weighted over equal bins."""
    return sum(part["lines"] / len(confidence) * abs(part["right"] - part["said"])
               for part in reliability(confidence, is_right, bins))


def fit_temperature(logits: np.ndarray, truth: np.ndarray) -> float:
    """The number that the logits are divided by so that the truth is most likely."""
    def surprise(temperature: float) -> float:
        scaled = logits / temperature
        scaled = scaled - scaled.max(axis=1, keepdims=True)
        chosen = scaled[np.arange(len(truth)), truth]
        return float((np.log(np.exp(scaled).sum(axis=1)) - chosen).mean())
    low, high = np.log(0.05), np.log(20.0)  # golden-section search on the log scale
    ratio = (np.sqrt(5.0) - 1.0) / 2.0
    for _ in range(60):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if surprise(np.exp(left)) < surprise(np.exp(right)):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))


def fit_threshold(feeling: np.ndarray, none: np.ndarray, keep: float = 0.87) -> float:
    """The top probability below which a text counts as "no clear feeling".

    Of the thresholds that leave at least `keep` of the feeling texts confident, the one at which
    the share of feeling texts above and of other texts below, taken together, is largest.
    """
    if not len(feeling) or not len(none):
        return 0.0
    candidates = np.quantile(feeling, np.linspace(0.0, 1.0 - keep, 200))             # (K,)
    above = (feeling >= candidates[:, None]).mean(axis=1)
    below = (none < candidates[:, None]).mean(axis=1)
    return float(candidates[(above + below).argmax()])


def checksum(path: Path) -> str:
    """A short name for the contents of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def read_metrics(folder: Path) -> dict[str, Any]:
    """What a checkpoint's metrics.json holds; nothing if there is none."""
    path = folder / METRICS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def metrics_file(facts: Mapping[str, Any]) -> dict[str, str]:
    """Figures as the metrics.json that goes along with a new checkpoint."""
    return {METRICS: json.dumps(facts, indent=2, ensure_ascii=False) + "\n"}


def write_metrics(folder: Path, found: Mapping[str, Any]) -> None:
    """Put figures into a checkpoint's metrics.json; the table of baselines grows by rows, the rest
    is replaced."""
    path, known = folder / METRICS, read_metrics(folder)
    for name, values in found.items():
        known[name] = {**known.get(name, {}), **values} if name == "baselines" else values
    fresh = path.with_suffix(".new")
    fresh.write_text(metrics_file(known)[METRICS], encoding="utf-8")
    fresh.replace(path)
