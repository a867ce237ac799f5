"""From batches of inputs to a map family."""

from sgfi.calibration.calibrate import calibrate
from sgfi.calibration.lengths import fit_lengths
from sgfi.calibration.moment_files import load_moments, save_moments
from sgfi.calibration.moment_sets import MomentSet, gather_moments
from sgfi.calibration.presets import PRESETS, Preset
from sgfi.calibration.sizes import choose_sizes

__all__ = [
    "PRESETS",
    "MomentSet",
    "Preset",
    "calibrate",
    "choose_sizes",
    "fit_lengths",
    "gather_moments",
    "load_moments",
    "save_moments",
]
