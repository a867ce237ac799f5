"""Whether more samples would help: the error of held-out samples over the number of samples that maps are fitted to.

The curve is that of the first map on true children, at a few nodes from the input to the deepest, with the ridge of the
fit (0.01 where the ridge is chosen). It is measured apart from the fit, on samples held out of the curve alone, and
changes no map. With online or cross-fitted children a node can only be fitted once the deeper ones are done on all
samples, so that nothing could be said of the whole family before its end: there, too, ``until`` is decided on this
curve, before the first node is fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.probing import Probe, drawn_bins, first_sources
from sgfi.calibration.settings import FitSettings
from sgfi.errors import CalibrationError
from sgfi.inversion.estimator import spread

NODES = 4
FIRST_COUNT = 16
"""Samples of the first point; each further one has twice as many."""
EVERY, MOST_HELD_OUT = 8, 64
"""One sample in eight is held out, at most 64."""
RIDGE = 0.01


@dataclass(frozen=True)
class LearningCurve:
    """Missed shares of held-out energy by number of samples."""

    samples: tuple[int, ...]
    missed: dict[str, tuple[float, ...]]
    """By node."""
    held_out: int
    until: float | None = None
    """The relative gain of a doubling below which no more samples are taken."""
    batches: int | None = None
    """Batches that were enough; ``None``: all."""

    @property
    def mean(self) -> tuple[float, ...]:
        """Over nodes."""
        return tuple(sum(column) / len(column) for column in zip(*self.missed.values(), strict=True))

    @property
    def gain(self) -> float | None:
        """The share by which the last step lowered the mean."""
        return 1 - self.mean[-1] / self.mean[-2] if len(self.samples) > 1 and self.mean[-2] > 0 else None

    @property
    def converged(self) -> bool:
        """Whether the last step changed the error by less than ``until``. A rise is no end: errors peak where there
        are as many samples as channels."""
        return self.until is not None and self.gain is not None and abs(self.gain) < self.until

    @property
    def record(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "samples": list(self.samples),
            "missed": {name: list(shares) for name, shares in self.missed.items()},
            "held_out": self.held_out,
            **({"until": self.until, "reason": self.reason} if self.until is not None else {}),
        }

    @property
    def reason(self) -> str:
        """Where sampling stopped, and why."""
        if self.until is None or self.gain is None:
            return "all samples: too few to tell whether more would help"
        step = f"the step to {self.samples[-1]} samples changed the held-out error by {-self.gain:+.2%}"
        if self.batches is not None:
            return f"stopped: {step}, less than {self.until:.2%}"
        return f"all samples: {step}, " + ("less" if self.converged else "not less") + f" than {self.until:.2%}"


def checked_until(until: object, settings: FitSettings, processes: int) -> float | None:
    """A relative gain, or nothing; refused where it cannot be meant."""
    if until is None:
        return None
    if not isinstance(until, (int, float)) or isinstance(until, bool) or not 0 < until < 1:
        raise CalibrationError("until between 0 and 1, a relative gain", repr(until), "0.001 is a thousandth.")
    if settings.tangents or processes > 1:
        got = 'on="tangents"' if settings.tangents else f"{processes} processes"
        todo = "Decide on the number of samples in one process and on states, then calibrate with that many."
        raise CalibrationError("states, in one process, with until=...", got, todo)
    return float(until)


def learning_curve(
    plan: Plan, settings: FitSettings, data: Batches, until: float | None = None
) -> LearningCurve | None:
    """The curve over the samples in their order; ``None`` where there are too few, or maps recover tangents.

    With ``until`` it ends where a doubling changes the error by less than that share.
    """
    held = _held_out(data)
    if settings.tangents or not held or data.samples - len(held) < 2:
        return None
    ridge = settings.ridge if isinstance(settings.ridge, float) else RIDGE
    probes = _probes(plan, settings, data, held)
    counts = _counts(data.samples - len(held))
    samples: list[int] = []
    curve: LearningCurve | None = None
    missed: dict[str, list[float]] = {name: [] for name in probes}
    for batch_index, pieces in _pieces(plan, settings, data, held, counts):
        for name, source, state in pieces:
            probes[name].add(source, state)
        taken = next(iter(probes.values())).samples
        if taken in counts:
            samples.append(taken)
            for name, probe in probes.items():
                missed[name].append(probe.missed(ridge))
            curve = LearningCurve(tuple(samples), {n: tuple(own) for n, own in missed.items()}, len(held), until)
            if curve.converged and batch_index + 1 < len(data.sizes):
                return LearningCurve(curve.samples, curve.missed, curve.held_out, until, batch_index + 1)
    return curve


def _held_out(data: Batches) -> frozenset[int]:
    """Numbers of samples, counted over all batches."""
    step = max(EVERY, -(-data.samples // MOST_HELD_OUT))
    return frozenset(range(step - 1, data.samples, step))


def _counts(most: int) -> frozenset[int]:
    counts = [FIRST_COUNT]
    while 2 * counts[-1] < most:
        counts.append(2 * counts[-1])
    return frozenset(count for count in counts if count < most) | {most}


def _rows(data: Batches, batch_index: int, held: frozenset[int]) -> tuple[list[int], list[int]]:
    """Rows of a batch that are held out, and the others."""
    start, size = sum(data.sizes[:batch_index]), data.sizes[batch_index]
    rows = [row for row in range(size) if start + row in held]
    return rows, [row for row in range(size) if start + row not in held]


def _probes(plan: Plan, settings: FitSettings, data: Batches, held: frozenset[int]) -> dict[str, Probe]:
    parts: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for batch_index, x in data:
        rows, _ = _rows(data, batch_index, held)
        if not rows:
            continue
        x, rows = (x, rows) if data.graph.side_values else (x[rows], [*range(len(rows))])
        for name, source, state in first_sources(plan, data.graph, x, spread(plan.fitted, NODES), settings.seed):
            parts.setdefault(name, []).append((source[rows], state[rows]))
    probes = {}
    for name, pairs in parts.items():
        boundary, (sources, states) = plan.boundary[name], map(torch.cat, zip(*pairs, strict=True))
        probes[name] = Probe(boundary, drawn_bins(boundary, states), (sources, states))
    return probes


Pieces = Iterable[tuple[str, Tensor, Tensor]]


def _pieces(
    plan: Plan, settings: FitSettings, data: Batches, held: frozenset[int], counts: frozenset[int]
) -> Iterator[tuple[int, Pieces]]:
    """Batches without held-out samples, cut where a count is reached."""
    taken = 0
    for batch_index, x in data:
        _, rows = _rows(data, batch_index, held)
        made = list(first_sources(plan, data.graph, x, spread(plan.fitted, NODES), settings.seed)) if rows else []
        while rows:
            room = min(count for count in counts if count > taken) - taken
            now, rows = rows[:room], rows[room:]
            taken += len(now)
            yield batch_index, [(name, source[now], state[now]) for name, source, state in made]
