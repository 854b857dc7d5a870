"""Labelled lines as fine-tuning reads them: our own, public ones, and those a teacher answered.

Every source of lines has a head of the model that learns from it and a row of targets per line.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bert.augment import Rewritten
from bert.config import Parser
from bert.corpus import (
    LabelledLine,
    PlannedData,
    batches_by_length,
    read_first_column,
    read_table,
    read_text_lines,
)
from bert.labels import KEYS, NONE
from bert.tokenizer import WordPieceTokenizer

MAIN = "emotion"
HANGUL = re.compile("[ㄱ-ㅣ가-힣]")


@dataclass(frozen=True)
class Source:
    """Lines that share one head: targets are probabilities (one row sums to one) or yes/no."""

    head: str
    texts: list[str]
    targets: np.ndarray   # (N, K) float32
    weights: np.ndarray   # (N,) float32
    is_exclusive: bool    # one class a line (softmax), or any number (yes/no each)
    vectors: np.ndarray | None = None  # (N, width) of teachers; zeros where they have none
    is_own: bool = False  # our lines and their renderings, whose labels are sure


@dataclass(frozen=True)
class LabelledBatch:
    source: Source
    ids: np.ndarray       # (B, T)
    is_token: np.ndarray  # (B, T)
    targets: np.ndarray   # (B, K)
    weights: np.ndarray   # (B,)
    vectors: np.ndarray | None  # (B, width)

    @property
    def num_tokens(self) -> int:
        return int(self.is_token.sum())

    def rows(self, rank: int, world_size: int) -> "LabelledBatch":
        """The share of one of several processes."""
        own = {name: value[rank::world_size] for name, value in vars(self).items()
               if isinstance(value, np.ndarray)}
        return replace(self, **own)


# ---------------------------------------------------------------------------------- targets


def emotion_source(lines: Sequence[LabelledLine], smoothing: float = 0.0,
                   none_weight: float = 1.0, balance: bool = False) -> Source:
    """Lines with one of our labels: smoothed one-hot targets, uniform ones for `none`; two labels
    ("joy,connection") share the target."""
    targets = np.full((len(lines), len(KEYS)), 1.0 / len(KEYS), dtype=np.float32)
    weights = np.full(len(lines), none_weight, dtype=np.float32)
    counts = Counter(line.label for line in lines)
    mean_count = sum(counts[key] for key in KEYS) / len(KEYS)
    for row, line in enumerate(lines):
        if line.label == NONE:
            continue
        labels = line.label.split(",")
        targets[row] = smoothing / len(KEYS)
        targets[row, [KEYS.index(label) for label in labels]] += (1.0 - smoothing) / len(labels)
        weights[row] = mean_count / counts[line.label] if balance and len(labels) == 1 else 1.0
    return Source(MAIN, [line.text for line in lines], targets, weights, is_exclusive=True)


def with_teacher(source: Source, answers: Mapping[str, np.ndarray], share: float,
                 doubtful: bool = False) -> Source:
    """The same lines; where a teacher found the feeling that the label names, its answer makes up
    `share` of the target. Labels that are `doubtful` are mixed with it wherever it has one."""
    targets = source.targets.copy()
    for row, text in enumerate(source.texts):
        if text not in answers or targets[row].max() <= 0.5:  # no feeling
            continue
        if doubtful or answers[text].argmax() == targets[row].argmax():
            targets[row] = (1.0 - share) * targets[row] + share * answers[text]
    return replace(source, targets=targets)


def taught_source(answers: Mapping[str, np.ndarray], known: set[str]) -> Source:
    """Lines that have no label but a teacher's answer."""
    texts = [text for text in answers if text not in known]
    targets = np.array([answers[text] for text in texts], dtype=np.float32)
    return Source(MAIN, texts, targets.reshape(len(texts), len(KEYS)),
                  np.ones(len(texts), dtype=np.float32), is_exclusive=True)


def auxiliary_source(path: Path, weight: float) -> Source:
    """A public set with its own labels, any number a line."""
    rows = read_public(path)
    names = sorted({label for _, labels in rows for label in labels})
    targets = np.zeros((len(rows), len(names)), dtype=np.float32)
    for row, (_, labels) in enumerate(rows):
        targets[row, [names.index(label) for label in labels]] = 1.0
    return Source(path.name.split(".")[0], [text for text, _ in rows], targets,
                  np.full(len(rows), weight, dtype=np.float32), is_exclusive=False)


# ---------------------------------------------------------------------------------- files


def read_public(path: Path) -> list[tuple[str, list[str]]]:
    """Lines of `text<TAB>label,label`."""
    rows = []
    for number, line in enumerate(read_text_lines(path), 1):
        text, tab, labels = line.partition("\t")
        if not tab or not labels.strip():
            raise ValueError(f"{path}, line {number}: expected text<TAB>label,label")
        if text.strip():
            rows.append((text.strip(), labels.split(",")))
    if not rows:
        raise ValueError(f"{path} is empty: expected lines of text<TAB>label,label")
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
            lines.append(LabelledLine(found.pop(), data_set[:2], "easy", "", text))
    return lines


def read_mapped(paths: Sequence[Path], map_path: Path | None, partly: bool) -> list[LabelledLine]:
    """The lines of all --mapped files that --label-map knows."""
    if not paths:
        return []
    if map_path is None:
        raise ValueError("--mapped needs --label-map")
    label_map = read_label_map(map_path)
    return [line for path in paths for line in mapped_lines(path, label_map, partly)]


def line_mark(text: str) -> str:
    """What a line is known by where it may not be kept: the start of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def add_readings(parser: Parser, split: str) -> None:
    """The two flags of a command that uses the readings of one split."""
    parser.add_argument("--readings", type=Path, metavar="FILE",
                        help="columns split, labels, mark: what our readers found in public lines; "
                             f"those of the split {split} are used")
    parser.add_argument("--found-in", type=Path, nargs="*", default=[], metavar="FILE",
                        help="where the lines of --readings are found; of a .tsv the first column")


def read_readings(path: Path, found_in: Sequence[Path], split: str) -> list[LabelledLine]:
    """Public lines with the label, or the two labels, that our readers gave them: the readings know
    a line by its mark, the lines themselves are looked up in the files they come from."""
    labels = {mark: given for _, (part, given, mark) in
              read_table(path, ("split", "labels", "mark")) if part == split}
    if unknown := {label for both in labels.values() for label in both.split(",")} - {*KEYS, NONE}:
        raise ValueError(f"{path}: {sorted(unknown)[0]!r} is none of our classes")
    lines: dict[str, LabelledLine] = {}
    for file in found_in:
        for text in read_first_column(file):
            if label := labels.get(line_mark(text)):
                lines[text] = LabelledLine(label, file.name[:2], "easy", "", text)
    if not lines:
        raise ValueError(f"{path}: none of its {split} lines is in the files of --found-in")
    return list(lines.values())


def read_answers(path: Path) -> dict[str, np.ndarray]:
    """A teacher's answers, as `bert.predict --input FILE --json` writes them: text -> (C,)."""
    answers = {}
    for number, line in enumerate(read_text_lines(path), 1):
        try:
            answer = json.loads(line)
            if "error" not in answer:
                answers[answer["text"].strip()] = np.array(
                    [answer["probabilities"][key] for key in KEYS], dtype=np.float32)
        except (json.JSONDecodeError, AttributeError, KeyError, TypeError):
            raise ValueError(f"{path}, line {number}: expected an answer of bert.predict --json "
                             "about our ten classes") from None
    return answers


def write_answers(path: Path, answers: Mapping[str, np.ndarray]) -> None:
    """In the form that `read_answers` reads."""
    rows = [json.dumps({"text": text, "probabilities": dict(zip(KEYS, row.tolist(), strict=True))},
                       ensure_ascii=False) for text, row in answers.items()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def joint_answers(teachers: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """One answer for every text that any of the teachers knows: the geometric mean of theirs, in
    which one that is sure of what it is *not* is heard."""
    together: dict[str, list[np.ndarray]] = {}
    for answers in teachers:
        for text, answer in answers.items():
            together.setdefault(text, []).append(answer)
    return {text: answers[0] if len(answers) == 1 else geometric_mean(answers)
            for text, answers in together.items()}


def geometric_mean(answers: Sequence[np.ndarray]) -> np.ndarray:
    mean = np.exp(np.mean(np.log(np.maximum(answers, 1e-4)), axis=0))
    return (mean / mean.sum()).astype(np.float32)


def read_parallel(path: Path) -> tuple[list[str], list[str]]:
    """Korean lines and their English renderings."""
    korean, english = [], []
    for number, line in enumerate(read_text_lines(path), 1):
        parts = [part.strip() for part in line.split("\t")]
        if len(parts) != 2 or not all(parts):
            raise ValueError(f"{path}, line {number}: expected korean<TAB>english")
        if parts != ["ko", "en"]:
            korean.append(parts[0])
            english.append(parts[1])
    return korean, english


def read_pairs(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """The (korean, english) pairs of all --parallel files."""
    return [pair for path in paths for pair in zip(*read_parallel(path), strict=True)]


def in_english(text: str, renderings: Mapping[str, str]) -> str:
    """What an English teacher can read of a line: its rendering, or itself without Hangul."""
    return renderings.get(text) or ("" if HANGUL.search(text) else text)


def rendered_lines(lines: Sequence[LabelledLine],
                   pairs: Sequence[tuple[str, str]]) -> list[LabelledLine]:
    """The other half of each (korean, english) pair of which one half is a labelled line."""
    to_english, to_korean = dict(pairs), {english: korean for korean, english in pairs}
    return [replace(line, language=other, pair="", text=rendering[line.text])
            for line in lines
            for language, other, rendering in (("ko", "en", to_english), ("en", "ko", to_korean))
            if line.language == language and line.text in rendering]


# ---------------------------------------------------------------------------------- batches


class LabelledData(PlannedData):
    """The batches of all sources, mixed; each batch is of one source. Drawn anew in every epoch, a
    share of the lines is written a little differently (`vary`), a share of the pieces cut in two
    (`Resplit`) and a share hidden behind [MASK]."""

    def __init__(self, sources: Sequence[Source], tokenizer: WordPieceTokenizer,
                 batch_tokens: int, seed: int, longest: int = 64, varied: float = 0.0,
                 resplit: float = 0.0, hidden: float = 0.0) -> None:
        self.sources, self.tokenizer = list(sources), tokenizer
        self.batch_tokens, self.seed, self.hidden = batch_tokens, seed, hidden
        self.lines = [Rewritten(source.texts, tokenizer, longest, varied, resplit)
                      for source in self.sources]
        self.num_batches = len(self.planned(0))

    def plan(self, epoch: int) -> list[tuple[Source, np.ndarray, list[list[int]]]]:
        """All batches of an epoch: which lines of which source, and their pieces."""
        draw = np.random.default_rng([self.seed, epoch])
        plan = []
        for source, lines in zip(self.sources, self.lines, strict=True):
            rows, lengths = lines.read(draw)
            plan += [(source, chosen, [rows[i] for i in chosen])
                     for chosen in batches_by_length(lengths, self.batch_tokens, draw)]
        order = draw.permutation(len(plan))
        return [plan[i] for i in order]

    def batch(self, epoch: int, number: int) -> LabelledBatch:
        source, chosen, rows = self.planned(epoch)[number]
        draw = np.random.default_rng([self.seed, epoch, 2, number])
        ids, is_token = self.tokenizer.frame(rows)
        if self.hidden:
            is_hidden = draw.random(ids.shape) < self.hidden
            ids[is_hidden & ~np.isin(ids, self.tokenizer.special_ids)] = self.tokenizer.mask_id
        vectors = None if source.vectors is None else source.vectors[chosen].astype(np.float32)
        return LabelledBatch(source, ids, is_token, source.targets[chosen],
                             source.weights[chosen], vectors)
