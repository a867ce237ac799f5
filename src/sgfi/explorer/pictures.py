"""Answers as PNG files, by the rules of :mod:`sgfi.figures.answers` and :mod:`sgfi.figures.display`."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
from torch import Tensor

import sgfi
from sgfi.errors import DataError
from sgfi.explorer.lenses import Lens
from sgfi.figures.answers import Painter
from sgfi.figures.display import natural_scale, natural_view, signed_scale, signed_view

VIEWS = ("natural", "signed")
COLD, WARM = np.array([33, 102, 172.0]), np.array([178, 24, 43.0])
"""Ends of the signed scale; zero is white."""


def painter(lens: Lens, estimator: sgfi.Estimator, x: Tensor) -> Painter:
    """How deviations from the estimator's origin become pictures."""
    origin = estimator.origin
    mean = origin.to(x) if isinstance(origin, Tensor) else torch.full_like(x[0], float(origin))
    return Painter(mean.cpu(), lens.preprocessing)


def draw(
    lens: Lens,
    x: Tensor,
    value: Tensor,
    opacity: Tensor | None = None,
    gain: float | None = None,
    view: str = VIEWS[0],
    beside: Tensor | None = None,
) -> np.ndarray:
    """(H, W, 3) uint8 of a value (C, H, W). ``gain`` is the picture's own where it is not given.

    ``beside`` is another value, which shares the scale.
    """
    shared = [value] if beside is None else [value, beside]
    if view not in VIEWS:
        raise DataError(f"a view among {list(VIEWS)}", repr(view), "Choose one of these.")
    if not lens.picture:
        raise DataError("inputs that are pictures", f"inputs of shape {lens.loaded.input_shape}", "Ask for .json.")
    if view == "signed":
        return _diverging(signed_view(value, signed_scale(shared)))
    if lens.kind == "maps":  # values have no unit: each on its own percentile scale
        return _bytes(natural_view(value, natural_scale(shared)))
    brush = painter(lens, lens.at(x), x)
    if gain is None:
        gain = min(brush.gain(value.cpu() if opacity is None else value * opacity) for value in shared)
    return _bytes(brush.picture(value.cpu(), gain, opacity).permute(1, 2, 0).numpy())


def png(picture: np.ndarray) -> bytes:
    """(H, W, 3) uint8 -> a file."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.repeat(picture, 3, 2) if picture.shape[2] == 1 else picture).save(file, "PNG")
    return file.getvalue()


def _bytes(picture: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(picture, 0, 1) * 255 + 0.5, dtype=np.uint8)


def _diverging(levels: np.ndarray) -> np.ndarray:
    """(H, W) in 0..1 with 0.5 for zero -> (H, W, 3)."""
    far = np.abs(levels - 0.5)[..., None] * 2
    end = np.where(levels[..., None] < 0.5, COLD, WARM)
    return np.asarray(255 + (end - 255) * far, dtype=np.uint8)


def pixels_png(x: Tensor) -> bytes:
    """(C, H, W) in 0..1 -> a file."""
    return png(_bytes(x.permute(1, 2, 0).numpy()))
