"""WordPiece for Korean and English: train, encode one text or a pair, decode, save, load.

What happens to a text, in order:
    clean       NFC, so that Hangul is syllables and never jamo; control characters dropped
    lower-case  if the vocabulary was trained that way
    split       at spaces; punctuation, emoji and characters outside the alphabet stand alone, so
                that one of them never turns a whole word into [UNK]
    WordPiece   the longest known piece first; pieces inside a word begin with ##
    specials    [CLS] text [SEP], or [CLS] text [SEP] pair [SEP]
"""

import hashlib
import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import decoders as token_decoders

from bert.errors import UserError

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST_TEXT = 20_000  # characters that are looked at; far beyond what any position table holds
LONGEST_WORD = 100  # letters; WordPiece gives up on longer words, so they are cut first
SMALLEST_VOCABULARY = len(SPECIAL_TOKENS) + 2
EMOJI = (  # always in the alphabet: people type them alone, and text corpora hardly hold any
    "😀😁😂🤣😃😄😅😆😉😊😋😎😍😘🥰🙂🤗🤩🤔😐😑😶🙄😏😣😥😮🤐😯😪😫🥱😴😌😛😜🤤😒😓😔"
    "😕🙃😲🙁😖😞😟😤😢😭😦😧😨😩🤯😬😰😱🥵🥶😳🤪😵😡😠🤬😷🤒🤕🤢🤮😇🥳🥺🥹🫠🫶🤭🤫🧐"
    "💀👻💩🙈🙏👍👎👏🙌💪✌🤞👌👋🤝🤷🤦❤💔💕💖💗💙💚💛💜🖤🤍🔥✨⭐🌟💯🎉🎊🎁🎂🎶🎵🏆"
    "🥇🌸🌹🌞☀🌈⛄❄☔☕🍀🐶🐱🐾🏃✈🚀💤💢💦💨♥♡☆★")
SPACES = Regex(r"[\t\n\r\x0b\x0c\x85\u2028\u2029]")
UNSEEN = Regex(r"[\p{Cc}\p{Cf}\p{Co}\x{FE00}-\x{FE0F}]")  # control, zero-width, private, variants

BERT_TOKENIZERS = ("BertTokenizer", "BertTokenizerFast")  # whose vocab.txt is all there is to know
# What the tokenizers of BERT are made of. Other parts of the library, in a file made for that, can
# make a text a million times longer or end the process.
NORMALIZERS = frozenset({"Sequence", "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase",
                         "Strip", "StripAccents", "Replace"})
SPLITTERS = frozenset({"Sequence", "BertPreTokenizer", "Whitespace", "WhitespaceSplit",
                       "Punctuation", "Digits", "Split"})


@dataclass(frozen=True)
class Encoding:
    """One text, or a pair of texts, as the model reads it.

    A piece that is not in the vocabulary is id [UNK]; `pieces` then shows the source characters.
    """

    texts: tuple[str, ...]             # NFC; what the offsets point into
    ids: list[int]
    pieces: list[str]                  # what people see, e.g. ["[CLS]", "고마", "##워", "[SEP]"]
    segment_ids: list[int]             # 0 for the first text, 1 for the second
    offsets: list[tuple[int, int]]     # characters of the text; (0, 0) for special tokens
    word_ids: list[int | None]         # which space-separated word (어절); None for special tokens
    truncated: bool

    def words(self) -> list[str]:
        """The words (어절) that the pieces belong to, special tokens as themselves.

        >>> encode("정말 고마워").words()
        ['[CLS]', '정말', '고마워', '[SEP]']
        """
        return [name for name, _ in self.grouped()]

    def grouped(self) -> list[tuple[str, list[int]]]:
        """Each word with the positions of its pieces."""
        groups: list[tuple[str, list[int]]] = []
        previous = None
        for place, (piece, word) in enumerate(zip(self.pieces, self.word_ids, strict=True)):
            here = None if word is None else (self.segment_ids[place], word)
            if here is not None and here == previous:
                groups[-1][1].append(place)
            else:
                groups.append((piece, [place]))
            previous = here
        return [(self._source(places) or name, places) for name, places in groups]

    def _source(self, places: list[int]) -> str:
        text = self.texts[min(self.segment_ids[places[0]], len(self.texts) - 1)]
        return text[self.offsets[places[0]][0]:self.offsets[places[-1]][1]]


@dataclass(frozen=True)
class Batch:
    """Several encodings padded to one length."""

    ids: np.ndarray          # (B, T) int64
    segment_ids: np.ndarray  # (B, T) int64
    attention_mask: np.ndarray     # (B, T) bool; False is padding


def clean(text: str) -> str:
    """NFC text that can be encoded: a lone surrogate becomes the replacement character."""
    return unicodedata.normalize("NFC", re.sub("[\ud800-\udfff]", "\ufffd", text))


class WordPieceTokenizer:
    """The vocabulary and the rules around it, kept in one tokenizer.json."""

    def __init__(self, backend: Tokenizer) -> None:
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._special_id(token) for token in SPECIAL_TOKENS)
        self._size = max(backend.get_vocab().values()) + 1  # ids may have gaps in others' files

    def _special_id(self, token: str) -> int:
        number = self.backend.token_to_id(token)
        if number is None:
            raise UserError(f"the vocabulary has no {token}: not a BERT tokenizer")
        return number

    def __len__(self) -> int:
        return self._size

    @property
    def special_ids(self) -> tuple[int, ...]:
        return self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id

    def vocabulary(self) -> list[str]:
        """Every piece, by id."""
        return [self.backend.id_to_token(i) or UNK for i in range(len(self))]

    def digest(self) -> str:
        """A fingerprint: which tokenizer made these ids?"""
        return hashlib.sha256(self.backend.to_str().encode()).hexdigest()[:16]

    # ------------------------------------------------------------------ text to ids and back

    def encode(self, text: str, pair: str | None = None,
               max_length: int | None = None) -> Encoding:
        """Turn a text or a pair into ids; a pair is shortened at its longer side."""
        return self.encode_many([text], None if pair is None else [pair], max_length)[0]

    def encode_many(self, texts: list[str], pairs: list[str] | None = None,
                    max_length: int | None = None) -> list[Encoding]:
        """Encode several texts (or pairs) at once."""
        sides = [[clean(text) for text in side] for side in (texts, pairs) if side is not None]
        parsed = [self.backend.encode_batch([text[:LONGEST_TEXT] for text in side],
                                            add_special_tokens=False) for side in sides]
        return [self._assemble(row_texts, row_parsed, max_length)
                for row_texts, row_parsed in zip(zip(*sides, strict=True),
                                                 zip(*parsed, strict=True), strict=True)]

    def _assemble(self, texts: tuple[str, ...], parsed: tuple[Any, ...],
                  max_length: int | None) -> Encoding:
        lengths = [len(side.ids) for side in parsed]
        if max_length is not None:
            room = max(max_length - 1 - len(parsed), 0)
            while sum(lengths) > room:
                longest = lengths.index(max(lengths))
                rest = sum(lengths) - lengths[longest]
                second = max([n for i, n in enumerate(lengths) if i != longest], default=0)
                lengths[longest] = max(room - rest, min(second, lengths[longest] - 1), 0)
        ids, pieces, segments = [self.cls_id], [CLS], [0]
        offsets: list[tuple[int, int]] = [(0, 0)]
        word_ids: list[int | None] = [None]
        for segment, (text, side, length) in enumerate(zip(texts, parsed, lengths, strict=True)):
            starts = [match.start() for match in re.finditer(r"\S+", text)]
            for piece_id, piece, span in zip(side.ids[:length], side.tokens[:length],
                                             side.offsets[:length], strict=True):
                ids.append(piece_id)
                pieces.append(text[span[0]:span[1]] if piece_id == self.unk_id else piece)
                offsets.append(tuple(span))
                word_ids.append(max(bisect_right(starts, span[0]) - 1, 0))
            segments += [segment] * (length + 1)
            ids.append(self.sep_id)
            pieces.append(SEP)
            offsets.append((0, 0))
            word_ids.append(None)
        cut = any(length < len(side.ids) for length, side in zip(lengths, parsed, strict=True))
        too_long = any(len(text) > LONGEST_TEXT for text in texts)
        return Encoding(texts, ids, pieces, segments, offsets, word_ids, cut or too_long)

    def encode_masked(self, text: str) -> tuple[list[int], int]:
        """The ids of a text with one [MASK] and the place of the mask; letters that touch it
        continue its word.

        >>> tokenizer.encode_masked("[MASK]를 마셨다")  # [CLS] [MASK] ##를 마셨 ##다 [SEP]
        ([2, 4, 5211, 9120, 5003, 3], 1)
        """
        text = clean(text)[:LONGEST_TEXT]
        if text.count(MASK) != 1:
            raise UserError(f"the text has {text.count(MASK)} times {MASK}: put it there once")
        before, after = text.split(MASK)
        tail = re.split(r"[\W_]", after, maxsplit=1)[0]
        head_ids, rest_ids = self.encode_ids([before, after[len(tail):]])
        ids = [self.cls_id, *head_ids, self.mask_id, *self._continued(tail), *rest_ids, self.sep_id]
        return ids, 1 + len(head_ids)

    def _continued(self, letters: str) -> list[int]:
        """Letters as pieces inside a word, the longest known one first."""
        if self.backend.normalizer is not None:
            letters = self.backend.normalizer.normalize_str(letters)
        ids: list[int] = []
        while letters:
            for end in range(len(letters), 0, -1):
                piece_id = self.backend.token_to_id("##" + letters[:end])
                if piece_id is not None:
                    break
            ids.append(self.unk_id if piece_id is None else piece_id)
            letters = letters[end:]
        return ids

    def pad(self, encodings: list[Encoding]) -> Batch:
        """Stack encodings into one rectangle, [PAD] at the end of the shorter ones."""
        shape = len(encodings), max(len(encoding.ids) for encoding in encodings)
        ids = np.full(shape, self.pad_id, dtype=np.int64)
        segment_ids = np.zeros(shape, dtype=np.int64)
        attention_mask = np.zeros(shape, dtype=bool)
        for row, encoding in enumerate(encodings):
            length = len(encoding.ids)
            ids[row, :length] = encoding.ids
            segment_ids[row, :length] = encoding.segment_ids
            attention_mask[row, :length] = True
        return Batch(ids, segment_ids, attention_mask)

    def encode_ids(self, lines: list[str]) -> list[list[int]]:
        """Only the ids, without special tokens: the fast way through a corpus."""
        cleaned = [clean(line)[:LONGEST_TEXT] for line in lines]
        return [parsed.ids for parsed in
                self.backend.encode_batch_fast(cleaned, add_special_tokens=False)]

    def frame(self, rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        """Put [CLS] and [SEP] around rows of ids and pad them: ids and token mask, both (B, T)."""
        lengths = np.array([len(row) + 2 for row in rows])
        ids = np.full((len(rows), lengths.max()), self.pad_id, dtype=np.int64)
        for number, row in enumerate(rows):
            ids[number, 0] = self.cls_id
            ids[number, 1:len(row) + 1] = row
            ids[number, len(row) + 1] = self.sep_id
        return ids, np.arange(ids.shape[1]) < lengths[:, None]

    def decode(self, ids: Iterable[int]) -> str:
        """Join pieces back into text, special tokens left out."""
        return self.backend.decode(list(ids), skip_special_tokens=True)

    # ------------------------------------------------------------------ disk

    def save(self, folder: Path, max_length: int | None = None) -> None:
        """Write tokenizer.json and the file by which transformers' AutoTokenizer finds it.

        `max_length` is how many pieces the model reads: where transformers cuts, if asked to.
        """
        self.backend.save(str(folder / "tokenizer.json"))
        names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"),
                         SPECIAL_TOKENS, strict=True))
        described: dict[str, Any] = {
            "tokenizer_class": "PreTrainedTokenizerFast", **names,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
        if max_length is not None:
            described["model_max_length"] = max_length
        (folder / "tokenizer_config.json").write_text(
            json.dumps(described, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a tokenizer.json, or the vocab.txt of an older BERT; what is wrong with it is said
        in one sentence."""
        if not path.is_file():
            raise UserError(f"{path} is missing: a checkpoint needs its tokenizer")
        if path.suffix == ".txt":
            return cls(_from_vocabulary(path))
        try:
            described = path.read_text(encoding="utf-8")
            check_parts(json.loads(described))
            return cls(Tokenizer.from_str(described))
        except (AttributeError, KeyError, TypeError):
            raise UserError(f"{path} is not a usable tokenizer: it describes no WordPiece as the "
                            "library writes it") from None
        except Exception as error:  # the library raises bare Exception for malformed files
            raise UserError(f"{path} is not a usable tokenizer: {error}") from None

    # ------------------------------------------------------------------ training

    @classmethod
    def train(cls, lines: Iterable[str], vocab_size: int = 16_000, lower_case: bool = True,
              alphabet_size: int = 2_000) -> Self:
        """Learn a vocabulary of exactly `vocab_size` pieces (fewer if the text has fewer); the same
        text gives the same vocabulary."""
        if vocab_size < SMALLEST_VOCABULARY:
            raise UserError(f"vocab_size is {vocab_size}: expected at least {SMALLEST_VOCABULARY}")
        if alphabet_size < 1:
            raise UserError(f"alphabet_size is {alphabet_size}: expected at least 1")
        lines = [clean(line) for line in lines]
        alphabet = _alphabet(lines, alphabet_size, vocab_size - len(SPECIAL_TOKENS), lower_case)
        if not any(map(_is_letter, alphabet)):
            raise UserError("the text has no Korean or English letter to make pieces of")
        # The trainer settles ties by number and numbers `##c` in an order that changes from run to
        # run; given beforehand, the same text makes the same vocabulary.
        inside = ["##" + character for character in alphabet if _is_letter(character)]
        learner = Tokenizer(models.WordPiece(unk_token=UNK))
        learner.normalizer = _normalizer(lower_case)
        learner.pre_tokenizer = _splitter(r"[^\p{Latin}\p{Hangul}\p{Nd}]")
        learner.train_from_iterator(lines, trainers.WordPieceTrainer(
            vocab_size=vocab_size + len(alphabet), initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            special_tokens=[*SPECIAL_TOKENS, *inside], show_progress=False))
        pieces = sorted(learner.get_vocab(), key=learner.get_vocab().__getitem__)
        return cls._from_pieces(pieces, vocab_size, lower_case)

    @classmethod
    def _from_pieces(cls, pieces: list[str], vocab_size: int, lower_case: bool) -> Self:
        """Give every letter both its forms, `c` and `##c`, at the cost of the last-learned pieces;
        then no word made of known letters can become [UNK]."""
        characters = [piece for piece in pieces if len(piece) == 1]
        letters = sorted({piece.removeprefix("##") for piece in pieces
                          if len(piece.removeprefix("##")) == 1 and _is_letter(piece[-1])})
        symbols = [character for character in characters if not _is_letter(character)]
        kept = list(SPECIAL_TOKENS) + symbols + letters + ["##" + letter for letter in letters]
        longer = [piece for piece in pieces if piece not in set(kept) and
                  len(piece.removeprefix("##")) > 1]
        vocabulary = kept + longer[:max(vocab_size - len(kept), 0)]
        backend = Tokenizer(models.WordPiece(
            {piece: i for i, piece in enumerate(vocabulary)}, unk_token=UNK))
        backend.normalizer = _normalizer(lower_case)
        backend.pre_tokenizer = _splitter(f"[^{_ranges(letters)}]")
        backend.decoder = token_decoders.WordPiece()
        backend.add_special_tokens(list(SPECIAL_TOKENS))
        backend.post_processor = processors.TemplateProcessing(
            single=f"{CLS} $A {SEP}", pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
            special_tokens=[(token, backend.token_to_id(token)) for token in (CLS, SEP)])
        return cls(backend)


def _from_vocabulary(path: Path) -> Tokenizer:
    """The tokenizer of the original BERT: a piece a line, and what tokenizer_config.json says of
    letter case and accents."""
    settings_file = path.with_name("tokenizer_config.json")
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
        settings = (json.loads(settings_file.read_text(encoding="utf-8"))
                    if settings_file.is_file() else {})
        if settings.get("tokenizer_class", "BertTokenizer") not in BERT_TOKENIZERS:
            raise UserError(f"it belongs to a {settings['tokenizer_class']}")
        vocabulary = {piece.rstrip("\r"): number for number, piece in enumerate(pieces) if piece}
        backend = Tokenizer(models.WordPiece(vocabulary, unk_token=UNK))
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=settings.get("do_lower_case", True),
            strip_accents=settings.get("strip_accents"),
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True))
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(f"{path} is not a usable vocabulary: {error}") from None
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = token_decoders.WordPiece()
    backend.add_special_tokens([token for token in SPECIAL_TOKENS if token in vocabulary])
    return backend


def check_parts(described: dict[str, Any]) -> None:
    """Refuse a tokenizer.json with parts that no BERT has, before the library builds them."""
    model = described["model"]
    if model.get("type", "WordPiece") != "WordPiece" or model["unk_token"] != UNK:
        raise UserError(f"expected WordPiece with {UNK}")
    if UNK not in model["vocab"] or model["max_input_chars_per_word"] > LONGEST_TEXT // 20:
        raise UserError(f"expected {UNK} in the vocabulary and words of at most "
                        f"{LONGEST_TEXT // 20} letters")
    waiting = [(described.get("normalizer"), NORMALIZERS),
               (described.get("pre_tokenizer"), SPLITTERS)]
    while waiting:
        part, known = waiting.pop()
        if part is None:
            continue
        if part["type"] not in known:
            raise UserError(f"{part['type'][:40]!r} is no part of a BERT's tokenizer")
        if len(part.get("content", "")) > 1:
            raise UserError("Replace may put in one character, not more")
        inside = part.get("normalizers", []) + part.get("pretokenizers", [])
        waiting += [(inner, known) for inner in inside]


def _normalizer(lower_case: bool) -> normalizers.Normalizer:
    steps = [normalizers.NFC(), normalizers.Replace(SPACES, " "), normalizers.Replace(UNSEEN, "")]
    return normalizers.Sequence(steps + [normalizers.Lowercase()] * lower_case)


def _alphabet(lines: list[str], size: int, room: int, lower_case: bool) -> list[str]:
    """The emoji and the most frequent characters after normalisation, `size` in all and no more
    than `room` pieces, in the order of Unicode. Emoji that would fill half the room stay out."""
    emoji = set(EMOJI if len(set(EMOJI)) <= room // 2 else "")
    raw: Counter[str] = Counter(emoji)
    for line in lines:
        raw.update(line)
    normalizer = _normalizer(lower_case)
    counts: Counter[str] = Counter()
    for character, count in raw.items():
        for normal in normalizer.normalize_str(character):
            if not normal.isspace() and not _is_foreign(normal):
                counts[normal] += count
    usual = sorted(counts, key=lambda normal: (normal not in emoji, -counts[normal], normal))
    most = len(emoji) + (room - len(emoji)) // 2  # each letter is two pieces
    return sorted(usual[:min(size, most)])


def _splitter(set_apart: str) -> pre_tokenizers.PreTokenizer:
    """Split at spaces, put each character that matches `set_apart` on its own, cut what is left
    into lengths that WordPiece takes."""
    return pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(set_apart), "isolated"),
        pre_tokenizers.Split(Regex(f".{{{LONGEST_WORD}}}"), "isolated")])


def _is_foreign(character: str) -> bool:
    """A letter of neither language; it would take two places of the vocabulary."""
    return (unicodedata.category(character)[0] == "L"
            and not unicodedata.name(character, "").startswith(("LATIN", "HANGUL")))


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def _ranges(characters: list[str]) -> str:
    r"""Characters as ranges of a regular expression: ["a", "b", "c"] -> "\x{61}-\x{63}"."""
    runs: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return "".join(rf"\x{{{first:X}}}-\x{{{last:X}}}" for first, last in runs)
