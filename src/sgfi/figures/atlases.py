"""Atlases: what an estimator says about some inputs, as figures.

Every function takes an estimator and inputs ``x`` (B, C, H, W) in the model's coordinates. ``preprocessing`` shows the
photograph itself as it was; without it the photograph is shown by the percentile rule. Captions give the pixel cosine
(``cos``) between the inverse and the input, which describes alignment and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.figures.grids import Cell, Grid, Share, View, draw_grid, query_marks
from sgfi.figures.style import counted
from sgfi.graph import Node
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import STAGES, Estimator, Query, depth_targets, invert, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGE_NAMES = {"raw": "raw VJP", "first": "first (G)", "final": "final (G, D)"}


@dataclass(frozen=True)
class Look:
    """How the panels of a query grid are shown."""

    view: View = "natural"
    share: Share = "none"
    """Which panels have one scale."""
    columns: int = 4
    preprocessing: Preprocessing | None = None


def depth_ladder(
    estimator: Estimator,
    x: torch.Tensor,
    targets: Sequence[str] | None = None,
    *,
    stage: str = "final",
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an input, one column a depth: how the inverse changes as the target goes deeper."""
    targets = list(targets or depth_targets(estimator))
    inverses = sweep(estimator, x, [Query(target) for target in targets], stage=stage)
    title = f"Depth ladder, {stage_name(estimator, stage)}: the same inputs from ever deeper tensors"
    rows = _rows(x, [inverse.value for inverse in inverses], preprocessing)
    return draw_grid(Grid(rows, _depth_heads(estimator, targets), names, title))


def stage_comparison(
    estimator: Estimator,
    x: torch.Tensor,
    target: str | None = None,
    *,
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an input: the photograph, ordinary backpropagation, the first map, and both maps."""
    values = [invert(estimator, x, target=target, stage=stage).value for stage in STAGES]
    heads = ["input", *(stage_name(estimator, stage) for stage in STAGES)]
    title = f"Stages of the inverse at {depth_name(estimator.node(target))}"
    return draw_grid(Grid(_rows(x, values, preprocessing), heads, names, title))


def stage_ladder(
    estimator: Estimator,
    x: torch.Tensor,
    targets: Sequence[str] | None = None,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One input: rows are the stages, columns the depths."""
    targets = list(targets or depth_targets(estimator))
    rows: list[list[Cell | None]] = []
    for stage in STAGES:
        inverses = sweep(estimator, x[:1], [Query(target) for target in targets], stage=stage)
        first = source_cell(x[0], preprocessing) if stage == STAGES[0] else None
        rows.append([first, *(inverse_cell(inverse.value[0], x[0]) for inverse in inverses)])
    labels = [stage_name(estimator, stage) for stage in STAGES]
    title = "One input, three stages, ever deeper targets"
    return draw_grid(Grid(rows, _depth_heads(estimator, targets), labels, title))


def channel_grid(
    estimator: Estimator,
    x: torch.Tensor,
    channels: Sequence[int],
    target: str | None = None,
    *,
    look: Look | None = None,
    **changes: Any,
) -> Figure:
    """Single channels of one input, each inverted on its own; captions are queries.

    ``changes`` are fields of :class:`Look`, such as ``columns=3``.
    """
    queries = [Query(target, (channel,)) for channel in channels]
    return _query_grid(estimator, x, queries, "Single channels", replace(look or Look(), **changes))


def direction_grid(
    estimator: Estimator,
    x: torch.Tensor,
    directions: Sequence[Any],
    target: str | None = None,
    *,
    coords: Sequence[Sequence[int | None]] | None = None,
    look: Look | None = None,
    **changes: Any,
) -> Figure:
    """Directions of one input, each inverted on its own. ``changes`` are fields of :class:`Look`."""
    queries = [Query(target, None, coords, own) for own in directions]  # type: ignore[arg-type]
    return _query_grid(estimator, x, queries, "Directions", replace(look or Look(), **changes))


def channel_groups(
    estimator: Estimator,
    x: torch.Tensor,
    groups: Sequence[Sequence[int]],
    target: str | None = None,
    *,
    look: Look | None = None,
    **changes: Any,
) -> Figure:
    """Groups of channels of one input, each group inverted together. ``changes`` are fields of :class:`Look`."""
    queries = [Query(target, tuple(group)) for group in groups]
    return _query_grid(estimator, x, queries, "Channel groups", replace(look or Look(), **changes))


def coordinate_grid(
    estimator: Estimator,
    x: torch.Tensor,
    coords: Sequence[Sequence[int | None]],
    target: str | None = None,
    *,
    channels: Sequence[int] | None = None,
    directions: Any = None,
    look: Look | None = None,
    **changes: Any,
) -> Figure:
    """Single coordinates of one input; the queried cell is outlined on every panel, signed unless said otherwise.

    ``changes`` are fields of :class:`Look`.
    """
    queries = [Query(target, channels, (tuple(coord),), directions) for coord in coords]
    return _query_grid(estimator, x, queries, "Coordinates", replace(look or Look("signed"), **changes))


def image_grid(
    estimator: Estimator,
    x: torch.Tensor,
    query: Query | None = None,
    *,
    stage: str = "final",
    names: Sequence[str] = (),
    pairs: int = 3,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """Many inputs, one query: each input beside its inverse, ``pairs`` of them to a row."""
    query = query or Query()
    value = invert(estimator, x, query, stage=stage).value
    titles = [*names, *[f"input {i}" for i in range(len(names), len(x))]]
    cells: list[Cell] = []
    for i in range(len(x)):
        cells.append(replace(source_cell(x[i], preprocessing), caption=titles[i]))
        cells.append(inverse_cell(value[i], x[i]))
    shown = query.toward(query.target or estimator.target)
    rows = [cells[start : start + 2 * pairs] for start in range(0, len(cells), 2 * pairs)]
    title = f"{counted(len(x), 'input')} and inverses from {shown}, {stage_name(estimator, stage)}"
    return draw_grid(Grid(rows, title=title))


def zero_target(
    estimator: Estimator,
    x: torch.Tensor,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One input with its full target and with a zero target: no bias, so nothing comes out of nothing."""
    full = invert(estimator, x[:1])
    zeros = torch.zeros_like(full.states[estimator.node().name])
    nothing = invert(estimator, x[:1], terminal=zeros).value
    cells = [
        source_cell(x[0], preprocessing),
        inverse_cell(full.value[0], x[0]),
        Cell(nothing[0], caption=f"largest magnitude {float(nothing.abs().max()):.0e}"),
    ]
    heads = ["input", "full target", "zero target"]
    return draw_grid(Grid([cells], heads, title="The maps add nothing of their own"))


def stage_name(estimator: Estimator, stage: str) -> str:
    """How far an answer went: G and D are calibrated maps, which a natural inverse has none of."""
    facts = estimator.describe()
    if facts.get("estimator") != "natural inverse":
        return STAGE_NAMES[stage]
    return {"raw": "raw VJP", "first": "VJP, prior", "final": "natural inverse"}[stage] + f", {facts['jacobian']}"


def depth_name(node: Node) -> str:
    """Short enough for a column head: long module paths lose their middle."""
    return node.name if len(node.name) <= 22 else f"{node.name[:9]}…{node.name[-12:]}"


def shape_name(node: Node) -> str:
    """``192x8x8``"""
    return "x".join(map(str, node.shape[1:]))


def _depth_heads(estimator: Estimator, targets: Sequence[str]) -> list[str]:
    nodes = [estimator.node(target) for target in targets]
    return ["input", *(f"{depth_name(node)}\n{shape_name(node)}" for node in nodes)]


def _rows(x: torch.Tensor, values: Sequence[torch.Tensor], preprocessing: Preprocessing | None) -> list[list[Cell]]:
    """One row per input: the input, then its inverses."""
    return [[source_cell(x[i], preprocessing), *(inverse_cell(v[i], x[i]) for v in values)] for i in range(len(x))]


def strongest_channels(estimator: Estimator, x: torch.Tensor, target: str | None, count: int) -> list[int]:
    """The channels of one input with the most energy at the target, strongest first."""
    node = estimator.node(target)
    state = invert(estimator, x[:1], target, stage="raw").states[node.name]  # the terminal state: H_T
    energy = state.square().sum([0, *node.coord_axes])
    return [int(channel) for channel in energy.topk(min(count, len(energy))).indices]


def spread_coords(shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """``count`` coordinates spread evenly over a coordinate grid, in reading order."""
    total = math.prod(shape)
    if total < 1 or not shape:
        raise QueryError("a target with coordinate axes", f"shape {shape}", "Choose another target.")
    # Additive recurrence with the generalised golden ratio: evenly spread for every count and any number of axes.
    ratio = 2.0
    for _ in range(30):
        ratio = (1 + ratio) ** (1 / (len(shape) + 1))
    steps = [ratio ** -(axis + 1) for axis in range(len(shape))]
    chosen: set[tuple[int, ...]] = set()
    index = 0
    while len(chosen) < min(count, total):
        chosen.add(tuple(int(n * ((0.5 + index * step) % 1)) for n, step in zip(shape, steps, strict=True)))
        index += 1
    return sorted(chosen)


def source_cell(x: torch.Tensor, preprocessing: Preprocessing | None) -> Cell:
    """The input itself: (C, H, W)."""
    if preprocessing is None:
        return Cell(x)
    return Cell(preprocessing.denormalise(x[None])[0].clamp(0, 1), "picture")


def inverse_cell(
    value: torch.Tensor,
    x: torch.Tensor,
    view: View = "natural",
    marks: tuple[tuple[float, float, float, float], ...] = (),
    label: str = "",
) -> Cell:
    """An inverse (C, H, W) with its pixel cosine for a caption."""
    caption = f"cos {float(pixel_cosine(value[None], x[None])):.2f}"
    return Cell(value, view, f"{label}  {caption}" if label else caption, marks)


def _query_grid(estimator: Estimator, x: torch.Tensor, queries: Sequence[Query], title: str, look: Look) -> Figure:
    """The input, then one panel per query, all of one target and one input."""
    if len(x) != 1:
        raise QueryError("one input", f"{len(x)}", "Pass x[i : i + 1].")
    if not queries:
        raise QueryError("at least one query", "none", "Name channels or coordinates.")
    node = estimator.node(queries[0].target)
    whole, *values = (
        f.value[0] for f in sweep(estimator, x, [Query(node.name), *(q.toward(node.name) for q in queries)])
    )
    marks = [query_marks(query, node, x.shape[2:]) for query in queries]
    cells = [
        replace(source_cell(x[0], look.preprocessing), caption="input", marks=tuple(m for own in marks for m in own)),
        inverse_cell(whole, x[0], label="all"),
    ]
    for query, value, mark in zip(queries, values, marks, strict=True):
        cells.append(inverse_cell(value, x[0], look.view, mark, _label(query)))
    rows = [cells[start : start + look.columns] for start in range(0, len(cells), look.columns)]
    title = f"{title} of {depth_name(node)} ({shape_name(node)})"
    return draw_grid(Grid(rows, title=title, share=look.share, reference=float(whole.abs().max())))


def _label(query: Query) -> str:
    """The query without its node, shortened when it names many channels."""
    text = str(query.at(None, query.coords))
    if query.directions is not None:
        return text.rpartition("/")[2]
    if len(text) <= 12 or query.channels is None:
        return text
    return f"{len(query.channels)} channels"
