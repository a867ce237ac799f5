"""The decision atlas: what groups identify (pictures) beside what they do to the prediction (numbers).

Pictures are inverses; effects and curves come from editing the original representation. The figure says so at its
foot: an inverse is never fed back to the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sgfi.decisions.gates import Gate, Line, curve_summary
from sgfi.decisions.groups import choose
from sgfi.decisions.ranking import rank
from sgfi.decisions.studies import Study
from sgfi.errors import QueryError
from sgfi.figures.atlases import depth_name, shape_name, source_cell
from sgfi.figures.display import natural_scale, natural_view
from sgfi.figures.grids import RULES, draw_cell
from sgfi.figures.style import LIGHT, bare, frame, new_figure
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Query, sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec, SubplotSpec

SHOWN = {"positive": "top-positive", "negative": "top-negative", "random": "random"}
COLOURS = {"positive": "#c0392b", "negative": "#2464a8", "random": "#7a8089", "matched": "#b8860b"}
BRANCHES = (
    "Pictures: inverses of channel groups of one input (inversion branch). Plots: margin drop when the same kind of "
    "group is replaced in the original representation (intervention branch), mean over images with 95 % "
    "image-bootstrap intervals. The branches are parallel evidence; no inverse is fed back to the model."
)
EFFECTS = (
    "Margin drop when a channel group is replaced in the original representation, and the share of the mean margin "
    "left by deletion: means over images with 95 % image-bootstrap intervals."
)


def group_inverses(
    estimator: Estimator, x: torch.Tensor, study: Study, size: int
) -> dict[str, dict[str, tuple[list[int], torch.Tensor]]]:
    """tensor -> kind -> (channels, inverse (C, H, W)) for one input (1, C, H, W), ranked by its own decision."""
    if len(x) != 1:
        raise QueryError("one input", str(len(x)), "Pass x[i : i + 1].")
    nodes = [estimator.node(depth.node) for depth in study.depths]
    pictures: dict[str, dict[str, tuple[list[int], torch.Tensor]]] = {}
    for name, contribution in rank(estimator.graph, x, nodes, study.settings.output).items():
        groups = choose(contribution.channels[0], contribution.activation[0], size, 1, study.settings.seed)
        chosen = {kind: groups.of(kind, size)[0] for kind in SHOWN}
        inverses = sweep(estimator, x, [Query(name, channels) for channels in chosen.values()])
        pictures[name] = {
            kind: (channels, inverse.value[0])
            for (kind, channels), inverse in zip(chosen.items(), inverses, strict=True)
        }
    return pictures


def decision_atlas(
    estimator: Estimator,
    x: torch.Tensor,
    study: Study,
    gate: Gate,
    *,
    size: int | None = None,
    title: str = "",
    preprocessing: Preprocessing | None = None,
) -> Figure:
    """One row per depth: the source, three group inverses, effects by group size, deletion curves."""
    size = size or study.settings.sizes[-1]
    inverses = group_inverses(estimator, x, study, size)
    curves = curve_summary(study)
    rows = len(study.depths)
    figure = new_figure(12.6, 0.95 + 2.05 * rows)
    height = figure.get_figheight()
    grid = figure.add_gridspec(
        rows,
        6,
        width_ratios=[1, 1, 1, 1, 1.45, 1.45],
        left=0.045,
        right=0.99,
        top=1 - 0.55 / height,
        bottom=0.8 / height,
        wspace=0.26,
        hspace=0.28,
    )
    for row, depth in enumerate(study.depths):
        if row == 0:
            draw_cell(figure.add_subplot(grid[0, 0]), source_cell(x[0], preprocessing)).set_title("source", size=8.5)
        _pictures(figure, grid, row, inverses[depth.node], size)
        node = estimator.node(depth.node)
        figure.axes[-len(SHOWN)].set_ylabel(f"{depth_name(node)}\n{shape_name(node)}", size=7.5)
        effects = _plot(figure, grid[row, 4], "group size k", "drop − random")
        _effects(effects, [line for line in gate.lines if line.node == depth.node])
        left = _plot(figure, grid[row, 5], "share of channels replaced", "margin left")
        _curves(left, curves[depth.node])
        if row == 0:
            effects.set_title("effect on the margin (logits)", size=8.5)
            left.set_title("deletion curves", size=8.5)
            _legend(figure, grid[min(1, rows - 1), 0], effects, rows > 1)
        left.legend(fontsize=5.6, frameon=False, handlelength=1.2, loc="lower left")
    if rows > 2:
        _counts(figure, grid[2, 0], gate)
    foot = f"{BRANCHES} Display: {RULES['natural']}; each panel on its own scale."
    frame(figure, title or f"Decision atlas: {len(study.names)} images, {rows} depths", foot)
    return figure


def effects_figure(study: Study, gate: Gate, *, title: str = "") -> Figure:
    """The plots of the atlas alone, a column per depth: they need no estimator, the numbers of a study are enough."""
    curves = curve_summary(study)
    columns = len(study.depths)
    figure = new_figure(max(6.3, 0.4 + 3.05 * columns), 5.2)
    grid = figure.add_gridspec(
        2, columns, left=0.55 / figure.get_figwidth(), right=0.99, top=0.87, bottom=0.13, wspace=0.3, hspace=0.32
    )
    for column, depth in enumerate(study.depths):
        effects = _plot(figure, grid[0, column], "group size k", "drop − random (logits)")
        effects.set_title(f"{depth.node}, {depth.channels} channels", size=8.5)
        _effects(effects, [line for line in gate.lines if line.node == depth.node])
        if depth.curves:
            left = _plot(figure, grid[1, column], "share of channels replaced", "margin left")
            _curves(left, curves[depth.node])
            left.legend(fontsize=5.6, frameon=False, handlelength=1.2, loc="lower left")
    handles = effects.get_legend_handles_labels()
    figure.legend(*handles, fontsize=6.5, frameon=False, ncols=4, loc="upper right", bbox_to_anchor=(0.995, 0.965))
    frame(figure, title or f"Effects on the margin: {len(study.names)} images, {columns} depths", EFFECTS)
    return figure


def _legend(figure: Figure, spec: SubplotSpec, axes: Axes, beside: bool) -> None:
    """The key of the effects: under the source where there is room, else in the plot itself."""
    if not beside:
        axes.legend(fontsize=5.6, frameon=False)
        return
    empty = bare(figure.add_subplot(spec))
    empty.legend(*axes.get_legend_handles_labels(), fontsize=6.5, frameon=False, loc="center", title_fontsize=7)


def _counts(figure: Figure, spec: SubplotSpec, gate: Gate) -> None:
    """The counts of the signed gate in the empty panel under the source."""
    lines = [f"signed gate, {gate.images} images"]
    for name, (a, b) in gate.counts().items():
        lines.append(f"{name}: {a:.2f}–{b:.2f}" if "flip" in name else f"{name}: {a}/{b}")
    empty = bare(figure.add_subplot(spec))
    empty.text(0.5, 0.5, "\n".join(lines), size=7, ha="center", va="center", transform=empty.transAxes, linespacing=1.5)


def _pictures(
    figure: Figure, grid: GridSpec, row: int, inverses: dict[str, tuple[list[int], torch.Tensor]], size: int
) -> None:
    for column, kind in enumerate(SHOWN, start=1):
        channels, inverse = inverses[kind]
        axes = bare(figure.add_subplot(grid[row, column]))
        scale = natural_scale([inverse])
        axes.imshow(natural_view(inverse, scale), interpolation="nearest")
        axes.set_xlabel(scale.note or _shortened(channels), size=6.2, labelpad=2)
        if row == 0:
            axes.set_title(f"{SHOWN[kind]}, k={size}", size=8.5, color=COLOURS[kind], gid="fixed")


def _shortened(channels: list[int]) -> str:
    return ":" + ",".join(map(str, channels[:6])) + (",…" if len(channels) > 6 else "")


def _plot(figure: Figure, spec: SubplotSpec, across: str, up: str) -> Axes:
    axes = figure.add_subplot(spec)
    axes.set_facecolor("none")
    axes.tick_params(labelsize=6.5, length=2, colors=LIGHT.faint)
    axes.set_xlabel(across, size=6.8, labelpad=1)
    axes.set_ylabel(up, size=7.2)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LIGHT.faint)
    return axes


def _effects(axes: Axes, lines: list[Line]) -> None:
    """Drop minus the random groups' drop, by size; both signs, every protocol."""
    positions = np.arange(len(lines))
    axes.axhline(0, color=LIGHT.faint, linewidth=0.7)
    for kind in ("positive", "negative"):
        for shift, protocol in zip((-0.1, 0.1), lines[0].positive, strict=False):
            intervals = [getattr(line, kind)[protocol].interval for line in lines]
            middle = np.array([i.mean for i in intervals])
            reach = np.array([[i.mean - i.low for i in intervals], [i.high - i.mean for i in intervals]])
            axes.errorbar(
                positions + shift,
                middle,
                yerr=np.maximum(reach, 0),
                fmt="o",
                markersize=3.2,
                linewidth=1,
                color=COLOURS[kind],
                markerfacecolor=COLOURS[kind] if shift < 0 else "none",
                label=f"{SHOWN[kind]}, {protocol}",
            )
    axes.set_xticks(positions, [str(line.size) for line in lines])
    axes.margins(x=0.12)


def _curves(axes: Axes, curves: dict[str, dict[str, Any]]) -> None:
    axes.axhline(0, color=LIGHT.faint, linewidth=0.7)
    for kind, curve in curves.items():
        deleted = np.array(curve["deleted"])
        middle, low, high = (np.array([point[key] for point in curve["left"]]) for key in ("mean", "low", "high"))
        area = curve["area"]["mean"]
        axes.plot(deleted, middle, color=COLOURS[kind], linewidth=1.2, label=f"{SHOWN[kind]} first, AUC {area:.2f}")
        axes.fill_between(deleted, low, high, color=COLOURS[kind], alpha=0.16, linewidth=0)
    first = float(min(curve["deleted"][1] for curve in curves.values()))
    axes.set_xscale("symlog", linthresh=first, base=2)
    ticks = [0, *(tick for tick in (1 / 64, 1 / 16, 1 / 4, 1) if tick >= first)]
    names = {0: "0", 1 / 64: "1/64", 1 / 16: "1/16", 1 / 4: "1/4", 1: "1"}
    axes.set_xticks(ticks, [names[tick] for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, 1.05)
    low = min(point["low"] for curve in curves.values() for point in curve["left"])
    high = max(point["high"] for curve in curves.values() for point in curve["left"])
    axes.set_ylim(low - 0.35 * (high - low) - 0.05, high + 0.1 * (high - low) + 0.05)
