"""One calibration as a job: what is fitted, on which samples, and what fits into memory together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from math import isfinite

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.memory import as_bytes, available, readable
from sgfi.calibration.processes import Team
from sgfi.errors import CalibrationError
from sgfi.spectral import Moments, wide, workspace

HELD_OUT = 8
"""``stages="auto"`` fits on all samples but every eighth, and judges a further map on these."""


@dataclass
class Job:
    """What is being fitted, on what, within which memory."""

    plan: Plan
    data: Batches
    ridge: float | str
    children: str
    stages: int
    budget: int
    selective: bool = False
    """Whether samples are held out, and a further map is kept only if it lowers their error."""
    team: Team = field(default_factory=Team)
    dtype: torch.dtype = field(init=False)
    model: str = field(init=False)
    exact: bool = field(init=False, default=False)
    """Whether moments are summed in double precision: where that takes no further pass over the data."""

    def __post_init__(self) -> None:
        if self.selective and self.data.samples < HELD_OUT:
            raise CalibrationError(
                f'at least {HELD_OUT} samples with stages="auto", of which one in {HELD_OUT} is held out',
                str(self.data.samples),
                "Give more data, or a number of stages.",
            )
        self.dtype = self.plan.graph.input.dtype
        self.model = self.plan.graph.fingerprint  # taken now: the maps belong to the weights as they are
        names = list(self.plan.fitted)
        plain, self.exact = len(self.waves(names)), True
        room = all(self.held(name) + self.moment_bytes(name) <= self.budget for name in names)
        self.exact = room and len(self.waves(names)) == plain

    def signature(self) -> str:
        facts = {
            "model": self.model,
            "plan": self.plan.description,
            "ridge": self.ridge,
            "children": self.children,
            "stages": [self.stages, self.selective],
            "data": self.data.marks,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    @property
    def fitted(self) -> int:
        """How many samples the maps are fitted to."""
        return self.data.samples - (self.data.samples // HELD_OUT if self.selective else 0)

    def fits(self, place: int) -> slice | Tensor:
        """Which samples of a batch the maps are fitted to."""
        return ~self._held_out(place) if self.selective else slice(None)

    def judges(self, place: int) -> slice | Tensor:
        """Which samples of a batch tell what a map misses."""
        return self._held_out(place) if self.selective else slice(None)

    def _held_out(self, place: int) -> Tensor:
        """(B,) true for every eighth sample of all batches in a row."""
        start, size = sum(self.data.sizes[:place]), self.data.sizes[place]
        numbers = torch.arange(start, start + size, device=self.plan.graph.device)
        return numbers % HELD_OUT == HELD_OUT - 1

    def map_bytes(self, name: str) -> int:
        """Bytes of one map of a node."""
        boundary = self.plan.boundary[name]
        numbers = boundary.operator.size(boundary.partition.count, boundary.channels)
        return numbers * boundary.basis.dtype(self.dtype).itemsize

    def moment_bytes(self, name: str, groups: int | None = None) -> int:
        boundary = self.plan.boundary[name]
        count = boundary.partition.count if groups is None else groups
        most = self.fitted if self.few(name) else None
        full, width, sums = boundary.operator.full, boundary.width, self.sums(name)
        return Moments.size(count, boundary.channels, sums, full=full, width=width, most=most)

    def sums(self, name: str) -> torch.dtype:
        """The precision of a node's moments; those a ridge is chosen from make room for what is made of them."""
        dtype = self.plan.boundary[name].basis.dtype(self.dtype)
        return wide(dtype, self.plan.graph.device) if self.exact and self.ridge != "auto" else dtype

    def few(self, name: str) -> bool:
        """Whether a ridge is chosen from fewer samples than channels: the samples, which are kept, are all it needs."""
        boundary = self.plan.boundary[name]
        singles = boundary.partition.kind == "singleton"
        return self.ridge == "auto" and singles and self.fitted < boundary.width

    def held(self, name: str) -> int:
        """Bytes of a node's maps while it is being fitted, of their copy on the way to disk, and of the solves."""
        boundary = self.plan.boundary[name]
        copies = self.stages + 1 + (self.children == "honest" or self.ridge == "auto")
        solving = boundary.operator.full * workspace(
            boundary.partition.count, boundary.width, boundary.basis.dtype(self.dtype)
        )
        return copies * self.map_bytes(name) + solving

    def spare(self) -> int:
        """What the largest fit leaves of the budget."""
        return max(0, self.budget - max(self.held(name) + self.moment_bytes(name) for name in self.plan.fitted))

    def left(self, waves: list[list[str]]) -> int:
        """What nodes fitted together leave of the budget."""
        used = [sum(self.held(name) + self.moment_bytes(name) for name in wave) for wave in waves]
        return max(0, self.budget - max(used, default=0))

    def waves(self, names: list[str]) -> list[list[str]]:
        """Nodes that can be fitted together, sharing one forward per batch, within the budget."""
        waves: list[list[str]] = []
        room = 0
        for name in names:
            need = self.held(name) + self.moment_bytes(name)
            if not waves or need > room:
                waves.append([])
                room = self.budget
            waves[-1].append(name)
            room -= need
        return waves

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


def budget(memory: int | str | None, team: Team) -> int:
    """What one process may use: of a team, the least any of them has, so that all schedule alike."""
    mine = as_bytes(memory) if memory is not None else available() // (2 * team.neighbours())
    return min(team.gather(mine))


def check(ridge: float | str, children: str, stages: int | str) -> None:
    if children not in ("true", "online", "honest"):
        raise CalibrationError('children "true", "online" or "honest"', repr(children), "Choose one of these.")
    number = isinstance(ridge, (int, float)) and not isinstance(ridge, bool)
    if ridge != "auto" and not (number and ridge > 0 and isfinite(ridge)):  # type: ignore[operator,arg-type]
        raise CalibrationError('a positive, finite relative ridge or "auto"', repr(ridge), "The paper uses 0.01.")
    if ridge == "auto" and children == "true":
        raise CalibrationError(
            'children="online" or "honest" with ridge="auto"',
            "children='true'",
            "Only these keep the samples to choose on.",
        )
    if stages == "auto" and children == "true":
        raise CalibrationError(
            'children="online" or "honest" with stages="auto"',
            "children='true'",
            "Only these keep the samples that tell when to stop.",
        )
    if stages != "auto" and (not isinstance(stages, int) or isinstance(stages, bool) or stages < 1):
        raise CalibrationError('one stage or more, or "auto"', repr(stages), "The paper uses 2.")


def check_plan(plan: Plan, ridge: float | str, children: str, stages: int | str) -> None:
    if not isinstance(plan, Plan):
        raise CalibrationError("a plan", type(plan).__name__, "Pass sgfi.plan(graph, ...).")
    for name in plan.fitted:
        operator = plan.boundary[name].operator
        if ridge == "auto" and not operator.chooses_ridge:
            raise CalibrationError(
                'the full or a causal operator with ridge="auto"',
                f"{operator.name!r} at {name!r}",
                "Give this plan a number.",
            )
        if children == "honest" and not operator.tells_leverage:
            raise CalibrationError(
                'an operator whose leverage is known with children="honest"',
                f"{operator.name!r} at {name!r}",
                'Use children="online", or the full or diagonal operator.',
            )
