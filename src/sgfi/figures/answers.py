"""Answers of a natural inverse as pictures, each beside its controls.

A value is a deviation from the prior's mean, so it is added to the mean and shown in the photograph's own
colours. Small deviations are multiplied by a gain that the caption names. Opacity is the share: what the feature does
not determine fades to grey instead of being invented.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sgfi.evaluation.trust import Trust
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.grids import Cell, Grid, draw_cell, draw_grid, query_marks
from sgfi.figures.style import FAINT, new_figure
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
SIDE, GAP, MARGIN, HEADS, CAPTIONS = 1.5, 0.1, 0.12, 0.3, 0.3
TITLE, TEXT, SMALL, LEADING = 9.5, 8.5, 7.5, 1.2
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
        _Row(_row_title(answer, node), _row_cells(answer, node, x, painter, share), answer.sentence())
        for answer, node in zip(answers, nodes, strict=True)
    ]
    return _draw_rows(rows, f"{RULE} {OPACITY if share else SOLID}")


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


# The layout of rows with a title above and a sentence below: inches, and points for text.


@dataclass(frozen=True)
class _Row:
    title: str
    cells: tuple[tuple[str, Cell], ...]
    """Head and panel."""
    sentence: str


def _row_title(answer: Trust, node: Node) -> str:
    query = re.sub(r"%\S*/(?=[^/:@\s])", "%", str(answer.inverse.query))  # a file of directions without its folder
    return f"{query}  ({shape_name(node)})"


def _row_cells(answer: Trust, node: Node, x: Tensor, painter: Painter, share: bool) -> tuple[tuple[str, Cell], ...]:
    query = answer.inverse.query
    marks = query_marks(query, node, x.shape[2:])
    source = source_cell(x[0].cpu(), painter.preprocessing)
    opacity = opacity_of(answer.inverse)[0] if share else None
    controls = [
        (
            f"control:\n{label}",
            control_cell(picture[0], painter, f"cosine {float(answer.cosines[label][0]):.2f}", opacity),
        )
        for label, picture in answer.controls.items()
    ]
    answered = answer_cell(answer.inverse, painter, share=share)
    return (("input", Cell(source.tensor, source.view, "", marks)), ("answer", answered), *controls)


def _draw_rows(rows: Sequence[_Row], rule: str) -> Figure:
    columns, aspect = max(len(row.cells) for row in rows), _aspect(rows)
    width = 2 * MARGIN + columns * SIDE + (columns - 1) * GAP
    titles = [_lines(row.title, width, TITLE) for row in rows]
    sentences = [_lines(row.sentence, width, TEXT) for row in rows]
    foot = _lines(rule, width, SMALL)
    tall = [
        _height(title, TITLE) + HEADS + SIDE * aspect + CAPTIONS + _height(sentence, TEXT) + 2 * MARGIN
        for title, sentence in zip(titles, sentences, strict=True)
    ]
    height = sum(tall) + _height(foot, SMALL) + MARGIN
    figure = new_figure(width, height)

    def write(left: float, top: float, text: str, size: float, **style: Any) -> None:
        figure.text(left / width, 1 - top / height, text, size=size, va="top", linespacing=LEADING, **style)

    top = 0.0
    for row, title, sentence, used in zip(rows, titles, sentences, tall, strict=True):
        write(MARGIN, top + MARGIN, "\n".join(title), TITLE, weight="bold")
        panels = top + MARGIN + _height(title, TITLE) + HEADS
        for number, (head, cell) in enumerate(row.cells):
            left = MARGIN + number * (SIDE + GAP)
            figure.text(left / width, 1 - (panels - 0.04) / height, head, size=SMALL, va="bottom", linespacing=LEADING)
            box = left / width, 1 - (panels + SIDE * aspect) / height, SIDE / width, SIDE * aspect / height
            draw_cell(figure.add_axes(box), replace(cell, caption=""))
            write(left, panels + SIDE * aspect + 0.04, cell.caption, SMALL, gid=FAINT)
        write(MARGIN, top + used - _height(sentence, TEXT) - MARGIN / 2, "\n".join(sentence), TEXT)
        top += used
    write(MARGIN, top + MARGIN / 2, "\n".join(foot), SMALL, gid=FAINT)
    return figure


def _aspect(rows: Sequence[_Row]) -> float:
    tall, wide = rows[0].cells[0][1].tensor.shape[-2:]
    return tall / wide


def _lines(text: str, width: float, points: float) -> list[str]:
    """Wrapped to the figure's width: a character of the default font is about 0.58 of its size wide."""
    return textwrap.wrap(text, max(20, int((width - 2 * MARGIN) * 72 / (0.58 * points))))


def _height(lines: Sequence[str], points: float) -> float:
    return len(lines) * points * LEADING * 1.15 / 72
