"""The demonstration: what it runs, and the page it writes."""

import warnings

from sgfi.demo.page import WHICH_IS_WHICH, cosines, summary
from sgfi.demo.questions import coordinate_target
from sgfi.demo.running import DemoSettings, run

__all__ = ["WHICH_IS_WHICH", "DemoSettings", "coordinate_target", "cosines", "run", "summary"]
RENAMED = {"Settings": "DemoSettings", "told": "summary"}


def __getattr__(name: str) -> object:
    """Names of earlier releases."""
    if name not in RENAMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"sgfi.demo.{name} is now {RENAMED[name]}", DeprecationWarning, stacklevel=2)
    return globals()[RENAMED[name]]
