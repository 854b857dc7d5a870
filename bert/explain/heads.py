"""What each head does in general: its patterns, its importance and its strongest looks over many
texts.

Shares of patterns follow Clark et al. 2019, arXiv 1906.04341; importance is that of Michel et al.
2019, arXiv 1905.10650 (see `saliency`), for the answer that each text gets.

    self, previous, next   the token itself, the one before, the one after
    sep, cls               the special tokens
    word, start            the other pieces of the same word; the first pieces of all words
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.attention import ABOVE_CHANCE, CLEAR_SHARE, is_special, patterns
from bert.explain.mean_ablation import mean_outputs
from bert.explain.saliency import gradients, importance
from bert.explain.target import Target
from bert.tokenizer import Encoding

FILE = "heads.json"
PATTERNS = ("self", "previous", "next", "sep", "cls", "word", "start")
MOST_BYTES = 1_000_000
STRONGEST = 5          # looks that are kept of each head, fewer if the file would grow too large
ENDINGS = ("focus", "broad", "mixed")  # kinds of heads that no pattern names


def describe_heads(classifier: EmotionClassifier, texts: Mapping[str, Sequence[str]],
                   progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Every head over each group of texts (a language) and whether the groups agree; as JSON at
    most 1 MB. All tables are (L, H); without a classifier there is no importance."""
    groups = {name: list(own) for name, own in texts.items() if own}
    if not groups:
        raise UserError("no texts: nothing to look at")
    found = {name: _survey(classifier, own, name, progress) for name, own in groups.items()}
    everything = [text for own in groups.values() for text in own]
    shares = np.stack([survey["shares"] for survey in found.values()])               # (G, L, H, P)
    kinds = np.stack([survey["kind"] for survey in found.values()])                  # (G, L, H)
    facts = {
        "digest": classifier.checkpoint.digest(), "patterns": list(PATTERNS),
        "mean_outputs": mean_outputs(classifier, everything).round(5),
        "agreement": {
            "same_kind": (kinds == kinds[0]).all(axis=0),
            "largest_difference": np.nan_to_num(shares.max(axis=0) - shares.min(axis=0)
                                                ).max(axis=-1).round(4)},
    }
    for count in range(STRONGEST, -1, -1):
        described = _plain({**facts, **_languages(found, groups, count)})
        if len(as_json(described).encode("utf-8")) <= MOST_BYTES:
            return described
    raise UserError(f"{shares[0, ..., 0].size} heads of this width do not fit into "
                    f"{MOST_BYTES:,} bytes")


def describe_text(classifier: EmotionClassifier, text: str) -> dict[str, Any]:
    """The same tables for one text: arrays (L, H), of the shares (L, H, P) with NaN for patterns
    that the text cannot show."""
    return _survey(classifier, [text], "", lambda line: None)


def as_json(described: Mapping[str, Any]) -> str:
    return json.dumps(described, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


def write_heads(folder: Path, described: Mapping[str, Any]) -> None:
    """Put the file beside the checkpoint in one move."""
    fresh = folder / f".{FILE}.new"
    fresh.write_text(as_json(described), encoding="utf-8")
    fresh.replace(folder / FILE)


def load_heads(classifier: EmotionClassifier) -> dict[str, Any] | None:
    """What is known of a checkpoint's heads; nothing if there is no file."""
    path = classifier.checkpoint.folder / FILE
    if not path.is_file():
        return None
    try:
        described = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON ({error}): make it again with bert evaluate "
                        "--heads") from None
    if (not isinstance(described, dict)
            or described.get("digest") != classifier.checkpoint.digest()):
        raise UserError(f"{path} was made for another model: make it again with bert evaluate "
                        "--heads")
    return described


# ---------------------------------------------------------------------------------- one language


@dataclass(frozen=True)
class Looks:
    """The strongest look of each head in one text."""

    weights: np.ndarray   # (L, H)
    places: np.ndarray    # (L, H, 2): the piece that looks and the one looked at, from 0
    encoding: Encoding

    def described(self, layer: int, head: int, known: dict[str, int]) -> dict[str, Any]:
        source, seen = self.places[layer, head].tolist()
        pieces = self.encoding.pieces
        return {"text": known.setdefault(self.encoding.texts[0], len(known)),
                "from": pieces[source], "to": pieces[seen], "places": [source, seen],
                "weight": round(float(self.weights[layer, head]), 4)}


def cells_of(encoding: Encoding) -> dict[str, np.ndarray]:
    """The (T, T) cells of each pattern; those that this text cannot show are left out."""
    begins = np.zeros(len(encoding.ids), dtype=bool)
    begins[[places[0] for _, places in encoding.grouped()]] = True
    begins &= ~np.array(is_special(encoding))
    return {**patterns(encoding), "start": np.tile(begins, (len(begins), 1))}


def _survey(classifier: EmotionClassifier, texts: Sequence[str], name: str,
            progress: Callable[[str], None]) -> dict[str, Any]:
    """Means over texts, each (L, H) or (L, H, P), and the strongest look of each head in each."""
    shares, chances = [], []
    rows: list[dict[str, Any]] = []
    for number, text in enumerate(texts, 1):
        encoding, weights, important = _run(classifier, text)
        held, chance = _held(encoding, weights)
        shares.append(held)
        chances.append(chance)
        rows.append({**_figures(weights), "importance": important,
                     "strongest": _strongest(encoding, weights)})
        if number % 200 == 0 or number == len(texts):
            progress(f"{name}: {number} of {len(texts)} texts read")
    means = {figure: np.mean([row[figure] for row in rows], axis=0) for figure in
             ("entropy", "effective_tokens", "evenness", "distance", "focus")}
    mean_shares, chance = _mean_without_nan(shares), _mean_without_nan(chances)
    return {"shares": mean_shares, "chance": chance, **means,
            "importance": (np.mean([row["importance"] for row in rows], axis=0)
                           if classifier.checkpoint.has_classifier else None),
            "kind": _kinds(mean_shares, chance, means["focus"], means["evenness"]),
            "strongest": [row["strongest"] for row in rows]}


def _run(classifier: EmotionClassifier,
         text: str) -> tuple[Encoding, np.ndarray, np.ndarray | None]:
    """Weights (L, H, T, T) and importance (L, H) of one text."""
    if not classifier.checkpoint.has_classifier:
        return *classifier.attentions(text), None
    found = gradients(classifier, text, lambda logits: Target(int(logits.argmax())).margin(logits))
    return found.encoding, found.attentions, importance(found)


def _held(encoding: Encoding, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much of the attention each pattern holds, (L, H, P), and what even attention would give
    it, (P,); NaN where the text cannot show it."""
    size = len(encoding.ids)
    held = np.full((*weights.shape[:2], len(PATTERNS)), np.nan)
    chance = np.full(len(PATTERNS), np.nan)
    for name, cells in cells_of(encoding).items():
        place, looking = PATTERNS.index(name), cells.any(axis=1).sum()
        held[..., place] = weights[..., cells].sum(axis=-1, dtype=np.float64) / looking
        chance[place] = cells.sum() / looking / size
    return held, chance


def _figures(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Of each head, (L, H): entropy of a row in nats, its exponential, that as a share of all
    tokens, mean distance of a look in tokens, and the share that the favourite token has."""
    size = weights.shape[-1]
    safe = np.maximum(weights.astype(np.float64), 1e-12)
    entropies = -(safe * np.log(safe)).sum(axis=-1)                                  # (L, H, T)
    effective = np.exp(entropies).mean(axis=-1)
    distance = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))           # (T, T)
    return {"entropy": entropies.mean(axis=-1), "effective_tokens": effective,
            "evenness": effective / size,
            "distance": (weights * distance).sum(axis=-1).mean(axis=-1),
            "focus": weights.mean(axis=-2).max(axis=-1)}


def _strongest(encoding: Encoding, weights: np.ndarray) -> Looks:
    """The largest weight of each head between two different pieces of the text; zero in a text of
    one piece."""
    is_text = ~np.array(is_special(encoding))
    allowed = np.outer(is_text, is_text)
    np.fill_diagonal(allowed, False)
    flat = np.where(allowed, weights, 0.0).reshape(*weights.shape[:2], -1)           # (L, H, T·T)
    best = flat.argmax(axis=-1)                                                      # (L, H)
    largest = np.take_along_axis(flat, best[..., None], axis=-1)[..., 0]
    return Looks(largest, np.stack(np.divmod(best, len(encoding.ids)), axis=-1), encoding)


def _mean_without_nan(values: Sequence[np.ndarray]) -> np.ndarray:
    """The mean over the texts that can show a pattern; NaN if none can."""
    stacked = np.stack(values)
    count = (~np.isnan(stacked)).sum(axis=0)
    return np.where(count > 0, np.nansum(stacked, axis=0) / np.maximum(count, 1), np.nan)


def _kinds(shares: np.ndarray, chance: np.ndarray, focus: np.ndarray,
           evenness: np.ndarray) -> np.ndarray:
    """The plainest true thing about each head, (L, H): a pattern, or how widely it looks."""
    is_clear = (shares >= CLEAR_SHARE) & (shares >= ABOVE_CHANCE * chance)           # NaN is False
    named = np.array(PATTERNS)[np.where(is_clear, shares, -1.0).argmax(axis=-1)]
    other = np.where(focus >= CLEAR_SHARE, ENDINGS[0],
                     np.where(evenness >= 0.5, ENDINGS[1], ENDINGS[2]))
    return np.where(is_clear.any(axis=-1), named, other)


# ---------------------------------------------------------------------------------- the file


def _languages(found: Mapping[str, Mapping[str, Any]], texts: Mapping[str, Sequence[str]],
               count: int) -> dict[str, Any]:
    """The tables of each language, and the texts that its strongest looks are from."""
    known: dict[str, int] = {}
    languages = {}
    for name, survey in found.items():
        tables = {key: survey[key].round(4) for key in
                  ("shares", "chance", "entropy", "effective_tokens", "distance")}
        if survey["importance"] is not None:
            tables["importance"] = survey["importance"].round(5)
        languages[name] = {"texts": len(texts[name]), **tables, "kind": survey["kind"],
                           "strongest": _best_looks(survey["strongest"], known, count)}
    return {"languages": languages, "texts": list(known)}


def _best_looks(looks: Sequence[Looks], known: dict[str, int],
                count: int) -> list[list[list[dict]]]:
    """The `count` strongest looks of each head, in as many texts; texts are numbered in `known`."""
    weights = np.stack([look.weights for look in looks])                             # (N, L, H)
    order = np.argsort(-weights, axis=0, kind="stable")[:count]                      # (K, L, H)
    return [[[looks[i].described(layer, head, known) for i in order[:, layer, head]
              if weights[i, layer, head] > 0.0]
             for head in range(weights.shape[2])] for layer in range(weights.shape[1])]


def _plain(value: Any) -> Any:
    """Arrays as lists, NaN as None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return None if np.isnan(value) else value
    return value
