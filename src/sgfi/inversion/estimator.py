"""What every estimator offers, and what it answers with. Everything downstream takes any estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from sgfi.derivatives import Linearisation
from sgfi.errors import QueryError
from sgfi.graph import Node, TensorGraph
from sgfi.inversion.query import Query

STAGES = ("raw", "first", "final")
"""How far an answer went: plain backpropagation, the first estimate, everything."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """The answer to a query on a batch of inputs."""

    value: Tensor
    """(B, ...) of the input's shape: the input-domain inverse."""
    states: Mapping[str, Tensor]
    """(B, ...) the state at the input, at every node in between that has one, and at the target."""
    query: Query
    stage: str
    ridge: Tensor | None = None
    """(B,) the ridge of the solve, where one was made for this input."""
    measure_share: Callable[[], Tensor] | None = field(default=None, repr=False)

    @cached_property
    def share(self) -> Tensor | None:
        """(B, *input coordinates) in 0..1: how much of each place's prior variance the query determines, where known.

        Worked out when it is first read.
        """
        return None if self.measure_share is None else self.measure_share()

    def __repr__(self) -> str:
        return f"<Inverse of {str(self.query) or 'the whole target'}, {self.stage}, {tuple(self.value.shape)}>"


class Estimator(Protocol):
    """Answers queries about one captured model."""

    @property
    def graph(self) -> TensorGraph:
        """The model."""

    @property
    def target(self) -> str:
        """The target of a query that names none."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the tensors that can be asked about, shallow to deep."""

    def node(self, target: str | None = None) -> Node:
        """A tensor that can be asked about, with its axes settled; an error where it cannot."""

    @property
    def origin(self) -> Tensor | float:
        """What values are deviations from: ``origin + value`` is an input. Zero for the paper's maps, else (*input)."""

    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        """(B, ...) what the target registered of ``x``, before a query selects from it: what ``terminal`` replaces."""

    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> Sequence[Inverse]:
        """Checked queries on one and the same target, at a checked batch of inputs.

        ``terminal`` replaces the target's state, ``(B, ...)`` for all queries or ``(Q, B, ...)`` one for each.
        """

    def describe(self) -> dict[str, Any]:
        """JSON-able: what kind of estimator this is and how it was set up."""


def depth_targets(estimator: Estimator, count: int = 5) -> list[str]:
    """About ``count`` targets of an estimator from shallow to deep, its deepest last."""
    return spread(estimator.targets, count)


def spread(names: Sequence[str], count: int) -> list[str]:
    """At most ``count`` of the names, evenly spread, the last one included."""
    if count < 1:
        raise QueryError("at least one name to choose", str(count), "Give a larger count.")
    count, last = min(count, len(names)), len(names) - 1
    return [names[last - round(index * last / max(count - 1, 1))] for index in reversed(range(count))]


def deviation(graph: TensorGraph, target: str, x: Tensor, mean: Tensor) -> Tensor:
    """``H(x) - H(mean)`` at a tensor: (B, *input) and (*input) -> (B, *target)."""
    values = Linearisation(graph, {}, torch.cat([x, mean.unsqueeze(0)]), keep=[target]).values[target]
    return values[:-1] - values[-1]


def checked_terminal(terminal: Tensor, state: Tensor, queries: int = 1) -> Tensor:
    """A replacement of the target's state, of its shape, dtype and device, or one for each query: (Q, B, ...)."""
    shapes = (state.shape, (queries, *state.shape))
    if not isinstance(terminal, Tensor) or terminal.shape not in shapes or terminal.dtype != state.dtype:
        got = f"{terminal.dtype} {tuple(terminal.shape)}" if isinstance(terminal, Tensor) else type(terminal).__name__
        raise QueryError(
            f"a terminal of the target's {state.dtype} {tuple(state.shape)}", got, "Shape and dtype must match."
        )
    if not torch.isfinite(terminal).all():
        raise QueryError("a finite terminal", "NaN or infinity", "Clean it first.")
    return terminal.detach().to(state.device)


def target_or_own(target: Any, own: str) -> Any:
    """The target that was asked for, or the estimator's own where none was; what is no name is left to the lookup."""
    return own if target is None or (isinstance(target, str) and not target) else target
