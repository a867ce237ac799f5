"""A fitted zero-intercept map of one boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sgfi.spectral import quantise
from sgfi.spectral.basis import Basis
from sgfi.spectral.operators import Operator
from sgfi.spectral.partition import Partition
from sgfi.spectral.quantise import Layout, Weights


@dataclass(frozen=True, eq=False)
class WienerMap:
    """``F^-1 [ W(omega) F t ]`` (eq:local_operator). Law: linear in t; zero gives exactly zero."""

    basis: Basis
    partition: Partition
    operator: Operator
    weights: Weights
    """By the operator's own names; may be packed, memory-mapped, and on another device."""

    @classmethod
    def from_tensors(
        cls, basis: Basis, partition: Partition, operator: Operator, tensors: Mapping[str, Tensor], real: torch.dtype
    ) -> WienerMap:
        """What :meth:`tensors` gave, of a map between tensors of dtype ``real``; ``ValueError`` for anything else."""
        empty = cls(basis, partition, operator, {})
        weights = quantise.from_tensors(tensors, empty._layout, basis.dtype(real))
        shapes = operator.shapes(partition.count, basis.channels)
        quantise.check(weights, shapes, basis.dtype(real))
        return replace(empty, weights=weights)

    def tensors(self) -> dict[str, Tensor]:
        """Everything the map holds, for a file."""
        return quantise.as_tensors(self.weights, self._layout)

    @property
    def _layout(self) -> Layout:
        return Layout.of(self.basis, self.partition, self.operator.conjugate)

    @property
    def bytes(self) -> int:
        return sum(weight.nbytes for key, weight in self.weights.items() if key != quantise.SOURCES)

    @property
    def unpacked(self) -> dict[str, Tensor]:
        """The weights in full, for those who look at the numbers; applying the map does not need it."""
        return quantise.unpacked(self.weights)

    def __call__(self, tensor: Tensor) -> Tensor:
        """``(..., B, *node shape)`` -> the same shape; leading axes are samples too."""
        rows = tensor.reshape(-1, *self.basis.shape)
        mapped = self.operator.apply(self.weights, self.basis.analyse(rows), self.partition)
        return self.basis.synthesise(mapped).reshape(tensor.shape)

    def adjoint(self) -> WienerMap:
        """``<W a, b> = <a, W* b>``."""
        operator, weights = self.operator.adjoint(self.unpacked)
        return replace(self, operator=operator, weights=weights)

    def resampled(self, basis: Basis, partition: Partition) -> WienerMap:
        """The map for another number of positions; nothing is fitted again (:meth:`Operator.resampled`)."""
        weights = self.operator.resampled(self.unpacked, self.partition, self.basis, basis)
        return replace(self, basis=basis, partition=partition, weights=weights)

    def packable(self, precision: str) -> bool:
        """Whether :meth:`packed` keeps its quality: int8 needs to know the sources of wide maps."""
        return quantise.packable(self.weights, precision)

    def packed(self, precision: str) -> WienerMap:
        """The same map, its matrices in ``"half"`` precision or ``"int8"``; ``"full"`` changes nothing."""
        return replace(self, weights=quantise.packed(self.weights, self._layout, precision))
