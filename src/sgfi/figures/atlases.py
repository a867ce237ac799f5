"""Atlases: what a family of maps says about some inputs, as figures.

Every function takes a fitted family and inputs ``x`` (B, C, H, W) in the model's coordinates. ``preprocessing`` lets
the photograph itself be shown as it was; without it the photograph is shown by the percentile rule. Captions give the
pixel cosine (``cos``) between the inverse and the input, which describes alignment and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from sgfi.errors import QueryError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.figures.grids import Cell, Grid, Share, View, cell_mark, draw_grid
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query, depth_targets, invert, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STAGES = ("raw", "first", "final")
STAGE_NAMES = {"raw": "raw VJP", "first": "first (G)", "final": "final (G, D)"}


def depth_ladder(
    family: Any,
    x: torch.Tensor,
    targets: Sequence[str] | None = None,
    *,
    stage: str = "final",
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an input, one column a depth: how the inverse changes as the target goes deeper."""
    targets = list(targets or depth_targets(family))
    found = sweep(family, x, [Query(target) for target in targets], stage=stage)
    rows = [[source_cell(x[i], preprocessing), *(inverse_cell(f.value[i], x[i]) for f in found)] for i in range(len(x))]
    heads = _depth_heads(family.plan, targets)
    title = f"Depth ladder, {STAGE_NAMES[stage]}: the same inputs from ever deeper tensors"
    return draw_grid(_grid(rows, heads, names, title))


def stage_comparison(
    family: Any,
    x: torch.Tensor,
    target: str | None = None,
    *,
    names: Sequence[str] = (),
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row an input: the photograph, ordinary backpropagation, the first map, and both maps."""
    found = [invert(family, x, target=target, stage=stage).value for stage in STAGES]
    rows = [
        [source_cell(x[i], preprocessing), *(inverse_cell(value[i], x[i]) for value in found)] for i in range(len(x))
    ]
    where = depth_name(family.plan, target or family.plan.target)
    heads = ["input", *(STAGE_NAMES[stage] for stage in STAGES)]
    return draw_grid(_grid(rows, heads, names, f"Stages of the inverse at {where}"))


def stage_ladder(
    family: Any,
    x: torch.Tensor,
    targets: Sequence[str] | None = None,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One input: rows are the stages, columns the depths."""
    targets = list(targets or depth_targets(family))
    rows: list[list[Cell | None]] = []
    for stage in STAGES:
        found = sweep(family, x[:1], [Query(target) for target in targets], stage=stage)
        first = source_cell(x[0], preprocessing) if stage == STAGES[0] else None
        rows.append([first, *(inverse_cell(f.value[0], x[0]) for f in found)])
    labels = [STAGE_NAMES[stage] for stage in STAGES]
    title = "One input, three stages, ever deeper targets"
    return draw_grid(_grid(rows, _depth_heads(family.plan, targets), labels, title))


def channel_grid(
    family: Any,
    x: torch.Tensor,
    channels: Sequence[int],
    target: str | None = None,
    *,
    view: View = "natural",
    share: Share = "none",
    columns: int = 4,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """Single channels of one input, each inverted on its own; captions are queries."""
    queries = [Query(target, (channel,)) for channel in channels]
    return _query_grid(family, x, queries, "Single channels", view, share, columns, preprocessing)


def channel_groups(
    family: Any,
    x: torch.Tensor,
    groups: Sequence[Sequence[int]],
    target: str | None = None,
    *,
    view: View = "natural",
    share: Share = "none",
    columns: int = 4,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """Groups of channels of one input, each group inverted together."""
    queries = [Query(target, tuple(group)) for group in groups]
    return _query_grid(family, x, queries, "Channel groups", view, share, columns, preprocessing)


def coordinate_grid(
    family: Any,
    x: torch.Tensor,
    coords: Sequence[Sequence[int]],
    target: str | None = None,
    *,
    channels: Sequence[int] | None = None,
    view: View = "signed",
    share: Share = "none",
    columns: int = 4,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """Single coordinates of one input; the queried cell is outlined on every panel."""
    chosen = None if channels is None else tuple(channels)
    queries = [Query(target, chosen, (tuple(coord),)) for coord in coords]
    return _query_grid(family, x, queries, "Coordinates", view, share, columns, preprocessing)


def image_grid(
    family: Any,
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
    value = invert(family, x, query.target, query.channels, query.coords, stage=stage).value
    titles = [*names, *[f"input {i}" for i in range(len(names), len(x))]]
    cells: list[Cell] = []
    for i in range(len(x)):
        cells.append(_captioned(source_cell(x[i], preprocessing), titles[i]))
        cells.append(inverse_cell(value[i], x[i]))
    target = query.target or family.plan.target
    shown = str(Query(target, query.channels, query.coords))
    rows = [cells[start : start + 2 * pairs] for start in range(0, len(cells), 2 * pairs)]
    title = f"{len(x)} inputs and their inverses from {shown}, {STAGE_NAMES[stage]}"
    return draw_grid(_grid(rows, (), (), title))


def zero_target(
    family: Any,
    x: torch.Tensor,
    *,
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One input with its full target and with a zero target: no bias, so nothing comes out of nothing."""
    full = invert(family, x[:1])
    state = full.states[family.plan.target]
    nothing = invert(family, x[:1], terminal=torch.zeros_like(state)).value
    cells = [
        source_cell(x[0], preprocessing),
        inverse_cell(full.value[0], x[0]),
        _captioned(Cell(nothing[0]), f"largest magnitude {float(nothing.abs().max()):.0e}"),
    ]
    heads = ["input", "full target", "zero target"]
    return draw_grid(_grid([cells], heads, (), "The maps add nothing of their own"))


def depth_name(plan: Any, target: str) -> str:
    """Short enough for a column head: long module paths lose their middle."""
    name = str(plan.graph.nodes[target].name)
    return name if len(name) <= 22 else f"{name[:9]}…{name[-12:]}"


def shape_name(plan: Any, target: str) -> str:
    """``192x8x8``"""
    return "x".join(str(length) for length in plan.graph.nodes[target].shape[1:])


def _depth_heads(plan: Any, targets: Sequence[str]) -> list[str]:
    return ["input", *(f"{depth_name(plan, t)}\n{shape_name(plan, t)}" for t in targets)]


def strongest_channels(family: Any, x: torch.Tensor, target: str | None, count: int) -> list[int]:
    """The channels of one input with the most energy at the target, strongest first."""
    node = family.plan.graph.nodes[target or family.plan.target]
    state = invert(family, x[:1], target, stage="raw").states[node.name]  # the terminal state: H_T
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
    place = 0
    while len(chosen) < min(count, total):
        chosen.add(tuple(int(n * ((0.5 + place * step) % 1)) for n, step in zip(shape, steps, strict=True)))
        place += 1
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
    cosine = float(pixel_cosine(value[None], x[None]))
    said = f"cos {cosine:.2f}"
    return Cell(value, view, f"{label}  {said}" if label else said, marks)


def _query_grid(
    family: Any,
    x: torch.Tensor,
    queries: Sequence[Query],
    title: str,
    view: View,
    share: Share,
    columns: int,
    preprocessing: Preprocessing | None,
) -> Figure:
    """The input, then one panel a query, all of one target and one input."""
    if len(x) != 1:
        raise QueryError("one input", f"{len(x)}", "Pass x[i : i + 1].")
    if not queries:
        raise QueryError("at least one query", "none", "Name channels or coordinates.")
    target = family.plan.graph.nodes[queries[0].target or family.plan.target].name
    asked = [Query(target), *(Query(target, q.channels, q.coords) for q in queries)]
    found = [inverse.value[0] for inverse in sweep(family, x, asked)]
    node = family.plan.graph.nodes[target]
    marks = [_marks(query, node.coord_shape) for query in queries]
    cells = [
        _captioned(source_cell(x[0], preprocessing), "input", tuple(m for ms in marks for m in ms)),
        inverse_cell(found[0], x[0], label="all"),
    ]
    for query, value, mark in zip(queries, found[1:], marks, strict=True):
        cells.append(inverse_cell(value, x[0], view, mark, _label(query)))
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    head = f"{title} of {depth_name(family.plan, target)} ({shape_name(family.plan, target)})"
    grid = replace(_grid(rows, (), (), head, share), reference=float(found[0].abs().max()))
    return draw_grid(grid)


def _label(query: Query) -> str:
    """The query without its node, shortened when it names many channels."""
    text = str(Query(None, query.channels, query.coords))
    if len(text) <= 12 or query.channels is None:
        return text
    return f"{len(query.channels)} channels"


def _marks(query: Query, shape: tuple[int, ...]) -> tuple[tuple[float, float, float, float], ...]:
    """Outlines for maps with rows and columns; token positions have no place on the picture."""
    if query.coords is None or len(shape) != 2:
        return ()
    return tuple(cell_mark(coord, shape) for coord in query.coords)


def _captioned(cell: Cell, caption: str, marks: tuple[tuple[float, float, float, float], ...] = ()) -> Cell:
    return Cell(cell.tensor, cell.view, caption, marks)


def _grid(
    rows: Sequence[Sequence[Cell | None]],
    columns: Sequence[str],
    labels: Sequence[str],
    title: str,
    share: Share = "none",
) -> Grid:
    return Grid(tuple(map(tuple, rows)), tuple(columns), tuple(labels), title, share)
