"""Small queries: the rows of J that they select, written out, and one Cholesky factorisation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.solution import Shares, Solution, norms

BLOCK = 2**22
"""Numbers of whitened rows that are widened to float64, or filtered, at once."""


@dataclass(frozen=True, eq=False)
class Rows:
    """``W = J S^(1/2)`` at selected numbers of the target, and ``W W' = J S J*`` there."""

    numbers: Tensor
    """(n,) ascending: places in the flattened target."""
    white: Tensor
    """(B, n, N) W, over the flattened input."""
    gram: Tensor
    """(B, n, n) float64"""
    prior: Prior

    @classmethod
    def of(cls, jacobian: Jacobian, prior: Prior, numbers: Tensor) -> Rows:
        """One VJP for each number, in chunks."""
        batch, *shape = jacobian.target_shape
        parts = []
        for part in numbers.split(jacobian.chunk):
            seeds = jacobian.local.outputs[0].new_zeros(len(part), shape_size(shape))
            seeds[torch.arange(len(part)), part] = 1
            seeds = seeds.reshape(len(part), 1, *shape).expand(-1, batch, *shape)
            parts.append(prior.root(jacobian.pull(seeds)).flatten(2))
        white = torch.cat(parts).transpose(0, 1).contiguous()
        return cls(numbers, white, _gram(white), prior)

    def system(self, mask: Tensor, ridge: Tensor) -> ExactSystem:
        """The system of a query whose numbers are among these; ``ridge`` (B,) is lambda."""
        chosen = torch.nonzero(mask.flatten()[self.numbers]).flatten()
        assert len(chosen) == int(mask.sum()), "a query asks for rows that were not computed"
        whole = len(chosen) == len(self.numbers)
        gram = self.gram if whole else self.gram[:, chosen][:, :, chosen]
        white = self.white if whole else self.white[:, chosen]
        unit = torch.eye(len(chosen), dtype=gram.dtype, device=gram.device)
        factor, failed = torch.linalg.cholesky_ex(gram + ridge.reshape(-1, 1, 1) * unit)
        if failed.any():
            raise QueryError("a positive definite system", "one that is singular", "Give a larger ridge.")
        return ExactSystem(self.numbers[chosen], white, gram, factor, ridge, self.prior)


@dataclass(frozen=True, eq=False)
class ExactSystem:
    """``P J S J* P + lambda I`` of one query, factorised for every input of a batch."""

    numbers: Tensor
    """(k,)"""
    white: Tensor
    """(B, k, N)"""
    gram: Tensor
    """(B, k, k) float64, without lambda."""
    factor: Tensor
    """(B, k, k) float64, lower triangular."""
    ridge: Tensor
    """(B,) float64"""
    prior: Prior

    def solve(self, targets: Tensor) -> Solution:
        """For right-hand sides ``(Q, B, *target)``; numbers outside the query are not read."""
        rhs = targets.flatten(2)[:, :, self.numbers].permute(1, 2, 0).double()  # (B, k, Q)
        weights = torch.cholesky_solve(rhs, self.factor)
        missed = rhs - self.gram @ weights - self.ridge.reshape(-1, 1, 1) * weights
        length = norms(rhs.permute(2, 0, 1))
        residual = norms(missed.permute(2, 0, 1)) / length.clamp(min=torch.finfo(length.dtype).tiny)
        mixed = weights.mT.to(self.white.dtype) @ self.white  # (B, Q, N)
        value = self.prior.root(mixed.transpose(0, 1).unflatten(2, self.prior.shape))
        steps = torch.zeros_like(residual, dtype=torch.int64)
        return Solution(value, self.ridge.expand_as(residual), residual, steps)

    def shares(self) -> Shares:
        """Exact."""
        unit = torch.eye(len(self.numbers), dtype=self.factor.dtype, device=self.factor.device)
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


def shape_size(shape: list[int]) -> int:
    """Numbers in a tensor of this shape."""
    return int(torch.Size(shape).numel())


def _gram(white: Tensor) -> Tensor:
    """(B, n, N) -> (B, n, n) float64, a block of columns at a time."""
    batch, rows = white.shape[:2]
    gram = torch.zeros(batch, rows, rows, dtype=torch.float64, device=white.device)
    for part in white.split(max(1, BLOCK // (batch * rows)), 2):
        wide = part.double()
        gram.baddbmm_(wide, wide.mT)
    return gram
