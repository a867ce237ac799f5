"""Operator families: what a channel matrix may look like, and its closed-form fit.

A family fills four slots: which moments it needs (``full``), how weights follow from them (``solve``), how they act
on a spectrum (``apply``), and how many numbers they hold (``size``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import PlanError
from sgfi.spectral.moments import Moments
from sgfi.spectral.partition import Partition

Weights = dict[str, Tensor]
SOLVE_BYTES = 64 << 20
"""Workspace of one chunk of solves."""


@dataclass(frozen=True)
class Operator:
    """Full channel matrices: ``G_g = S_HR (S_RR + lambda I)^-1`` (eq:matrix_wiener)."""

    name: str = "full"
    tied: bool = False
    """One group over all bins, whatever the plan's partition."""
    full: bool = True
    """Whether the fit needs full channel moments."""

    def solve(self, moments: Moments, ridge: float) -> Weights:
        return {"gain": _in_chunks(_wiener, moments, ridge)}

    def apply(self, weights: Mapping[str, Tensor], spectrum: Tensor, partition: Partition) -> Tensor:
        """``(F, C, B)`` -> ``(F, C, B)``."""
        return _by_group(weights["gain"], spectrum, partition)

    def size(self, groups: int, channels: int) -> int:
        """Numbers held by one map."""
        return groups * channels * channels


@dataclass(frozen=True)
class Diagonal(Operator):
    """One gain per channel: the matrices are forced to be diagonal."""

    name: str = "diagonal"
    full: bool = False

    def solve(self, moments: Moments, ridge: float) -> Weights:
        xx, yx = moments.mean()
        return {"gain": (yx / (xx.real + ridge)).to(moments.yx.dtype)}

    def apply(self, weights: Mapping[str, Tensor], spectrum: Tensor, partition: Partition) -> Tensor:
        return _spread(weights["gain"], partition).unsqueeze(-1) * spectrum

    def size(self, groups: int, channels: int) -> int:
        return groups * channels


@dataclass(frozen=True)
class Gamma(Diagonal):
    """Diagonal gains shared by all frequencies."""

    name: str = "gamma"
    tied: bool = True


@dataclass(frozen=True)
class DiagonalLowRank(Operator):
    """A diagonal, fitted first, plus the best rank-r correction of what it leaves.

    The correction is the ridge-regularised reduced-rank regression of ``Y - diag X`` on ``X``: with
    ``A = S_EX (S_XX + lambda I)^{-1/2}`` and U its leading left singular vectors, ``U U* S_EX (S_XX + lambda I)^-1``.
    """

    name: str = "diagonal+rank8"
    rank: int = 8

    def solve(self, moments: Moments, ridge: float) -> Weights:
        parts = [self._fit(xx, yx, ridge) for xx, yx in _chunks(moments)]
        dtype = moments.yx.dtype
        return {key: torch.cat([part[key] for part in parts]).to(dtype) for key in parts[0]}

    def _fit(self, xx: Tensor, yx: Tensor, ridge: float) -> Weights:
        diagonal = torch.diagonal(yx, dim1=1, dim2=2) / (torch.diagonal(xx, dim1=1, dim2=2) + ridge)
        left_over = yx - diagonal.unsqueeze(-1) * xx  # E X* of E = Y - diag X
        factor = torch.linalg.cholesky(_regularised(xx, ridge))
        whitened = torch.linalg.solve_triangular(factor, left_over.mH, upper=False).mH
        rank = min(self.rank, xx.shape[-1])
        left = torch.linalg.svd(whitened, full_matrices=False).U[..., :rank]
        right = torch.cholesky_solve((left.mH @ left_over).mH, factor).mH
        return {"diagonal": diagonal, "left": left, "right": right}

    def apply(self, weights: Mapping[str, Tensor], spectrum: Tensor, partition: Partition) -> Tensor:
        low = _by_group(weights["right"], spectrum, partition)
        mixed = _by_group(weights["left"], low, partition)
        return _spread(weights["diagonal"], partition).unsqueeze(-1) * spectrum + mixed

    def size(self, groups: int, channels: int) -> int:
        return groups * channels * (1 + 2 * min(self.rank, channels))


def operator_named(name: str) -> Operator:
    """``full``, ``diagonal``, ``gamma`` or ``diagonal+rank<r>``."""
    plain = {"full": Operator(), "diagonal": Diagonal(), "gamma": Gamma()}
    if name in plain:
        return plain[name]
    ranked = re.fullmatch(r"diagonal\+rank([1-9]\d*)", name)
    if not ranked:
        raise PlanError(
            'operator "full", "diagonal", "gamma" or "diagonal+rank<r>"', repr(name), "Choose one of these."
        )
    return DiagonalLowRank(name=name, rank=int(ranked[1]))


def _regularised(xx: Tensor, ridge: float) -> Tensor:
    shifted = xx.clone()
    torch.diagonal(shifted, dim1=-2, dim2=-1).add_(ridge)
    return shifted


def _wiener(xx: Tensor, yx: Tensor, ridge: float) -> Tensor:
    """``yx (xx + ridge I)^-1`` for Hermitian positive definite ``xx + ridge I``, by Cholesky."""
    factor = torch.linalg.cholesky(_regularised(xx, ridge))
    return torch.cholesky_solve(yx.mH, factor).mH


def _chunks(moments: Moments) -> Iterator[tuple[Tensor, Tensor]]:
    """Group means in double precision where the device has it, a few groups at a time."""
    double = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    dtype = moments.xx.dtype if moments.xx.device.type == "mps" else double.get(moments.xx.dtype, moments.xx.dtype)
    channels = moments.xx.shape[-1]
    step = max(1, SOLVE_BYTES // (4 * channels * channels * dtype.itemsize))
    sizes = moments.partition.sizes[moments.groups.start : moments.groups.stop].to(moments.xx.device)
    weight = (moments.count * sizes).reshape(-1, 1, 1)
    for start in range(0, len(moments.groups), step):
        part = slice(start, start + step)
        yield moments.xx[part].to(dtype) / weight[part], moments.yx[part].to(dtype) / weight[part]


def _in_chunks(solver: Callable[[Tensor, Tensor, float], Tensor], moments: Moments, ridge: float) -> Tensor:
    gains = torch.empty_like(moments.yx)
    start = 0
    for xx, yx in _chunks(moments):
        gains[start : start + len(xx)] = solver(xx, yx, ridge)
        start += len(xx)
    return gains


def _spread(gain: Tensor, partition: Partition) -> Tensor:
    """A group's gain at every bin: ``(K, ...)`` -> ``(F, ...)``, broadcast where one serves all."""
    if partition.kind == "custom":
        return gain[partition.groups.to(gain.device)]
    return gain


def _by_group(gain: Tensor, spectrum: Tensor, partition: Partition) -> Tensor:
    """Apply each group's matrix to its bins without copying it to every bin."""
    if partition.kind == "singleton":
        return torch.bmm(gain, spectrum)
    bins, channels, batch = spectrum.shape
    out = spectrum.new_empty(bins, gain.shape[1], batch)
    for group, members in enumerate(partition.members):
        columns = spectrum[members].transpose(0, 1).reshape(channels, -1)
        mixed = gain[group] @ columns
        out[members] = mixed.reshape(-1, len(members), batch).transpose(0, 1)
    return out
