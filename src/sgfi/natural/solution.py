"""What a solve returns, and how it may be carried out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from sgfi.errors import QueryError, whole

FEW, SEVERAL, CHEAP = 20, 256, 2**24
"""Numbers that are always few, that may be few, and what all their derivatives may pass: a tiny model."""
PRECONDITIONERS = ("auto", "none", "diagonal", "ensemble")
MANY = 32
"""Queries on one target that are worth a shared ensemble."""


class NotConverged(UserWarning):
    """A linear system was left unsolved: the answer is not what its definition says."""


@dataclass(frozen=True)
class Solver:
    """How the linear systems of a natural inverse are solved."""

    steps: int = 200
    """Most conjugate-gradient steps; each takes one VJP and one JVP. A channel or a cell needs 5 to 15, a whole tensor
    10 to 50, of the first layers or with a small ridge up to several hundred."""
    tolerance: float = 0.05
    """A system stops at this residual, relative to its target."""
    exact_up_to: int | None = None
    """Queries that select at most this many numbers are solved by a Cholesky factorisation, one VJP for each number.

    ``None``: up to 20 numbers, which conjugate gradients would take as long for, and up to 256 of a tiny model.
    """
    probes: int = 4
    """Draws from the prior, one JVP each, that estimate the mean response where it is not known exactly."""
    preconditioner: str = "auto"
    """``"diagonal"``: the mean response of each channel, from the same draws. ``"ensemble"``: ``J S J*`` estimated by
    ``J d d* J*`` over draws d of the prior, shared by all queries. ``"auto"``: an ensemble from 32 queries on."""
    ensemble: int = 64
    """Draws of an ensemble, one JVP each."""

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("exact_up_to", 0), ("probes", 1), ("ensemble", 1)):
            number = getattr(self, name)
            if number is None and name == "exact_up_to":
                continue
            if not whole(number, least):
                raise QueryError(f"{name} of at least {least}", repr(number), "Give a whole number.")
        if not isinstance(self.tolerance, (int, float)) or not 0 < self.tolerance < 1:
            raise QueryError("a tolerance between 0 and 1", repr(self.tolerance), "0.05 is usual.")
        if self.preconditioner not in PRECONDITIONERS:
            raise QueryError(
                f"a preconditioner among {list(PRECONDITIONERS)}", repr(self.preconditioner), "Choose one of these."
            )

    def exact(self, numbers: int, work: int) -> bool:
        """Whether a query of this many numbers is solved exactly, where a derivative passes ``work`` numbers."""
        if self.exact_up_to is not None:
            return numbers <= self.exact_up_to
        return numbers <= FEW or (numbers <= SEVERAL and numbers * work <= CHEAP)

    def missed(self, residual: Tensor) -> Tensor:
        """Which systems were left further from solved than rounding or a neighbour's last step explains."""
        return residual > 2 * self.tolerance

    def check(self, residual: Tensor, what: str) -> None:
        """Warn where a system was left unsolved."""
        if self.missed(residual).any():
            message = (
                f"expected a residual of at most {self.tolerance:g} for {what or 'the whole target'}; got "
                f"{float(residual.max()):.2g} after {self.steps} steps: the answer is not solved. Give more steps, a "
                "larger tolerance (solver=Solver(steps=..., tolerance=...), from sgfi.natural) or a larger ridge."
            )
            warnings.warn(message, NotConverged, stacklevel=2)

    def preconditioner_of(self, queries: int) -> str:
        """``"auto"`` decided by the number of queries."""
        if self.preconditioner != "auto":
            return self.preconditioner
        return "ensemble" if queries >= MANY else "none"


class Shares(NamedTuple):
    """How much of the prior's variance a query determines at every position: explained over prior variance in 0..1."""

    whole: Tensor
    """(B, *coordinates), each summed over channels."""
    detail: Tensor
    """(B, *coordinates) the same of what varies inside one input, its mean colour taken off."""


@dataclass(frozen=True)
class Solution:
    """``S J* P (P J S J* P + lambda I)^-1 t`` for Q right-hand sides and how well the system was solved."""

    value: Tensor
    """(Q, B, *input)"""
    ridge: Tensor
    """(Q, B) float64: lambda."""
    residual: Tensor
    """(Q, B) float64: of the linear system, relative to its right-hand side."""
    steps: Tensor
    """(Q, B) conjugate-gradient steps taken; zero for an exact solve."""


def norms(stack: Tensor) -> Tensor:
    """(Q, B, ...) -> (Q, B) float64: Euclidean length."""
    return products(stack, stack).sqrt()


def products(left: Tensor, right: Tensor) -> Tensor:
    """(Q, B, ...) twice -> (Q, B) float64: inner products."""
    return (left.double().flatten(2) * right.double().flatten(2)).sum(2)
