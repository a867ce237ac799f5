"""The numbers of a tensor as bytes, whatever their dtype."""

from __future__ import annotations

import torch
from torch import Tensor


def raw_bytes(tensor: Tensor) -> memoryview:
    """In row-major order; of a contiguous tensor on the CPU its own memory, not a copy."""
    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
