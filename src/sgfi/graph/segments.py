"""The local map from a boundary to its frontier, as a pure callable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import fx

from sgfi.graph.programs import Exported, Program, extract
from sgfi.graph.values import parents


@dataclass(eq=False)
class Segment:
    """``f_{u<-v,x}`` for every u of a frontier: all paths from v are active, everything else is an argument.

    Calling it with ``H_v`` and the values of ``externals`` gives the frontier's values.
    """

    source: str
    outputs: tuple[str, ...]
    externals: tuple[str, ...]
    """Tensors the segment reads that are not downstream of the source; held at their forward values."""
    nodes: tuple[fx.Node, ...]
    """Every op on a path from the source to the frontier, the frontier's own included, in topological order."""
    program: Program


def find_segment(exported: Exported, source: str, outputs: Iterable[str]) -> Segment:
    """Walk back from the frontier to the source, noting what is read from outside."""
    outputs = tuple(outputs)
    names = exported.names
    downstream = _downstream(exported.graph, exported.tensors[source])
    externals: dict[str, None] = {}
    seen: set[fx.Node] = set()
    stack = [exported.tensors[name] for name in outputs]
    while stack:
        node = stack.pop()
        if node in seen or names.get(node) == source:
            continue
        seen.add(node)
        if node not in downstream and node in names:
            externals[names[node]] = None
            continue
        stack.extend(parents(node))
    held = tuple(sorted(externals))
    program = extract(exported, (source, *held), outputs)
    nodes = tuple(node for node in exported.graph.nodes if node in seen and node in downstream)
    return Segment(source, outputs, held, nodes, program)


def _downstream(graph: fx.Graph, source: fx.Node) -> set[fx.Node]:
    reached = {source}
    for node in graph.nodes:
        if any(parent in reached for parent in parents(node)):
            reached.add(node)
    return reached - {source}
