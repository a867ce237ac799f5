"""Every coordinate of a target as a query of its own, and where in the input its inverse is.

The support matrix shows where a coordinate-selected inverse is expressed; it is not attention, attribution or causal
importance. What a coordinate does to the decision is measured separately, by editing the original representation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.decisions.interventions import Edit, Effects, intervene
from sgfi.decisions.ranking import Contribution
from sgfi.decisions.readout import Split
from sgfi.errors import QueryError
from sgfi.evaluation.statistics import Interval, bootstrap
from sgfi.graph import Node
from sgfi.inversion import Estimator, Query, sweep

MEASURES = ("self_mass", "entropy", "radius", "local_mass")


@dataclass(frozen=True)
class CoordGrid:
    """The coordinates of a tensor laid out as rows and columns over the picture.

    ``coords[q]`` is the coordinate of cell ``divmod(q, columns)``: a pair for a map, an integer for a token. Prefix
    tokens (class, distillation, registers) come before the grid and are not cells of it.
    """

    node: str
    shape: tuple[int, int]
    prefix: int = 0
    tokens: bool = False

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def coords(self) -> list[tuple[int, ...]]:
        if self.tokens:
            return [(self.prefix + q,) for q in range(self.cells)]
        return [divmod(q, self.shape[1]) for q in range(self.cells)]

    def distances(self) -> Tensor:
        """(Q, Q) Euclidean distance between cells in units of cells."""
        cells = self._cells.double()
        return torch.cdist(cells, cells)

    def neighbours(self) -> Tensor:
        """(Q, Q) bool: within the 3x3 block around a cell, the cell itself included."""
        return (self._cells[:, None] - self._cells).abs().amax(-1) <= 1

    @property
    def _cells(self) -> Tensor:
        """(Q, 2) row and column of every cell."""
        return torch.cartesian_prod(*map(torch.arange, self.shape))


def coord_grid(node: Node, picture: Sequence[int], prefix: int | None = None) -> CoordGrid:
    """Rows and columns of a tensor over a picture of (height, width).

    Maps with two coordinate axes are their own grid. A token axis is a grid of square patches, as fine as the tokens
    allow, behind ``prefix`` other tokens; without ``prefix`` their number follows from the picture's size.
    """
    if len(node.coord_axes) == 2:
        rows, columns = node.coord_shape
        return CoordGrid(node.name, (rows, columns))
    if len(node.coord_axes) != 1:
        raise QueryError(
            "a target with one token axis or with rows and columns",
            f"{node.name!r} with coordinate axes {node.coord_axes}",
            "Choose another target.",
        )
    (tokens,) = node.coord_shape
    height, width = picture
    patches = [p for p in range(1, math.gcd(height, width) + 1) if height % p == 0 and width % p == 0]
    grids = [(height // p, width // p) for p in patches]
    fitting = [g for g in grids if (g[0] * g[1] == tokens - prefix if prefix is not None else g[0] * g[1] <= tokens)]
    if not fitting:
        raise QueryError(
            f"{tokens} tokens of {node.name!r} as a grid of square patches of a {height}x{width} picture",
            f"prefix {prefix}",
            "Give the number of tokens before the patches with prefix=...",
        )
    rows, columns = max(fitting, key=lambda g: g[0] * g[1])
    return CoordGrid(node.name, (rows, columns), tokens - rows * columns, tokens=True)


def query_all(
    estimator: Estimator,
    x: Tensor,
    grid: CoordGrid,
    *,
    channels: Sequence[int] | None = None,
    stage: str = "final",
    chunk: int | None = None,
) -> Tensor:
    """Inverses of every cell of one input, (Q, C, H, W). One sweep: forward and linearisation are shared.

    ``chunk`` limits how many queries are stacked at a time, where memory is short.
    """
    if len(x) != 1:
        raise QueryError("one input", str(len(x)), "Pass x[i : i + 1].")
    coords = grid.coords
    size = chunk or len(coords)
    values = []
    for start in range(0, len(coords), size):
        queries = [Query(grid.node, channels, [coord]) for coord in coords[start : start + size]]
        values += [inverse.value[0] for inverse in sweep(estimator, x, queries, stage=stage)]
    return torch.stack(values)


def patch_mass(inverse: Tensor, shape: tuple[int, int]) -> Tensor:
    """``M_r``: channel L2 magnitude of every pixel, summed inside each input cell. (..., C, H, W) -> (..., R).

    Where the picture does not divide evenly, a pixel belongs to the cell its position falls into.
    """
    magnitude = inverse.double().norm(dim=-3)  # (..., H, W)
    height, width = magnitude.shape[-2:]
    down = torch.arange(height) * shape[0] // height
    across = torch.arange(width) * shape[1] // width
    cell = (down[:, None] * shape[1] + across).flatten().to(inverse.device)  # (H*W,)
    flat = magnitude.flatten(-2)
    empty = flat.new_zeros(*flat.shape[:-1], shape[0] * shape[1])
    return empty.index_add(-1, cell, flat)


@dataclass(frozen=True, eq=False)
class Support:
    """``A_l(q, r)``: share of the inverse of query q that is in input cell r."""

    matrix: Tensor
    """(Q, R) float64; rows sum to one. A query whose inverse is zero has a row of zeros."""
    grid: CoordGrid

    def measures(self) -> dict[str, float]:
        """Means over the queries: self mass; entropy over log R; expected distance over the greatest distance in the
        grid; mass of the 3x3 neighbourhood. A zero inverse has none of them and is left out."""
        alive = self.matrix.sum(1) > 0
        matrix = self.matrix[alive]
        if not alive.any():
            return dict.fromkeys(MEASURES, math.nan)
        distances = self.grid.distances()
        spread = distances / distances.max().clamp_min(torch.finfo(torch.float64).tiny)
        entropy = -torch.special.xlogy(matrix, matrix).sum(1) / max(math.log(self.grid.cells), 1e-300)
        return {
            "self_mass": float(self.matrix.diagonal()[alive].mean()),
            "entropy": float(entropy.mean()),
            "radius": float((matrix * spread[alive]).sum(1).mean()),
            "local_mass": float((matrix * self.grid.neighbours()[alive]).sum(1).mean()),
        }


def support(inverses: Tensor, grid: CoordGrid) -> Support:
    """The support matrix of one input's queries (Q, C, H, W); eq:vit_patch_support."""
    mass = patch_mass(inverses, grid.shape)
    total = mass.sum(-1, keepdim=True)
    return Support(torch.where(total > 0, mass / total.clamp_min(torch.finfo(torch.float64).tiny), 0.0), grid)


def summarise(supports: Sequence[Support], **options: Any) -> dict[str, Interval]:
    """Every measure with its interval over images."""
    measures = [support.measures() for support in supports]
    values = {name: [row[name] for row in measures if not math.isnan(row[name])] for name in MEASURES}
    return {name: bootstrap(rows, **options) for name, rows in values.items() if rows}


def intervene_all(split: Split, grid: CoordGrid, value: Tensor | float = 0.0) -> Effects:
    """Every cell's vector replaced on its own in the original representation: effects (Q, B)."""
    return intervene(split, [Edit(coords=[coord]) for coord in grid.coords], value)


def cell_scores(contribution: Contribution, grid: CoordGrid) -> Tensor:
    """(B, Q) activation times gradient of every cell, prefix tokens left out."""
    return contribution.coords.flatten(1)[:, grid.prefix : grid.prefix + grid.cells]
