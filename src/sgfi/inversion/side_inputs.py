"""Queries on inputs that come with side inputs: each sample is asked about with its own.

Inside an estimator one input may become many (points of a path, draws, a mean beside it). So the side inputs of one
sample are bound to the graph, where they hold for any batch; samples whose side inputs are equal go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import TensorGraph
from sgfi.graph.raw import raw_bytes
from sgfi.inversion.estimator import Estimator, Inverse

AnyEstimator = TypeVar("AnyEstimator", bound=Estimator)


def bind(estimator: AnyEstimator, sides: Mapping[str, Tensor]) -> AnyEstimator:
    """The same estimator for inputs with these side inputs: of one sample, ``(1, ...)``, or of each, ``(B, ...)``.

    (Of each not along the path of a natural inverse, where one input becomes several points.)
    Whatever takes an estimator and inputs (measures, figures, decisions) then takes this one and plain tensors.
    """
    on = getattr(estimator, "on", None)
    if on is None:
        raise QueryError(
            "an estimator that can be put on a graph with side inputs",
            type(estimator).__name__,
            "Give it a method on(graph), or build it on graph.bind({...}).",
        )
    return on(estimator.graph.bind(sides))


Answer = Callable[[Any, Tensor, Tensor | None], Sequence[Inverse]]
"""From an estimator, inputs (B, ...) and their terminals to the answers to all queries."""


def answered(
    estimator: Estimator, x: Tensor, sides: Mapping[str, Tensor], terminal: Tensor | None, rank: int, answer: Answer
) -> list[Inverse]:
    """The answers for a batch of which every sample has its own side inputs; ``rank``: of a target with its batch."""
    samples = samples_alike(estimator.graph, x, sides)
    parts = []
    for indices in samples:
        own = bind(estimator, {name: side[indices[:1]] for name, side in sides.items()})
        parts.append(answer(own, x[indices], _terminals(terminal, rank, indices)))
    order = torch.cat(samples).argsort()
    return [joined(pieces, order) for pieces in zip(*parts, strict=True)]


def samples_alike(graph: TensorGraph, x: Tensor, sides: Mapping[str, Tensor]) -> list[Tensor]:
    """Indices of the samples that have the same side inputs, group by group."""
    for name, side in sides.items():
        if not isinstance(x, Tensor) or not x.dim() or len(side) != len(x):
            got = f"{len(side)} of {name!r} for {len(x) if isinstance(x, Tensor) and x.dim() else type(x).__name__}"
            raise QueryError("as many side inputs as inputs", got, "Give one for each sample.")
    groups: dict[bytes, list[int]] = {}
    for index in range(len(x)):
        key = b"".join(raw_bytes(side[index]) for side in sides.values())
        groups.setdefault(key, []).append(index)
    return [torch.tensor(indices, device=graph.device) for indices in groups.values()]


def _terminals(terminal: Tensor | None, rank: int, indices: Tensor) -> Tensor | None:
    """Of some samples: of (B, ...) the rows, of one terminal for each query, (Q, B, ...), the columns."""
    return terminal.index_select(terminal.dim() - rank, indices) if isinstance(terminal, Tensor) else terminal


def joined(pieces: Sequence[Inverse], order: Tensor) -> Inverse:
    """One answer for a batch from those of its parts, each sample where it stood."""
    if len(pieces) == 1:
        return pieces[0]

    def cat(parts: Sequence[Any]) -> Any:
        first = parts[0]
        if isinstance(first, Tensor):
            return torch.cat(list(parts))[order.to(first.device)]
        if isinstance(first, Mapping):
            return {name: cat([part[name] for part in parts]) for name in first}
        if callable(first):
            return lambda: cat([part() for part in parts])
        return all(parts) if isinstance(first, bool) else first

    own = {field.name: cat([getattr(piece, field.name) for piece in pieces]) for field in fields(pieces[0])}
    return replace(pieces[0], **own)
