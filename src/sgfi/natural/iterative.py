"""Large queries: conjugate gradients on the same systems, many at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.inversion import Selections
from sgfi.natural.covariance import Prior
from sgfi.natural.jacobian import Jacobian
from sgfi.natural.preconditioners import Diagonal, Ensemble
from sgfi.natural.solution import Solution, Solver, norms, products


@dataclass(frozen=True, eq=False)
class Systems:
    """``P J S J* P + lambda I`` of Q queries on B inputs, as an operator."""

    jacobian: Jacobian
    prior: Prior
    chosen: Selections
    """P"""
    ridge: Tensor
    """(Q, B) float64: lambda."""
    preconditioner: Diagonal | Ensemble | None = None

    def __getitem__(self, some: Tensor) -> Systems:
        """The systems of some queries."""
        preconditioner = None if self.preconditioner is None else self.preconditioner[some]
        return Systems(self.jacobian, self.prior, self.chosen.some(some.tolist()), self.ridge[some], preconditioner)

    def masked(self, stack: Tensor) -> Tensor:
        """``P c``"""
        return self.chosen.project(stack)

    def back(self, masked: Tensor) -> Tensor:
        """``S J* P c`` of cotangents that are masked already: (Q, B, *input)."""
        return self.prior.apply(self.jacobian.pull(masked))

    def preconditioned(self, stack: Tensor) -> Tensor:
        return stack if self.preconditioner is None else self.masked(self.preconditioner(stack))

    def solve(self, targets: Tensor, solver: Solver) -> tuple[Solution, Tensor]:
        """For one right-hand side ``(B, *target)`` each, stacked along the query axis; also ``A^-1 t`` itself.

        Every system stops by itself, so that its answer does not depend on its neighbours. Conjugate gradients
        are linear in the target only as far as they have converged.
        """
        rest = self.masked(targets)
        value, weights = rest.new_zeros(len(rest), *self.jacobian.input_shape), torch.zeros_like(rest)
        length = norms(rest)
        residual = torch.where(length > 0, 1.0, torch.zeros_like(length))
        steps = torch.zeros_like(length, dtype=torch.int64)
        direction = self.preconditioned(rest).clone()
        energy = products(rest, direction)
        for _ in range(solver.steps):
            active = residual > solver.tolerance  # (Q, B)
            chosen = torch.nonzero(active.any(1)).flatten()
            if not len(chosen):
                break
            some = self if len(chosen) == len(active) else self[chosen]
            ahead = direction[chosen]
            back = some.back(ahead)
            curved = some.masked(self.jacobian.push(back)) + _times(some.ridge, ahead)
            bend = products(ahead, curved)
            moving = active[chosen] & (bend > 0)
            stride = torch.where(moving, energy[chosen] / bend.clamp(min=torch.finfo(bend.dtype).tiny), 0.0)
            value[chosen] += _times(stride, back)
            weights[chosen] += _times(stride, ahead)
            left = rest[chosen] - _times(stride, curved)
            rest[chosen] = left
            scaled_rest = some.preconditioned(left)
            after = products(left, scaled_rest)
            turn = torch.where(moving, after / energy[chosen].clamp(min=torch.finfo(bend.dtype).tiny), 0.0)
            direction[chosen] = scaled_rest + _times(turn, ahead)
            energy[chosen] = after
            residual[chosen] = torch.where(moving, norms(left) / length[chosen], residual[chosen])
            steps[chosen] += moving
            if not moving.any():
                break
        return Solution(value, self.ridge, residual, steps), weights


def pushed_draws(jacobian: Jacobian, prior: Prior, count: int, seed: int = 0) -> Tensor:
    """(count, B, *target) J of draws from the prior.

    Every input sees the same draws: what is estimated for it does not depend on the batch it stands in.
    """
    draws = prior.draw(count, jacobian.local.source, seed).unsqueeze(1)  # (K, 1, *input)
    return jacobian.push(draws.expand(-1, *jacobian.input_shape))


def _times(numbers: Tensor, stack: Tensor) -> Tensor:
    """(Q, B) times (Q, B, ...), in the stack's dtype."""
    return numbers.to(stack.dtype).reshape(*numbers.shape, *[1] * (stack.dim() - 2)) * stack
