"""A report is data (sections of texts, pictures, tables and commands); rendering it is one pure function.

Pictures are inlined as base64 PNG, one for light and one for dark paper, so that the file opens from disk anywhere.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from sgfi.figures.style import DARK, LIGHT, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Text:
    """A paragraph. `` `code` `` and ``**bold**`` are understood, nothing else."""

    words: str


@dataclass(frozen=True)
class Code:
    """Commands to copy."""

    lines: str


@dataclass(frozen=True)
class Table:
    """Rows of plain cells; ``wide`` columns of numbers are right-aligned."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure for both kinds of paper."""

    light: bytes
    dark: bytes
    alt: str
    caption: str = ""
    width: int = 0
    """Natural width in CSS pixels; on narrow screens the picture scrolls rather than shrinking to dust."""

    @classmethod
    def of(cls, figure: Figure, alt: str, caption: str = "") -> Picture:
        """Rendered twice from one matplotlib figure."""
        width = round(figure.get_size_inches()[0] * 96)
        dark = png(figure, DARK)
        return cls(png(figure, LIGHT), dark, alt, caption, width)


@dataclass(frozen=True)
class Drawing:
    """An SVG, inlined; it brings its own colours for both kinds of paper."""

    svg: str
    caption: str = ""


STYLE = files("sgfi.report").joinpath("report.css").read_text(encoding="utf-8").strip()
Block = Text | Code | Table | Picture | Drawing
WIDE, NARROWEST = 640, 560
"""CSS pixels: pictures wider than the first scroll on small screens instead of shrinking below the second."""


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Report:
    title: str
    lead: str
    sections: tuple[Section, ...]
    facts: tuple[tuple[str, str], ...] = ()
    """A few numbers at the top: (value, what it is)."""
    foot: str = ""


def render(report: Report) -> str:
    """The whole page."""
    links = "".join(f'<a href="#{_anchor(section.title)}">{escape(section.title)}</a>' for section in report.sections)
    facts = "".join(f"<div><b>{escape(value)}</b><span>{escape(what)}</span></div>" for value, what in report.facts)
    body = "".join(_section(section) for section in report.sections)
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">'
        f"<title>{escape(report.title)}</title><style>{STYLE}</style></head><body><main>"
        f'<header><h1>{escape(report.title)}</h1><p class="lead">{_inline(report.lead)}</p>'
        f'<div class="facts">{facts}</div><nav>{links}</nav></header>'
        f"{body}<footer>{_inline(report.foot)}</footer></main></body></html>\n"
    )


def _section(section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    return f'<section id="{_anchor(section.title)}"><h2>{escape(section.title)}</h2>{blocks}</section>'


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{_inline(block.words)}</p>"
    if isinstance(block, Code):
        return f"<pre><code>{escape(block.lines)}</code></pre>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Drawing):
        return f"<figure>{block.svg}{_caption(block)}</figure>"
    return _picture(block)


HINT = '<p class="hint">Scroll sideways for the rest.</p>'
"""Shown on telephones only."""


def _caption(block: Picture | Drawing) -> str:
    return f"<figcaption>{_inline(block.caption)}</figcaption>" if block.caption else ""


def _picture(picture: Picture) -> str:
    light, dark = (f"data:image/png;base64,{base64.b64encode(data).decode()}" for data in (picture.light, picture.dark))
    wide = picture.width > WIDE
    style = f"width:{picture.width}px" + (f";min-width:{NARROWEST}px" if wide else "") if picture.width else ""
    hint = HINT if wide else ""
    return (
        '<figure><div class="scroll"><picture>'
        f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img src="{light}" alt="{escape(picture.alt, quote=True)}" style="{style}">'
        f"</picture></div>{hint}{_caption(picture)}</figure>"
    )


def _table(table: Table) -> str:
    numeric = [all(_is_number(row[c]) for row in table.rows) if table.rows else False for c in range(len(table.head))]

    def line(cells: Sequence[str], tag: str) -> str:
        marked = (
            f'<{tag} class="number">{_inline(cell)}</{tag}>' if numeric[c] else f"<{tag}>{_inline(cell)}</{tag}>"
            for c, cell in enumerate(cells)
        )
        return f"<tr>{''.join(marked)}</tr>"

    rows = "".join(line(row, "td") for row in table.rows)
    note = f'<p class="note">{_inline(table.note)}</p>' if table.note else ""
    head, hint = line(table.head, "th"), HINT if len(table.head) > 3 else ""
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>{hint}{note}'


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+−]?[\d.,]+( ?(%|s|ms|MiB|GiB))?", cell.strip()) is not None


def _inline(words: str) -> str:
    """Escaped text with `code` and **bold**."""
    safe = escape(words)
    safe = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", safe)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
