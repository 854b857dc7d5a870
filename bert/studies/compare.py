"""Two texts, each alone or both in one input: attention, answers, similarity of their vectors."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from bert.classifier import EmotionClassifier
from bert.drawing.texts import Language, say, speaks_of_self_harm, texts
from bert.errors import UserError
from bert.explain.activations import mean_similarity, similarity, text_vectors
from bert.explain.attention import (
    TagData,
    effective_tokens,
    group_shares,
    head_tags,
    is_special,
    pattern_shares,
)
from bert.explain.patching import KINDS, Patching, align, patch
from bert.studies.base import (
    ClassItem,
    HeadOptions,
    Matrix,
    Number,
    Numbers,
    Study,
    StudyContext,
    Text,
    unpack,
    within,
)

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

PARTS = ("A", "B", "special")
# Minimal pairs, two turned by a negation and two by the order of their clauses.
PAIRS = (("I feel lonely", "I don't feel lonely anymore"), ("외로워", "안 외로워"),
         ("It was fun, but now I am scared", "It was scary, but now I am having fun"),
         ("떨렸지만 결국 합격했다", "합격했지만 결국 떨린다"))
KEPT_PATCHINGS = 8     # some KB each
NAMED_SHARE = 0.2      # a cell of the map with this much has its number written in it
MOST_PATCHED = 40_000  # tokens of all runs of a map: about 30 pieces with twelve layers
ONE_SEGMENT = ("This network reads one text at a time: it has no vectors for a second one. "
               "이 모델은 글을 한 번에 하나만 읽어요: 두 번째 글을 위한 벡터가 없어요.")


class CompareOptions(HeadOptions):
    local = ("at",)
    second: Text = ""
    joined: Literal["", "1"] = ""
    patch: Literal["", "own", "1", "2", "3", "4"] = ""  # the two texts, or one of PAIRS
    at: Number | None = None  # layer of the exact figures; None: the last


class Side(TypedDict):
    """One of the texts, read by itself."""

    text: str
    tokens: list[str]
    truncated: bool
    probabilities: Numbers
    weights: Any                  # a matrix, (T, T)
    tag: TagData
    patterns: dict[str, float]    # attention held by each
    effective_tokens: float


class Difference(TypedDict):
    picture: Any                  # a matrix, (T, T)
    moved: float                  # share of the attention that is elsewhere


class Joined(TypedDict):
    """Both texts in one input: [CLS] A [SEP] B [SEP]."""

    tokens: list[str]
    truncated: bool
    parts: Numbers                # (T,) of PARTS
    weights: Any                  # a matrix, (T, T)
    shares: Numbers               # (H, 3, 3), attention from part to part
    even: Numbers                 # (3,), what even attention would give each part
    probabilities: Numbers


class PatchedPlace(TypedDict):
    """A place of A and what stands there in B."""

    receiver: str
    donor: str


class PatchingMap(TypedDict):
    """How much of the difference between two answers comes back with single vectors of B in A."""

    texts: tuple[str, str]
    problem: str                  # classifier, long or same: why there is no map
    places: list[PatchedPlace]
    target: int                   # the class whose margin is measured: B's answer …
    against: int | None           # … rather than A's
    margins: tuple[float, float]  # of A and B
    shares: Numbers               # (3, L, P) by kind, layer and place
    carriers: list[tuple[int, int]]  # layer and place, from 0, where the residual stream has most
    #                                  of it: on the way, at another place, and in the last layer


class CompareData(TypedDict):
    layer: int
    head: int
    at: int
    classes: list[ClassItem]
    sides: list[Side]
    difference: Difference | None
    joined: Joined | None
    similarity: dict[str, Numbers]  # cosine after every layer, (L + 1,), of "cls" and "mean"
    usual: dict[str, Numbers]       # the same among the page's examples
    care: bool                      # the second text speaks of self-harm
    pairs: list[tuple[str, str]]    # texts that the map is offered with
    patch: str
    patching: PatchingMap | None


@lru_cache(maxsize=1)
def usual_similarity(classifier: EmotionClassifier) -> dict[str, np.ndarray]:
    """The mean similarity among the page's examples: what two unrelated texts have here."""
    return mean_similarity([text_vectors(classifier.run_with_cache(text), classifier.config)
                            for text in texts()["en"]["example_texts"]])


def run(context: StudyContext, text: str, options: CompareOptions) -> CompareData:
    config = context.config
    layer, head = options.chosen(config)
    second = options.second
    if not second.strip():
        second = next(example for example in texts()["en"]["example_texts"] if example != text)
    caches = context.cache(text), context.cache(second)
    one, other = (cache.value("attention", layer)[0, head - 1] for cache in caches)   # (T, T)
    sides: list[Side] = [{
        "text": cache.encoding.texts[0], "tokens": cache.encoding.pieces,
        "truncated": cache.encoding.truncated, "probabilities": context.probabilities(cache),
        "weights": Matrix(weights, "weights"),
        "tag": head_tags(cache.encoding, weights[None, None])[0][0].to_dict(),
        "patterns": pattern_shares(cache.encoding, weights),
        "effective_tokens": float(effective_tokens(weights)),
    } for cache, weights in zip(caches, (one, other), strict=True)]
    return {
        "layer": layer, "head": head, "classes": context.classes, "sides": sides,
        "at": within(options.at, 0, config.num_hidden_layers, config.num_hidden_layers),
        "difference": None if options.joined or one.shape != other.shape else {
            "picture": Matrix(other - one, "signed"),
            "moved": float(np.abs(other - one).sum() / 2 / len(one))},
        "joined": read_together(context, text, second, layer, head) if options.joined else None,
        "similarity": similarity(*(text_vectors(cache, config) for cache in caches)),
        "usual": usual_similarity(context.classifier), "care": speaks_of_self_harm(second),
        "pairs": list(PAIRS), "patch": options.patch,
        "patching": patching_map(context, (text, second) if options.patch == "own"
                                 else PAIRS[int(options.patch) - 1]) if options.patch else None,
    }


def patching_map(context: StudyContext, texts: tuple[str, str]) -> PatchingMap:
    """The map of two texts, or why there is none."""
    classifier = context.classifier
    receiver, donor = (classifier.encode(text) for text in texts)
    empty: PatchingMap = {
        "texts": (receiver.texts[0], donor.texts[0]), "problem": "", "places": [], "target": 0,
        "against": None, "margins": (0.0, 0.0), "shares": [], "carriers": []}
    if not classifier.checkpoint.has_classifier:
        return {**empty, "problem": "classifier"}
    places = align(receiver, donor)
    runs = len(KINDS) * context.config.num_hidden_layers * len(places)
    if runs * len(receiver.ids) > MOST_PATCHED:
        return {**empty, "problem": "long"}
    try:
        found = patched(classifier, *texts)
    except UserError:
        return {**empty, "problem": "same"}
    stream = found.shares[KINDS.index("residual")]                                   # (L, P)
    end = int(stream[-1].argmax())
    early = np.where(np.arange(stream.shape[1]) == end, -np.inf, stream)
    layer, place = divmod(int(early.argmax()), stream.shape[1])
    return {**empty, "target": found.target.index, "against": found.target.against,
            "places": [{"receiver": place.receiver_name, "donor": place.donor_name}
                       for place in found.places],
            "margins": (found.receiver_margin, found.donor_margin), "shares": found.shares,
            "carriers": [(layer, place), (len(stream) - 1, end)]}


@lru_cache(maxsize=KEPT_PATCHINGS)
def patched(classifier: EmotionClassifier, text: str, donor: str) -> Patching:
    return patch(classifier, text, donor)


def read_together(context: StudyContext, text: str, second: str, layer: int, head: int) -> Joined:
    if context.config.type_vocab_size < 2:
        raise UserError(ONE_SEGMENT)
    cache = context.classifier.run_with_cache(text, second)
    encoding = cache.encoding
    special, segment = np.array(is_special(encoding)), np.array(encoding.segment_ids)
    groups = np.stack([~special & (segment == 0), ~special & (segment == 1), special])  # (3, T)
    weights = cache.value("attention", layer)[0]                                     # (H, T, T)
    return {
        "tokens": encoding.pieces, "truncated": encoding.truncated,
        "parts": groups.argmax(axis=0), "weights": Matrix(weights[head - 1], "weights"),
        "shares": group_shares(weights, groups), "even": groups.mean(axis=1),
        "probabilities": context.probabilities(cache),
    }


def table(data: CompareData) -> list[list[Any]]:
    rows: list[list[Any]] = [["figure", "of", "value"]]
    head = f"layer {data['layer']}, head {data['head']}"
    answers: dict[str, Side | Joined] = dict(zip("AB", data["sides"], strict=True))
    if data["joined"]:
        answers["A and B"] = data["joined"]
    for name, answer in answers.items():
        rows += [[f"probability, {name}", item["key"], share]
                 for item, share in zip(data["classes"], answer["probabilities"], strict=True)]
    for name in ("cls", "mean"):
        rows += [[f"cosine of {name}", f"layer {layer}", value]
                 for layer, value in enumerate(data["similarity"][name])]
        rows += [[f"cosine of {name} among the examples", f"layer {layer}", value]
                 for layer, value in enumerate(data["usual"][name])]
    if (patching := data["patching"]) and not patching["problem"]:
        one, other = patching["texts"]
        rows += [[f"margin, {name}", text, margin] for name, text, margin in
                 zip("AB", patching["texts"], patching["margins"], strict=True)]
        rows += [[f"{KINDS[kind]} of “{other}” in “{one}”",
                  f"layer {layer}, {patching['places'][place]['receiver']}", share]
                 for kind, layers in enumerate(patching["shares"])
                 for layer, places in enumerate(layers, 1) for place, share in enumerate(places)]
    if data["joined"]:
        return rows + [[f"attention, {PARTS[row]} to {PARTS[column]}",
                        f"layer {data['layer']}, head {number}", share]
                       for number, shares in enumerate(data["joined"]["shares"], 1)
                       for row, line in enumerate(shares) for column, share in enumerate(line)]
    for name, side in zip("AB", data["sides"], strict=True):
        rows += [[f"attention, {name}", f"{pattern}, {head}", share]
                 for pattern, share in side["patterns"].items()]
        rows.append([f"attention, {name}", f"effective tokens, {head}", side["effective_tokens"]])
    return rows


def draw(data: CompareData, language: Language) -> "Figure":
    from bert.drawing.charts import (
        SIMILARITY_INKS,
        Line,
        name_tokens,
        place_cosines,
        place_paired_bars,
        show_weights,
        signed_pixels,
    )
    from bert.drawing.figures import drawable, new_figure
    if (patching := data["patching"]) and not patching["problem"]:
        return draw_patching(patching, data["classes"], language)
    figure = new_figure(12, 8.4)
    figure.suptitle(" · ".join((say(language, "study_compare"),
                                say(language, "layer_n", n=data["layer"]),
                                say(language, "head_n", n=data["head"]))))
    sides, joined, difference = data["sides"], data["joined"], data["difference"]
    answers = {"A": sides[0]["probabilities"], "B": sides[1]["probabilities"]}
    shown: dict[str, Side | Joined] = {f"{name}: {drawable(side['text'], 40)}": side
                                       for name, side in zip("AB", sides, strict=True)}
    if joined:
        shown = {say(language, "compare_both"): joined}
        answers[say(language, "compare_both")] = joined["probabilities"]
    maps = [(0.08 + 0.33 * column, title, side["tokens"], unpack(side["weights"]))
            for column, (title, side) in enumerate(shown.items())]
    if difference:
        maps.append((0.74, "B − A", sides[0]["tokens"], signed_pixels(
            unpack(difference["picture"]), difference["picture"]["limit"])))
    for left, title, tokens, pixels in maps:
        axes = figure.add_axes((left, 0.52, 0.25, 0.3))
        show_weights(axes, pixels)
        name_tokens(axes, tokens, 24, 8)
        axes.tick_params(length=0)
        axes.set_xlabel(title, fontsize=9, parse_math=False)
    if joined:
        names = ["A", "B", say(language, "compare_special")]
        axes = figure.add_axes((0.5, 0.52, 0.4, 0.3))
        shares = joined["shares"][data["head"] - 1]
        show_weights(axes, shares, aspect="auto")
        for row, column in np.ndindex(3, 3):
            axes.text(column, row, f"{100 * shares[row][column]:.1f} %", ha="center", va="center",
                      color="black" if shares[row][column] > 0.6 else "white")
        axes.set_xticks(range(3), names)
        axes.set_yticks(range(3), names)
        axes.set(xlabel=say(language, "key"), ylabel=say(language, "query"))
    place_paired_bars(figure, (0.1, 0.07, 0.34, 0.36), data["classes"], answers, language)
    place_cosines(figure, (0.56, 0.1, 0.4, 0.3), [
        Line(values[name], style, ink, f"{say(language, f'compare_{name}')} {suffix}".strip())
        for values, style, suffix in ((data["similarity"], "-", ""),
                                      (data["usual"], "--", say(language, "compare_usual")))
        for name, ink in SIMILARITY_INKS.items()],
        say(language, "layer"), say(language, "compare_similarity")).axvline(
            data["at"], color="#566273", linewidth=0.8)
    return figure


def draw_patching(data: PatchingMap, classes: list[ClassItem], language: Language) -> "Figure":
    """The three maps, a column for each place of A."""
    from bert.drawing.charts import signed_pixels
    from bert.drawing.figures import MUTED, drawable, new_figure
    figure = new_figure(13, 5.2)
    shares = np.array(data["shares"])                                                # (3, L, P)
    limit = max(1.0, float(np.abs(shares).max()))
    figure.suptitle(say(language, "compare_patching"))
    for row, (name, text) in enumerate(zip("AB", data["texts"], strict=True)):
        figure.text(0.5, 0.905 - 0.045 * row, drawable(f"{name}: {text}", 110), ha="center",
                    fontsize=9, color=MUTED, parse_math=False)
    for kind, name in enumerate(KINDS):
        axes = figure.add_axes((0.06 + 0.315 * kind, 0.1, 0.28, 0.56))
        axes.imshow(signed_pixels(shares[kind], limit), aspect="auto", interpolation="nearest")
        for layer, place in np.argwhere(np.abs(shares[kind]) >= NAMED_SHARE):
            axes.text(place, layer, f"{100 * shares[kind, layer, place]:.0f}", ha="center",
                      va="center", fontsize=6.5,
                      color="white" if abs(shares[kind, layer, place]) > limit / 2 else "black")
        axes.xaxis.tick_top()
        axes.set_xticks(range(len(data["places"])), [drawable(place_name(place), 14)
                        for place in data["places"]], rotation=60, ha="left", fontsize=7,
                        parse_math=False)
        axes.set_yticks(range(len(shares[kind])), [str(i + 1) for i in range(len(shares[kind]))],
                        fontsize=7)
        axes.tick_params(length=0)
        axes.set_xlabel(say(language, f"compare_patch_{name.replace('-', '_')}"), fontsize=9)
    other = (say(language, "compare_patch_next") if data["against"] is None
             else classes[data["against"]][language])
    margins = say(language, "compare_patch_margins", a=f"{data['margins'][0]:+.2f}",
                  b=f"{data['margins'][1]:+.2f}",
                  question=f"{classes[data['target']][language]} − {other}")
    figure.text(0.5, 0.02, drawable(f"{carried(data, language)} {margins}", 160), ha="center",
                fontsize=9, color=MUTED, parse_math=False)
    return figure


def carried(data: PatchingMap, language: Language) -> str:
    """Where the difference is, in a sentence."""
    (layer, place), (last, other) = data["carriers"]
    shares = data["shares"][KINDS.index("residual")]
    return say(language, "compare_patch_found", layer=layer + 1,
               place=place_name(data["places"][place]), other=place_name(data["places"][other]),
               share=f"{100 * shares[layer][place]:.0f} %",
               other_share=f"{100 * shares[last][other]:.0f} %")


def place_name(place: PatchedPlace) -> str:
    """The piece, or both where they differ."""
    own, other = place["receiver"], place["donor"]
    return own if own == other else f"{own}/{other}"


STUDY = Study("compare", CompareOptions, run, draw, table)
