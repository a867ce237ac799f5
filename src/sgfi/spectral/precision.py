"""Which floating-point precision a device offers for sums and solves: the one place that knows."""

from __future__ import annotations

import torch

DOUBLE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
WITHOUT_DOUBLE = {"mps"}
"""Types of device that have no double precision."""


def wide(dtype: torch.dtype, device: torch.device | str) -> torch.dtype:
    """Double precision where the device has it, for sums and solves."""
    return dtype if torch.device(device).type in WITHOUT_DOUBLE else DOUBLE.get(dtype, dtype)
