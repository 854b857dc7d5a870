"""What each layer does and holds: measures of attention, and linear probes over a set of texts.

What a layer does: how far and over how many tokens its heads look, what rests on [CLS], [SEP] and
the token itself, how much the vectors change. What a layer holds: three ridge probes, scored on
texts they were not fitted to:

    form       does this piece continue a word (##)?                from the piece's vector
    relation   does the next piece continue the same word?          from the piece's vector
    meaning    which of the classes was the text written for?       from the mean of its vectors

Form and relation count only pieces that the probe never saw: what is left is no list of pieces
learned by heart (Hewitt & Liang 2019).
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypedDict

import numpy as np
import torch

from bert.classifier import EmotionClassifier
from bert.explain.activations import layer_cosines
from bert.explain.attention import effective_tokens
from bert.tokenizer import Encoding

MEASURES = ("distance", "effective_tokens", "self", "cls", "sep", "change")
PROBES = ("form", "relation", "meaning")  # in the order of the claim: early, middle, late
PENALTY = 1.0       # of the ridge regression, per row; of 0.1 and 1 the one that read form better
CLEAR = 2.0         # standard errors that a lead must have
TEXTS_AT_ONCE = 16
ONE_AT_A_TIME = threading.Lock()


# ------------------------------------------------------------------------------ the set of texts


class ProbeText(NamedTuple):
    """One text of a set; texts of one fold are held out together."""

    label: str
    fold: int
    text: str


@dataclass(frozen=True)
class ProbedText:
    """One text of a set as the network sees it."""

    label: str
    fold: int
    encoding: Encoding
    attentions: np.ndarray   # (L, H, T, T)
    states: np.ndarray       # (L + 1, T, E)


class Verdict(TypedDict):
    """Whether a probe reads best in its own third of the layers; None if that cannot be tested."""

    by_third: list[float]    # early, middle, late
    lead: float | None       # of its own third over the better of the others
    error: float | None      # standard error of the lead
    supported: bool | None


class ProbeResult(Verdict):
    """A probe's accuracy by layer, (L + 1,), and by third, and what becomes of its claim."""

    name: str
    chance: float
    accuracy: np.ndarray | None


@dataclass(frozen=True)
class SetResult:
    """Measures (means over the texts) and probes over a set."""

    num_texts: int
    measures: dict[str, np.ndarray]  # each (L,)
    probes: list[ProbeResult]


@torch.inference_mode()
def run_texts(classifier: EmotionClassifier, texts: Sequence[ProbeText]) -> list[ProbedText]:
    """Attention and hidden states of many texts, a few of similar length at once."""
    found = sorted(((classifier.encode(text), label, fold) for label, fold, text in texts),
                   key=lambda line: len(line[0].ids))
    probed = []
    for start in range(0, len(found), TEXTS_AT_ONCE):
        part = found[start:start + TEXTS_AT_ONCE]
        batch = classifier.tokenizer.pad([encoding for encoding, _, _ in part])
        output = classifier.bert(torch.from_numpy(batch.ids), None,
                                 torch.from_numpy(batch.attention_mask))
        attentions = torch.stack(output.attentions, dim=1).numpy()                # (B, L, H, T, T)
        states = torch.stack(output.hidden_states, dim=1).numpy()                 # (B, L + 1, T, E)
        for row, (encoding, label, fold) in enumerate(part):
            size = len(encoding.ids)
            probed.append(ProbedText(label, fold, encoding, attentions[row, ..., :size, :size],
                                     states[row, :, :size]))
    return probed


# ------------------------------------------------------------------------------ what a layer does


def measure(attentions: np.ndarray, states: np.ndarray) -> dict[str, np.ndarray]:
    """Each measure by layer, (L,): means over heads and tokens of one text.

    `attentions` is (L, H, T, T) with [CLS] first and [SEP] last, `states` (L + 1, T, E).
    """
    place = np.arange(attentions.shape[-1])
    distance = np.abs(place[:, None] - place)                                        # (T, T)
    tokens = (1, 2)
    return {
        "distance": (attentions * distance).sum(axis=-1).mean(axis=tokens),
        "effective_tokens": effective_tokens(attentions).mean(axis=-1),
        "self": attentions.diagonal(axis1=-2, axis2=-1).mean(axis=tokens),
        "cls": attentions[..., 0].mean(axis=tokens),
        "sep": attentions[..., -1].mean(axis=tokens),
        "change": 1 - layer_cosines(states).mean(axis=-1),
    }


# ------------------------------------------------------------------------------ what a layer holds


def ridge(rows: np.ndarray, targets: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Targets foretold for new rows, less their mean: (N, E), (N, K), (M, E) -> (M, K)."""
    centre, std = rows.mean(axis=0), rows.std(axis=0)
    std = np.where(std > 0, std, 1.0)
    known = (rows - centre) / std
    matrix = known.T @ known + PENALTY * len(known) * np.eye(known.shape[1])         # (E, E)
    return (new - centre) / std @ np.linalg.solve(
        matrix, known.T @ (targets - targets.mean(axis=0)))


def is_read(rows: np.ndarray, labels: np.ndarray, folds: np.ndarray) -> np.ndarray:
    """Whether each row's class is read right by a probe fitted to the other folds: (N,).

    Targets without their mean: a common class is not answered for being common.
    """
    names = np.unique(labels)
    targets = (labels[:, None] == names).astype(np.float64)                          # (N, K)
    answers = np.empty_like(labels)
    for fold in np.unique(folds):
        out = folds == fold
        answers[out] = names[ridge(rows[~out], targets[~out], rows[out]).argmax(axis=1)]
    return answers == labels


def by_text(right: np.ndarray, labels: np.ndarray, texts: np.ndarray,
            num_texts: int) -> np.ndarray:
    """What each text adds to the accuracy above chance: (…, N) -> (…, texts). Their mean is that
    accuracy, with all classes weighed alike."""
    names, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights = num_texts / (len(names) * counts[which])                               # (N,)
    mine = texts[:, None] == np.arange(num_texts)                                    # (N, texts)
    return ((right - 1 / len(names)) * weights) @ mine


def meaning_scores(probed: Sequence[ProbedText]) -> np.ndarray:
    """The feeling from the mean of the text's own vectors: (L + 1, texts)."""
    rows = np.stack([text.states[:, 1:-1].mean(axis=1) for text in probed], axis=1)
    labels = np.array([text.label for text in probed])
    folds = np.array([text.fold for text in probed])
    right = np.stack([is_read(layer.astype(np.float64), labels, folds) for layer in rows])
    return by_text(right, labels, np.arange(len(probed)), len(probed))


def piece_scores(probed: Sequence[ProbedText], ahead: int) -> np.ndarray | None:
    """Whether a piece (ahead = 0) or the one behind it (1) continues a word: (L + 1, texts).

    None when the pieces that no other fold has are all of one kind.
    """
    found = [(number, place) for number, text in enumerate(probed)
             for place in range(1, len(text.encoding.ids) - 1 - ahead)]
    texts = np.array([number for number, _ in found])
    folds = np.array([probed[number].fold for number in texts])
    ids = np.array([probed[number].encoding.ids[place] for number, place in found])
    labels = np.array([probed[number].encoding.pieces[place + ahead].startswith("##")
                       for number, place in found])
    is_new = np.array([not np.any((ids == piece) & (folds != fold))
                       for piece, fold in zip(ids, folds, strict=True)])
    if len(np.unique(labels[is_new])) < 2:
        return None
    rows = np.stack([probed[number].states[:, place] for number, place in found], axis=1)
    right = np.stack([is_read(layer.astype(np.float64), labels, folds) for layer in rows])
    return by_text(right[:, is_new], labels[is_new], texts[is_new], len(probed))


def thirds(num_layers: int) -> list[list[int]]:
    """Early, middle and late layers, counted from 1; none of fewer than three."""
    if num_layers < 3:
        return []
    return [part.tolist() for part in np.array_split(np.arange(1, num_layers + 1), 3)]


def judge(scores: np.ndarray, own: int) -> Verdict:
    """Whether a probe reads best in its own third: ahead of both others and of chance, each by more
    than two standard errors over the texts. `lead` and `error` are over the better of the others.

    `scores` are those of `by_text`, (L + 1, texts).
    """
    bands = thirds(len(scores) - 1)
    if not bands:
        return {"by_third": [], "lead": None, "error": None, "supported": None}
    means = np.stack([scores[band].mean(axis=0) for band in bands])                  # (3, texts)
    rivals = [means[own] - means[other] for other in range(len(bands)) if other != own]
    leads = [(float(lead.mean()), standard_error(lead)) for lead in (*rivals, means[own])]
    lead, error = min(leads[:-1])
    return {"by_third": means.mean(axis=1).tolist(), "lead": lead, "error": error,
            "supported": all(mean > CLEAR * off for mean, off in leads)}


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


# ------------------------------------------------------------------------------ both, over a set


def probe_set(classifier: EmotionClassifier, texts: tuple[ProbeText, ...]) -> SetResult:
    """Measures and probes over a set of texts: worked out once for a model, also for two visitors
    who come at the same time."""
    with ONE_AT_A_TIME:
        return _probe_set(classifier, texts)


@lru_cache(maxsize=1)
def _probe_set(classifier: EmotionClassifier, texts: tuple[ProbeText, ...]) -> SetResult:
    probed = run_texts(classifier, texts)
    measured = [measure(text.attentions, text.states) for text in probed]
    means = {name: np.mean([one[name] for one in measured], axis=0) for name in MEASURES}
    chance = 1 / len({text.label for text in probed})
    return SetResult(len(probed), means, [
        described("form", 0.5, piece_scores(probed, 0)),
        described("relation", 0.5, piece_scores(probed, 1)),
        described("meaning", chance, meaning_scores(probed))])


def described(name: str, chance: float, scores: np.ndarray | None) -> ProbeResult:
    """A probe with its verdict; `scores` are above chance, (L + 1, texts)."""
    if scores is None:
        return {"name": name, "chance": chance, "accuracy": None, "by_third": [], "lead": None,
                "error": None, "supported": None}
    found = judge(scores, PROBES.index(name))
    by_third = [chance + gain for gain in found["by_third"]]
    return {**found, "name": name, "chance": chance, "accuracy": chance + scores.mean(axis=1),
            "by_third": by_third}
