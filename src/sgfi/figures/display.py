"""From inverse tensors to pictures, by three stated rules.

natural
    1st to 99th percentile of the whole inverse (all pixels and colours together), mapped to black and white.
signed
    Mean over colours, a symmetric scale at the 99th percentile of the magnitude: zero is always the middle.
shared
    One of the two with limits taken from all tensors of a row, so that they can be compared.

A tensor with no range to speak of is drawn flat, in the middle of the scale: rounding noise is not a picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from sgfi.errors import DataError

LOW, HIGH = 1.0, 99.0
TINY = 1e-5
"""A range below this fraction of the reference magnitude (or of its own magnitude) is rounding, not content."""


@dataclass(frozen=True)
class Scale:
    """Limits of a display, and in words what was done."""

    low: float
    high: float
    note: str = ""
    """Empty for an ordinary range; else what makes it special: exactly zero, constant, negligible."""

    @property
    def flat(self) -> bool:
        """Nothing to show: the picture is the middle of the scale everywhere."""
        return self.high <= self.low

    def apply(self, values: np.ndarray) -> np.ndarray:
        """The same shape, in 0..1."""
        if self.flat:
            return np.full(values.shape, 0.5)
        return np.clip((values - self.low) / (self.high - self.low), 0.0, 1.0)


def natural_scale(tensors: Sequence[torch.Tensor], reference: float = 0.0) -> Scale:
    """1st-99th percentile of all values together. ``reference``: a magnitude next to which tiny ranges are nothing."""
    values = np.concatenate([_array(t).ravel() for t in tensors])
    low, high = (float(v) for v in np.percentile(values, (LOW, HIGH)))
    note = _nothing(values, high - low, reference)
    return Scale(low, low, note) if note else Scale(low, high)


def signed_scale(tensors: Sequence[torch.Tensor], reference: float = 0.0) -> Scale:
    """Plus and minus the 99th percentile of the magnitude of the colour means of all tensors."""
    values = np.concatenate([colour_mean(t).ravel() for t in tensors])
    limit = float(np.percentile(np.abs(values), HIGH))
    note = _nothing(values, limit, reference)
    return Scale(0.0, 0.0, note) if note else Scale(-limit, limit)


def natural_view(tensor: torch.Tensor, scale: Scale | None = None, reference: float = 0.0) -> np.ndarray:
    """(C, H, W) -> (H, W, 3) in 0..1."""
    scale = scale or natural_scale([tensor], reference)
    picture = scale.apply(_array(tensor).transpose(1, 2, 0))
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture


def signed_view(tensor: torch.Tensor, scale: Scale | None = None, reference: float = 0.0) -> np.ndarray:
    """(C, H, W) -> (H, W) in 0..1 with 0.5 for zero; for a diverging colour map."""
    scale = scale or signed_scale([tensor], reference)
    return scale.apply(colour_mean(tensor))


def colour_mean(tensor: torch.Tensor) -> np.ndarray:
    """(C, H, W) -> (H, W)."""
    return _array(tensor).mean(axis=0)


def _array(tensor: torch.Tensor) -> np.ndarray:
    array = tensor.detach().cpu().to(torch.float64).numpy()
    if array.ndim != 3:
        raise DataError("one image tensor (C, H, W)", f"shape {array.shape}", "Index the batch axis first.")
    if not np.isfinite(array).all():
        raise DataError("finite values", "NaN or infinity", "Inspect the inverse; it cannot be drawn.")
    return array


def _nothing(values: np.ndarray, spread: float, reference: float) -> str:
    """Why there is nothing to draw, or ""."""
    magnitude = float(np.abs(values).max())
    if magnitude == 0.0:
        return "exactly zero"
    if spread <= TINY * magnitude:
        return "constant"
    if max(spread, magnitude) <= TINY * reference:
        return f"negligible (largest magnitude {magnitude:.1e})"
    return ""
