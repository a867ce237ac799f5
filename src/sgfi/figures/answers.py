"""Answers of a natural inverse as pictures, each beside its controls.

A value is a deviation from the prior's mean, so it is added to the mean and shown in the photograph's own
colours. Small deviations are multiplied by a gain that the caption names. Opacity is the share: what the feature does
not determine fades to grey instead of being invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sgfi.evaluation.trust import Trust
from sgfi.figures.atlases import source_cell
from sgfi.figures.grids import Cell, Grid, cell_mark, draw_grid
from sgfi.graph import Node
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Inverse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GREY = 0.5
VISIBLE = 0.35
"""Brightness, black to white being one, that the strongest hundredth of a shown deviation has at least."""
FAINTEST = 0.04
"""Opacity below which nothing is drawn."""


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


def answer_cell(inverse: Inverse, painter: Painter, index: int = 0, label: str = "") -> Cell:
    """One input's answer, its share as opacity."""
    deviation = inverse.value[index].cpu()
    detail = getattr(inverse, "detail_share", None)
    share = None if detail is None else detail[index].cpu()
    gain = painter.gain(deviation)
    strongest = None if share is None else float(share.max())
    opacity = None if share is None or not strongest else (share / strongest).sqrt()
    notes = [label] if label else []
    notes += [f"x{gain:.1f}"] if gain > 1.05 else []
    notes += [f"share ≤ {strongest:.2f}"] if strongest is not None else []
    return Cell(painter.picture(deviation, gain, opacity), "picture", "  ".join(notes))


def control_cell(picture: Tensor, painter: Painter, caption: str) -> Cell:
    """A control's deviation (C, H, W), on a gain of its own."""
    deviation = picture.cpu()
    gain = painter.gain(deviation)
    return Cell(painter.picture(deviation, gain), "picture", f"{caption}  x{gain:.1f}" if gain > 1.05 else caption)


def answers_figure(answers: Sequence[Trust], x: Tensor, nodes: Sequence[Node], painter: Painter) -> Figure:
    """One row a query on one input (1, C, H, W): the input, the answer, and what other targets would have given."""
    rows = []
    for answer, node in zip(answers, nodes, strict=True):
        query = answer.inverse.query
        marks = tuple(cell_mark(coord, node.coord_shape) for coord in query.coords or () if len(coord) == 2)
        source = source_cell(x[0], painter.preprocessing)
        row = [
            Cell(source.tensor, source.view, "input", marks),
            answer_cell(answer.inverse, painter),
            control_cell(answer.controls["random target"][0], painter, f"cos {float(answer.random[0]):.2f}"),
        ]
        if answer.swapped is not None:
            other = answer.controls["another input's target"][0]
            row.append(control_cell(other, painter, f"cos {float(answer.swapped[0]):.2f}"))
        rows.append(tuple(row))
    heads = ("input", "answer", "random target", "another input's target")
    labels = tuple(str(answer.inverse.query) for answer in answers)
    sentence = (
        answers[0].sentence() if len(answers) == 1 else "What a feature identifies, beside what other targets give"
    )
    width = max(map(len, rows))
    return draw_grid(Grid(tuple(rows), heads[:width], labels, sentence, side=1.9))


def answer_ladder(inverses: Sequence[Inverse], x: Tensor, painter: Painter, heads: Sequence[str]) -> Figure:
    """One row an input (B, C, H, W): the input, then each of the inverses, on which share is opacity."""
    rows = [
        (source_cell(x[index], painter.preprocessing), *(answer_cell(inverse, painter, index) for inverse in inverses))
        for index in range(len(x))
    ]
    return draw_grid(Grid(tuple(rows), ("input", *heads), (), "The same inputs from ever deeper tensors", side=1.7))
