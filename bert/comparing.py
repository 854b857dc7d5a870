"""Comparing: two texts with each other, and one text with itself in another order.

Pair    two texts, each alone or both in one input: attention, answers, similarity of their vectors
Order   words shuffled or reversed, or positions switched off: what is left of the answer
"""

import copy
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from bert import views
from bert.lab import Lab, Matrix, Options, Study
from bert.model import sinusoidal_positions, vectors
from bert.passage import signed_picture
from bert.predict import EmotionClassifier, Inspection
from bert.tensors import cosine, hidden_states
from bert.texts import say, speaks_of_self_harm, texts
from bert.tokenizer import Encoding

PARTS = ("A", "B", "special")
SHOWN_POSITIONS = 64
LINE_COLOURS = {"cls": "#3a4ea8", "mean": "#b04d14"}
PIZZA = (("I ate pizza", "pizza ate I"), ("나는 피자를 먹었다", "피자는 나를 먹었다"))
ONE_SEGMENT = ("This network reads one text at a time: it has no vectors for a second one. "
               "이 모델은 글을 한 번에 하나만 읽어요: 두 번째 글을 위한 벡터가 없어요.")


# ---------------------------------------------------------------------------------- vectors


def text_vectors(classifier: EmotionClassifier, trace: Inspection) -> dict[str, np.ndarray]:
    """One vector for the text in two ways, each (L + 1, E): [CLS], and the mean of all tokens."""
    config = classifier.config
    states = hidden_states(trace, config.num_hidden_layers, config.norm == "pre")
    return {"cls": states[:, 0], "mean": states.mean(axis=1, dtype=np.float64)}


def similarity(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> dict:
    """The cosine after every layer, (L + 1,), for [CLS] and for the mean."""
    return {name: cosine(one[name], other[name]) for name in one}


@lru_cache(maxsize=1)
def usual_similarity(classifier: EmotionClassifier) -> dict[str, np.ndarray]:
    """The mean similarity among the page's examples: what two unrelated texts have here."""
    found = [text_vectors(classifier, classifier.inspect(text))
             for text in texts()["en"]["example_texts"]]
    pairs = [similarity(one, other) for one, other in combinations(found, 2)]
    return {name: np.mean([pair[name] for pair in pairs], axis=0) for name in pairs[0]}


def probabilities(classifier: EmotionClassifier, trace: Inspection) -> np.ndarray:
    """The answer, (C,); nothing when the checkpoint has no classifier."""
    has_classifier = classifier.checkpoint.has_classifier
    return trace.value("probabilities")[0] if has_classifier else np.zeros(0)


def classes(classifier: EmotionClassifier) -> list[dict]:
    return views.class_list(classifier.keys if classifier.checkpoint.has_classifier else ())


# ---------------------------------------------------------------------------------- two texts


def group_shares(weights: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Attention between groups of tokens, from row to column: each row sums to one.

    (…, T, T) weights and (G, T) groups -> (…, G, G), the mean over the tokens that look.
    """
    groups = groups.astype(np.float64)
    return groups @ weights @ groups.T / np.maximum(groups.sum(axis=1), 1)[:, None]


def habits(encoding: Encoding, weights: np.ndarray) -> dict[str, float]:
    """How much of a head's attention each known pattern holds, and over how many tokens a row is
    spread."""
    held = {name: (weights * cells).sum() / cells.any(axis=1).sum()
            for name, cells in views.patterns(encoding).items()}
    return {**held, "spread": views.effective_tokens(weights)}


def run_pair(lab: Lab, text: str, options: Options) -> dict:
    classifier, config = lab.classifier, lab.classifier.config
    layer = options.number("layer", 1, config.num_hidden_layers, config.num_hidden_layers)
    head = options.number("head", 1, config.num_attention_heads, 1)
    second = options.text("second")
    if not second.strip():
        second = next(example for example in texts()["en"]["example_texts"] if example != text)
    traces = lab.trace(text), lab.trace(second)
    heads = [trace.value("attention", layer)[0] for trace in traces]                 # (H, T, T)
    one, other = (weights[head - 1] for weights in heads)
    sides = [{
        "text": trace.encoding.texts[0], "tokens": trace.encoding.pieces,
        "truncated": trace.encoding.truncated, "probabilities": probabilities(classifier, trace),
        "weights": views.pack(weights),
        "tag": views.head_tags(trace.encoding, weights[None, None])[0][0].to_dict(),
        "habits": habits(trace.encoding, weights),
    } for trace, weights in zip(traces, (one, other), strict=True)]
    is_joined = options.choice("joined", ("1",), "") == "1"
    return {
        "sides": sides, "layer": layer, "head": head, "classes": classes(classifier),
        "difference": None if is_joined or one.shape != other.shape else {
            "picture": Matrix(other - one, is_painted=True),
            "moved": np.abs(other - one).sum() / 2 / len(one)},
        "joined": joined(classifier, text, second, layer, head) if is_joined else None,
        "similarity": similarity(*(text_vectors(classifier, trace) for trace in traces)),
        "usual": usual_similarity(classifier),
        "at": options.number("at", 0, config.num_hidden_layers, config.num_hidden_layers),
        "care": speaks_of_self_harm(second),
    }


def joined(classifier: EmotionClassifier, text: str, second: str, layer: int, head: int) -> dict:
    """Both texts in one input: [CLS] A [SEP] B [SEP]."""
    if classifier.config.type_vocab_size < 2:
        raise ValueError(ONE_SEGMENT)
    trace = classifier.inspect(text, second)
    encoding = trace.encoding
    special, segment = np.array(views.is_special(encoding)), np.array(encoding.segment_ids)
    groups = np.stack([~special & (segment == 0), ~special & (segment == 1), special])  # (3, T)
    weights = trace.value("attention", layer)[0]                                     # (H, T, T)
    return {
        "tokens": encoding.pieces, "truncated": encoding.truncated,
        "parts": groups.argmax(axis=0), "weights": views.pack(weights[head - 1]),
        "shares": group_shares(weights, groups), "even": groups.mean(axis=1),
        "probabilities": probabilities(classifier, trace),
    }


def pair_table(data: Mapping[str, Any]) -> list[list]:
    rows: list[list] = [["figure", "of", "value"]]
    answers = {"A": data["sides"][0], "B": data["sides"][1],
               **({"A and B": data["joined"]} if data["joined"] else {})}
    for name, side in answers.items():
        rows += [[f"probability, {name}", item["key"], share]
                 for item, share in zip(data["classes"], side["probabilities"], strict=True)]
    for name in ("cls", "mean"):
        rows += [[f"cosine of {name}", f"layer {layer}", value]
                 for layer, value in enumerate(data["similarity"][name])]
        rows += [[f"cosine of {name} among the examples", f"layer {layer}", value]
                 for layer, value in enumerate(data["usual"][name])]
    if data["joined"]:
        rows += [[f"attention, {PARTS[row]} to {PARTS[column]}",
                  f"layer {data['layer']}, head {head}", share]
                 for head, shares in enumerate(data["joined"]["shares"], 1)
                 for row, line in enumerate(shares) for column, share in enumerate(line)]
    else:
        rows += [[f"attention, {name}", f"{pattern}, layer {data['layer']}, head {data['head']}",
                  share] for name, side in answers.items()
                 for pattern, share in side["habits"].items()]
    return rows


def draw_pair(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure
    figure = new_figure(12, 8.4)
    figure.suptitle(" · ".join((say(language, "study_pair"),
                                say(language, "layer_n", n=data["layer"]),
                                say(language, "head_n", n=data["head"]))))
    shown = [data["joined"]] if data["joined"] else data["sides"]
    names = [say(language, "pair_both")] if data["joined"] else [
        f"{name}: {drawable(side['text'], 40)}" for name, side in zip("AB", shown, strict=True)]
    for column, (side, name) in enumerate(zip(shown, names, strict=True)):
        tokens = side["tokens"]
        weights = views.unpack(side["weights"], (len(tokens), len(tokens)))
        axes = _place_tokens(figure, 0.08 + 0.33 * column, tokens, name)
        axes.imshow(weights, vmin=0.0, vmax=1.0, cmap="viridis", interpolation="nearest")
    if data["difference"]:
        axes = _place_tokens(figure, 0.74, data["sides"][0]["tokens"], "B − A")
        axes.imshow(signed_picture(data["difference"]["picture"]), interpolation="nearest")
    if data["joined"]:
        _place_shares(figure, data["joined"]["shares"][data["head"] - 1], language)
    answers = [*data["sides"], *([data["joined"]] if data["joined"] else [])]
    _place_paired_bars(figure, (0.1, 0.07, 0.34, 0.36), data["classes"],
                       [side["probabilities"] for side in answers],
                       ["A", "B", say(language, "pair_both")][:len(answers)], language)
    lines = [(data["similarity"], "-", ""), (data["usual"], "--", say(language, "pair_usual"))]
    _place_lines(figure, (0.56, 0.1, 0.4, 0.3), [
        (values[name], style, colour, f"{say(language, f'pair_{name}')} {suffix}".strip())
        for values, style, suffix in lines for name, colour in LINE_COLOURS.items()],
        say(language, "layer"), say(language, "pair_similarity")).axvline(
            data["at"], color="#566273", linewidth=0.8)
    return figure


PAIR = Study("pair", run_pair, draw_pair, pair_table)


# ---------------------------------------------------------------------------------- order


@lru_cache(maxsize=1)
def without_positions(classifier: EmotionClassifier) -> EmotionClassifier:
    """The same weights with a position table of zeros: the model sees a bag of pieces.

    Modules are copied, weights are shared, and the model that others are using right now is left
    alone (`torch.func.functional_call` would swap its table for the length of the call).
    """
    model = classifier.model
    shared = {id(weight): weight for weight in (*model.parameters(), *model.buffers())}
    bag = copy.deepcopy(model, shared)
    config = classifier.config
    getattr(bag, "bert", bag).embeddings.position_embeddings = vectors(
        config.max_position_embeddings, config.hidden_size)
    return EmotionClassifier(replace(classifier.checkpoint, model=bag.eval()))


def reordered(text: str, order: str, seed: int) -> str:
    """The words of a text backwards or shuffled: reordered("I ate pizza", "reverse", 1)
    -> 'pizza ate I'."""
    words = text.split()
    if order == "reverse":
        words.reverse()
    elif order == "shuffle":
        random.Random(seed).shuffle(words)
    else:
        return text
    return " ".join(words)


def asked_order(options: Options) -> tuple[str, int]:
    """"shuffle.3" is the third shuffle; the seed of everything else is 1."""
    asked = str(options.given.get("order"))
    if shuffle := re.fullmatch(r"shuffle(?:\.([1-9][0-9]{0,4}))?", asked, re.ASCII):
        return "shuffle", int(shuffle[1] or 1)
    return ("nopos" if asked == "nopos" else "reverse"), 1


def run_order(lab: Lab, text: str, options: Options) -> dict:
    classifier, bag = lab.classifier, without_positions(lab.classifier)
    order, seed = asked_order(options)
    before = lab.trace(text)
    original = before.encoding.texts[0]
    changed_text = reordered(original, order, seed)
    after = (bag if order == "nopos" else classifier).inspect(changed_text)
    in_bag = None if order == "nopos" else similarity(*(
        text_vectors(bag, bag.inspect(version)) for version in (original, changed_text)))
    return {
        "order": order, "seed": seed, "text": original, "changed": changed_text,
        "same": order != "nopos" and original.split() == changed_text.split(),
        "truncated": before.encoding.truncated, "classes": classes(classifier),
        "before": probabilities(classifier, before), "after": probabilities(classifier, after),
        "similarity": similarity(text_vectors(classifier, before),
                                 text_vectors(classifier, after)),
        "in_bag": in_bag, "pizza": pizza(classifier), "positions": positions(classifier),
    }


@lru_cache(maxsize=1)
def pizza(classifier: EmotionClassifier) -> list[dict]:
    """Who ate whom? Two fixed pairs, read with positions and without."""
    return [{
        "texts": pair,
        "same_pieces": Counter(classifier.encode(pair[0]).ids) ==
        Counter(classifier.encode(pair[1]).ids),
        "on": _apart(classifier, pair), "off": _apart(without_positions(classifier), pair),
    } for pair in PIZZA]


def _apart(classifier: EmotionClassifier, pair: tuple[str, str]) -> dict[str, float]:
    """Last layer's cosines of a pair, and the largest difference of their pooled vectors."""
    one, other = (classifier.inspect(text) for text in pair)
    cosines = similarity(text_vectors(classifier, one), text_vectors(classifier, other))
    return {**{name: values[-1] for name, values in cosines.items()},
            "pooled": np.abs(one.value("pooled") - other.value("pooled")).max()}


def positions(classifier: EmotionClassifier) -> dict[str, dict | None]:
    """The first position vectors, learned and sinusoidal, and how alike neighbours are."""
    config = classifier.config
    embeddings = getattr(classifier.model, "bert", classifier.model).embeddings
    learned = embeddings.position_embeddings
    tables = {"learned": None if learned is None else learned.weight.detach(),
              "sinusoidal": sinusoidal_positions(config.max_position_embeddings,
                                                 config.hidden_size)}
    return {name: None if table is None else _described(table[:SHOWN_POSITIONS].numpy())
            for name, table in tables.items()}


def _described(table: np.ndarray) -> dict:
    return {"picture": Matrix(table, is_painted=True), "neighbours": cosine(table[:-1], table[1:])}


def order_table(data: Mapping[str, Any]) -> list[list]:
    rows: list[list] = [["figure", "of", "value"]]
    for name in ("before", "after"):
        rows += [[f"probability {name}", item["key"], share]
                 for item, share in zip(data["classes"], data[name], strict=True)]
    for title, values in (("before to after", data["similarity"]),
                          ("the same without positions", data["in_bag"])):
        rows += [[f"cosine of {name}, {title}", f"layer {layer}", value]
                 for name in values or () for layer, value in enumerate(values[name])]
    for example in data["pizza"]:
        rows += [[f"{figure}, positions {switch}", " / ".join(example["texts"]), value]
                 for switch in ("on", "off") for figure, value in example[switch].items()]
    for name, table in data["positions"].items():
        rows += [[f"cosine of neighbouring positions, {name}", f"{place} and {place + 1}", value]
                 for place, value in enumerate(table["neighbours"] if table else (), 1)]
    return rows


def draw_order(data: Mapping[str, Any], language: str):
    from bert.figures import drawable, new_figure
    figure = new_figure(12, 9)
    figure.suptitle(say(language, "study_order"))
    name = say(language, f"order_{data['order']}")
    figure.text(0.5, 0.925, drawable(f"{name}: {data['changed']}", 110), ha="center",
                parse_math=False)
    _place_paired_bars(figure, (0.1, 0.5, 0.34, 0.38), data["classes"],
                       [data["before"], data["after"]],
                       [say(language, "order_before"), say(language, "order_after")], language)
    lines = [(data["similarity"], "-", ""), (data["in_bag"], "--", say(language, "order_nopos"))]
    _place_lines(figure, (0.56, 0.55, 0.4, 0.31), [
        (values[part], style, colour, f"{say(language, f'pair_{part}')} {suffix}".strip())
        for values, style, suffix in lines if values for part, colour in LINE_COLOURS.items()],
        say(language, "layer"), say(language, "order_similarity"))
    tables = [(kind, table) for kind, table in data["positions"].items() if table]
    for column, (kind, table) in enumerate(tables):
        axes = figure.add_axes((0.06 + 0.25 * column, 0.07, 0.22, 0.3))
        axes.imshow(signed_picture(table["picture"]), aspect="auto", interpolation="nearest")
        axes.set_title(say(language, f"order_{kind}"), fontsize=10)
        axes.set(yticks=[], xticks=[], xlabel=say(language, "order_dimensions"))
        if column == 0:
            axes.set_ylabel(say(language, "order_position"))
    _place_lines(figure, (0.62, 0.09, 0.34, 0.26), [
        (table["neighbours"], "-", colour, say(language, f"order_{kind}"))
        for (kind, table), colour in zip(tables, LINE_COLOURS.values(), strict=False)],
        say(language, "order_position"), say(language, "order_neighbours"), first=1)
    return figure


ORDER = Study("order", run_order, draw_order, order_table)


# ---------------------------------------------------------------------------------- drawing


def _place_tokens(figure, left: float, tokens: list[str], title: str):
    """Axes for a square of tokens × tokens in the upper half of a figure."""
    from bert.figures import drawable
    axes = figure.add_axes((left, 0.52, 0.25, 0.3))
    every = -(-len(tokens) // 24)
    places = list(range(0, len(tokens), every))
    shown = [drawable(tokens[i], 10) for i in places]
    axes.xaxis.tick_top()
    axes.set_xticks(places, shown, rotation=90, parse_math=False, fontsize=8)
    axes.set_yticks(places, shown, parse_math=False, fontsize=8)
    axes.tick_params(length=0)
    axes.set_xlabel(title, fontsize=9, parse_math=False)
    return axes


def _place_shares(figure, shares: list[list[float]], language: str) -> None:
    """Who looks where: the attention between A, B and the special tokens."""
    names = ["A", "B", say(language, "pair_special")]
    axes = figure.add_axes((0.5, 0.52, 0.4, 0.3))
    axes.imshow(shares, vmin=0.0, vmax=1.0, cmap="viridis", aspect="auto")
    for row, column in np.ndindex(3, 3):
        share = shares[row][column]
        axes.text(column, row, f"{100 * share:.1f} %", ha="center", va="center",
                  color="black" if share > 0.6 else "white")
    axes.set_xticks(range(3), names)
    axes.set_yticks(range(3), names)
    axes.set(xlabel=say(language, "key"), ylabel=say(language, "query"))


def _place_paired_bars(figure, place: tuple, items: list[dict], answers: list[list[float]],
                       names: list[str], language: str) -> None:
    """A group of bars for each class; the first answer strongest."""
    from bert.figures import drawable
    if not items:
        return
    axes = figure.add_axes(place)
    height = 0.8 / len(answers)
    for number, (shares, name) in enumerate(zip(answers, names, strict=True)):
        axes.barh(np.arange(len(items)) + (number - (len(answers) - 1) / 2) * height,
                  100 * np.array(shares), height=0.9 * height, label=name,
                  color=[item["colour"] for item in items], alpha=1.0 - 0.3 * number)
    axes.set_yticks(range(len(items)), [drawable(item[language]) for item in items])
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), xlabel="%")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _place_lines(figure, place: tuple, lines: list[tuple], across: str, title: str,
                 first: int = 0):
    """Lines of cosines over numbered places; the axis begins below the lowest one."""
    axes = figure.add_axes(place)
    for values, style, colour, name in lines:
        axes.plot(range(first, first + len(values)), values, style, color=colour, label=name)
    lowest = min((min(line[0]) for line in lines if line[0]), default=0.0)
    axes.set_title(title, fontsize=10)
    axes.set(xlabel=across, ylim=(min(0.9, np.floor(10 * lowest) / 10), 1.01))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return axes
