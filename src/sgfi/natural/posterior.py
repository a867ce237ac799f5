"""What the query leaves open: draws from the posterior by perturb-and-solve, and the share they estimate."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sgfi.natural.covariance import Prior
from sgfi.natural.exact import Rows
from sgfi.natural.solve import Problem


def perturbations(problem: Problem, mask: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
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
    if problem.is_small(mask):
        ((_, system),) = problem.exact_systems(mask.unsqueeze(0), [0])
        return draws, system.solve(pushed + _noise(system.ridge, white)).value
    masks = mask.expand(count, *mask.shape)
    whole = problem.systems(masks)
    return draws, whole.solve(pushed + _noise(whole.ridge[0], white), problem.solver).value


def exact_share(problem: Problem, mask: Tensor, ridge: Tensor | None) -> Tensor:
    """(B, *coordinates), with one VJP for each number of the query; ``ridge`` (B,) where lambda is known already."""
    rows = Rows.of(problem.jacobian, problem.prior, torch.nonzero(mask.flatten()).flatten())
    return rows.system(mask, problem.ridge, ridge).share()


def estimated_share(problem: Problem, mask: Tensor, count: int, seed: int) -> Tensor:
    """(B, *coordinates) in [0, 1]: the explained part of draws over explained part and rest, summed over channels.

    Draws are solved to a tenth: what they explain is known no better than their number allows.
    """
    rough = replace(problem, solver=replace(problem.solver, tolerance=max(problem.solver.tolerance, 0.1)))
    draws, explained = perturbations(rough, mask, count, seed)
    known, rest = (_power(problem.prior, part) for part in (explained, draws - explained))
    return known / (known + rest).clamp(min=torch.finfo(known.dtype).tiny)


def _power(prior: Prior, draws: Tensor) -> Tensor:
    """(count, B, *input) -> (B, *coordinates) float64"""
    return prior.over_channels(draws.double().square().sum(0))


def _noise(ridge: Tensor, white: Tensor) -> Tensor:
    """(B,) and (count, 1, *target) -> (count, B, *target) of variance lambda."""
    return ridge.sqrt().to(white.dtype).reshape(1, -1, *[1] * (white.dim() - 2)) * white
