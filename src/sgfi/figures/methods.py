"""Queries by several methods side by side, all pictures at one contrast."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from sgfi.evaluation.metrics import pixel_cosine
from sgfi.experiments.exhibits import Exhibit
from sgfi.figures.answers import Painter
from sgfi.figures.atlases import source_cell
from sgfi.figures.grids import Cell, Grid, draw_grid, query_marks
from sgfi.figures.style import counted
from sgfi.graph import Node
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Compared(Protocol):
    """What :func:`comparison_figure` draws."""

    @property
    def x(self) -> Tensor: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def queries(self) -> tuple[Query, ...]: ...
    @property
    def nodes(self) -> tuple[Node, ...]: ...
    @property
    def values(self) -> Mapping[str, tuple[Tensor, ...]]: ...
    @property
    def mean(self) -> Tensor: ...


COLUMNS = 5
FAINT = 1e-3
"""Largest number of a picture before the gain: below what is visible, so that the gain brings all to one contrast."""


def even_cell(picture: Tensor, painter: Painter, caption: str) -> Cell:
    """A deviation (C, H, W) added to the mean colour, at the one contrast that all such panels have."""
    faint = picture.cpu() * (FAINT / picture.abs().max().clamp_min(1e-30)).cpu()
    return Cell(painter.picture(faint, painter.gain(faint)), "picture", caption)


def comparison_figure(shown: Compared, preprocessing: Preprocessing) -> Figure:
    """A row an input; for each query a column a method, all pictures at one contrast."""
    painter, labels = Painter(shown.mean.cpu(), preprocessing), list(shown.values)
    heads = ["input", *(f"{_short(query)}\n{label}" for query in shown.queries for label in labels)]
    rows = []
    for index, x in enumerate(shown.x.cpu()):
        marks = [query_marks(q, node, x.shape[-2:]) for q, node in zip(shown.queries, shown.nodes, strict=True)]
        cells = [replace(source_cell(x, preprocessing), marks=tuple(dict.fromkeys(m for own in marks for m in own)))]
        for number in range(len(shown.queries)):
            first = shown.values[labels[0]][number][index]
            for label in labels:
                picture = shown.values[label][number][index]
                alike = float(pixel_cosine(picture[None], first[None]))
                cells.append(even_cell(picture, painter, "" if label == labels[0] else f"cosine {alike:.2f}"))
        rows.append(cells)
    title = (
        f"{counted(len(shown.x), 'input')}, {counted(len(shown.queries), 'query')}, {counted(len(labels), 'method')}"
    )
    note = f"; cosine: with the picture by {labels[0]}" if len(labels) > 1 else ""
    return draw_grid(Grid(rows, heads, shown.names, f"{title}, all at one contrast{note}", side=1.75))


def _short(query: Query) -> str:
    """Fits above a panel; a file of directions without its folder."""
    text = re.sub(r"%\S*/(?=[^/])", "%", str(query))
    return text if len(text) <= 26 else f"{text[:12]}…{text[-13:]}"


def methods_figure(shown: Exhibit) -> Figure:
    """The input, then every picture added to the mean colour, all on one contrast: their lengths mean nothing here."""
    painter = Painter(shown.mean, shown.preprocessing)
    marks = query_marks(shown.query, shown.node, shown.x.shape[-2:])
    cells = [replace(source_cell(shown.x, shown.preprocessing), caption="input\n ", marks=marks)]
    for method, picture, removed in shown.drawn:
        cells.append(even_cell(picture, painter, f"{method}\nremoves {removed:.2f}"))
    rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    return draw_grid(Grid(rows, title=f"{shown.query} by every method", side=1.75))
