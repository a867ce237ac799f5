"""What online and cross-fitted child states share: buffered states, cached true states, recorded spectra, residuals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from sgfi.calibration.schedule import Run
from sgfi.derivatives import Linearisation
from sgfi.spectral import Solution, WienerMap, wide

WORTHWHILE = 1e-3
"""``stages="auto"`` keeps a further map only if it lowers the error of the held-out samples by this share."""
TRUE, SOURCE, TARGET, STATE, NEXT = "true", "source", "target", "state", "next"
"""Kinds of buffered tensors; a key is a kind and the name of a node."""


class ResidualEnergy(NamedTuple):
    """Mean energy of a sample's target that a map leaves unexplained."""

    before: float
    after: float
    """Of a sample that the map has not seen: held out, or with its own share in the map taken off (leave-one-out)."""
    seen: float
    """Of the samples that it was fitted to."""


class Settled(NamedTuple):
    """What became of a solved map."""

    kept: bool = True
    residual: ResidualEnergy | None = None
    """Where it is known."""


@dataclass(frozen=True)
class Inputs:
    """What is known of a batch before its forward. Whatever is missing is computed."""

    true: Mapping[str, Tensor] = field(default_factory=dict)
    """True states of the nodes being fitted: the forward starts from there."""
    children: Mapping[str, Tensor] = field(default_factory=dict)
    """Repaired states of their children; where missing, the true ones are meant."""
    estimates: Mapping[str, Tensor] = field(default_factory=dict)
    """States of the nodes after the maps they have so far."""
    sources: Mapping[str, Tensor] = field(default_factory=dict)
    """First sources."""


@dataclass(frozen=True)
class RecordedSpectra:
    """The spectra of a node's recorded sources and targets, batch by batch, in every process; re-iterable."""

    run: Run
    name: str

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        boundary = self.run.plan.boundary[self.name]
        for batch_index in range(len(self.run.data.sizes)):
            fits = self.run.split.fits(batch_index)
            source, target = (self._recorded(kind, batch_index)[fits] for kind in (SOURCE, TARGET))
            if len(source):
                yield boundary.reads(source), boundary.basis.analyse(target)

    def _recorded(self, kind: str, batch_index: int) -> Tensor:
        run = self.run
        if batch_index in run.data.own:
            return run.group.broadcast_batch(batch_index, run.buffer.get((kind, self.name), batch_index))
        shape = (run.data.sizes[batch_index], *run.plan.boundary[self.name].basis.shape)
        empty = torch.empty(shape, dtype=run.plan.graph.input.dtype, device=run.plan.graph.device)
        return run.group.broadcast_batch(batch_index, empty)


class TrueStateCache:
    """True states from the first pass, so that a node's own passes need not start at the input.

    The deepest nodes come first, which are the smallest and the furthest from the input; half of the spare memory is
    used, the rest is for repaired states.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.names: tuple[str, ...] = ()

    def choose(self, finished: Collection[str]) -> None:
        """Which of the nodes left to fit are cached."""
        data, plan = self._run.data, self._run.plan
        samples, room, names = sum(data.sizes[index] for index in data.own), self._run.memory.spare() // 2, []
        for name in reversed(plan.fitted):
            room -= samples * prod(plan.boundary[name].basis.shape) * plan.graph.input.dtype.itemsize
            if room < 0 or name == "input":
                break
            if name not in finished:
                names.append(name)
        self.names = tuple(names)

    def keep(self, batch_index: int, values: Mapping[str, Tensor]) -> None:
        for name in self.names:
            self._run.buffer.put((TRUE, name), batch_index, values[name])

    def get(self, batch_index: int, names: Collection[str]) -> dict[str, Tensor]:
        """Those of the named nodes that are cached."""
        return {name: self._run.buffer.get((TRUE, name), batch_index) for name in names if name in self.names}


class RepairedStates:
    """Repaired full-target states per batch: of finished nodes, and of the node being fitted after its maps so far."""

    def __init__(self, run: Run) -> None:
        self._run, self.true = run, TrueStateCache(run)
        self._judged = run.settings.leave_one_out or run.settings.holds_out
        """Whether it is measured what maps leave unexplained."""
        self.last_reader = {child: name for name in reversed(run.plan.fitted) for child in run.plan.children(name)}
        """The last node fitted on a child's state."""

    def needed(self, finished: Collection[str]) -> set[str]:
        """The finished nodes, and the target, whose states the nodes left to fit will read."""
        plan = self._run.plan
        read = {child for name in plan.fitted if name not in finished for child in plan.children(name)}
        return read & {*finished, plan.target}

    def start(self, batch_index: int, point: Linearisation, needed: Collection[str]) -> None:
        """From the first forward: true states to cache, and the target's own state where it is needed."""
        self.true.keep(batch_index, point.values)
        target = self._run.plan.target
        if target in needed:
            self.put(batch_index, target, point.values[target])

    def put(self, batch_index: int, name: str, state: Tensor) -> None:
        self._run.buffer.put((STATE, name), batch_index, state)

    def get(self, batch_index: int, name: str) -> Tensor:
        return self._run.buffer.get((STATE, name), batch_index)

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        children = {child for name in names for child in self._run.plan.children(name)}
        started = [name for name in names if self._run.buffer.has((STATE, name), batch_index)]
        return Inputs(
            true=self.true.get(batch_index, names),
            children={child: self.get(batch_index, child) for child in children},
            estimates={name: self.get(batch_index, name) for name in started},
        )

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        self._run.buffer.put((SOURCE, name), batch_index, source)
        if self._judged:
            self._run.buffer.put((TARGET, name), batch_index, target)

    def settle(
        self, name: str, maps: tuple[WienerMap, ...], solution: Solution, judging: Collection[int], *, cross_fit: bool
    ) -> Settled:
        """Advance every batch's estimate by the new map, the last of ``maps``; no derivative is needed again.

        The ``judging`` batches measure what it leaves unexplained. ``cross_fit`` carries on what a map fitted without
        the sample would have made of it, else what the map makes of a sample it has seen.
        """
        run, buffer, wiener = self._run, self._run.buffer, maps[-1]
        sums = torch.zeros(3, 2, dtype=wide(torch.float32, "cpu"))  # before, after, seen: energy and samples
        for batch_index in run.data.own:
            source = buffer.get((SOURCE, name), batch_index)
            step = wiener(source)
            if self._judged and batch_index in judging:
                target = buffer.get((TARGET, name), batch_index)
                unseen = self._leave_one_out(wiener, solution, source, target, step, batch_index)
                judges, fits = run.split.judges(batch_index), run.split.fits(batch_index)
                sums[0] += _energy(target[judges])
                sums[1] += _energy((target - unseen)[judges])
                sums[2] += _energy((target - step)[fits])
                step = unseen if cross_fit else step
            estimate = step if len(maps) == 1 else self.get(batch_index, name) + step
            buffer.put((NEXT, name), batch_index, estimate)
        residual = self._residual(sums) if self._judged else None
        further = run.settings.holds_out and len(maps) > 1
        if residual and further and residual.after > (1 - WORTHWHILE) * residual.before:
            return Settled(False, residual)
        buffer.rename((NEXT, name), (STATE, name))
        return Settled(True, residual)

    def _residual(self, sums: Tensor) -> ResidualEnergy:
        energies, counts = torch.stack(self._run.group.all_gather(sums)).sum(0).T
        return ResidualEnergy(*(energies / counts).tolist())

    def _leave_one_out(
        self, wiener: WienerMap, solution: Solution, source: Tensor, target: Tensor, step: Tensor, batch_index: int
    ) -> Tensor:
        """The map's contribution to each sample as a map fitted without that sample would have made it."""
        if not self._run.settings.leave_one_out:
            return step
        unseen, fits = step.clone(), self._run.split.fits(batch_index)
        analyse, samples = wiener.basis.analyse, self._run.split.fitted
        spectra = analyse(source[fits]), analyse(target[fits])
        parts = wiener.operator.unseen(solution, *spectra, wiener.partition, samples) if len(spectra[0]) else None
        if parts is not None:
            unseen[fits] = wiener.basis.synthesise(parts)
        return unseen

    def drop(self, name: str) -> None:
        """The node is finished: forget what only it read."""
        kinds = (TRUE, SOURCE, TARGET, NEXT)
        self._run.buffer.drop(*((kind, name) for kind in kinds), *((STATE, child) for child in self.last_read(name)))

    def last_read(self, name: str) -> list[str]:
        """The children that no later node is fitted on."""
        return [child for child in self._run.plan.children(name) if self.last_reader[child] == name]


def _energy(samples: Tensor) -> Tensor:
    """(2,): the energy of all samples, and their number."""
    energy = samples.square().sum(dtype=wide(samples.dtype, samples.device))
    return torch.tensor([float(energy), len(samples)], dtype=wide(torch.float32, "cpu"))
