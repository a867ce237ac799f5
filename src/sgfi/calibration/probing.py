"""A cheap look at a node before it is fitted: some groups of bins, the first map on true children, held-out samples.

Bins are drawn evenly over the held-out energy of the node's state, so that the mean of their missed shares estimates
that of the whole state. A matrix is solved for the groups of these bins alone, with all bins of these groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, Plan
from sgfi.calibration.passes import solve_node
from sgfi.derivatives import Linearisation
from sgfi.graph import TensorGraph
from sgfi.inversion.update import Seed, source
from sgfi.spectral import Moments, MomentShape, Partition
from sgfi.spectral.moments import FLOOR

MOST_BINS = 12
"""Looked at in a node."""
MOST_BYTES = 256 << 20
"""Of the sums of a node's groups, unless a single one takes more."""


def first_sources(
    plan: Plan, graph: TensorGraph, x: Tensor, names: Sequence[str], seed: Seed
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """At each node the source of its first map on true children, and its state: (B, ...) both."""
    frontiers = {name: plan.children(name) for name in names}
    point = Linearisation(graph, frontiers, x)
    for name, children in frontiers.items():
        states = [point.values[child] for child in children]
        seeds = [seed(state, plan.boundary[child]) for state, child in zip(states, children, strict=True)]
        yield name, source(point.at(name), states, seeds, None), point.values[name]
        point.release(name)


def drawn_bins(boundary: Boundary, states: Tensor) -> Tensor:
    """Bins of a node, evenly over the energy of its states ``(B, ...)``; strong ones several times."""
    spectrum = boundary.basis.analyse(states)
    shares = spectrum.abs().square().sum((1, 2)).double().cpu().cumsum(0)
    sums = 2 * boundary.channels * boundary.width * spectrum.element_size()
    count = max(1, min(MOST_BINS, len(shares), MOST_BYTES // sums))
    steps = (torch.arange(count, dtype=torch.float64) + 0.5) / count * shares[-1]
    return torch.searchsorted(shares, steps).clamp(max=len(shares) - 1)


class Probe:
    """The sums of the groups that hold some bins of a node, and what their map misses of held-out samples there."""

    def __init__(self, boundary: Boundary, bins: Tensor, held: tuple[Tensor, Tensor]) -> None:
        """``held`` are sources and states ``(B, ...)`` of samples that are not added."""
        self.boundary, whole = boundary, boundary.partition.groups
        ids = torch.unique(whole[bins])
        self._bins = torch.isin(whole, ids).nonzero().squeeze(1)
        self._partition = _renumbered(whole[self._bins], ids)
        spectra = boundary.reads(held[0]), boundary.basis.analyse(held[1])
        self._held, self._held_partition = [part[bins] for part in spectra], _renumbered(whole[bins], ids)
        shape = MomentShape(boundary.channels, boundary.width, boundary.operator.full)
        dtype, device = spectra[0].dtype, spectra[0].device
        self._moments = Moments.empty(self._partition, shape, dtype, device=device)
        self._energy = torch.zeros_like(self._moments.energy)

    def add(self, source: Tensor, state: Tensor) -> None:
        """Samples to fit: (B, ...) both."""
        x, y = self.boundary.reads(source), self.boundary.basis.analyse(state)
        self._energy += torch.linalg.vector_norm(torch.view_as_real(x) if x.is_complex() else x).square()
        self._moments.update(x[self._bins], y[self._bins])

    @property
    def samples(self) -> int:
        return self._moments.count

    def missed(self, ridge: float) -> float:
        """The share of the held-out states' energy that the map of the samples so far misses at the drawn bins."""
        moments, (x, y) = self._moments, self._held
        moments.energy.copy_(self._energy * len(self._bins) / self.boundary.partition.bins)  # the ridge is the node's
        solution = solve_node(self.boundary, moments, ridge)
        if self.boundary.operator.causal:  # which reads positions: x is what it has read
            predicted = solution.weights["gain"][self._held_partition.groups] @ x
        else:
            predicted = self.boundary.operator.apply(solution.weights, x, self._held_partition)
        missed, energy = ((part.abs().square().sum((1, 2)).double()) for part in (y - predicted, y))
        return float((missed / energy.clamp(min=FLOOR)).mean())


def _renumbered(groups: Tensor, ids: Tensor) -> Partition:
    return Partition("custom", torch.searchsorted(ids, groups))
