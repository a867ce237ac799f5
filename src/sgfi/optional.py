"""Optional libraries, and how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from sgfi.errors import SgfiError


def install_hint(extra: str) -> str:
    """What to do when the libraries of an extra are missing; the package is installed from a clone."""
    return f'Run in a clone of sgfi: pip install -e ".[{extra}]".'


def need(module: str, extra: str) -> Any:
    """Import an optional library or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SgfiError(
            f"the package {module.split('.')[0]} to be installed", str(error), install_hint(extra)
        ) from error
