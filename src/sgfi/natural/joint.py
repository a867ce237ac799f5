"""Several tensors asked about at once: a group, answered by one solve.

The rows of all tensors are stacked, and each tensor is read with noise of its own lambda_i, that of a query about it
alone::

    rows    W = [P_1 J_1 / sqrt(lambda_1); P_2 J_2 / sqrt(lambda_2); ...]       and t alike
    value     = S W' (W S W' + I)^-1 t

Laws: a group of one is the query itself; multiplying one tensor by any number changes nothing, since its lambda is
relative to its own response; what the group explains is never less than what a part explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.graph import TensorGraph
from sgfi.inversion import Selection
from sgfi.natural.jacobian import STACK, Jacobian, activations
from sgfi.natural.path import Path
from sgfi.natural.solve import Problem


@dataclass(frozen=True, eq=False)
class JointJacobian(Jacobian):
    """The derivatives of several tensors, laid out one after another and divided by ``sqrt(lambda_i)``."""

    noise: tuple[Tensor, ...] = ()
    """(B,) float64 for every tensor: lambda_i."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of every tensor, no batch."""
        return [tuple(output.shape[1:]) for output in self.local.outputs]

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.batch, sum(map(prod, self.shapes)))

    def push(self, tangents: Tensor) -> Tensor:
        def pushed(part: Tensor) -> Tensor:
            outs = self.local.jvp(self._repeated(part))
            return self.scaled(torch.cat([self._averaged(out, self.weights).flatten(2) for out in outs], 2))

        return self._chunked(pushed, tangents)

    def pull(self, cotangents: Tensor) -> Tensor:
        def pulled(part: Tensor) -> Tensor:
            seeds = [self._repeated(own) for own in self.parted(self.scaled(part))]
            return self._averaged(self.local.vjp(seeds), self.weights)

        return self._chunked(pulled, cotangents)

    def scaled(self, stack: Tensor, power: float = -0.5) -> Tensor:
        """(..., B, numbers) in units of every tensor's noise; ``power`` 0.5 takes it back."""
        factors = [
            own.pow(power).unsqueeze(1).expand(-1, prod(shape))
            for own, shape in zip(self.noise, self.shapes, strict=True)
        ]
        return stack * torch.cat(factors, 1).to(stack)

    def parted(self, stack: Tensor) -> list[Tensor]:
        """(..., B, numbers) -> (..., B, *target) of every tensor, in its dtype."""
        pieces = zip(stack.split([prod(shape) for shape in self.shapes], -1), self.local.outputs, strict=True)
        return [own.to(like).unflatten(-1, like.shape[1:]) if like.dim() > 1 else own.to(like) for own, like in pieces]


class JointProblem(Problem):
    """lambda is one: the rows are in units of their noise."""

    def ridge(self, selection: Selection) -> Tensor:
        return torch.ones(self.jacobian.batch, dtype=torch.float64, device=self.jacobian.local.source.device)


def joint_problem(
    graph: TensorGraph, names: Sequence[str], x: Tensor, path: Path, alone: Sequence[Problem], noise: Sequence[Tensor]
) -> JointProblem:
    """Of several tensors at a batch ``x``; ``alone`` are their own problems and ``noise`` (B,) their lambdas."""
    prior = alone[0].prior
    points, weights = path.at(x, prior.mean_like(x))
    local = Linearisation(graph, {"input": list(names)}, points.flatten(0, 1)).at("input")
    widest = max(max(activations(graph, name)) for name in names)
    stacked = widest * len(points) * len(x) * x.element_size()
    work = sum(problem.jacobian.work for problem in alone)
    jacobian = JointJacobian(local, weights, len(x), max(1, STACK // stacked), work, tuple(noise))
    return JointProblem(jacobian, prior, 1.0, alone[0].solver, 1)
