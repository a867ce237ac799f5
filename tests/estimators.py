"""Estimators for tests of what works with any estimator: no maps, no plan, no calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sgfi.derivatives import backpropagate
from sgfi.graph import Node, TensorGraph
from sgfi.inversion import Inverse, Query
from sgfi.inversion.estimator import checked_terminal


@dataclass(frozen=True)
class Backpropagation:
    """Answers every query, at every stage, by ordinary backpropagation of the selected state."""

    graph: TensorGraph
    targets: tuple[str, ...]

    @property
    def target(self) -> str:
        return self.targets[-1]

    def node(self, target: str | None = None) -> Node:
        return self.graph.nodes[target or self.target]

    @property
    def origin(self) -> float:
        return 0.0

    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        return self.graph.program(("input",), (self.node(target).name,))(x)[0]

    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[Inverse]:
        node = self.node(queries[0].target)
        (state,) = self.graph.program(("input",), (node.name,))(x)
        inverses = []
        for index, query in enumerate(queries):
            if terminal is not None:  # one for all queries, or one for each
                state = checked_terminal(terminal[index] if terminal.dim() > state.dim() else terminal, state)
            selected = query.selection(node).project(state)
            states = backpropagate(self.graph, node.name, ["input"], x, selected / query.size(node))
            inverses.append(Inverse(states["input"], {**states, node.name: selected}, query, stage))
        return inverses

    def describe(self) -> dict[str, Any]:
        return {"estimator": "backpropagation"}
