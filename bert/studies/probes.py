"""Layer probes: "early layers form, middle layers relations, late layers meaning", put to the test.

Two kinds of evidence, layer by layer: what a layer does, of the text at hand and as a mean over a
fixed set of texts, and what linear probes read from it on that set (bert.explain.probes). The set
is run when the view is first opened, and once.
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bert.drawing.texts import PAGE, Language, say
from bert.explain.activations import attentions, hidden_states
from bert.explain.probes import MEASURES, ProbeResult, ProbeText, measure, probe_set, thirds
from bert.studies.base import Numbers, Study, StudyContext, StudyOptions

if TYPE_CHECKING:
    from bert.drawing.figures import Axes, Figure

SHARES = ("self", "cls", "sep")  # measures in per cent
INKS = {"form": "#3a4ea8", "relation": "#0b7d8a", "meaning": "#b04d14"}


class ProbesOptions(StudyOptions):
    """Nothing can be chosen."""


class MeasureData(TypedDict):
    text: Numbers                     # (L,)
    set: Numbers                      # (L,), mean over the set


class ProbesData(TypedDict):
    thirds: list[list[int]]           # layers: early, middle, late
    texts: int                        # in the set
    probes: list[ProbeResult]
    measures: dict[str, MeasureData]


@lru_cache(maxsize=1)
def probe_texts() -> tuple[ProbeText, ...]:
    """The set: one fold holds the n-th text of each class and language."""
    groups = json.loads((PAGE / "data" / "probes.json").read_text(encoding="utf-8"))
    return tuple(ProbeText(label, fold, text) for label, languages in groups.items()
                 for texts in languages.values() for fold, text in enumerate(texts))


def run(context: StudyContext, text: str, options: ProbesOptions) -> ProbesData:
    cache, config = context.cache(text), context.config
    whole = probe_set(context.classifier, probe_texts())
    measured = measure(attentions(cache, config), hidden_states(cache, config))
    return {"thirds": thirds(config.num_hidden_layers), "texts": whole.num_texts,
            "probes": whole.probes,
            "measures": {name: {"text": values, "set": whole.measures[name]}
                         for name, values in measured.items()}}


def table(data: ProbesData) -> list[list[Any]]:
    probes = [probe for probe in data["probes"] if probe["accuracy"] is not None]
    columns: dict[str, list[Any]] = {
        f"{name} ({of})": ["", *values] for name, found in data["measures"].items()
        for of, values in (("text", found["text"]), ("set", found["set"]))}
    columns |= {f"{probe['name']} probe": list(probe["accuracy"] or ()) for probe in probes}
    empty = [""] * (2 * len(MEASURES))
    return [["layer", *columns],
            *([layer, *row] for layer, row in enumerate(zip(*columns.values(), strict=True))),
            [], ["chance", *empty, *(probe["chance"] for probe in probes)],
            ["supported", *empty, *(probe["supported"] for probe in probes)]]


def verdict(probe: ProbeResult, language: str) -> str:
    """One sentence on a part of the claim, as the page says it."""
    claim = say(language, f"probes_{probe['name']}_claim")
    if probe["lead"] is None or probe["error"] is None:
        return f"{claim}: {say(language, 'probes_untested')}"
    early, middle, late = (f"{share:.1%}" for share in probe["by_third"])
    figures = say(language, "probes_figures", early=early, middle=middle, late=late,
                  lead=f"{100 * probe['lead']:+.1f}", error=f"{100 * probe['error']:.1f}")
    found = "probes_supported" if probe["supported"] else "probes_unsupported"
    return f"{claim}: {say(language, found)}. {figures}"


def draw(data: ProbesData, language: Language) -> "Figure":
    from bert.drawing.figures import INK, MUTED, new_figure, wrapped
    figure = new_figure(11, 9)
    _draw_accuracies(figure.add_axes((0.06, 0.62, 0.42, 0.3)), data, language)
    for row, (name, found) in enumerate(data["measures"].items()):
        axes = figure.add_axes((0.06 + 0.325 * (row % 3), 0.34 - 0.275 * (row // 3), 0.265, 0.185))
        places = range(1, len(found["text"]) + 1)
        for of, values, ink, style in (("set", found["set"], MUTED, "--"),
                                       ("text", found["text"], INKS["form"], "-")):
            axes.plot(places, (100 if name in SHARES else 1) * np.array(values), color=ink,
                      marker="o", markersize=3, linestyle=style,
                      label=say(language, f"probes_{of}", texts=data["texts"]))
        axes.set_ylim(bottom=0)
        axes.set_xticks(places)
        axes.tick_params(labelsize=8)
        axes.set_title(say(language, f"probes_{name}") + (" (%)" if name in SHARES else ""),
                       fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        if not row:
            figure.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=2,
                          frameon=False, fontsize=9)
    lines = [line for probe in data["probes"]
             for line in (*wrapped(verdict(probe, language), 66), "")]
    lines += wrapped(say(language, "probes_rule", texts=data["texts"]), 66)
    for number, line in enumerate(lines):
        figure.text(0.53, 0.92 - 0.021 * number, line, fontsize=9, color=INK, parse_math=False)
    figure.suptitle(say(language, "study_probes"))
    return figure


def _draw_accuracies(axes: "Axes", data: ProbesData, language: Language) -> None:
    num_layers = len(data["measures"][MEASURES[0]]["text"])
    for probe in data["probes"]:
        if probe["accuracy"] is not None:
            axes.plot(100 * np.array(probe["accuracy"]), color=INKS[probe["name"]], marker="o",
                      markersize=3, label=say(language, f"probes_{probe['name']}"))
    for chance in sorted({probe["chance"] for probe in data["probes"]}):
        names = ", ".join(say(language, f"probes_{probe['name']}") for probe in data["probes"]
                          if probe["chance"] == chance)
        axes.axhline(100 * chance, color="#566273", linestyle=":", linewidth=1)
        axes.text(num_layers / 2, 100 * chance - 1, say(language, "probes_chance", names=names),
                  fontsize=8, color="#566273", ha="center", va="top")
    for third in data["thirds"][:-1]:
        axes.axvline(third[-1] + 0.5, color="#dbe1e8")
    axes.set_xticks(range(num_layers + 1))
    axes.set(ylim=(0, 100), xlabel=say(language, "layer"), ylabel="%")
    axes.set_title(say(language, "probes_accuracy"), fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.12))


STUDY = Study("probes", ProbesOptions, run, draw, table)
