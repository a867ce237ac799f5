"""Figures of feature inverses. Every function returns a matplotlib figure; none shows it."""

from __future__ import annotations

from typing import NoReturn

from sgfi.figures.atlases import (
    Look,
    channel_grid,
    channel_groups,
    coordinate_grid,
    depth_ladder,
    direction_grid,
    image_grid,
    stage_comparison,
    stage_ladder,
    zero_target,
)
from sgfi.figures.crossings import family_plate, interpolation_strip, swap_strip
from sgfi.figures.grids import Cell, Grid, draw_grid
from sgfi.figures.style import DARK, LIGHT, png, save_figure

__all__ = [
    "DARK",
    "LIGHT",
    "Cell",
    "Grid",
    "Look",
    "channel_grid",
    "channel_groups",
    "coordinate_grid",
    "depth_ladder",
    "direction_grid",
    "draw_grid",
    "family_plate",
    "image_grid",
    "interpolation_strip",
    "png",
    "save_figure",
    "stage_comparison",
    "stage_ladder",
    "swap_strip",
    "zero_target",
]


def __getattr__(name: str) -> NoReturn:
    hint = ": the boundary DAG is drawn by plan.draw('dag.svg')" if name == "boundary_dag" else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
