"""Answers of several queries on one target: each by the route that suits its size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from sgfi.inversion import Selection, Selections
from sgfi.natural.covariance import Prior
from sgfi.natural.exact import ExactSystem, Rows
from sgfi.natural.iterative import Systems, pushed_draws
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.preconditioners import Diagonal, Ensemble
from sgfi.natural.solution import Shares, Solution, Solver

ROWS_MEMORY = 2**30
"""Bytes of written-out rows: queries that fit in together share the rows they have in common."""
ENSEMBLE_MEMORY, ENSEMBLE_SEED = 2**29, 2000
"""Bytes that the members of an ensemble may take, and where their draws begin."""
SILENT = 1e-12
"""Response of a position, relative to the strongest queried one, that is rounding."""
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

    def solve(self, chosen: Selections, targets: Tensor) -> list[tuple[Solution, Shares | None]]:
        """By query: the solution, Q = 1, and the exact shares where rows were written out.

        ``targets`` (Q, B, *target), projected.
        """
        small = [number for number, selection in enumerate(chosen) if self.is_small(selection)]
        large = [number for number in range(len(chosen)) if number not in set(small)]
        answers: dict[int, tuple[Solution, Shares | None]] = {}
        same: dict[Selection, list[int]] = {}  # one query with several targets has one system
        for number in small:
            same.setdefault(chosen[number], []).append(number)
        for first, system in self.exact_systems(chosen, [numbers[0] for numbers in same.values()]):
            numbers = same[chosen[first]]
            solution, shares = system.solve(targets[numbers]), system.shares()
            answers.update({number: (_row(solution, row), shares) for row, number in enumerate(numbers)})
        kind = self.solver.preconditioner_of(len(large))
        for some in _chunks(large, self.jacobian.chunk):
            whole, _ = self.systems(chosen.some(some), kind).solve(targets[some], self.solver)
            for row, number in enumerate(some):
                answers[number] = _row(whole, row), None
        return [answers[number] for number in range(len(chosen))]

    def weights(self, selection: Selection, targets: Tensor) -> tuple[Tensor, Tensor]:
        """``(P J S J* P + lambda I)^-1 t`` of one query, (Q, B, *target), and the residual that is left, (Q, B)."""
        chosen = Selections.of([selection])
        if self.is_small(selection):
            ((_, system),) = self.exact_systems(chosen, [0])
            weights, residual = system.weights(targets)
            return selection.spread(weights.permute(2, 0, 1).to(targets.dtype)), residual
        kind = self.solver.preconditioner_of(len(targets))
        solution, weights = self.systems(Selections.of([selection] * len(targets)), kind).solve(targets, self.solver)
        return weights, solution.residual

    def pulled(self, targets: Tensor, stage: str) -> list[tuple[Solution, Shares | None]]:
        """Without a solve: ``J* P t``, for ``"first"`` under the prior."""
        pulled = self.jacobian.pull(targets)
        pulled = self.prior.apply(pulled) if stage == "first" else pulled
        unknown = pulled.new_full((1, pulled.shape[1]), torch.nan, dtype=torch.float64)
        steps = torch.zeros_like(unknown, dtype=torch.int64)
        return [(Solution(value.unsqueeze(0), unknown, unknown, steps), None) for value in pulled]

    def is_small(self, selection: Selection) -> bool:
        """Whether the rows of a query are written out."""
        return self.solver.exact(selection.count, self.jacobian.work)

    def exact_systems(self, chosen: Selections, numbers: Sequence[int]) -> Iterator[tuple[int, ExactSystem]]:
        """The factorised systems of some queries; rows in common are pulled back once."""
        for some in self._together(chosen, numbers):
            rows = Rows.of(self.jacobian, self.prior, chosen.some(some))
            for row, number in enumerate(some):
                yield number, rows.system(row, self.ridge(chosen[number]))

    @cached_property
    def response(self) -> Tensor:
        """(B, *target) float64: the estimated diagonal of ``J S J*``, the mean square of J over draws."""
        return pushed_draws(self.jacobian, self.prior, self.solver.probes).double().square().mean(0)

    @cached_property
    def members(self) -> Tensor:
        """(r, B, *target) what an :class:`Ensemble` is made of; fewer draws where they would not fit into memory."""
        most = ENSEMBLE_MEMORY // (prod(self.jacobian.target_shape) * self.jacobian.local.source.element_size())
        count = max(1, min(self.solver.ensemble, most))
        return pushed_draws(self.jacobian, self.prior, count, ENSEMBLE_SEED) / count**0.5

    def ridge(self, selection: Selection) -> Tensor:
        """(B,) float64: lambda of a query; it never depends on t and never grows with the query.

        Relative to the mean response of the whole target. Where the prior has nothing between positions (tokens), what
        one position holds must not depend on later ones: there it is relative to the mean over channels at the least
        responsive of the queried positions that respond (weights of masked attention never do). One where nothing
        responds, and any number would do.
        """
        mean = self.response.flatten(1).mean(1)
        if self.prior.independent_positions and self.response.dim() > 2:
            queried = selection.mask.any(self.channel_axis - 1).flatten()
            by_position = self.response.mean(self.channel_axis).flatten(1)[:, queried]
            silent = by_position <= SILENT * by_position.amax(1, keepdim=True)
            mean = by_position.masked_fill(silent, torch.inf).amin(1).nan_to_num(posinf=0.0)
        return torch.where(mean > 0, self.relative * mean, torch.ones_like(mean))

    def systems(self, chosen: Selections, preconditioner: str) -> Systems:
        """The systems of queries for conjugate gradients."""
        ridge = torch.stack([self.ridge(selection) for selection in chosen])
        made: Diagonal | Ensemble | None = None
        if preconditioner == "diagonal":
            made = Diagonal.of(self.response, ridge, self.channel_axis, self.jacobian.local.source.dtype)
        elif preconditioner == "ensemble":
            made = Ensemble.of(self.members, chosen, ridge)
        return Systems(self.jacobian, self.prior, chosen, ridge, made)

    def _together(self, chosen: Selections, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Neighbouring queries whose rows, taken together, fit into memory."""
        element = self.jacobian.local.source.element_size()
        most = max(1, ROWS_MEMORY // (prod(self.jacobian.input_shape) * element))
        group: list[int] = []
        common, own = torch.zeros_like(chosen[0].mask), 0
        for number in numbers:
            mask, rows = _rows_of(chosen[number])
            if group and int((common | mask).sum()) + own + rows > min(most, SHARED):
                yield group
                group, common, own = [], torch.zeros_like(common), 0
            group, common, own = [*group, number], common | mask, own + rows
        if group:
            yield group


def _rows_of(selection: Selection) -> tuple[Tensor, int]:
    """The numbers of a query that other masks may share, and how many rows are its own."""
    if selection.basis is None:
        return selection.mask, 0
    return torch.zeros_like(selection.mask), selection.count


def _chunks(numbers: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(numbers), size):
        yield list(numbers[start : start + size])


def _row(solution: Solution, row: int) -> Solution:
    """One query of a stacked solution, still with its query axis."""
    part = slice(row, row + 1)
    return Solution(solution.value[part], solution.ridge[part], solution.residual[part], solution.steps[part])
