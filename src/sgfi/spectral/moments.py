"""Streaming second moments: a monoid of ``empty``, ``update`` and ``merge``.

Law: the moments of any split of the samples, merged in any order, are the moments of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgfi.spectral.partition import Partition
from sgfi.spectral.precision import wide

PRODUCT_BYTES = 4 << 20
"""Products made before they are added to sums of another precision: little enough for a processor's cache."""
FLOOR = 1e-30
"""Least value of a power that is divided by: protects the relative ridge of a zero source (eq:relative_ridge)."""


@dataclass(frozen=True)
class MomentShape:
    """What is summed in each group of bins."""

    channels: int
    """C of the targets."""
    width: int | None = None
    """W of the sources; by default C."""
    full: bool = True
    """Matrices, or channel-wise sums."""
    bare: bool = False
    """Only counts and energies."""

    @property
    def reads(self) -> int:
        return self.width or self.channels

    def numbers(self, samples: int | None = None) -> int:
        """In one group, or in what is made of ``samples`` in its place."""
        return (self.reads + self.channels) * (samples or self.reads) if self.full else 2 * self.channels


@dataclass
class Moments:
    """Sums over samples of ``X X*`` and ``Y X*``, pooled over the bins of each group.

    For full matrices ``xx`` is ``(K, W, W)`` and ``yx`` ``(K, C, W)``, where W is what the operator reads, most often
    the C channels; where only channel-wise moments are kept, both are ``(K, C)``. ``bare`` ones count samples and
    energies alone: with fewer samples than channels the samples themselves hold the same in fewer numbers.
    ``energy`` is the sum of ``|X|^2`` over *all* stored bins, also when only a range of groups is accumulated here:
    the ridge is one number per node. ``target`` is the sum of ``|Y|^2``. The sums may be in double precision, which
    makes them independent of the order of the batches; products and what is solved are in that of the spectra.
    """

    xx: Tensor
    yx: Tensor
    energy: Tensor
    target: Tensor
    count: int
    partition: Partition
    groups: range
    dtype: torch.dtype
    """Of the spectra."""

    @classmethod
    def empty(
        cls,
        partition: Partition,
        shape: int | MomentShape,
        dtype: torch.dtype,
        *,
        groups: range | None = None,
        device: torch.device | str = "cpu",
        sums: torch.dtype | None = None,
    ) -> Moments:
        """No samples yet. ``shape`` may be the number of channels; ``sums`` is the dtype of the sums."""
        groups = range(partition.count) if groups is None else groups
        shape = MomentShape(shape) if isinstance(shape, int) else shape
        across = (0 if shape.bare else shape.reads,) if shape.full else ()
        energies = wide(torch.float32, device)
        return cls(
            xx=torch.zeros(len(groups), shape.reads, *across, dtype=sums or dtype, device=device),
            yx=torch.zeros(len(groups), shape.channels, *across, dtype=sums or dtype, device=device),
            energy=torch.zeros((), dtype=energies, device=device),
            target=torch.zeros((), dtype=energies, device=device),
            count=0,
            partition=partition,
            groups=groups,
            dtype=dtype,
        )

    @property
    def full(self) -> bool:
        return self.xx.dim() == 3

    @property
    def bare(self) -> bool:
        return self.full and not self.xx.shape[-1]

    def update(self, x: Tensor, y: Tensor) -> None:
        """Add a batch of spectra, ``(F, W, B)`` and ``(F, C, B)``."""
        self.energy += _energy(x, self.energy.dtype)
        self.target += _energy(y, self.target.dtype)
        self.count += x.shape[-1]
        for part, sources, targets in () if self.bare else self.pooled(x, y):
            conjugate = sources.conj().resolve_conj()
            if self.full:
                _add_product(self.xx[part], sources, conjugate.mT)
                _add_product(self.yx[part], targets, conjugate.mT)
            else:
                self.xx[part] += (sources * conjugate).sum(-1)
                self.yx[part] += (targets * conjugate).sum(-1)

    def replace_targets(self, samples: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Full ``Y X*`` of the same sources with other targets."""
        self.yx.zero_()
        for x, y in samples:
            for part, sources, targets in self.pooled(x, y):
                _add_product(self.yx[part], targets, sources.mH.resolve_conj())

    def merge(self, other: Moments) -> None:
        """Add the moments of other samples."""
        self.xx += other.xx
        self.yx += other.yx
        self.energy += other.energy
        self.target += other.target
        self.count += other.count

    def copy(self) -> Moments:
        """With storage of its own."""
        return replace(
            self, xx=self.xx.clone(), yx=self.yx.clone(), energy=self.energy.clone(), target=self.target.clone()
        )

    @classmethod
    def joined(cls, pieces: Sequence[Moments]) -> Moments:
        """Of the same samples, the moments of neighbouring ranges of groups as one."""
        first, last = pieces[0], pieces[-1]
        xx, yx = torch.cat([piece.xx for piece in pieces]), torch.cat([piece.yx for piece in pieces])
        return replace(first, xx=xx, yx=yx, groups=range(first.groups.start, last.groups.stop))

    def coarsened(self, partition: Partition) -> Moments:
        """The same samples' moments of larger groups: those of a union are the sum of its parts'."""
        old, new = self.partition.groups, partition.groups
        owner = torch.zeros(self.partition.count, dtype=torch.int64).scatter_(0, old, new)
        if len(old) != len(new) or not torch.equal(owner[old], new):
            raise ValueError("a group that is not a union of the groups that were summed")
        xx, yx = (
            sums.new_zeros(partition.count, *sums.shape[1:]).index_add_(0, owner.to(sums.device), sums)
            for sums in (self.xx, self.yx)
        )
        return replace(self, xx=xx, yx=yx, partition=partition, groups=range(partition.count))

    def channelwise(self) -> Moments:
        """Of full matrices, what channel-wise moments have kept."""
        if not self.full:
            return self
        xx, yx = (torch.diagonal(sums, dim1=1, dim2=2).clone() for sums in (self.xx, self.yx))
        return replace(self, xx=xx, yx=yx)

    def narrowed(self, groups: range) -> Moments:
        """The same samples' moments of fewer groups, in the same storage."""
        part = slice(groups.start - self.groups.start, groups.stop - self.groups.start)
        return replace(self, xx=self.xx[part], yx=self.yx[part], groups=groups)

    def pooled(self, x: Tensor, y: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """The groups kept here and their columns ``(k, C, |g| B)``: all at once, or those of one size at a time."""
        if self.partition.kind == "singleton":
            own = slice(self.groups.start, self.groups.stop)
            yield slice(None), x[own], y[own]
            return
        for part, bins in self.partition.runs(self.groups):
            yield part, gathered(x, bins), gathered(y, bins)

    @property
    def columns(self) -> Tensor:
        """(K,) spectral vectors behind each group: samples times bins."""
        sizes = self.partition.sizes[self.groups.start : self.groups.stop].to(self.xx.device)
        return self.count * sizes

    def mean(self, part: slice = slice(None), dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
        """Means of ``X X*`` and ``Y X*`` over a part of the groups (eq:grouped_spectral_moments)."""
        weight = self.columns[part].to(self.energy.dtype).reshape(-1, *[1] * (self.xx.dim() - 1))
        dtype = dtype or self.dtype
        return self.xx[part].to(dtype, copy=True).div_(weight), self.yx[part].to(dtype, copy=True).div_(weight)

    def ridge(self, relative: float) -> float:
        """``rho max(mean of the diagonal over stored bins and channels, floor)`` (eq:relative_ridge)."""
        return relative * max(self.mean_energy, FLOOR)

    @property
    def mean_energy(self) -> float:
        """Of one number of the sources, over stored bins and channels."""
        return float(self.energy) / (self.count * self.partition.bins * self.xx.shape[1])

    def group_ridges(self, relative: float) -> Tensor:
        """(K,) the same with the mean over each group alone."""
        diagonal = torch.diagonal(self.xx, dim1=-2, dim2=-1).real.to(self.energy.dtype)
        return relative * (diagonal.mean(1) / self.columns).clamp(min=FLOOR)


def _add_product(sums: Tensor, left: Tensor, right: Tensor) -> None:
    """``(K, R, B)`` times ``(K, B, C)`` onto ``(K, R, C)``."""
    if sums.dtype == left.dtype:
        sums.baddbmm_(left, right)
        return
    step = max(1, PRODUCT_BYTES // (sums.shape[1] * sums.shape[2] * left.dtype.itemsize))
    for start in range(0, len(sums), step):
        part = slice(start, start + step)
        sums[part] += torch.bmm(left[part], right[part])


def gathered(spectrum: Tensor, bins: Tensor) -> Tensor:
    """The columns of groups of bins ``(k, |g|)``: ``(F, C, B)`` -> ``(k, C, |g| B)``."""
    return spectrum[bins.to(spectrum.device)].transpose(1, 2).flatten(2)


def _energy(spectrum: Tensor, dtype: torch.dtype) -> Tensor:
    """Sum of ``|X|^2``; the squares are taken in ``dtype`` too, which reaches further down and up."""
    parts = torch.view_as_real(spectrum) if spectrum.is_complex() else spectrum
    return torch.linalg.vector_norm(parts, dtype=dtype).square()
