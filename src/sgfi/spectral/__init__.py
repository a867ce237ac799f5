"""The spectral algebra: bases, partitions, moments, Wiener solves and operator families."""

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
