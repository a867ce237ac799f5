"""The derivative from the input to one tensor of the model, at the input or averaged along a path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation, LocalMap
from sgfi.errors import QueryError
from sgfi.graph import TensorGraph
from sgfi.natural.path import Path

STACK = 2**24
"""Bytes of the largest stacked activation: more derivatives than fit go one chunk after another.

Larger allocations are returned to the system and cleared again at every op; at 224 px that doubled the time.
"""


@dataclass(frozen=True, eq=False)
class Jacobian:
    """J of a batch: the weighted mean of the derivatives at m points of each input.

    Law: ``<push(t), c> = <t, pull(c)>``. Tangents and cotangents have a leading query axis, ``(Q, B, ...)``.
    """

    local: LocalMap
    """Of ``m B`` inputs: all first points, then all second ones."""
    weights: Tensor
    """(m,)"""
    batch: int
    chunk: int
    """Tangents or cotangents that go through the model at once."""
    work: int
    """Numbers that one derivative passes through, for each input: what it costs."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(B, ...)"""
        return (self.batch, *self.local.source.shape[1:])

    @property
    def target_shape(self) -> tuple[int, ...]:
        """(B, ...)"""
        return (self.batch, *self.local.outputs[0].shape[1:])

    def push(self, tangents: Tensor) -> Tensor:
        """``J t``: (Q, B, *input) -> (Q, B, *target)."""

        def pushed(part: Tensor) -> Tensor:
            return self._averaged(self.local.jvp(self._repeated(part))[0], self.weights)

        return self._chunked(pushed, tangents)

    def pull(self, cotangents: Tensor) -> Tensor:
        """``J* c``: (Q, B, *target) -> (Q, B, *input)."""

        def pulled(part: Tensor) -> Tensor:
            return self._averaged(self.local.vjp([self._repeated(part)]), self.weights)

        return self._chunked(pulled, cotangents)

    def scaled(self, stack: Tensor, power: float = -0.5) -> Tensor:
        """States in the units of the rows; one tensor is in its own."""
        return stack

    def parted(self, stack: Tensor) -> list[Tensor]:
        """The states of every tensor; here the one."""
        return [stack]

    def _repeated(self, stack: Tensor) -> Tensor:
        """(Q, B, ...) -> (Q, m B, ...): the same at every point."""
        points = len(self.weights)
        if points == 1:
            return stack
        return stack.unsqueeze(1).expand(-1, points, *stack.shape[1:]).flatten(1, 2)

    def _averaged(self, stack: Tensor, weights: Tensor) -> Tensor:
        """(Q, m B, ...) -> (Q, B, ...)."""
        if len(weights) == 1:
            return stack
        return torch.tensordot(weights.to(stack), stack.unflatten(1, (len(weights), self.batch)), ([0], [1]))

    def _chunked(self, function: Callable[[Tensor], Tensor], stack: Tensor) -> Tensor:
        parts = stack.split(self.chunk) if len(stack) > self.chunk else (stack,)
        made = [function(part) for part in parts]
        if not all(torch.isfinite(part).all() for part in made):
            todo = "Look for overflow, or a division by zero, between the input and the target."
            raise QueryError("finite derivatives", "NaN or infinity", todo)
        return made[0] if len(made) == 1 else torch.cat(made)


def jacobian(graph: TensorGraph, target: str, x: Tensor, mu: Tensor, path: Path) -> Jacobian:
    """J from the input to ``target`` for a batch ``(B, ...)``, along ``path`` from ``mu`` (one input's shape)."""
    points, weights = path.at(x, mu)
    local = Linearisation(graph, {"input": [target]}, points.flatten(0, 1)).at("input")
    sizes = activations(graph, target)
    stacked = max(sizes) * len(points) * len(x) * x.element_size()
    return Jacobian(local, weights, len(x), max(1, STACK // stacked), sum(sizes) * len(points))


def activations(graph: TensorGraph, target: str) -> list[int]:
    """Numbers of one input in every tensor on the way to ``target``."""
    names = [*graph.ancestors(target), target]
    return [prod(size for size in graph.nodes[name].shape if isinstance(size, int)) for name in names]
