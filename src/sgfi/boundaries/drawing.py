"""The boundary DAG as an SVG picture: inputs at the top, the target at the bottom."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sgfi.boundaries.plan import Plan

WIDTH, HEIGHT, GAP, MARGIN = 250, 34, 26, 16
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1b1f24}.s{fill:#57606a;font-size:11px}"
    "rect{fill:#f6f8fa;stroke:#8c959f;rx:6}.i{fill:#ddf4ff;stroke:#0969da}.t{fill:#fff1e5;stroke:#bc4c00}"
    "path{fill:none;stroke:#57606a;stroke-width:1.4}.p{stroke:#afb8c1;stroke-dasharray:3 3}"
)


def svg(plan: Plan) -> str:
    """Solid arrows: the frontier each node repairs from. Dashed: structural edges that the frontier leaves out."""
    place = _places(plan)
    columns = 1 + max(column for column, _ in place.values())
    rows = 1 + max(row for _, row in place.values())
    arcs = max((_skip(place, name, child) for name in plan.fitted for child in plan.edges(name)), default=0)
    width = 2 * MARGIN + columns * (WIDTH + GAP) - GAP + 12 * arcs
    height = 2 * MARGIN + rows * (HEIGHT + GAP) - GAP
    edges = [
        _edge(place, name, child, kept=child in plan.children(name))
        for name in plan.fitted
        for child in plan.edges(name)
    ]
    boxes = [_box(plan, name, *place[name]) for name in plan.boundaries]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="boundary DAG of {escape(plan.target)}">',
            f"<style>{STYLE}</style>",
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" style="fill:#57606a;stroke:none"/></marker></defs>',
            *edges,
            *boxes,
            "</svg>",
        ]
    )


def _places(plan: Plan) -> dict[str, tuple[int, int]]:
    """(column, row): the row is the longest way from the input; nodes of one row stand side by side."""
    row = dict.fromkeys(plan.boundaries, 0)
    for name in plan.fitted:
        for child in plan.edges(name):
            row[child] = max(row[child], row[name] + 1)
    used: dict[int, int] = {}
    place = {}
    for name in plan.boundaries:
        place[name] = (used.get(row[name], 0), row[name])
        used[row[name]] = used.get(row[name], 0) + 1
    return place


def _corner(column: int, row: int) -> tuple[int, int]:
    return MARGIN + column * (WIDTH + GAP), MARGIN + row * (HEIGHT + GAP)


def _skip(place: dict[str, tuple[int, int]], name: str, child: str) -> int:
    """How many rows a straight edge within one column would run through."""
    same_column = place[name][0] == place[child][0]
    return place[child][1] - place[name][1] - 1 if same_column else 0


def _edge(place: dict[str, tuple[int, int]], name: str, child: str, kept: bool) -> str:
    (x0, y0), (x1, y1) = _corner(*place[name]), _corner(*place[child])
    look = 'marker-end="url(#a)"' + ("" if kept else ' class="p"')
    if _skip(place, name, child):  # go around the boxes in between
        right = x0 + WIDTH
        bow, start, end = right + 12 * _skip(place, name, child) + 8, y0 + HEIGHT / 2, y1 + HEIGHT / 2
        return f'<path d="M{right} {start}C{bow} {start} {bow} {end} {right} {end}" {look}/>'
    return f'<path d="M{x0 + WIDTH / 2} {y0 + HEIGHT}L{x1 + WIDTH / 2} {y1}" {look}/>'


def _box(plan: Plan, name: str, column: int, row: int) -> str:
    x, y = _corner(column, row)
    kind = {"input": "i", plan.target: "t"}.get(name, "")
    shape = "x".join(str(size) for size in plan.boundary[name].node.shape[1:])
    label = name if len(name) <= 38 else "..." + name[-35:]
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text x="{x + 10}" y="{y + 15}">{escape(label)}</text>'
        f'<text class="s" x="{x + 10}" y="{y + 28}">{shape}, {plan.boundary[name].partition.count} matrices</text>'
    )
