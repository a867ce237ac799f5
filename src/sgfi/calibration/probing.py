"""A cheap look at a node before it is fitted: some groups of bins, the first map on true children, held-out samples.

Bins are drawn evenly over the held-out energy of the node's state, so that the mean of their missed shares estimates
that of the whole state. A matrix is solved for the groups of these bins alone, with all bins of these groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.passes import solve_node
from sgfi.calibration.splits import HELD_OUT
from sgfi.derivatives import Linearisation
from sgfi.graph import TensorGraph
from sgfi.inversion.update import Seed, source
from sgfi.spectral import Moments, MomentShape, Partition
from sgfi.spectral.moments import FLOOR
from sgfi.spectral.precision import wide

MOST_HELD_OUT = 64
MOST_BINS = 12
"""Looked at in a node."""
MOST_BYTES = 256 << 20
"""Of the sums of a node's groups, unless a single one takes more."""


Spectra = Iterable[tuple[str, Tensor, Tensor]]
"""Node, sources ``(F, W, B)``, states ``(F, C, B)``."""


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


@dataclass(frozen=True)
class HeldOut:
    """Every eighth sample, at most 64, counted over all batches: these judge, the others fit."""

    plan: Plan
    data: Batches
    seed: Seed

    @cached_property
    def numbers(self) -> frozenset[int]:
        step = max(HELD_OUT, -(-self.data.samples // MOST_HELD_OUT))
        return frozenset(range(step - 1, self.data.samples, step))

    @property
    def fitting(self) -> int:
        """Samples that are not held out."""
        return self.data.samples - len(self.numbers)

    def judging(self, names: Sequence[str]) -> dict[str, tuple[Tensor, Tensor]]:
        """At each node the sources and states of all held-out samples."""
        parts: dict[str, list[tuple[Tensor, Tensor]]] = {}
        for batch_index, x in self.data:
            rows, _ = self._rows(batch_index)
            if not rows:
                continue
            x, rows = (x, rows) if self.data.graph.side_values else (x[rows], [*range(len(rows))])
            for name, observed, state in first_sources(self.plan, self.data.graph, x, names, self.seed):
                parts.setdefault(name, []).append((observed[rows], state[rows]))
        return {name: tuple(map(torch.cat, zip(*pairs, strict=True))) for name, pairs in parts.items()}  # type: ignore[misc]

    def batches(self, names: Sequence[str], counts: Collection[int] = ()) -> Iterator[tuple[int, Spectra]]:
        """Spectra of the other samples at each node, batch by batch, cut where a count is reached."""
        taken = 0
        for batch_index, x in self.data:
            _, rows = self._rows(batch_index)
            made = list(first_sources(self.plan, self.data.graph, x, names, self.seed)) if rows else []
            while rows:
                room = min((count - taken for count in counts if count > taken), default=len(rows))
                now, rows = rows[:room], rows[room:]
                taken += len(now)
                yield batch_index, ((name, *_spectra(self.plan.boundary[name], s[now], h[now])) for name, s, h in made)

    def _rows(self, batch_index: int) -> tuple[list[int], list[int]]:
        """Rows of a batch that are held out, and the others."""
        sizes = self.data.sizes
        start, rows = sum(sizes[:batch_index]), range(sizes[batch_index])
        held = [row for row in rows if start + row in self.numbers]
        return held, [row for row in rows if start + row not in self.numbers]


def _spectra(boundary: Boundary, source: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    return boundary.reads(source), boundary.basis.analyse(state)


def _energy(spectrum: Tensor) -> Tensor:
    """(F,) of every bin."""
    energy = spectrum.abs().square().sum((1, 2))
    return energy.to(wide(energy.dtype, energy.device))


def drawn_bins(boundary: Boundary, states: Tensor) -> Tensor:
    """Bins of a node, evenly over the energy of its states ``(B, ...)``; strong ones several times."""
    spectrum = boundary.basis.analyse(states)
    shares = _energy(spectrum).cpu().cumsum(0)
    sums = 2 * boundary.channels * boundary.width * spectrum.element_size()
    count = max(1, min(MOST_BINS, len(shares), MOST_BYTES // sums))
    steps = (torch.arange(count, dtype=shares.dtype) + 0.5) / count * shares[-1]
    return torch.searchsorted(shares, steps).clamp(max=len(shares) - 1)


class Probe:
    """The sums of the groups that hold some bins of a node, and what their map misses of held-out samples there."""

    def __init__(self, boundary: Boundary, bins: Tensor, held: tuple[Tensor, Tensor]) -> None:
        """``held`` are sources and states ``(B, ...)`` of samples that are not added."""
        self.boundary, whole = boundary, boundary.partition.groups
        ids = torch.unique(whole[bins])
        self._bins = torch.isin(whole, ids).nonzero().squeeze(1)
        self._partition = _renumbered(whole[self._bins], ids)
        spectra = _spectra(boundary, *held)
        self._held, self._held_partition = [part[bins] for part in spectra], _renumbered(whole[bins], ids)
        shape = MomentShape(boundary.channels, boundary.width, boundary.operator.full)
        dtype, device = spectra[0].dtype, spectra[0].device
        self._moments = Moments.empty(self._partition, shape, dtype, device=device)
        self._energy = torch.zeros_like(self._moments.energy)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Samples to fit: the spectra of their sources and states, ``(F, W, B)`` and ``(F, C, B)``."""
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
        missed, energy = _energy(y - predicted), _energy(y)
        return float((missed / energy.clamp(min=FLOOR)).mean())


def _renumbered(groups: Tensor, ids: Tensor) -> Partition:
    return Partition("custom", torch.searchsorted(ids, groups))
