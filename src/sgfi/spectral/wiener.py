"""A fitted zero-intercept map of one boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from sgfi.spectral.basis import Basis
from sgfi.spectral.operators import Kept, Operator
from sgfi.spectral.partition import Partition
from sgfi.spectral.quantise import FEW, Layout, Packed, pack


@dataclass(frozen=True, eq=False)
class WienerMap:
    """``F^-1 [ W(omega) F t ]`` (eq:local_operator). Law: linear in t; zero gives exactly zero."""

    basis: Basis
    partition: Partition
    operator: Operator
    weights: Mapping[str, Kept]
    """By the operator's own names; may be packed, memory-mapped, and on another device."""
    strong: Tensor | None = None
    """What packing must know of the sources (:func:`~sgfi.spectral.quantise.strongest`) of the matrices it keeps."""

    @property
    def bytes(self) -> int:
        return sum(weight.nbytes for weight in self.weights.values())

    @property
    def unpacked(self) -> dict[str, Tensor]:
        """The weights in full, for those who look at the numbers; applying the map does not need it."""
        return {key: found[:] if isinstance(found, Packed) else found for key, found in self.weights.items()}

    @property
    def needs_sources(self) -> bool:
        """Whether bytes would do harm without knowing the sources."""
        whole = self.operator.full and "gain" in self.weights  # factors are kept in halves
        return whole and self.operator.width(self.basis.channels) > FEW

    def __call__(self, tensor: Tensor) -> Tensor:
        """``(..., B, *node shape)`` -> the same shape; leading axes are samples too."""
        rows = tensor.reshape(-1, *self.basis.shape)
        weights = {name: found.to(rows.device, non_blocking=True) for name, found in self.weights.items()}
        mapped = self.operator.apply(weights, self.basis.analyse(rows), self.partition)
        return self.basis.synthesise(mapped).reshape(tensor.shape)

    def knowing(self, strong: Tensor | None) -> WienerMap:
        """The same map with the strong directions of its sources, those of opposite frequencies once."""
        own = Layout.of(self.basis, self.partition, "gain").own
        return self if strong is None else replace(self, strong=strong[own].contiguous())

    def packed(self, precision: str) -> WienerMap:
        """The same map, its matrices kept in ``"half"`` precision or as ``"int8"``."""
        kept: dict[str, Kept] = {}
        for key, found in self.weights.items():
            if isinstance(found, Tensor) and found.dim() == 3:
                known = key == "gain" and self.strong is not None
                layout = Layout.of(self.basis, self.partition, key)
                kept[key] = pack(found, layout, precision if known else "half", self.strong)
        return replace(self, weights={**self.weights, **kept}, strong=None)
