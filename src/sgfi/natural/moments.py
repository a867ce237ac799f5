"""Streaming first, second and fourth moments, and the shrinkage covariance they determine."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Moments:
    """Sums over samples z of C numbers, in G groups of their own; a monoid under :meth:`merge`."""

    count: Tensor
    """(G,) samples."""
    first: Tensor
    """(G, C) sum of z."""
    second: Tensor
    """(G, C, C) sum of z z'."""
    third: Tensor
    """(G, C) sum of |z|^2 z."""
    fourth: Tensor
    """(G,) sum of |z|^4."""

    @classmethod
    def of(cls, samples: Tensor) -> Moments:
        """Of samples ``(G, n, C)``."""
        power = samples.square().sum(-1, keepdim=True)  # (G, n, 1)
        count = samples.new_full((len(samples),), samples.shape[1])
        third, fourth = (power * samples).sum(1), power.square().sum((1, 2))
        return cls(count, samples.sum(1), samples.mT @ samples, third, fourth)

    def merge(self, other: Moments) -> Moments:
        """Of both sets of samples."""
        return Moments(
            self.count + other.count,
            self.first + other.first,
            self.second + other.second,
            self.third + other.third,
            self.fourth + other.fourth,
        )

    def pooled(self, group: Tensor, groups: int) -> Moments:
        """Groups joined into fewer ones: ``group`` (G,) says into which."""

        def joined(sums: Tensor) -> Tensor:
            return sums.new_zeros(groups, *sums.shape[1:]).index_add_(0, group, sums)

        return Moments(*map(joined, (self.count, self.first, self.second, self.third, self.fourth)))

    @property
    def mean(self) -> Tensor:
        """(G, C)"""
        return self.first / self.count.unsqueeze(-1)

    def centred(self) -> Moments:
        """The same samples about each group's mean."""
        mean, count = self.mean, self.count
        length = mean.square().sum(-1)  # (G,)
        inner = (mean.unsqueeze(1) @ self.second @ mean.unsqueeze(-1)).flatten()  # m' (sum z z') m
        power = self.second.diagonal(dim1=-2, dim2=-1).sum(-1)
        second = self.second - count.reshape(-1, 1, 1) * mean.unsqueeze(-1) * mean.unsqueeze(-2)
        # sum (|z|^2 - 2 m.z + |m|^2)^2, multiplied out
        fourth = (
            self.fourth
            + 4 * inner
            + count * length.square()
            - 4 * (mean * self.third).sum(-1)
            + 2 * length * power
            - 4 * length * (mean * self.first).sum(-1)
        )
        zero = torch.zeros_like(self.first)
        return Moments(count, zero, (second + second.mT) / 2, zero, fourth)

    def shrunk(self) -> Tensor:
        """(G, C, C) the second moment drawn toward a multiple of the unit matrix, by Ledoit and Wolf's closed form.

        Of :meth:`centred` moments it is the shrinkage covariance, otherwise the one about zero.
        """
        count = self.count.reshape(-1, 1, 1)
        raw, channels = self.second / count, self.first.shape[-1]
        unit = torch.eye(channels, dtype=raw.dtype, device=raw.device)
        level = raw.diagonal(dim1=-2, dim2=-1).mean(-1)  # (G,)
        target = level.reshape(-1, 1, 1) * unit
        spread = (raw - target).square().sum((1, 2))  # how far the matrix is from the target
        noise = (self.fourth / self.count - raw.square().sum((1, 2))).clamp(min=0) / self.count
        share = torch.where(spread > 0, noise / spread.clamp(min=torch.finfo(raw.dtype).tiny), 0.0).clamp(max=1)
        return raw + share.reshape(-1, 1, 1) * (target - raw)
