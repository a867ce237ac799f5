"""Where along the path a family loses quality, told by what its maps missed of samples they had not seen.

Calibration that keeps its samples (online or honest children with a chosen ridge or number of stages) notes after
every map how much of the node's state is still missed of samples it has not seen: held out where stages are chosen on
them, else each with its own share in the fit taken off. Nothing is computed here; the numbers are read, set against
each other, and turned into advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgfi.errors import StoreError

FEW = 1.0
"""Samples per channel below which a matrix per bin cannot be told from its noise."""
OVERFITTED = 1.5
"""How many times larger the error on unseen samples may be than on seen ones before more images would help."""
LOST = 0.1
"""A share of the state's energy lost at one node that is worth a boundary in between."""
LOST_LAST = 0.05
"""The same at the input, where what is lost is lost to the inverse itself, whatever the target."""


@dataclass(frozen=True)
class NodeQuality:
    """One fitted node. Shares are of the mean energy of its true state."""

    name: str
    channels: int
    unseen: tuple[float, ...]
    """Missed after each map of samples it has not seen (not held out, the node's earlier maps had seen them)."""
    seen: float
    """Missed after the last map by the maps as they are, on the samples they were fitted to."""
    lost: float
    """How much more is missed here than at the worst of its children; the target misses nothing."""


def quality(manifest: Mapping[str, Any]) -> list[NodeQuality]:
    """Every fitted node, from the target to the input."""
    told = manifest["calibration"]["diagnostics"]
    if not all(stages and "missed_seen" in stages[-1] for stages in told.values()):
        raise StoreError(
            "maps that were fitted with errors on samples left out",
            f"{manifest['calibration']['children']} children with a ridge of {manifest['calibration']['ridge']}",
            'Calibrate with online or honest children and "auto" for the ridge or the stages.',
        )
    missed = {manifest["plan"]["target"]: 0.0}
    found = []
    for boundary in reversed(manifest["plan"]["boundaries"]):
        name = boundary["name"]
        if name not in told:
            continue
        energy = told[name][0]["target_energy"] or 1.0
        unseen = tuple(stage["missed_after"] / energy for stage in told[name])
        missed[name] = unseen[-1]
        worst = max(missed[child] for child in boundary["children"])
        channels = boundary["shape"][boundary["channel_axis"]]
        seen = told[name][-1]["missed_seen"] / energy
        found.append(NodeQuality(name, channels, unseen, seen, unseen[-1] - worst))
    return found


def advice(nodes: list[NodeQuality], samples: int) -> list[str]:
    """What would help, most of it first; nothing said where nothing stands out."""
    told = []
    gap = [node for node in nodes if node.unseen[-1] > OVERFITTED * max(node.seen, 1e-12) and node.unseen[-1] > 0.01]
    if len(gap) > len(nodes) // 3:
        worst = max(gap, key=lambda node: node.unseen[-1] / max(node.seen, 1e-12))
        told.append(
            f"More images: at {len(gap)} of {len(nodes)} nodes unseen samples are missed over {OVERFITTED} times as "
            f"much as seen ones (most at {worst.name}: {worst.unseen[-1]:.3f} against {worst.seen:.3f})."
        )
    few = [node for node in nodes if samples < FEW * node.channels]
    if few:
        widest = max(few, key=lambda node: node.channels)
        told.append(
            f"More images, a shared partition or a smaller operator: {len(few)} nodes have more channels than the "
            f"{samples} samples (most at {widest.name}: {widest.channels})."
        )
    last = [node for node in nodes if node.name == "input" and node.lost > LOST_LAST]
    lossy = sorted((node for node in nodes if node.name != "input" and node.lost > LOST), key=lambda node: -node.lost)
    told += [_finer(node) for node in (*last, *lossy[:2])]
    hurt = [node.name for node in nodes if len(node.unseen) > 1 and node.unseen[-1] > node.unseen[-2]]
    if hurt:
        told.append(f'More ridge or fewer stages ("auto" for both): the last map does harm at {", ".join(hurt[:3])}.')
    return told


def _finer(node: NodeQuality) -> str:
    where = "boundaries=['stage', 'stem'], if not yet open" if node.name == "input" else "boundaries=['stage', NAME]"
    return (
        f"A finer boundary between {node.name} and its children ({where}): {node.lost:.3f} of its energy is lost there."
    )


def as_text(nodes: list[NodeQuality], samples: int) -> str:
    """The report of a family."""
    width = max(len("node"), *(len(node.name) for node in nodes))
    lines = [f"{'node':{width}}  channels   seen  unseen    lost  missed after each map (unseen)"]
    for node in nodes:
        stages = "  ".join(f"{share:.3f}" for share in node.unseen)
        shares = f"{node.seen:5.3f}   {node.unseen[-1]:5.3f}  {node.lost:+6.3f}"
        lines.append(f"{node.name:{width}}  {node.channels:8}  {shares}  {stages}")
    return "\n".join([*lines, "", *(advice(nodes, samples) or ["Nothing stands out."])])
