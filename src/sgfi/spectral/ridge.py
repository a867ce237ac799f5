"""How strongly a fit is held back: the paper's relative ridge, or one chosen per group of bins by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.spectral.devices import DOUBLE, wide
from sgfi.spectral.moments import FLOOR, Moments
from sgfi.spectral.prior import GRID, OWN, Prior, Samples, shared
from sgfi.spectral.quantise import strongest, strongest_axes
from sgfi.spectral.sketch import Sketch

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
    """(K, r, W), r at most W: ``|whitener x|^2 / columns`` is the leverage of a sample's spectrum x."""
    prior: Prior | None = None
    """What the gains were held toward, if not toward zero."""
    strong: Tensor | None = None
    """See :func:`~sgfi.spectral.quantise.strongest`."""


def fixed(moments: Moments, relative: float, *, whiten: bool, apart: bool = False) -> Fit:
    """``yx (xx + ridge I)^-1`` for Hermitian positive definite ``xx + ridge I``, by Cholesky (eq:matrix_wiener).

    The ridge is relative to the node's mean source moment, or where groups stand ``apart`` to each group's own.
    """
    one = torch.tensor(moments.ridge(relative), dtype=moments.energy.dtype)
    ridge = moments.own_ridge(relative) if apart else one.expand(len(moments.groups))
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
    return Fit(gains, ridge.float().cpu(), whiteners, strong=strongest(moments.xx))


def chosen(moments: Moments, samples: Samples, *, whiten: bool) -> Fit:
    """The ridge of each group that predicts best, in mean square, every sample from all the others.

    With ``xx = V diag(e) V*`` a candidate l needs no new solve: a sample x has leverage
    ``h = sum_k |v_k* x|^2 / (e_k + l) / columns`` and its leave-one-out residual is the plain one over ``1 - h``.
    Several groups are held toward one real map of all of them rather than toward zero: each is fitted to what that map
    leaves of samples it has not seen. ``samples`` gives the spectra that the moments were made of. Moments that are not
    bare are used up.
    """
    prior = shared(samples) if moments.partition.count > 1 else None
    left = _Left(samples, prior)
    axes = _few_axes(moments, samples, left) if moments.bare else _all_axes(moments, left)
    shifts = torch.tensor([*GRID, torch.inf]) * moments.ridge(1.0)
    best = _leave_one_out_errors(moments, axes, left, shifts).argmin(0).cpu()
    return _solved(moments, axes, shifts[best], whiten, prior)


@dataclass(frozen=True)
class _Axes:
    """The principal axes of each group's sources: as many as they have columns, where these are fewer than W."""

    values: Tensor
    """(K, r) eigenvalues of ``xx``."""
    vectors: Tensor
    """(K, W, r) V."""
    turned: Tensor
    """(K, C, r) ``yx V``."""


def _all_axes(moments: Moments, left: _Left) -> _Axes:
    """From ``xx`` and ``yx``, in whose storage they are kept afterwards."""
    if left.prior is not None:
        moments.replace_targets(left)
    values = torch.empty(moments.xx.shape[:2], dtype=moments.energy.dtype, device=moments.xx.device)
    for part, dtype in parts(moments):
        found, vectors = torch.linalg.eigh(moments.mean(part, dtype)[0])
        values[part] = found.clamp(min=0)
        moments.xx[part] = vectors
        moments.yx[part] = moments.mean(part)[1] @ moments.xx[part]
    return _Axes(values, moments.xx, moments.yx)


def _few_axes(moments: Moments, samples: Samples, left: _Left) -> _Axes:
    """From fewer samples than channels: their inner products have the same eigenvalues, and fewer of them."""
    groups, width, count = len(moments.groups), moments.xx.shape[1], moments.count
    columns = moments.xx.new_empty(groups, width, count)
    _beside(columns, (one for x, y in samples for _, one, _ in moments.pooled(x, y)))
    values = torch.empty(groups, count, dtype=moments.energy.dtype, device=columns.device)
    for part, dtype in parts(moments):
        values[part], vectors = _principal(columns[part].to(dtype))
        columns[part] = vectors
    turned = moments.yx.new_zeros(groups, moments.yx.shape[1], count)
    for x, y in left:
        for _, one, two in moments.pooled(x, y):
            turned.baddbmm_(two, (columns.mH @ one).mH, alpha=1 / count)
    return _Axes(values, columns, turned)


def _beside(out: Tensor, pieces: Iterable[Tensor]) -> None:
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
    told = lengths > torch.finfo(lengths.dtype).eps ** 0.5 * lengths.amax(-1, keepdim=True)  # the rest is rounding
    return values * told, columns @ (vectors * (told / lengths.clamp(min=FLOOR)).unsqueeze(-2))


@dataclass(frozen=True)
class _Left:
    """What the prior leaves of every sample, unseen."""

    samples: Samples
    prior: Prior | None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self.samples:
            yield x, y if self.prior is None else y - self.prior.unseen(x, y)


def _leave_one_out_errors(moments: Moments, axes: _Axes, samples: Samples, shifts: Tensor) -> Tensor:
    """(candidates, K) summed squared leave-one-out residuals; the last candidate is no map of its own."""
    errors = torch.zeros(len(shifts), len(moments.groups), dtype=moments.energy.dtype, device=moments.xx.device)
    values = axes.values.to(axes.vectors.real.dtype)
    columns = moments.columns.to(values.dtype).reshape(-1, 1, 1)
    sketch = Sketch.of(axes.turned.shape[1], like=axes.turned)
    mapped = sketch(axes.turned)  # (K, rows, r)
    for x, y in samples:
        for place, one, two in moments.pooled(x, y):
            turned = axes.vectors[place].mH @ one  # (K, r, B)
            power, told = turned.abs().square(), sketch(two)
            errors[-1, place] += told.abs().square().sum((1, 2))
            for candidate, shift in enumerate(shifts[:-1].tolist()):
                weight = 1 / (values[place] + shift).unsqueeze(-1)
                leverage = (power * weight).sum(1, keepdim=True) / columns[place]
                missed = (told - mapped[place] @ (turned * weight)) / (1 - leverage.clamp(max=OWN))
                error = missed.abs().square().sum((1, 2))
                errors[candidate, place] += torch.where(leverage.amax((1, 2)) <= OWN, error, torch.inf)
    return errors


def _solved(moments: Moments, axes: _Axes, ridge: Tensor, whiten: bool, prior: Prior | None) -> Fit:
    """Gains and whiteners from the axes."""
    gains = moments.yx.new_empty(*moments.yx.shape[:2], moments.xx.shape[1])
    whiteners = axes.vectors.new_empty(axes.vectors.mT.shape) if whiten else None
    for part, _ in parts(moments):
        weight = 1 / (axes.values[part] + ridge[part, None].to(axes.values.device)).unsqueeze(-2)  # (K, 1, r)
        weight = weight.to(axes.vectors.real.dtype)
        gains[part] = (axes.turned[part] * weight) @ axes.vectors[part].mH
        if prior is not None:
            gains[part] += prior.gain
        if whiteners is not None:
            whiteners[part] = (axes.vectors[part] * weight.sqrt()).mH
    return Fit(gains, ridge, whiteners, prior, strongest_axes(axes.values, axes.vectors))


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
