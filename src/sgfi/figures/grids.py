"""The one layout of all atlases: a grid of pictures with labels, and the display rule written under it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch

from sgfi.figures.display import Scale, natural_scale, natural_view, signed_scale, signed_view
from sgfi.figures.style import ACCENT, FAINT, FIXED, LIGHT, bare, new_figure
from sgfi.graph import Node
from sgfi.inversion import Query
from sgfi.inversion.query import patch_side

ATTENTION = ("softmax", "matmul", "masked_fill")
"""Ops whose two coordinates are attention's query and key."""

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

View = Literal["natural", "signed", "picture"]
Share = Literal["none", "row", "all"]

RULES = {
    "natural": "1st-99th percentile of the whole inverse",
    "signed": "mean over colours, symmetric at the 99th percentile of the magnitude; white is zero",
}
SHARED = {"none": "each panel on its own scale", "row": "one scale per row", "all": "one scale for all"}
SIGNED_COLOURS = "RdBu_r"


@dataclass(frozen=True)
class Cell:
    """One panel. ``view="picture"`` shows values 0..1 as they are (a photograph)."""

    tensor: torch.Tensor
    """(C, H, W)."""
    view: View = "natural"
    caption: str = ""
    marks: tuple[tuple[float, float, float, float], ...] = ()
    """Rectangles (top, left, height, width) as fractions of the picture."""


@dataclass(frozen=True)
class Grid:
    """What is to be drawn: rows of cells (``None`` leaves a gap), labels, and how scales are shared."""

    rows: Sequence[Sequence[Cell | None]]
    columns: Sequence[str] = ()
    labels: Sequence[str] = ()
    title: str = ""
    share: Share = "none"
    reference: float = 0.0
    """A magnitude next to which tiny inverses are drawn flat instead of blown up."""
    side: float = 1.55
    """Inches per panel."""

    @property
    def rule(self) -> str:
        """The display rule in words, as it stands under the figure."""
        views = {cell.view for row in self.rows for cell in row if cell is not None}
        rules = [RULES[view] for view in ("natural", "signed") if view in views]
        return f"Display: {'; '.join(rules)}; {SHARED[self.share]}." if rules else ""


@dataclass(frozen=True)
class _Layout:
    """Inches: where panels and texts stand."""

    columns: int
    rows: int
    side: float
    aspect: float
    left: float
    top: float
    bottom: float
    gap: float = 0.09
    below: float = 0.27

    @property
    def width(self) -> float:
        return max(self.left + self.columns * (self.side + self.gap) + 0.12, 3.4)

    @property
    def height(self) -> float:
        return self.top + self.rows * (self.side * self.aspect + self.below) + self.bottom

    def box(self, row: int, column: int) -> tuple[float, float, float, float]:
        """(left, bottom, width, height) of a panel as fractions of the figure."""
        tall = self.side * self.aspect
        x = self.left + column * (self.side + self.gap)
        y = self.height - self.top - (row + 1) * tall - row * self.below
        return x / self.width, y / self.height, self.side / self.width, tall / self.height


def draw_grid(grid: Grid) -> Figure:
    """The grid as a figure."""
    layout = _lay_out(grid)
    figure = new_figure(layout.width, layout.height)
    _write_frame(figure, grid, layout)
    scales = _scales(grid)
    for r, row in enumerate(grid.rows):
        for c, cell in enumerate(row):
            if cell is not None:
                draw_cell(figure.add_axes(layout.box(r, c)), cell, scales[r][c])
    return figure


def _lay_out(grid: Grid) -> _Layout:
    columns = max(len(row) for row in grid.rows)
    first = next(cell for row in grid.rows for cell in row if cell is not None)
    height, width = first.tensor.shape[-2:]
    captions = [cell.caption.count("\n") + 1 for row in grid.rows for cell in row if cell is not None and cell.caption]
    lines = max((label.count("\n") + 1 for label in grid.columns), default=0)
    layout = _Layout(
        columns=columns,
        rows=len(grid.rows),
        side=grid.side,
        aspect=height / width,
        left=0.42 if grid.labels else 0.12,
        top=0.1,
        bottom=0.1,
        below=0.17 + 0.13 * max(captions) if captions else 0.09,
    )
    title = len(_wrapped(grid.title, layout.width, 10.5))
    rule = len(_wrapped(grid.rule, layout.width, 7.5))
    top = 0.12 + 0.21 * title + 0.17 * lines + 0.04
    return replace(layout, top=top, bottom=0.1 + 0.15 * rule)


def _wrapped(text: str, width: float, points: float) -> list[str]:
    """Lines of about ``width`` inches (a character of the default font is about 0.56 of its size)."""
    return textwrap.wrap(text, max(20, int((width - 0.3) * 72 / (0.53 * points)))) if text else []


def _write_frame(figure: Figure, grid: Grid, layout: _Layout) -> None:
    """Title, column heads, row labels and the rule."""
    width, height = layout.width, layout.height
    title = "\n".join(_wrapped(grid.title, width, 10.5))
    figure.text(0.12 / width, 1 - 0.1 / height, title, size=10.5, weight="bold", va="top")
    rule = "\n".join(_wrapped(grid.rule, width, 7.5))
    figure.text(0.12 / width, 0.07 / height, rule, size=7.5, va="bottom", gid=FAINT)
    for c, label in enumerate(grid.columns):
        x, y, w, h = layout.box(0, c)
        figure.text(x + w / 2, y + h + 0.05 / height, label, size=8, ha="center", va="bottom")
    for r, label in enumerate(grid.labels):
        x, y, _, h = layout.box(r, 0)
        at = x - 0.09 / width
        figure.text(at, y + h / 2, label, size=8, rotation=90, ha="right", va="center")


def _scales(grid: Grid) -> list[list[Scale | None]]:
    """A scale for every cell; panels that share take it from all their tensors together."""
    everything = [cell for row in grid.rows for cell in row]

    def scale(cell: Cell | None, row: Sequence[Cell | None]) -> Scale | None:
        if cell is None or cell.view == "picture":
            return None
        make = signed_scale if cell.view == "signed" else natural_scale
        sharing = {"none": [cell], "row": row, "all": everything}[grid.share]
        return make([c.tensor for c in sharing if c is not None and c.view == cell.view], grid.reference)

    return [[scale(cell, row) for cell in row] for row in grid.rows]


def draw_cell(axes: Axes, cell: Cell, scale: Scale | None = None) -> Axes:
    """One panel. A photograph has no scale; an inverse without one is shown on its own."""
    bare(axes)
    if cell.view == "picture":
        scale = Scale(0.0, 1.0)
    if cell.view == "signed":
        view = signed_view(cell.tensor, scale)
        axes.imshow(view, cmap=SIGNED_COLOURS, vmin=0, vmax=1, interpolation="nearest")
    else:
        axes.imshow(natural_view(cell.tensor, scale), interpolation="nearest")
    if scale is not None and scale.note:  # on grey or white in every theme, hence always dark
        note = textwrap.fill(scale.note, 20)
        centred: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, note, size=7, color=LIGHT.ink, gid=FIXED, **centred)
    for mark in cell.marks:
        outline(axes, mark, cell.tensor.shape[-2:], (("black", 2.6), (ACCENT, 1.4)))  # a dark rim: seen on red
    if cell.caption:
        axes.set_xlabel(cell.caption, size=7.5, labelpad=3)
    return axes


def outline(
    axes: Axes,
    mark: tuple[float, float, float, float],
    picture: Sequence[int],
    strokes: Sequence[tuple[str, float]] = ((ACCENT, 1.2),),
) -> None:
    """A rectangle of :func:`cell_mark` on a picture of (height, width) pixels."""
    from matplotlib.patches import Rectangle

    (top, left, tall, wide), (height, width) = mark, picture
    corner = (left * width - 0.5, top * height - 0.5)
    for colour, thick in strokes:
        axes.add_patch(Rectangle(corner, wide * width, tall * height, fill=False, edgecolor=colour, linewidth=thick))


def cell_mark(coord: Sequence[int], shape: Sequence[int]) -> tuple[float, float, float, float]:
    """The part of the picture that a coordinate of a (rows, columns) map stands over."""
    (row, column), (rows, columns) = coord, shape
    return row / rows, column / columns, 1 / rows, 1 / columns


def query_marks(query: Query, node: Node, picture: Sequence[int]) -> tuple[tuple[float, float, float, float], ...]:
    """Outlines of the queried cells, for maps with rows and columns of the picture's (height, width) proportions.

    Tokens are taken for a square grid of patches after a class token where their number fits. Other token positions,
    heads, and pairs of attention's query and key have no place on the picture.
    """
    if query.coords is None or node.op in ATTENTION:
        return ()
    side = patch_side(node.coord_shape)
    if side and picture[0] == picture[1] and picture[0] % side == 0:
        patches = [at - 1 for (at,) in query.checked_coords(node) or () if at]
        return tuple(cell_mark(divmod(patch, side), (side, side)) for patch in patches)
    if len(node.coord_shape) != 2:
        return ()
    (rows, columns), (height, width) = node.coord_shape, picture
    if not 0.5 < (rows * width) / (columns * height) < 2:
        return ()
    return tuple(cell_mark(coord, node.coord_shape) for coord in query.checked_coords(node) or ())
