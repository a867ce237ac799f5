"""A Johnson-Lindenstrauss sketch of the channels: squared errors of many channels from a few random sums of them."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

ROWS = 64
"""Random sums that represent all channels."""


def sketch(rows: Tensor) -> Tensor:
    """Random signed sums of all channels, ``(..., C, n)`` -> ``(..., ROWS, n)``; always the same signs.

    Law: their sum of squares is, in expectation, that of the channels. Ridges are compared by their squared error over
    hundreds of samples; 64 sums estimate it to a few per cent, at a fraction of the products. Up to 64 channels nothing
    is sketched and errors are exact.
    """
    channels = rows.shape[-2]
    return rows if channels <= ROWS else _signs(channels, rows.dtype, rows.device) @ rows


@cache
@torch.inference_mode(False)  # kept for callers in any mode
def _signs(channels: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    signs = torch.randint(2, (ROWS, channels), generator=torch.Generator().manual_seed(0))
    return (2.0 * signs - 1).mul_(ROWS**-0.5).to(device, dtype)
