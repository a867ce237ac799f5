"""One query by many methods side by side, each picture with what it removes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sgfi.experiments.exhibits import Exhibit
from sgfi.figures.answers import Painter
from sgfi.figures.atlases import source_cell
from sgfi.figures.grids import Cell, Grid, draw_grid, query_marks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 5
FAINT = 1e-3
"""Largest number of a picture before the gain: below what is visible, so that the gain brings all to one contrast."""


def methods_figure(shown: Exhibit) -> Figure:
    """The input, then every picture added to the mean colour, all on one contrast: their lengths mean nothing here."""
    painter = Painter(shown.mean, shown.preprocessing)
    marks = query_marks(shown.query, shown.node, shown.x.shape[-2:])
    cells = [replace(source_cell(shown.x, shown.preprocessing), caption="input\n ", marks=marks)]
    for method, picture, removed in shown.drawn:
        faint = picture * (FAINT / picture.abs().max().clamp_min(1e-30))
        view = painter.picture(faint, painter.gain(faint))
        cells.append(Cell(view, "picture", f"{method}\nremoves {removed:.2f}"))
    rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    return draw_grid(Grid(rows, title=f"{shown.query} by every method", side=1.75))
