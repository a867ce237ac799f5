"""Results of experiments: points with intervals, or curves where the rows are numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sgfi.experiments.results import Result
from sgfi.figures.style import FAINT, LIGHT, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = tuple(
    "#2f5fd0 #d0542f #2f9e6e #8a4fc7 #b08a00 #c23b7a #3a8fb0 #6b6f76 #7a4a1e #9fc131 #e58fb1 #1e2a5a "
    "#7fd4c1 #f0a35e".split()
)
BELOW = 0.4
"""Inches from a panel to its legend, which leaves room for the numbers between them."""

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?")


def panels_of(result: Result) -> list[Mapping[str, Any]]:
    """The declared figures whose measure was taken: a set-up may leave measures out."""
    return [panel for panel in result.experiment["figures"] if panel["measure"] in result.tables]


def experiment_figure(result: Result) -> Figure:
    """One panel for each of :func:`panels_of`, side by side."""
    panels = panels_of(result)
    figure = new_figure(5.2 * len(panels), 1.6 + max(_height(result, panel) for panel in panels))
    for column, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), column)
        table = _lines(result, panel)
        rows = [row for scores in table.values() for row in scores if panel["score"] in scores[row]]
        if "row" not in panel and all(NUMBER.fullmatch(row) for row in rows):
            _curves(axes, table, panel)
        else:
            _points(axes, table, panel)
        measure = f"{panel['measure']}, {panel['row']}" if "row" in panel else panel["measure"]
        axes.set_title(f"{measure}: {panel['score'].replace('_', ' ')}".replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.suptitle(result.experiment["title"], fontsize=11, color=LIGHT.ink)
    figure.tight_layout()
    return figure


def _lines(result: Result, panel: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Line -> mark -> scores: variants and rows. Where one variant has more rows than there are colours, each a method
    with what it was put to (``method, tensor, kind``), there is a line for each of the latter."""
    table = result.tables[panel["measure"]]
    (first, *others) = table.values()
    if others or len(first) <= len(COLOURS) or any(row.count(", ") < 2 for row in first):
        return table
    lines: dict[str, dict[str, Any]] = {}
    for row, scores in first.items():
        method, *rest = row.rsplit(", ", 2)
        lines.setdefault(", ".join(rest), {})[method] = scores
    return lines


def _height(result: Result, panel: Mapping[str, Any]) -> float:
    """Inches that the marks of a panel need."""
    table = _lines(result, panel)
    marks = 1 if "row" in panel else max(len(rows) for rows in table.values())
    return max(1.4, len(table) * max(0.34, 0.13 * min(marks, 16)))


def _points(axes: Axes, table: Mapping[str, Any], panel: Mapping[str, Any]) -> None:
    """A line per variant; a mark for each row, with its interval."""
    score = panel["score"]
    rows = [panel["row"]] if "row" in panel else list(dict.fromkeys(row for scores in table.values() for row in scores))
    rows = [row for row in rows if any(score in scores.get(row, {}) for scores in table.values())]
    named: set[int] = set()
    for at, row in enumerate(rows):
        for line, scores in enumerate(table.values()):
            number = scores.get(row, {}).get(score)
            if number is None or number["mean"] is None:
                continue
            y = -line + 0.8 * ((len(rows) - 1) / 2 - at) / len(rows)
            low, high = number.get("low", number["mean"]), number.get("high", number["mean"])
            colour = COLOURS[at % len(COLOURS)]
            axes.plot([low, high], [y, y], color=colour, linewidth=1.5)
            axes.plot([number["mean"]], [y], "o", color=colour, markersize=4, label=row if at not in named else None)
            named.add(at)
    axes.set_yticks([-line for line in range(len(table))], list(table))
    axes.set_ylim(-len(table) + 0.4, 0.6)
    for line in range(1, len(table)):
        axes.axhline(0.5 - line, color="#eeeeee", linewidth=0.8)
    if len(rows) > 1:
        _legend(axes, len(rows))


def _legend(axes: Axes, entries: int) -> None:
    """Below the panel, where no mark can be."""
    inches = axes.get_position().height * axes.get_figure(root=True).get_figheight()  # type: ignore[union-attr]
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -min(0.16, BELOW / inches))}
    columns = 2 if entries > len(COLOURS) // 2 else 3
    axes.legend(**below, fontsize=7, frameon=False, ncols=min(entries, columns), handlelength=1)


def _curves(axes: Axes, table: Mapping[str, Any], panel: Mapping[str, Any]) -> None:
    """A curve per variant over numeric rows, with a band for the interval."""
    for index, (variant, scores) in enumerate(table.items()):
        rows = [row for row in scores if panel["score"] in scores[row]]
        numbers = [scores[row][panel["score"]] for row in rows]
        at, colour = [float(row) for row in rows], COLOURS[index % len(COLOURS)]
        axes.plot(at, [number["mean"] for number in numbers], "o-", color=colour, markersize=3, label=variant)
        if all("low" in number for number in numbers):
            band = [number["low"] for number in numbers], [number["high"] for number in numbers]
            axes.fill_between(at, *band, color=colour, alpha=0.2, linewidth=0)
    if len(table) > 1:
        _legend(axes, len(table))
    for label in axes.get_xticklabels():
        label.set_gid(FAINT)
