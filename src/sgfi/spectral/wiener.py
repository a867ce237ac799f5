"""A fitted zero-intercept map of one boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from sgfi.spectral.basis import Basis
from sgfi.spectral.operators import Operator
from sgfi.spectral.partition import Partition


@dataclass(frozen=True, eq=False)
class WienerMap:
    """``F^-1 [ W(omega) F t ]`` (eq:local_operator). Law: linear in t; zero gives exactly zero."""

    basis: Basis
    partition: Partition
    operator: Operator
    weights: Mapping[str, Tensor]
    """By the operator's own names; may be memory-mapped and may live on another device."""

    def __call__(self, tensor: Tensor) -> Tensor:
        """``(..., B, *node shape)`` -> the same shape; leading axes are samples too."""
        rows = tensor.reshape(-1, *self.basis.shape)
        weights = {name: found.to(rows.device, non_blocking=True) for name, found in self.weights.items()}
        mapped = self.operator.apply(weights, self.basis.analyse(rows), self.partition)
        return self.basis.synthesise(mapped).reshape(tensor.shape)
