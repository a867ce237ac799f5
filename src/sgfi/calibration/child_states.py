"""Which child states a node is fitted on: true activations, repaired states, or cross-fitted ones.

Repaired ones are buffered per batch, advanced map by map, and judged by what is left unexplained.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.progress import Progress
from sgfi.calibration.restart import RestartFiles
from sgfi.calibration.schedule import Run
from sgfi.derivatives import Linearisation
from sgfi.inversion.update import walk
from sgfi.spectral import Solution, WienerMap, wide
from sgfi.storage.checkpoint import NodeMaps

JUDGING = 64
"""Samples, in whole batches, that measure what a map leaves unexplained where nothing depends on the measure."""
WORTHWHILE = 1e-3
"""``stages="auto"`` keeps a further map only if it lowers the error of the held-out samples by this share."""
TRUE, SOURCE, TARGET, STATE, NEXT = "true", "source", "target", "state", "next"
"""Kinds of buffered tensors; a key is a kind and the name of a node."""
Finished = Mapping[str, NodeMaps]


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


class ChildStates(Protocol):
    """What fitting asks of child states, in this order: begin; per batch inputs and record; per map settle; end."""

    def begin(self, stored: Finished, progress: Progress) -> dict[str, NodeMaps]:
        """Before the first node: of the nodes that a checkpoint holds, those to resume from. Prepares their states."""

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        """What is known of a batch for the nodes being fitted."""

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        """A batch's source at a node, and what the next map is to make of it."""

    def settle(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> Settled:
        """The last of a node's maps was solved as ``solution``: whether it is kept, and what it leaves unexplained."""

    def end(self, names: Collection[str]) -> None:
        """These nodes have all their maps, and the checkpoint has them too."""


def child_states(run: Run, checkpoint: Path | None) -> ChildStates:
    """Those that the settings name."""
    return TrueChildren(run) if run.settings.children == "true" else RepairedChildren(run, checkpoint)


class TrueChildren:
    """The paper's calibration: true activations, nodes independent of each other.

    First sources that fit into memory are kept: every later map would pull them back again.
    """

    def __init__(self, run: Run) -> None:
        self._run, self._room = run, 0
        self._first: dict[tuple[str, int], Tensor] = {}

    def begin(self, stored: Finished, progress: Progress) -> dict[str, NodeMaps]:
        self._room = self._run.memory.left(self._run.memory.rounds(stored))
        return dict(stored)

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        return Inputs(sources={n: self._first[n, batch_index] for n in names if (n, batch_index) in self._first})

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        if (name, batch_index) not in self._first and source.nbytes <= self._room:
            self._first[name, batch_index] = source
            self._room -= source.nbytes

    def settle(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> Settled:
        return Settled()

    def end(self, names: Collection[str]) -> None:
        self._room += sum(source.nbytes for source in self._first.values())
        self._first.clear()


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


class RepairedChildren:
    """The repaired full-target states of the children, which inversion will hand the node too.

    Cross-fitted, each comes from maps that did not see that very sample. A fit flatters the samples it was made from;
    the next node would then be fitted on states better than any it will meet. Ridge regression tells in closed form
    what it would have predicted without a sample (leave-one-out, PRESS), so every state handed on is such a one. These
    cannot be computed again from the maps: beside a checkpoint they are kept on disk.
    """

    def __init__(self, run: Run, checkpoint: Path | None) -> None:
        self._run, sizes = run, run.data.sizes
        self._cross_fit = run.settings.children == "cross-fitted"
        self._files = RestartFiles(run, checkpoint if self._cross_fit else None)
        self._judged = run.settings.leave_one_out or run.settings.holds_out
        """Whether it is measured what maps leave unexplained."""
        enough = next((index for index in range(len(sizes)) if sum(sizes[: index + 1]) >= JUDGING), len(sizes) - 1)
        self._judging = range(len(sizes) if self._cross_fit or run.settings.holds_out else enough + 1)
        self._last_reader = {child: name for name in reversed(run.plan.fitted) for child in run.plan.children(name)}
        """The last node fitted on a child's state."""
        self._cached: list[str] = []
        """Nodes whose true states are kept from the first pass: their own passes need not start at the input."""
        self._left: set[str] = set()
        """Nodes to fit."""

    def begin(self, stored: Finished, progress: Progress) -> dict[str, NodeMaps]:
        """The target's states, and on resuming those of every finished node: by one walk per batch, or from disk.

        Where cross-fitted states are lost, every node is fitted again.
        """
        run, plan, finished = self._run, self._run.plan, _with_finished_children(self._run.plan, stored)
        if len(finished) == len(plan.fitted):
            self._files.discard()
            return finished
        if self._cross_fit and not self._files.complete(self._needed(finished) - {plan.target}):
            finished = {}
        needed, self._left, self._cached = self._needed(finished), {*plan.fitted} - {*finished}, self._choose(finished)
        maps = {} if self._cross_fit else {name: maps for name, (maps, _) in finished.items()}
        frontiers = {name: plan.children(name) for name in maps}
        for batch_index, x in progress.batches(run.data, "starting states"):
            point = Linearisation(run.data.graph, frontiers, x, keep=[plan.target, *self._cached])
            for name in self._cached:
                run.buffer.put((TRUE, name), batch_index, point.values[name])
            top = run.recovered(batch_index, point, [plan.target])[plan.target]
            if plan.target in needed:
                run.buffer.put((STATE, plan.target), batch_index, top)
            for update in walk(point, plan.dag, maps, top, lambda y, name: run.settings.seed(y, plan.boundary[name])):
                if update.name in needed:
                    run.buffer.put((STATE, update.name), batch_index, update.state)
        for name in needed - {plan.target}:
            for batch_index, state in self._files.read(name):
                run.buffer.put((STATE, name), batch_index, state)
        return finished

    def _needed(self, finished: Collection[str]) -> set[str]:
        """The finished nodes, and the target, whose states the nodes left to fit will read."""
        plan = self._run.plan
        read = {child for name in plan.fitted if name not in finished for child in plan.children(name)}
        return read & {*finished, plan.target}

    def _choose(self, finished: Collection[str]) -> list[str]:
        """The nodes left to fit whose true states are cached.

        The deepest come first, which are the smallest and the furthest from the input; half of the spare memory is
        used, the rest is for repaired states. None where maps recover tangents, which a forward pass does not make.
        """
        if self._run.settings.tangents:
            return []
        data, plan = self._run.data, self._run.plan
        samples, room, names = sum(data.sizes[index] for index in data.own), self._run.memory.spare() // 2, []
        for name in reversed(plan.fitted):
            room -= samples * prod(plan.boundary[name].basis.shape) * plan.graph.input.dtype.itemsize
            if room < 0 or name == "input":
                break
            if name not in finished:
                names.append(name)
        return names

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        buffer = self._run.buffer
        children = {child for name in names for child in self._run.plan.children(name)}
        started = [name for name in names if buffer.has((STATE, name), batch_index)]
        return Inputs(
            true={name: buffer.get((TRUE, name), batch_index) for name in names if name in self._cached},
            children={child: buffer.get((STATE, child), batch_index) for child in children},
            estimates={name: buffer.get((STATE, name), batch_index) for name in started},
        )

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        self._run.buffer.put((SOURCE, name), batch_index, source)
        if self._judged:
            self._run.buffer.put((TARGET, name), batch_index, target)

    def settle(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> Settled:
        """Advance every batch's estimate by the new map, the last of ``maps``; no derivative is needed again."""
        run, buffer = self._run, self._run.buffer
        residual = self._advance(name, maps, solution)
        further = run.settings.chooses_maps and len(maps) > 1
        kept = not (residual and further and residual.after > (1 - WORTHWHILE) * residual.before)
        if kept:
            buffer.rename((NEXT, name), (STATE, name))
        if not kept or len(maps) == run.settings.most_maps:  # the node has all its maps
            self._files.write(name, ((index, buffer.get((STATE, name), index)) for index in run.data.own))
        return Settled(kept, residual)

    def _advance(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> ResidualEnergy | None:
        """The next estimates, and what the map leaves unexplained of the judging batches.

        Cross-fitted, an estimate is carried on by what a map fitted without the sample would have made of it, else by
        what the map makes of a sample it has seen.
        """
        run, buffer, wiener = self._run, self._run.buffer, maps[-1]
        sums = torch.zeros(3, 2, dtype=wide(torch.float32, "cpu"))  # before, after, seen: energy and samples
        for batch_index in run.data.own:
            source = buffer.get((SOURCE, name), batch_index)
            step = wiener(source)
            if self._judged and batch_index in self._judging:
                target = buffer.get((TARGET, name), batch_index)
                unseen = self._leave_one_out(wiener, solution, source, target, step, batch_index)
                judges, fits = run.split.judges(batch_index), run.split.fits(batch_index)
                sums[0] += _energy(target[judges])
                sums[1] += _energy((target - unseen)[judges])
                sums[2] += _energy((target - step)[fits])
                step = unseen if self._cross_fit else step
            estimate = step if len(maps) == 1 else buffer.get((STATE, name), batch_index) + step
            buffer.put((NEXT, name), batch_index, estimate)
        if not self._judged:
            return None
        energies, counts = torch.stack(run.group.all_gather(sums)).sum(0).T
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

    def end(self, names: Collection[str]) -> None:
        """Forget what only these nodes read."""
        for name in names:
            unread = [child for child in self._run.plan.children(name) if self._last_reader[child] == name]
            kinds = (TRUE, SOURCE, TARGET, NEXT)
            self._run.buffer.drop(*((kind, name) for kind in kinds), *((STATE, child) for child in unread))
            self._files.drop(unread)
        self._left -= {*names}
        if not self._left:
            self._files.discard()


def _with_finished_children(plan: Plan, stored: Finished) -> dict[str, NodeMaps]:
    """The stored nodes to resume from: one whose child must be fitted again is itself no longer right."""
    kept: dict[str, NodeMaps] = {}
    for name in reversed(plan.fitted):
        if name in stored and all(child == plan.target or child in kept for child in plan.children(name)):
            kept[name] = stored[name]
    return kept


def _energy(samples: Tensor) -> Tensor:
    """(2,): the energy of all samples, and their number."""
    energy = samples.square().sum(dtype=wide(samples.dtype, samples.device))
    return torch.tensor([float(energy), len(samples)], dtype=wide(torch.float32, "cpu"))
