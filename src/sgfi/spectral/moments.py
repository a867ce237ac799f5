"""Streaming second moments: a monoid of ``empty``, ``update`` and ``merge``.

Law: the moments of any split of the samples, merged in any order, are the moments of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgfi.spectral.devices import wide
from sgfi.spectral.partition import Partition

FLOOR = 1e-30
"""Protects the relative ridge in the degenerate zero-source case (eq:relative_ridge)."""


@dataclass
class Moments:
    """Sums over samples of ``X X*`` and ``Y X*``, pooled over the bins of each group.

    For full matrices ``xx`` is ``(K, W, W)`` and ``yx`` ``(K, C, W)``, where W is what the operator reads, most often
    the C channels; where only channel-wise moments are kept, both are ``(K, C)``.
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
        width: int | None = None,
        groups: range | None = None,
        device: torch.device | str = "cpu",
    ) -> Moments:
        groups = range(partition.count) if groups is None else groups
        reads = (width or channels,) if full else ()
        sums = wide(torch.float32, device)
        return cls(
            xx=torch.zeros(len(groups), *(reads or (channels,)), *reads, dtype=dtype, device=device),
            yx=torch.zeros(len(groups), channels, *reads, dtype=dtype, device=device),
            energy=torch.zeros((), dtype=sums, device=device),
            target=torch.zeros((), dtype=sums, device=device),
            count=0,
            partition=partition,
            groups=groups,
        )

    @property
    def full(self) -> bool:
        return self.xx.dim() == 3

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add a batch of spectra, ``(F, W, B)`` and ``(F, C, B)``."""
        self.energy += x.abs().square().sum(dtype=self.energy.dtype)
        self.target += y.abs().square().sum(dtype=self.target.dtype)
        self.count += x.shape[-1]
        for place, one, two in self.pooled(x, y):
            conjugate = one.conj().resolve_conj()
            if self.full:
                self.xx[place].baddbmm_(one, conjugate.transpose(1, 2))
                self.yx[place].baddbmm_(two, conjugate.transpose(1, 2))
            else:
                self.xx[place] += (one * conjugate).sum(-1)
                self.yx[place] += (two * conjugate).sum(-1)

    def replace_targets(self, samples: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Full ``Y X*`` of the same sources with other targets."""
        self.yx.zero_()
        for x, y in samples:
            for place, one, two in self.pooled(x, y):
                self.yx[place].baddbmm_(two, one.mH.resolve_conj())

    def merge(self, other: Moments) -> None:
        """Add the moments of other samples."""
        self.xx += other.xx
        self.yx += other.yx
        self.energy += other.energy
        self.target += other.target
        self.count += other.count

    def narrowed(self, groups: range) -> Moments:
        """The same samples' moments of fewer groups, in the same storage."""
        part = slice(groups.start - self.groups.start, groups.stop - self.groups.start)
        return replace(self, xx=self.xx[part], yx=self.yx[part], groups=groups)

    def pooled(self, x: Tensor, y: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Our groups and their columns: all at once ``(K, C, B)``, or a group at a time ``(1, C, |g| B)``."""
        if self.partition.kind == "singleton":
            ours = slice(self.groups.start, self.groups.stop)
            yield slice(None), x[ours].contiguous(), y[ours].contiguous()
            return
        for place, group in enumerate(self.groups):
            bins = self.partition.members[group].to(x.device)
            one, two = (part[bins].transpose(0, 1).reshape(1, part.shape[1], -1) for part in (x, y))
            yield slice(place, place + 1), one, two

    @property
    def columns(self) -> Tensor:
        """(K,) spectral vectors behind each group: samples times bins."""
        sizes = self.partition.sizes[self.groups.start : self.groups.stop].to(self.xx.device)
        return self.count * sizes

    def mean(self, part: slice = slice(None), dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Means of ``X X*`` and ``Y X*`` over a part of the groups (eq:grouped_spectral_moments)."""
        weight = self.columns[part].to(self.energy.dtype).reshape(-1, *[1] * (self.xx.dim() - 1))
        dtype = dtype or self.xx.dtype
        return self.xx[part].to(dtype, copy=True).div_(weight), self.yx[part].to(dtype, copy=True).div_(weight)

    def ridge(self, relative: float) -> float:
        """``rho max(mean of the diagonal over stored bins and channels, floor)`` (eq:relative_ridge)."""
        channels = self.xx.shape[1]
        mean = float(self.energy) / (self.count * self.partition.bins * channels)
        return relative * max(mean, FLOOR)

    def own_ridge(self, relative: float) -> Tensor:
        """(K,) the same with the mean over each group alone."""
        diagonal = torch.diagonal(self.xx, dim1=-2, dim2=-1).real.to(self.energy.dtype)
        return relative * (diagonal.mean(1) / self.columns).clamp(min=FLOOR).cpu().double()

    @staticmethod
    def size(groups: int, channels: int, dtype: torch.dtype, *, full: bool = True, width: int | None = None) -> int:
        """Bytes of one accumulator pair."""
        reads = width or channels
        return groups * ((reads + channels) * reads if full else 2 * channels) * dtype.itemsize
