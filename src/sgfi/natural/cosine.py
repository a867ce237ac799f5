"""The cosine transform (DCT-II, orthonormal) over coordinate axes: borders reflect, nothing wraps around."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

LONG = 1024
"""Axes longer than this (sound) are transformed by an FFT: a matrix would have the square of their length."""


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


def variance(power: Tensor) -> Tensor:
    """(..., N) variances of the coefficients of the last axis -> those of its positions."""
    size = power.shape[-1]
    if size <= LONG:
        return power @ matrix(size, power.dtype, power.device).square()
    waves = torch.fft.ifft(power * _turns(power).square()).real * size  # sum_k p_k cos(2 pi k (n + 1/2) / N)
    return (power.sum(-1, keepdim=True) + waves - power[..., :1]) / size  # 2 cos^2 a = 1 + cos 2a, but for k = 0


def radii(sizes: Sequence[int]) -> Tensor:
    """(*sizes,) float64: the length of each frequency vector in cycles per position."""
    squares = [(torch.arange(size, dtype=torch.float64) / (2 * size)).square() for size in sizes]
    grids = torch.meshgrid(*squares, indexing="ij")
    return torch.stack(grids).sum(0).sqrt()


def _along(tensor: Tensor, axes: int, inverse: bool) -> Tensor:
    for axis in range(-axes, 0):
        if tensor.shape[axis] > LONG:
            fast = _synthesise_fast if inverse else _analyse_fast
            tensor = torch.movedim(fast(torch.movedim(tensor, axis, -1)), -1, axis)
            continue
        basis = matrix(tensor.shape[axis], tensor.dtype, tensor.device)
        basis = basis.mT if inverse else basis
        if axis == -1:
            tensor = tensor @ basis.mT
        elif axis == -2:
            tensor = basis @ tensor
        else:
            tensor = torch.movedim(basis @ torch.movedim(tensor, axis, -2), -2, axis)
    return tensor


def _analyse_fast(tensor: Tensor) -> Tensor:
    """The transform of the last axis: even positions, then odd ones backwards, through one FFT of the same length."""
    folded = torch.cat([tensor[..., ::2], tensor[..., 1::2].flip(-1)], -1)
    turned = torch.fft.fft(folded) * _turns(folded).conj()
    return turned.real * _norms(folded)


def _synthesise_fast(coefficients: Tensor) -> Tensor:
    size, plain = coefficients.shape[-1], coefficients / _norms(coefficients)
    mirrored = torch.cat([torch.zeros_like(plain[..., :1]), plain[..., 1:].flip(-1)], -1)
    spectrum = torch.complex(plain, -mirrored) * _turns(plain)
    folded = torch.fft.irfft(spectrum[..., : size // 2 + 1], size)
    result, half = torch.empty_like(folded), (size + 1) // 2
    result[..., ::2], result[..., 1::2] = folded[..., :half], folded[..., half:].flip(-1)
    return result


def _turns(like: Tensor) -> Tensor:
    """(N,) complex: a quarter of a position, at each frequency."""
    angles = torch.arange(like.shape[-1], dtype=like.dtype, device=like.device) * (torch.pi / (2 * like.shape[-1]))
    return torch.polar(torch.ones_like(angles), angles)


def _norms(like: Tensor) -> Tensor:
    """(N,) of orthonormal rows."""
    norms = torch.full((like.shape[-1],), (2 / like.shape[-1]) ** 0.5, dtype=like.dtype, device=like.device)
    norms[0] = like.shape[-1] ** -0.5
    return norms
