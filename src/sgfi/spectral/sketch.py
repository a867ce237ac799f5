"""Errors of many channels, told by a few random combinations of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ROWS = 64
"""Combinations that stand for all channels."""


@dataclass(frozen=True)
class Sketch:
    """Signed sums of all channels. Law: the mean square of what it returns is, in expectation, that of the channels.

    Ridges are compared by their squared error over hundreds of samples; 64 combinations tell it to a few per cent, at a
    fraction of the products. Up to 64 channels nothing is combined and errors are exact. The signs are always the same.
    """

    signs: Tensor | None
    """(ROWS, C), or none where there are no more channels than that."""

    @classmethod
    def of(cls, channels: int, like: Tensor) -> Sketch:
        if channels <= ROWS:
            return cls(None)
        drawn = torch.randint(2, (ROWS, channels), generator=torch.Generator().manual_seed(0))
        return cls((2.0 * drawn - 1).mul_(ROWS**-0.5).to(like))

    def __call__(self, rows: Tensor) -> Tensor:
        """``(..., C, n)`` -> ``(..., ROWS, n)``."""
        return rows if self.signs is None else self.signs @ rows
