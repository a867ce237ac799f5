"""Figures of coordinate queries: the complete query atlas, support matrices, inverses beside token interventions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from sgfi.decisions.coordinates import MEASURES, CoordGrid, coord_grid, query_all
from sgfi.decisions.patches import CellOutcome, CoordinateStudy
from sgfi.errors import QueryError
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.display import Scale, natural_scale, natural_view, signed_view
from sgfi.figures.grids import SIGNED_COLOURS, Cell, cell_mark, draw_cell, outline
from sgfi.figures.style import LIGHT, bare, frame, new_figure
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BRANCHES = (
    "Inverse panels are descriptive input-domain views; what a cell does to the decision is the separately measured "
    "margin drop when its vector is zeroed in the original representation. No inverse is fed back to the model."
)
SIGNED = "Inverses: mean over colours, symmetric at the 99th percentile of each one's own magnitude; white is zero."
LABELS = {"self_mass": "self", "entropy": "entropy", "radius": "radius", "local_mass": "3x3"}


def query_atlas(
    estimator: Estimator,
    x: torch.Tensor,
    depths: Sequence[str],
    *,
    prefix: int | None = None,
    chunk: int | None = None,
    title: str = "",
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """The source of one input, then at each depth every cell's inverse at its cell's place."""
    boards = []
    for node in map(estimator.node, depths):
        grid = coord_grid(node, x.shape[-2:], prefix)
        boards.append((node, grid, mosaic(query_all(estimator, x, grid, chunk=chunk), grid)))
    side = 3.6
    figure = new_figure(side * (len(boards) + 0.5) + 0.4, side + 0.85)
    width, height = figure.get_size_inches()
    box = (0.1 / width, 0.4 / height + side / 4 / height, 0.46 * side / width, 0.46 * side / height)
    draw_cell(figure.add_axes(box), source_cell(x[0], preprocessing)).set_title("source", size=8.5)
    for column, (node, grid, board) in enumerate(boards):
        left = (0.1 + side * (0.5 + column)) / width
        axes = bare(figure.add_axes((left, 0.4 / height, 0.96 * side / width, 0.96 * side / height)))
        axes.imshow(board, cmap=SIGNED_COLOURS, vmin=0, vmax=1, interpolation="antialiased")
        cells = f"{grid.shape[0]}x{grid.shape[1]} queries"
        axes.set_title(f"{depth_name(node)} ({shape_name(node)}), {cells}", size=8.5)
    total = sum(grid.cells for _, grid, _ in boards)
    frame(figure, title or f"All {total} coordinate queries of one input, one estimator", SIGNED)
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
    shown = [depth for depth in study.depths if depth.supports]
    if not shown:
        raise QueryError("a study with inversions", "one without", "Run it with inversions=True.")
    figure = new_figure(3.1 * len(shown) + 0.5, 4.6)
    grid = figure.add_gridspec(1, len(shown), left=0.06, right=0.955, top=0.87, bottom=0.35, wspace=0.38)
    for column, depth in enumerate(shown):
        axes = figure.add_subplot(grid[0, column])
        image = axes.imshow(depth.matrix, cmap="viridis", vmin=0, interpolation="nearest")
        axes.set_title(depth.node, size=8.5)
        axes.tick_params(labelsize=6.5, length=2)
        axes.set_xlabel("input cell r", size=7.5)
        axes.set_ylabel("query q" if column == 0 else "", size=7.5)
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
        bar.ax.tick_params(labelsize=6)
        summary = study.support(depth)
        lines = [f"{LABELS[name]} {summary[name]}" for name in MEASURES if name in summary]
        axes.text(0.5, -0.22, "\n".join(lines), size=6.8, ha="center", va="top", transform=axes.transAxes)
    foot = "Share of the inverse's magnitude per input cell; mean over images, 95 % image-bootstrap intervals. Where a "
    foot += "coordinate-selected inverse is expressed; not attention, attribution or causal importance."
    frame(figure, title or f"Support of coordinate queries, {len(study.names)} images", foot)
    return figure


def cell_decisions(
    estimator: Estimator,
    x: torch.Tensor,
    study: CoordinateStudy,
    node: str,
    *,
    images: Sequence[int] = (0,),
    title: str = "",
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row per image: source, exact margin drop of every cell, inverses of the score-top, -counter and random cell.

    ``x`` are the inputs of the study, ``images`` which of them to show.
    """
    name = estimator.graph.nodes.canonical(node)
    outcome = next((depth for depth in study.depths if depth.node == name), None)
    if outcome is None or not outcome.drops.size:
        raise QueryError("a depth of the study with interventions", repr(node), "Choose another or run it again.")
    side, gap = 1.55, 0.08
    figure = new_figure(5 * (side + gap) + 0.7, len(images) * (side + gap) + 0.95)
    width, height = figure.get_size_inches()
    heads = ("source", "margin drop", "score-top inverse", "score-counter inverse", "random-cell inverse")
    for row, image in enumerate(images):
        inverses = query_all(estimator, x[image : image + 1], outcome.grid)
        bottom = (height - 0.5 - (row + 1) * (side + gap)) / height
        boxes = [((0.1 + c * (side + gap)) / width, bottom, side / width, side / height) for c in range(5)]
        panels = [bare(figure.add_axes(box)) for box in boxes]
        source = source_cell(x[image], preprocessing)
        draw_cell(panels[0], source)
        _overlay(figure, panels[1], source, outcome, image)
        for axes, which in zip(panels[2:], ("top", "counter", "random"), strict=True):
            cell = outcome.picked(which, image)
            draw_cell(axes, Cell(inverses[cell], "signed"))
            outline(axes, cell_mark(divmod(cell, outcome.grid.shape[1]), outcome.grid.shape), x.shape[-2:])
            drop = outcome.drops[image, cell]
            axes.text(0.03, 0.03, f"drop {drop:+.2f}", size=6.5, transform=axes.transAxes, gid="fixed", color=LIGHT.ink)
        if row == 0:
            for axes, head in zip(panels, heads, strict=True):
                axes.set_title(head, size=7.5)
    frame(
        figure,
        title or f"Cells of {depth_name(estimator.node(name))}: inverses beside interventions",
        f"{BRANCHES} {SIGNED}",
    )
    return figure


def _overlay(figure: Figure, axes: Axes, source: Cell, outcome: CellOutcome, image: int) -> None:
    """Drops of every cell over the greyed source, zero transparent white."""
    scale = Scale(0.0, 1.0) if source.view == "picture" else natural_scale([source.tensor])
    grey = natural_view(source.tensor, scale).mean(axis=2)
    height, width = grey.shape
    axes.imshow(grey, cmap="gray", vmin=-0.6, vmax=1, interpolation="nearest")
    drops = outcome.drops[image].reshape(outcome.grid.shape)
    limit = float(np.abs(drops).max()) or 1.0
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    overlay = axes.imshow(
        drops, cmap=SIGNED_COLOURS, vmin=-limit, vmax=limit, alpha=0.62, extent=extent, interpolation="nearest"
    )
    bar = figure.colorbar(overlay, cax=axes.inset_axes((0.04, 0.04, 0.92, 0.045)), orientation="horizontal")
    bar.ax.tick_params(labelsize=5, length=1.5, pad=0.6)
    bar.ax.xaxis.set_ticks_position("top")
