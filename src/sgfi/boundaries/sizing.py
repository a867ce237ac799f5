"""Maps that fit into a number of bytes: neighbouring frequencies share a matrix where maps would be largest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sgfi.boundaries.boundary import Boundary
from sgfi.errors import PlanError
from sgfi.settings import as_bytes, readable
from sgfi.spectral import Partition

FULL, SMALL = "full", "small"
SMALL_BLOCKS = 4
"""Neighbours along every axis that share a matrix in a small family: up to 16 times fewer matrices."""


def sized(boundaries: Mapping[str, Boundary], size: int | str) -> dict[str, Boundary]:
    """The fitted boundaries with coarser partitions: ``"full"`` as they are, ``"small"``, or a budget in bytes.

    A budget is met by doubling the blocks of whichever node holds most, so that the largest matrices, deep in a
    network, are tied first. Law: a larger budget never makes a partition coarser.
    """
    if size == FULL:
        return dict(boundaries)
    tied = {name: each for name, each in boundaries.items() if each.partition.kind != "singleton"}
    if tied:
        name, each = next(iter(tied.items()))
        got = f"a {each.partition.kind} partition of {name!r} beside size={size!r}"
        raise PlanError("a size or partitions, not both", got, "Leave one of them out.")
    if size == SMALL:
        return {name: _coarser(each, SMALL_BLOCKS) for name, each in boundaries.items()}
    return _within(boundaries, as_bytes(size, PlanError))


def _within(boundaries: Mapping[str, Boundary], budget: int) -> dict[str, Boundary]:
    chosen, widths = dict(boundaries), dict.fromkeys(boundaries, 1)
    while sum(each.map_bytes for each in chosen.values()) > budget:
        open_to = [name for name, each in chosen.items() if each.partition.count > 1]
        if not open_to:
            least = readable(sum(each.map_bytes for each in chosen.values()))
            todo = "Allow more, choose fewer boundaries or another operator."
            raise PlanError(f"a size of at least {least} for these boundaries", readable(budget), todo)
        name = max(open_to, key=lambda each: chosen[each].map_bytes)
        widths[name] *= 2
        chosen[name] = _coarser(boundaries[name], widths[name])
    return chosen


def _coarser(boundary: Boundary, width: int) -> Boundary:
    """Blocks of ``width`` neighbours; one matrix for all bins once blocks are as wide as the tensor."""
    basis = boundary.basis
    choice = "shared" if width >= max(basis.coords, default=1) and width > SMALL_BLOCKS else f"blocks{width}"
    partition = Partition.of(choice, basis.bins, boundary.name, basis.blocks)
    return replace(boundary, partition=partition) if partition.count < boundary.partition.count else boundary
