"""The layout of answers: a row a query, its title above the panels, what the controls say below them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgfi.evaluation.trust import Trust
from sgfi.figures.atlases import shape_name
from sgfi.figures.style import FAINT, new_figure
from sgfi.graph import Node

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARGIN, HEADS, CAPTIONS = 0.12, 0.3, 0.3
TITLE, TEXT, SMALL, LEADING = 9.5, 8.5, 7.5, 1.2
"""Points; the rest is inches."""


@dataclass(frozen=True)
class Panels:
    """Inches that a panel takes, and those between two."""

    width: float = 1.5
    height: float = 1.5
    gap: float = 0.1
    left: float = 0.0
    below: float = 0.0
    """For the numbers of axes."""


@dataclass(frozen=True)
class Panel:
    """One picture or curve of a row."""

    head: str
    draw: Callable[[Axes], object]
    caption: str = ""


@dataclass(frozen=True)
class Row:
    """One query."""

    title: str
    panels: tuple[Panel, ...]
    sentence: str


def row_of(answer: Trust, node: Node, panels: tuple[Panel, ...]) -> Row:
    """An answer's row: the query with its tensor's shape, the panels, and what the controls say."""
    query = re.sub(r"%\S*/(?=[^/:@\s])", "%", str(answer.inverse.query))  # a file of directions without its folder
    return Row(f"{query}  ({shape_name(node)})", panels, answer.sentence())


def control_heads(answer: Trust) -> list[tuple[str, str, str]]:
    """Of every control: its label, the head above its panel, and its cosine with the answer."""
    return [(label, f"control:\n{label}", f"cosine {float(answer.cosines[label][0]):.2f}") for label in answer.controls]


def draw_rows(rows: Sequence[Row], rule: str, size: Panels) -> Figure:
    """The rows as a figure, with the rule of display at its foot."""
    columns = max(len(row.panels) for row in rows)
    width = 2 * MARGIN + size.left + columns * size.width + (columns - 1) * size.gap
    titles = [_lines(row.title, width, TITLE) for row in rows]
    sentences = [_lines(row.sentence, width, TEXT) for row in rows]
    foot = _lines(rule, width, SMALL)
    tall = [
        _height(title, TITLE) + HEADS + size.height + size.below + CAPTIONS + _height(sentence, TEXT) + 2 * MARGIN
        for title, sentence in zip(titles, sentences, strict=True)
    ]
    height = sum(tall) + _height(foot, SMALL) + MARGIN
    figure = new_figure(width, height)

    def write(left: float, top: float, text: str, points: float, **style: Any) -> None:
        figure.text(left / width, 1 - top / height, text, size=points, va="top", linespacing=LEADING, **style)

    top = 0.0
    for row, title, sentence, used in zip(rows, titles, sentences, tall, strict=True):
        write(MARGIN, top + MARGIN, "\n".join(title), TITLE, weight="bold")
        above = top + MARGIN + _height(title, TITLE) + HEADS
        for number, panel in enumerate(row.panels):
            left = MARGIN + size.left + number * (size.width + size.gap)
            head = left / width, 1 - (above - 0.04) / height
            figure.text(*head, panel.head, size=SMALL, va="bottom", linespacing=LEADING)
            below = 1 - (above + size.height) / height
            panel.draw(figure.add_axes((left / width, below, size.width / width, size.height / height)))
            write(left, above + size.height + size.below + 0.04, panel.caption, SMALL, gid=FAINT)
        write(MARGIN, top + used - _height(sentence, TEXT) - MARGIN / 2, "\n".join(sentence), TEXT)
        top += used
    write(MARGIN, top + MARGIN / 2, "\n".join(foot), SMALL, gid=FAINT)
    return figure


def _lines(text: str, width: float, points: float) -> list[str]:
    """Wrapped to the figure's width: a character of the default font is about 0.58 of its size wide."""
    return textwrap.wrap(text, max(20, int((width - 2 * MARGIN) * 72 / (0.58 * points))))


def _height(lines: Sequence[str], points: float) -> float:
    return len(lines) * points * LEADING * 1.15 / 72
