"""Queries, the estimator protocol, the one local update and its walk, calibrated maps, and inversion itself."""

from sgfi.inversion.estimator import STAGES, Estimator, Inverse, depth_targets
from sgfi.inversion.family import MapFamily
from sgfi.inversion.invert import invert, sweep
from sgfi.inversion.query import Query, checked_query, common_target
from sgfi.inversion.selection import JointSelection, Selection, Selections, along_channels
from sgfi.inversion.side_inputs import bind

__all__ = [
    "STAGES",
    "Estimator",
    "Inverse",
    "JointSelection",
    "MapFamily",
    "Query",
    "Selection",
    "Selections",
    "along_channels",
    "bind",
    "checked_query",
    "common_target",
    "depth_targets",
    "invert",
    "sweep",
]
