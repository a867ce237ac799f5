"""From batches of inputs to a map family: two closed-form stages per node, streamed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.carry import Carry
from sgfi.errors import CalibrationError, QueryError
from sgfi.family import MapFamily
from sgfi.graph import Linearisation, LocalMap
from sgfi.inversion import check_input
from sgfi.memory import as_bytes, available, readable
from sgfi.progress import Progress
from sgfi.repair import advance, repair, source, walk
from sgfi.spectral import Moments, WienerMap
from sgfi.store import Checkpoint

Maps = dict[str, tuple[WienerMap, ...]]


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
def calibrate(
    plan: Plan,
    batches: Iterable,
    ridge: float = 0.01,
    children: str = "true",
    *,
    stages: int = 2,
    memory: int | str | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = True,
    provenance: Mapping[str, Any] | None = None,
) -> MapFamily:
    """Fit every map of the plan in closed form.

    ``batches`` is read several times and must give the same inputs each time: a list of tensors or a DataLoader
    without shuffling (a tuple's first element counts). ``children="true"`` fits each node on the true activations of
    its children (the paper); ``"online"`` fits deepest node first on the repaired full-target states that inversion
    will hand it, in both sources, while the regression targets stay ``H_v`` and ``H_v - y0``. ``stages`` counts the
    maps per node: ``G_v`` and ``stages - 1`` corrections.

    ``memory`` bounds the working memory (moments, unfinished maps, carried states) beside the model's own forward;
    nodes are scheduled into as many passes over the data as it takes. ``checkpoint`` names a folder where finished
    nodes are kept: an interrupted calibration goes on from there, finished maps leave memory, and the folder can be
    loaded when done. Without it finished maps stay in memory beyond the budget.
    """
    _check(ridge, children, stages)
    job = _Job(plan, _Data(plan, batches), ridge, children, stages, _budget(memory))
    ledger = Checkpoint(checkpoint, job.signature(), plan) if checkpoint is not None else None
    finished = _usable(job, ledger.finished()) if ledger else {}
    remaining = [name for name in reversed(plan.fitted) if name not in finished]
    waves = [[name] for name in remaining] if children == "online" else _waves(job, remaining)
    passes = job.stages * sum(max(len(job.chunks(name)) for name in wave) for wave in waves)
    passes += children == "online" and bool(waves)
    with Progress(progress, passes, len(job.data.sizes), len(plan.fitted), len(finished)) as bar:
        states: _Children = _Online(job) if children == "online" else _True()
        try:
            if waves:
                states.start({name: maps for name, (maps, _) in finished.items()}, bar)
            for wave in waves:
                fitted = _fit(job, wave, states, bar)
                for name in wave:
                    finished[name] = ledger.keep(name, *fitted[name]) if ledger else fitted[name]
                states.finish(wave)
                bar.finished(len(wave))
        finally:
            states.close()
    family = MapFamily(
        plan=plan,
        maps={name: finished[name][0] for name in plan.fitted},
        ridge=ridge,
        children=children,
        samples=job.data.samples,
        diagnostics={name: finished[name][1] for name in plan.fitted},
        provenance=dict(provenance or {}),
    )
    if ledger:
        ledger.close(family)
    return family


def _check(ridge: float, children: str, stages: int) -> None:
    if children not in ("true", "online"):
        raise CalibrationError('children "true" or "online"', repr(children), "Choose one of these.")
    if not isinstance(ridge, (int, float)) or isinstance(ridge, bool) or not (ridge > 0 and isfinite(ridge)):
        raise CalibrationError("a positive, finite relative ridge", repr(ridge), "The paper uses 0.01.")
    if not isinstance(stages, int) or isinstance(stages, bool) or stages < 1:
        raise CalibrationError("one stage or more", repr(stages), "The paper uses 2.")


def _budget(memory: int | str | None) -> int:
    return as_bytes(memory) if memory is not None else available() // 2


class _Data:
    """The calibration batches: checked, counted and the same on every pass."""

    def __init__(self, plan: Plan, batches: Iterable) -> None:
        readable_again = isinstance(batches, Iterable) or hasattr(batches, "__getitem__")
        if isinstance(batches, (Tensor, Iterator, str, Mapping)) or not readable_again:
            raise CalibrationError(
                "batches that can be read several times",
                "one-shot " * isinstance(batches, Iterator) + type(batches).__name__,
                "Pass a list of tensors (B, ...), or a DataLoader without shuffling.",
            )
        self._plan, self._batches = plan, batches
        self.marks = [self._mark(x) for x in self._read()]
        """Size and digest of every batch: how a later pass, or a resumed calibration, knows it again."""
        self.sizes = [size for size, _ in self.marks]
        self.samples = sum(self.sizes)
        if self.samples < 2:
            raise CalibrationError(
                "at least two calibration samples", str(self.samples), "Give more data; hundreds are usual."
            )

    def _read(self) -> Iterator[Tensor]:
        for place, batch in enumerate(self._batches):
            x = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
            try:
                check_input(self._plan.graph, x)
            except QueryError as error:
                raise CalibrationError(error.expected, f"{error.got} in batch {place}", error.todo) from error
            yield x.detach()

    @staticmethod
    def _mark(x: Tensor) -> tuple[int, str]:
        """Sums would not do: a mirrored image, or samples in another order, can have the same."""
        contents = x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return len(x), hashlib.sha256(contents.data).hexdigest()

    def __iter__(self) -> Iterator[tuple[int, Tensor]]:
        count = 0
        for place, x in enumerate(self._read()):
            if place >= len(self.marks) or self._mark(x) != self.marks[place]:
                raise self._changed(f"a different batch at place {place}")
            yield place, x
            count += 1
        if count < len(self.marks):
            raise self._changed(f"{count} batches after {len(self.marks)} on the first pass")

    @staticmethod
    def _changed(got: str) -> CalibrationError:
        return CalibrationError(
            "the same batches in the same order on every pass",
            got,
            "Turn shuffling and random augmentation off, or put the batches into a list first.",
        )


@dataclass
class _Job:
    """What is being fitted, on what, within which memory."""

    plan: Plan
    data: _Data
    ridge: float
    children: str
    stages: int
    budget: int
    dtype: torch.dtype = field(init=False)
    model: str = field(init=False)

    def __post_init__(self) -> None:
        self.dtype = self.plan.graph.input.dtype
        self.model = self.plan.graph.fingerprint  # taken now: the maps belong to the weights as they are

    def signature(self) -> str:
        facts = {
            "model": self.model,
            "plan": self.plan.description,
            "ridge": self.ridge,
            "children": self.children,
            "stages": self.stages,
            "data": self.data.marks,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def map_bytes(self, name: str) -> int:
        """Bytes of one map of a node."""
        boundary = self.plan.boundary[name]
        numbers = boundary.operator.size(boundary.partition.count, boundary.channels)
        return numbers * boundary.basis.dtype(self.dtype).itemsize

    def moment_bytes(self, name: str, groups: int | None = None) -> int:
        boundary = self.plan.boundary[name]
        count = boundary.partition.count if groups is None else groups
        dtype = boundary.basis.dtype(self.dtype)
        return Moments.size(count, boundary.channels, dtype, full=boundary.operator.full)

    def held(self, name: str) -> int:
        """Bytes of a node's maps while it is being fitted, and of their copy on the way to disk."""
        return (self.stages + 1) * self.map_bytes(name)

    def spare(self) -> int:
        """What the largest fit leaves of the budget."""
        return max(0, self.budget - max(self.held(name) + self.moment_bytes(name) for name in self.plan.fitted))

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


def _usable(job: _Job, finished: dict[str, Any]) -> dict[str, Any]:
    """The finished nodes to go on from. Online, one whose child must be fitted again is itself no longer right."""
    if job.children != "online":
        return finished
    kept: dict[str, Any] = {}
    for name in reversed(job.plan.fitted):
        if name in finished and all(child == job.plan.target or child in kept for child in job.plan.children(name)):
            kept[name] = finished[name]
    return kept


def _waves(job: _Job, names: list[str]) -> list[list[str]]:
    """Nodes that can be fitted together, sharing one forward per batch, within the budget."""
    waves: list[list[str]] = []
    room = 0
    for name in names:
        need = job.held(name) + job.moment_bytes(name)
        if not waves or need > room:
            waves.append([])
            room = job.budget
        waves[-1].append(name)
        room -= need
    return waves


class _Children:
    """Where a node's child states and its estimate so far come from."""

    def start(self, finished: Maps, bar: Progress) -> None:
        """Before the first node is fitted."""

    def states(self, point: Linearisation, place: int, names: tuple[str, ...]) -> list[Tensor]:
        raise NotImplementedError

    def estimate(
        self, place: int, name: str, local: LocalMap, states: list[Tensor], seeds: list[Tensor], maps: tuple
    ) -> Tensor | None:
        return repair(local, states, seeds, maps)

    def observed(self, place: int, name: str, y: Tensor | None, found: Tensor) -> None:
        """A source was taken."""

    def fitted(self, name: str, wiener: WienerMap) -> None:
        """A map was solved."""

    def finish(self, wave: list[str]) -> None:
        """The wave's nodes have all their maps."""

    def close(self) -> None:
        """Nothing more is fitted, done or interrupted."""


class _True(_Children):
    """The paper's calibration: true activations, nodes independent of each other."""

    def states(self, point: Linearisation, place: int, names: tuple[str, ...]) -> list[Tensor]:
        return [point.values[name] for name in names]


class _Online(_Children):
    """Repaired full-target states of the children, carried per batch in memory or, beyond the budget, on disk."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._carry = Carry(job.spare())
        self._last_reader = {child: name for name in reversed(job.plan.fitted) for child in job.plan.children(name)}

    def start(self, finished: Maps, bar: Progress) -> None:
        """The target's states, and on resuming those of every finished node, in one reverse pass per batch."""
        plan = self._job.plan
        needed = {plan.target} | {
            child for name in plan.fitted if name not in finished for child in plan.children(name)
        }
        frontiers = {name: plan.children(name) for name in finished}
        channels = {name: plan.boundary[name].channels for name in plan.boundaries}
        for place, x in bar.batches(self._job.data, "starting states"):
            point = Linearisation(plan.graph, frontiers, x, keep=[plan.target])
            top = point.values[plan.target]
            for name, state in walk(point, plan.dag, finished, channels, top, channels[plan.target]).items():
                if name in needed:
                    self._carry.put(name, place, state)

    def states(self, point: Linearisation, place: int, names: tuple[str, ...]) -> list[Tensor]:
        return [self._carry.get(name, place) for name in names]

    def estimate(
        self, place: int, name: str, local: LocalMap, states: list[Tensor], seeds: list[Tensor], maps: tuple
    ) -> Tensor | None:
        return self._carry.get(name, place) if maps else None

    def observed(self, place: int, name: str, y: Tensor | None, found: Tensor) -> None:
        self._carry.put(f"{name} source", place, found)

    def fitted(self, name: str, wiener: WienerMap) -> None:
        """Advance every batch's estimate by the new map; no derivative is needed again."""
        for place in range(len(self._job.data.sizes)):
            y = self._carry.get(name, place) if self._carry.has(name, place) else None
            self._carry.put(name, place, advance(y, wiener, self._carry.get(f"{name} source", place)))

    def finish(self, wave: list[str]) -> None:
        for name in wave:
            self._carry.drop(f"{name} source")
            for child in self._job.plan.children(name):
                if self._last_reader[child] == name:
                    self._carry.drop(child)

    def close(self) -> None:
        self._carry.close()


def _fit(job: _Job, wave: list[str], states: _Children, bar: Progress) -> dict[str, tuple[tuple[WienerMap, ...], list]]:
    """All maps of the wave's nodes, stage by stage, with diagnostics."""
    maps: Maps = dict.fromkeys(wave, ())
    diagnostics: dict[str, list[dict[str, float]]] = {name: [] for name in wave}
    for stage in range(job.stages):
        chunks = {name: job.chunks(name) for name in wave}
        pieces: dict[str, list] = {name: [] for name in wave}
        for turn in range(max(map(len, chunks.values()))):
            active = {name: found[turn] for name, found in chunks.items() if turn < len(found)}
            moments = _pass(job, active, maps, states, bar, f"stage {stage + 1} of {job.stages}")
            for name in active:
                found = moments.pop(name)
                pieces[name].append(_solve(job, name, found))
                if not turn:
                    diagnostics[name].append(_diagnose(found, job.ridge))
        for name in wave:
            boundary = job.plan.boundary[name]
            weights = {key: _joined([piece[key] for piece in pieces[name]]) for key in pieces[name][0]}
            wiener = WienerMap(boundary.basis, boundary.partition, boundary.operator, weights)
            maps[name] = (*maps[name], wiener)
            states.fitted(name, wiener)
    return {name: (maps[name], diagnostics[name]) for name in wave}


def _solve(job: _Job, name: str, moments: Moments) -> dict[str, Tensor]:
    try:
        return job.plan.boundary[name].operator.solve(moments, moments.ridge(job.ridge))
    except torch.linalg.LinAlgError as error:
        raise CalibrationError(
            f"moments of {name!r} that stay positive definite with relative ridge {job.ridge}",
            str(error).splitlines()[0],
            "Raise the ridge or give more samples.",
        ) from error


def _joined(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


@torch.no_grad()
def _pass(
    job: _Job, active: Mapping[str, range], maps: Maps, states: _Children, bar: Progress, label: str
) -> dict[str, Moments]:
    """One pass over the data: the next stage's moments of every active node."""
    plan = job.plan
    moments = {name: _empty(job, name, groups) for name, groups in active.items()}
    frontiers = {name: plan.children(name) for name in active}
    for place, x in bar.batches(job.data, f"{label}: {_listed(list(active))}"):
        point = Linearisation(plan.graph, frontiers, x)
        for name in active:
            local, children = point.at(name), frontiers[name]
            found = states.states(point, place, children)
            seeds = [state / plan.boundary[u].channels for state, u in zip(found, children, strict=True)]
            y = states.estimate(place, name, local, found, seeds, maps[name])
            observed = source(local, found, seeds, y)
            point.release(name)
            truth = point.values[name]
            basis = plan.boundary[name].basis
            moments[name].update(basis.analyse(observed), basis.analyse(truth if y is None else truth - y))
            _check_finite(name, moments[name], place, point)
            states.observed(place, name, y, observed)
    return moments


def _empty(job: _Job, name: str, groups: range) -> Moments:
    boundary = job.plan.boundary[name]
    return Moments.empty(
        boundary.partition,
        boundary.channels,
        boundary.basis.dtype(job.dtype),
        full=boundary.operator.full,
        groups=groups,
        device=job.plan.graph.device,
    )


def _diagnose(moments: Moments, ridge: float) -> dict[str, float]:
    """The effective ridge and the mean energies per sample of what the stage reads and what it is to explain."""
    return {
        "ridge": moments.ridge(ridge),
        "source_energy": float(moments.energy) / moments.count,
        "target_energy": float(moments.target) / moments.count,
    }


def _check_finite(name: str, moments: Moments, place: int, point: Linearisation) -> None:
    if not (torch.isfinite(moments.energy) and torch.isfinite(moments.target)):
        # In topological order: where the model itself went wrong first, if it did.
        guilty = next((node for node, value in point.values.items() if not torch.isfinite(value).all()), name)
        raise CalibrationError(
            "finite sources and states",
            f"NaN or infinity at node {guilty!r} in batch {place}",
            "Look for overflow in the model there, raise the ridge, or leave this boundary out.",
        )


def _listed(names: list[str], most: int = 2) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
