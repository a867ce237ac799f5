"""Rows and stacks of rows, ``(B, *input)`` and ``(Q, B, *input)``: lengths, noise, features, states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import TensorGraph, check_input
from sgfi.inversion import Query, checked_query
from sgfi.natural import Prior

ROWS = 64
"""Inputs per forward pass."""
TINY = 1e-30
"""What a length is divided by at the least."""


def lengths(stack: Tensor, leading: int = 2) -> Tensor:
    """(Q, B, ...) -> (Q, B), or of rows, ``leading`` 1, (B, ...) -> (B,)."""
    return stack.flatten(leading).norm(dim=leading)


def scaled(stack: Tensor, wanted: Tensor) -> Tensor:
    """(Q, B, ...) or (B, ...) brought to the lengths ``wanted`` (Q, B) or (B,); rows of zeros stay."""
    factors = wanted / lengths(stack, wanted.dim()).clamp_min(TINY)
    return stack * factors.reshape(*factors.shape, *[1] * (stack.dim() - factors.dim()))


def noise(like: Tensor, seed: int) -> Tensor:
    """Gaussian noise; a seed gives the same in any dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(like.shape, generator=generator, dtype=torch.float64).to(like)


def along(stack: Tensor, features: Tensor) -> Tensor:
    """(P, B, ...) and features d (Q, B, ...) -> (P, B, Q): ``<stack, d> / <d, d>``, shares of the features."""
    own = features.flatten(2)
    product = torch.einsum("pbn,qbn->pbq", stack.flatten(2), own)
    return product / own.square().sum(2).mT.clamp_min(TINY)


def state(graph: TensorGraph, target: str, inputs: Tensor) -> Tensor:
    """(N, *input) -> (N, *target), a part of the inputs at a time."""
    program = graph.program(("input",), (target,))
    return torch.cat([program(part)[0] for part in inputs.split(ROWS)])


def checked_queries(graph: TensorGraph, x: Tensor, queries: Sequence[Query], prior: Prior) -> list[Query]:
    """The queries, where they, the inputs and the prior are what they should be."""
    if not isinstance(graph, TensorGraph) or not isinstance(prior, Prior):
        got = f"{type(graph).__name__} and {type(prior).__name__}"
        raise QueryError("a captured graph and a prior", got, "sgfi.capture and sgfi.prior make them.")
    check_input(graph, x)
    if prior.shape != tuple(x.shape[1:]):
        raise QueryError(f"a prior of inputs {tuple(x.shape[1:])}", str(prior.shape), "Use prior.resized(shape).")
    return [checked_query(query, graph) for query in queries]
