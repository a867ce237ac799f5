"""The spectral algebra: bases, partitions, moments, Wiener solves and operator families."""

import warnings
from typing import Any

from sgfi.spectral import quantise, shrinkage
from sgfi.spectral.basis import Basis
from sgfi.spectral.moments import Moments, MomentShape
from sgfi.spectral.operators import Operator, operator_named
from sgfi.spectral.partition import Partition
from sgfi.spectral.precision import wide
from sgfi.spectral.quantise import PRECISIONS
from sgfi.spectral.ridge import Solution, workspace
from sgfi.spectral.shrinkage import Samples, SharedGain
from sgfi.spectral.wiener import WienerMap

__all__ = [
    "PRECISIONS",
    "Basis",
    "MomentShape",
    "Moments",
    "Operator",
    "Partition",
    "Samples",
    "SharedGain",
    "Solution",
    "WienerMap",
    "operator_named",
    "wide",
    "workspace",
]
_RENAMED: dict[str, Any] = {
    "Layout": quantise.Layout,
    "Packed": quantise.Packed,
    "Prior": shrinkage.SharedGain,
    "strongest": quantise.covariance_factor,
}


def __getattr__(name: str) -> object:
    if name not in _RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = _RENAMED[name]
    warnings.warn(f"sgfi.spectral.{name} is now {new.__module__}.{new.__name__}", DeprecationWarning, stacklevel=2)
    return new
