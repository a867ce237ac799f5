"""The boundary DAG as an SVG picture that fits a page and a phone: boxes in topological order, wrapped into lines.

Odd lines run right to left, so that a chain is one unbroken path. Colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files

from sgfi.boundaries.frontier import BoundaryDag

COLUMNS, WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 3, 144, 52, 22, 30, 20
LETTERS = 23
"""Letters that fit into a box."""
LANES = (0, -6, 6, -3, 3)
"""Pixels by which edges around boxes are moved apart."""
STYLE = files("sgfi.boundaries").joinpath("dag.css").read_text(encoding="utf-8")
"""Only what stands inside the picture is styled, since a page may hold it inline."""


def svg(dag: BoundaryDag, captions: Mapping[str, str]) -> str:
    """Solid arrows: the frontier each node repairs from. Dashed: structural edges that the frontier leaves out.

    ``captions`` has a line of text for every boundary, shown below its name.
    """
    names = (*dag.fitted, dag.target)
    order = {name: index for index, name in enumerate(names)}
    columns, lines = min(COLUMNS, len(names)), -(-len(names) // COLUMNS)
    width = 2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X
    edges = [
        (order[name], order[child], child in dag.frontiers[name]) for name in dag.fitted for child in dag.edges[name]
    ]
    below = any(end > start + 1 and start // COLUMNS == lines - 1 for start, end, _ in edges)
    height = 2 * MARGIN + lines * (HEIGHT + GAP_Y) - (0 if below else GAP_Y)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="dag" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="boundary DAG of {escape(dag.target)}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="dag-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<path class="paper" d="M0 0H{width}V{height}H0z"/>',
            *(_edge(*edge, LANES[number % len(LANES)]) for number, edge in enumerate(edges)),
            *(_box(name, index, captions[name], dag.target) for name, index in order.items()),
            "</svg>",
        ]
    )


def _corner(index: int) -> tuple[int, int]:
    """Left and top of a box."""
    line, column = divmod(index, COLUMNS)
    column = COLUMNS - 1 - column if line % 2 else column
    return MARGIN + column * (WIDTH + GAP_X), MARGIN + line * (HEIGHT + GAP_Y)


def _edge(start: int, end: int, kept: bool, lane: int) -> str:
    (x0, y0), (x1, y1) = _corner(start), _corner(end)
    middle, down = WIDTH // 2, y0 + HEIGHT
    if end == start + 1 and y0 == y1:  # the neighbour on the line
        way = f"M{x0 + (WIDTH if x1 > x0 else 0)} {y0 + HEIGHT // 2}H{x1 + (0 if x1 > x0 else WIDTH)}"
    elif end == start + 1:  # straight down to the next line
        way = f"M{x0 + middle} {down}V{y1}"
    else:  # through the gaps between the boxes
        below, leave, arrive = down + GAP_Y // 2 + lane, x0 + middle + 14 + 2 * lane, x1 + middle - 14 + 2 * lane
        way = f"M{leave} {down}V{below}"
        if y1 > down + GAP_Y:
            way += f"H{max(x0, x1) - GAP_X // 2 + lane}V{y1 - GAP_Y // 2 + lane}"
        way += f"H{arrive}V{y1 + HEIGHT if y1 == y0 else y1}"
    return f'<path d="{way}" marker-end="url(#dag-arrow)"' + ("/>" if kept else ' class="pruned"/>')


def _box(name: str, index: int, caption: str, target: str) -> str:
    x, y = _corner(index)
    kind = {"input": "input", target: "target"}.get(name, "inner")
    lines = _wrapped(name)
    first = y + 30 - 6 * len(lines)
    texts = [f'<text x="{x + WIDTH // 2}" y="{first + 12 * i}">{escape(line)}</text>' for i, line in enumerate(lines)]
    return (
        f"<g><title>{escape(name)}</title>"
        f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        f'{"".join(texts)}<text class="caption" x="{x + WIDTH // 2}" y="{y + HEIGHT - 8}">{escape(caption)}</text></g>'
    )


def _wrapped(name: str) -> list[str]:
    """A name on one line or on two, broken at a dot; the middle of a longer one is left out."""
    if len(name) <= LETTERS:
        return [name]
    dots = [at for at, letter in enumerate(name) if letter == "." and at <= LETTERS and len(name) - at <= LETTERS]
    if dots:
        return [name[: dots[-1]], name[dots[-1] :]]
    return [name[:LETTERS], name[LETTERS:] if len(name) <= 2 * LETTERS else "…" + name[1 - LETTERS :]]
