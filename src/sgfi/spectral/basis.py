"""Between tensors of any axis order and spectra laid out for batched channel products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import torch
from torch import Tensor

LINE = 200
"""Positions up to which a single axis is transformed by matrix products: faster there than an FFT and its copies."""


@dataclass(frozen=True)
class Basis:
    """Orthonormal rFFT over the coordinate axes of one tensor, in tensor order, the last one halved.

    A node without coordinates, or whose coordinates all have size one, is left untransformed and real; so is a
    ``positional`` one, whose bins are its positions. Spectra are ``(F, C, B)``: bins, channels, samples. In memory the
    channels of a sample stand together, ``(F, B, C)``: a product with a gain then reads both by rows, which for few
    samples takes a third of the time.
    """

    channel_axis: int
    coord_axes: tuple[int, ...]
    shape: tuple[int, ...]
    """Sizes of all axes but the batch."""
    positional: bool = False

    @property
    def channels(self) -> int:
        return self.shape[self.channel_axis - 1]

    @property
    def coords(self) -> tuple[int, ...]:
        """Sizes of the coordinate axes."""
        return tuple(self.shape[axis - 1] for axis in self.coord_axes)

    @property
    def trivial(self) -> bool:
        """Whether tensors stay as they are, real and untransformed."""
        return self.positional or prod(self.coords) == 1

    @property
    def spectrum_shape(self) -> tuple[int, ...]:
        """Stored bins by coordinate axis."""
        return self.coords if self.trivial else (*self.coords[:-1], self.coords[-1] // 2 + 1)

    @property
    def bins(self) -> int:
        return prod(self.spectrum_shape)

    def blocks(self, width: int) -> Tensor:
        """(F,) an id for each block of ``width`` neighbouring frequencies (or positions) along every axis.

        Frequencies that are their own mirror image, zero and the highest of an even number, stand alone, and blocks of
        positive and negative ones mirror each other: maps of blocks keep real tensors real, as those of bins do.
        """
        axes = [
            self._line_blocks(size, stored, width)
            for size, stored in zip(self.coords, self.spectrum_shape, strict=True)
        ]
        grid = torch.cartesian_prod(*axes).reshape(self.bins, -1) if axes else torch.zeros(1, 1)
        return torch.unique(grid, dim=0, return_inverse=True)[1]

    def rings(self) -> Tensor:
        """(F,) an id for each ring of frequencies of about one length: cycles over the longest axis, rounded.

        Without a spectrum there is nothing round: positions stay single.
        """
        if self.trivial:
            return torch.arange(self.bins)
        axes = [torch.arange(stored) for stored in self.spectrum_shape]
        cycles = [
            torch.where(2 * index <= size, index, index - size) * (max(self.coords) / size)
            for index, size in zip(axes, self.coords, strict=True)
        ]
        grid = torch.cartesian_prod(*cycles).reshape(self.bins, -1)
        return torch.unique(grid.norm(dim=1).round().long(), return_inverse=True)[1]

    def _line_blocks(self, size: int, stored: int, width: int) -> Tensor:
        """Ids along one axis."""
        index, width = torch.arange(stored), min(width, size)  # a number of any length may be asked for
        if self.trivial:
            return index // width
        frequency = torch.where(2 * index <= size, index, index - size)
        blocks = frequency.sign() * (1 + (frequency.abs() - 1) // width)
        return torch.where(2 * index == size, size, blocks)

    def dtype(self, real: torch.dtype) -> torch.dtype:
        """The spectrum's dtype for tensors of dtype ``real``."""
        return real if self.trivial else torch.complex128 if real == torch.float64 else torch.complex64

    def analyse(self, tensor: Tensor) -> Tensor:
        """``(B, ...)`` -> ``(F, C, B)``."""
        ordered = tensor.permute(0, self.channel_axis, *self.coord_axes)  # (B, C, d1..dk)
        if self._line:
            parts = _matrices(self.coords[0], tensor.dtype, tensor.device)[0] @ ordered.permute(2, 0, 1).flatten(1)
            return torch.complex(*parts.unflatten(1, ordered.shape[:2]).chunk(2)).mT
        if not self.trivial:
            dims = tuple(range(2, 2 + len(self.coord_axes)))
            ordered = torch.fft.rfftn(ordered.contiguous(), dim=dims, norm="ortho")
        return ordered.reshape(len(tensor), self.channels, self.bins).permute(2, 0, 1).contiguous().mT

    def synthesise(self, spectrum: Tensor) -> Tensor:
        """``(F, C, B)`` -> ``(B, ...)``; what irfftn returns is the result."""
        if self._line:
            inverse = _matrices(self.coords[0], spectrum.real.dtype, spectrum.device)[1]
            rows = torch.cat([spectrum.mT.real, spectrum.mT.imag])  # (2 F, B, C)
            ordered = (inverse @ rows.flatten(1)).unflatten(1, rows.shape[1:]).permute(1, 2, 0)
        else:
            grid = spectrum.mT.reshape(*self.spectrum_shape, -1, self.channels)  # (d1..dk, B, C)
            if not self.trivial and len(self.coords) > 1:  # all axes but the last, unpermuted: cheaper than irfftn
                grid = torch.fft.ifftn(grid, dim=tuple(range(len(self.coords) - 1)), norm="ortho")
            ordered = grid.permute(-2, -1, *range(len(self.coords)))
            if not self.trivial:
                ordered = torch.fft.irfft(ordered.contiguous(), n=self.coords[-1], norm="ortho")
        order = [0] * (1 + len(self.shape))
        for position, axis in enumerate((0, self.channel_axis, *self.coord_axes)):
            order[axis] = position
        return ordered.permute(order).contiguous()

    @property
    def _line(self) -> bool:
        return not self.trivial and len(self.coords) == 1 and self.coords[0] <= LINE


@cache
@torch.inference_mode(False)  # kept for callers in any mode
def _matrices(size: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The transform of one axis of N positions and its inverse, ``(2 F, N)`` and ``(N, 2 F)``: first the real parts."""
    forward = torch.fft.rfft(torch.eye(size, dtype=dtype, device=device), norm="ortho").T
    unit = torch.eye(len(forward), dtype=forward.dtype, device=device)
    inverse = torch.fft.irfft(torch.cat([unit, 1j * unit]), n=size, norm="ortho").T
    return torch.cat([forward.real, forward.imag]).contiguous(), inverse.contiguous()
