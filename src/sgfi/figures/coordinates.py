"""Figures of coordinate queries: the complete query atlas, support matrices, inverses beside token interventions."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sgfi.decisions.coordinates import MEASURES, CoordGrid, coord_grid, query_all
from sgfi.decisions.patches import CellOutcome, CoordinateStudy
from sgfi.errors import QueryError
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.display import Scale, natural_scale, natural_view, signed_view
from sgfi.figures.grids import SIGNED_COLOURS, cell_mark
from sgfi.figures.style import ACCENT, FAINT, LIGHT, new_figure
from sgfi.inputs.preprocessing import Preprocessing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BRANCHES = (
    "Inverse panels are descriptive input-domain views; what a cell does to the decision is the separately measured "
    "margin drop when its vector is zeroed in the original representation. No inverse is fed back to the model."
)
SIGNED = "Inverses: mean over colours, symmetric at the 99th percentile of each one's own magnitude; white is zero."
LABELS = {"self_mass": "self", "entropy": "entropy", "radius": "radius", "local_mass": "3x3"}


def query_atlas(
    family: Any,
    x: torch.Tensor,
    depths: Sequence[str],
    *,
    prefix: int | None = None,
    chunk: int | None = None,
    title: str = "",
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """The source of one input, then at each depth every cell's inverse at its cell's place."""
    plan = family.plan
    boards = []
    for name in depths:
        grid = coord_grid(plan.boundary[plan.graph.nodes.canonical(name)].node, x.shape[-2:], prefix)
        boards.append((name, grid, mosaic(query_all(family, x, grid, chunk=chunk), grid)))
    side = 3.6
    figure = new_figure(side * (len(boards) + 0.5) + 0.4, side + 0.85)
    width, height = figure.get_size_inches()
    axes = _panel(figure, (0.1 / width, 0.4 / height + side / 4 / height, 0.46 * side / width, 0.46 * side / height))
    _source(axes, x[0], preprocessing)
    axes.set_title("source", size=8.5)
    for place, (name, grid, board) in enumerate(boards):
        left = (0.1 + side * (0.5 + place)) / width
        axes = _panel(figure, (left, 0.4 / height, 0.96 * side / width, 0.96 * side / height))
        axes.imshow(board, cmap=SIGNED_COLOURS, vmin=0, vmax=1, interpolation="antialiased")
        cells = f"{grid.shape[0]}x{grid.shape[1]} queries"
        axes.set_title(f"{depth_name(plan, name)} ({shape_name(plan, name)}), {cells}", size=8.5)
    total = sum(grid.cells for _, grid, _ in boards)
    _frame(figure, title or f"All {total} coordinate queries of one input, one map family", SIGNED)
    return figure


def mosaic(inverses: torch.Tensor, grid: CoordGrid, gap: int = 2) -> np.ndarray:
    """(Q, C, H, W) -> one board with every inverse at its cell's place, 0..1, 0.5 for zero; gaps are NaN (blank)."""
    rows, columns = grid.shape
    height, width = inverses.shape[-2:]
    board = np.full((rows * (height + gap) - gap, columns * (width + gap) - gap), np.nan)
    for q, inverse in enumerate(inverses):
        top, left = (at * (length + gap) for at, length in zip(divmod(q, columns), (height, width), strict=True))
        board[top : top + height, left : left + width] = signed_view(inverse)
    return board


def support_matrices(study: CoordinateStudy, *, title: str = "") -> Figure:
    """The support matrix of every depth, averaged over images, with its summaries."""
    shown = [one for one in study.depths if one.supports]
    if not shown:
        raise QueryError("a study with inversions", "one without", "Run it with inversions=True.")
    figure = new_figure(3.1 * len(shown) + 0.5, 4.2)
    grid = figure.add_gridspec(1, len(shown), left=0.06, right=0.955, top=0.84, bottom=0.27, wspace=0.38)
    for place, one in enumerate(shown):
        axes = figure.add_subplot(grid[0, place])
        drawn = axes.imshow(one.matrix, cmap="viridis", vmin=0, interpolation="nearest")
        axes.set_title(one.node, size=8.5)
        axes.tick_params(labelsize=6.5, length=2)
        axes.set_xlabel("input cell r", size=7.5)
        axes.set_ylabel("query q" if place == 0 else "", size=7.5)
        bar = figure.colorbar(drawn, ax=axes, fraction=0.046, pad=0.03)
        bar.ax.tick_params(labelsize=6)
        found = study.support(one)
        said = [f"{LABELS[name]} {found[name]}" for name in MEASURES if name in found]
        axes.text(0.5, -0.22, "\n".join(said), size=6.8, ha="center", va="top", transform=axes.transAxes)
    foot = "Share of the inverse's magnitude per input cell; mean over images, 95 % image-bootstrap intervals. Where a "
    foot += "coordinate-selected inverse is expressed; not attention, attribution or causal importance."
    _frame(figure, title or f"Support of coordinate queries, {len(study.names)} images", foot)
    return figure


def cell_decisions(
    family: Any,
    x: torch.Tensor,
    study: CoordinateStudy,
    node: str,
    *,
    images: Sequence[int] = (0,),
    title: str = "",
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an image: source, exact margin drop of every cell, inverses of the score-top, -counter and random cell.

    ``x`` are the inputs of the study, ``images`` which of them to show.
    """
    name = family.plan.graph.nodes.canonical(node)
    one = next((depth for depth in study.depths if depth.node == name), None)
    if one is None or not one.drops.size:
        raise QueryError("a depth of the study with interventions", repr(node), "Choose another or run it again.")
    side, gap = 1.55, 0.08
    figure = new_figure(5 * (side + gap) + 0.7, len(images) * (side + gap) + 0.95)
    width, height = figure.get_size_inches()
    heads = ("source", "margin drop", "score-top inverse", "score-counter inverse", "random-cell inverse")
    for row, image in enumerate(images):
        found = query_all(family, x[image : image + 1], one.grid)
        bottom = (height - 0.5 - (row + 1) * (side + gap)) / height
        panels = [
            _panel(figure, ((0.1 + c * (side + gap)) / width, bottom, side / width, side / height)) for c in range(5)
        ]
        _source(panels[0], x[image], preprocessing)
        _overlay(figure, panels[1], x[image], one, image, preprocessing)
        for axes, which in zip(panels[2:], ("top", "counter", "random"), strict=True):
            cell = one.picked(which, image)
            axes.imshow(signed_view(found[cell]), cmap=SIGNED_COLOURS, vmin=0, vmax=1, interpolation="nearest")
            _outline(axes, cell, one.grid, x.shape[-2:])
            drop = one.drops[image, cell]
            axes.text(0.03, 0.03, f"drop {drop:+.2f}", size=6.5, transform=axes.transAxes, gid="fixed", color=LIGHT.ink)
        if row == 0:
            for axes, head in zip(panels, heads, strict=True):
                axes.set_title(head, size=7.5)
    shown = depth_name(family.plan, name)
    _frame(figure, title or f"Cells of {shown}: inverses beside interventions", f"{BRANCHES} {SIGNED}")
    return figure


def _overlay(
    figure: Figure, axes: Any, x: torch.Tensor, one: CellOutcome, image: int, preprocessing: Preprocessing | None
) -> None:
    """Drops of every cell over the greyed source, zero transparent white."""
    cell = source_cell(x, preprocessing)
    scale = Scale(0.0, 1.0) if cell.view == "picture" else natural_scale([cell.tensor])
    grey = natural_view(cell.tensor, scale).mean(axis=2)
    height, width = grey.shape
    axes.imshow(grey, cmap="gray", vmin=-0.6, vmax=1, interpolation="nearest")
    drops = one.drops[image].reshape(one.grid.shape)
    limit = float(np.abs(drops).max()) or 1.0
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    drawn = axes.imshow(
        drops, cmap=SIGNED_COLOURS, vmin=-limit, vmax=limit, alpha=0.62, extent=extent, interpolation="nearest"
    )
    bar = figure.colorbar(drawn, cax=axes.inset_axes((0.04, 0.04, 0.92, 0.045)), orientation="horizontal")
    bar.ax.tick_params(labelsize=5, length=1.5, pad=0.6)
    bar.ax.xaxis.set_ticks_position("top")


def _outline(axes: Any, cell: int, grid: CoordGrid, picture: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    top, left, tall, wide = cell_mark(divmod(cell, grid.shape[1]), grid.shape)
    height, width = picture
    corner = (left * width - 0.5, top * height - 0.5)
    axes.add_patch(Rectangle(corner, wide * width, tall * height, fill=False, edgecolor=ACCENT, linewidth=1.2))


def _source(axes: Any, x: torch.Tensor, preprocessing: Preprocessing | None) -> None:
    cell = source_cell(x, preprocessing)
    scale = Scale(0.0, 1.0) if cell.view == "picture" else natural_scale([cell.tensor])
    axes.imshow(natural_view(cell.tensor, scale), interpolation="nearest")


def _panel(figure: Figure, box: tuple[float, float, float, float]) -> Any:
    axes = figure.add_axes(box)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _frame(figure: Figure, title: str, foot: str) -> None:
    width, height = figure.get_size_inches()
    figure.text(0.1 / width, 1 - 0.08 / height, title, size=10, weight="bold", va="top")
    said = textwrap.fill(foot, int(width * 19))
    figure.text(0.1 / width, 0.05 / height, said, size=6.6, va="bottom", gid=FAINT)
