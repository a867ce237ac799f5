"""Which child states a node is fitted on: true activations, repaired states, or cross-fitted ones."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from torch import Tensor

from sgfi.calibration.progress import Progress
from sgfi.calibration.repaired_states import Finished, Inputs, RepairedChildren, Settled
from sgfi.calibration.schedule import Run
from sgfi.spectral import Solution, WienerMap
from sgfi.storage.checkpoint import NodeMaps


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
