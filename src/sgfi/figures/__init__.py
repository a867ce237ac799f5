"""Figures of feature inverses. Every function returns a matplotlib figure; none shows it."""

from __future__ import annotations

from sgfi.figures.atlases import (
    Look,
    channel_grid,
    channel_groups,
    coordinate_grid,
    depth_ladder,
    image_grid,
    stage_comparison,
    stage_ladder,
    zero_target,
)
from sgfi.figures.dag import boundary_dag
from sgfi.figures.grids import Cell, Grid, draw_grid
from sgfi.figures.style import DARK, LIGHT, png, save_figure

__all__ = [
    "DARK",
    "LIGHT",
    "Cell",
    "Grid",
    "Look",
    "boundary_dag",
    "channel_grid",
    "channel_groups",
    "coordinate_grid",
    "depth_ladder",
    "draw_grid",
    "image_grid",
    "png",
    "save_figure",
    "stage_comparison",
    "stage_ladder",
    "zero_target",
]
