"""Maps that are small where the samples say so: partition and operator of every node, chosen on held-out samples.

For each node the candidates' first maps are fitted to true children and judged at the same few bins of the same
held-out samples (:mod:`~sgfi.calibration.probing`). Within a tolerance of the best the cheapest is taken. Where that is
more than a budget allows, every node starts from its cheapest candidate, and whatever saves most error for its bytes is
bought until the budget is spent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import torch

from sgfi.boundaries import Boundary, Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.probing import MOST_BINS, MOST_BYTES, HeldOut, Probe, drawn_bins
from sgfi.errors import CalibrationError, PlanError
from sgfi.graph import full_precision
from sgfi.inversion.update import mean_seed
from sgfi.settings import as_bytes, readable
from sgfi.spectral import Partition, operator_named

PARTITIONS = ("singleton", "blocks2", "blocks4", "rings", "shared")
LOW_RANK = "diagonal+rank16"
"""Tried with single bins and blocks of two, where it takes at most half the numbers of full matrices."""
TOLERANCE = 0.02
ROOM = 1 << 30
"""Bytes of sums and held-out states that are kept at once, unless a single node takes more."""


@dataclass(frozen=True)
class Candidate:
    """A way to make a node's maps."""

    partition: str
    boundary: Boundary
    missed: float
    """Share of held-out energy that the first map misses."""

    @property
    def bytes(self) -> int:
        return self.boundary.map_bytes

    def __str__(self) -> str:
        return f"{self.partition} {self.boundary.operator.name}"


Candidates = Mapping[str, Sequence[Candidate]]


def choose_sizes(
    plan: Plan,
    batches: Iterable,
    budget: int | str | None = None,
    *,
    tolerance: float = TOLERANCE,
    ridge: float = 0.01,
    low_rank: bool = True,
) -> Plan:
    """The plan with the cheapest maps within ``tolerance`` of the best, node by node, and within ``budget`` bytes.

    ``batches`` are those that the plan will be calibrated on: the choice depends on how many samples there are.
    ``low_rank`` also tries operators that ``ridge="auto"`` and cross-fitted children cannot be used with.
    """
    return chosen(plan, measure_sizes(plan, batches, ridge, low_rank), budget, tolerance)


@torch.inference_mode(False)
@torch.no_grad()
@full_precision()
def measure_sizes(plan: Plan, batches: Iterable, ridge: float = 0.01, low_rank: bool = True) -> Candidates:
    """What every candidate of every node misses of held-out samples."""
    data = Batches(plan, batches)
    held = HeldOut(plan, data, mean_seed)
    if not held.numbers:
        raise CalibrationError("at least 8 samples to choose sizes on", str(data.samples), "Give more data.")
    options = {name: _options(plan.boundary[name], low_rank) for name in plan.fitted}
    measured = {
        name: [Candidate("as planned", own["as planned"], 0.0)] for name, own in options.items() if len(own) == 1
    }
    for names in _rounds({name: own for name, own in options.items() if name not in measured}, len(held.numbers)):
        probes: dict[str, list[Probe]] = {}
        for name, judging in held.judging(names).items():
            bins = drawn_bins(plan.boundary[name], judging[1])
            probes[name] = [Probe(boundary, bins, judging) for boundary in options[name].values()]
        for _, spectra in held.batches(names):
            for name, x, y in spectra:
                for probe in probes[name]:
                    probe.add(x, y)
        for name, tried in probes.items():
            named = zip(options[name], tried, strict=True)
            measured[name] = [Candidate(word, probe.boundary, probe.missed(ridge)) for word, probe in named]
    return {name: measured[name] for name in plan.fitted}


def _rounds(options: Mapping[str, Mapping[str, Boundary]], held_out: int) -> list[list[str]]:
    """Nodes that are looked at together."""
    rounds: list[list[str]] = []
    room = 0
    for name, own in options.items():
        boundary = next(iter(own.values()))
        sums = min(MOST_BYTES, MOST_BINS * 2 * boundary.channels * boundary.width * 8)
        need = len(own) * sums + 2 * held_out * prod(boundary.basis.shape) * 4
        if need > room:
            rounds.append([])
            room = ROOM
        rounds[-1].append(name)
        room -= need
    return rounds


def _options(boundary: Boundary, low_rank: bool) -> dict[str, Boundary]:
    """By name; a node whose bins are positions, or that was tied on purpose, keeps what it has."""
    basis = boundary.basis
    if boundary.partition.kind != "singleton" or boundary.operator.name != "full" or basis.bins == 1 or basis.trivial:
        return {"as planned": boundary}
    parts = {word: Partition.of(word, basis.bins, boundary.name, basis.blocks, basis.rings) for word in PARTITIONS}
    options = {word: replace(boundary, partition=partition) for word, partition in parts.items()}
    factors = operator_named(LOW_RANK)
    if low_rank and factors.size(1, boundary.channels) * 2 <= boundary.operator.size(1, boundary.channels):
        options |= {
            f"{word}, {LOW_RANK}": replace(boundary, partition=parts[word], operator=factors)
            for word in ("singleton", "blocks2")
        }
    return options


def chosen(plan: Plan, candidates: Candidates, budget: int | str | None = None, tolerance: float = TOLERANCE) -> Plan:
    """The plan that the measurements give."""
    if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 <= tolerance < 1:
        raise PlanError(
            "a tolerance from 0 to 1, a share of the least error", repr(tolerance), "0.02 is two hundredths."
        )
    wanted = {name: _cheapest(each, tolerance) for name, each in candidates.items()}
    if budget is not None:
        wanted = _within(candidates, wanted, as_bytes(budget, PlanError))
    return replace(plan, boundary={**plan.boundary, **{name: each.boundary for name, each in wanted.items()}})


def _cheapest(each: Sequence[Candidate], tolerance: float) -> Candidate:
    least = min(candidate.missed for candidate in each)
    return min((c for c in each if c.missed <= least * (1 + tolerance)), key=lambda c: (c.bytes, c.missed))


def _within(candidates: Candidates, wanted: Mapping[str, Candidate], budget: int) -> dict[str, Candidate]:
    """From the cheapest of every node up, by error saved for a byte; never beyond what is wanted."""
    now = {name: min(each, key=lambda c: (c.bytes, c.missed)) for name, each in candidates.items()}
    spent = sum(each.bytes for each in now.values())
    if spent > budget:
        todo = "Allow more, choose fewer boundaries or another operator."
        raise PlanError(f"a size of at least {readable(spent)} for these boundaries", readable(budget), todo)
    while True:
        steps = [
            ((now[name].missed - better.missed) / (better.bytes - now[name].bytes), name, better)
            for name, each in candidates.items()
            for better in each
            if now[name].bytes < better.bytes <= wanted[name].bytes
            and better.missed < now[name].missed
            and spent + better.bytes - now[name].bytes <= budget
        ]
        if not steps:
            return now
        _, name, better = max(steps, key=lambda step: step[0])
        spent += better.bytes - now[name].bytes
        now[name] = better
