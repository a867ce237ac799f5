"""How strongly a fit is held back: the paper's relative ridge, or one chosen per group of bins by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.spectral.devices import DOUBLE, wide
from sgfi.spectral.moments import Moments

GRID = tuple(10 ** (power / 2) for power in range(-10, 5))
"""Ridges that ``"auto"`` tries, relative to the node's mean source moment: 1e-5 to 100, beside no map at all."""
OWN = 0.95
"""A ridge at which some sample would get more than this share of its prediction from itself is not considered."""
SOLVE_BYTES = 64 << 20
"""Workspace of one chunk of solves, unless a single group needs more."""
COPIES = 9
"""Matrices of one group alive at the height of a solve."""


@dataclass(frozen=True)
class Fit:
    """Solved gains (K, C, C) with what leave-one-out needs to know about them."""

    gain: Tensor
    ridge: Tensor
    """(K,) the shift added to each group's diagonal; infinite where no map is better than any."""
    whitener: Tensor | None
    """(K, C, C): ``|whitener x|^2 / columns`` is the leverage of a sample's spectrum x."""


def fixed(moments: Moments, relative: float, *, whiten: bool) -> Fit:
    """``yx (xx + ridge I)^-1`` for Hermitian positive definite ``xx + ridge I``, by Cholesky (eq:matrix_wiener)."""
    ridge = moments.ridge(relative)
    gains = torch.empty_like(moments.yx)
    whiteners = torch.empty_like(moments.xx) if whiten else None
    for part, dtype in parts(moments):
        xx, yx = moments.mean(part, dtype)
        torch.diagonal(xx, dim1=-2, dim2=-1).add_(ridge)
        factor = torch.linalg.cholesky(xx)
        gains[part] = torch.cholesky_solve(yx.mH, factor).mH
        if whiteners is not None:
            identity = torch.eye(xx.shape[-1], dtype=dtype, device=xx.device)
            whiteners[part] = torch.linalg.solve_triangular(factor, identity, upper=False)
    return Fit(gains, torch.full((len(moments.groups),), ridge), whiteners)


def chosen(moments: Moments, samples: Iterable[tuple[Tensor, Tensor]], *, whiten: bool) -> Fit:
    """The ridge of each group that predicts best, in mean square, every sample from all the others.

    With ``xx = V diag(e) V*`` a candidate l needs no new solve: a sample x has leverage
    ``h = sum_k |v_k* x|^2 / (e_k + l) / columns`` and its leave-one-out residual is the plain one over ``1 - h``.
    ``samples`` gives the spectra ``(F, C, B)`` of sources and targets the moments were made of. The moments are used
    up: their storage holds ``V`` and ``yx V`` afterwards.
    """
    values = torch.empty(moments.xx.shape[:2], dtype=moments.energy.dtype, device=moments.xx.device)
    for part, dtype in parts(moments):
        xx, yx = moments.mean(part, dtype)
        found, vectors = torch.linalg.eigh(xx)
        values[part] = found.clamp(min=0)
        moments.xx[part], moments.yx[part] = vectors, yx @ vectors
    shifts = torch.tensor([*GRID, torch.inf]) * moments.ridge(1.0)
    best = _leave_one_out_errors(moments, samples, values.to(moments.xx.real.dtype), shifts).argmin(0).cpu()
    return _solved(moments, values, shifts[best], whiten)


def _leave_one_out_errors(
    moments: Moments, samples: Iterable[tuple[Tensor, Tensor]], values: Tensor, shifts: Tensor
) -> Tensor:
    """(candidates, K) summed squared leave-one-out residuals; the last candidate is no map."""
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


def _solved(moments: Moments, values: Tensor, ridge: Tensor, whiten: bool) -> Fit:
    """Gains and whiteners from the eigenvectors that :func:`chosen` left in the moments."""
    gains = torch.empty_like(moments.yx)
    whiteners = torch.empty_like(moments.xx) if whiten else None
    for part, _ in parts(moments):
        weight = 1 / (values[part] + ridge[part, None].to(values.device)).unsqueeze(-2)  # (K, 1, C)
        weight = weight.to(moments.xx.real.dtype)
        gains[part] = (moments.yx[part] * weight) @ moments.xx[part].mH
        if whiteners is not None:
            whiteners[part] = (moments.xx[part] * weight.sqrt()).mH
    return Fit(gains, ridge, whiteners)


def leave_one_out(prediction: Tensor, target: Tensor, leverage: Tensor) -> Tensor:
    """What the fit would have predicted for each sample had it not seen that sample.

    Exact for ridge regression: ``(p - h t) / (1 - h)`` with the sample's leverage h (held below one, where a fit only
    repeats its sample).
    """
    bounded = leverage.clamp(max=OWN)
    return (prediction - bounded * target) / (1 - bounded)


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
