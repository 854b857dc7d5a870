"""Measure a checkpoint: accuracy, F1, calibration, the confident flag, robustness.

    python -m bert.evaluate --checkpoint checkpoints/emotion --data assets/data/test.tsv

Writes every figure into the checkpoint's metrics.json, with the command and the data's checksum,
and with --figures FOLDER the confusion matrix and the reliability diagram of each language. Public
sets (`text<TAB>label,label`) are scored on the lines that --label-map maps onto one feeling, and
with --readings on the lines of people that our readers labelled and nobody trained on.
"""

import random
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.config import Parser, described_call
from bert.corpus import LabelledLine, read_labelled
from bert.labels import EMOTIONS, KEYS, NONE
from bert.metrics import (
    accuracy,
    accuracy_by_level,
    calibration_error,
    checksum,
    confusion_matrix,
    levels_row,
    macro_f1,
    recalls,
    reliability,
    write_metrics,
)
from bert.predict import EmotionClassifier
from bert.sources import add_readings, mapped_lines, read_label_map, read_readings

FIRST_SYLLABLE, VOWELS, FINALS = 0xAC00, 21, 28


# ---------------------------------------------------------------------------------- small changes


def without_one_space(text: str, draw: random.Random) -> str:
    """Two words written as one, as people do."""
    spaces = [i for i, character in enumerate(text) if character == " "]
    if not spaces:
        return text
    place = draw.choice(spaces)
    return text[:place] + text[place + 1:]


def with_typo(text: str, draw: random.Random) -> str:
    """One slip in one word: two Latin letters swapped, or a Hangul syllable with another vowel."""
    places = [i for i in range(1, len(text) - 1) if text[i].isalpha() and text[i + 1].isalpha()]
    if not places:
        return text
    place = draw.choice(places)
    code = ord(text[place]) - FIRST_SYLLABLE
    if 0 <= code < 19 * VOWELS * FINALS:
        first, rest = divmod(code, VOWELS * FINALS)
        vowel, final = divmod(rest, FINALS)
        slipped = chr(FIRST_SYLLABLE + (first * VOWELS + (vowel + 1) % VOWELS) * FINALS + final)
        return text[:place] + slipped + text[place + 1:]
    return text[:place] + text[place + 1] + text[place] + text[place + 2:]


CHANGES: dict[str, Callable[[str, random.Random], str]] = {
    "space": without_one_space,
    "upper case": lambda text, draw: text.upper(),
    "trailing ㅋㅋ": lambda text, draw: text + " ㅋㅋ",
    "trailing !!": lambda text, draw: text + "!!",
    "NFD": lambda text, draw: unicodedata.normalize("NFD", text),
    "typo": with_typo,
}


# ---------------------------------------------------------------------------------- measuring


def probabilities_of(classifier: EmotionClassifier, texts: Sequence[str]) -> np.ndarray:
    """(N, C) probabilities of many texts."""
    return np.array([prediction.probabilities for prediction in classifier.predict_many(texts)])


def load_ten(folder: Path) -> EmotionClassifier:
    """A checkpoint that answers with our ten classes."""
    classifier = EmotionClassifier.load(folder)
    if classifier.keys != KEYS or not classifier.checkpoint.has_classifier:
        raise ValueError(f"{folder} does not have the ten classes: fine-tune it")
    return classifier


def share(is_so: np.ndarray) -> float | None:
    """The share of the lines of which it is so; None where there are no lines."""
    return float(is_so.mean()) if len(is_so) else None


def measure(classifier: EmotionClassifier, lines: Sequence[LabelledLine]) -> dict[str, Any]:
    """Every figure for the labelled lines of one language (`none` lines included)."""
    probabilities = probabilities_of(classifier, [line.text for line in lines])
    is_none = np.array([line.label == NONE for line in lines])
    is_easy = np.array([line.level == "easy" for line in lines])[~is_none]
    truth = np.array([KEYS.index(line.label) for line in lines if line.label != NONE])
    feeling, top = probabilities[~is_none], probabilities.max(axis=1)
    answer = feeling.argmax(axis=1)
    is_right = truth == answer
    threshold = classifier.config.confidence_threshold
    stories = feeling[is_easy & (truth == KEYS.index("achievement")), KEYS.index("achievement")]
    easy_recalls = recalls(truth[is_easy], answer[is_easy], len(KEYS))
    return {
        "lines": int(len(truth)), "none_lines": int(is_none.sum()),
        "accuracy": accuracy(truth, answer),
        "accuracy_easy": accuracy(truth[is_easy], answer[is_easy]),
        "accuracy_hard": accuracy(truth[~is_easy], answer[~is_easy]),
        "macro_f1": macro_f1(truth, answer, len(KEYS)),
        "calibration_error": calibration_error(feeling.max(axis=1), is_right),
        "none_not_confident": share(top[is_none] < threshold),
        "feeling_confident": share(top[~is_none] >= threshold),
        "achievement_above_half": share(stories > 0.5),
        "recall_easy": {key: float(value) for key, value in zip(KEYS, easy_recalls, strict=True)},
        "confusion": confusion_matrix(truth, answer, len(KEYS)).tolist(),
        "reliability": reliability(feeling.max(axis=1), is_right),
        "robustness": robustness(classifier, [line.text for line in lines if line.label != NONE],
                                 answer),
    }


def robustness(classifier: EmotionClassifier, texts: Sequence[str],
               answer: np.ndarray) -> dict[str, float]:
    """Share of texts that keep their class after a small change."""
    shares = {}
    for name, change in CHANGES.items():
        draw = random.Random(0)
        changed = probabilities_of(classifier, [change(text, draw) for text in texts])
        shares[name] = accuracy(answer, changed.argmax(axis=1))
    return shares


def measure_public(classifier: EmotionClassifier, path: Path, label_map: Path) -> dict[str, Any]:
    """Accuracy on the lines of a public set that map onto one of our classes."""
    lines = mapped_lines(path, read_label_map(label_map))
    if not lines:
        raise ValueError(f"{path}: {label_map} maps none of its lines onto a feeling")
    truth = np.array([KEYS.index(line.label) for line in lines])
    answer = probabilities_of(classifier, [line.text for line in lines]).argmax(axis=1)
    return {"lines": len(lines), "accuracy": accuracy(truth, answer),
            "macro_f1": macro_f1(truth, answer, len(KEYS)), "checksum": checksum(path)}


def measure_readings(classifier: EmotionClassifier,
                     lines: Sequence[LabelledLine]) -> dict[str, dict[str, Any]]:
    """Lines of people, by language: the answer where our readers saw one feeling, the confident
    flag there and where they saw none."""
    results = {}
    for language in ("ko", "en"):
        own = [line for line in lines if line.language == language]
        labels = np.array([line.label for line in own])
        is_feeling, is_none = np.isin(labels, KEYS), labels == NONE
        if not is_feeling.any():
            continue
        found = probabilities_of(classifier, [line.text for line in own])
        is_right = np.array(KEYS)[found.argmax(axis=1)] == labels
        is_sure = found.max(axis=1) >= classifier.config.confidence_threshold
        results[language] = {
            "lines": int(is_feeling.sum()), "accuracy": share(is_right[is_feeling]),
            "accuracy_confident": share(is_right[is_feeling & is_sure]),
            "feeling_confident": share(is_sure[is_feeling]),
            "none_lines": int(is_none.sum()), "none_not_confident": share(~is_sure[is_none])}
    return results


def measure_levels(classifier: EmotionClassifier, languages: Sequence[str],
                   lines: Sequence[LabelledLine]) -> dict[str, dict[str, float]]:
    """Accuracy by language and level."""
    chosen = [line for line in lines if line.label != NONE and line.language in languages]
    if not chosen:
        raise ValueError("no Korean or English line with a feeling to score: give other lines")
    answer = probabilities_of(classifier, [line.text for line in chosen]).argmax(axis=1)
    return accuracy_by_level(chosen, [KEYS[i] for i in answer])


# ---------------------------------------------------------------------------------- report


def print_report(results: dict[str, Any]) -> None:
    """A table a person can read."""
    languages = results["languages"]
    print("measure".ljust(28) + "".join(name.rjust(10) for name in languages))
    for key, first in next(iter(languages.values())).items():
        if isinstance(first, int | float):
            row = "".join(f"{values[key]:10.3f}" if isinstance(values[key], float)
                          else str(values[key]).rjust(10) for values in languages.values())
            print(key.ljust(28) + row)
        elif isinstance(first, dict):
            for name in first:
                row = "".join(f"{values[key][name]:10.3f}" for values in languages.values())
                print(f"  {key}: {name}".ljust(28) + row)
    for name, scores in results["more"].items():
        print(name, levels_row(scores), sep="   ")
    for language, values in results.get("readings", {}).get("languages", {}).items():
        print("readings", language, " ".join(f"{name} {value:.3f}" if isinstance(value, float)
                                             else f"{name} {value}"
                                             for name, value in values.items()))
    for name, values in results["public"].items():
        print(f"{name}: {values['accuracy']:.3f} of {values['lines']} lines")


def draw_figures(language: str, found: Mapping[str, Any], folder: Path) -> None:
    """Confusion matrix and reliability diagram of one language."""
    from bert.figures import draw_confusion, draw_reliability, save_figure
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{emotion.korean} {emotion.english}" for emotion in EMOTIONS]
    save_figure(draw_confusion(names, np.array(found["confusion"]), f"test lines, {language}"),
                folder / f"confusion_{language}.png")
    save_figure(draw_reliability(found["reliability"], f"calibration, {language}"),
                folder / f"calibration_{language}.png")


def build_parser() -> Parser:
    parser = Parser(prog="bert.evaluate", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/emotion"),
                        help="checkpoint folder (default: checkpoints/emotion)")
    parser.add_argument("--data", type=Path, default=Path("assets/data/test.tsv"),
                        help="labelled lines (default: assets/data/test.tsv)")
    parser.add_argument("--more", type=Path, nargs="*", default=[], metavar="FILE",
                        help="further labelled lines: accuracy by language and level")
    parser.add_argument("--public", type=Path, nargs="*", default=[], metavar="FILE",
                        help="public test sets, text<TAB>label,label")
    parser.add_argument("--label-map", type=Path, help="columns dataset, original_label, class10, "
                        "quality; needed with --public")
    add_readings(parser, "test")
    for name, what in (("baseline", "what people would use instead"),
                       ("ablation", "the same model with something left out")):
        parser.add_argument(f"--{name}", nargs="+", action="append", default=[],
                            metavar=("FOLDER", "LANGUAGE"), help=f"{what}: a checkpoint to score "
                            "on the same lines, in all or the given languages")
    parser.add_argument("--figures", type=Path, help="folder for the diagrams")
    parser.add_argument("--dry", action="store_true", help="print only; leave metrics.json alone")
    parser.add_argument("--max-steps", type=int, metavar="N",
                        help="dry run: only the first N × 32 lines; writes nothing")
    return parser


def check_names(folders: Iterable[Path]) -> None:
    """Refuse two folders that would stand in one row of a table."""
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two of the folders are called {name!r}, which is what their rows "
                             "are called: rename one")


def evaluate(arguments, lines: Sequence[LabelledLine]) -> dict[str, Any]:
    classifier = load_ten(arguments.checkpoint)
    results: dict[str, Any] = {
        "command": described_call("bert.evaluate"),
        "data": {arguments.data.name: checksum(arguments.data)}, "seed": 0, "languages": {}}
    for language in ("ko", "en"):
        own = [line for line in lines if line.language == language]
        if any(line.label != NONE for line in own):
            print(f"{arguments.data.name}: {len(own):,} lines, {language}", flush=True)
            results["languages"][language] = measure(classifier, own)
    if not results["languages"]:
        raise ValueError(f"{arguments.data} has no Korean or English line with a feeling")
    foreign = [line.text for line in lines if line.language == "xx"]
    if foreign:
        top = probabilities_of(classifier, foreign).max(axis=1)
        results["other_languages_not_confident"] = float(
            (top < classifier.config.confidence_threshold).mean())
    results["more"] = {path.name: {"checksum": checksum(path), **measure_levels(
        classifier, list(results["languages"]), read_labelled(path))} for path in arguments.more}
    results["public"] = {path.name: measure_public(classifier, path, arguments.label_map)
                         for path in arguments.public}
    if arguments.readings:
        results["readings"] = {
            "checksum": checksum(arguments.readings), "languages": measure_readings(
                classifier, read_readings(arguments.readings, arguments.found_in, "test"))}
    return results


def main(argv: Sequence[str] | None = None) -> None:
    parser = build_parser()
    arguments = parser.parse_args(argv)
    with parser.one_sentence():
        if arguments.public and arguments.label_map is None:
            raise ValueError("--public needs --label-map")
        for given in (arguments.baseline, arguments.ablation):
            check_names(Path(folder) for folder, *_ in given)
        lines = read_labelled(arguments.data)
        if arguments.max_steps:
            lines = lines[:arguments.max_steps * 32]
        results = evaluate(arguments, lines)
        tables = {name: {Path(folder).name: measure_levels(
            load_ten(Path(folder)), languages or list(results["languages"]), lines)
            for folder, *languages in given}
            for name, given in (("baselines", arguments.baseline),
                                ("ablations", arguments.ablation))}
        print_report(results)
        for name, scores in (row for table in tables.values() for row in table.items()):
            print(name, levels_row(scores), sep="   ")
        if arguments.dry or arguments.max_steps:
            return
        write_metrics(arguments.checkpoint, {"evaluate": results, **tables})
        for language, found in results["languages"].items() if arguments.figures else ():
            draw_figures(language, found, arguments.figures)


if __name__ == "__main__":
    main()
