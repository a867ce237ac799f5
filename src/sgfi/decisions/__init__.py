"""Features and decisions: what a group identifies (inversion) beside what it does to the prediction (intervention).

The two branches are parallel evidence. An inverse is never fed back to the model.
"""

import warnings
from typing import Any

from sgfi.decisions.coordinates import CoordGrid, Support, coord_grid, intervene_all, query_all, summarise, support
from sgfi.decisions.gates import Gate, gate
from sgfi.decisions.groups import Groups, choose
from sgfi.decisions.interventions import Curve, Edit, Effects, deletion, intervene, intervened
from sgfi.decisions.means import activation_means, load_means, save_means
from sgfi.decisions.patches import CoordinateSettings, CoordinateStudy, coordinate_study
from sgfi.decisions.ranking import Contribution, rank
from sgfi.decisions.readout import Decision, Split, decide
from sgfi.decisions.studies import DecisionSettings, Study, group_inverses, study

__all__ = [
    "Contribution",
    "CoordGrid",
    "CoordinateSettings",
    "CoordinateStudy",
    "Curve",
    "Decision",
    "DecisionSettings",
    "Edit",
    "Effects",
    "Gate",
    "Groups",
    "Split",
    "Study",
    "Support",
    "activation_means",
    "choose",
    "coord_grid",
    "coordinate_study",
    "decide",
    "deletion",
    "gate",
    "group_inverses",
    "intervene",
    "intervene_all",
    "intervened",
    "load_means",
    "query_all",
    "rank",
    "save_means",
    "study",
    "summarise",
    "support",
]


def __getattr__(name: str) -> Any:
    if name == "Settings":
        warnings.warn("sgfi.decisions.Settings is now DecisionSettings", DeprecationWarning, stacklevel=2)
        return DecisionSettings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
