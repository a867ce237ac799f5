"""Source-grounded feature inversion: what an internal feature of a frozen model looks like in the input domain."""

from importlib import import_module
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
    from sgfi.sharing.publish import push_to_hub
    from sgfi.sharing.pull import from_pretrained

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
    "from_pretrained",
    "invert",
    "load",
    "look",
    "look_all",
    "natural",
    "plan",
    "prior",
    "push_to_hub",
    "save",
    "sweep",
    "widget",
]


LATE = {
    "NaturalAttribution": "sgfi.report.attribution",
    "compare": "sgfi.report.compare",
    "from_pretrained": "sgfi.sharing.pull",
    "look": "sgfi.report.look",
    "look_all": "sgfi.report.look_all",
    "push_to_hub": "sgfi.sharing.publish",
    "widget": "sgfi.explorer.widget",
}
"""What needs half of the package: imported when it is first asked for."""


def __getattr__(name: str) -> Any:
    if name in LATE:
        return getattr(import_module(LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
