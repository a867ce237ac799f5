"""Source-grounded feature inversion: what an internal feature of a frozen model looks like in the input domain."""

from sgfi.boundaries import Plan, plan
from sgfi.calibration import calibrate
from sgfi.errors import SgfiError
from sgfi.graph import TensorGraph, capture
from sgfi.inversion import Estimator, Inverse, MapFamily, Query, invert, sweep
from sgfi.natural import NaturalInverse, natural, prior
from sgfi.storage import load, save

__version__ = "0.1.0.dev0"
__all__ = [
    "Estimator",
    "Inverse",
    "MapFamily",
    "NaturalInverse",
    "Plan",
    "Query",
    "SgfiError",
    "TensorGraph",
    "calibrate",
    "capture",
    "invert",
    "load",
    "natural",
    "plan",
    "prior",
    "save",
    "sweep",
]
