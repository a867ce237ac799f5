"""The spectral algebra: bases, partitions, moments, Wiener solves and operator families."""

from sgfi.spectral.basis import Basis
from sgfi.spectral.devices import wide
from sgfi.spectral.moments import Moments
from sgfi.spectral.operators import Operator, Solution, operator_named
from sgfi.spectral.packed import PRECISIONS, Layout, Packed, strongest
from sgfi.spectral.partition import Partition
from sgfi.spectral.ridge import leave_one_out, workspace
from sgfi.spectral.wiener import WienerMap

__all__ = [
    "PRECISIONS",
    "Basis",
    "Layout",
    "Moments",
    "Operator",
    "Packed",
    "Partition",
    "Solution",
    "WienerMap",
    "leave_one_out",
    "operator_named",
    "strongest",
    "wide",
    "workspace",
]
