"""What a report asks: the same queries of every estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sgfi.figures.atlases import spread_coords
from sgfi.inversion import Estimator, Query

COUNT = 7
"""Channels, and cells, of one tensor: with the photograph two rows of four."""
FINE = 8
"""Rows and columns from which on single cells are worth a look."""


@dataclass(frozen=True)
class Questions:
    """Chosen on the first input, asked of all."""

    targets: list[str]
    """Shallow to deep: whole tensors."""
    channels: list[Query]
    """Of one tensor half-way down: the strongest on the first input."""
    cells: list[Query]
    """Of the deepest of the targets that still has a fine grid; of a sequence, positions of the middle tensor."""
    trust: list[Query]
    """What is shown with its controls: the caller's queries, else a cell, a channel half-way down and a channel of the
    deepest tensor."""

    @classmethod
    def of(
        cls,
        estimator: Estimator,
        x: Tensor,
        targets: Sequence[str],
        own: Sequence[Query] = (),
        count: int = COUNT,
    ) -> Questions:
        """``targets``: tensors from shallow to deep; ``own``: the caller's queries."""
        middle = targets[len(targets) // 2]
        grid = coordinate_target(estimator, targets, len(x.shape) == 4)
        channels = [Query(middle, (channel,)) for channel in strongest(estimator, x, middle, count)]
        shape = estimator.node(grid).coord_shape
        cells = [Query(grid, None, (cell,)) for cell in spread_coords(shape, count)] if shape else []
        deepest = Query(targets[-1], tuple(strongest(estimator, x, targets[-1], 1)))
        chosen = [*cells[len(cells) // 2 : len(cells) // 2 + 1], channels[0], deepest]
        return cls(list(targets), channels, cells, list(own) or list(dict.fromkeys(chosen)))


def strongest(estimator: Estimator, x: Tensor, target: str, count: int) -> list[int]:
    """The channels that registered most of the first input."""
    energy = estimator.state(x[:1], target).square().sum([0, *estimator.node(target).coord_axes])
    return [int(channel) for channel in energy.topk(min(count, len(energy))).indices]


def coordinate_target(estimator: Estimator, targets: Sequence[str], picture: bool = True) -> str:
    """The deepest target whose map still has at least 8 x 8 cells, else the deepest; of a sequence, the middle one."""
    if not picture:
        return targets[len(targets) // 2]
    for name in reversed(targets):
        shape = estimator.node(name).coord_shape
        if len(shape) == 2 and min(shape) >= FINE:
            return name
    return next((name for name in reversed(targets) if estimator.node(name).coord_shape), targets[-1])
