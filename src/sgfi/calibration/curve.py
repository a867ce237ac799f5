"""Whether more samples would help: the error of held-out samples over the number of samples that maps are fitted to.

The curve is that of the first map on true children, at a few nodes from the input to the deepest, with the ridge of the
fit (0.01 where the ridge is chosen). It is measured apart from the fit, on samples held out of the curve alone, and
changes no map. With online or cross-fitted children a node can only be fitted once the deeper ones are done on all
samples, so that nothing could be said of the whole family before its end: there, too, ``until`` is decided on this
curve, before the first node is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sgfi.boundaries import Plan
from sgfi.calibration.batches import Batches
from sgfi.calibration.probing import HeldOut, Probe, drawn_bins
from sgfi.calibration.settings import FitSettings
from sgfi.errors import CalibrationError
from sgfi.inversion.estimator import spread

NODES = 4
FIRST_COUNT = 16
"""Samples of the first point; each further one has twice as many."""
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
    held = HeldOut(plan, data, settings.seed)
    if settings.tangents or not held.numbers or held.fitting < 2:
        return None
    ridge = settings.ridge if isinstance(settings.ridge, float) else RIDGE
    names, counts = spread(plan.fitted, NODES), _counts(held.fitting)
    probes = {
        name: Probe(plan.boundary[name], drawn_bins(plan.boundary[name], own[1]), own)
        for name, own in held.judging(names).items()
    }
    samples: list[int] = []
    curve: LearningCurve | None = None
    missed: dict[str, list[float]] = {name: [] for name in probes}
    for batch_index, spectra in held.batches(names, counts):
        for name, x, y in spectra:
            probes[name].add(x, y)
        taken = next(iter(probes.values())).samples
        if taken in counts:
            samples.append(taken)
            for name, probe in probes.items():
                missed[name].append(probe.missed(ridge))
            shares = {name: tuple(own) for name, own in missed.items()}
            curve = LearningCurve(tuple(samples), shares, len(held.numbers), until)
            if curve.converged and batch_index + 1 < len(data.sizes):
                return replace(curve, batches=batch_index + 1)
    return curve


def _counts(most: int) -> frozenset[int]:
    counts = [FIRST_COUNT]
    while 2 * counts[-1] < most:
        counts.append(2 * counts[-1])
    return frozenset(count for count in counts if count < most) | {most}
