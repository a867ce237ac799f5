"""One repair site."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.graph import Node
from sgfi.spectral import Basis, Operator, Partition

MAPS = 2
"""At a node: the paper's first map and correction map."""


@dataclass(frozen=True)
class Boundary:
    """One repair site: a tensor with its axes, the basis its maps act in, and their capacity."""

    node: Node
    basis: Basis
    partition: Partition
    operator: Operator

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def channels(self) -> int:
        return self.basis.channels

    @property
    def width(self) -> int:
        """Numbers per bin that a map reads: the channels, several times where it reads several positions."""
        return self.operator.width(self.channels)

    def reads(self, tensor: Tensor) -> Tensor:
        """What a map of this boundary reads of a source: ``(B, ...)`` -> ``(F, W, B)``."""
        return self.operator.reads(self.basis.analyse(tensor))

    @property
    def positions(self) -> int | None:
        """Positions along the one coordinate axis; ``None`` where there is none or more than one."""
        return self.basis.coords[0] if len(self.basis.coords) == 1 else None

    @property
    def map_bytes(self) -> int:
        """Of two maps in single precision."""
        numbers = self.operator.size(self.partition.count, self.channels)
        return MAPS * numbers * self.basis.dtype(torch.float32).itemsize
