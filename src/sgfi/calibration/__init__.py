"""From batches of inputs to a map family."""

from sgfi.calibration.calibrate import calibrate
from sgfi.calibration.moment_files import load_moments, save_moments
from sgfi.calibration.moment_sets import MomentSet, gather_moments
from sgfi.calibration.presets import PRESETS, Preset

__all__ = ["PRESETS", "MomentSet", "Preset", "calibrate", "gather_moments", "load_moments", "save_moments"]
