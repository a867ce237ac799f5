"""What controls and diagnostics return, and how they pair images."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.errors import DataError

Rows = dict[str, dict[str, Tensor]]
"""Row -> score -> (B,): one number per image."""


def partner(x: Tensor) -> Tensor:
    """Every image of a batch with its neighbour, (B, ...) -> (B, ...): none with itself."""
    if len(x) < 2:
        raise DataError("at least two images to pair", str(len(x)), "Give batches of two or more.")
    return x.roll(1, 0)


def average(rows: Rows) -> dict[str, Tensor]:
    """The mean over rows of every score they share."""
    first, *rest = rows.values()
    shared = [score for score in first if all(score in row for row in rest)]
    return {score: torch.stack([row[score] for row in rows.values()]).mean(0) for score in shared}
