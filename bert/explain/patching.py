"""Activation patching: parts of one text's run put into the run of another.

Zhang & Nanda 2023, https://arxiv.org/abs/2309.16042. The text that runs is the receiver; at one
layer and one place it gets what the donor had there. How much of the difference between the two
margins comes back says whether that place carries what makes the answers differ: 0 nothing, 1 all
of it; below 0 and above 1 are possible.

Three kinds of activations are patched at every layer: the residual stream that goes into the layer,
the output of its attention, and the output of its feed-forward network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np
import torch
from torch import Tensor

from bert.classifier import EmotionClassifier
from bert.errors import UserError
from bert.explain.target import Target
from bert.tokenizer import Encoding

KINDS = ("residual", "attention", "feed-forward")
TOKENS_AT_ONCE = 4_096      # of all patched copies of a text that run together
SMALLEST_DIFFERENCE = 1e-3  # of the two margins; below it there is nothing to bring back
SAME = ("The two texts have the same margin: there is no difference to bring back. "
        "두 글의 로짓 차이가 같아서 되돌릴 차이가 없어요.")


@dataclass(frozen=True)
class Place:
    """A place of the receiver and what stands there in the donor."""

    receiver_name: str
    donor_name: str
    receiver: list[int]   # positions
    donor: list[int]      # as many: whose activations they get


@dataclass(frozen=True)
class Patching:
    """The margin of the receiver with each place patched."""

    places: list[Place]
    target: Target
    receiver_margin: float
    donor_margin: float
    margins: np.ndarray    # (3, L, P) by kind, layer and place

    @property
    def shares(self) -> np.ndarray:
        """How much of the difference comes back: (3, L, P)."""
        return (self.margins - self.receiver_margin) / (self.donor_margin - self.receiver_margin)


# ---------------------------------------------------------------------------------- alignment


def align(receiver: Encoding, donor: Encoding) -> list[Place]:
    """Piece by piece if both have the same number of pieces, else word by word.

    Words that only one text has are left out; where words were exchanged for others, the whole run
    is one place if their numbers differ. Of a word with another number of pieces each piece gets
    the one at the same relative position.
    """
    if len(receiver.ids) == len(donor.ids):
        return [Place(one, other, [place], [place]) for place, (one, other)
                in enumerate(zip(receiver.pieces, donor.pieces, strict=True))]
    sides = [encoding.grouped() for encoding in (receiver, donor)]
    keys = [[tuple(encoding.ids[place] for place in places) for _, places in groups]
            for encoding, groups in zip((receiver, donor), sides, strict=True)]
    found: list[Place] = []
    for name, start, end, other_start, other_end in SequenceMatcher(
            None, keys[0], keys[1], autojunk=False).get_opcodes():
        own, other = sides[0][start:end], sides[1][other_start:other_end]
        if name in ("insert", "delete"):
            continue
        if len(own) == len(other):
            found += [_place([one], [two]) for one, two in zip(own, other, strict=True)]
        else:
            found.append(_place(own, other))
    return found


def _place(own: Sequence[tuple[str, list[int]]], other: Sequence[tuple[str, list[int]]]) -> Place:
    (receiver_name, receiver), (donor_name, donor) = (
        (" ".join(name for name, _ in words), [place for _, places in words for place in places])
        for words in (own, other))
    nearest = np.rint(np.linspace(0, len(donor) - 1, len(receiver))).astype(int)
    return Place(receiver_name, donor_name, receiver, [donor[i] for i in nearest])


# ---------------------------------------------------------------------------------- patching


def step_name(kind: str, layer: int, is_pre_norm: bool) -> str:
    """The step of the forward pass that holds these activations; layers are counted from 1."""
    if kind != "residual":
        return f"layer {layer} · {kind} output"
    if layer == 1:
        return "LayerNorm"
    last = "feed-forward residual" if is_pre_norm else "feed-forward LayerNorm"
    return f"layer {layer - 1} · {last}"


def patch(classifier: EmotionClassifier, text: str, donor: str, target: Target | None = None,
          places: Sequence[Place] | None = None) -> Patching:
    """What comes back of the donor's margin, for every kind, layer and place.

    Without a target: the donor's answer rather than the receiver's, or their common answer.
    """
    classifier.needs_classifier()
    encodings = classifier.encode(text), classifier.encode(donor)
    logits, (_, known) = zip(*(_recorded(classifier, encoding) for encoding in encodings),
                             strict=True)
    if target is None:
        own, other = (int(row.argmax()) for row in logits)
        target = Target(other, None if own == other else own)
    receiver_margin, donor_margin = (float(target.margin(row)) for row in logits)
    if abs(donor_margin - receiver_margin) < SMALLEST_DIFFERENCE:
        raise UserError(SAME)
    places = align(*encodings) if places is None else list(places)
    margins = torch.stack([torch.stack([
        target.margin(patched_logits(classifier, encodings[0], name, known[name], places))
        for name in (_name(classifier, kind, layer) for layer in _layers(classifier))])
        for kind in KINDS])                                                          # (3, L, P)
    return Patching(places, target, receiver_margin, donor_margin, margins.numpy())


@torch.inference_mode()
def patched_logits(classifier: EmotionClassifier, receiver: Encoding, name: str, values: Tensor,
                   places: Sequence[Place]) -> Tensor:
    """The receiver's logits with each place by itself patched at one step, (P, C); `values` are the
    donor's activations there, (T, E)."""
    found = []
    step = max(TOKENS_AT_ONCE // len(receiver.ids), 1)
    for first in range(0, len(places), step):
        part = places[first:first + step]
        rows = [row for row, place in enumerate(part) for _ in place.receiver]
        own = [position for place in part for position in place.receiver]
        other = [position for place in part for position in place.donor]

        def hook(told: str, value: Tensor, rows=rows, own=own, other=other) -> Tensor | None:
            if told != name:
                return None
            value = value.clone()
            value[rows, own] = values[other]
            return value

        ids = torch.tensor([receiver.ids]).expand(len(part), -1)
        found.append(classifier.model(ids, need_weights=False, hook=hook).logits)
    return torch.cat(found)


@torch.inference_mode()
def _recorded(classifier: EmotionClassifier,
              encoding: Encoding) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits of a text, (C,), and what can be patched out of its run, each (T, E)."""
    wanted = {_name(classifier, kind, layer) for kind in KINDS for layer in _layers(classifier)}
    known: dict[str, Tensor] = {}

    def hook(name: str, value: Tensor) -> None:
        if name in wanted:
            known[name] = value[0]

    ids = torch.tensor([encoding.ids])
    return classifier.model(ids, need_weights=False, hook=hook).logits[0], known


def _name(classifier: EmotionClassifier, kind: str, layer: int) -> str:
    return step_name(kind, layer, classifier.config.norm == "pre")


def _layers(classifier: EmotionClassifier) -> range:
    return range(1, classifier.config.num_hidden_layers + 1)
