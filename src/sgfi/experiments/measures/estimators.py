"""Measures of any estimator: the rows of the calibrated maps, and beside them those of the natural inverse or another.

An option ``estimators`` names them as ``answers`` does: ``"maps"``, ``"natural, path"``, ``"natural, point"``, ... Rows
of others than the maps end in the estimator's name. Without ``"maps"`` nothing is calibrated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from sgfi.boundaries import Plan
from sgfi.errors import QueryError, did_you_mean
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.contestants import ESTIMATORS, MAPS, Contestants, prior_of
from sgfi.experiments.measures.registry import Table
from sgfi.graph import Node, TensorGraph
from sgfi.inversion import Estimator, Inverse, Query
from sgfi.inversion.estimator import target_or_own

MAPS_ALONE = (MAPS,)


@dataclass(frozen=True, eq=False)
class Planned:
    """An estimator that is asked about a plan's tensors: the plan's target where a query names none."""

    estimator: Estimator
    plan: Plan

    @property
    def graph(self) -> TensorGraph:
        return self.estimator.graph

    @property
    def target(self) -> str:
        return self.plan.target

    @property
    def targets(self) -> tuple[str, ...]:
        return self.plan.boundaries[1:]

    def node(self, target: str | None = None) -> Node:
        return self.estimator.node(target_or_own(target, self.target))

    @property
    def origin(self) -> Tensor | float:
        return self.estimator.origin

    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        return self.estimator.state(x, target_or_own(target, self.target))

    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> Sequence[Inverse]:
        named = [q if q.target else Query(self.target, q.channels, q.coords, q.directions) for q in queries]
        return self.estimator.answer(x, named, terminal, stage)

    def describe(self) -> dict[str, Any]:
        return self.estimator.describe()


def estimator_named(case: Case, name: str) -> Estimator:
    """The case's own maps, or another estimator of the same model on the plan's tensors."""
    if name not in ESTIMATORS:
        todo = did_you_mean(name, ESTIMATORS) or "Choose some."
        raise QueryError(f"estimators among {list(ESTIMATORS)}", repr(name), todo)
    if name == MAPS:
        return case.family
    return Planned(Contestants(case, prior_of(case), [name], [case.plan.target]).estimator(name), case.plan)


def by_estimator(case: Case, names: Sequence[str], take: Callable[[Estimator], Table]) -> Table:
    """A table taken of every named estimator, as one."""
    table: Table = {}
    for name in names:
        rows = take(estimator_named(case, name))
        table |= {row if name == MAPS else f"{row}, {name}": scores for row, scores in rows.items()}
    return table
