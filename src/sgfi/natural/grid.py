"""The prior of image-like inputs: a channel matrix for every frequency, equal for frequencies of equal length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from sgfi.errors import DataError, whole
from sgfi.inversion import along_channels
from sgfi.natural import cosine
from sgfi.natural.covariance import Prior, scalar
from sgfi.natural.moments import Moments, floor

FINE = 16
"""Rings are one frequency step wide up to this many steps from zero, then grow in proportion to the radius."""


@dataclass(frozen=True, eq=False, repr=False)
class GridPrior(Prior):
    """Stationary over d coordinate axes: C x C matrices by frequency radius r, in the cosine basis.

    ``r^d`` times the covariance is interpolated over ``log r`` and constant beyond the ends: nearly level for scenes,
    which look alike at every scale, and unchanged where a picture is put on a finer or coarser grid. A sum of positive
    definite matrices with positive weights is positive definite.
    """

    colour: Tensor
    """(C,) the mean, equal at every position; its dtype is that of the inputs."""
    level: Tensor
    """(C, C) float64: covariance of an input's average over positions."""
    rings: Tensor
    """(R,) float64, ascending: radii in cycles per position."""
    spectrum: Tensor
    """(R, C, C) float64: ``r^d`` times the covariance of one cosine coefficient at radius r."""
    shape: tuple[int, ...]
    channel_axis: int = 1
    _tables: dict = field(repr=False, default_factory=dict)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the coordinate axes."""
        return tuple(size for axis, size in enumerate(self.shape, 1) if axis != self.channel_axis)

    @cached_property
    def mean(self) -> Tensor:  # type: ignore[override]
        return along_channels(self.colour, self.channel_axis, 1 + len(self.shape))[0].expand(self.shape)

    @cached_property
    def covariances(self) -> Tensor:
        """(F, C, C) float64: one for each cosine coefficient, coordinate axes flattened."""
        radius = cosine.radii(self.sizes).flatten()
        height = radius.clamp(min=radius[radius > 0].min() if len(radius) > 1 else 1.0)
        log_rings, at = self.rings.log(), height.log()
        above = torch.searchsorted(log_rings, at).clamp(1, max(len(log_rings) - 1, 1)).clamp(max=len(log_rings) - 1)
        below = (above - 1).clamp(min=0)
        gap = (log_rings[above] - log_rings[below]).clamp(min=1e-12)
        weight = ((at - log_rings[below]) / gap).clamp(0, 1).reshape(-1, 1, 1)
        mixed = self.spectrum[below] * (1 - weight) + self.spectrum[above] * weight
        matrices = mixed / height.pow(len(self.sizes)).reshape(-1, 1, 1)
        matrices[0] = self.level * prod(self.sizes)  # an orthonormal coefficient of zero frequency is sqrt(F) averages
        return matrices

    @cached_property
    def roots(self) -> Tensor:
        """(F, C, C) float64: symmetric roots of :attr:`covariances`."""
        values, vectors = torch.linalg.eigh(self.covariances)
        return (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mT

    @cached_property
    def inverse_roots(self) -> Tensor:
        """(F, C, C) float64: inverses of :attr:`roots`."""
        return torch.linalg.inv(self.roots)

    @cached_property
    def variance(self) -> Tensor:  # type: ignore[override]
        power = self.covariances.diagonal(dim1=-2, dim2=-1).mT.reshape(-1, *self.sizes)
        for axis in range(1, power.dim()):
            power = torch.movedim(cosine.variance(torch.movedim(power, axis, -1)), -1, axis)
        return torch.movedim(power, 0, self.channel_axis - 1)

    def detail(self, tensor: Tensor) -> Tensor:
        coords = [axis - 1 - len(self.shape) for axis in range(1, 1 + len(self.shape)) if axis != self.channel_axis]
        return tensor - tensor.mean(coords, keepdim=True)

    @cached_property
    def detail_variance(self) -> Tensor:  # type: ignore[override]
        return replace(self, level=torch.zeros_like(self.level), _tables={}).variance

    def apply(self, tensor: Tensor) -> Tensor:
        return self._filtered(tensor, "covariances")

    def root(self, tensor: Tensor) -> Tensor:
        return self._filtered(tensor, "roots")

    def whiten(self, tensor: Tensor) -> Tensor:
        return self._filtered(tensor, "inverse_roots")

    def resized(self, shape: tuple[int, ...]) -> GridPrior:
        sized = isinstance(shape, Sequence) and all(whole(size, 1) for size in shape)
        if not sized or len(shape) != len(self.shape) or shape[self.channel_axis - 1] != len(self.colour):
            raise DataError(
                f"a shape like {self.shape}, with {len(self.colour)} channels",
                repr(shape),
                "Only coordinates may change.",
            )
        resized = replace(self, shape=tuple(shape), _tables={})
        finer = (prod(resized.sizes) / prod(self.sizes)) ** (1 / len(self.sizes))
        return replace(resized, rings=self.rings / finer)  # as many cycles over the whole picture as before

    def mapped(self, matrix: Tensor, offset: Tensor) -> GridPrior:
        matrix = matrix.to(torch.float64)
        shape = list(self.shape)
        shape[self.channel_axis - 1] = len(matrix)
        colour = (matrix @ self.colour.to(torch.float64) + offset.to(torch.float64)).to(self.colour.dtype)
        level, spectrum = (matrix @ part @ matrix.mT for part in (self.level, self.spectrum))
        return replace(self, colour=colour, level=level, spectrum=spectrum, shape=tuple(shape), _tables={})

    def tensors(self) -> dict[str, Tensor]:
        return {
            "colour": self.colour,
            "level": self.level,
            "rings": self.rings,
            "spectrum": self.spectrum,
            "shape": torch.tensor(self.shape),
            "channel_axis": torch.tensor(self.channel_axis),
        }

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> GridPrior:
        colour, level, rings, spectrum = (tensors[name] for name in ("colour", "level", "rings", "spectrum"))
        shape, axis = tuple(tensors["shape"].tolist()), scalar(tensors, "channel_axis")
        return cls(colour, level, rings, spectrum, shape, axis)

    def _filtered(self, tensor: Tensor, name: str) -> Tensor:
        """Every coefficient multiplied by its C x C matrix."""
        self._check_shape(tensor)
        table = self._table(name, tensor)
        channel, axes = self.channel_axis - 1 - len(self.shape), len(self.sizes)
        laid = torch.movedim(tensor, channel, -axes - 1).reshape(-1, len(self.colour), *self.sizes)  # (n, C, d1..dk)
        spectra = cosine.analyse(laid, axes).flatten(2)  # (n, C, F)
        mixed = _per_frequency(table, spectra).unflatten(2, self.sizes)
        back = cosine.synthesise(mixed, axes).reshape(*tensor.shape[: tensor.dim() - len(self.shape)], *laid.shape[1:])
        return torch.movedim(back, -axes - 1, channel)

    @torch.inference_mode(False)  # kept for callers in any mode
    def _table(self, name: str, like: Tensor) -> Tensor:
        """(C, C, F) matrices in a tensor's dtype and on its device; kept once made."""
        key = name, like.dtype, like.device
        if key not in self._tables:
            wide = getattr(self, name).permute(1, 2, 0).contiguous()
            self._tables[key] = wide.to(device=like.device, dtype=like.dtype, copy=True)
        return self._tables[key]


def _per_frequency(table: Tensor, spectra: Tensor) -> Tensor:
    """``table`` (C, C, F) times ``spectra`` (n, C, F), frequency by frequency."""
    if len(table) > 8:
        return torch.einsum("cdf,ndf->ncf", table, spectra)
    return torch.stack([(row * spectra).sum(1) for row in table], 1)  # colours: F long rows beat F tiny products


@dataclass(frozen=True, eq=False)
class GridMoments:
    """What a stream of inputs says about rings: sums of whitened cosine coefficients."""

    level: Moments
    """One group: averages over positions, about ``shift``."""
    coefficients: Moments
    """R groups: ``r^(d/2)`` times each coefficient but the one of zero frequency."""
    shift: Tensor
    """(C,) float64"""

    def merge(self, other: GridMoments) -> GridMoments:
        """Of both streams; they must have the same shift."""
        return replace(
            self, level=self.level.merge(other.level), coefficients=self.coefficients.merge(other.coefficients)
        )

    @classmethod
    def of(cls, x: Tensor, channel_axis: int, shift: Tensor) -> GridMoments:
        """Of one batch ``(B, ...)``."""
        laid = torch.movedim(x, channel_axis, 1)  # (B, C, d1..dk)
        sizes = laid.shape[2:]
        laid = laid - shift.to(x.dtype).reshape(-1, *[1] * len(sizes))
        spectra = cosine.analyse(laid, len(sizes)).flatten(2)[:, :, 1:]  # (B, C, F - 1)
        radius = cosine.radii(sizes).flatten()[1:]
        coefficients = _about_zero(spectra * radius.pow(len(sizes) / 2).to(x.dtype), ring_numbers(sizes)[0])
        level = Moments.of(laid.flatten(2).mean(2, dtype=torch.float64).unsqueeze(0))
        return cls(level, coefficients, shift)

    def prior(self, shape: tuple[int, ...], channel_axis: int, dtype: torch.dtype) -> GridPrior:
        """Shrunk matrices by ring."""
        sizes = tuple(size for axis, size in enumerate(shape, 1) if axis != channel_axis)
        _, rings = ring_numbers(sizes)
        spectrum, level = self.coefficients.shrunk(), self.level.centred().shrunk()[0]
        power, colour = spectrum.diagonal(dim1=-2, dim2=-1).mean(0), self.level.mean[0] + self.shift
        spectrum, level = spectrum + floor(power, colour, dtype), level + floor(level.diagonal() + power, colour, dtype)
        return GridPrior(colour.to(dtype), level, rings, spectrum, tuple(shape), channel_axis)


def _about_zero(coefficients: Tensor, group: Tensor) -> Moments:
    """Of (B, C, F), frequencies pooled into the groups ``group`` (F,). Odd moments, which only a mean would need, are
    left at zero."""
    count = group.bincount().to(torch.float64)
    shape = len(count), coefficients.shape[1], coefficients.shape[1]

    def products(rows: Sequence[Tensor]) -> Tensor:
        """Of C of (B, F) by pairs: (G, C, C)."""
        sums = torch.zeros(shape, dtype=torch.float64)
        for row, left in enumerate(rows):
            for other, right in enumerate(rows[: row + 1]):
                pooled = count.new_zeros(len(count)).index_add_(0, group, (left * right).sum(0))
                sums[:, row, other] = sums[:, other, row] = pooled
        return sums

    rows = coefficients.double().unbind(1)
    odd = count.new_zeros(1).expand(shape)
    fourth = products([row.square() for row in rows])
    return Moments(count * len(coefficients), odd[..., 0], products(rows), odd, fourth)


def ring_numbers(sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Of every frequency but zero its ring (F - 1,), and the mean log radius of each ring as a radius (R,)."""
    radius = cosine.radii(sizes).flatten()[1:]
    if not len(radius):
        raise DataError(
            "a coordinate axis of at least two positions",
            str(sizes),
            "Use kind='vector' for inputs without coordinates.",
        )
    steps = radius * 2 * max(sizes)
    far = FINE + FINE * (steps / FINE).clamp(min=1).log()
    ring = torch.where(steps <= FINE, steps, far).round().to(torch.int64)
    group = torch.unique(ring, return_inverse=True)[1]
    count = group.bincount().to(torch.float64)
    logs = torch.zeros_like(count).index_add_(0, group, radius.log())
    return group, (logs / count).exp()
