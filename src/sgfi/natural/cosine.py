"""The cosine transform (DCT-II, orthonormal) over coordinate axes: borders reflect, nothing wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor


@cache
@torch.inference_mode(False)  # kept for callers in any mode
def matrix(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """(N, N), orthonormal: row k is the cosine of frequency ``k / 2N`` cycles per position."""
    steps = torch.arange(size, dtype=torch.float64)
    rows = torch.cos(torch.pi / size * steps.unsqueeze(1) * (steps + 0.5)) * (2 / size) ** 0.5
    rows[0] = size**-0.5
    return rows.to(device=device, dtype=dtype)


def analyse(tensor: Tensor, axes: int) -> Tensor:
    """Coefficients of the last ``axes`` axes, in the same layout."""
    return _along(tensor, axes, inverse=False)


def synthesise(coefficients: Tensor, axes: int) -> Tensor:
    """The inverse of :func:`analyse`, which is also its transpose."""
    return _along(coefficients, axes, inverse=True)


def radii(sizes: Sequence[int]) -> Tensor:
    """(*sizes,) float64: the length of each frequency vector in cycles per position."""
    squares = [(torch.arange(size, dtype=torch.float64) / (2 * size)).square() for size in sizes]
    grids = torch.meshgrid(*squares, indexing="ij")
    return torch.stack(grids).sum(0).sqrt()


def _along(tensor: Tensor, axes: int, inverse: bool) -> Tensor:
    for axis in range(-axes, 0):
        basis = matrix(tensor.shape[axis], tensor.dtype, tensor.device)
        basis = basis.mT if inverse else basis
        if axis == -1:
            tensor = tensor @ basis.mT
        elif axis == -2:
            tensor = basis @ tensor
        else:
            tensor = torch.movedim(basis @ torch.movedim(tensor, axis, -2), -2, axis)
    return tensor
