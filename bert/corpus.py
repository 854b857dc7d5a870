"""Read text from disk: documents for pre-training, labelled sentences for fine-tuning.

A corpus is tokenised once into a folder of plain arrays that are mapped into memory, so that it
may be larger than memory and a restart begins in seconds:

    ids.bin        every piece of every sentence, one after the other
    sentences.bin  where each sentence begins, and the end
    documents.bin  the first sentence of each document, and the end
    corpus.json    what it was made from
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert.checkpoint import replace_folder
from bert.labels import KEYS, NONE
from bert.tokenizer import WordPieceTokenizer

CHUNK = 20_000  # lines tokenised at a time
COLUMNS = ("label", "lang", "level", "pair", "text")


# ---------------------------------------------------------------------------------- documents


def must_be_there(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: give the path of a text file")


def read_text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their ends; a wrong encoding is named with its line."""
    must_be_there(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8").rstrip("\r\n")
                yield line.removeprefix("\ufeff") if number == 1 else line
            except UnicodeDecodeError:
                raise ValueError(f"{path}, line {number}: not UTF-8 text; convert the file first"
                                 ) from None


def read_first_column(path: Path) -> Iterator[str]:
    """The texts of a file with one a line; of a tab-separated one its first column."""
    for line in read_text_lines(path):
        if text := line.partition("\t")[0].strip():
            yield text


def read_table(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a tab-separated file with this header, each with the number of its line. Nothing
    is quoted: what stands between two tabs is the value."""
    lines = read_text_lines(path)
    header = next(lines, "").split("\t")
    if header != list(columns):
        raise ValueError(f"{path}, line 1: found {', '.join(header) or 'nothing'}; expected the "
                         f"columns {', '.join(columns)}")
    for number, line in enumerate(lines, 2):
        row = line.split("\t")
        if len(row) != len(columns):
            raise ValueError(f"{path}, line {number}: {len(row)} columns; expected {len(columns)}")
        yield number, row


@dataclass(frozen=True)
class TokenCorpus:
    """A tokenised corpus, mapped into memory."""

    ids: np.ndarray        # (pieces,) uint16 or uint32
    sentences: np.ndarray  # (sentences + 1,) int64
    documents: np.ndarray  # (documents + 1,) int64

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    @classmethod
    def open(cls, folder: Path) -> Self:
        facts = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        return cls(*(np.memmap(folder / f"{name}.bin", dtype=dtype, mode="r") for name, dtype in
                     (("ids", facts["dtype"]), ("sentences", "int64"), ("documents", "int64"))))

    @classmethod
    def prepare(cls, folder: Path, tokenizer: WordPieceTokenizer, documents: Iterable[Path],
                lines: Iterable[Path]) -> Self:
        """Open the folder if it was made from these very files, else tokenise them into it.

        In `documents` a blank line ends a document; every line of `lines` is one of its own.
        """
        documents, lines = list(documents), list(lines)
        for path in (*documents, *lines):
            must_be_there(path)
        sources = {str(path.resolve()): [path.stat().st_size, path.stat().st_mtime_ns]
                   for path in (*documents, *lines)}
        made_from = {"vocabulary": tokenizer.digest(), "sources": sources,
                     "documents": [str(path.resolve()) for path in documents]}
        described = folder / "corpus.json"
        if described.is_file():
            facts = json.loads(described.read_text(encoding="utf-8"))
            if facts["made_from"] == made_from:
                return cls.open(folder)
        replace_folder(folder, lambda fresh: _tokenise(
            fresh, tokenizer, documents, lines, made_from))
        return cls.open(folder)


def _tokenise(folder: Path, tokenizer: WordPieceTokenizer, documents: list[Path],
              lines: list[Path], made_from: dict) -> None:
    dtype = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    ends, firsts = [0], [0]
    with (folder / "ids.bin").open("wb") as file:

        def add(batch: list[str], is_document_end: list[bool]) -> None:
            for piece_ids, ends_here in zip(tokenizer.encode_ids(batch), is_document_end,
                                            strict=True):
                if piece_ids:
                    file.write(np.asarray(piece_ids, dtype=dtype).tobytes())
                    ends.append(ends[-1] + len(piece_ids))
                if ends_here and firsts[-1] != len(ends) - 1:
                    firsts.append(len(ends) - 1)

        for path in (*documents, *lines):
            batch: list[str] = []
            is_end: list[bool] = []
            for line in read_text_lines(path):
                batch.append(line)
                is_end.append(path in lines or not line.strip())
                if len(batch) == CHUNK:
                    add(batch, is_end)
                    batch, is_end = [], []
            add([*batch, ""], [*is_end, True])
    if len(ends) == 1:
        raise ValueError(f"{', '.join(map(str, (*documents, *lines)))}: no text in it; expected "
                         "one sentence a line")
    for name, values in (("sentences", ends), ("documents", firsts)):
        np.asarray(values, dtype=np.int64).tofile(folder / f"{name}.bin")
    facts = {"pieces": ends[-1], "sentences": len(ends) - 1, "documents": len(firsts) - 1,
             "dtype": np.dtype(dtype).name, "made_from": made_from}
    (folder / "corpus.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


# ---------------------------------------------------------------------------------- labelled lines


@dataclass(frozen=True)
class LabelledLine:
    label: str       # a key of labels.py, or "none"
    language: str    # ko, en, xx
    level: str       # easy, hard
    pair: str        # the number two lines of a minimal pair share, or ""
    text: str


def read_labelled(path: Path) -> list[LabelledLine]:
    """Read a tab-separated file with the header label, lang, level, pair, text."""
    lines = []
    for number, row in read_table(path, COLUMNS):
        if row[0] not in (*KEYS, NONE):
            raise ValueError(f"{path}, line {number}: unknown label {row[0]!r}; expected one of "
                             f"{', '.join((*KEYS, NONE))}")
        if not row[4].strip():
            raise ValueError(f"{path}, line {number}: the text is empty; write one or remove the "
                             "line")
        lines.append(LabelledLine(*row))
    if not lines:
        raise ValueError(f"{path} has a header but no line: nothing to learn from")
    return lines


# ---------------------------------------------------------------------------------- batches


def batches_by_length(lengths: np.ndarray, batch_tokens: int,
                      draw: np.random.Generator) -> list[np.ndarray]:
    """Group examples of equal length: almost no padding; the batches in random order."""
    order = np.lexsort((draw.random(len(lengths)), lengths))
    ordered = lengths[order]
    batches, begin = [], 0
    while begin < len(order):
        end = min(begin + max(1, batch_tokens // int(ordered[begin])), len(order))
        end = begin + max(1, min(end - begin, batch_tokens // int(ordered[end - 1])))
        batches.append(order[begin:end])
        begin = end
    draw.shuffle(batches)
    return batches


class PlannedData:
    """Examples whose batches are planned anew for every epoch; only one plan is kept.

    Who sets `num_batches` gets as many in every epoch, so that a number of epochs is a number of
    steps: a batch too many is left out, for one too few the first comes again.
    """

    num_batches: int | None = None
    _epoch: int = -1
    _planned: Sequence[Any] = ()

    def plan(self, epoch: int) -> list[Any]:
        """What `batch` needs to know about each batch of the epoch, in order."""
        raise NotImplementedError

    def batch(self, epoch: int, number: int) -> Any:
        raise NotImplementedError

    def planned(self, epoch: int) -> Sequence[Any]:
        if epoch != self._epoch:
            self._planned = ()  # the old plan goes before the new one is made
            plan = self.plan(epoch)
            self._planned = (plan if self.num_batches is None else
                             list(islice(cycle(plan), self.num_batches)))
            self._epoch = epoch
        return self._planned

    def batches(self, epoch: int, first: int) -> Iterator[tuple[int, int, Any]]:
        """Epoch, number and batch, from batch `first` of an epoch on, for ever."""
        while True:
            for number in range(first, len(self.planned(epoch))):
                yield epoch, number, self.batch(epoch, number)
            epoch, first = epoch + 1, 0
