"""How strongly a fit is held back: the paper's relative ridge, or one chosen per group of bins by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.spectral.devices import DOUBLE, wide
from sgfi.spectral.moments import Moments
from sgfi.spectral.prior import GRID, OWN, Prior, Samples, shared

SOLVE_BYTES = 64 << 20
"""Workspace of one chunk of solves, unless a single group needs more."""
COPIES = 9
"""Matrices of one group alive at the height of a solve."""


@dataclass(frozen=True)
class Fit:
    """Solved gains (K, C, W) with what leave-one-out needs to know about them."""

    gain: Tensor
    ridge: Tensor
    """(K,) the shift added to each group's diagonal; infinite where nothing is better than any map of its own."""
    whitener: Tensor | None
    """(K, W, W): ``|whitener x|^2 / columns`` is the leverage of a sample's spectrum x."""
    prior: Prior | None = None
    """What the gains were held toward, if not toward zero."""


def fixed(moments: Moments, relative: float, *, whiten: bool, apart: bool = False) -> Fit:
    """``yx (xx + ridge I)^-1`` for Hermitian positive definite ``xx + ridge I``, by Cholesky (eq:matrix_wiener).

    The ridge is relative to the node's mean source moment, or where groups stand ``apart`` to each group's own.
    """
    one = torch.tensor(moments.ridge(relative), dtype=torch.float64)
    ridge = moments.own_ridge(relative) if apart else one.expand(len(moments.groups))
    gains = torch.empty_like(moments.yx)
    whiteners = torch.empty_like(moments.xx) if whiten else None
    for part, dtype in parts(moments):
        xx, yx = moments.mean(part, dtype)
        torch.diagonal(xx, dim1=-2, dim2=-1).add_(ridge[part, None].to(xx.real))
        factor = torch.linalg.cholesky(xx)
        gains[part] = torch.cholesky_solve(yx.mH, factor).mH
        if whiteners is not None:
            identity = torch.eye(xx.shape[-1], dtype=dtype, device=xx.device)
            whiteners[part] = torch.linalg.solve_triangular(factor, identity, upper=False)
    return Fit(gains, ridge.float(), whiteners)


def chosen(moments: Moments, samples: Samples, *, whiten: bool) -> Fit:
    """The ridge of each group that predicts best, in mean square, every sample from all the others.

    With ``xx = V diag(e) V*`` a candidate l needs no new solve: a sample x has leverage
    ``h = sum_k |v_k* x|^2 / (e_k + l) / columns`` and its leave-one-out residual is the plain one over ``1 - h``.
    Several groups are held toward one real map of all of them rather than toward zero: each is fitted to what that map
    leaves of samples it has not seen. ``samples`` gives the spectra that the moments were made of. The moments are used
    up: their storage holds ``V`` and ``yx V`` afterwards.
    """
    prior = shared(samples) if moments.partition.count > 1 else None
    left = _Left(samples, prior)
    if prior is not None:
        moments.replace_targets(left)
    values = torch.empty(moments.xx.shape[:2], dtype=moments.energy.dtype, device=moments.xx.device)
    for part, dtype in parts(moments):
        xx, yx = moments.mean(part, dtype)
        found, vectors = torch.linalg.eigh(xx)
        values[part] = found.clamp(min=0)
        moments.xx[part], moments.yx[part] = vectors, yx @ vectors
    shifts = torch.tensor([*GRID, torch.inf]) * moments.ridge(1.0)
    best = _leave_one_out_errors(moments, left, values.to(moments.xx.real.dtype), shifts).argmin(0).cpu()
    return _solved(moments, values, shifts[best], whiten, prior)


@dataclass(frozen=True)
class _Left:
    """What the prior leaves of every sample, unseen."""

    samples: Samples
    prior: Prior | None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.samples:
            yield x, y if self.prior is None else y - self.prior.unseen(x, y)


def _leave_one_out_errors(moments: Moments, samples: Samples, values: Tensor, shifts: Tensor) -> Tensor:
    """(candidates, K) summed squared leave-one-out residuals; the last candidate is no map of its own."""
    errors = torch.zeros(len(shifts), len(moments.groups), dtype=moments.energy.dtype, device=moments.xx.device)
    columns = moments.columns.to(values.dtype).reshape(-1, 1, 1)
    for x, y in samples:
        for place, one, two in moments.pooled(x, y):
            turned = moments.xx[place].mH @ one  # (K, C, B)
            power = turned.abs().square()
            errors[-1, place] += two.abs().square().sum((1, 2))
            for candidate, shift in enumerate(shifts[:-1].tolist()):
                weight = 1 / (values[place] + shift).unsqueeze(-1)
                leverage = (power * weight).sum(1, keepdim=True) / columns[place]
                missed = (two - moments.yx[place] @ (turned * weight)) / (1 - leverage.clamp(max=OWN))
                error = missed.abs().square().sum((1, 2))
                errors[candidate, place] += torch.where(leverage.amax((1, 2)) <= OWN, error, torch.inf)
    return errors


def _solved(moments: Moments, values: Tensor, ridge: Tensor, whiten: bool, prior: Prior | None) -> Fit:
    """Gains and whiteners from the eigenvectors that :func:`chosen` left in the moments."""
    gains = torch.empty_like(moments.yx)
    whiteners = torch.empty_like(moments.xx) if whiten else None
    for part, _ in parts(moments):
        weight = 1 / (values[part] + ridge[part, None].to(values.device)).unsqueeze(-2)  # (K, 1, C)
        weight = weight.to(moments.xx.real.dtype)
        gains[part] = (moments.yx[part] * weight) @ moments.xx[part].mH
        if prior is not None:
            gains[part] += prior.gain
        if whiteners is not None:
            whiteners[part] = (moments.xx[part] * weight.sqrt()).mH
    return Fit(gains, ridge, whiteners, prior)


def parts(moments: Moments) -> Iterator[tuple[slice, torch.dtype]]:
    """A few groups at a time (one empty part of none), with the precision to solve in: double where there is one."""
    dtype = wide(moments.xx.dtype, moments.xx.device)
    step = _step(moments.xx.shape[-1], dtype)
    for start in range(0, max(1, len(moments.groups)), step):
        yield slice(start, start + step), dtype


def workspace(groups: int, channels: int, dtype: torch.dtype) -> int:
    """Bytes of the matrices that a chunk of solves holds at once, copies inside the solvers included."""
    solved_in = DOUBLE.get(dtype, dtype)
    return COPIES * min(groups, _step(channels, solved_in)) * channels * channels * solved_in.itemsize


def _step(channels: int, dtype: torch.dtype) -> int:
    """Groups solved at once."""
    return max(1, SOLVE_BYTES // (COPIES * channels * channels * dtype.itemsize))
