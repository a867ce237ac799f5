"""Between tensors of any axis order and spectra laid out for batched channel products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor


@dataclass(frozen=True)
class Basis:
    """Orthonormal rFFT over the coordinate axes of one tensor, in tensor order, the last one halved.

    A node without coordinates, or whose coordinates all have size one, is left untransformed and real; so is a
    ``positional`` one, whose bins are its positions. Spectra are laid out ``(F, C, B)``: bins, channels, samples.
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

    def dtype(self, real: torch.dtype) -> torch.dtype:
        """The spectrum's dtype for tensors of dtype ``real``."""
        return real if self.trivial else torch.complex128 if real == torch.float64 else torch.complex64

    def analyse(self, tensor: Tensor) -> Tensor:
        """``(B, ...)`` -> ``(F, C, B)``."""
        batch = tensor.shape[0]
        ordered = tensor.permute(
            0, self.channel_axis, *self.coord_axes
        )  # (B, C, d1..dk): as it is where C stands first
        if not self.trivial:
            dims = tuple(range(2, 2 + len(self.coord_axes)))
            ordered = torch.fft.rfftn(ordered.contiguous(), dim=dims, norm="ortho")
        return ordered.reshape(batch, self.channels, self.bins).permute(2, 1, 0).contiguous()  # (F, C, B)

    def synthesise(self, spectrum: Tensor) -> Tensor:
        """``(F, C, B)`` -> ``(B, ...)``; what irfftn returns is the result."""
        batch = spectrum.shape[-1]
        ordered = spectrum.permute(2, 1, 0).reshape(batch, self.channels, *self.spectrum_shape)
        if not self.trivial:
            dims = tuple(range(2, 2 + len(self.coord_axes)))
            ordered = torch.fft.irfftn(ordered, s=self.coords, dim=dims, norm="ortho")
        order = [0] * (1 + len(self.shape))
        for place, axis in enumerate((0, self.channel_axis, *self.coord_axes)):
            order[axis] = place
        return ordered.permute(order).contiguous()
