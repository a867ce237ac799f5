"""A fitted zero-intercept map of one boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from sgfi.spectral.basis import Basis
from sgfi.spectral.operators import Kept, Operator
from sgfi.spectral.packed import DIRECTIONS, Layout, Packed, pack
from sgfi.spectral.partition import Partition


@dataclass(frozen=True, eq=False)
class WienerMap:
    """``F^-1 [ W(omega) F t ]`` (eq:local_operator). Law: linear in t; zero gives exactly zero."""

    basis: Basis
    partition: Partition
    operator: Operator
    weights: Mapping[str, Kept]
    """By the operator's own names; may be packed, memory-mapped, and on another device."""
    strong: Tensor | None = None
    """What packing must know of the sources (:func:`~sgfi.spectral.packed.strongest`)."""

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
        return self.operator.full and self.operator.width(self.basis.channels) > 2 * DIRECTIONS

    def __call__(self, tensor: Tensor) -> Tensor:
        """``(..., B, *node shape)`` -> the same shape; leading axes are samples too."""
        rows = tensor.reshape(-1, *self.basis.shape)
        weights = {name: found.to(rows.device, non_blocking=True) for name, found in self.weights.items()}
        mapped = self.operator.apply(weights, self.basis.analyse(rows), self.partition)
        return self.basis.synthesise(mapped).reshape(tensor.shape)

    def packed(self, precision: str) -> WienerMap:
        """The same map, its matrices kept in ``"half"`` precision or as ``"int8"``."""
        matrices = {key: found for key, found in self.weights.items() if isinstance(found, Tensor) and found.dim() == 3}
        kept = {
            key: pack(found, Layout.of(self.basis, self.partition, key), precision, self.strong)
            for key, found in matrices.items()
        }
        return replace(self, weights={**self.weights, **kept}, strong=None)
