"""All maps of one plan on one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sgfi.boundaries import Plan
from sgfi.spectral import WienerMap


@dataclass(frozen=True, eq=False)
class MapFamily:
    """The fitted maps of every node, with where they came from.

    ``maps[name]`` holds the first map ``G_v`` and then the correction maps (``D_v``, ...), in order.
    """

    plan: Plan
    maps: Mapping[str, tuple[WienerMap, ...]]
    ridge: float | str
    children: str
    """``true`` (the paper), ``online`` or ``honest``: which child states the maps were fitted on."""
    samples: int
    fingerprint: str
    """Of the weights the maps were fitted on."""
    forced: bool = False
    """Loaded for other weights on purpose."""
    diagnostics: Mapping[str, list[dict[str, float]]] = field(default_factory=dict)
    """Per node and stage: the ridge, the mean energies of source and target, and the honest error where known."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able facts about the data, seeds and preprocessing, kept in the manifest."""

    precision: str = "full"
    """``full`` (as fitted), ``half`` or ``int8``: how the maps are kept."""

    @property
    def target(self) -> str:
        return self.plan.target

    @property
    def stages(self) -> int:
        """The most maps any node has."""
        return max(map(len, self.maps.values()))

    @property
    def bytes(self) -> int:
        """Size of all weights."""
        return sum(one.bytes for maps in self.maps.values() for one in maps)

    def __repr__(self) -> str:
        return (
            f"<MapFamily {len(self.maps)} nodes, up to {self.stages} maps each -> {self.target}, "
            f"{self.children} children, {self.samples} samples, {self.bytes / 2**20:.1f} MiB>"
        )
