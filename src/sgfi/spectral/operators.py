"""Operator families: what a channel matrix may look like, and its closed-form fit.

A family fills four slots: which moments it needs (``full``), how weights follow from them (``solve``), how they act
on a spectrum (``apply``), and how many numbers they hold (``size``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import PlanError
from sgfi.spectral.moments import Moments
from sgfi.spectral.partition import Partition
from sgfi.spectral.ridge import chosen, fixed, parts

Weights = dict[str, Tensor]
Samples = Iterable[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Solution:
    """A solved map: its weights, the ridge of each group and, where asked for, what tells a sample's leverage."""

    weights: Weights
    ridge: Tensor
    """(K,) the shift added to each group's diagonal."""
    whitener: Tensor | None = None
    """(K, C, C), see :class:`~sgfi.spectral.ridge.Fit`."""


@dataclass(frozen=True)
class Operator:
    """Full channel matrices: ``G_g = S_HR (S_RR + lambda I)^-1`` (eq:matrix_wiener)."""

    name: str = "full"
    tied: bool = False
    """One group over all bins, whatever the plan's partition."""
    full: bool = True
    """Whether the fit needs full channel moments."""
    tells_leverage: bool = True
    """Whether a sample's share in its own prediction is known."""

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        """``ridge`` is relative (eq:relative_ridge) or ``"auto"``: chosen per group by leave-one-out on ``samples``."""
        if ridge == "auto":
            fit = chosen(moments, samples, whiten=whiten)
        else:
            fit = fixed(moments, float(ridge), whiten=whiten)
        return Solution({"gain": fit.gain}, fit.ridge, fit.whitener)

    def leverage(self, solution: Solution, spectrum: Tensor, partition: Partition, samples: int) -> Tensor | None:
        """(F, 1, B): how much of each sample's own target went into its prediction; ``None`` when not known."""
        if solution.whitener is None:
            return None
        energy = _by_group(solution.whitener, spectrum, partition).abs().square().sum(1, keepdim=True)
        columns = samples * partition.sizes[partition.groups].to(energy)
        return energy / columns.reshape(-1, 1, 1)

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

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        shift = moments.ridge(float(ridge))
        xx, yx = moments.mean()
        shifted = xx.real + shift
        whitener = shifted.rsqrt() if whiten else None
        return Solution({"gain": (yx / shifted).to(moments.yx.dtype)}, torch.tensor([shift]), whitener)

    def leverage(self, solution: Solution, spectrum: Tensor, partition: Partition, samples: int) -> Tensor | None:
        """(F, C, B): each channel is a regression of its own."""
        if solution.whitener is None:
            return None
        energy = (_spread(solution.whitener, partition).unsqueeze(-1) * spectrum).abs().square()
        return energy / (samples * partition.sizes[partition.groups].to(energy)).reshape(-1, 1, 1)

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
    tells_leverage: bool = False

    def solve(self, moments: Moments, ridge: float | str, *, whiten: bool = False, samples: Samples = ()) -> Solution:
        shift = moments.ridge(float(ridge))
        fits = [self._fit(*moments.mean(part, dtype), shift) for part, dtype in parts(moments)]
        weights = {key: torch.cat([fit[key] for fit in fits]).to(moments.yx.dtype) for key in fits[0]}
        return Solution(weights, torch.tensor([shift]))

    def _fit(self, xx: Tensor, yx: Tensor, ridge: float) -> Weights:
        diagonal = torch.diagonal(yx, dim1=1, dim2=2) / (torch.diagonal(xx, dim1=1, dim2=2) + ridge)
        left_over = yx - diagonal.unsqueeze(-1) * xx  # E X* of E = Y - diag X
        shifted = xx.clone()
        torch.diagonal(shifted, dim1=1, dim2=2).add_(ridge)
        factor = torch.linalg.cholesky(shifted)
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
