"""The demonstration: what it runs, and the page it writes."""

from sgfi.demo.page import cosines, told
from sgfi.demo.running import Settings, coordinate_target, run

__all__ = ["Settings", "coordinate_target", "cosines", "run", "told"]
