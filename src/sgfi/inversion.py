"""One reverse pass from a channel-coordinate query to the input domain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.boundaries import Boundary, BoundaryDag
from sgfi.errors import QueryError
from sgfi.family import MapFamily
from sgfi.graph import Linearisation, backpropagate, check_input
from sgfi.repair import walk

Coord = int | tuple[int, ...]
STAGES = ("raw", "first", "final")


@dataclass(frozen=True)
class Query:
    """What is asked of an input: a target tensor, a channel set S and a coordinate set Q. ``None`` means all."""

    target: str | None = None
    channels: Sequence[int] | None = None
    coords: Sequence[Coord] | None = None


@dataclass(frozen=True)
class Inverse:
    """The answer to a query on a batch of inputs."""

    value: Tensor
    """(B, ...) of the input's shape: the input-domain inverse."""
    states: Mapping[str, Tensor]
    """(B, ...) the repaired state at the input, every fitted node up to the target, and the target."""
    query: Query
    stage: str


def invert(
    family: MapFamily,
    x: Tensor,
    target: str | None = None,
    channels: Sequence[int] | None = None,
    coords: Sequence[Coord] | None = None,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> Inverse:
    """What the selected feature of ``x`` identifies in the input domain.

    ``target`` is the family's target or any shallower boundary whose frontiers are unchanged; ``channels`` and
    ``coords`` select S and Q; ``terminal`` replaces ``H_T`` before masking (operating point from ``x``, target from
    elsewhere); ``stage`` is ``"raw"`` (ordinary backpropagation), ``"first"`` (first maps only) or ``"final"``.
    """
    return sweep(family, x, [Query(target, channels, coords)], terminal=terminal, stage=stage)[0]


@torch.inference_mode(False)  # a caller's inference mode would leave us without derivatives
@torch.no_grad()
def sweep(
    family: MapFamily,
    x: Tensor,
    queries: Sequence[Query],
    *,
    terminal: Tensor | None = None,
    stage: str = "final",
) -> list[Inverse]:
    """Many queries on one batch of inputs; queries on one target share its forward and linearisation."""
    _check_family(family)
    check_input(family.plan.graph, x)
    if stage not in STAGES:
        raise QueryError(f"a stage among {list(STAGES)}", repr(stage), "Choose one of these.")
    if isinstance(queries, Query) or not isinstance(queries, Iterable):
        raise QueryError("a list of sgfi.Query", type(queries).__name__, "Put every query into one list.")
    queries = list(queries)
    strange = [type(query).__name__ for query in queries if not isinstance(query, Query)]
    if strange:
        raise QueryError("a list of sgfi.Query", f"a {strange[0]} among them", "Build each with sgfi.Query(...).")
    if not queries:
        raise QueryError("at least one query", "none", "Give a list of sgfi.Query.")
    dags = [family.plan.toward(query.target or family.target) for query in queries]
    found: dict[int, Inverse] = {}
    for target in dict.fromkeys(dag.target for dag in dags):
        places = [place for place, dag in enumerate(dags) if dag.target == target]
        asked = [queries[place] for place in places]
        for place, inverse in zip(places, _answer(family, x, dags[places[0]], asked, terminal, stage), strict=True):
            found[place] = inverse
    return [found[place] for place in range(len(queries))]


def _answer(
    family: MapFamily, x: Tensor, dag: BoundaryDag, queries: Sequence[Query], terminal: Tensor | None, stage: str
) -> list[Inverse]:
    """Queries on one target. Several are stacked along a leading axis, ``(Q, B, ...)``."""
    boundary = family.plan.boundary[dag.target]
    masks = [mask(boundary, query, x.device) for query in queries]
    sizes = [len(query.channels) if query.channels is not None else boundary.channels for query in queries]
    single = len(queries) == 1
    selector = masks[0] if single else torch.stack(masks).unsqueeze(1)  # (..., *shape), (Q, 1, ..., *shape)
    divisor = float(sizes[0]) if single else x.new_tensor(sizes).reshape(-1, *[1] * (len(boundary.basis.shape) + 1))

    def chosen(state: Tensor) -> Tensor:
        """P_{S,Q} H_T; a masked entry is exactly zero even where H_T is huge."""
        state = _checked_terminal(terminal, state) if terminal is not None else state
        return torch.where(selector, state, torch.zeros((), dtype=state.dtype, device=state.device))

    if stage == "raw":
        point = Linearisation(family.plan.graph, {}, x, keep=[dag.target])
        top = chosen(point.values[dag.target])
        states = backpropagate(family.plan.graph, dag.target, dag.fitted, x, top / divisor) | {dag.target: top}
    else:
        point = Linearisation(family.plan.graph, dag.frontiers, x, keep=[dag.target])
        channels = {name: family.plan.boundary[name].channels for name in dag.fitted}
        within = _within(family, dag, queries, x.device)
        top, most = chosen(point.values[dag.target]), 1 if stage == "first" else None
        states = walk(point, dag, family.maps, channels, top, divisor, within, most)
    pick = (lambda tensor, _: tensor) if single else (lambda tensor, place: tensor[place])
    ordered = {name: states[name] for name in (*dag.fitted, dag.target)}
    return [
        Inverse(pick(ordered["input"], place), {n: pick(t, place) for n, t in ordered.items()}, query, stage)
        for place, query in enumerate(queries)
    ]


def _within(
    family: MapFamily, dag: BoundaryDag, queries: Sequence[Query], device: torch.device
) -> dict[str, Tensor] | None:
    """By boundary, the entries up to each query's last position, ``(1, ...)`` or for several queries ``(Q, 1, ...)``.

    Only where causal maps ask for it, and ``None`` where every query reaches the end.
    """
    causal = [name for name in dag.fitted if family.plan.boundary[name].operator.causal]
    if not causal or all(query.coords is None for query in queries):
        return None
    last = [_last(family.plan.boundary[dag.target], query) for query in queries]
    found = {}
    for child in {child for name in causal for child in dag.frontiers[name]}:
        basis = family.plan.boundary[child].basis
        inside = torch.arange(basis.coords[0], device=device) <= torch.tensor(last, device=device).unsqueeze(
            1
        )  # (Q, L)
        axes = [-1 if axis in basis.coord_axes else 1 for axis in range(1 + len(basis.shape))]
        found[child] = inside.reshape(axes) if len(queries) == 1 else inside.reshape(len(queries), *axes)
    return found


def _last(boundary: Boundary, query: Query) -> int:
    """The last position a query asks about."""
    if query.coords is None:
        return boundary.basis.coords[0] - 1
    return max(coord[0] for coord in _checked_coords(query.coords, boundary))


def mask(boundary: Boundary, query: Query, device: torch.device) -> Tensor:
    """The shape-preserving projector P_{S,Q} of a query as a boolean tensor of the target's shape (no batch)."""
    node, basis = boundary.node, boundary.basis
    chosen = torch.ones(basis.shape, dtype=torch.bool, device=device)
    if query.channels is not None:
        picked = _checked_channels(query.channels, boundary)
        keep = torch.zeros(basis.channels, dtype=torch.bool, device=device)
        keep[picked] = True
        chosen &= keep.reshape([-1 if axis == node.channel_axis else 1 for axis in range(1, len(node.shape))])
    if query.coords is not None:
        keep = torch.zeros(basis.coords, dtype=torch.bool, device=device)
        for coord in _checked_coords(query.coords, boundary):
            keep[coord] = True
        chosen &= keep.unsqueeze(basis.channel_axis - 1)
    return chosen


def _checked_channels(channels: Sequence[int], boundary: Boundary) -> list[int]:
    expected = f"distinct channels of {boundary.name!r} between 0 and {boundary.channels - 1}"
    picked = _items(channels)
    if picked is None or not all(map(_is_integer, picked)):
        raise QueryError(expected, repr(channels), "Give a list of integers.")
    wrong = [channel for channel in picked if not 0 <= channel < boundary.channels]
    if not picked or wrong or len(set(picked)) < len(picked):
        got = f"{wrong[:5]}" if wrong else "an empty list" if not picked else f"repeated entries in {picked[:20]}"
        raise QueryError(expected, got, f"Channels run from 0 to {boundary.channels - 1}; leave them out for all.")
    return picked


def _checked_coords(coords: Sequence[Coord], boundary: Boundary) -> list[tuple[int, ...]]:
    sizes = boundary.basis.coords
    expected = f"distinct coordinates of {boundary.name!r} within {sizes}"
    items = _items(coords)
    if items is None:
        raise QueryError(expected, repr(coords), "Give a list of tuples (or of integers where there is one axis).")
    picked = [tuple(item) if isinstance(item, (tuple, list)) else (item,) for item in items]
    wrong = [
        coord
        for coord in picked
        if len(coord) != len(sizes)
        or not all(_is_integer(at) and 0 <= at < size for at, size in zip(coord, sizes, strict=True))
    ]
    if not picked or wrong or len(set(picked)) < len(picked):
        got = f"{wrong[:5]}" if wrong else "an empty list" if not picked else f"repeated entries in {picked[:20]}"
        form = f"[{', '.join(['0'] * len(sizes))}]" if len(sizes) == 1 else f"[({', '.join(['0'] * len(sizes))})]"
        raise QueryError(
            expected, got, f"Each takes {len(sizes)} number(s), as in coords={form}; leave them out for all."
        )
    return picked


def _items(given: Any) -> list[Any] | None:
    """What a list, array or tensor holds, with numpy and torch numbers as Python ones; None for anything else."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(given, Collection) or isinstance(given, (str, bytes, Mapping)):
        return None
    return [_plain(item) for item in given]


def _plain(item: Any) -> Any:
    if isinstance(item, (tuple, list)):
        return tuple(map(_plain, item))
    return item.tolist() if hasattr(item, "tolist") else item


def _is_integer(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _check_family(family: MapFamily) -> None:
    if not isinstance(family, MapFamily):
        raise QueryError("a map family", type(family).__name__, "Pass what sgfi.calibrate or sgfi.load returned.")
    if not family.forced and family.plan.graph.fingerprint != family.fingerprint:
        raise QueryError(
            f"the weights the maps were fitted on, {family.fingerprint[:16]}...",
            f"weights that have changed since, {family.plan.graph.fingerprint[:16]}...",
            "Maps of one checkpoint fail on another: restore the weights or calibrate again.",
        )


def _checked_terminal(terminal: Tensor, state: Tensor) -> Tensor:
    if not isinstance(terminal, Tensor) or terminal.shape != state.shape or terminal.dtype != state.dtype:
        got = f"{terminal.dtype} {tuple(terminal.shape)}" if isinstance(terminal, Tensor) else type(terminal).__name__
        raise QueryError(
            f"a terminal of the target's {state.dtype} {tuple(state.shape)}", got, "Shape and dtype must match."
        )
    if not torch.isfinite(terminal).all():
        raise QueryError("a finite terminal", "NaN or infinity", "Clean it first.")
    return terminal.detach().to(state.device)
