"""Files that leave the page: pictures drawn by matplotlib, numbers exactly as they are."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bert.classifier import Prediction
from bert.drawing.texts import LANGUAGES, Language, say
from bert.errors import UserError
from bert.explain import attention as views
from bert.studies.base import Study
from bert.tokenizer import clean

ATTENTION_VIEWS = ("heatmap", "lines", "heads", "layers", "ends")
PICTURES = (*ATTENTION_VIEWS, "bars", "card")
MATRICES = (*ATTENTION_VIEWS, "card", "numbers")
PICTURE_TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}
NUMBER_TYPES = {"csv": "text/csv", "npz": "application/octet-stream", "json": "application/json"}
STUDY_TYPES = {**PICTURE_TYPES, "csv": "text/csv", "json": "application/json"}
LONGEST_LINK = 8_000


@dataclass(frozen=True)
class File:
    name: str
    media_type: str
    content: bytes


def page_options(options: Any) -> tuple[Language, str]:
    """Language and view of an interactive file; what is unknown becomes the default."""
    given = options if isinstance(options, dict) else {}
    language: Language = "ko" if given.get("lang") == "ko" else "en"
    view = given.get("view")
    return language, view if view in ATTENTION_VIEWS else ATTENTION_VIEWS[0]


@dataclass(frozen=True)
class Wanted:
    """A file as the page asks for it: what, in which form, with the view's options."""

    what: str
    ending: str
    layer: int | str
    head: int | str
    words: bool
    hide_special: bool
    fade: float
    stretch: bool  # colours up to the largest weight in the picture instead of up to 1
    language: Language
    link: str
    is_moved: bool                    # value-weighted attention instead of plain weights
    moved: np.ndarray | None = None   # (L, H, T, T), put in where it is wanted

    @classmethod
    def checked(cls, what: Any, ending: Any, options: Any, num_layers: int,
                num_heads: int) -> Self:
        """Read a request; anything unknown or impossible is said in one sentence."""
        endings = PICTURE_TYPES if what in PICTURES else NUMBER_TYPES
        if what not in (*PICTURES, "numbers"):
            raise UserError(f"There is no file of {str(what)[:40]!r}: choose one of "
                            f"{', '.join((*PICTURES, 'numbers'))}.")
        if not isinstance(ending, str) or ending not in endings:
            raise UserError(f"{what} cannot be saved as {str(ending)[:20]!r}: choose one of "
                            f"{', '.join(endings)}.")
        if not isinstance(options, Mapping):
            raise UserError(f"The options are a {type(options).__name__}: send an object.")
        language = options.get("lang", "en")
        fade = options.get("fade", 0)
        link = options.get("link", "")
        if not isinstance(fade, int | float) or not 0 <= fade <= 1:
            raise UserError(f"fade is {str(fade)[:20]!r}: send a number from 0 to 1.")
        return cls(
            what, ending,
            _chosen("layer", options.get("layer"), num_layers, (views.MEAN, views.ROLLOUT)),
            _chosen("head", options.get("head"), num_heads, (views.MEAN,)),
            options.get("words") is True, options.get("hide_special") is True, float(fade),
            options.get("stretch") is True,
            language if language in LANGUAGES else "en",
            clean(link[:LONGEST_LINK]) if isinstance(link, str) else "",
            options.get("moved") is True and options.get("layer") != views.ROLLOUT)


def _chosen(name: str, value: Any, most: int, others: tuple[str, ...]) -> int | str:
    if isinstance(value, str) and value in others:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and value in range(1,
                                                                                         most + 1):
        return int(value)
    raise UserError(f"{name} {str(value)[:20]!r} does not exist: choose 1 to {most} or "
                    f"{' or '.join(others)}.")


def make(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]) -> File:
    """The file that was asked for."""
    if wanted.what == "numbers":
        write = {"csv": _csv, "npz": _npz, "json": _json}[wanted.ending]
        content = write(prediction, wanted, model)
        media_type = NUMBER_TYPES[wanted.ending]
    else:
        if not len(prediction.probabilities) and wanted.what == "bars":
            raise UserError("This checkpoint has no classifier: there are no bars to draw.")
        content = _picture(prediction, wanted, model)
        media_type = PICTURE_TYPES[wanted.ending]
    return File(f"{_stem(wanted)}.{wanted.ending}", media_type, content)


def make_study(study: Study, data: Mapping[str, Any], ending: Any, language: Any) -> File:
    """A study as it is on the screen: the picture, or the numbers behind it."""
    if not isinstance(ending, str) or ending not in STUDY_TYPES:
        raise UserError(f"{study.name} cannot be saved as {str(ending)[:20]!r}: choose one of "
                        f"{', '.join(STUDY_TYPES)}.")
    if ending == "json":
        content = (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode("utf-8")
    elif ending == "csv":
        sheet = io.StringIO(newline="")
        csv.writer(sheet).writerows([_plain_cell(cell) for cell in row]
                                    for row in study.table(data))
        content = sheet.getvalue().encode("utf-8-sig")
    else:
        from bert.drawing.figures import (
            figure_bytes,  # matplotlib, only when a picture is asked for
        )
        figure = study.draw(data, language if language in LANGUAGES else "en")
        content = figure_bytes(figure, ending)
    return File(f"microscope-{study.name}.{ending}", STUDY_TYPES[ending], content)


def _stem(wanted: Wanted) -> str:
    place = {"heatmap": f"-layer-{wanted.layer}-head-{wanted.head}",
             "lines": f"-layer-{wanted.layer}-head-{wanted.head}",
             "numbers": f"-layer-{wanted.layer}-head-{wanted.head}",
             "heads": f"-layer-{wanted.layer}"}.get(wanted.what, "")
    kind = "-value-weighted" if wanted.is_moved and wanted.what in MATRICES else ""
    return f"microscope-{wanted.what}{place}{kind}"


# ---------------------------------------------------------------------------------- numbers


def _view(prediction: Prediction, wanted: Wanted) -> views.View:
    """The matrix on the screen."""
    return _shown(prediction, wanted,
                  views.select(_matrices(prediction, wanted), wanted.layer, wanted.head))


def _csv(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]) -> bytes:
    """The matrix on the screen, exact; with a byte-order mark, so that spreadsheets read Hangul."""
    view = _view(prediction, wanted)
    sheet = io.StringIO(newline="")
    writer = csv.writer(sheet)
    writer.writerow(["query \\ key", *map(_plain_cell, view.tokens)])
    for token, row in zip(view.tokens, view.weights, strict=True):
        writer.writerow([_plain_cell(token), *(repr(float(value)) for value in row)])
    return sheet.getvalue().encode("utf-8-sig")


def _plain_cell(cell: Any) -> Any:
    """A cell that a spreadsheet cannot take for a formula."""
    is_formula = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    return "'" + cell if is_formula else cell


def _npz(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]) -> bytes:
    """Everything of this text: all heads, rollout, tokens, probabilities."""
    packed = io.BytesIO()
    np.savez_compressed(packed, tokens=np.array(prediction.tokens),
                        attentions=prediction.weights,
                        rollout=views.rollout(prediction.weights),
                        classes=np.array(prediction.keys, dtype=np.str_),
                        probabilities=prediction.probabilities)
    return packed.getvalue()


def _json(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]) -> bytes:
    """The answer and the matrix on the screen, with the checkpoint that made them."""
    view = _view(prediction, wanted)
    tags = views.head_tags(prediction.encoding, prediction.weights)
    answer = (prediction.to_dict() if len(prediction.probabilities) else
              {"text": prediction.text, "tokens": prediction.tokens,
               "truncated": prediction.truncated})
    described = {
        **answer, "checkpoint": {"name": model["name"], "hash": model["hash"]},
        "view": {"layer": wanted.layer, "head": wanted.head,
                 "value_weighted": wanted.is_moved, "tokens": view.tokens,
                 "weights": view.weights.tolist(), "hidden_share": view.hidden_share},
        "head_tags": [[tag.to_dict() for tag in layer] for layer in tags],
        "link": wanted.link,
    }
    return (json.dumps(described, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


# ---------------------------------------------------------------------------------- pictures


def _picture(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]) -> bytes:
    """A view of the page as matplotlib draws it."""
    from bert.drawing.figures import figure_bytes  # matplotlib, only when a picture is asked for
    draw = {"heatmap": _heatmap, "lines": _lines, "heads": _heads, "layers": _layers,
            "ends": _ends, "bars": _bars, "card": _card}[wanted.what]
    return figure_bytes(draw(prediction, wanted, model), wanted.ending)


def _bars(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_bars
    return draw_bars(prediction.keys, prediction.probabilities, wanted.language)


def _heatmap(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_heatmap
    view = _view(prediction, wanted)
    return draw_heatmap(view.tokens, view.weights, selection_name(wanted), wanted.fade,
                        wanted.language, _brightest(view.weights, wanted))


def _lines(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_lines
    view = _view(prediction, wanted)
    return draw_lines(view.tokens, view.weights, selection_name(wanted), wanted.fade,
                      wanted.language, _brightest(view.weights, wanted))


def _heads(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_heads
    num_layers = len(prediction.weights)
    layer = wanted.layer if isinstance(wanted.layer, int) else num_layers
    heads = _matrices(prediction, wanted)[layer - 1]
    tags = views.head_tags(prediction.encoding, prediction.weights[layer - 1][None])[0]
    matrices = np.stack([_shown(prediction, wanted, head).weights for head in heads])
    captions = [f"{say(wanted.language, 'head_n', n=number)} · {tag_name(tag, wanted.language)}"
                for number, tag in enumerate(tags, 1)]
    return draw_heads(matrices, captions, say(wanted.language, "layer_n", n=layer), wanted.fade,
                      _brightest(matrices, wanted))


def _layers(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_layers
    shown = np.stack([np.stack([_shown(prediction, wanted, head).weights for head in layer])
                      for layer in _matrices(prediction, wanted)])
    return draw_layers(shown, say(wanted.language, "view_layers"), wanted.fade, wanted.language,
                       _brightest(shown, wanted))


def _ends(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_first_and_last
    num_layers = len(prediction.weights)
    matrices = _matrices(prediction, wanted)
    both = [_shown(prediction, wanted, views.select(matrices, layer, wanted.head))
            for layer in (1, num_layers)]
    titles = [f"{say(wanted.language, 'layer_n', n=layer)} · {head_name(wanted)}"
              for layer in (1, num_layers)]
    return draw_first_and_last(both[0].tokens, both[0].weights, both[1].weights, titles,
                               ends_note(prediction, wanted.language), wanted.fade,
                               wanted.language,
                               _brightest(np.stack([view.weights for view in both]), wanted))


def _card(prediction: Prediction, wanted: Wanted, model: Mapping[str, Any]):
    from bert.drawing.figures import draw_card
    view = _view(prediction, wanted)
    num_layers, num_heads = prediction.weights.shape[:2]
    footer = say(wanted.language, "card_footer", name=model["name"], hash=model["hash"],
                 layers=num_layers, heads=num_heads)
    return draw_card(prediction.text, prediction.keys, prediction.probabilities, view.tokens,
                     view.weights, selection_name(wanted), footer, wanted.link, wanted.fade,
                     wanted.language, _brightest(view.weights, wanted))


def _matrices(prediction: Prediction, wanted: Wanted) -> np.ndarray:
    """What is drawn: the weights, or how much each look moves. Tags, rollout and the sentence under
    first and last stay those of the weights."""
    return prediction.weights if wanted.moved is None else wanted.moved


def _brightest(weights: np.ndarray, wanted: Wanted) -> float:
    """The weight that gets the brightest colour: 1, or the largest of the picture."""
    return float(weights.max(initial=0.0)) or 1.0 if wanted.stretch else 1.0


def _shown(prediction: Prediction, wanted: Wanted, weights: np.ndarray) -> views.View:
    return views.shown(prediction.encoding, weights, wanted.words, wanted.hide_special)


# ---------------------------------------------------------------------------------- words


def head_name(wanted: Wanted) -> str:
    return (say(wanted.language, "mean_heads") if wanted.head == views.MEAN
            else say(wanted.language, "head_n", n=wanted.head))


def selection_name(wanted: Wanted) -> str:
    """What is selected, as the page names it: "Layer 3 · Head 5"."""
    if wanted.layer == views.ROLLOUT:
        return say(wanted.language, "rollout")
    if wanted.layer == views.MEAN:
        return say(wanted.language, "mean_layers")
    kind = f" · {say(wanted.language, 'moved')}" if wanted.is_moved else ""
    return f"{say(wanted.language, 'layer_n', n=wanted.layer)} · {head_name(wanted)}{kind}"


def tag_name(tag: views.Tag, language: str) -> str:
    """A head's tag with the figure behind it: "previous token · 61 %"."""
    name = say(language, f"tag_{tag.name}", token=tag.token)
    if tag.name in ("broad", "mixed"):
        return say(language, "tag_tokens", tag=name, tokens=f"{tag.share:.1f}")
    return say(language, "tag_share", tag=name, percent=f"{tag.share:.0%}")


def ends_note(prediction: Prediction, language: str) -> str:
    """What to look for in the first and last layer, and whether it is there."""
    found = views.first_and_last(prediction.encoding, prediction.weights)
    verdict = {(True, True): "ends_both", (True, False): "ends_diagonal",
               (False, True): "ends_sep", (False, False): "ends_neither"}[
        found["diagonal_early"], found["sep_late"]]
    figures = say(language, "ends_figures",
                  near0=f"{found['near'][0]:.0%}", near1=f"{found['near'][1]:.0%}",
                  sep0=f"{found['sep'][0]:.0%}", sep1=f"{found['sep'][1]:.0%}")
    return f"{say(language, 'ends_what')} {figures} {say(language, verdict)}"
