"""Calibrated maps as an estimator: all maps of one plan on one checkpoint, and how they answer a query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import BoundaryDag, Plan
from sgfi.derivatives import Linearisation, backpropagate
from sgfi.errors import PlanError, QueryError
from sgfi.graph import Node, TensorGraph, check_input, full_precision
from sgfi.inversion.estimator import Inverse, checked_terminal, deviation, target_or_own
from sgfi.inversion.query import Query
from sgfi.inversion.selection import Selections, along_channels
from sgfi.inversion.update import walk
from sgfi.spectral import WienerMap

GAUGES = ("query", "additive")
FORMER_CHILDREN = {"honest": "cross-fitted"}
"""Words of earlier releases for ``MapFamily.children``, which their folders still hold."""


@dataclass(frozen=True, eq=False)
class MapFamily:
    """The fitted maps of every node, with where they came from.

    ``maps[name]`` holds the first map ``G_v`` and then the correction maps (``D_v``, ...), in order.
    """

    plan: Plan
    maps: Mapping[str, tuple[WienerMap, ...]]
    ridge: float | str
    children: str
    """``true`` (the paper), ``online`` or ``cross-fitted``: which child states the maps were fitted on."""
    samples: int
    fingerprint: str
    """Of the weights the maps were fitted on."""
    forced: bool = False
    """Loaded for other weights on purpose."""
    diagnostics: Mapping[str, list[dict[str, float]]] = field(default_factory=dict)
    """Per node and map: the ridge, the mean energies of source and target, and the leave-one-out error where known."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts about the data, seeds and preprocessing, kept in the manifest."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able: the preset of the calibration and what it was resolved to; empty where that was not recorded."""
    precision: str = "full"
    """``full`` (as fitted), ``half`` or ``int8``: how the maps are kept."""
    gauge: str = "query"
    """What the terminal seed is divided by: ``query``, the channels asked for (the paper), or ``additive``, all the
    target's channels: answers of parts then add up to that of the whole, in the final stage too."""
    lengths: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By target and node, what a final state is multiplied by once the walk is done; fitted to held-out samples, and
    empty where that was not asked for. A number changes no direction."""
    curve: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able: what first maps missed of held-out samples, by number of samples; empty where it was not measured."""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able: how the calibration was cut to its memory, which changes no map: ``budget`` in bytes where one was
    given, ``rounds`` of nodes, ``passes`` over the data, by node the ``chunks`` its moments were gathered in, and how
    many nodes were ``resumed`` from an earlier run, whose passes are not counted; empty where not recorded."""
    mean: tuple[float, ...] | None = None
    """Of every input channel, where the maps were fitted on tangents: answers are for ``H(x) - H(mean)``. Else none."""

    def __post_init__(self) -> None:
        if self.gauge not in GAUGES:
            raise QueryError(f"a gauge among {list(GAUGES)}", repr(self.gauge), "Choose one of these.")

    def in_gauge(self, gauge: str) -> MapFamily:
        """The same maps, asked in another gauge."""
        return replace(self, gauge=gauge)

    @property
    def graph(self) -> TensorGraph:
        return self.plan.graph

    def on(self, graph: TensorGraph) -> MapFamily:
        """The same maps on the same model with other side inputs bound."""
        return replace(self, plan=replace(self.plan, graph=graph))

    @property
    def target(self) -> str:
        return self.plan.target

    @property
    def targets(self) -> tuple[str, ...]:
        """The boundaries that can be asked about, shallow to deep: those whose frontiers are as they were fitted."""
        return tuple(name for name in self.plan.boundaries[1:] if _served(self.plan, name))

    def node(self, target: str | None = None) -> Node:
        return self.plan.boundary[self.plan.toward(target_or_own(target, self.target)).target].node

    @property
    def origin(self) -> Tensor | float:
        """Zero; of maps fitted on tangents the mean input, equal at every coordinate."""
        if self.mean is None:
            return 0.0
        node, graph = self.plan.boundary["input"].node, self.graph
        mean = torch.tensor(self.mean, dtype=graph.input.dtype, device=graph.device)
        shaped = along_channels(mean, node.channel_axis, len(node.shape))[0]
        return shaped.expand(graph.input.shape[1:]).contiguous()  # type: ignore[arg-type]

    @torch.inference_mode(False)
    @torch.no_grad()
    @full_precision()
    def state(self, x: Tensor, target: str | None = None) -> Tensor:
        """``H_T``; of maps fitted on tangents ``H_T(x) - H_T(mean)``, what the target registered of ``x - mean``."""
        check_input(self.graph, x)
        name, origin = self.node(target).name, self.origin
        if isinstance(origin, Tensor):
            return deviation(self.graph, name, x, origin)
        return Linearisation(self.graph, {}, x, keep=[name]).values[name]

    @property
    def stages(self) -> int:
        """The most maps any node has."""
        return max(map(len, self.maps.values()))

    @property
    def bytes(self) -> int:
        """Size of all weights."""
        return sum(wiener.bytes for maps in self.maps.values() for wiener in maps)

    def describe(self) -> dict[str, Any]:
        return {
            "estimator": "calibrated maps",
            "target": self.target,
            "nodes": len(self.maps),
            "ridge": self.ridge,
            "children": self.children,
            "on": "states" if self.mean is None else "tangents",
            "maps_per_node": self.stages,
            "samples": self.samples,
            "precision": self.precision,
            "gauge": self.gauge,
            **({"schedule": dict(self.schedule)} if self.schedule else {}),
        }

    def answer(
        self, x: Tensor, queries: Sequence[Query], terminal: Tensor | None = None, stage: str = "final"
    ) -> list[Inverse]:
        """Queries on one target, several stacked along a leading axis ``(Q, B, ...)``."""
        self.check_weights()
        if any(query.also for query in queries):
            raise QueryError(
                "a query about one tensor: maps are walked back from one target",
                str(next(query for query in queries if query.also)),
                "A natural inverse answers groups: sgfi.natural(family.graph).",
            )
        dag = self.plan.toward(queries[0].target or self.target)
        node, single = self.plan.boundary[dag.target].node, len(queries) == 1
        chosen = Selections.of(query.selection(node, x.device) for query in queries)
        sizes = [node.channels if self.gauge == "additive" else query.size(node) for query in queries]
        divisor = float(sizes[0]) if single else x.new_tensor(sizes).reshape(-1, *[1] * len(node.shape))

        def selected(state: Tensor) -> Tensor:
            """P H_T, for several queries (Q, B, ...)."""
            if terminal is None and self.mean is not None:
                state = self.state(x, dag.target)
            if terminal is not None:
                own = checked_terminal(terminal, state, len(queries))
                state = own.squeeze(0) if single and own.dim() > state.dim() else own
            return chosen[0].project(state) if single else chosen.project(state)

        if stage == "raw":
            point = Linearisation(self.graph, {}, x, keep=[dag.target])
            top = selected(point.values[dag.target])
            states = backpropagate(self.graph, dag.target, dag.fitted, x, top / divisor) | {dag.target: top}
        else:
            point = Linearisation(self.graph, dag.frontiers, x, keep=[dag.target])
            first = LazyMaps(self.maps, lambda name: self.maps[name][:1])
            maps = first if stage == "first" else self.maps
            top, within = selected(point.values[dag.target]), self._within(dag, queries, x.device)

            def seed(state: Tensor, name: str) -> Tensor:
                """``|S|`` at the target (eq:masked_terminal_seed), elsewhere the channels (eq:online_child_seed)."""
                return state / (divisor if name == dag.target else self.plan.boundary[name].channels)

            lengths = self.lengths.get(dag.target, {}) if stage == "final" else {}
            states = {
                update.name: update.state * lengths[update.name] if update.name in lengths else update.state
                for update in walk(point, dag, maps, top, seed, within)
            }
            states[dag.target] = top
        ordered = {name: states[name] for name in (*dag.fitted, dag.target)}
        return [
            Inverse(own["input"], own, query, stage)
            for index, query in enumerate(queries)
            for own in [ordered if single else {name: state[index] for name, state in ordered.items()}]
        ]

    def _within(self, dag: BoundaryDag, queries: Sequence[Query], device: torch.device) -> dict[str, Tensor] | None:
        """By boundary, the entries up to each query's last position, ``(1, ...)`` or for several ``(Q, 1, ...)``.

        Only where causal maps ask for it, and ``None`` where every query reaches the end.
        """
        causal = [name for name in dag.fitted if self.plan.boundary[name].operator.causal]
        if not causal or all(query.coords is None for query in queries):
            return None
        node = self.plan.boundary[dag.target].node
        last = torch.tensor([_last_position(query, node) for query in queries], device=device)
        within = {}
        for child in {child for name in causal for child in dag.frontiers[name]}:
            basis = self.plan.boundary[child].basis
            inside = torch.arange(basis.coords[0], device=device) <= last.unsqueeze(1)  # (Q, L)
            axes = [-1 if axis in basis.coord_axes else 1 for axis in range(1 + len(basis.shape))]
            within[child] = inside.reshape(axes) if len(queries) == 1 else inside.reshape(len(queries), *axes)
        return within

    def check_weights(self) -> None:
        """The graph must have the weights that the maps were fitted on, unless that was forced."""
        if not self.forced and self.graph.fingerprint != self.fingerprint:
            raise QueryError(
                f"the weights the maps were fitted on, {self.fingerprint[:16]}...",
                f"weights that have changed since, {self.graph.fingerprint[:16]}...",
                "Maps of one checkpoint fail on another: restore the weights or calibrate again.",
            )

    def __repr__(self) -> str:
        fitted_on = f"{self.samples} {'samples' if self.mean is None else 'tangents'}"
        return (
            f"<MapFamily {len(self.maps)} nodes, up to {self.stages} maps each -> {self.target}, "
            f"{self.children} children, {fitted_on}, {self.bytes / 2**20:.1f} MiB>"
        )


class LazyMaps(Mapping[str, tuple[WienerMap, ...]]):
    """Maps by node, read again at every access."""

    def __init__(self, names: Collection[str], read: Callable[[str], tuple[WienerMap, ...]]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> tuple[WienerMap, ...]:
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _last_position(query: Query, node: Node) -> int:
    """The last position a query asks about."""
    coords = query.checked_coords(node)
    return node.coord_shape[0] - 1 if coords is None else max(coord[0] for coord in coords)


def _served(plan: Plan, name: str) -> bool:
    try:
        plan.toward(name)
    except PlanError:
        return False
    return True
