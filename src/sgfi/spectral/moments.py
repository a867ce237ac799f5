"""Streaming second moments: a monoid of ``empty``, ``update`` and ``merge``.

Law: the moments of any split of the samples, merged in any order, are the moments of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.spectral.partition import Partition

FLOOR = 1e-30
"""Protects the relative ridge in the degenerate zero-source case (eq:relative_ridge)."""
FEW = 4
"""Up to this many channels, products are done element by element: batched matrix kernels cost more than the work."""


@dataclass
class Moments:
    """Sums over samples of ``X X*`` and ``Y X*``, pooled over the bins of each group.

    For full matrices ``xx`` and ``yx`` are ``(K, C, C)``; where only channel-wise moments are kept, ``(K, C)``.
    ``energy`` is the sum of ``|X|^2`` over *all* stored bins, also when only a range of groups is accumulated here:
    the ridge is one number per node. ``target`` is the sum of ``|Y|^2``.
    """

    xx: Tensor
    yx: Tensor
    energy: Tensor
    target: Tensor
    count: int
    partition: Partition
    groups: range

    @classmethod
    def empty(
        cls,
        partition: Partition,
        channels: int,
        dtype: torch.dtype,
        *,
        full: bool = True,
        groups: range | None = None,
        device: torch.device | str = "cpu",
    ) -> Moments:
        groups = range(partition.count) if groups is None else groups
        shape = (len(groups), channels, channels) if full else (len(groups), channels)
        zero = torch.zeros((), dtype=torch.float64 if torch.device(device).type == "cpu" else torch.float32)
        return cls(
            xx=torch.zeros(shape, dtype=dtype, device=device),
            yx=torch.zeros(shape, dtype=dtype, device=device),
            energy=zero.to(device),
            target=zero.to(device),
            count=0,
            partition=partition,
            groups=groups,
        )

    @property
    def full(self) -> bool:
        return self.xx.dim() == 3

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add a batch of spectra, both ``(F, C, B)``."""
        self.energy += x.abs().square().sum(dtype=self.energy.dtype)
        self.target += y.abs().square().sum(dtype=self.target.dtype)
        self.count += x.shape[-1]
        x, y = self._pooled(x), self._pooled(y)
        if isinstance(x, Tensor) and isinstance(y, Tensor):  # one bin a group
            _accumulate(self.xx, x, x)
            _accumulate(self.yx, y, x)
        else:
            for place, (one, two) in enumerate(zip(x, y, strict=True)):
                _accumulate(self.xx[place : place + 1], one, one)
                _accumulate(self.yx[place : place + 1], two, one)

    def merge(self, other: Moments) -> None:
        """Add the moments of other samples."""
        self.xx += other.xx
        self.yx += other.yx
        self.energy += other.energy
        self.target += other.target
        self.count += other.count

    def _pooled(self, spectrum: Tensor) -> Tensor | list[Tensor]:
        """The bins of our groups: ``(K, C, B)``, or per group ``(1, C, |g| B)``."""
        if self.partition.kind == "singleton":
            return spectrum[self.groups.start : self.groups.stop]
        channels = spectrum.shape[1]
        members = (self.partition.members[group] for group in self.groups)
        return [spectrum[bins].permute(1, 0, 2).reshape(1, channels, -1) for bins in members]

    def mean(self) -> tuple[Tensor, Tensor]:
        """Group means of ``X X*`` and ``Y X*`` (eq:grouped_spectral_moments)."""
        sizes = self.partition.sizes[self.groups.start : self.groups.stop].to(self.xx.device)
        weight = (self.count * sizes).to(self.energy.dtype).reshape(-1, *[1] * (self.xx.dim() - 1))
        return self.xx / weight, self.yx / weight

    def ridge(self, relative: float) -> float:
        """``rho max(mean of the diagonal over stored bins and channels, floor)`` (eq:relative_ridge)."""
        channels = self.xx.shape[1]
        mean = float(self.energy) / (self.count * self.partition.bins * channels)
        return relative * max(mean, FLOOR)

    @staticmethod
    def size(groups: int, channels: int, dtype: torch.dtype, *, full: bool = True) -> int:
        """Bytes of one accumulator pair."""
        return 2 * groups * channels ** (2 if full else 1) * dtype.itemsize


def _accumulate(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total += left right*`` over the sample axis; ``(K, C, B)`` each."""
    if total.dim() == 2:
        total += (left * right.conj()).sum(-1)
    elif left.shape[1] <= FEW:
        for row in range(left.shape[1]):
            total[:, row] += (left[:, row : row + 1] * right.conj()).sum(-1)
    else:
        total.baddbmm_(left, right.mH)
