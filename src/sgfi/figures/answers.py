"""Answers of a natural inverse as pictures, each beside its controls.

A value is a deviation from the prior's mean, so it is added to the mean and shown in the photograph's own
colours. Small deviations are multiplied by a gain that the caption names. Opacity is the share: what the feature does
not determine fades to grey instead of being invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sgfi.evaluation.trust import Trust
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.grids import Cell, Grid, draw_cell, draw_grid, query_marks
from sgfi.figures.rows import Panel, Panels, control_heads, draw_rows, row_of
from sgfi.graph import Node
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Inverse, Query, sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = 0.5
VISIBLE = 0.35
"""Brightness, black to white being one, that the strongest hundredth of a shown deviation has at least."""
FAINTEST = 0.04
"""Opacity below which nothing is drawn."""
SAME_GAIN = 1.05
"""Gain up to which none is named."""
COLUMNS = 4
RULE = "Each picture is the mean colour plus gain times the answer; controls have gains of their own."
OPACITY = (
    "Opacity is the root of the share, relative to its maximum: grey is what the feature does not determine. Controls "
    "fade with their answer."
)
SOLID = "Nothing fades: the share was left out."


@dataclass(frozen=True)
class Painter:
    """How deviations become pictures: the mean they start from, and the preparation to undo."""

    mean: Tensor
    """(C, H, W)"""
    preprocessing: Preprocessing

    def gain(self, deviation: Tensor) -> float:
        """How much a deviation (C, H, W) is multiplied by: never less than one."""
        shown = self._pixels(self.mean + deviation) - self._pixels(self.mean)
        strength = float(torch.quantile(shown.abs().flatten(), 0.99))
        return max(1.0, VISIBLE / strength) if strength > 0 else 1.0

    def picture(self, deviation: Tensor, gain: float = 1.0, opacity: Tensor | None = None) -> Tensor:
        """(C, H, W) in 0..1: mean plus deviation, faded to grey where ``opacity`` (H, W) is low."""
        shown = self._pixels(self.mean + gain * deviation).clamp(0, 1)
        if opacity is None:
            return shown
        visible = torch.where(opacity < FAINTEST, 0.0, opacity).to(shown)
        return GREY + visible * (shown - GREY)

    def _pixels(self, x: Tensor) -> Tensor:
        return self.preprocessing.denormalise(x.unsqueeze(0))[0]


def answer_cell(inverse: Inverse, painter: Painter, index: int = 0, label: str = "", share: bool = True) -> Cell:
    """One input's answer, its share as opacity (without ``share`` nothing fades, and none is worked out)."""
    opacity, strongest = opacity_of(inverse, index) if share else (None, None)
    notes = [label] if label else []
    return _painted(inverse.value[index], painter, opacity, [*notes, *_share_note(strongest)])


def control_cell(picture: Tensor, painter: Painter, caption: str, opacity: Tensor | None = None) -> Cell:
    """A control's deviation (C, H, W), on a gain of its own."""
    return _painted(picture, painter, opacity, [caption])


def opacity_of(inverse: Inverse, index: int = 0) -> tuple[Tensor | None, float | None]:
    """(H, W) the root of the share relative to its maximum, and the maximum; nothing where the share is not known."""
    detail = getattr(inverse, "detail_share", None)
    if detail is None or detail[index].isnan().any():
        return None, None
    share = detail[index].cpu()
    strongest = float(share.max())
    return (share / strongest).clamp_min(0).sqrt() if strongest > 0 else torch.zeros_like(share), strongest


def answers_figure(
    answers: Sequence[Trust], x: Tensor, nodes: Sequence[Node], painter: Painter, *, share: bool = True
) -> Figure:
    """One row a query on one input (1, C, H, W): the input, the answer, and what other targets would have given.

    A control fades where its answer does: the share is the query's, whatever the target. ``share=False`` fades
    nothing and saves the seconds that the share of a large query takes.
    """
    rows = [
        row_of(answer, node, _row_panels(answer, node, x, painter, share))
        for answer, node in zip(answers, nodes, strict=True)
    ]
    tall, wide = x.shape[2:]
    return draw_rows(rows, f"{RULE} {OPACITY if share else SOLID}", Panels(height=Panels.width * tall / wide))


def natural_ladder(
    inverses: Sequence[Inverse],
    x: Tensor,
    painter: Painter,
    nodes: Sequence[Node],
    names: Sequence[str] = (),
) -> Figure:
    """One row an input (B, C, H, W): the input, then each whole tensor's inverse; nothing fades."""
    rows = [
        (
            source_cell(x[index], painter.preprocessing),
            *(control_cell(inverse.value[index], painter, "") for inverse in inverses),
        )
        for index in range(len(x))
    ]
    heads = ("input", *(f"{depth_name(node)}\n{shape_name(node)}" for node in nodes))
    title = "Natural inverses of whole tensors, deeper to the right"
    return draw_grid(Grid(tuple(rows), heads, tuple(names), title))


def answer_grid(
    lens: Estimator, x: Tensor, queries: Sequence[Query], preprocessing: Preprocessing, share: bool = True
) -> Figure:
    """One input (1, C, H, W), then a natural inverse's answer to each query on one tensor, its cell outlined."""
    node = lens.node(queries[0].target)
    painter = Painter((x[0] * 0 + lens.origin).cpu(), preprocessing)
    marks = [query_marks(query, node, x.shape[2:]) for query in queries]
    source = source_cell(x[0], preprocessing)
    cells = [replace(source, caption="input", marks=tuple(mark for own in marks for mark in own))]
    for inverse, query, own in zip(sweep(lens, x, queries), queries, marks, strict=True):
        label = str(Query(None, query.channels, query.coords))
        cells.append(replace(answer_cell(inverse, painter, label=label, share=share), marks=own))
    rows = tuple(tuple(cells[start : start + COLUMNS]) for start in range(0, len(cells), COLUMNS))
    what = "cells" if queries[0].coords else "channels"
    title = f"Natural inverses of single {what} of {depth_name(node)} ({shape_name(node)})"
    return draw_grid(Grid(rows, title=title, side=1.7))


def _painted(picture: Tensor, painter: Painter, opacity: Tensor | None, notes: list[str]) -> Cell:
    deviation = picture.cpu()
    gain = painter.gain(deviation if opacity is None else opacity.to(deviation) * deviation)  # of what is seen
    notes = [*notes, f"gain {gain:.1f}"] if gain > SAME_GAIN else notes
    return Cell(painter.picture(deviation, gain, opacity), "picture", "\n".join(notes))


def _share_note(strongest: float | None) -> list[str]:
    return [] if strongest is None else [f"detail share up to {strongest:.2f}"]


def _row_panels(answer: Trust, node: Node, x: Tensor, painter: Painter, share: bool) -> tuple[Panel, ...]:
    marks = query_marks(answer.inverse.query, node, x.shape[2:])
    source = replace(source_cell(x[0].cpu(), painter.preprocessing), caption="", marks=marks)
    opacity = opacity_of(answer.inverse)[0] if share else None
    controls = [
        _panel(head, control_cell(answer.controls[label][0], painter, cosine, opacity))
        for label, head, cosine in control_heads(answer)
    ]
    return _panel("input", source), _panel("answer", answer_cell(answer.inverse, painter, share=share)), *controls


def _panel(head: str, cell: Cell) -> Panel:
    return Panel(head, partial(draw_cell, cell=replace(cell, caption="")), cell.caption)
