"""Solves with a ridge: the paper's relative one, or one chosen per group of bins by leave-one-out (PRESS)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.spectral.moments import FLOOR, Moments
from sgfi.spectral.precision import DOUBLE, wide
from sgfi.spectral.quantise import covariance_factor, covariance_factor_of_axes, with_factor
from sgfi.spectral.shrinkage import MAX_LEVERAGE, RIDGES, Samples, SharedGain
from sgfi.spectral.sketch import sketch

SOLVE_BYTES = 64 << 20
"""Workspace of one chunk of solves, unless a single group needs more."""
COPIES = 9
"""Matrices of one group alive at the peak of a solve."""


@dataclass(frozen=True)
class Solution:
    """A solved map, with what leave-one-out needs where it was asked for."""

    weights: dict[str, Tensor]
    """By the operator's own names, beside them the factor that int8 needs (:mod:`~sgfi.spectral.quantise`)."""
    ridge: Tensor
    """(K,) the shift added to each group's diagonal; infinite where no map of its own is best."""
    whitener: Tensor | None = None
    """(K, r, W), r at most W: ``|whitener x|^2 / columns`` is the leverage of a sample's spectrum x."""
    shrunk_to: SharedGain | None = None
    """The shrinkage target, if not zero."""


def solve(moments: Moments, relative: float, *, whiten: bool, per_group: bool = False) -> Solution:
    """``yx (xx + ridge I)^-1`` for Hermitian positive definite ``xx + ridge I``, by Cholesky (eq:matrix_wiener).

    The ridge is relative to the node's mean source moment, or ``per_group`` to each group's own.
    """
    common = torch.tensor(moments.ridge(relative), dtype=moments.energy.dtype)
    ridge = moments.group_ridges(relative) if per_group else common.expand(len(moments.groups))
    gains = torch.empty_like(moments.yx, dtype=moments.dtype)
    whiteners = torch.empty_like(moments.xx, dtype=moments.dtype) if whiten else None
    for part, dtype in parts(moments):
        xx, yx = moments.mean(part, dtype)
        torch.diagonal(xx, dim1=-2, dim2=-1).add_(ridge[part, None].to(xx.real))
        factor = torch.linalg.cholesky(xx)
        half = torch.linalg.solve_triangular(factor.mH, yx, upper=True, left=False)
        gains[part] = torch.linalg.solve_triangular(factor, half, upper=False, left=False)
        if whiteners is not None:
            identity = torch.eye(xx.shape[-1], dtype=dtype, device=xx.device)
            whiteners[part] = torch.linalg.solve_triangular(factor, identity, upper=False)
    return Solution(with_factor(gains, covariance_factor(moments.xx)), ridge.cpu(), whiteners)


def solve_leave_one_out(moments: Moments, samples: Samples, *, whiten: bool) -> Solution:
    """With the ridge of each group that has the least leave-one-out error in mean square.

    With ``xx = V diag(e) V*`` a candidate l needs no new solve: a sample x has leverage
    ``h = sum_k |v_k* x|^2 / (e_k + l) / columns`` and its leave-one-out residual is the plain one over ``1 - h``.
    Several groups are shrunk to one real matrix of all of them rather than to zero: each is fitted to the leave-one-out
    residuals of that matrix. ``samples`` gives the spectra that the moments were made of. Moments that are not bare are
    used up.
    """
    target = SharedGain.fit(samples) if moments.partition.count > 1 else None
    residuals = _Residuals(samples, target)
    axes = _axes_of_samples(moments, samples, residuals) if moments.bare else _axes_of_moments(moments, residuals)
    shifts = torch.tensor([*RIDGES, torch.inf], dtype=moments.energy.dtype) * moments.ridge(1.0)
    best = _leave_one_out_errors(moments, axes, residuals, shifts).argmin(0).cpu()
    return _solution(moments, axes, shifts[best], whiten, target)


@dataclass(frozen=True)
class _Axes:
    """The principal axes of each group's sources: as many as they have columns, where these are fewer than W."""

    values: Tensor
    """(K, r) eigenvalues of ``xx``."""
    vectors: Tensor
    """(K, W, r) V."""
    projected: Tensor
    """(K, C, r) ``yx V``."""


@dataclass(frozen=True)
class _Residuals:
    """Samples whose targets are the leave-one-out residuals of the shrinkage target."""

    samples: Samples
    target: SharedGain | None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.samples:
            yield x, y if self.target is None else y - self.target.unseen(x, y)


def _axes_of_moments(moments: Moments, residuals: _Residuals) -> _Axes:
    """From ``xx`` and ``yx``, in whose storage they are kept afterwards."""
    if residuals.target is not None:
        moments.replace_targets(residuals)
    values = torch.empty(moments.xx.shape[:2], dtype=moments.energy.dtype, device=moments.xx.device)
    for part, dtype in parts(moments):
        eigenvalues, vectors = torch.linalg.eigh(moments.mean(part, dtype)[0])
        values[part] = eigenvalues.clamp(min=0)
        moments.xx[part] = vectors
        moments.yx[part] = moments.mean(part)[1] @ moments.xx[part]
    return _Axes(values, moments.xx, moments.yx)


def _axes_of_samples(moments: Moments, samples: Samples, residuals: _Residuals) -> _Axes:
    """From fewer samples than channels: their Gram matrix has the same eigenvalues, and fewer of them."""
    groups, width, count = len(moments.groups), moments.xx.shape[1], moments.count
    columns = moments.xx.new_empty(groups, width, count)
    _concatenate(columns, (sources for x, y in samples for _, sources, _ in moments.pooled(x, y)))
    values = torch.empty(groups, count, dtype=moments.energy.dtype, device=columns.device)
    for part, dtype in parts(moments):
        values[part], vectors = _principal(columns[part].to(dtype))
        columns[part] = vectors
    projected = moments.yx.new_zeros(groups, moments.yx.shape[1], count)
    for x, y in residuals:
        for _, sources, targets in moments.pooled(x, y):
            projected.baddbmm_(targets, (columns.mH @ sources).mH, alpha=1 / count)
    return _Axes(values, columns, projected)


def _concatenate(out: Tensor, pieces: Iterable[Tensor]) -> None:
    """All samples side by side in ``(K, W, samples)``."""
    start = 0
    for piece in pieces:
        out[..., start : start + piece.shape[-1]] = piece
        start += piece.shape[-1]


def _principal(columns: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues ``(K, samples)`` and eigenvectors ``(K, W, samples)`` of the columns' mean moment."""
    count = columns.shape[-1]
    values, vectors = torch.linalg.eigh(columns.mH @ columns / count)
    values = values.clamp(min=0)
    lengths = (values * count).sqrt()
    significant = lengths > torch.finfo(lengths.dtype).eps ** 0.5 * lengths.amax(-1, keepdim=True)  # the rest: rounding
    return values * significant, columns @ (vectors * (significant / lengths.clamp(min=FLOOR)).unsqueeze(-2))


def _leave_one_out_errors(moments: Moments, axes: _Axes, samples: Samples, shifts: Tensor) -> Tensor:
    """(candidates, K) summed squared leave-one-out residuals; the last candidate is no map of its own."""
    errors = torch.zeros(len(shifts), len(moments.groups), dtype=moments.energy.dtype, device=moments.xx.device)
    values = axes.values.to(axes.vectors.real.dtype)
    columns = moments.columns.to(values.dtype).reshape(-1, 1, 1)
    gains = sketch(axes.projected)  # (K, rows, r)
    for x, y in samples:
        for part, sources, targets in moments.pooled(x, y):
            turned = axes.vectors[part].mH @ sources  # (K, r, B)
            power, sketched = turned.abs().square(), sketch(targets)
            errors[-1, part] += sketched.abs().square().sum((1, 2))
            for candidate, shift in enumerate(shifts[:-1].tolist()):
                inverse = 1 / (values[part] + shift).unsqueeze(-1)
                leverage = (power * inverse).sum(1, keepdim=True) / columns[part]
                missed = (sketched - gains[part] @ (turned * inverse)) / (1 - leverage.clamp(max=MAX_LEVERAGE))
                error = missed.abs().square().sum((1, 2))
                errors[candidate, part] += torch.where(leverage.amax((1, 2)) <= MAX_LEVERAGE, error, torch.inf)
    return errors


def _solution(moments: Moments, axes: _Axes, ridge: Tensor, whiten: bool, target: SharedGain | None) -> Solution:
    """Gains and whiteners from the axes."""
    gains = moments.yx.new_empty(*moments.yx.shape[:2], moments.xx.shape[1])
    whiteners = axes.vectors.new_empty(axes.vectors.mT.shape) if whiten else None
    for part, _ in parts(moments):
        inverse = 1 / (axes.values[part] + ridge[part, None].to(axes.values.device)).unsqueeze(-2)  # (K, 1, r)
        inverse = inverse.to(axes.vectors.real.dtype)
        gains[part] = (axes.projected[part] * inverse) @ axes.vectors[part].mH
        if target is not None:
            gains[part] += target.gain
        if whiteners is not None:
            whiteners[part] = (axes.vectors[part] * inverse.sqrt()).mH
    weights = with_factor(gains, covariance_factor_of_axes(axes.values, axes.vectors))
    return Solution(weights, ridge, whiteners, target)


def reduced_rank(xx: Tensor, yx: Tensor, ridge: float | Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The best ridge regression of y on x of a rank, as two factors: ``(..., C, r)`` and ``(..., r, C)``.

    With ``A = yx (xx + lambda I)^{-1/2}`` and U its leading left singular vectors: U and ``U* yx (xx + lambda I)^-1``.
    """
    shifted = xx.clone()
    torch.diagonal(shifted, dim1=-2, dim2=-1).add_(ridge)
    factor = torch.linalg.cholesky(shifted)
    whitened = torch.linalg.solve_triangular(factor, yx.mH, upper=False).mH
    left = torch.linalg.svd(whitened, full_matrices=False).U[..., : min(rank, xx.shape[-1])]
    return left, torch.cholesky_solve((left.mH @ yx).mH, factor).mH


def parts(moments: Moments) -> Iterator[tuple[slice, torch.dtype]]:
    """A few groups at a time (one empty part of none), with the precision to solve in: double where there is one."""
    dtype = wide(moments.xx.dtype, moments.xx.device)
    step = _step(moments.xx.shape[1], dtype)
    for start in range(0, max(1, len(moments.groups)), step):
        yield slice(start, start + step), dtype


def workspace(groups: int, channels: int, dtype: torch.dtype) -> int:
    """Bytes of the matrices that a chunk of solves holds at once, copies inside the solvers included."""
    solved_in = DOUBLE.get(dtype, dtype)
    return COPIES * min(groups, _step(channels, solved_in)) * channels * channels * solved_in.itemsize


def _step(channels: int, dtype: torch.dtype) -> int:
    """Groups solved at once."""
    return max(1, SOLVE_BYTES // (COPIES * channels * channels * dtype.itemsize))
