"""Who repairs whom: structural edges of the boundary DAG and the fitting frontier."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sgfi.graph import TensorGraph


@dataclass(frozen=True)
class BoundaryDag:
    """The boundaries on paths to one target.

    ``edges`` are structural: from v to every boundary reachable without crossing another. ``frontiers`` are pruned:
    a candidate upstream of another candidate is dropped (app:notation_axes), so that no downstream computation is
    counted twice. The target has neither.
    """

    target: str
    fitted: tuple[str, ...]
    """Topological order, input first, target left out."""
    edges: Mapping[str, tuple[str, ...]]
    frontiers: Mapping[str, tuple[str, ...]]


def boundary_dag(graph: TensorGraph, boundaries: Iterable[str], target: str) -> BoundaryDag:
    upstream = graph.ancestors(target)
    chosen = {name for name in boundaries if name in upstream}
    order = tuple(name for name in graph.nodes if name in chosen)
    edges: dict[str, list[str]] = {name: [] for name in order}
    for child in (*order, target):
        for parent in _nearest(graph, child, chosen):
            edges[parent].append(child)
    frontiers = {name: _deepest(graph, children) for name, children in edges.items()}
    return BoundaryDag(target, order, {name: tuple(children) for name, children in edges.items()}, frontiers)


def idle(dag: BoundaryDag) -> tuple[str, ...]:
    """Boundaries that change nothing: the walk reaches the input without them.

    A skip connection makes them. What lies inside it (the lower levels of a U-Net, seen from its output) is no child of
    the boundary before it, whose one child is where the skip ends.
    """
    used, waiting = set[str](), ["input"]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting.extend(dag.frontiers.get(name, ()))
    return tuple(name for name in dag.fitted if name not in used)


def without_idle(graph: TensorGraph, dag: BoundaryDag) -> tuple[BoundaryDag, tuple[str, ...]]:
    """The DAG of the boundaries that are used, and the others."""
    left_out: list[str] = []
    while names := idle(dag):
        left_out.extend(names)
        dag = boundary_dag(graph, set(dag.fitted) - set(names), dag.target)
    return dag, tuple(name for name in graph.nodes if name in left_out)


def _nearest(graph: TensorGraph, name: str, chosen: set[str]) -> set[str]:
    """The boundaries from which ``name`` is reached without crossing another boundary."""
    nearest, seen, stack = set(), set(), list(graph.parents(name))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in chosen:
            nearest.add(node)
        else:
            stack.extend(graph.parents(node))
    return nearest


def _deepest(graph: TensorGraph, candidates: list[str]) -> tuple[str, ...]:
    return tuple(
        name for name in candidates if not any(name in graph.ancestors(other) for other in candidates if other != name)
    )
