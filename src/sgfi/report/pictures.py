"""The figures of a report on pictures: whole tensors, channels, cells, controls; by either estimator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from torch import Tensor

import sgfi
from sgfi import figures
from sgfi.evaluation.trust import Trust
from sgfi.figures import Cell, Grid, draw_grid
from sgfi.figures.answers import Painter, answer_grid, answers_figure, natural_ladder
from sgfi.figures.atlases import source_cell
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query
from sgfi.natural import NotConverged, Solver
from sgfi.report.html import Picture
from sgfi.report.questions import Questions

LADDER_RIDGE, LADDER_STEPS = 0.03, 160
"""Of whole tensors, at the point, with steps enough to solve nearly every system to its tolerance: path pictures of
whole tensors shift in colour, a larger ridge blurs them more."""
SHARED_UP_TO = 256
"""Selected numbers up to which a share is exact, and cheap enough to fade a panel by."""
TRUST = "Answers beside the pictures that a random and another input's target give"


def ladder_picture(
    lens: sgfi.NaturalInverse,
    x: Tensor,
    names: Sequence[str],
    targets: Sequence[str],
    preprocessing: Preprocessing,
    steps: int = LADDER_STEPS,
) -> Picture:
    """Whole tensors of every input, deeper to the right."""
    point = sgfi.natural(lens.graph, lens.prior, jacobian="point", ridge=LADDER_RIDGE, solver=Solver(steps=steps))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the caption says how well they were solved
        inverses: list[Any] = [sgfi.invert(point, x, target=target) for target in targets]
    painter = Painter(point.prior.mean_like(x), preprocessing)
    figure = natural_ladder(inverses, x, painter, [lens.node(target) for target in targets], names)
    residuals = ", ".join(f"{float(inverse.residual.max()):.2f}" for inverse in inverses)
    caption = (
        f'`sgfi.natural(graph, jacobian="point", ridge={LADDER_RIDGE}, solver=Solver(steps={steps}))`: the '
        f"derivative at the input, a small ridge; largest residual of the solves, left to right: {residuals}. "
        "Panels are the prior's mean plus the inverse in the input's own colours; a gain above one "
        "says that the deviation was multiplied."
    )
    return Picture.of(figure, "Inputs beside the natural inverses of ever deeper whole tensors", caption)


def query_picture(
    lens: sgfi.NaturalInverse,
    x: Tensor,
    queries: Sequence[Query],
    preprocessing: Preprocessing,
    share_up_to: int = SHARED_UP_TO,
) -> Picture:
    """One input (1, C, H, W), then the answer to each query on one tensor, its cell outlined."""
    node = lens.node(queries[0].target)
    share = all(query.selection(node, x.device).count <= share_up_to for query in queries)
    what = "cells" if queries[0].coords else "channels"
    fades = (
        f"What the {what[:-1]} does not determine fades to grey; **share** is how much of the variance of the details "
        "it determines at most"
        if share
        else f"Nothing fades: the share of a {what[:-1]} of more than {share_up_to} numbers is left out"
    )
    facts = lens.describe()
    setting = f"Jacobian averaged over {facts['points']} points of the path, ridge {facts['ridge']:g}"
    caption = f"The default setting ({setting}). {fades}; gain is what its deviation was multiplied by."
    figure = answer_grid(lens, x, queries, preprocessing, share)
    return Picture.of(figure, f"Natural inverses of single {what} of {node.name} on one input", caption)


def trust_picture(
    answers: Sequence[Trust],
    lens: sgfi.NaturalInverse,
    x: Tensor,
    preprocessing: Preprocessing,
    share_up_to: int = SHARED_UP_TO,
) -> Picture:
    """The answers on the first input beside what other targets give at the same operating point."""
    nodes = [lens.node(answer.inverse.query.target) for answer in answers]
    small = all(answer.numbers <= share_up_to for answer in answers)
    figure = answers_figure(answers, x, nodes, Painter(lens.prior.mean_like(x), preprocessing), share=small)
    return Picture.of(figure, TRUST)


def map_trust_picture(answers: Sequence[Trust], x: Tensor, preprocessing: Preprocessing) -> Picture:
    """The same for maps, whose answers have no size to compare: each panel on its own scale."""
    rows = []
    for answer in answers:
        row = [source_cell(x[0], preprocessing), Cell(answer.inverse.value[0])]
        row += [
            Cell(picture[0], "natural", f"cosine {float(answer.cosines[label][0]):.2f}")
            for label, picture in answer.controls.items()
        ]
        rows.append(tuple(row))
    heads = ("input", "answer", *max((answer.controls for answer in answers), key=len))
    labels = tuple(str(answer.inverse.query) for answer in answers)
    title = "The paper's calibrated maps: the same queries and controls"
    return Picture.of(draw_grid(Grid(tuple(rows), heads, labels, title, side=1.9)), TRUST)


def map_pictures(
    family: sgfi.MapFamily, asked: Questions, x: Tensor, names: Sequence[str], preprocessing: Preprocessing
) -> dict[str, Picture]:
    """The paper's inverses of the same tensors, channels and cells, and of a zero target."""
    shown: dict[str, Any] = {"preprocessing": preprocessing}
    ladder = figures.depth_ladder(family, x, asked.targets, names=names, **shown)
    stages = figures.stage_ladder(family, x[:1], asked.targets, **shown)
    pictures = {
        "depths": Picture.of(ladder, "Inputs beside their final calibrated inverses at several depths"),
        "stages": Picture.of(stages, "Raw VJP, first and final inverse of one input at several depths"),
    }
    channels = [channel for query in asked.channels for channel in query.channels or ()]
    single = figures.channel_grid(family, x[:1], channels, asked.channels[0].target, columns=3, **shown)
    pictures["channels"] = Picture.of(single, "Calibrated inverses of the same single channels")
    if asked.cells:
        cells = [cell for query in asked.cells for cell in query.coords or ()]
        cell = figures.coordinate_grid(family, x[:1], cells, asked.cells[0].target, columns=3, **shown)
        pictures["cells"] = Picture.of(cell, "Calibrated inverses of the same single cells, outlined")
    zero = figures.zero_target(family, x[:1], **shown)
    pictures["zero"] = Picture.of(zero, "The inverse of a zero target is exactly zero")
    return pictures
