"""What every test shares: one seed, a modest number of threads, and the optional assets folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# No test asserts a time, and hypothesis' deadline would be one.
settings.register_profile("sgfi", deadline=None)
settings.load_profile("sgfi")

# Parallel workers share the cores, and more threads only slow tiny models down.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    """Every test starts from the same random state, alone or in any order."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def assets() -> Path:
    """Folder of real weights and data (``SGFI_ASSETS``); tests that need it skip without it."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "assets"
    folder = Path(os.environ.get("SGFI_ASSETS") or beside)
    if not folder.is_dir():
        pytest.skip("no assets folder; set SGFI_ASSETS to run this test")
    return folder
