"""From a query to the input domain, by any estimator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node, check_input
from sgfi.inversion.estimator import STAGES, Estimator, Inverse
from sgfi.inversion.query import Coord, Query


def invert(
    estimator: Estimator,
    x: Tensor,
    target: str | None = None,
    channels: Sequence[int] | int | None = None,
    coords: Sequence[Coord] | None = None,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> Inverse:
    """What the selected feature of ``x`` identifies in the input domain.

    ``estimator`` is a map family or a natural inverse. ``target`` is the estimator's own or another that it can answer
    for; ``channels`` and ``coords`` select S and Q; ``terminal`` replaces the target's state before masking (operating
    point from ``x``, target from elsewhere); ``stage`` is ``"raw"`` (ordinary backpropagation), ``"first"`` (first
    maps only) or ``"final"``.
    """
    return sweep(estimator, x, [Query(target, channels, coords)], terminal=terminal, stage=stage)[0]


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
def sweep(
    estimator: Estimator,
    x: Tensor,
    queries: Sequence[Query],
    *,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> list[Inverse]:
    """Many queries on one batch of inputs; queries on one target share its forward and linearisation.

    ``terminal`` replaces the target's state for all queries, ``(B, ...)``, or has one for each, ``(Q, B, ...)``.
    """
    if isinstance(estimator, type) or not callable(getattr(estimator, "answer", None)):
        raise QueryError(
            "an estimator", type(estimator).__name__, "Pass what sgfi.calibrate, sgfi.load or sgfi.natural returned."
        )
    check_input(estimator.graph, x)
    if stage not in STAGES:
        raise QueryError(f"a stage among {list(STAGES)}", repr(stage), "Choose one of these.")
    asked = _checked_queries(queries)
    by_target: dict[Node, list[int]] = {}
    for index, query in enumerate(asked):
        by_target.setdefault(estimator.node(query.target), []).append(index)
    answers: dict[int, Inverse] = {}
    for node, indices in by_target.items():
        group = [asked[index] for index in indices]
        answers.update(zip(indices, estimator.answer(x, group, _part(terminal, indices, node), stage), strict=True))
    return [answers[index] for index in range(len(asked))]


def _part(terminal: Tensor | None, indices: list[int], node: Node) -> Tensor | None:
    """The terminals of some queries, where each has its own."""
    own = isinstance(terminal, Tensor) and terminal.dim() == len(node.shape) + 1 and len(terminal) > max(indices)
    return terminal[indices] if own else terminal  # type: ignore[index]


def _checked_queries(queries: Sequence[Query]) -> list[Query]:
    if isinstance(queries, Query) or not isinstance(queries, Iterable):
        raise QueryError("a list of sgfi.Query", type(queries).__name__, "Put every query into one list.")
    asked = list(queries)
    strange = [type(query).__name__ for query in asked if not isinstance(query, Query)]
    if strange:
        raise QueryError("a list of sgfi.Query", f"a {strange[0]} among them", "Build each with sgfi.Query(...).")
    if not asked:
        raise QueryError("at least one query", "none", "Give a list of sgfi.Query.")
    return asked
