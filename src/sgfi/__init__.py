"""Source-grounded feature inversion: what an internal feature of a frozen model looks like in the input domain."""

from typing import TYPE_CHECKING, Any

from sgfi.boundaries import Plan, plan
from sgfi.calibration import calibrate
from sgfi.errors import SgfiError
from sgfi.graph import TensorGraph, capture
from sgfi.inversion import Estimator, Inverse, MapFamily, Query, invert, sweep
from sgfi.natural import NaturalInverse, natural, prior
from sgfi.storage import load, save

if TYPE_CHECKING:
    from sgfi.report.look import look

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
    "look",
    "natural",
    "plan",
    "prior",
    "save",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """``look`` needs half of the package: it is imported when it is first asked for."""
    if name == "look":
        from sgfi.report.look import look

        return look
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
