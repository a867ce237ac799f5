"""The boundary DAG as a picture that fits a page and a telephone: boxes in reading order, wrapped into lines.

``plan.draw()`` gives the full drawing as SVG; this one trades exact layering for legibility of long chains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgfi.figures.style import FAINT, FILL, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOX, GAP_X, GAP_Y, TALL = 1.42, 0.3, 0.34, 0.46
"""Inches: width of a box, space between boxes, space between lines, height of a box."""


def boundary_dag(plan: Any, columns: int = 5) -> Figure:
    """Every boundary from the input to the target with its shape; arrows run from a node to its frontier."""
    names = list(plan.boundaries)
    lines = -(-len(names) // columns)
    width = columns * BOX + (columns - 1) * GAP_X + 0.3
    top = 0.62
    height = top + lines * TALL + (lines - 1) * GAP_Y + 0.18
    figure = new_figure(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    title = f"Boundary DAG: {len(plan.fitted)} fitted nodes, target {plan.target}"
    axes.text(0.15, 0.1, title, size=10.5, weight="bold", va="top")
    note = "An arrow runs from a node to the children it is repaired from; inversion walks it backwards."
    axes.text(0.15, 0.36, note, size=7.5, va="top", gid=FAINT)
    places = {name: _place(i, columns, top) for i, name in enumerate(names)}
    for name in names:
        _box(axes, places[name], name, plan)
    order = {name: i for i, name in enumerate(names)}
    for name in plan.fitted:
        for child in plan.children(name):
            _arrow(axes, places[name], places[child], order[child] - order[name])
    return figure


def _place(index: int, columns: int, top: float) -> tuple[float, float]:
    """Left and top of a box. Odd lines run right to left, so that a chain is one unbroken path."""
    line, column = divmod(index, columns)
    if line % 2:
        column = columns - 1 - column
    return 0.15 + column * (BOX + GAP_X), top + line * (TALL + GAP_Y)


def _box(axes: Any, place: tuple[float, float], name: str, plan: Any) -> None:
    from matplotlib.patches import FancyBboxPatch

    left, top = place
    style = "round,pad=0,rounding_size=0.07"
    heavy = 1.8 if name in ("input", plan.target) else 0.7
    box = FancyBboxPatch((left, top), BOX, TALL, boxstyle=style, linewidth=heavy, gid=FILL)
    axes.add_patch(box)
    shape = "x".join(str(length) for length in plan.graph.nodes[name].shape[1:])
    short = name if len(name) <= 20 else f"{name[:7]}…{name[-12:]}"
    axes.text(left + BOX / 2, top + 0.15, short, size=7.5, ha="center", va="center")
    axes.text(left + BOX / 2, top + 0.33, shape, size=7, ha="center", va="center", gid=FAINT)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], steps: int) -> None:
    from matplotlib.patches import FancyArrowPatch

    middle = TALL / 2
    if steps == 1 and start[1] == end[1]:  # neighbour on the line
        forward = end[0] > start[0]
        tail = (start[0] + (BOX if forward else 0), start[1] + middle)
        head = (end[0] + (0 if forward else BOX), end[1] + middle)
        curve = 0.0
    elif steps == 1:  # straight down to the next line
        tail, head = (start[0] + BOX / 2, start[1] + TALL), (end[0] + BOX / 2, end[1])
        curve = 0.0
    else:
        tail, head = (start[0] + BOX / 2, start[1] + TALL), (end[0] + BOX / 2, end[1] + TALL)
        curve = 0.25
    arrow = FancyArrowPatch(
        tail,
        head,
        arrowstyle="-|>",
        mutation_scale=7,
        linewidth=0.9,
        connectionstyle=f"arc3,rad={curve}",
        gid=FAINT,
        shrinkA=0,
        shrinkB=0,
    )
    axes.add_patch(arrow)
