"""Text for pre-training: read from files, tokenised once, mapped into memory.

A source is a text file. `NAME_docs.txt` holds one sentence a line and a blank line after each
document; `NAME_lines.txt` holds independent lines, each a document of its own. Either may be packed
(`.xz`). One document in a hundred, chosen by a hash of its text, is held out and never trained on.

    ids.bin        every piece of every sentence, one after the other
    sentences.bin  where each sentence begins, and the end
    marks.bin      the mark of each sentence: the start of its SHA-256, by which it is known
    documents.bin  the first sentence of each document, and the end
    corpus.json    the sources, the first document of each, and what all was made from
"""

import hashlib
import json
import lzma
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from bert.errors import UserError
from bert.folders import replace_folder
from bert.tokenizer import WordPieceTokenizer

CHUNK = 20_000   # lines tokenised at a time
HELD_OUT = 100   # one document in so many
TRAIN, HELD = "train", "held_out"


def read_text_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file (`.xz`: packed) without their ends."""
    if not path.is_file():
        raise UserError(f"{path} is not there: give the path of a text file")
    with (lzma.open(path, "rb") if path.suffix == ".xz" else path.open("rb")) as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8").rstrip("\r\n")
                yield line.removeprefix("\ufeff") if number == 1 else line
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8 text; convert the file first"
                                 ) from None


def read_first_column(path: Path) -> Iterator[str]:
    """The texts of a file with one a line; of a tab-separated one its first column."""
    for line in read_text_lines(path):
        if text := line.partition("\t")[0].strip():
            yield text


def text_mark(text: str) -> int:
    """What a text is known by where it is not kept: the first 64 bits of its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def source_name(path: Path) -> str:
    """`ko_wiki_docs.txt.xz` -> `ko_wiki_docs`."""
    return path.name.partition(".")[0]


def read_documents(path: Path) -> Iterator[list[str]]:
    """The documents of a source, each a list of sentences."""
    if source_name(path).endswith("_lines"):
        for line in read_text_lines(path):
            if line.strip():
                yield [line]
        return
    document: list[str] = []
    for line in read_text_lines(path):
        if line.strip():
            document.append(line)
        elif document:
            yield document
            document = []
    if document:
        yield document


def is_held_out(document: Sequence[str]) -> bool:
    """One document in a hundred, always the same ones."""
    return text_mark("\n".join(document)) % HELD_OUT == 0


@dataclass(frozen=True)
class TokenCorpus:
    """A tokenised corpus, mapped into memory."""

    ids: np.ndarray          # (pieces,) uint16 or uint32
    sentences: np.ndarray    # (sentences + 1,) int64
    marks: np.ndarray        # (sentences,) uint64
    documents: np.ndarray    # (documents + 1,) int64
    sources: tuple[str, ...]
    first_documents: np.ndarray  # (sources + 1,) int64

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    @classmethod
    def open(cls, folder: Path) -> Self:
        facts = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        ids, sentences, marks, documents = (
            np.fromfile(folder / f"{name}.bin", dtype=dtype) for name, dtype in
            (("ids", facts["dtype"]), ("sentences", "int64"), ("marks", "uint64"),
             ("documents", "int64")))
        return cls(ids, sentences, marks, documents, tuple(facts["sources"]),
                   np.array(facts["first_documents"]))

    @classmethod
    def prepare(cls, folder: Path, tokenizer: WordPieceTokenizer,
                paths: Sequence[Path]) -> tuple[Self, Self]:
        """The corpus to train on and the one that is held out: opened if the folder was made from
        these very files, else tokenised into it."""
        for path in paths:
            if not path.is_file():
                raise UserError(f"{path} is not there: give the path of a text file")
        made_from = {"vocabulary": tokenizer.digest(), "held_out": HELD_OUT,
                     "files": {source_name(path): path.stat().st_size for path in paths}}
        described = folder / TRAIN / "corpus.json"
        if not (described.is_file() and
                json.loads(described.read_text(encoding="utf-8"))["made_from"] == made_from):
            for part in (TRAIN, HELD):
                replace_folder(folder / part, partial(
                    _tokenise, tokenizer=tokenizer, paths=paths, held=part == HELD,
                    made_from=made_from))
        return cls.open(folder / TRAIN), cls.open(folder / HELD)


def _tokenise(folder: Path, tokenizer: WordPieceTokenizer, paths: Sequence[Path], held: bool,
              made_from: dict[str, Any]) -> None:
    dtype = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
    ends, firsts, first_documents = [0], [0], [0]
    marks: list[int] = []
    with (folder / "ids.bin").open("wb") as file:

        def add(batch: list[str], is_last: list[bool]) -> None:
            for text, piece_ids, ends_document in zip(batch, tokenizer.encode_ids(batch), is_last,
                                                      strict=True):
                if piece_ids:
                    file.write(np.asarray(piece_ids, dtype=dtype).tobytes())
                    ends.append(ends[-1] + len(piece_ids))
                    marks.append(text_mark(text))
                if ends_document and firsts[-1] != len(ends) - 1:
                    firsts.append(len(ends) - 1)

        for path in paths:
            batch: list[str] = []
            is_last: list[bool] = []
            for document in read_documents(path):
                if is_held_out(document) == held:
                    batch += document
                    is_last += [False] * (len(document) - 1) + [True]
                if len(batch) >= CHUNK:
                    add(batch, is_last)
                    batch, is_last = [], []
            add(batch, is_last)
            first_documents.append(len(firsts) - 1)
    if len(ends) == 1 and not held:
        raise UserError(f"{', '.join(map(str, paths))}: no text in it; expected one sentence a "
                         "line")
    for name, values, kind in (("sentences", ends, np.int64), ("marks", marks, np.uint64),
                               ("documents", firsts, np.int64)):
        np.asarray(values, dtype=kind).tofile(folder / f"{name}.bin")
    facts = {"pieces": ends[-1], "sentences": len(ends) - 1, "documents": len(firsts) - 1,
             "sources": [source_name(path) for path in paths],
             "first_documents": first_documents, "dtype": np.dtype(dtype).name,
             "made_from": made_from}
    (folder / "corpus.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
