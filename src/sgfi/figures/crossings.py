"""Target and operating point of two inputs crossed, and several map families beside each other.

``H`` is the state at the target that is inverted, ``J`` the operating point of the derivatives. Pairs are neighbours:
inputs 0 and 1, 2 and 3, and so on. Captions give pixel cosines, of deviations from the estimator's origin (zero for
maps).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.figures.atlases import depth_name, inverse_cell, shape_name, source_cell
from sgfi.figures.grids import Cell, Grid, draw_grid
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, invert

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def swap_strip(
    estimator: Estimator,
    x: torch.Tensor,
    target: str | None = None,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row a pair A, B: both inputs, then their targets at both operating points."""
    node = estimator.node(target)
    rows = []
    for a, b in _pairs(x):
        inverses = [invert(estimator, own, node.name) for own in (a, b)]
        states = [inverse.states[node.name] for inverse in inverses]
        values = [
            inverses[0].value,
            invert(estimator, b, node.name, terminal=states[0]).value,
            invert(estimator, a, node.name, terminal=states[1]).value,
            inverses[1].value,
        ]
        sources = [source_cell(own[0], preprocessing) for own in (a, b)]
        rows.append([*sources, *(_crossed_cell(estimator, value, a, b) for value in values)])
    heads = ["A", "B", "target of A\nat A", "target of A\nat B", "target of B\nat A", "target of B\nat B"]
    title = f"Target and operating point crossed at {depth_name(node)} ({shape_name(node)}); cosines to A and to B"
    return draw_grid(Grid(rows, heads, title=title))


def interpolation_strip(
    estimator: Estimator,
    x: torch.Tensor,
    count: int = 6,
    target: str | None = None,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """Two rows a pair A, B: operating points on the line from A to B, and the inverse of A's target at each."""
    if count < 2:
        raise QueryError("two operating points or more", str(count), "Ask for more panels.")
    node = estimator.node(target)
    weights = [step / (count - 1) for step in range(count)]
    rows: list[list[Cell]] = []
    for a, b in _pairs(x):
        state = invert(estimator, a, node.name).states[node.name]
        points = [(1 - weight) * a + weight * b for weight in weights]
        rows.append([source_cell(point[0], preprocessing) for point in points])
        inverses = [invert(estimator, point, node.name, terminal=state).value for point in points]
        rows.append([_crossed_cell(estimator, value, a, b) for value in inverses])
    heads = ["A", *(f"{1 - weight:.2g} A + {weight:.2g} B" for weight in weights[1:-1]), "B"]
    labels = ["operating point", "inverse"] * (len(rows) // 2)
    title = f"The target of A at {depth_name(node)} ({shape_name(node)}) while the operating point goes from A to B"
    return draw_grid(Grid(rows, heads, labels, title))


def family_plate(
    estimators: Mapping[str, Estimator],
    x: torch.Tensor,
    target: str | None = None,
    *,
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an input: the same target by several estimators of one model, such as operator families."""
    node = next(iter(estimators.values())).node(target)
    values = [invert(estimator, x, node.name).value for estimator in estimators.values()]
    rows = [
        [source_cell(own, preprocessing), *(inverse_cell(value[i], own) for value in values)] for i, own in enumerate(x)
    ]
    title = f"One target, {len(values)} map families: {depth_name(node)} ({shape_name(node)})"
    return draw_grid(Grid(rows, ["input", *estimators], names, title))


def _pairs(x: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(1, ...) each."""
    if len(x) < 2:
        raise QueryError("two inputs or more, to cross them", str(len(x)), "Pass a folder of images.")
    return [(x[i : i + 1], x[i + 1 : i + 2]) for i in range(0, len(x) - 1, 2)]


def _crossed_cell(estimator: Estimator, value: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Cell:
    to_a, to_b = (float(pixel_cosine(value, own - estimator.origin)) for own in (a, b))
    return Cell(value[0], caption=f"A {to_a:.2f}  B {to_b:.2f}")
