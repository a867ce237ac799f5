"""Which child states a node is fitted on: true activations, repaired states, or cross-fitted ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.progress import Progress
from sgfi.calibration.repaired_states import Inputs, RepairedStates, Settled
from sgfi.calibration.restart import RestartFiles
from sgfi.calibration.schedule import Run
from sgfi.derivatives import Linearisation
from sgfi.inversion.update import walk
from sgfi.spectral import Solution, WienerMap
from sgfi.storage.checkpoint import NodeMaps

JUDGING = 64
"""Samples, in whole batches, that measure what a map leaves unexplained where nothing depends on the measure."""
Finished = Mapping[str, NodeMaps]


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
    if run.settings.children == "cross-fitted":
        return CrossFittedChildren(run, checkpoint)
    return RepairedChildren(run) if run.settings.children == "online" else TrueChildren(run)


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


class RepairedChildren:
    """Online: the repaired full-target states of the children, which inversion will hand the node too."""

    def __init__(self, run: Run) -> None:
        self._run, self._states = run, RepairedStates(run)
        sizes = run.data.sizes
        enough = next((index for index in range(len(sizes)) if sum(sizes[: index + 1]) >= JUDGING), len(sizes) - 1)
        self._judging = range(len(sizes) if run.settings.holds_out else enough + 1)

    def begin(self, stored: Finished, progress: Progress) -> dict[str, NodeMaps]:
        """The target's states and on resuming those of every finished node, by one walk per batch."""
        run, plan, finished = self._run, self._run.plan, _with_finished_children(self._run.plan, stored)
        if len(finished) == len(plan.fitted):
            return finished
        needed, maps = self._states.needed(finished), {name: maps for name, (maps, _) in finished.items()}
        frontiers = {name: plan.children(name) for name in finished}
        self._states.true.choose(finished)
        for batch_index, x in progress.batches(run.data, "starting states"):
            point = Linearisation(plan.graph, frontiers, x, keep=[plan.target, *self._states.true.names])
            self._states.start(batch_index, point, needed)
            top = point.values[plan.target]
            for update in walk(point, plan.dag, maps, top, lambda y, name: run.settings.seed(y, plan.boundary[name])):
                if update.name in needed:
                    self._states.put(batch_index, update.name, update.state)
        return finished

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        return self._states.inputs(batch_index, names)

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        self._states.record(batch_index, name, source, target)

    def settle(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> Settled:
        return self._states.settle(name, maps, solution, self._judging, cross_fit=False)

    def end(self, names: Collection[str]) -> None:
        for name in names:
            self._states.drop(name)


class CrossFittedChildren:
    """Online states, each from maps that did not see that very sample.

    A fit flatters the samples it was made from; the next node would then be fitted on states better than any it will
    meet. Ridge regression tells in closed form what it would have predicted without a sample (leave-one-out, PRESS), so
    every state handed on is a leave-one-out state.
    """

    def __init__(self, run: Run, checkpoint: Path | None) -> None:
        self._run, self._states, self._files = run, RepairedStates(run), RestartFiles(run, checkpoint)
        self._left: set[str] = set()
        """Nodes to fit."""

    def begin(self, stored: Finished, progress: Progress) -> dict[str, NodeMaps]:
        """The target's states, and on resuming those on disk; where some are lost, every node is fitted again."""
        run, plan, finished = self._run, self._run.plan, _with_finished_children(self._run.plan, stored)
        if len(finished) == len(plan.fitted):
            self._files.discard()
            return finished
        if not self._files.complete(self._states.needed(finished) - {plan.target}):
            finished = {}
        needed = self._states.needed(finished)
        self._left = {*plan.fitted} - {*finished}
        self._states.true.choose(finished)
        for batch_index, x in progress.batches(run.data, "starting states"):
            keep = [plan.target, *self._states.true.names]
            self._states.start(batch_index, Linearisation(plan.graph, {}, x, keep=keep), needed)
        for name in needed - {plan.target}:
            for batch_index, state in self._files.read(name):
                self._states.put(batch_index, name, state)
        return finished

    def inputs(self, batch_index: int, names: Collection[str]) -> Inputs:
        return self._states.inputs(batch_index, names)

    def record(self, batch_index: int, name: str, source: Tensor, target: Tensor) -> None:
        self._states.record(batch_index, name, source, target)

    def settle(self, name: str, maps: tuple[WienerMap, ...], solution: Solution) -> Settled:
        settled = self._states.settle(name, maps, solution, range(len(self._run.data.sizes)), cross_fit=True)
        if not settled.kept or len(maps) == self._run.settings.most_maps:  # the node has all its maps
            self._files.write(name, ((index, self._states.get(index, name)) for index in self._run.data.own))
        return settled

    def end(self, names: Collection[str]) -> None:
        for name in names:
            self._states.drop(name)
            self._files.drop(self._states.last_read(name))
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
