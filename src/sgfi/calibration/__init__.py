"""From batches of inputs to a map family."""

from sgfi.calibration.calibrate import calibrate
from sgfi.calibration.presets import PRESETS, Preset

__all__ = ["PRESETS", "Preset", "calibrate"]
