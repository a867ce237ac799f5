"""How well an inverse aligns with the input it came from.

These numbers describe alignment with a known source. They are not the definition of a correct
inverse: a single channel need not look like the whole photograph.
"""

from __future__ import annotations

import torch

from sgfi.errors import DataError


def pixel_cosine(found: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Cosine of the flattened tensors, in the model's input coordinates: (B, ...), (B, ...) ->
    (B,).

    An inverse that is exactly zero has no direction: its cosine is reported as 0.
    """
    a, b = _flat(found, source)
    norms = a.norm(dim=1) * b.norm(dim=1)
    return torch.where(
        norms > 0,
        (a * b).sum(1) / norms.clamp_min(torch.finfo(a.dtype).tiny),
        torch.zeros_like(norms),
    )


def centred_cosine(found: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Cosine after each image's own mean is taken away (Pearson correlation): brightness alone
    earns nothing. (B,)"""
    a, b = _flat(found, source)
    return pixel_cosine(a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True))


def relative_error(found: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Length of the difference over length of the source: (B,)."""
    a, b = _flat(found, source)
    return (a - b).norm(dim=1) / b.norm(dim=1).clamp_min(torch.finfo(a.dtype).tiny)


METRICS = {
    "pixel_cosine": pixel_cosine,
    "centred_cosine": centred_cosine,
    "relative_error": relative_error,
}


def _flat(found: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both as float64 (B, everything)."""
    if found.shape != source.shape:
        raise DataError(
            "two tensors of one shape",
            f"{tuple(found.shape)} and {tuple(source.shape)}",
            "Pair them up.",
        )
    return found.flatten(1).double(), source.flatten(1).double()
