"""Where repairs stand, and with what capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from torch import Tensor

from sgfi.boundaries.boundary import Boundary
from sgfi.boundaries.drawing import svg
from sgfi.boundaries.frontier import BoundaryDag, boundary_dag, without_idle
from sgfi.boundaries.recipes import recipe_boundaries
from sgfi.boundaries.sizing import FULL, sized
from sgfi.errors import PlanError
from sgfi.graph import Node, TensorGraph
from sgfi.graph.tensor_graph import text_table
from sgfi.spectral import Basis, Partition, operator_named

PartitionChoice = str | Sequence[int] | Tensor
STAGE, STEM = "stage", "stem"
"""Stand for the boundaries of the architecture's recipe and, beside it in a list, for what its first segment hides."""


@dataclass(frozen=True, eq=False)
class Plan:
    """The boundary DAG of one target with the axes, partition and operator of every boundary."""

    graph: TensorGraph
    mode: str
    """``stage:<recipe>``, ``full`` or ``custom``."""
    dag: BoundaryDag
    boundary: Mapping[str, Boundary]
    """Every boundary by canonical name, target included."""
    idle: tuple[str, ...] = ()
    """Boundaries of the recipe that change nothing for this target, behind a skip connection: not fitted."""

    @property
    def target(self) -> str:
        return self.dag.target

    @property
    def fitted(self) -> tuple[str, ...]:
        """Names of the fitted nodes in topological order: input included, target excluded."""
        return self.dag.fitted

    @property
    def boundaries(self) -> tuple[str, ...]:
        return (*self.dag.fitted, self.dag.target)

    def children(self, name: str) -> tuple[str, ...]:
        """The frontier of a fitted node."""
        return self.dag.frontiers[self._fitted(name)]

    def edges(self, name: str) -> tuple[str, ...]:
        """The structural edges of a fitted node, before the frontier is pruned."""
        return self.dag.edges[self._fitted(name)]

    def _fitted(self, name: str) -> str:
        canonical = self.graph.nodes.canonical(name)
        if canonical not in self.dag.frontiers:
            raise PlanError("a fitted node of the plan", repr(name), f"The fitted nodes are {list(self.fitted)}.")
        return canonical

    def toward(self, target: str) -> BoundaryDag:
        """The same boundaries seen from another of them; an error where a frontier would differ."""
        canonical = self.graph.nodes.canonical(target)
        if canonical == self.target:
            return self.dag
        if canonical not in self.dag.fitted or canonical == "input":
            raise PlanError(
                "a target among the boundaries of the plan",
                repr(target),
                f"Choose one of {list(self.boundaries[1:])}, or plan and calibrate for this target.",
            )
        dag = boundary_dag(self.graph, self.dag.fitted, canonical)
        for name in dag.fitted:
            if set(dag.frontiers[name]) != set(self.dag.frontiers[name]):
                raise PlanError(
                    f"frontiers as they were fitted for {self.target!r}",
                    f"target {canonical!r}, where {name!r} would repair from {list(dag.frontiers[name])} "
                    f"instead of {list(self.dag.frontiers[name])}",
                    "Calibrate a plan of its own for this target.",
                )
        return dag

    @property
    def map_bytes(self) -> int:
        """Of the maps of all fitted nodes, two each, in single precision."""
        return sum(self.boundary[name].map_bytes for name in self.fitted)

    def table(self) -> str:
        """One line a boundary: axes, capacity and frontier."""
        rows = [("boundary", "shape", "channel", "coordinates", "bins", "groups", "operator", "children")]
        for name, boundary in self.boundary.items():
            node = boundary.node
            rows.append(
                (
                    name,
                    "x".join("B" if size is None else str(size) for size in node.shape),
                    str(node.channel_axis),
                    ",".join(map(str, node.coord_axes)) or "-",
                    str(boundary.partition.bins),
                    str(boundary.partition.count),
                    boundary.operator.name if name != self.target else "-",
                    ", ".join(self.dag.frontiers.get(name, ())) or "(target)",
                )
            )
        return text_table(rows)

    def draw(self, path: str | Path | None = None) -> str:
        """The boundary DAG as SVG text; written to ``path`` (an ``.svg`` file) when one is given."""
        if path is not None and Path(path).suffix != ".svg":
            todo = "Draw into an .svg file; a browser or rsvg-convert turns it into a PNG or PDF."
            raise PlanError("a path that ends in .svg", repr(str(path)), todo)
        captions = {name: "x".join(map(str, boundary.node.shape[1:])) for name, boundary in self.boundary.items()}
        for name in self.fitted:
            captions[name] += f", {self.boundary[name].partition.count} groups"
        text = svg(self.dag, captions)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    @cached_property
    def description(self) -> dict:
        """What a map family must agree on, JSON-able."""
        return {
            "mode": self.mode,
            "target": self.target,
            "boundaries": [
                {
                    "name": name,
                    "shape": list(boundary.node.shape),
                    "channel_axis": boundary.node.channel_axis,
                    "coord_axes": list(boundary.node.coord_axes),
                    "children": list(self.dag.frontiers.get(name, ())),
                    "partition": boundary.partition.description,
                    "operator": boundary.operator.name,
                }
                for name, boundary in self.boundary.items()
            ],
        }

    def __str__(self) -> str:
        text = f"Plan ({self.mode}) for {self.target}: {len(self.fitted)} fitted nodes\n{self.table()}"
        behind = "\nNot fitted, since a skip connection leads around them and they change nothing: "
        return text + (behind + ", ".join(self.idle) if self.idle else "")

    def __repr__(self) -> str:
        return f"<Plan {self.mode} {len(self.fitted)} fitted nodes -> {self.target}>"


def plan(
    graph: TensorGraph,
    target: str | None = None,
    boundaries: str | Iterable[str] = "stage",
    axes: Mapping[str, int] | None = None,
    partition: PartitionChoice | Mapping[str, PartitionChoice] = "singleton",
    operator: str | Mapping[str, str] = "full",
    size: int | str = FULL,
) -> Plan:
    """Choose boundaries on the graph.

    ``boundaries`` is ``"stage"`` (the architecture's recipe; ``"stage:<recipe>"`` chooses one by name),
    ``"full"`` (every tensor with a channel axis) or a list
    of names, among which ``"stage"`` stands for the recipe's and beside it ``"stem"`` for the layers inside the
    recipe's first segment and what is pooled there: ``["stage", "stem"]``. Without ``"stage"``, or where a tensor is
    called so, names are names. A list implies the input and the target. ``axes`` overrides channel axes by name;
    ``partition`` (``"singleton"``, ``"blocks<k>"``, ``"rings"``, ``"shared"``, ``"first-apart"`` or group ids) and
    ``operator`` are one choice for all nodes or a mapping by name. ``size`` instead of a partition: ``"small"`` ties
    neighbouring frequencies everywhere, a number of bytes (``"2GiB"``) as far as it takes.
    """
    if not isinstance(graph, TensorGraph):
        raise PlanError("a captured graph", type(graph).__name__, "Pass sgfi.capture(model, example).")
    canonical = graph.nodes.canonical
    if not isinstance(axes, Mapping | None):
        raise PlanError("axes as a mapping from name to channel axis", repr(axes), "Write axes={name: axis}.")
    overrides = {canonical(name): axis for name, axis in (axes or {}).items()}
    mode, names, required, default = _choose(graph, boundaries, overrides)
    if target is None and default is None:
        raise PlanError("a target", "none", "Name one with target=...; only stage mode knows a default target.")
    goal = canonical(target if target is not None else default)  # type: ignore[arg-type]
    if goal == "input":
        raise PlanError("a target downstream of the input", "'input'", "Name an internal tensor.")
    upstream = graph.ancestors(goal)
    if "input" not in upstream:
        raise PlanError("a target that depends on the input", repr(goal), "print(graph) lists every tensor.")
    for name in required:
        if name != goal and name not in upstream:
            raise PlanError(
                f"boundaries upstream of the target {goal!r}",
                f"{name!r}, which does not reach it",
                "Drop it from the list or choose a deeper target.",
            )
    idle: tuple[str, ...] = ()
    dag = boundary_dag(graph, {"input", *names, *required} - {goal}, goal)
    if mode.startswith(f"{STAGE}:"):
        dag, idle = without_idle(graph, dag)
    partitions, operators = _by_node(graph, partition), _by_node(graph, operator)
    chosen = {
        name: _boundary(graph.nodes[name], overrides.get(name), partitions, operators) for name in (*dag.fitted, goal)
    }
    unused = (set(overrides) | set(partitions) | set(operators)) - set(chosen) - {"*"}
    if unused:
        raise PlanError(
            "axes, partitions and operators for boundaries of the plan",
            ", ".join(map(repr, sorted(unused))),
            f"The boundaries are {list(chosen)}.",
        )
    chosen |= sized({name: chosen[name] for name in dag.fitted}, size)
    _check_dtypes(graph, chosen)
    _check_positions(dag, chosen)
    return Plan(graph, mode, dag, chosen, idle)


def _check_dtypes(graph: TensorGraph, chosen: Mapping[str, Boundary]) -> None:
    """Maps are of one dtype; a constant of another makes its readers so too."""
    for name, boundary in chosen.items():
        if boundary.node.dtype != graph.input.dtype:
            raise PlanError(
                f"boundaries of the input's dtype {graph.input.dtype}",
                f"{boundary.node.dtype} at {name!r}",
                "Leave it out, or convert the model's constants to the input's dtype.",
            )


def _check_positions(dag: BoundaryDag, chosen: Mapping[str, Boundary]) -> None:
    """A causal node and its children must count the same positions, so that "up to the last queried" is defined."""
    for name, children in dag.frontiers.items():
        if not chosen[name].operator.causal:
            continue
        counts = {each: chosen[each].positions for each in (name, *children)}
        if None in counts.values() or len(set(counts.values())) > 1:
            raise PlanError(
                f"the same axis of positions at the causal node {name!r} and its children",
                ", ".join(f"{count or 'no single axis'} at {each!r}" for each, count in counts.items()),
                "Use a causal operator between token streams of one length only.",
            )


def _choose(
    graph: TensorGraph, boundaries: str | Iterable[str], overrides: Mapping[str, int]
) -> tuple[str, list[str], list[str], str | None]:
    """Mode, canonical names that count as far as they reach the target, those that must, default target."""
    if isinstance(boundaries, str) and boundaries == "full":
        names = [name for name, node in graph.nodes.items() if node.channel_axis is not None or name in overrides]
        return "full", names, [], None
    named = boundaries.removeprefix(f"{STAGE}:") if isinstance(boundaries, str) else STAGE
    if not isinstance(boundaries, Iterable) or (isinstance(boundaries, str) and named == boundaries != STAGE):
        raise PlanError(
            'boundaries "stage", "stage:<recipe>", "full" or a list of names',
            repr(boundaries),
            "Put a single name into a list.",
        )
    if named != STAGE:
        recipe = recipe_boundaries(graph, named)
        return f"stage:{named}", list(recipe.boundaries), [], recipe.target
    listed = [boundaries] if isinstance(boundaries, str) else list(boundaries)
    for name in listed:
        if not isinstance(name, str):  # before it is compared with anything: an array would answer with an array
            graph.nodes.canonical(name)
    if not isinstance(boundaries, str) and (STAGE not in listed or STAGE in graph.nodes):
        return "custom", [], [graph.nodes.canonical(name) for name in listed], None
    recipe = recipe_boundaries(graph)
    required = [graph.nodes.canonical(name) for name in listed if name not in (STAGE, STEM)]
    names = [*recipe.boundaries, *(recipe.stem if STEM in listed else ())]
    return "custom" if set(listed) != {STAGE} else f"stage:{recipe.recipe}", names, required, recipe.target


def _by_node(graph: TensorGraph, choice: object) -> dict[str, object]:
    """A mapping by canonical name; a single choice stands under ``"*"``."""
    if not isinstance(choice, Mapping):
        return {"*": choice}
    return {graph.nodes.canonical(name): chosen for name, chosen in choice.items()}


def _boundary(
    node: Node, axis: int | None, partitions: Mapping[str, object], operators: Mapping[str, object]
) -> Boundary:
    node = _with_axis(node, axis)
    operator = operator_named(str(operators.get(node.name, operators.get("*", "full"))))
    basis = Basis(node.channel_axis, node.coord_axes, tuple(node.shape[1:]), operator.causal)  # type: ignore[arg-type]
    choice = partitions.get(node.name, partitions.get("*", "singleton"))
    partition = Partition.of("shared" if operator.tied else choice, basis.bins, node.name, basis.blocks, basis.rings)
    return Boundary(node, basis, partition, operator)


def _with_axis(node: Node, axis: int | None) -> Node:
    """The node with its channel axis settled, by override or inference."""
    rank = len(node.shape)
    if axis is None:
        if node.channel_axis is None:
            raise PlanError(
                f"a channel axis for {node.name!r} of shape {node.shape}",
                "none that could be inferred",
                f"Give one with axes={{{node.name!r}: axis}} (the batch must stand on axis 0) or leave this node out.",
            )
        return node
    settled = axis % rank if type(axis) is int and -rank < axis < rank else 0
    if settled == 0 or node.shape[0] is not None or not all(isinstance(size, int) for size in node.shape[1:]):
        raise PlanError(
            f"a channel axis between 1 and {rank - 1} on a tensor with the batch on axis 0",
            f"axis {axis!r} for {node.name!r} of shape {node.shape}",
            "Choose another axis or another node.",
        )
    coords = tuple(dim for dim in range(1, rank) if dim != settled)
    return replace(node, channel_axis=settled, coord_axes=coords)
