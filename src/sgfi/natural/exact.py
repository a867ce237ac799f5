"""Small queries: the rows of J that they select, written out, and one Cholesky factorisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.inversion import Selection, Selections
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.solution import Shares, Solution, norms

BLOCK = 2**22
"""Numbers of whitened rows that are widened to float64, or filtered, at once."""


@dataclass(frozen=True, eq=False)
class Rows:
    """``W = J S^(1/2)`` of the rows that some queries select, and ``W W' = J S J*`` of them.

    First the numbers that masks have in common, each once, then the rows of every query with directions.
    """

    chosen: Selections
    white: Tensor
    """(B, n, N) W, over the flattened input."""
    gram: Tensor
    """(B, n, n) float64"""
    prior: Prior

    @classmethod
    def of(cls, jacobian: Jacobian, prior: Prior, chosen: Selections) -> Rows:
        """One VJP for each row, in chunks."""
        parts = []
        for seeds in _seeds(_blocks(chosen), jacobian):
            expanded = seeds.unsqueeze(1).expand(-1, *jacobian.target_shape)
            parts.append(prior.root(jacobian.pull(expanded)).flatten(2))
        white = torch.cat(parts).transpose(0, 1).contiguous()
        return cls(chosen, white, _gram(white), prior)

    def system(self, number: int, ridge: Tensor) -> ExactSystem:
        """The system of one of the queries; ``ridge`` (B,) is lambda."""
        places = self._places(number)
        whole = len(places) == self.white.shape[1]
        gram = self.gram if whole else self.gram[:, places][:, :, places]
        white = self.white if whole else self.white[:, places]
        unit = torch.eye(len(places), dtype=gram.dtype, device=gram.device)
        factor, failed = torch.linalg.cholesky_ex(gram + ridge.reshape(-1, 1, 1) * unit)
        if failed.any():
            raise QueryError("a positive definite system", "one that is singular", "Give a larger ridge.")
        return ExactSystem(self.chosen[number], white, gram, factor, ridge, self.prior)

    def _places(self, number: int) -> Tensor:
        """(k,) the rows of one query."""
        own, common = self.chosen[number], _common(self.chosen)
        if own.basis is None:
            assert common is not None
            return torch.nonzero(own.mask.flatten()[common.places]).flatten()
        before = sum(block.count for block in self.chosen[:number] if block.basis is not None)
        start = before + (0 if common is None else common.count)
        return torch.arange(start, start + own.count, device=own.mask.device)


@dataclass(frozen=True, eq=False)
class ExactSystem:
    """``P J S J* P + lambda I`` of one query, factorised for every input of a batch."""

    selection: Selection
    """Of k numbers."""
    white: Tensor
    """(B, k, N)"""
    gram: Tensor
    """(B, k, k) float64, without lambda."""
    factor: Tensor
    """(B, k, k) float64, lower triangular."""
    ridge: Tensor
    """(B,) float64"""
    prior: Prior

    def weights(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """``A^-1 t`` of right-hand sides ``(Q, B, *target)``, (B, k, Q) float64, and the residual (Q, B)."""
        rhs = self.selection.select(targets).permute(1, 2, 0).double()  # (B, k, Q)
        weights = torch.cholesky_solve(rhs, self.factor)
        missed = rhs - self.gram @ weights - self.ridge.reshape(-1, 1, 1) * weights
        length = norms(rhs.permute(2, 0, 1))
        return weights, norms(missed.permute(2, 0, 1)) / length.clamp(min=torch.finfo(length.dtype).tiny)

    def solve(self, targets: Tensor) -> Solution:
        """For right-hand sides ``(Q, B, *target)``; numbers outside the query are not read."""
        weights, residual = self.weights(targets)
        mixed = weights.mT.to(self.white.dtype) @ self.white  # (B, Q, N)
        value = self.prior.root(mixed.transpose(0, 1).unflatten(2, self.prior.shape))
        steps = torch.zeros_like(residual, dtype=torch.int64)
        return Solution(value, self.ridge.expand_as(residual), residual, steps)

    def shares(self) -> Shares:
        """Exact."""
        unit = torch.eye(self.factor.shape[-1], dtype=self.factor.dtype, device=self.factor.device)
        inverse = torch.linalg.solve_triangular(self.factor, unit, upper=False).to(self.white.dtype)  # (B, k, k)
        explained = torch.zeros(2, *self.white[:, 0].shape, dtype=torch.float64, device=self.white.device)  # (2, B, N)
        for part in inverse.split(max(1, BLOCK // self.white[:, 0].numel()), 1):
            rows = self.prior.root((part @ self.white).unflatten(2, self.prior.shape))  # L^-1 P J S
            for index, part_rows in enumerate((rows, self.prior.detail(rows))):
                explained[index] += part_rows.double().square().sum(1).flatten(1)
        variances = self.prior.variance, self.prior.detail_variance
        whole, detail = (
            self.prior.over_channels(part.unflatten(1, self.prior.shape)) / self.prior.over_channels(variance.to(part))
            for part, variance in zip(explained, variances, strict=True)
        )
        return Shares(whole.clamp(0, 1), detail.clamp(0, 1))


def _common(chosen: Selections) -> Selection | None:
    """The numbers that any of the masks selects."""
    masks = [selection.mask for selection in chosen if selection.basis is None]
    return Selection(torch.stack(masks).any(0), chosen[0].channel_axis) if masks else None


def _blocks(chosen: Selections) -> list[Selection]:
    common = _common(chosen)
    own = [selection for selection in chosen if selection.basis is not None]
    return own if common is None else [common, *own]


def _seeds(blocks: Sequence[Selection], jacobian: Jacobian) -> Iterator[Tensor]:
    """Cotangents (chunk, *target): the rows of all blocks, one after another."""
    waiting: list[Tensor] = []
    for block in blocks:
        for part in torch.arange(block.count, device=block.mask.device).split(jacobian.chunk):
            waiting.append(block.rows(part, jacobian.local.outputs[0]))
            if sum(map(len, waiting)) >= jacobian.chunk:
                yield torch.cat(waiting)
                waiting = []
    if waiting:
        yield torch.cat(waiting)


def _gram(white: Tensor) -> Tensor:
    """(B, n, N) -> (B, n, n) float64, a block of columns at a time."""
    batch, rows = white.shape[:2]
    gram = torch.zeros(batch, rows, rows, dtype=torch.float64, device=white.device)
    for part in white.split(max(1, BLOCK // (batch * rows)), 2):
        wide = part.double()
        gram.baddbmm_(wide, wide.mT)
    return gram
