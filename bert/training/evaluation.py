"""What a checkpoint can do: accuracy, calibration, robustness, contrast, two feelings in a text."""

import random
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bert.classifier import EmotionClassifier, PretrainedBert
from bert.emotions import KEYS, NONE
from bert.errors import UserError
from bert.training.examples import (
    ClozeLine,
    ContrastLine,
    LabelledLine,
    mapped_lines,
    read_label_map,
)
from bert.training.metrics import (
    accuracy,
    accuracy_by_level,
    calibration_error,
    checksum,
    confusion_matrix,
    macro_f1,
    recalls,
    reliability,
    shares_by_group,
)

LANGUAGES = ("ko", "en")
MIXED = "mixed"     # the group of the contrast set whose lines have two feelings
MOST_OF_TWO = 0.85  # a text with two feelings must leave the second one some room
ROBUSTNESS_SEED = 0  # which space goes, which letters are swapped
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
        raise UserError(f"{folder} does not have the ten classes: fine-tune it")
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
        draw = random.Random(ROBUSTNESS_SEED)
        changed = probabilities_of(classifier, [change(text, draw) for text in texts])
        shares[name] = accuracy(answer, changed.argmax(axis=1))
    return shares


def measure_public(classifier: EmotionClassifier, path: Path, label_map: Path) -> dict[str, Any]:
    """Accuracy on the lines of a public set that map onto one of our classes."""
    lines = mapped_lines(path, read_label_map(label_map))
    if not lines:
        raise UserError(f"{path}: {label_map} maps none of its lines onto a feeling")
    truth = np.array([KEYS.index(line.label) for line in lines])
    answer = probabilities_of(classifier, [line.text for line in lines]).argmax(axis=1)
    return {"lines": len(lines), "accuracy": accuracy(truth, answer),
            "macro_f1": macro_f1(truth, answer, len(KEYS)), "checksum": checksum(path)}


def measure_llm_labels(classifier: EmotionClassifier,
                       lines: Sequence[LabelledLine]) -> dict[str, dict[str, Any]]:
    """Public lines, by language: the answer where a language model saw one feeling, the confident
    flag there and where it saw none."""
    results = {}
    for language in LANGUAGES:
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


def measure_contrast(classifier: EmotionClassifier,
                     lines: Sequence[ContrastLine]) -> dict[str, dict[str, float]]:
    """Share of accepted answers by language, of all lines and by group. An answer that is not
    confident counts as `none` or as its best class, whichever is accepted."""
    threshold = classifier.config.confidence_threshold
    is_right = []
    probabilities = probabilities_of(classifier, [line.text for line in lines])
    for line, row in zip(lines, probabilities, strict=True):
        best = KEYS[int(row.argmax())]
        answers = {best} if row.max() >= threshold else {best, NONE}
        is_right.append(bool(answers & set(line.accepted)))
    return shares_by_group(lines, is_right)


def measure_two_feelings(classifier: EmotionClassifier,
                         lines: Sequence[ContrastLine]) -> dict[str, dict[str, Any]]:
    """Texts with two feelings, by language: how often both are the first two answers, how often no
    answer is above 85 %, and how often it is both."""
    results = {}
    for language in LANGUAGES:
        own = [line for line in lines if line.group == MIXED and line.language == language]
        if not own:
            continue
        found = probabilities_of(classifier, [line.text for line in own])            # (N, C)
        first_two = np.argsort(-found, axis=1, kind="stable")[:, :2]
        are_both = np.array([{KEYS[i] for i in row} == set(line.accepted)
                             for line, row in zip(own, first_two, strict=True)])
        has_room = found.max(axis=1) <= MOST_OF_TWO
        results[language] = {"lines": len(own), "both_first": share(are_both),
                             "room_for_both": share(has_room), "right": share(are_both & has_room)}
    return results


def measure_cloze(model: PretrainedBert, lines: Sequence[ClozeLine]) -> dict[str, dict[str, Any]]:
    """How often the hidden word is the first guess, and among the first ten, by language."""
    places: dict[str, list[int]] = {language: [] for language in LANGUAGES}
    for line in lines:
        guesses = [piece.removeprefix("##") for piece, _ in model.fill(line.text)]
        places[line.language].append(guesses.index(line.answer) if line.answer in guesses else -1)
    return {language: {"sentences": len(found), "first": share(np.array(found) == 0),
                       "first_ten": share(np.array(found) >= 0)}
            for language, found in places.items() if found}


def measure_levels(classifier: EmotionClassifier, languages: Sequence[str],
                   lines: Sequence[LabelledLine]) -> dict[str, dict[str, float]]:
    """Accuracy by language and level."""
    chosen = [line for line in lines if line.label != NONE and line.language in languages]
    if not chosen:
        raise UserError("no Korean or English line with a feeling to score: give other lines")
    answer = probabilities_of(classifier, [line.text for line in chosen]).argmax(axis=1)
    return accuracy_by_level(chosen, [KEYS[i] for i in answer])
