"""Preconditioners of conjugate gradients: symmetric, positive definite, the same whatever the target is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.inversion import Selections


@dataclass(frozen=True, eq=False)
class Diagonal:
    """Division by the mean response of each channel, plus lambda."""

    scale: Tensor
    """(Q, B, *target)"""

    @classmethod
    def of(cls, response: Tensor, ridge: Tensor, channel_axis: int, dtype: torch.dtype) -> Diagonal:
        """From the estimated diagonal of ``J S J*``, ``response`` (B, *target), at lambda ``ridge`` (Q, B)."""
        coords = tuple(axis for axis in range(1, response.dim()) if axis != channel_axis)
        by_channel = response.mean(coords, keepdim=True) if coords else response
        scale = by_channel.expand_as(response) + ridge.reshape(*ridge.shape, *[1] * (response.dim() - 1))
        return cls(scale.to(dtype))

    def __getitem__(self, chosen: Tensor) -> Diagonal:
        """Of some queries."""
        return Diagonal(self.scale[chosen])

    def __call__(self, stack: Tensor) -> Tensor:
        return stack / self.scale


@dataclass(frozen=True, eq=False)
class Ensemble:
    """``(P U U* P + lambda I)^-1`` by Woodbury's identity, with the responses U of r draws of the prior.

    ``U U*`` is what the mean of ``J d d* J*`` over draws d comes to, the ensemble covariance of Kalman filters: in
    expectation ``J S J*`` itself, on every query at once. Law: symmetric and positive definite for any draws, so that
    conjugate gradients reach the same answer, in fewer steps where the draws tell enough.
    """

    members: Tensor
    """(r, B, *target) U: J of each draw over the root of r."""
    chosen: Selections
    """P"""
    factor: Tensor
    """(Q, B, r, r) float64: Cholesky factor of ``U* P U + lambda I``."""
    ridge: Tensor
    """(Q, B) float64: lambda."""

    @classmethod
    def of(cls, members: Tensor, chosen: Selections, ridge: Tensor) -> Ensemble:
        """For Q queries at lambda ``ridge`` (Q, B)."""
        unit = torch.eye(len(members), dtype=torch.float64, device=members.device)
        grams = torch.stack([_gram(selection.select(members)) for selection in chosen])  # (Q, B, r, r)
        return cls(members, chosen, torch.linalg.cholesky(grams + ridge[..., None, None] * unit), ridge)

    def __getitem__(self, some: Tensor) -> Ensemble:
        """Of some queries."""
        kept = self.chosen.some(some.tolist())
        return Ensemble(self.members, kept, self.factor[some], self.ridge[some])

    def __call__(self, stack: Tensor) -> Tensor:
        """Of cotangents ``(Q, B, *target)`` in the range of P."""
        flat = self.members.flatten(2)  # (r, B, n)
        seen = torch.einsum("rbn,qbn->qbr", flat, stack.flatten(2)).double()
        weights = torch.cholesky_solve(seen.unsqueeze(-1), self.factor).squeeze(-1).to(stack.dtype)
        explained = torch.einsum("rbn,qbr->qbn", flat, weights).reshape(stack.shape)
        ridge = self.ridge.to(stack.dtype).reshape(*self.ridge.shape, *[1] * (stack.dim() - 2))
        return (stack - self.chosen.project(explained)) / ridge


def _gram(members: Tensor) -> Tensor:
    """(r, B, n) -> (B, r, r) float64"""
    rows = members.transpose(0, 1).double()
    return rows @ rows.mT
