"""Source-grounded feature inversion: what an internal feature of a frozen model looks like in the input domain."""

from typing import TYPE_CHECKING, Any

from sgfi.boundaries import Plan, plan
from sgfi.calibration import calibrate
from sgfi.derivatives import capture
from sgfi.errors import SgfiError
from sgfi.graph import TensorGraph
from sgfi.inversion import Estimator, Inverse, MapFamily, Query, invert, sweep
from sgfi.natural import NaturalInverse, natural, prior
from sgfi.storage import load, save

if TYPE_CHECKING:
    from sgfi.explorer.widget import widget
    from sgfi.report.attribution import NaturalAttribution
    from sgfi.report.compare import compare
    from sgfi.report.look import look
    from sgfi.report.look_all import look_all

__version__ = "0.1.0"
__all__ = [
    "Estimator",
    "Inverse",
    "MapFamily",
    "NaturalAttribution",
    "NaturalInverse",
    "Plan",
    "Query",
    "SgfiError",
    "TensorGraph",
    "calibrate",
    "capture",
    "compare",
    "invert",
    "load",
    "look",
    "look_all",
    "natural",
    "plan",
    "prior",
    "save",
    "sweep",
    "widget",
]


def __getattr__(name: str) -> Any:
    """What needs half of the package is imported when it is first asked for."""
    if name == "look":
        from sgfi.report.look import look

        return look
    if name == "look_all":
        from sgfi.report.look_all import look_all

        return look_all
    if name == "compare":
        from sgfi.report.compare import compare

        return compare
    if name == "NaturalAttribution":
        from sgfi.report.attribution import NaturalAttribution

        return NaturalAttribution
    if name == "widget":
        from sgfi.explorer.widget import widget

        return widget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
