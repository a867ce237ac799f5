"""From batches of inputs to a map family."""

from sgfi.calibration.calibrate import calibrate

__all__ = ["calibrate"]
