"""The demonstration's first part, which needs no calibration: pictures by the natural inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

import sgfi
from sgfi.evaluation.trust import Trust
from sgfi.figures import Cell, Grid, draw_grid
from sgfi.figures.answers import Painter, answer_cell, answers_figure, control_cell
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.grids import query_marks
from sgfi.inputs.data import TensorBatches
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query, sweep
from sgfi.natural import Solver
from sgfi.report import Picture

LADDER_RIDGE, LADDER_STEPS = 0.03, 160
"""Of whole tensors, at the point, with steps enough to solve nearly every system to its tolerance: path pictures of
whole tensors shift in colour, a larger ridge blurs them more."""


def ladder_picture(
    graph: sgfi.TensorGraph, photographs: TensorBatches, targets: Sequence[str], preprocessing: Preprocessing
) -> Picture:
    """Whole tensors of every photograph, deeper to the right."""
    lens = sgfi.natural(graph, preprocessing, jacobian="point", ridge=LADDER_RIDGE, solver=Solver(steps=LADDER_STEPS))
    x = photographs.inputs
    painter = Painter(lens.prior.mean_like(x), preprocessing)
    inverses: list[Any] = [sgfi.invert(lens, x, target=target) for target in targets]
    rows = [
        (
            source_cell(x[index], preprocessing),
            *(control_cell(inverse.value[index], painter, "") for inverse in inverses),
        )
        for index in range(len(x))
    ]
    heads = ("input", *(f"{depth_name(node)}\n{shape_name(node)}" for node in map(lens.node, targets)))
    title = "Natural inverses of whole tensors: detail is lost with depth"
    figure = draw_grid(Grid(tuple(rows), heads, tuple(photographs.names), title))
    residuals = ", ".join(f"{float(inverse.residual.max()):.2f}" for inverse in inverses)
    caption = (
        f'`sgfi.natural(graph, jacobian="point", ridge={LADDER_RIDGE}, solver=Solver(steps={LADDER_STEPS}))`: the '
        f"derivative at the photograph, a small ridge; largest residual of the solves, left to right: {residuals}. "
        "Panels are the prior's mean plus the inverse in the photograph's own colours; a gain under one "
        "says that the deviation was multiplied."
    )
    return Picture.of(figure, "Photographs beside the natural inverses of ever deeper whole tensors", caption)


def query_picture(
    lens: sgfi.NaturalInverse,
    x: Tensor,
    queries: Sequence[Query],
    preprocessing: Preprocessing,
    columns: int = 4,
) -> Picture:
    """One photograph (1, C, H, W), then the answer to each query on one tensor, its cell outlined."""
    node = lens.node(queries[0].target)
    painter = Painter(lens.prior.mean_like(x), preprocessing)
    source = source_cell(x[0], preprocessing)
    marks = [query_marks(query, node, x.shape[2:]) for query in queries]
    cells = [Cell(source.tensor, source.view, "input", tuple(mark for own in marks for mark in own))]
    for inverse, query, own in zip(sweep(lens, x, queries), queries, marks, strict=True):
        cell = answer_cell(inverse, painter, label=str(Query(None, query.channels, query.coords)))
        cells.append(Cell(cell.tensor, cell.view, cell.caption, own))
    rows = tuple(tuple(cells[start : start + columns]) for start in range(0, len(cells), columns))
    what = "cells" if queries[0].coords else "channels"
    title = f"Natural inverses of single {what} of {depth_name(node)} ({shape_name(node)})"
    caption = (
        f"The default setting ({_setting(lens)}). What the {what[:-1]} does not determine fades to grey; **share** is "
        "how much of the variance of the details it determines at most, gain what its deviation was multiplied by."
    )
    return Picture.of(draw_grid(Grid(rows, title=title, side=1.7)), f"{title}, on one photograph", caption)


def trust_picture(
    answers: Sequence[Trust], lens: sgfi.NaturalInverse, x: Tensor, preprocessing: Preprocessing
) -> Picture:
    """The answers on the first photograph beside what other targets give at the same operating point."""
    nodes = [lens.node(answer.inverse.query.target) for answer in answers]
    figure = answers_figure(answers, x, nodes, Painter(lens.prior.mean_like(x), preprocessing))
    return Picture.of(figure, TRUST)


def map_trust_picture(answers: Sequence[Trust], x: Tensor, preprocessing: Preprocessing) -> Picture:
    """The same for maps, whose answers have no size to compare: each panel on its own scale."""
    rows = []
    for answer in answers:
        row = [source_cell(x[0], preprocessing), Cell(answer.inverse.value[0])]
        scores = zip(answer.controls.values(), (answer.random, answer.swapped), strict=False)
        row += [Cell(picture[0], "natural", f"cos {float(score[0]):.2f}") for picture, score in scores]  # type: ignore[index]
        rows.append(tuple(row))
    heads = ("input", "answer", *answers[0].controls)
    labels = tuple(str(answer.inverse.query) for answer in answers)
    title = "The paper's calibrated maps: the same queries and controls"
    return Picture.of(draw_grid(Grid(tuple(rows), heads, labels, title, side=1.9)), TRUST)


TRUST = "Answers beside the pictures that a random and another photograph's target give"


def _setting(lens: sgfi.NaturalInverse) -> str:
    facts = lens.describe()
    return f"Jacobian averaged over {facts['points']} points of the path, ridge {facts['ridge']:g}"
