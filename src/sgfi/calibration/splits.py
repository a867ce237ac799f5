"""Which samples maps are fitted to, and which judge them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import CalibrationError

HELD_OUT = 8
"""``stages="auto"`` and ``length=True`` fit on all samples but every eighth, and judge maps and lengths on these."""


@dataclass(frozen=True)
class SampleSplit:
    """All samples both fit and judge, or every eighth judges and the others fit."""

    sizes: tuple[int, ...]
    """Samples of each batch."""
    holds_out: bool
    device: torch.device

    def __post_init__(self) -> None:
        if self.holds_out and sum(self.sizes) < HELD_OUT:
            raise CalibrationError(
                f'at least {HELD_OUT} samples with stages="auto" or length=True: one in {HELD_OUT} is held out',
                str(sum(self.sizes)),
                "Give more data, or a number of stages and no length.",
            )

    @property
    def fitted(self) -> int:
        """How many samples the maps are fitted to."""
        samples = sum(self.sizes)
        return samples - (samples // HELD_OUT if self.holds_out else 0)

    def fits(self, batch_index: int) -> slice | Tensor:
        """Which samples of a batch the maps are fitted to."""
        return ~self._held_out(batch_index) if self.holds_out else slice(None)

    def judges(self, batch_index: int) -> slice | Tensor:
        """Which samples of a batch tell how much a map leaves unexplained."""
        return self._held_out(batch_index) if self.holds_out else slice(None)

    def _held_out(self, batch_index: int) -> Tensor:
        """(B,) true for every eighth sample, counted over all batches."""
        start = sum(self.sizes[:batch_index])
        numbers = torch.arange(start, start + self.sizes[batch_index], device=self.device)
        return numbers % HELD_OUT == HELD_OUT - 1
