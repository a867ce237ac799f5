"""Figures of token-resolved inverses: strips of tokens, position matrices, routing and decision curves."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sgfi.errors import DataError
from sgfi.figures.style import ACCENT, FAINT, FIXED, LIGHT, frame, new_figure
from sgfi.language import Context

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CUE = "#0f8b8d"
"""Underlines of declared cues."""
WARM = "YlOrBr"
FOOT = (
    "Fill: share of the input-embedding inverse's energy at each position. It is neither an attention weight nor a "
    "decoded probability."
)


@dataclass(frozen=True)
class Strip:
    """One row of tokens with its profile."""

    tokens: Sequence[str]
    profile: Sequence[float]
    label: str = ""
    cues: Sequence[int] = ()
    queried: Sequence[int] = ()


def token_strips(strips: Sequence[Strip], title: str = "", foot: str = FOOT) -> Figure:
    """One row per strip: fill is energy, a teal underline marks a cue, a red frame the queried position."""
    if not strips or len({len(strip.tokens) for strip in strips}) != 1:
        raise DataError("strips of one length, at least one", str([len(strip.tokens) for strip in strips]), "Cut them.")
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    length = len(strips[0].tokens)
    lead = 2.2 if any(strip.label for strip in strips) else 0.2
    width, row = lead + 0.78 * length, 0.42
    notes = textwrap.wrap(foot, max(30, int(width * 22)))
    below = 0.24 + 0.12 * len(notes)
    figure = new_figure(width, 0.39 + below + row * len(strips))
    height = figure.get_figheight()
    axes = figure.add_axes((0, below / height, 1, row * len(strips) / height))
    axes.set(xlim=(-lead / 0.78, length), ylim=(len(strips), 0))
    axes.axis("off")
    most = max(max(strip.profile) for strip in strips) or 1.0
    for y, strip in enumerate(strips):
        axes.text(-0.15, y + 0.5, _fitting(strip.label), ha="right", va="center", fontsize=8)
        for x, (token, share) in enumerate(zip(strip.tokens, strip.profile, strict=True)):
            level = share / most
            axes.add_patch(Rectangle((x, y + 0.06), 0.96, 0.88, facecolor=colormaps[WARM](0.85 * level), lw=0))
            ink = "white" if level > 0.65 else LIGHT.ink
            centred: dict[str, Any] = {"ha": "center", "va": "center", "color": ink, "gid": FIXED}
            axes.text(x + 0.48, y + 0.42, shown(token), fontsize=7.5, **centred)
            axes.text(x + 0.48, y + 0.76, f"{share:.2f}", fontsize=5, **centred)
            if x in strip.cues:
                axes.plot([x + 0.06, x + 0.9], [y + 0.93] * 2, color=CUE, lw=2.4, solid_capstyle="butt")
            if x in strip.queried:
                axes.add_patch(Rectangle((x + 0.02, y + 0.08), 0.92, 0.84, fill=False, edgecolor=ACCENT, lw=1.6))
    figure.text(0.01, 1 - 0.06 / height, title, ha="left", va="top", fontsize=9.5)
    faint: dict[str, Any] = {"fontsize": 6.5, "gid": FAINT, "color": LIGHT.faint}
    figure.text(0.01, 0.05 / height, "\n".join(notes), ha="left", va="bottom", **faint)
    return figure


def shown(token: str, most: int = 10) -> str:
    """A token in a few visible characters."""
    plain = token.strip().replace("\n", "↵").replace("$", r"\$") or "␣"
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _fitting(label: str, most: int = 34) -> str:
    """A label that fits beside its strip: a long one loses its middle."""
    return label if len(label) <= most else f"{label[: most // 3]}…{label[-(most - most // 3 - 1) :]}"


def position_matrices(matrices: Mapping[str, Any], title: str = "") -> Figure:
    """Queried position down, input position across; above the diagonal lies the future."""
    figure = new_figure(0.4 + 2.7 * len(matrices), 3.6)
    for column, (name, values) in enumerate(matrices.items(), start=1):
        axes = figure.add_subplot(1, len(matrices), column)
        square = np.asarray(values)
        axes.imshow(square, cmap=WARM, vmin=0, vmax=0.6)
        future = np.triu(square, 1)[:-1].sum(1).mean()
        axes.plot([-0.5, len(square) - 0.5], [-0.5, len(square) - 0.5], color=ACCENT, lw=0.7)
        axes.set_title(f"{name}\nfuture energy {future:.3f}", fontsize=8)
        axes.set_xlabel("input position", fontsize=7)
        axes.tick_params(labelsize=6)
        if column == 1:
            axes.set_ylabel("queried position", fontsize=7)
    if title:
        figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    return figure


MARKS: dict[str, dict[str, Any]] = {
    "cue": {"marker": "o", "markerfacecolor": "none", "markeredgecolor": CUE},
    "head": {"marker": "o", "markerfacecolor": "none", "markeredgecolor": "#2f5fd0"},
    "auxiliary": {"marker": "s", "markerfacecolor": "none", "markeredgecolor": CUE},
    "attractor": {"marker": "x", "markeredgecolor": ACCENT},
}
"""What is marked in a context, and how."""
ROW = 0.105
"""Inches of a context's row."""


def context_matrices(parts: Mapping[str, tuple[Any, Sequence[Context]]], title: str = "") -> Figure:
    """Name -> profiles (N, L) and their contexts: one row a context, one column a position, the queried one last."""
    most = max(len(contexts) for _, contexts in parts.values())
    figure = new_figure(4.1 * len(parts), ROW * most + 1.7)
    height = figure.get_figheight()
    for column, (name, (profiles, contexts)) in enumerate(parts.items()):
        left, tall = (column + 0.24) / len(parts), ROW * len(contexts) / height
        axes = figure.add_axes((left, 1 - 0.62 / height - tall, 0.72 / len(parts), tall))
        axes.imshow(np.asarray(profiles), cmap=WARM, vmin=0, aspect="auto", interpolation="nearest")
        axes.set_title(f"{name}, {len(contexts)} contexts", fontsize=8.5)
        axes.set_xlabel("position; the last token is queried", fontsize=7)
        _mark(axes, contexts)
    foot = f"{FOOT} Each matrix on its own scale; the darkest is its largest share."
    frame(figure, title or "Where terminal-token inverses have their energy", foot)
    return figure


def _mark(axes: Axes, contexts: Sequence[Context]) -> None:
    """Cues and roles, a line after every cluster and its name beside it."""
    at: dict[str, list[tuple[int, int]]] = {kind: [] for kind in MARKS}
    for row, context in enumerate(contexts):
        for kind, position in (*(("cue", cue) for cue in context.cues), *context.roles.items()):
            at[kind].append((position, row))
    for kind, points in at.items():
        if points:
            x, y = zip(*points, strict=True)
            axes.plot(x, y, ls="none", ms=3.2, mew=0.8, label=kind, **MARKS[kind])
    clusters = list(dict.fromkeys(context.cluster for context in contexts))
    rows = {name: [i for i, context in enumerate(contexts) if context.cluster == name] for name in clusters}
    axes.set_yticks([sum(own) / len(own) for own in rows.values()], clusters)
    for own in list(rows.values())[:-1]:
        axes.axhline(own[-1] + 0.5, color=LIGHT.faint, lw=0.4)
    axes.tick_params(labelsize=6.5, length=0)
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.34 / (ROW * len(contexts)))}
    axes.legend(**below, fontsize=7, frameon=False, ncols=len(MARKS), handlelength=1)


def curves(
    lines: Mapping[str, Mapping[float, Mapping[str, float]]], x_label: str, y_label: str, title: str = ""
) -> Figure:
    """Lines with bands: name -> x -> mean, low, high (the band is left out where there is none)."""
    figure = new_figure(4.6, 3.2)
    axes = figure.add_subplot()
    for name, points in lines.items():
        at = sorted(points)
        means = [points[x]["mean"] for x in at]
        (line,) = axes.plot(at, means, "o-", ms=3, lw=1.3, label=name)
        if all("low" in points[x] for x in at):
            low, high = ([points[x][end] for x in at] for end in ("low", "high"))
            axes.fill_between(at, low, high, color=line.get_color(), alpha=0.18, lw=0)
    axes.axhline(0, color=LIGHT.faint, lw=0.7, ls="--")
    axes.set_xlabel(x_label, fontsize=8)
    axes.set_ylabel(y_label, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)
    axes.set_title(title, fontsize=9)
    figure.tight_layout()
    return figure
