"""From a query to the input domain, by any estimator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node, TensorGraph, check_input, full_precision
from sgfi.inversion.estimator import STAGES, Estimator, Inverse
from sgfi.inversion.query import Coord, Query, checked_query, is_query_text
from sgfi.inversion.side_inputs import answered


def invert(
    estimator: Estimator,
    x: Tensor | Mapping[str, Any],
    target: str | Query | None = None,
    channels: Sequence[int] | int | None = None,
    coords: Sequence[Coord] | None = None,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> Inverse:
    """What the selected feature of ``x`` identifies in the input domain.

    ``estimator`` is a map family or a natural inverse. ``x`` is a batch ``(B, ...)``; where the model takes side
    inputs, a mapping with them and the inverted tensor, by the names of the capture. ``target`` is the estimator's own,
    another that it answers for, or a whole query, as a :class:`Query` or as its text (``"layer3.1.add:17@2,3"``; the
    name of a tensor comes first where both could be meant); ``channels`` and ``coords`` select S and Q;
    ``terminal`` replaces the target's state before the query selects from it (operating point from ``x``, target from
    elsewhere); ``stage`` is ``"raw"`` (ordinary backpropagation), ``"first"`` (first maps only) or ``"final"``.
    """
    _check_estimator(estimator)
    query: str | Query = Query() if target is None else target
    if channels is not None or coords is not None:
        text = isinstance(target, str) and target not in estimator.graph.nodes and is_query_text(target)
        if isinstance(target, Query) or text:
            raise QueryError("a query, or its parts", "a query beside channels or coords", "Put them into the query.")
        query = Query(target, channels, coords)  # type: ignore[arg-type]
    return sweep(estimator, x, [query], terminal=terminal, stage=stage)[0]


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
@full_precision()
def sweep(
    estimator: Estimator,
    x: Tensor | Mapping[str, Any],
    queries: Sequence[str | Query],
    *,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> list[Inverse]:
    """Many queries, or their texts, on one batch of inputs; those on one target share its forward and linearisation.

    ``terminal`` replaces the target's state for all queries, ``(B, ...)``, or has one for each, ``(Q, B, ...)``.
    """
    _check_estimator(estimator)
    x, sides = estimator.graph.split(x)
    check_input(estimator.graph, x)
    if stage not in STAGES:
        raise QueryError(f"a stage among {list(STAGES)}", repr(stage), "Choose one of these.")
    if isinstance(terminal, Tensor) and (terminal.layout != torch.strided or terminal.is_meta):
        raise QueryError("a dense terminal with data", f"{terminal.layout} on {terminal.device}", "Make it dense.")
    asked = _checked_queries(estimator.graph, queries)
    if not sides:
        return _answered(estimator, x, asked, terminal, stage)
    rank = 2 if asked[0].also else len(estimator.node(asked[0].target).shape)
    _check_batch(terminal, rank, len(x))
    return answered(estimator, x, sides, terminal, rank, lambda own, x, t: _answered(own, x, asked, t, stage))


def _check_estimator(estimator: object) -> None:
    if isinstance(estimator, type) or not callable(getattr(estimator, "answer", None)):
        todo = "Pass what sgfi.calibrate, sgfi.load or sgfi.natural returned."
        raise QueryError("an estimator", type(estimator).__name__, todo)


def _answered(
    estimator: Estimator, x: Tensor, asked: Sequence[Query], terminal: Tensor | None, stage: str
) -> list[Inverse]:
    """Checked queries, those on one target together."""
    by_target: dict[tuple[Node, ...], list[int]] = {}
    for index, query in enumerate(asked):
        by_target.setdefault(tuple(estimator.node(part.target) for part in query.parts), []).append(index)
    answers: dict[int, Inverse] = {}
    for nodes, indices in by_target.items():
        same = [asked[index] for index in indices]
        own = _part(terminal, indices, nodes, len(asked))
        answers.update(zip(indices, estimator.answer(x, same, own, stage), strict=True))
    for inverse in answers.values():
        _check_finite(inverse)
    return [answers[index] for index in range(len(asked))]


def _check_finite(inverse: Inverse) -> None:
    if torch.isfinite(inverse.value).all():
        return
    # From the target to the input: where it went wrong first.
    wrong = [name for name, state in inverse.states.items() if not torch.isfinite(state).all()]
    name = wrong[-1] if wrong else "input"
    raise QueryError(
        "an inverse of finite numbers",
        f"NaN or infinity, first at {name!r}",
        "Look for overflow in the model there, in the terminal that was given, or in maps of other weights.",
    )


def _check_batch(terminal: Tensor | None, rank: int, inputs: int) -> None:
    """That a terminal, (B, ...) of this rank or (Q, B, ...), is one of as many inputs."""
    if not isinstance(terminal, Tensor):
        return
    axis = terminal.dim() - rank
    if axis not in (0, 1) or terminal.shape[axis] != inputs:
        expected = f"a terminal of {inputs} inputs, (B, ...) or for each query (Q, B, ...)"
        raise QueryError(expected, str(tuple(terminal.shape)), "Give the target's own shape.")


def _part(terminal: Tensor | None, indices: list[int], nodes: tuple[Node, ...], count: int) -> Tensor | None:
    """The terminals of some of ``count`` queries, where each has its own; of a group (B, numbers of its tensors)."""
    rank = len(nodes[0].shape) if len(nodes) == 1 else 2
    if not isinstance(terminal, Tensor) or terminal.dim() != rank + 1:
        return terminal
    if len(terminal) == count:
        return terminal[indices]
    if len(indices) < count:  # of one target the estimator says what it expected
        expected = f"one terminal for all {count} queries, or one for each"
        raise QueryError(expected, f"{len(terminal)} of them", "Stack one for each, in the order of the queries.")
    return terminal


def _checked_queries(graph: TensorGraph, queries: Sequence[str | Query]) -> list[Query]:
    if isinstance(queries, (str, Query)) or not isinstance(queries, Iterable):
        raise QueryError("a list of queries", f"a {type(queries).__name__}", "Put every query into one list.")
    asked = [checked_query(query, graph) for query in queries]
    if not asked:
        raise QueryError("at least one query", "none", 'Ask as in ["layer3.1.add:17"].')
    return asked
