"""Source-grounded feature inversion: what an internal feature of a frozen model looks like in the input domain."""

from sgfi.boundaries import Plan, plan
from sgfi.calibration import calibrate
from sgfi.errors import SgfiError
from sgfi.graph import TensorGraph, capture
from sgfi.inversion import Inverse, MapFamily, Query, invert, sweep
from sgfi.storage import load, save

__version__ = "0.1.0.dev0"
__all__ = [
    "Inverse",
    "MapFamily",
    "Plan",
    "Query",
    "SgfiError",
    "TensorGraph",
    "calibrate",
    "capture",
    "invert",
    "load",
    "plan",
    "save",
    "sweep",
]
