"""Answers on inputs that are no pictures: vectors as bars, signals as lines, wide sequences by length at a position.

All panels show deviations from the prior's mean, the input's own too, so that an answer can be compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sgfi.evaluation.trust import Trust
from sgfi.figures.answers import OPACITY, SOLID, opacity_of
from sgfi.figures.rows import Panel, Panels, control_heads, draw_rows, row_of
from sgfi.figures.tokens import shown
from sgfi.graph import Node

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = 4
"""Channels up to which each has a line."""
NAMED = 24
"""Positions up to which their names are written."""
SIZE, LETTER = Panels(2.3, 1.2, gap=0.4, left=0.3, below=0.16), 0.042
"""Inches; a letter of a position's name takes so many."""
ZERO, FAINTEST = "#8a909c", 0.12
"""Colour of axes, seen on paper of either theme; opacity that every position has at least."""
RULE = "Deviations from the prior's mean, each panel on its own scale. {what}"
BARS = "A bar is one number of the input, in standard deviations of the prior."
CURVES = "A line is one channel."
LENGTHS = "A bar is the length over the {channels} channels at one position."


@dataclass(frozen=True)
class Series:
    """How inputs of one shape are laid out as curves."""

    mean: Tensor
    """(*input)"""
    channel_axis: int
    """Of ``mean``; a vector has channels alone."""
    deviation: Tensor
    """(*input) the prior's standard deviation, in which the numbers of a vector are drawn."""
    names: tuple[str, ...] = ()
    """Of the positions, such as tokens."""

    @property
    def what(self) -> str:
        if self.mean.dim() == 1:
            return BARS
        channels = self.mean.shape[self.channel_axis]
        return CURVES if channels <= LINES else LENGTHS.format(channels=channels)

    def curves(self, deviation: Tensor) -> Tensor:
        """(lines, positions) of a deviation (*input)."""
        if deviation.dim() == 1:
            return (deviation / self.deviation.to(deviation).clamp_min(1e-30)).unsqueeze(0)
        channels = deviation.movedim(self.channel_axis, 0)
        return channels if len(channels) <= LINES else channels.norm(dim=0, keepdim=True)

    def draw(self, axes: Axes, deviation: Tensor, opacity: Tensor | None) -> None:
        curves = self.curves(deviation.detach().cpu().double())
        seen = torch.ones(curves.shape[1]) if opacity is None else opacity.clamp(FAINTEST, 1)
        if self.what == CURVES:
            _draw_lines(axes, curves, seen)
        else:
            colours = [("C0", float(alpha)) for alpha in seen]
            axes.bar(range(curves.shape[1]), curves[0].tolist(), width=0.9, color=colours)
        axes.axhline(0, color=ZERO, linewidth=0.5, zorder=0)
        self._dress(axes, curves.shape[1])

    def _dress(self, axes: Axes, positions: int) -> None:
        from matplotlib.ticker import MaxNLocator

        for side, spine in axes.spines.items():
            spine.set_visible(side in ("left", "bottom"))
            spine.set(color=ZERO, linewidth=0.5)
        axes.tick_params(labelsize=5.5, length=2, width=0.5, pad=1.5, color=ZERO)
        axes.yaxis.set_major_locator(MaxNLocator(3))
        axes.set_xlim(-0.6, positions - 0.4)
        if self.names and positions <= NAMED:
            axes.set_xticks(range(positions), [shown(name) for name in self.names], rotation=90)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))


def series_figure(
    answers: Sequence[Trust], x: Tensor, nodes: Sequence[Node], series: Series, *, share: bool = True
) -> Figure:
    """One row a query on one input (1, *input): the input, the answer, and what other targets would have given."""
    rows = [
        row_of(answer, node, _panels(answer, x, series, share)) for answer, node in zip(answers, nodes, strict=True)
    ]
    fades = share and series.mean.dim() > 1
    opacity = OPACITY.replace("grey", "pale") if fades else "" if series.mean.dim() == 1 else SOLID
    named = bool(series.names) and len(series.names) <= NAMED
    below = LETTER * max(len(shown(name)) for name in series.names) if named else 0.0
    rule = f"{RULE.format(what=series.what)} {opacity}".strip()
    return draw_rows(rows, rule, replace(SIZE, below=SIZE.below + below))


def _panels(answer: Trust, x: Tensor, series: Series, share: bool) -> tuple[Panel, ...]:
    opacity, strongest = opacity_of(answer.inverse) if share else (None, None)
    if opacity is not None and not opacity.dim():  # a vector's share is one number
        opacity = None
    note = "" if strongest is None else f"detail share up to {strongest:.2f}"
    draw = partial(series.draw, opacity=opacity)
    return (
        Panel("input", partial(series.draw, deviation=x[0].cpu() - series.mean, opacity=None)),
        Panel("answer", partial(draw, deviation=answer.inverse.value[0]), note),
        *(
            Panel(head, partial(draw, deviation=answer.controls[label][0]), cosine)
            for label, head, cosine in control_heads(answer)
        ),
    )


def _draw_lines(axes: Axes, curves: Tensor, seen: Tensor) -> None:
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    places = torch.arange(curves.shape[1], dtype=curves.dtype)
    faded = torch.minimum(seen[1:], seen[:-1]).tolist()
    for number, curve in enumerate(curves):
        points = torch.stack([places, curve], 1)
        segments = torch.stack([points[:-1], points[1:]], 1).numpy()
        colours = [to_rgba(f"C{number}", alpha) for alpha in faded]
        axes.add_collection(LineCollection(list(segments), colors=colours, linewidths=1.0))
    low, high = float(curves.min()), float(curves.max())
    room = 0.06 * (high - low) or 1.0
    axes.set_ylim(min(low, 0.0) - room, max(high, 0.0) + room)
