"""What fits into memory together: nodes per round, groups of bins per pass, precision of the sums; and one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.memory import available
from sgfi.calibration.processes import ProcessGroup
from sgfi.calibration.settings import FitSettings
from sgfi.calibration.spill import SpillBuffer
from sgfi.calibration.splits import SampleSplit
from sgfi.calibration.tangents import differences
from sgfi.derivatives import Linearisation, push_forward
from sgfi.errors import CalibrationError
from sgfi.settings import as_bytes, readable
from sgfi.spectral import Moments, MomentShape, wide, workspace


@dataclass(frozen=True)
class MemoryPlan:
    """How the work is cut to a budget. Make it with :meth:`within`."""

    plan: Plan
    settings: FitSettings
    samples: int
    """That maps are fitted to."""
    budget: int
    """Bytes for moments, unfinished maps and buffered states."""
    given: bool = False
    """Whether the budget was asked for; else it is half of the memory that was free."""
    double: bool = False
    """Whether moments are summed in double precision: where that takes no further pass over the data."""

    @classmethod
    def within(cls, plan: Plan, settings: FitSettings, samples: int, budget: int) -> MemoryPlan:
        """The plan for a budget, in double precision where that costs nothing."""
        single = cls(plan, settings, samples, budget)
        double, names = replace(single, double=True), list(plan.fitted)
        fits = all(double.need(name) <= budget for name in names)
        return double if fits and len(double.packed(names)) == len(single.packed(names)) else single

    def shape(self, name: str) -> MomentShape:
        boundary = self.plan.boundary[name]
        return MomentShape(boundary.channels, boundary.width, boundary.operator.full, self.few(name))

    def moment_bytes(self, name: str, groups: int | None = None) -> int:
        """Bytes of a node's moments, or of some of its groups'."""
        count = self.plan.boundary[name].partition.count if groups is None else groups
        most = self.samples if self.few(name) else None
        return count * self.shape(name).numbers(most) * self.sums(name).itemsize

    def moments(self, name: str, groups: range) -> Moments:
        """Empty moments of some groups of a node."""
        dtype, device = self._dtype(self.plan.boundary[name]), self.plan.graph.device
        partition = self.plan.boundary[name].partition
        return Moments.empty(partition, self.shape(name), dtype, groups=groups, device=device, sums=self.sums(name))

    def sums(self, name: str) -> torch.dtype:
        """The precision of a node's moments; those a ridge is chosen from make room for what is made of them."""
        dtype = self._dtype(self.plan.boundary[name])
        return wide(dtype, self.plan.graph.device) if self.double and self.settings.ridge != "auto" else dtype

    def few(self, name: str) -> bool:
        """Whether a ridge is chosen from fewer samples than channels: the samples, which are kept, are all it needs."""
        boundary = self.plan.boundary[name]
        singles = boundary.partition.kind == "singleton"
        return self.settings.ridge == "auto" and singles and self.samples < boundary.width

    def held(self, name: str) -> int:
        """Bytes of a node's maps while it is being fitted, of their copy on the way to disk, and of the solves."""
        boundary = self.plan.boundary[name]
        count, dtype = boundary.partition.count, self._dtype(boundary)
        copies = self.settings.most_maps + 1 + self.settings.leave_one_out
        solving = boundary.operator.full * workspace(count, boundary.width, dtype)
        return copies * boundary.operator.size(count, boundary.channels) * dtype.itemsize + solving

    def need(self, name: str) -> int:
        """Bytes of fitting a node in as few passes as it has maps."""
        return self.held(name) + self.moment_bytes(name)

    def spare(self) -> int:
        """What the largest fit leaves of the budget."""
        return max(0, self.budget - max(map(self.need, self.plan.fitted)))

    def left(self, rounds: list[list[str]]) -> int:
        """What nodes fitted together leave of the budget."""
        return max(0, self.budget - max((sum(map(self.need, names)) for names in rounds), default=0))

    def packed(self, names: list[str]) -> list[list[str]]:
        """Nodes that can share one forward per batch within the budget."""
        rounds: list[list[str]] = []
        room = 0
        for name in names:
            if not rounds or self.need(name) > room:
                rounds.append([])
                room = self.budget
            rounds[-1].append(name)
            room -= self.need(name)
        return rounds

    def rounds(self, finished: Collection[str]) -> list[list[str]]:
        """The nodes left to fit, deepest first, those of one round together. Repaired children: one at a time."""
        names = [name for name in reversed(self.plan.fitted) if name not in finished]
        return self.packed(names) if self.settings.children == "true" else [[name] for name in names]

    def passes(self, finished: Collection[str]) -> int:
        """Passes over the data for the nodes left to fit; repaired children need one more for starting states."""
        rounds = self.rounds(finished)
        fits = sum(max(len(self.chunks(name)) for name in names) for names in rounds)
        return self.settings.most_maps * fits + (self.settings.children != "true" and bool(rounds))

    def chunks(self, name: str) -> list[range]:
        """Ranges of groups whose moments fit into what the maps leave of the budget."""
        count = self.plan.boundary[name].partition.count
        room = self.budget - self.held(name)
        each = self.moment_bytes(name, 1)
        if room < each:
            raise CalibrationError(
                f"a memory budget of at least {readable(self.held(name) + each)} for node {name!r}",
                readable(self.budget),
                "Raise memory=..., tie bins with partition=..., or choose a smaller operator.",
            )
        step = min(count, room // each)
        return [range(start, min(start + step, count)) for start in range(0, count, step)]

    def record(self, finished: Collection[str], passes: int) -> dict[str, Any]:
        """JSON-able: what was cut, and how; ``finished`` nodes came from an earlier run, ``passes`` were made."""
        rounds = self.rounds(finished)
        return {
            "budget": self.budget if self.given else None,
            "rounds": len(rounds),
            "passes": passes,
            "chunks": {name: len(self.chunks(name)) for names in rounds for name in names},
            "resumed": len(finished),
        }

    def _dtype(self, boundary: Boundary) -> torch.dtype:
        return boundary.basis.dtype(self.plan.graph.input.dtype)


@dataclass(frozen=True)
class Run:
    """One calibration: what is fitted, on which samples, within which memory, by which processes."""

    plan: Plan
    settings: FitSettings
    data: Batches
    split: SampleSplit
    memory: MemoryPlan
    group: ProcessGroup
    buffer: SpillBuffer
    """Tensors kept from one pass to the next."""
    fingerprint: str
    """Of the weights as they were at the start: the maps belong to these."""

    @classmethod
    def of(cls, plan: Plan, settings: FitSettings, data: Batches, group: ProcessGroup, memory: int | str | None) -> Run:
        split = SampleSplit(tuple(data.sizes), settings.holds_out, plan.graph.device)
        cut = replace(MemoryPlan.within(plan, settings, split.fitted, budget(memory, group)), given=memory is not None)
        return cls(plan, settings, data, split, cut, group, SpillBuffer(cut.spare()), plan.graph.fingerprint)

    def recovered(self, batch_index: int, point: Linearisation, names: Sequence[str]) -> Mapping[str, Tensor]:
        """(B, ...) what maps are to make at these nodes, and find at their children: ``H``, or ``J dx``."""
        tangents, x = self.settings.tangents, point.values["input"]
        if not tangents:
            return point.values
        return push_forward(self.data.graph, names, x, differences(x, batch_index % tangents))

    @property
    def signature(self) -> str:
        """What a checkpoint, and every process, must agree on. Memory does not change the maps."""
        facts = {"model": self.fingerprint, "plan": self.plan.description, "data": self.data.digests}
        return hashlib.sha256(json.dumps(facts | self.settings.facts, sort_keys=True).encode()).hexdigest()


def budget(memory: int | str | None, group: ProcessGroup) -> int:
    """Bytes for each process: the least that any of them has, so that all of them schedule alike."""
    mine = as_bytes(memory, CalibrationError) if memory is not None else available() // (2 * group.processes_on_host())
    return min(group.all_gather(mine))
