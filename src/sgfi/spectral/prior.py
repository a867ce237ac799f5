"""What a group's own matrix is held toward where its samples say little: one real matrix for all bins.

A matrix per frequency has many numbers and, at small sample sizes, few samples each; held toward zero it forgets what
it could not learn. One real matrix acts alike at every coordinate, is fitted on the samples of all bins at once, and
is the better guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from sgfi.spectral.devices import wide
from sgfi.spectral.sketch import Sketch

FLOOR = 1e-30
OWN = 0.95
"""A ridge at which some sample would get more than this share of its prediction from itself is not considered."""
GRID = tuple(10.0**power for power in range(-5, 3))
"""Ridges that ``"auto"`` tries, relative to the mean source moment: 1e-5 to 100."""

Samples = Iterable[tuple[Tensor, Tensor]]
"""Spectra ``(F, W, B)`` of sources and ``(F, C, B)`` of targets, batch by batch; can be gone through again."""


@dataclass(frozen=True)
class Prior:
    """One real map of all bins, and what leaving a sample out needs to know about it."""

    gain: Tensor
    """(C, W)"""
    whitener: Tensor
    """(W, W): ``weight |whitener x|^2`` is the leverage of a bin's spectrum x."""
    weight: Tensor
    """(F,) how much a bin counted: all bins alike, whatever their power."""

    def __call__(self, x: Tensor) -> Tensor:
        """``(F, W, B)`` -> ``(F, C, B)``."""
        return _times(self.gain, x)

    def unseen(self, x: Tensor, y: Tensor) -> Tensor:
        """What it would have said of each sample had it not seen that sample."""
        found, white = _times(torch.cat([self.gain, self.whitener]), x).split([len(self.gain), len(self.whitener)], 1)
        energy = white.abs().square().sum(1, keepdim=True)
        return leave_one_out(found, y, energy * self.weight.reshape(-1, 1, 1))


def shared(samples: Samples) -> Prior:
    """The real map that predicts best, in mean square over all bins alike, every column from all the others."""
    weight, columns = _weights(samples)
    dtype, total = weight.dtype, len(weight) * columns
    xx, yx = (moment / total for moment in _moments(samples, weight))
    values, vectors = torch.linalg.eigh(xx)
    values, turned = values.clamp(min=0), yx @ vectors
    shifts = [relative * max(float(values.mean()), FLOOR) for relative in GRID]
    errors = _leave_one_out_errors(
        samples, weight, values.to(dtype), vectors.to(dtype), turned.to(dtype), shifts, total
    )
    held = 1 / (values + shifts[errors.index(min(errors))])
    gain, whitener = (turned * held) @ vectors.mT, (vectors * held.sqrt()).mT
    return Prior(gain.to(dtype), whitener.to(dtype), weight / total)


def leave_one_out(prediction: Tensor, target: Tensor, leverage: Tensor) -> Tensor:
    """What the fit would have predicted for each sample had it not seen that sample.

    Exact for ridge regression: ``(p - h t) / (1 - h)`` with the sample's leverage h (held below one, where a fit only
    repeats its sample).
    """
    bounded = leverage.clamp(max=OWN)
    return (prediction - bounded * target) / (1 - bounded)


def _weights(samples: Samples) -> tuple[Tensor, int]:
    """(F,) one over each bin's mean power (zero for a dead bin), and the number of samples."""
    found = [(x.abs().square().mean(1).sum(1), x.shape[-1]) for x, _ in samples]
    power, count = torch.stack([one for one, _ in found]).sum(0), sum(size for _, size in found)
    return torch.where(power > 0, count / power.clamp(min=FLOOR), torch.zeros_like(power)), count


def _moments(samples: Samples, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of ``X X*`` (W, W) and ``Y X*`` (C, W), real."""
    sums: list[Tensor] = []
    for x, y in samples:
        one, two = _columns(x, weight), _columns(y, weight)
        dtype = wide(one.dtype, one.device)
        found = [(one @ one.mT).to(dtype), (two @ one.mT).to(dtype)]
        sums = [a + b for a, b in zip(sums, found, strict=True)] if sums else found
    return sums[0], sums[1]


def _leave_one_out_errors(
    samples: Samples, weight: Tensor, values: Tensor, vectors: Tensor, turned: Tensor, shifts: list[float], total: int
) -> list[float]:
    """By candidate: summed squared leave-one-out residuals (of a sketch of the channels)."""
    errors = [0.0] * len(shifts)
    sketch = Sketch.of(len(turned), like=turned)
    turned = sketch(turned)
    for x, y in samples:
        one, two = vectors.mT @ _columns(x, weight), sketch(_columns(y, weight))
        power, parts = one.square(), (-1, 1 + x.is_complex())
        for candidate, shift in enumerate(shifts):
            held = 1 / (values + shift).unsqueeze(-1)
            leverage = (power * held).sum(0).reshape(parts).sum(1) / total
            missed = (two - turned @ (one * held)).square().sum(0).reshape(parts).sum(1)
            error = (missed / (1 - leverage.clamp(max=OWN)).square()).sum()
            errors[candidate] += float(error) if float(leverage.max()) <= OWN else inf
    return errors


def _columns(x: Tensor, weight: Tensor) -> Tensor:
    """``(F, C, B)`` -> ``(C, columns)``, real: the real and imaginary parts of every bin and sample."""
    scaled = x * weight.sqrt().reshape(-1, 1, 1)
    parts = torch.view_as_real(scaled) if scaled.is_complex() else scaled.unsqueeze(-1)
    return parts.transpose(0, 1).reshape(x.shape[1], -1)


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    """A real matrix at every bin: ``(F, W, B)`` -> ``(F, C, B)``."""
    if not x.is_complex():
        return matrix @ x
    pairs = torch.view_as_real(x)
    return torch.view_as_complex((matrix @ pairs.flatten(2)).unflatten(2, pairs.shape[2:]))
