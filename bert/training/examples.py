"""Labelled lines: the files they stand in, and the targets that fine-tuning learns from.

    train, dev, test, personas   label, lang, level, pair, text    a label is a class or `none`
    mixed                        first, second, lang, text         two feelings in one text
    contrast                     split, group, accepted, lang, text
    cloze                        lang, text, answer                one word behind [MASK]
    translations                 ko, en                            two lines of one meaning
    llm_labels                   split, labels, mark               labels that a language model gave
                                                                   to public lines, known by a mark
    NAME.SPLIT.tsv               text, labels                      a public set with its own labels
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from bert.emotions import KEYS, NONE
from bert.errors import UserError
from bert.tokenizer import WordPieceTokenizer
from bert.training.augmentation import Augmentation
from bert.training.batching import PlannedData, batches_by_length
from bert.training.corpus import read_first_column, read_text_lines, text_mark

HANGUL = re.compile("[ㄱ-ㅣ가-힣]")
FIRST_SHARE = 0.6  # of the first of two feelings in the target; the second has the rest


@dataclass(frozen=True)
class LabelledLine:
    label: str       # a class, "none", or two classes joined by a comma
    language: str    # ko, en, xx
    level: str       # easy, hard
    pair: str        # the number that two lines of a minimal pair share, or ""
    text: str


# ---------------------------------------------------------------------------------- files


def read_table(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a tab-separated file with this header, each with the number of its line. Nothing
    is quoted: what stands between two tabs is the value."""
    lines = read_text_lines(path)
    header = next(lines, "").split("\t")
    if header != list(columns):
        raise UserError(f"{path}, line 1: found {', '.join(header) or 'nothing'}; expected the "
                        f"columns {', '.join(columns)}")
    for number, line in enumerate(lines, 2):
        row = line.split("\t")
        if len(row) != len(columns):
            raise UserError(f"{path}, line {number}: {len(row)} columns; expected {len(columns)}")
        yield number, row


def check_labels(path: Path, number: int, labels: Sequence[str],
                 known: Sequence[str] = (*KEYS, NONE)) -> None:
    for label in labels:
        if label not in known:
            raise UserError(f"{path}, line {number}: unknown label {label!r}; expected one of "
                            f"{', '.join(known)}")


def read_labelled(path: Path) -> list[LabelledLine]:
    """Lines with one label each."""
    lines = []
    for number, row in read_table(path, ("label", "lang", "level", "pair", "text")):
        check_labels(path, number, row[:1])
        if not row[4].strip():
            raise UserError(f"{path}, line {number}: the text is empty; write one or remove the "
                            "line")
        lines.append(LabelledLine(*row))
    if not lines:
        raise UserError(f"{path} has a header but no line: nothing to learn from")
    return lines


@dataclass(frozen=True)
class MixedLine:
    first: str       # the stronger feeling
    second: str
    language: str
    text: str


def read_mixed(path: Path) -> list[MixedLine]:
    """Texts with two feelings."""
    lines = []
    for number, row in read_table(path, ("first", "second", "lang", "text")):
        check_labels(path, number, row[:2], KEYS)
        lines.append(MixedLine(*row))
    return lines


@dataclass(frozen=True)
class ContrastLine:
    split: str                 # dev, test
    group: str                 # short, negation, irony, idiom, mixed
    accepted: tuple[str, ...]  # the answers that count as right, best first; `none` may be one
    language: str
    text: str


def read_contrast(path: Path, split: str) -> list[ContrastLine]:
    """Lines that test what words mean together."""
    lines = []
    for number, row in read_table(path, ("split", "group", "accepted", "lang", "text")):
        accepted = tuple(row[2].split(","))
        check_labels(path, number, accepted)
        if row[0] == split:
            lines.append(ContrastLine(row[0], row[1], accepted, *row[3:]))
    return lines


@dataclass(frozen=True)
class ClozeLine:
    language: str
    text: str     # with one [MASK]
    answer: str   # the word that was hidden


def read_cloze(path: Path) -> list[ClozeLine]:
    """Everyday sentences with one content word hidden."""
    return [ClozeLine(*row) for _, row in read_table(path, ("lang", "text", "answer"))]


def read_public(path: Path) -> list[tuple[str, list[str]]]:
    """Lines of `text<TAB>label,label`."""
    rows = []
    for number, line in enumerate(read_text_lines(path), 1):
        text, tab, labels = line.partition("\t")
        if not tab or not labels.strip():
            raise UserError(f"{path}, line {number}: expected text<TAB>label,label")
        if text.strip():
            rows.append((text.strip(), labels.split(",")))
    if not rows:
        raise UserError(f"{path} is empty: expected lines of text<TAB>label,label")
    return rows


def read_label_map(path: Path) -> dict[tuple[str, str], str]:
    """(data set, original label) -> one of our classes, where the map says `clean`."""
    rows = read_table(path, ("dataset", "original_label", "class10", "quality"))
    return {(data_set, label): key for _, (data_set, label, key, quality) in rows
            if quality == "clean" and key in KEYS}


def mapped_lines(path: Path, label_map: Mapping[tuple[str, str], str],
                 partly: bool = False) -> list[LabelledLine]:
    """Public lines all of whose labels are known to mean one and the same feeling; `partly`: also
    those of whose labels some are not in the map and the others mean one feeling."""
    data_set = path.name.split(".")[0]
    lines = []
    for text, labels in read_public(path):
        found = {label_map.get((data_set, label)) for label in labels}
        if partly:
            found.discard(None)
        if len(found) == 1 and None not in found:
            lines.append(LabelledLine(str(found.pop()), data_set[:2], "easy", "", text))
    return lines


def read_llm_labels(path: Path, found_in: Sequence[Path], split: str) -> list[LabelledLine]:
    """Public lines with the label, or the two labels, that a language model gave them: the file
    knows a line by its mark, the lines themselves are looked up where they come from."""
    labels: dict[int, str] = {}
    for number, (part, given, mark) in read_table(path, ("split", "labels", "mark")):
        if part == split:
            check_labels(path, number, given.split(","))
            labels[int(mark, 16)] = given
    lines: dict[str, LabelledLine] = {}
    for file in found_in:
        for text in read_first_column(file):
            if label := labels.get(text_mark(text)):
                lines[text] = LabelledLine(label, file.name[:2], "easy", "", text)
    if not lines:
        raise UserError(f"{path}: none of its {split} lines is in the files to look in")
    return list(lines.values())


def read_translations(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """(korean, english) pairs."""
    pairs = []
    for path in paths:
        for number, line in enumerate(read_text_lines(path), 1):
            parts = [part.strip() for part in line.split("\t")]
            if len(parts) != 2 or not all(parts):
                raise UserError(f"{path}, line {number}: expected korean<TAB>english")
            if parts != ["ko", "en"]:
                pairs.append((parts[0], parts[1]))
    return pairs


def translated_lines(lines: Sequence[LabelledLine],
                     pairs: Sequence[tuple[str, str]]) -> list[LabelledLine]:
    """The other half of each (korean, english) pair of which one half is a labelled line."""
    to_english, to_korean = dict(pairs), {english: korean for korean, english in pairs}
    return [replace(line, language=other, pair="", text=translation[line.text])
            for line in lines
            for language, other, translation in (("ko", "en", to_english), ("en", "ko", to_korean))
            if line.language == language and line.text in translation]


# ---------------------------------------------------------------------------------- targets


@dataclass(frozen=True)
class Examples:
    """Texts with a distribution over the classes to learn, and how much each counts."""

    texts: list[str]
    targets: np.ndarray   # (N, C) float32, rows sum to one
    weights: np.ndarray   # (N,) float32

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        return cls([text for part in parts for text in part.texts],
                   np.concatenate([part.targets for part in parts]),
                   np.concatenate([part.weights for part in parts]))


def labelled_examples(lines: Sequence[LabelledLine], smoothing: float = 0.0,
                      none_weight: float = 1.0, weight: float = 1.0) -> Examples:
    """Smoothed one-hot targets, uniform ones for `none`; two labels share the target."""
    targets = np.full((len(lines), len(KEYS)), 1.0 / len(KEYS), dtype=np.float32)
    weights = np.full(len(lines), weight, dtype=np.float32)
    for row, line in enumerate(lines):
        if line.label == NONE:
            weights[row] *= none_weight
            continue
        labels = [label for label in line.label.split(",") if label != NONE]
        targets[row] = smoothing / len(KEYS)
        targets[row, [KEYS.index(label) for label in labels]] += (1.0 - smoothing) / len(labels)
    return Examples([line.text for line in lines], targets, weights)


def mixed_examples(lines: Sequence[MixedLine], smoothing: float = 0.0,
                   weight: float = 1.0) -> Examples:
    """Soft targets: six tenths for the first feeling, four for the second."""
    targets = np.full((len(lines), len(KEYS)), smoothing / len(KEYS), dtype=np.float32)
    for row, line in enumerate(lines):
        targets[row, KEYS.index(line.first)] += (1.0 - smoothing) * FIRST_SHARE
        targets[row, KEYS.index(line.second)] += (1.0 - smoothing) * (1.0 - FIRST_SHARE)
    return Examples([line.text for line in lines], targets,
                    np.full(len(lines), weight, dtype=np.float32))


# ---------------------------------------------------------------------------------- batches


@dataclass(frozen=True)
class LabelledBatch:
    ids: np.ndarray             # (B, T)
    attention_mask: np.ndarray  # (B, T)
    targets: np.ndarray         # (B, C)
    weights: np.ndarray         # (B,)

    @property
    def num_tokens(self) -> int:
        return int(self.attention_mask.sum())

    def rows(self, rank: int, world_size: int) -> "LabelledBatch":
        """The share of one of several processes."""
        return LabelledBatch(*(value[rank::world_size] for value in vars(self).values()))


class LabelledData(PlannedData):
    """The batches of all examples, each of one length; augmented anew in every epoch."""

    num_batches: int

    def __init__(self, examples: Examples, augmentation: Augmentation,
                 tokenizer: WordPieceTokenizer, batch_tokens: int, seed: int) -> None:
        self.examples, self.augmentation, self.tokenizer = examples, augmentation, tokenizer
        self.batch_tokens, self.seed = batch_tokens, seed
        self.num_batches = len(self.planned(0))

    def plan(self, epoch: int) -> list[tuple[np.ndarray, list[list[int]]]]:
        """All batches of an epoch: which lines, and their pieces."""
        rng = np.random.default_rng([self.seed, epoch])
        rows, lengths = self.augmentation.read(self.examples.texts, rng)
        return [(chosen, [rows[i] for i in chosen])
                for chosen in batches_by_length(lengths, self.batch_tokens, rng)]

    def batch(self, epoch: int, number: int) -> LabelledBatch:
        chosen, rows = self.planned(epoch)[number]
        rng = np.random.default_rng([self.seed, epoch, 2, number])
        ids, mask = self.tokenizer.frame(rows)
        return LabelledBatch(self.augmentation.drop_tokens(ids, rng), mask,
                             self.examples.targets[chosen], self.examples.weights[chosen])
