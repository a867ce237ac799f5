"""Deprecated: models, images and preprocessing live in :mod:`sgfi.inputs` now, pictures in :mod:`sgfi.figures`."""

import sys
import warnings
from importlib import import_module

from sgfi.figures.display import Scale, natural_view, signed_view  # noqa: F401
from sgfi.inputs import *  # noqa: F403

warnings.warn("sgfi.vision is now sgfi.inputs", DeprecationWarning, stacklevel=2)
for _name in ("data", "models", "photographs", "preprocessing", "text", "weights"):
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = import_module(f"sgfi.inputs.{_name}")
display = sys.modules[f"{__name__}.display"] = import_module("sgfi.figures.display")
