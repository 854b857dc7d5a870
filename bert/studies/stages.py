"""Training stages: one head and the answers of the same network untrained, pre-trained and
fine-tuned, on the same text."""

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from bert.checkpoint import untrained
from bert.classifier import ActivationCache, EmotionClassifier
from bert.drawing.texts import Language, say
from bert.errors import UserError
from bert.explain.attention import TagData, effective_tokens, head_tags, is_special
from bert.explain.masked_words import (
    best_pieces,
    guess_pieces,
    mask_words,
    middle_word,
    words_of,
)
from bert.model import BertForPreTraining, BertMLMHead
from bert.studies.base import (
    ClassItem,
    HeadOptions,
    Matrix,
    Numbers,
    Study,
    StudyContext,
    unpack,
)
from bert.tokenizer import Encoding

if TYPE_CHECKING:
    from bert.drawing.figures import Figure

GUESSES = 3


class Guess(TypedDict):
    piece: str
    best: list[tuple[str, float]]    # pieces and their probabilities


class Stage(TypedDict):
    """One head of one stage, and what the stage answers; or why it cannot be shown."""

    name: str                        # untrained, pretrained or finetuned
    missing: NotRequired[str]        # folder or head; nothing else is there then
    pieces: NotRequired[list[str]]
    special: NotRequired[list[bool]]
    weights: NotRequired[Any]        # a matrix, (T, T)
    tag: NotRequired[TagData]
    effective_tokens: NotRequired[float]
    probabilities: NotRequired[Numbers | None]
    guesses: NotRequired[list[Guess] | None]


class StagesData(TypedDict):
    layer: int
    head: int
    word: str                        # the masked one
    classes: list[ClassItem]
    stages: list[Stage]


def run(context: StudyContext, text: str, options: HeadOptions) -> StagesData:
    head = options.chosen(context.config)
    encoding = context.classifier.encode(text)
    random_mlm = untrained(context.config, BertMLMHead)  # what pre-training would have begun with
    return {"layer": head[0], "head": head[1], "word": words_of(encoding)[middle_word(encoding)][0],
            "classes": context.classes, "stages": [
                stage("untrained", context.untrained, context.untrained.run_with_cache(text), head,
                      random_mlm),
                pretrained_stage(context, text, head),
                stage("finetuned", context.classifier, context.cache(text), head)]}


def stage(name: str, network: EmotionClassifier, cache: ActivationCache, head: tuple[int, int],
          mlm: BertMLMHead | None = None) -> Stage:
    has_classes = network.checkpoint.has_classifier
    weights = cache.value("attention", head[0])[0, head[1] - 1]                      # (T, T)
    return {"name": name, "pieces": cache.encoding.pieces, "special": is_special(cache.encoding),
            "weights": Matrix(weights, "weights"),
            "tag": head_tags(cache.encoding, weights[None, None])[0][0].to_dict(),
            "effective_tokens": float(effective_tokens(weights)),
            "probabilities": cache.value("probabilities")[0] if has_classes else None,
            "guesses": None if mlm is None else middle_guesses(network, mlm, cache.encoding)}


def pretrained_stage(context: StudyContext, text: str, head: tuple[int, int]) -> Stage:
    """The stage in the middle, or why it cannot be shown."""
    try:
        network = context.pretrained
    except UserError:
        return {"name": "pretrained", "missing": "folder"}
    shape = network.config.num_hidden_layers, network.config.num_attention_heads
    if head[0] > shape[0] or head[1] > shape[1]:
        return {"name": "pretrained", "missing": "head"}
    mlm = network.model.mlm if isinstance(network.model, BertForPreTraining) else None
    found = stage("pretrained", network, network.run_with_cache(text), head, mlm)
    return {**found, "probabilities": None}


def middle_guesses(network: EmotionClassifier, mlm: BertMLMHead,
                   encoding: Encoding) -> list[Guess]:
    """The middle word masked: the likeliest pieces in place of each of its pieces."""
    middle = middle_word(encoding)
    places = words_of(encoding)[middle][1]
    ids, _ = mask_words(encoding, [middle], network.tokenizer.mask_id)
    found = guess_pieces(network.bert, mlm, ids, places)                             # (M, V)
    return [{"piece": encoding.pieces[place],
             "best": best_pieces(network.tokenizer, probabilities, GUESSES)}
            for place, probabilities in zip(places, found, strict=True)]


def table(data: StagesData) -> list[list[Any]]:
    rows: list[list[Any]] = [["stage", "what", "name", "value"]]
    here = [stage for stage in data["stages"] if "missing" not in stage]
    for stage in here:
        name = stage["name"]
        rows.append([name, "effective tokens", "", stage["effective_tokens"]])
        rows += [[name, "class", item["key"], share] for item, share in
                 zip(data["classes"], stage["probabilities"] or (), strict=False)]
        rows += [[name, f"guess for {guess['piece']}", piece, share]
                 for guess in stage["guesses"] or () for piece, share in guess["best"]]
    for stage in here:
        rows += [[], [f"{stage['name']}: query \\ key", *stage["pieces"]]]
        rows += [[piece, *row] for piece, row in
                 zip(stage["pieces"], unpack(stage["weights"]).tolist(), strict=True)]
    return rows


def draw(data: StagesData, language: Language) -> "Figure":
    from bert.drawing.charts import finish_bars, name_tokens, show_weights
    from bert.drawing.figures import drawable, new_figure
    here = [stage for stage in data["stages"] if "missing" not in stage]
    figure = new_figure(4.6 * len(here), 7.6)
    figure.suptitle(f"{say(language, 'layer_n', n=data['layer'])} · "
                    f"{say(language, 'head_n', n=data['head'])}", fontsize=13)
    for column, stage in enumerate(here):
        left, wide = (column + 0.24) / len(here), 0.72 / len(here)
        axes = figure.add_axes((left, 0.42, wide, 0.38))
        show_weights(axes, unpack(stage["weights"]))
        name_tokens(axes, stage["pieces"], 30, 7)
        figure.text(left + wide / 2, 0.93, say(language, f"stages_{stage['name']}"), ha="center",
                    fontsize=12)
        what = drawable(say(language, f"stages_{stage['name']}_what"), 60)
        figure.text(left + wide / 2, 0.905, what, ha="center", fontsize=8)
        axes.set_xlabel(say(language, "stages_effective_tokens", size=len(stage["pieces"]),
                            tokens=f"{stage['effective_tokens']:.1f}"), fontsize=9)
        if stage["probabilities"] is None:
            figure.text(left, 0.33, drawable(say(language, "stages_no_feelings"), 60), fontsize=8)
            continue
        bars = figure.add_axes((left, 0.07, wide, 0.28))
        bars.barh(range(len(data["classes"])), [100 * share for share in stage["probabilities"]],
                  color=[item["colour"] for item in data["classes"]])
        finish_bars(bars, data["classes"], language, size=8)
    return figure


STUDY = Study("stages", HeadOptions, run, draw, table)
