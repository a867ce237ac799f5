"""Ink and paper of the figures, and how they become PNG files.

Figures use matplotlib's object interface only: no global state, no window, safe in threads and tests.
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sgfi.errors import StoreError
from sgfi.optional import need
from sgfi.storage import draft_of
from sgfi.storage.manifest import as_folder

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 160
FAINT = "faint"
"""Tag (matplotlib gid) of what is drawn in the paler ink."""
FIXED = "fixed"
"""Tag of texts that keep their colour in every theme."""


@dataclass(frozen=True)
class Theme:
    """Three colours."""

    paper: str
    ink: str
    faint: str


LIGHT = Theme(paper="#ffffff", ink="#16181d", faint="#5b616e")
DARK = Theme(paper="#15171c", ink="#eceef2", faint="#a3a9b6")
ACCENT = "#ff3b6b"
"""Marks on pictures: seen on photographs in both themes."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, width and height in inches, with its own Agg canvas."""
    canvas = need("matplotlib.backends.backend_agg", "figures").FigureCanvasAgg
    figure = need("matplotlib.figure", "figures").Figure(figsize=(width, height), dpi=DPI, facecolor=LIGHT.paper)
    canvas(figure)
    return figure


def bare(axes: Axes) -> Axes:
    """Axes of a picture: no ticks, no frame."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def frame(figure: Figure, title: str, foot: str) -> None:
    """A title above the panels and a note below them."""
    width, height = figure.get_size_inches()
    figure.text(0.1 / width, 1 - 0.08 / height, title, size=10, weight="bold", va="top")
    note = textwrap.fill(foot, int(width * 19))
    figure.text(0.1 / width, 0.05 / height, note, size=6.6, va="bottom", gid=FAINT)


def recolour(figure: Figure, theme: Theme) -> Figure:
    """The same figure in another theme; pictures keep their colours."""
    from matplotlib.text import Text

    figure.set_facecolor(theme.paper)
    for text in figure.findobj(Text):
        if "\\mathdefault" not in text.get_text():  # which matplotlib's own tick labels are
            text.set_parse_math(False)  # a file may be called "cost$ of $x"
        if text.get_gid() != FIXED:
            text.set_color(theme.faint if text.get_gid() == FAINT else theme.ink)
    return figure


def png(figure: Figure, theme: Theme = LIGHT, dpi: int = DPI) -> bytes:
    """The figure as the bytes of a PNG file."""
    recolour(figure, theme)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=theme.paper)
    return buffer.getvalue()


def counted(number: int, what: str) -> str:
    """``1 query``, ``3 queries``."""
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else many}"


def save_figure(figure: Figure, path: str | Path, *, overwrite: bool = False, theme: Theme = LIGHT) -> Path:
    """Write a PNG (or what the suffix says: .svg, .pdf); refuse to write over a file unless ``overwrite``."""
    path = as_folder(path)
    if path.exists() and not overwrite:
        todo = "Choose another, or pass overwrite=True (in a terminal --force)."
        raise StoreError("a path that is free", f"{path}, which exists", todo)
    path.parent.mkdir(parents=True, exist_ok=True)
    recolour(figure, theme)
    with draft_of(path) as draft:
        figure.savefig(draft, facecolor=theme.paper)
    return path
