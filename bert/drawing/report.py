"""The picture of a report: one panel for each thing that was measured, two in a row."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bert.drawing.figures import (
    Axes,
    Figure,
    drawable,
    new_figure,
    place_confusion,
    place_reliability,
)
from bert.drawing.texts import Language, say
from bert.emotions import OTHER_COLOURS

READERS, LEVELS = ("ko", "en"), ("easy", "hard")
PANEL = 6.2  # inches in height
Bars = Mapping[str, Sequence[float | None]]  # shares by the name of who has them


def draw_report(data: Mapping[str, Any], language: Language) -> Figure:
    """First each language that was measured, then what belongs to both."""
    panels = list(_panels(data, language))
    rows = max(1, -(-len(panels) // 2))
    height = PANEL * rows + 0.8
    figure = new_figure(14, height)
    figure.text(0.5, 1 - 0.3 / height, f"{say(language, 'study_report')} · {data['name'][:60]}",
                ha="center", va="top", fontsize=14, fontweight="bold", parse_math=False)
    if not panels:
        problem = {"missing": "report_no_file", "unreadable": "report_unreadable"}.get(
            data["problem"] or "", "report_empty")
        figure.text(0.5, 0.5, say(language, problem), ha="center", va="center", parse_math=False)
    for place, (title, panel) in enumerate(panels):
        left, row = 0.12 + 0.5 * (place % 2), place // 2
        axes = figure.add_axes((left, (PANEL * (rows - 1 - row) + 1.1) / height, 0.35,
                                4.1 / height))
        panel(axes)
        axes.set_title(drawable(title, 60), parse_math=False)
    return figure


def _panels(data: Mapping[str, Any],
            language: Language) -> list[tuple[str, Callable[[Axes], None]]]:
    """What there is to draw, each with its title."""
    told = partial(say, language)
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    names = [drawable(item[language], 14) for item in data["classes"]]
    for reader, part in data["languages"].items():
        if part["confusion"]:
            panels.append((f"{told('report_confusion')} · {told(f'report_{reader}')}", partial(
                place_confusion, names=names, counts=np.array(part["confusion"]),
                answer=told("report_answer"), written=told("report_written"))))
        if part["reliability"]:
            panels.append((f"{told('report_reliability')} · {told(f'report_{reader}')}", partial(
                place_reliability, bins=part["reliability"], said=told("report_said"),
                right=told("report_is_right"))))
    columns = [(reader, level) for reader in READERS for level in LEVELS]
    own = {reader: {level: data["languages"].get(reader, {}).get("figures", {}).get(
        f"accuracy_{level}") for level in LEVELS} for reader in READERS}
    if data["languages"] or data["baselines"]:
        rows = [{"name": told("report_model"), **own}, *data["baselines"]]
        panels.append((told("report_baselines"), partial(
            _place_bars, names=[f"{told(f'report_{reader}')}\n{told(f'report_{level}')}"
                                for reader, level in columns],
            bars={row["name"]: [row[reader][level] for reader, level in columns]
                  for row in rows})))
    if data["contrast"]:
        bars = {f"{told('report_model' if who == 'model' else 'report_linear')}, "
                f"{told(f'report_{reader}')}": [row[who][reader] for row in data["contrast"]]
                for who in ("model", "linear") for reader in READERS}
        panels.append((told("report_contrast"), partial(
            _place_bars, names=[_group(row["group"], language) for row in data["contrast"]],
            bars={name: shares for name, shares in bars.items() if any(shares)})))
    if data["two_feelings"]:
        kinds = ("right", "both_first", "room_for_both")
        panels.append((told("report_two_feelings"), partial(
            _place_bars, names=[told(f"report_{kind}") for kind in kinds],
            bars={told(f"report_{row['name']}"): [row["figures"][kind] for kind in kinds]
                  for row in data["two_feelings"]})))
    if data["pruning"]:
        panels.append((told("report_pruning"), partial(
            _place_lines, steps=data["pruning"]["removed"], across=told("report_heads_off"),
            lines={told(f"report_{line['name']}"): line["values"]
                   for line in data["pruning"]["lines"]}, are_shares=True)))
    if data["learning_curve"]:
        panels.append((told("report_learning_curve"), partial(
            _place_lines, steps=[100 * row["share"] for row in data["learning_curve"]],
            across=told("report_share_of_lines"),
            lines={f"{told(f'report_{reader}')} {told(f'report_{level}')}": [
                row[reader][level] for row in data["learning_curve"]]
                for reader, level in columns}, are_shares=True)))
    for curve in data["curves"]:
        panels.append((f"{told('report_curves')} · bert {curve['stage']}", partial(
            _place_lines, steps=curve["steps"], across=told("report_step"),
            lines={line["name"].replace("_", " "): line["values"] for line in curve["lines"]},
            are_shares=curve["kind"] != "loss")))
    return panels


def _group(name: str, language: Language) -> str:
    """A group of the contrast set in words; one that is not ours keeps its name."""
    try:
        return say(language, f"report_group_{name}")
    except KeyError:
        return drawable(name, 12)


def _place_bars(axes: Axes, names: Sequence[str], bars: Bars) -> None:
    """A group of bars for each name, in per cent."""
    wide = 0.8 / max(len(bars), 1)
    for place, (who, shares) in enumerate(bars.items()):
        axes.bar(np.arange(len(names)) + wide * (place - (len(bars) - 1) / 2),
                 [100 * (share or 0) for share in shares], 0.9 * wide,
                 color=OTHER_COLOURS[place % len(OTHER_COLOURS)], label=drawable(who, 30))
    axes.set_xticks(range(len(names)), names, fontsize=9, parse_math=False)
    axes.set(ylim=(0, 100), ylabel="%")
    _legend(axes)


def _place_lines(axes: Axes, steps: Sequence[float], lines: Mapping[str, Sequence[float | None]],
                 across: str, are_shares: bool) -> None:
    """Lines over steps; shares in per cent."""
    scale = 100 if are_shares else 1
    for name, values in lines.items():
        points = [(step, scale * value) for step, value in zip(steps, values, strict=True)
                  if value is not None]
        if points:
            axes.plot(*zip(*points, strict=True), label=drawable(name))
    axes.set(xlabel=across)
    if are_shares:
        axes.set(ylim=(0, 100), ylabel="%")
    _legend(axes)


def _legend(axes: Axes) -> None:
    """Below the axes; names come from a file and are drawn as they are."""
    legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False,
                         fontsize=8)
    for text in legend.get_texts():
        text.set_parse_math(False)
