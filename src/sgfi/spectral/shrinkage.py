"""The shrinkage target of the matrices that a ridge is chosen for, and leave-one-out (PRESS) prediction.

A matrix per frequency has many numbers and, at small sample sizes, few samples each. Shrunk to zero it forgets what it
could not learn. One real matrix acts alike at every coordinate, is fitted on the samples of all bins at once, and is a
better target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from sgfi.spectral.moments import FLOOR
from sgfi.spectral.precision import wide
from sgfi.spectral.sketch import sketch

MAX_LEVERAGE = 0.95
"""A ridge at which some sample would get more than this share of its prediction from itself is not considered."""
RIDGES = tuple(10.0**power for power in range(-5, 3))
"""Candidates of ``"auto"``, relative to the mean source moment: 1e-5 to 100."""

Samples = Iterable[tuple[Tensor, Tensor]]
"""Spectra ``(F, W, B)`` of sources and ``(F, C, B)`` of targets, batch by batch; can be iterated again."""


@dataclass(frozen=True)
class SharedGain:
    """One real matrix for all bins, with what its leave-one-out prediction needs."""

    gain: Tensor
    """(C, W)"""
    whitener: Tensor
    """(W, W): ``weight |whitener x|^2`` is the leverage of a bin's spectrum x."""
    weight: Tensor
    """(F,) of each bin in the fit: one over its power, so that all bins count alike."""

    @classmethod
    def fit(cls, samples: Samples) -> SharedGain:
        """The real matrix with the least leave-one-out error, in mean square over all bins alike."""
        weight, count = _weights(samples)
        dtype, columns = weight.dtype, len(weight) * count
        xx, yx = (moment / columns for moment in _moments(samples, weight))
        values, vectors = torch.linalg.eigh(xx)
        values, projected = values.clamp(min=0), yx @ vectors
        shifts = [relative * max(float(values.mean()), FLOOR) for relative in RIDGES]
        eigen = values.to(dtype), vectors.to(dtype), projected.to(dtype)
        errors = _leave_one_out_errors(samples, weight, eigen, shifts, columns)
        inverse = 1 / (values + shifts[errors.index(min(errors))])
        gain, whitener = (projected * inverse) @ vectors.mT, (vectors * inverse.sqrt()).mT
        return cls(gain.to(dtype), whitener.to(dtype), weight / columns)

    def __call__(self, x: Tensor) -> Tensor:
        """``(F, W, B)`` -> ``(F, C, B)``."""
        return _real_product(self.gain, x)

    def unseen(self, x: Tensor, y: Tensor) -> Tensor:
        """The leave-one-out prediction of each sample."""
        both = _real_product(torch.cat([self.gain, self.whitener]), x)
        prediction, white = both.split([len(self.gain), len(self.whitener)], 1)
        energy = white.abs().square().sum(1, keepdim=True)
        return leave_one_out(prediction, y, energy * self.weight.reshape(-1, 1, 1))


def leave_one_out(prediction: Tensor, target: Tensor, leverage: Tensor) -> Tensor:
    """What the fit would have predicted for each sample without that sample (PRESS).

    Exact for ridge regression: ``(p - h t) / (1 - h)`` with the sample's leverage h (bounded below one, where a fit
    only repeats its sample).
    """
    bounded = leverage.clamp(max=MAX_LEVERAGE)
    return (prediction - bounded * target) / (1 - bounded)


def _weights(samples: Samples) -> tuple[Tensor, int]:
    """(F,) one over each bin's mean power (zero for a dead bin), and the number of samples."""
    powers = [(x.abs().square().mean(1).sum(1), x.shape[-1]) for x, _ in samples]
    power, count = torch.stack([power for power, _ in powers]).sum(0), sum(size for _, size in powers)
    return torch.where(power > 0, count / power.clamp(min=FLOOR), torch.zeros_like(power)), count


def _moments(samples: Samples, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Sums of ``X X*`` (W, W) and ``Y X*`` (C, W), real."""
    sums: list[Tensor] = []
    for x, y in samples:
        sources, targets = _columns(x, weight), _columns(y, weight)
        dtype = wide(sources.dtype, sources.device)
        products = [(sources @ sources.mT).to(dtype), (targets @ sources.mT).to(dtype)]
        sums = [total + product for total, product in zip(sums, products, strict=True)] if sums else products
    return sums[0], sums[1]


def _leave_one_out_errors(
    samples: Samples, weight: Tensor, eigen: tuple[Tensor, Tensor, Tensor], shifts: list[float], columns: int
) -> list[float]:
    """By candidate: summed squared leave-one-out residuals (of a sketch of the channels)."""
    values, vectors, projected = eigen
    errors = [0.0] * len(shifts)
    projected = sketch(projected)
    for x, y in samples:
        sources, targets = vectors.mT @ _columns(x, weight), sketch(_columns(y, weight))
        power, parts = sources.square(), (-1, 1 + x.is_complex())
        for candidate, shift in enumerate(shifts):
            inverse = 1 / (values + shift).unsqueeze(-1)
            leverage = (power * inverse).sum(0).reshape(parts).sum(1) / columns
            missed = (targets - projected @ (sources * inverse)).square().sum(0).reshape(parts).sum(1)
            error = (missed / (1 - leverage.clamp(max=MAX_LEVERAGE)).square()).sum()
            errors[candidate] += float(error) if float(leverage.max()) <= MAX_LEVERAGE else inf
    return errors


def _columns(x: Tensor, weight: Tensor) -> Tensor:
    """``(F, C, B)`` -> ``(C, columns)``, real: the real and imaginary parts of every bin and sample."""
    scaled = x * weight.sqrt().reshape(-1, 1, 1)
    parts = torch.view_as_real(scaled) if scaled.is_complex() else scaled.unsqueeze(-1)
    return parts.transpose(0, 1).reshape(x.shape[1], -1)


def _real_product(matrix: Tensor, x: Tensor) -> Tensor:
    """A real matrix at every bin: ``(F, W, B)`` -> ``(F, C, B)``."""
    if not x.is_complex():
        return matrix @ x
    pairs = torch.view_as_real(x)
    return torch.view_as_complex((matrix @ pairs.flatten(2)).unflatten(2, pairs.shape[2:]))
