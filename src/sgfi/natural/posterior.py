"""What the query leaves open: posterior draws by perturb-and-solve, the share they estimate; and the adjoint."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sgfi.inversion import Selection, Selections
from sgfi.natural.covariance import Prior
from sgfi.natural.solution import Shares, Solution, Solver
from sgfi.natural.solve import Problem

SHARE_TOLERANCE = 0.1
"""To which the draws of a share are solved: what they explain is known no better than their number allows."""
TIGHT = 1e-3
"""Residual of an adjoint; times the relative ridge where that is below one, since what is left is divided by it."""


def perturbations(problem: Problem, selection: Selection, count: int, seed: int) -> tuple[Tensor, Solution]:
    """Draws ``d ~ N(0, S)`` and the part of each that the query explains, both ``(count, B, *input)``.

    ``explained = S J* P (...)^-1 (P J d + n)`` with ``n ~ N(0, lambda I)``. Law: ``explained`` has the covariance
    ``S J* P (...)^-1 P J S``, the rest ``d - explained`` that of the posterior, and the two are independent.
    Every input sees the same draws.
    """
    jacobian, prior = problem.jacobian, problem.prior
    draws = prior.draw(count, jacobian.local.source, seed).unsqueeze(1).expand(-1, *jacobian.input_shape)
    generator = torch.Generator().manual_seed(seed + 1)
    white = torch.randn(count, 1, *jacobian.target_shape[1:], generator=generator, dtype=torch.float64)
    pushed = jacobian.push(draws)
    white = white.to(device=pushed.device, dtype=pushed.dtype)
    if problem.is_small(selection):
        ((_, system),) = problem.exact_systems(Selections.of([selection]), [0])
        return draws, system.solve(pushed + _noise(problem.ridge(selection), white))
    whole = problem.systems(Selections.of([selection] * count), problem.solver.preconditioner_of(count))
    return draws, whole.solve(pushed + _noise(problem.ridge(selection), white), problem.solver)[0]


def adjoint(problem: Problem, selection: Selection, pictures: Tensor) -> Tensor:
    """``M* p`` (B, *target) of pictures (B, *input), where the answer to a target t is ``M t``: ``A^-1 P J S p`` with
    ``A = P J S J* P + lambda I``."""
    solver, tolerance = problem.solver, TIGHT * min(1.0, problem.relative)
    solver = replace(solver, steps=max(solver.steps, Solver.steps), tolerance=min(solver.tolerance, tolerance))
    tight = replace(problem, solver=solver)
    pushed = problem.jacobian.push(problem.prior.apply(pictures.unsqueeze(0)))
    weights, residual = tight.weights(selection, selection.project(pushed))
    solver.check(residual, "the control of random targets")
    return problem.jacobian.scaled(weights[0])


def exact_shares(problem: Problem, selection: Selection) -> Shares:
    """With one VJP for each number of the query."""
    ((_, system),) = problem.exact_systems(Selections.of([selection]), [0])
    return system.shares()


def estimated_shares(problem: Problem, selection: Selection, count: int, seed: int) -> Shares:
    """The explained part of draws over explained part and rest, each summed over channels; NaN where a draw is left
    unsolved."""
    solver = problem.solver
    steps, tolerance = max(solver.steps, Solver.steps), max(solver.tolerance, SHARE_TOLERANCE)
    rough = replace(problem, solver=replace(solver, steps=steps, tolerance=tolerance))
    draws, solution = perturbations(rough, selection, count, seed)
    unsolved = rough.solver.missed(solution.residual).any(0)  # (B,)
    parts = solution.value, draws - solution.value

    def share(known: Tensor, rest: Tensor) -> Tensor:
        known, rest = _power(problem.prior, known), _power(problem.prior, rest)
        part = known / (known + rest).clamp(min=torch.finfo(known.dtype).tiny)
        return part.masked_fill(unsolved.reshape(-1, *[1] * (part.dim() - 1)), torch.nan)

    return Shares(share(*parts), share(*map(problem.prior.detail, parts)))


def _power(prior: Prior, draws: Tensor) -> Tensor:
    """(count, B, *input) -> (B, *coordinates) float64"""
    return prior.over_channels(draws.double().square().sum(0))


def _noise(ridge: Tensor, white: Tensor) -> Tensor:
    """(B,) and (count, 1, *target) -> (count, B, *target) of variance lambda."""
    return ridge.sqrt().to(white.dtype).reshape(1, -1, *[1] * (white.dim() - 2)) * white
