"""Where along the path a family loses quality: the error of its maps on samples they were not fitted to.

Calibration that keeps its samples (online or cross-fitted children with a chosen ridge or number of maps) records after
every map the error that is left at the node on unseen samples: held-out ones where the number of maps is chosen on
them, else leave-one-out (PRESS). Other calibrations, the paper's among them, know only what the first map misses of the
samples it was fitted to: the energy of what the correction map was given to explain. Any calibration of states in one
process also measures a learning curve (:mod:`sgfi.calibration.curve`). Nothing is computed here; the numbers are read,
compared, and turned into advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgfi.graph.tensor_graph import text_table

FEW = 1.0
"""Samples per channel below which a matrix per bin is mostly noise."""
OVERFITTED = 1.5
"""How many times larger the error on unseen samples may be than on seen ones before more images would help."""
BAR = 32
"""Characters of the longest bar of a curve."""
LOST = 0.1
"""A share of the state's energy, lost at one node, that is worth a boundary in between."""
LOST_LAST = 0.05
"""The same at the input, where what is lost is lost to the inverse itself, whatever the target."""


@dataclass(frozen=True)
class NodeQuality:
    """One fitted node. Shares are of the mean energy of its true state."""

    name: str
    channels: int
    unseen: tuple[float, ...]
    """Missed after each map of samples it has not seen (not held out, the node's earlier maps had seen them); empty
    where that was not recorded."""
    seen: float | None
    """Missed after the last map by the maps as they are, on the samples they were fitted to; without ``unseen``, after
    the first map, and ``None`` where there is no other."""
    lost: float | None
    """How much more is missed here than at the worst of its children; the target misses nothing."""


def quality(manifest: Mapping[str, Any]) -> list[NodeQuality]:
    """Every fitted node, from the target to the input."""
    diagnostics = manifest["calibration"]["diagnostics"]
    recorded = bool(diagnostics) and all(maps and "missed_seen" in maps[-1] for maps in diagnostics.values())
    missed = {manifest["plan"]["target"]: 0.0}
    nodes = []
    for boundary in reversed(manifest["plan"]["boundaries"]):
        name = boundary["name"]
        if name not in diagnostics:
            continue
        maps = diagnostics[name]
        channels = boundary["shape"][boundary["channel_axis"]]
        energy = (maps[0]["target_energy"] if maps else 0.0) or 1.0
        if not recorded:
            seen = maps[1]["target_energy"] / energy if len(maps) > 1 else None
            nodes.append(NodeQuality(name, channels, (), seen, None))
            continue
        unseen = tuple(fitted["missed_after"] / energy for fitted in maps)
        missed[name] = unseen[-1]
        worst = max(missed[child] for child in boundary["children"])
        nodes.append(NodeQuality(name, channels, unseen, maps[-1]["missed_seen"] / energy, unseen[-1] - worst))
    return nodes


def advice(nodes: list[NodeQuality], samples: int) -> list[str]:
    """What would help, most of it first; empty where nothing stands out."""
    lines = []
    measured = [node for node in nodes if node.unseen]
    gap = [node for node in measured if node.unseen[-1] > OVERFITTED * _seen(node) and node.unseen[-1] > 0.01]
    if len(gap) > len(nodes) // 3:
        worst = max(gap, key=lambda node: node.unseen[-1] / _seen(node))
        lines.append(
            f"More images: at {len(gap)} of {len(nodes)} nodes unseen samples are missed over {OVERFITTED} times as "
            f"much as seen ones (most at {worst.name}: {worst.unseen[-1]:.3f} against {worst.seen:.3f})."
        )
    few = [node for node in nodes if samples < FEW * node.channels]
    if few:
        widest = max(few, key=lambda node: node.channels)
        lines.append(
            f"More images, a shared partition or a smaller operator: {len(few)} nodes have more channels than the "
            f"{samples} samples (most at {widest.name}: {widest.channels})."
        )
    last = [node for node in measured if node.name == "input" and (node.lost or 0) > LOST_LAST]
    lossy = [node for node in measured if node.name != "input" and (node.lost or 0) > LOST]
    lossy.sort(key=lambda node: -(node.lost or 0))
    lines += [_finer(node) for node in (*last, *lossy[:2])]
    hurt = [node.name for node in measured if len(node.unseen) > 1 and node.unseen[-1] > node.unseen[-2]]
    if hurt:
        lines.append(f'More ridge or fewer stages ("auto" for both): the last map does harm at {", ".join(hurt[:3])}.')
    if len(measured) < len(nodes):
        lines.append(
            "Errors on unseen samples were not recorded, so overfitting and lossy boundaries cannot be told: calibrate "
            'with --preset aligned, or with online or cross-fitted children and "auto" for the ridge or the stages.'
        )
    return lines


def _seen(node: NodeQuality) -> float:
    return max(node.seen or 0.0, 1e-12)


def _finer(node: NodeQuality) -> str:
    where = "boundaries=['stage', 'stem'], if not yet open" if node.name == "input" else "boundaries=['stage', NAME]"
    return (
        f"A finer boundary between {node.name} and its children ({where}): {node.lost:.3f} of its energy is lost there."
    )


def curve_text(curve: Mapping[str, Any]) -> str:
    """Held-out error over samples, drawn; empty where it was not measured."""
    if not curve or not curve["samples"] or not curve["missed"]:
        return ""
    mean = [sum(column) / len(column) for column in zip(*curve["missed"].values(), strict=False)]
    top = max(mean, default=0.0) or 1.0
    rows = [["samples", "missed", "", *curve["missed"]]]
    for index, (count, missed) in enumerate(zip(curve["samples"], mean, strict=False)):
        own = [f"{shares[index]:.3f}" for shares in curve["missed"].values()]
        rows.append([str(count), f"{missed:.3f}", "#" * max(1, round(BAR * missed / top)), *own])
    head = (
        f"Missed by first maps on true children, of {curve['held_out']} samples held out of this curve (mean of nodes, "
        "then each):"
    )
    lines = [head, text_table(rows, ">><" + ">" * len(curve["missed"]))]
    if "reason" in curve:
        lines.append(f"{curve['reason'].capitalize()}.")
    elif len(mean) > 1 and mean[-2] > 0:
        lines.append(f"The last step changed it by {mean[-1] / mean[-2] - 1:+.1%}.")
    return "\n".join(lines)


def as_text(nodes: list[NodeQuality], samples: int, curve: Mapping[str, Any] | None = None) -> str:
    """The report of a family."""
    seen = "seen" if any(node.unseen for node in nodes) else "seen, after the first map"
    head = ["node", "channels", seen, "unseen", "lost", "missed after each map (unseen)"]
    rows = [
        [
            node.name,
            str(node.channels),
            "-" if node.seen is None else f"{node.seen:.3f}",
            f"{node.unseen[-1]:.3f}" if node.unseen else "-",
            "-" if node.lost is None else f"{node.lost:+.3f}",
            "  ".join(f"{share:.3f}" for share in node.unseen) or "-",
        ]
        for node in nodes
    ]
    table = text_table([head, *rows], "<>>>><")
    drawn = curve_text(curve or {})
    lines = [table, "", *([drawn, ""] if drawn else []), *(advice(nodes, samples) or ["Nothing stands out."])]
    return "\n".join(lines)
