"""Kinds of heads: what every head does in general, over many texts, beside what it does here."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import numpy as np

from bert.classifier import EmotionClassifier
from bert.drawing.texts import Language, say
from bert.explain.heads import ENDINGS, PATTERNS, describe_text
from bert.studies.base import HeadOptions, Numbers, Study, StudyContext

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

HERE = "here"  # this text, beside the languages of the survey
KINDS = (*PATTERNS, *ENDINGS)
COLOURS = dict(zip(KINDS, ("#7aa6d6", "#f6a04d", "#f08a87", "#c9a58c", "#cf9fc4", "#7fc677",
                           "#eeca3b", "#ffb3ba", "#8b95a330", "#8b95a390"), strict=True))
MARKS = dict(zip(KINDS, ("•", "←", "→", "S", "C", "w", "^", "◆", "", "·"), strict=True))
FIGURES = ("effective_tokens", "entropy", "distance")
KEPT_TEXTS = 4  # 20 KB each


class HeadKindsOptions(HeadOptions):
    local: ClassVar = ("figure",)
    figure: str = "kind"  # what the map is coloured by: or one of FIGURES, or importance


class Look(TypedDict):
    """One strong look of the chosen head."""

    language: str
    text: str
    source: str
    seen: str
    weight: float


class HeadKindsData(TypedDict):
    """Tables by language, and of this text as "here"."""

    layer: int
    head: int
    has_survey: bool
    texts: dict[str, int]              # how many were read in each language
    patterns: list[str]
    colours: dict[str, str]            # of each kind
    marks: dict[str, str]
    kinds: dict[str, Numbers]          # (L, H) of names
    shares: dict[str, Numbers]         # (L, H, P), None where a pattern cannot be shown
    figures: dict[str, dict[str, Numbers]]  # of FIGURES and, with a classifier, importance: (L, H)
    same_kind: Numbers                 # (L, H), whether the languages agree
    largest_difference: Numbers        # (L, H), of their shares
    strongest: list[Look]


@lru_cache(maxsize=KEPT_TEXTS)
def tables_here(classifier: EmotionClassifier, text: str) -> dict[str, Any]:
    return describe_text(classifier, text)


def run(context: StudyContext, text: str, options: HeadKindsOptions) -> HeadKindsData:
    layer, head = options.chosen(context.config)
    survey = context.head_survey
    languages: dict[str, Any] = {} if survey is None else survey["languages"]
    tables = {**languages, HERE: tables_here(context.classifier, text)}
    shape = context.config.num_hidden_layers, context.config.num_attention_heads
    agreement = (survey or {}).get("agreement", {
        "same_kind": np.ones(shape, dtype=bool), "largest_difference": np.zeros(shape)})
    return {
        "layer": layer, "head": head, "has_survey": survey is not None,
        "texts": {name: found["texts"] for name, found in languages.items()},
        "patterns": list(PATTERNS), "colours": COLOURS, "marks": MARKS,
        "kinds": {name: found["kind"] for name, found in tables.items()},
        "shares": {name: without_nan(found["shares"]) for name, found in tables.items()},
        "figures": {name: {figure: found[figure] for figure in (*FIGURES, "importance")
                           if found.get(figure) is not None} for name, found in tables.items()},
        "same_kind": agreement["same_kind"],
        "largest_difference": agreement["largest_difference"],
        "strongest": [{"language": name, "text": survey["texts"][look["text"]],
                       "source": look["from"], "seen": look["to"], "weight": look["weight"]}
                      for name, found in languages.items()
                      for look in found["strongest"][layer - 1][head - 1]] if survey else [],
    }


def without_nan(values: Numbers) -> Numbers:
    """Arrays as lists with None for NaN, which JSON does not know."""
    if isinstance(values, np.ndarray):
        plain = values.astype(object)
        plain[np.isnan(values)] = None
        return plain.tolist()
    return values


def table(data: HeadKindsData) -> list[list[Any]]:
    names = list(data["kinds"])
    figures = list(data["figures"][HERE])
    heading = ["layer", "head", "same kind in all languages", "largest difference of a share"]
    rows: list[list[Any]] = [heading + [f"{what}, {name}" for name in names for what in
                                        ("kind", *figures, *data["patterns"])]]
    num_layers, num_heads = len(data["kinds"][HERE]), len(data["kinds"][HERE][0])
    for layer, head in np.ndindex(num_layers, num_heads):
        cells: list[Any] = [layer + 1, head + 1, int(data["same_kind"][layer][head]),
                            data["largest_difference"][layer][head]]
        for name in names:
            cells += [data["kinds"][name][layer][head],
                      *(data["figures"][name][figure][layer][head]
                        if figure in data["figures"][name] else "" for figure in figures),
                      *("" if share is None else share
                        for share in data["shares"][name][layer][head])]
        rows.append(cells)
    return rows


def draw(data: HeadKindsData, language: Language) -> "Figure":
    from bert.drawing.figures import INK, MUTED, new_figure
    figure = new_figure(4.6 * len(data["kinds"]), 5.6)
    figure.suptitle(say(language, "study_head_kinds"))
    present = set()
    for column, (name, kinds) in enumerate(data["kinds"].items()):
        wide = 1 / len(data["kinds"])
        axes = figure.add_axes((wide * (column + 0.14), 0.24, wide * 0.8, 0.58))
        present |= {kind for row in kinds for kind in row}
        axes.imshow([[to_rgb(COLOURS[kind]) for kind in row] for row in kinds], aspect="auto")
        for layer, row in enumerate(kinds):
            for head, kind in enumerate(row):
                axes.text(head, layer, MARKS[kind], ha="center", va="center", fontsize=9, color=INK)
        axes.set_xticks(range(len(kinds[0])), [str(i + 1) for i in range(len(kinds[0]))])
        axes.set_yticks(range(len(kinds)), [str(i + 1) for i in range(len(kinds))])
        axes.tick_params(length=0, labelsize=8, colors=MUTED)
        axes.set(xlabel=say(language, "head"), ylabel=say(language, "layer"))
        axes.set_title(column_name(data, name, language), fontsize=10)
    shown = [kind for kind in KINDS if kind in present]
    for place, kind in enumerate(shown):
        left, height = 0.05 + 0.95 * (place % 5) / 5, 0.09 - 0.045 * (place // 5)
        figure.text(left, height, f" {MARKS[kind] or ' '} ", fontsize=9, color=INK,
                    bbox={"facecolor": to_rgb(COLOURS[kind]), "edgecolor": "none", "pad": 2})
        figure.text(left + 0.18 / len(data["kinds"]), height,
                    say(language, f"head_kinds_{kind}"), fontsize=9, color=INK)
    return figure


def to_rgb(colour: str) -> tuple[float, ...]:
    """#rrggbb or #rrggbbaa on white, each 0–1."""
    red, green, blue, *alpha = bytes.fromhex(colour[1:])
    share = alpha[0] / 255 if alpha else 1.0
    return tuple(1 - share * (1 - part / 255) for part in (red, green, blue))


def column_name(data: HeadKindsData, name: str, language: Language) -> str:
    if name == HERE:
        return say(language, "head_kinds_here")
    return say(language, "head_kinds_general", texts=f"{data['texts'][name]:,}",
               name=say(language, f"head_kinds_{name}"))


STUDY = Study("head_kinds", HeadKindsOptions, run, draw, table)
