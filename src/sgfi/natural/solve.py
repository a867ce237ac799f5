"""Answers of several queries on one target: each by the route that suits its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from sgfi.natural.covariance import Prior
from sgfi.natural.exact import ExactSystem, Rows
from sgfi.natural.iterative import Systems, responses, systems
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.solution import Shares, Solution, Solver

ROWS_MEMORY = 2**30
"""Bytes of written-out rows: queries that fit in together share the rows they have in common."""
SHARED = 256
"""Rows written out together: more would cost more in products among them than is saved."""


@dataclass(frozen=True, eq=False)
class Problem:
    """``value = S J* P (P J S J* P + lambda I)^-1 t`` at one batch and target, still without P and t."""

    jacobian: Jacobian
    prior: Prior
    relative: float
    """lambda over a mean response ``diag(J S J*)`` of the target, see :meth:`ridge`."""
    solver: Solver
    channel_axis: int
    """Of the target."""

    def solve(self, masks: Tensor, targets: Tensor) -> list[tuple[Solution, Shares | None]]:
        """By query: the solution, Q = 1, and the exact shares where rows were written out.

        ``masks`` (Q, *target) bool, ``targets`` (Q, B, *target).
        """
        small = [number for number, mask in enumerate(masks) if self.is_small(mask)]
        large = [number for number in range(len(masks)) if number not in set(small)]
        answers: dict[int, tuple[Solution, Shares | None]] = {}
        for number, system in self.exact_systems(masks, small):
            answers[number] = system.solve(targets[number : number + 1]), system.shares()
        for some in _chunks(large, self.jacobian.chunk):
            whole = self.systems(masks[some]).solve(targets[some], self.solver)
            for row, number in enumerate(some):
                answers[number] = _row(whole, row), None
        return [answers[number] for number in range(len(masks))]

    def is_small(self, mask: Tensor) -> bool:
        """Whether the rows of a query are written out."""
        return self.solver.exact(int(mask.sum()), self.jacobian.work)

    def exact_systems(self, masks: Tensor, numbers: Sequence[int]) -> Iterator[tuple[int, ExactSystem]]:
        """The factorised systems of some queries; rows in common are pulled back once."""
        for some in self._together(masks, numbers):
            union = torch.nonzero(masks[some].any(0).flatten()).flatten()
            rows = Rows.of(self.jacobian, self.prior, union)
            for number in some:
                yield number, rows.system(masks[number], self.ridge(masks[number]))

    @cached_property
    def response(self) -> Tensor:
        """(B, *target) float64: the estimated diagonal of ``J S J*``."""
        return responses(self.jacobian, self.prior, self.solver.probes)

    def ridge(self, mask: Tensor) -> Tensor:
        """(B,) float64: lambda of a query; it never depends on t and never grows with the query.

        Relative to the mean response of the whole target. Where the prior has nothing between positions (tokens), what
        one position holds must not depend on later ones: there it is relative to the mean over channels at the least
        responsive of the queried positions. One where nothing responds, and any number would do.
        """
        mean = self.response.flatten(1).mean(1)
        if self.prior.independent_positions and self.response.dim() > 2:
            queried = mask.any(self.channel_axis - 1).flatten()
            mean = self.response.mean(self.channel_axis).flatten(1)[:, queried].amin(1)
        return torch.where(mean > 0, self.relative * mean, torch.ones_like(mean))

    def systems(self, masks: Tensor) -> Systems:
        """The systems of masks ``(Q, *target)`` for conjugate gradients."""
        axis = self.channel_axis if self.solver.preconditioner == "diagonal" else None
        ridge = torch.stack([self.ridge(mask) for mask in masks])
        return systems(self.jacobian, self.prior, masks, ridge, self.response, axis)

    def _together(self, masks: Tensor, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Neighbouring queries whose rows, taken together, fit into memory."""
        element = self.jacobian.local.source.element_size()
        most = max(1, ROWS_MEMORY // (prod(self.jacobian.input_shape) * element))
        group: list[int] = []
        union = torch.zeros_like(masks[0])
        for number in numbers:
            joined = union | masks[number]
            if group and int(joined.sum()) > min(most, SHARED):
                yield group
                group, joined = [], masks[number]
            group, union = [*group, number], joined
        if group:
            yield group


def _chunks(numbers: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(numbers), size):
        yield list(numbers[start : start + size])


def _row(solution: Solution, row: int) -> Solution:
    """One query of a stacked solution, still with its query axis."""
    part = slice(row, row + 1)
    return Solution(solution.value[part], solution.ridge[part], solution.residual[part], solution.steps[part])
