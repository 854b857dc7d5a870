"""Layer bands: "early layers form, middle layers relations, late layers meaning", put to the test.

Two kinds of evidence, layer by layer. What a layer does: how far and how widely its heads look,
what rests on [CLS], [SEP] and the token itself, how much the vectors change; of the text at hand
and as a mean over a fixed set of texts. What a layer holds: three linear probes on that set, scored
on texts they were not fitted to:

    form       does this piece continue a word (##)?                from the piece's vector
    relation   does the next piece continue the same word?          from the piece's vector
    meaning    which of the feelings was the text written for?      from the mean of its vectors

Form and relation count only pieces that the probe never saw: what is left is no list of pieces
learned by heart (Hewitt & Liang 2019). The set is run when the view is first opened, and once.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from bert.lab import Lab, Options, Study
from bert.predict import EmotionClassifier
from bert.tensors import cosines, hidden_states
from bert.texts import PAGE, say
from bert.tokenizer import Encoding
from bert.views import effective_tokens

MEASURES = ("distance", "spread", "self", "cls", "sep", "change")
SHARES = ("self", "cls", "sep")
PROBES = ("form", "relation", "meaning")  # in the order of the claim: early, middle, late
INKS = {"form": "#3a4ea8", "relation": "#0b7d8a", "meaning": "#b04d14"}
PENALTY = 1.0       # of the ridge regression, per row; of 0.1 and 1 the one that read form better
CLEAR = 2.0         # standard errors that a lead must have
TEXTS_AT_ONCE = 16
ONE_AT_A_TIME = threading.Lock()


# ------------------------------------------------------------------------------ the set of texts


@dataclass(frozen=True)
class Probed:
    """One text of the set as the network sees it."""

    label: str
    fold: int                # texts of one fold are held out together, as many of every class
    encoding: Encoding
    attentions: np.ndarray   # (L, H, T, T)
    states: np.ndarray       # (L + 1, T, E)


@lru_cache(maxsize=1)
def probe_texts() -> list[tuple[str, int, str]]:
    """Class, fold and text of the set: one fold holds the n-th text of each class and language."""
    groups = json.loads((PAGE / "probe_texts.json").read_text(encoding="utf-8"))
    return [(label, fold, text) for label, languages in groups.items()
            for texts in languages.values() for fold, text in enumerate(texts)]


@torch.inference_mode()
def look_through(classifier: EmotionClassifier,
                 lines: Sequence[tuple[str, int, str]]) -> list[Probed]:
    """Attention and hidden states of many texts, a few of similar length at once."""
    bert = getattr(classifier.model, "bert", classifier.model)
    found = sorted(((classifier.encode(text), label, fold) for label, fold, text in lines),
                   key=lambda line: len(line[0].ids))
    probed = []
    for start in range(0, len(found), TEXTS_AT_ONCE):
        part = found[start:start + TEXTS_AT_ONCE]
        batch = classifier.tokenizer.pad([encoding for encoding, _, _ in part])
        output = bert(torch.from_numpy(batch.ids), None, torch.from_numpy(batch.is_token))
        attentions = torch.stack(output.attentions, dim=1).numpy()                # (B, L, H, T, T)
        states = torch.stack(output.hidden_states, dim=1).numpy()                 # (B, L + 1, T, E)
        for row, (encoding, label, fold) in enumerate(part):
            size = len(encoding.ids)
            probed.append(Probed(label, fold, encoding, attentions[row, ..., :size, :size],
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
        "spread": np.array([np.mean([effective_tokens(head) for head in layer])
                            for layer in attentions]),
        "self": attentions.diagonal(axis1=-2, axis2=-1).mean(axis=tokens),
        "cls": attentions[..., 0].mean(axis=tokens),
        "sep": attentions[..., -1].mean(axis=tokens),
        "change": 1 - cosines(states).mean(axis=-1),
    }


# ------------------------------------------------------------------------------ what a layer holds


def ridge(rows: np.ndarray, targets: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Targets foretold for new rows, less their mean: (N, E), (N, K), (M, E) -> (M, K)."""
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    known = (rows - centre) / spread
    matrix = known.T @ known + PENALTY * len(known) * np.eye(known.shape[1])         # (E, E)
    return (new - centre) / spread @ np.linalg.solve(
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


def meaning_scores(probed: Sequence[Probed]) -> np.ndarray:
    """The feeling from the mean of the text's own vectors: (L + 1, texts)."""
    rows = np.stack([text.states[:, 1:-1].mean(axis=1) for text in probed], axis=1)
    labels = np.array([text.label for text in probed])
    folds = np.array([text.fold for text in probed])
    right = np.stack([is_read(layer.astype(np.float64), labels, folds) for layer in rows])
    return by_text(right, labels, np.arange(len(probed)), len(probed))


def piece_scores(probed: Sequence[Probed], ahead: int) -> np.ndarray | None:
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


def judge(scores: np.ndarray, own: int) -> dict:
    """Whether a probe reads best in its own third: ahead of both others and of chance, each by more
    than two standard errors over the texts. `lead` and `error` are over the better of the others.

    `scores` are those of `by_text`, (L + 1, texts).
    """
    bands = thirds(len(scores) - 1)
    if not bands:
        return {"bands": [], "lead": None, "error": None, "supported": None}
    means = np.stack([scores[band].mean(axis=0) for band in bands])                  # (3, texts)
    rivals = [means[own] - means[other] for other in range(len(bands)) if other != own]
    leads = [(lead.mean(), standard_error(lead)) for lead in (*rivals, means[own])]
    lead, error = min(leads[:-1])
    return {"bands": means.mean(axis=1), "lead": lead, "error": error,
            "supported": all(mean > CLEAR * spread for mean, spread in leads)}


def standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


# ---------------------------------------------------------------------------------- the study


def over_the_set(classifier: EmotionClassifier) -> dict:
    """Measures and probes over the fixed texts: worked out once for a model, also for two visitors
    who come at the same time."""
    with ONE_AT_A_TIME:
        return _over_the_set(classifier)


@lru_cache(maxsize=1)
def _over_the_set(classifier: EmotionClassifier) -> dict:
    probed = look_through(classifier, probe_texts())
    measured = [measure(text.attentions, text.states) for text in probed]
    scores = {"form": piece_scores(probed, 0), "relation": piece_scores(probed, 1),
              "meaning": meaning_scores(probed)}
    chance = {"form": 0.5, "relation": 0.5, "meaning": 1 / len({text.label for text in probed})}
    return {"texts": len(probed),
            "measures": {name: np.mean([one[name] for one in measured], axis=0)
                         for name in MEASURES},
            "probes": [described(name, chance[name], scores[name]) for name in PROBES]}


def described(name: str, chance: float, scores: np.ndarray | None) -> dict:
    """A probe's accuracy by layer and by third, and what becomes of its part of the claim."""
    if scores is None:
        return {"name": name, "chance": chance, "accuracy": None, "supported": None}
    found = judge(scores, PROBES.index(name))
    return {"name": name, "chance": chance, "accuracy": chance + scores.mean(axis=1), **found,
            "bands": [chance + gain for gain in found["bands"]]}


def run_bands(lab: Lab, text: str, options: Options) -> dict:
    config = lab.classifier.config
    trace = lab.trace(text)
    attentions = np.concatenate([trace.value("attention", layer)
                                 for layer in range(1, config.num_hidden_layers + 1)])
    states = hidden_states(trace, config.num_hidden_layers, config.norm == "pre")
    whole = over_the_set(lab.classifier)
    return {"thirds": thirds(config.num_hidden_layers), "texts": whole["texts"],
            "probes": whole["probes"],
            "measures": {name: {"text": values, "set": whole["measures"][name]}
                         for name, values in measure(attentions, states).items()}}


def bands_table(data: Mapping[str, Any]) -> list[list]:
    probes = [probe for probe in data["probes"] if probe["accuracy"]]
    num_layers = len(data["measures"][MEASURES[0]]["text"])
    return [["layer", *(f"{name} ({of})" for name in MEASURES for of in ("text", "set")),
             *(f"{probe['name']} probe" for probe in probes)],
            *([layer, *(data["measures"][name][of][layer - 1] if layer else ""
                        for name in MEASURES for of in ("text", "set")),
               *(probe["accuracy"][layer] for probe in probes)]
              for layer in range(num_layers + 1)),
            [], ["chance", *[""] * (2 * len(MEASURES)), *(probe["chance"] for probe in probes)],
            ["supported", *[""] * (2 * len(MEASURES)), *(probe["supported"] for probe in probes)]]


def verdict(probe: Mapping[str, Any], language: str) -> str:
    """One sentence on a part of the claim, as the page says it."""
    claim = {"form": "bands_form_claim", "relation": "bands_relation_claim",
             "meaning": "bands_meaning_claim"}[probe["name"]]
    if probe["supported"] is None:
        return f"{say(language, claim)}: {say(language, 'bands_untested')}"
    early, middle, late = (f"{share:.1%}" for share in probe["bands"])
    figures = say(language, "bands_figures", early=early, middle=middle, late=late,
                  lead=f"{100 * probe['lead']:+.1f}", error=f"{100 * probe['error']:.1f}")
    found = "bands_supported" if probe["supported"] else "bands_unsupported"
    return f"{say(language, claim)}: {say(language, found)}. {figures}"


def draw_bands(data: Mapping[str, Any], language: str):
    from bert.figures import INK, MUTED, new_figure, wrapped
    figure = new_figure(11, 9)
    _draw_probes(figure.add_axes((0.06, 0.62, 0.42, 0.3)), data, language)
    for row, name in enumerate(MEASURES):
        axes = figure.add_axes((0.06 + 0.325 * (row % 3), 0.34 - 0.275 * (row // 3), 0.265, 0.185))
        scale = 100 if name in SHARES else 1
        for of, ink in (("set", MUTED), ("text", INKS["form"])):
            values = scale * np.array(data["measures"][name][of])
            axes.plot(range(1, len(values) + 1), values, color=ink, marker="o", markersize=3,
                      linestyle="--" if of == "set" else "-",
                      label=say(language, f"bands_{of}", texts=data["texts"]))
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(1, len(values) + 1))
        axes.tick_params(labelsize=8)
        axes.set_title(say(language, f"bands_{name}") + (" (%)" if name in SHARES else ""),
                       fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if not row:
            figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=2,
                          frameon=False, fontsize=9)
    lines = [line for probe in data["probes"]
             for line in (*wrapped(verdict(probe, language), 66), "")]
    lines += wrapped(say(language, "bands_rule", texts=data["texts"]), 66)
    for number, line in enumerate(lines):
        figure.text(0.53, 0.92 - 0.021 * number, line, fontsize=9, color=INK, parse_math=False)
    figure.suptitle(say(language, "study_bands"))
    return figure


def _draw_probes(axes: Any, data: Mapping[str, Any], language: str) -> None:
    num_layers = len(data["measures"][MEASURES[0]]["text"])
    for probe in data["probes"]:
        if probe["accuracy"]:
            axes.plot(100 * np.array(probe["accuracy"]), color=INKS[probe["name"]], marker="o",
                      markersize=3, label=say(language, f"bands_{probe['name']}"))
    for chance in sorted({probe["chance"] for probe in data["probes"]}):
        names = ", ".join(say(language, f"bands_{probe['name']}") for probe in data["probes"]
                          if probe["chance"] == chance)
        axes.axhline(100 * chance, color="#566273", linestyle=":", linewidth=1)
        axes.text(num_layers / 2, 100 * chance - 1, say(language, "bands_chance", names=names),
                  fontsize=8, color="#566273", ha="center", va="top")
    for band in data["thirds"][:-1]:
        axes.axvline(band[-1] + 0.5, color="#dbe1e8")
    axes.set_xticks(range(num_layers + 1))
    axes.set(ylim=(0, 100), xlabel=say(language, "layer"), ylabel="%")
    axes.set_title(say(language, "bands_probes"), fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.12))


BANDS = Study("bands", run_bands, draw_bands, bands_table)
