"""Stages: the same network untrained, pre-trained and fine-tuned, on the same text.

Lives   one head and the answers of all three stages, side by side
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from bert.checkpoint import untrained
from bert.lab import Lab, Options, Study
from bert.model import BertMLMHead
from bert.predict import EmotionClassifier
from bert.tasks import best_pieces, guess, hide, middle_word, words_of
from bert.texts import say
from bert.tokenizer import Encoding
from bert.views import class_list, effective_tokens, head_tags, is_special, pack, unpack

GUESSES = 3


def life(stage: EmotionClassifier, mlm: BertMLMHead | None, text: str, layer: int,
         head: int) -> dict:
    """One head of one stage on a text, and what the stage answers."""
    shares = None
    if stage.checkpoint.has_classifier:
        prediction = stage(text)
        encoding, attentions = prediction.encoding, prediction.attentions
        shares = prediction.probabilities
    else:
        encoding, attentions = stage.attentions(text)
    weights = attentions[layer - 1, head - 1]                                        # (T, T)
    return {"pieces": encoding.pieces, "special": is_special(encoding), "matrix": pack(weights),
            "tag": head_tags(encoding, weights[None, None])[0][0].to_dict(),
            "spread": effective_tokens(weights), "shares": shares,
            "guesses": None if mlm is None else middle_guesses(stage, mlm, encoding)}


def middle_guesses(stage: EmotionClassifier, mlm: BertMLMHead, encoding: Encoding) -> list[dict]:
    """The middle word masked: the likeliest pieces in place of each of its pieces."""
    middle = middle_word(encoding)
    places = words_of(encoding)[middle][1]
    ids, _ = hide(encoding, [middle], stage.tokenizer.mask_id)
    bert = getattr(stage.model, "bert", stage.model)
    return [{"piece": encoding.pieces[place],
             "best": best_pieces(stage.tokenizer, shares, GUESSES)}
            for place, shares in zip(places, guess(bert, mlm, ids, places), strict=True)]


def run_lives(lab: Lab, text: str, options: Options) -> dict:
    config = lab.classifier.config
    layer = options.number("layer", 1, config.num_hidden_layers, config.num_hidden_layers)
    head = options.number("head", 1, config.num_attention_heads, 1)
    blank_head = untrained(config, BertMLMHead)  # what pre-training would have begun with
    encoding = lab.classifier.encode(text)
    return {
        "layer": layer, "head": head, "word": words_of(encoding)[middle_word(encoding)][0],
        "classes": class_list(config.id2label if lab.classifier.checkpoint.has_classifier else ()),
        "stages": [
            {"name": "untrained", **life(lab.untrained, blank_head, text, layer, head)},
            {"name": "pretrained", **pretrained_life(lab, text, layer, head)},
            {"name": "finetuned", **life(lab.classifier, None, text, layer, head)}]}


def pretrained_life(lab: Lab, text: str, layer: int, head: int) -> dict:
    """The stage in the middle, or why it cannot be shown."""
    try:
        stage = lab.pretrained
    except (ValueError, OSError):
        return {"missing": "folder"}
    if layer > stage.config.num_hidden_layers or head > stage.config.num_attention_heads:
        return {"missing": "head"}
    mlm = stage.model.mlm if stage.checkpoint.has_mlm else None
    return {**life(stage, mlm, text, layer, head), "shares": None}


def lives_table(data: Mapping[str, Any]) -> list[list]:
    rows: list[list] = [["stage", "what", "name", "value"]]
    here = [stage for stage in data["stages"] if "missing" not in stage]
    for stage in here:
        rows.append([stage["name"], "effective tokens", "", stage["spread"]])
        rows += [[stage["name"], "class", item["key"], share] for item, share in
                 zip(data["classes"], stage["shares"] or (), strict=False)]
        rows += [[stage["name"], f"guess for {place['piece']}", best["piece"], best["share"]]
                 for place in stage["guesses"] or () for best in place["best"]]
    for stage in here:
        rows += [[], [f"{stage['name']}: query \\ key", *stage["pieces"]]]
        rows += [[piece, *np.round(row, 4)] for piece, row in
                 zip(stage["pieces"], weights_of(stage), strict=True)]
    return rows


def weights_of(stage: Mapping[str, Any]) -> np.ndarray:
    return unpack(stage["matrix"], (len(stage["pieces"]), len(stage["pieces"])))


def draw_lives(data: Mapping[str, Any], language: str):
    from bert.figures import COLOUR_MAP, drawable, new_figure
    here = [stage for stage in data["stages"] if "missing" not in stage]
    figure = new_figure(4.6 * len(here), 7.6)
    figure.suptitle(f"{say(language, 'layer_n', n=data['layer'])} · "
                    f"{say(language, 'head_n', n=data['head'])}", fontsize=13)
    for column, stage in enumerate(here):
        left, wide = (column + 0.24) / len(here), 0.72 / len(here)
        axes = figure.add_axes((left, 0.42, wide, 0.38))
        axes.imshow(weights_of(stage), vmin=0.0, vmax=1.0, cmap=COLOUR_MAP)
        every = -(-len(stage["pieces"]) // 30)
        shown = [drawable(piece, 10) for piece in stage["pieces"][::every]]
        places = range(0, len(stage["pieces"]), every)
        axes.xaxis.tick_top()
        axes.set_xticks(places, shown, rotation=90, parse_math=False, fontsize=7)
        axes.set_yticks(places, shown, parse_math=False, fontsize=7)
        figure.text(left + wide / 2, 0.93, say(language, f"lives_{stage['name']}"), ha="center",
                    fontsize=12)
        figure.text(left + wide / 2, 0.905, drawable(say(language, f"lives_{stage['name']}_band"),
                                                     60), ha="center", fontsize=8)
        axes.set_xlabel(say(language, "lives_spread", tokens=f"{stage['spread']:.1f}",
                            size=len(stage["pieces"])), fontsize=9)
        if stage["shares"] is None:
            figure.text(left, 0.33, drawable(say(language, "lives_no_feelings"), 60), fontsize=8)
            continue
        bars = figure.add_axes((left, 0.07, wide, 0.28))
        bars.barh(range(len(stage["shares"])), 100 * np.array(stage["shares"]),
                  color=[item["colour"] for item in data["classes"]])
        bars.set_yticks(range(len(stage["shares"])),
                        [drawable(item[language]) for item in data["classes"]], fontsize=8,
                        parse_math=False)
        bars.invert_yaxis()
        bars.set(xlim=(0, 100), xlabel="%")
        bars.spines[["top", "right"]].set_visible(False)
    return figure


LIVES = Study("lives", run_lives, draw_lives, lives_table)
