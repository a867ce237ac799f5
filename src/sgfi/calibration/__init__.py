"""From batches of inputs to a map family."""

from sgfi.calibration.calibrate import calibrate
from sgfi.calibration.lengths import fit_lengths
from sgfi.calibration.moment_files import load_moments, save_moments
from sgfi.calibration.moment_sets import MomentSet, gather_moments
from sgfi.calibration.presets import PRESETS, Preset

__all__ = [
    "PRESETS",
    "MomentSet",
    "Preset",
    "calibrate",
    "fit_lengths",
    "gather_moments",
    "load_moments",
    "save_moments",
]
