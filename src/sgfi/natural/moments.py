"""Streaming moments up to the fourth order, and the shrinkage covariance they determine.

Law: multiplying a channel by any number multiplies its row and column of the covariance by that number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import DataError

FLOOR = 1e-6
"""Smallest variance of any direction, relative to each channel's own: a covariance must be positive definite."""


@dataclass(frozen=True)
class Moments:
    """Sums over samples z of C numbers, in G groups of their own; a monoid under :meth:`merge`."""

    count: Tensor
    """(G,) samples."""
    first: Tensor
    """(G, C) sum of z."""
    second: Tensor
    """(G, C, C) sum of z_i z_j."""
    third: Tensor
    """(G, C, C) sum of z_i z_j^2."""
    fourth: Tensor
    """(G, C, C) sum of z_i^2 z_j^2."""

    @classmethod
    def of(cls, samples: Tensor) -> Moments:
        """Of samples ``(G, n, C)``."""
        squares, count = samples.square(), samples.new_full((len(samples),), samples.shape[1])
        return cls(count, samples.sum(1), samples.mT @ samples, samples.mT @ squares, squares.mT @ squares)

    def merge(self, other: Moments) -> Moments:
        """Of both sets of samples."""
        return Moments(
            self.count + other.count,
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
            self.fourth + other.fourth,
        )

    @property
    def mean(self) -> Tensor:
        """(G, C)"""
        return self.first / self.count.unsqueeze(-1)

    def centred(self) -> Moments:
        """The same samples about each group's mean."""
        mean, count = self.mean, self.count.reshape(-1, 1, 1)
        outer, power = _outer(mean), self.second.diagonal(dim1=-2, dim2=-1)
        # sum (z_i - m_i)^2 (z_j - m_j)^2, multiplied out; what is not symmetric stands for itself and its transpose
        odd = mean.square().unsqueeze(-1) * power.unsqueeze(-2) - 2 * mean.unsqueeze(-1) * self.third
        fourth = self.fourth + odd + odd.mT + 4 * outer * self.second - 3 * count * outer.square()
        second = self.second - count * outer
        return Moments(self.count, torch.zeros_like(mean), (second + second.mT) / 2, torch.zeros_like(second), fourth)

    def shrunk(self) -> Tensor:
        """(G, C, C) the second moment with its channels drawn apart: Ledoit and Wolf's closed form toward a multiple
        of the unit matrix, with every channel in units of its own deviation. Variances stay as they are.

        Of :meth:`centred` moments it is the shrinkage covariance, otherwise the one about zero.
        """
        count = self.count.reshape(-1, 1, 1)
        raw = self.second / count
        own = torch.diag_embed(raw.diagonal(dim1=-2, dim2=-1))
        variance = _outer(raw.diagonal(dim1=-2, dim2=-1))
        correlation = torch.where(variance > 0, raw.square() / variance, 0.0)  # squared
        noise = (torch.where(variance > 0, self.fourth / count / variance, 0.0) - correlation).sum((1, 2))
        noise = noise.clamp(min=0) / self.count
        spread = correlation.sum((1, 2)) - correlation.diagonal(dim1=-2, dim2=-1).sum(-1)  # how far from unit
        share = torch.where(spread > 0, noise / spread.clamp(min=torch.finfo(raw.dtype).tiny), 0.0).clamp(max=1)
        return raw + share.reshape(-1, 1, 1) * (own - raw)


def floor(power: Tensor, mean: Tensor, dtype: torch.dtype) -> Tensor:
    """(C, C) what is added to a covariance for every direction to vary: a part of each channel's variance in ``power``.

    A channel that varies about its ``mean`` by less than numbers of ``dtype`` can tell is constant, and counts like the
    least of the others. ``power`` and ``mean`` are (C,).
    """
    varies = power > (4 * torch.finfo(dtype).eps * mean).square()
    if not varies.any():
        raise DataError("inputs that vary", "constant ones", "Give real samples.")
    return FLOOR * torch.where(varies, power, power[varies].min()).diag()


def _outer(rows: Tensor) -> Tensor:
    """(G, C) -> (G, C, C)"""
    return rows.unsqueeze(-1) * rows.unsqueeze(-2)
