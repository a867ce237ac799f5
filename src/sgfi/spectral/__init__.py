"""The spectral algebra: bases, partitions, moments, Wiener solves and operator families."""

from sgfi.spectral.basis import Basis
from sgfi.spectral.devices import wide
from sgfi.spectral.moments import Moments, MomentShape
from sgfi.spectral.operators import Operator, Solution, operator_named
from sgfi.spectral.partition import Partition
from sgfi.spectral.prior import Prior, Samples
from sgfi.spectral.quantise import PRECISIONS, Layout, Packed, strongest
from sgfi.spectral.ridge import workspace
from sgfi.spectral.wiener import WienerMap

__all__ = [
    "PRECISIONS",
    "Basis",
    "Layout",
    "MomentShape",
    "Moments",
    "Operator",
    "Packed",
    "Partition",
    "Prior",
    "Samples",
    "Solution",
    "WienerMap",
    "operator_named",
    "strongest",
    "wide",
    "workspace",
]
