"""Maps kept small: halves or bytes in place of complex numbers, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import torch
from torch import Tensor

from sgfi.spectral.basis import Basis
from sgfi.spectral.partition import Partition

PRECISIONS = ("full", "half", "int8")
CHUNK_BYTES = 2 << 20
"""Planes unpacked at once, unless one is larger: enough for good products, little enough for a processor's cache."""
FEW = 48
"""Channels up to which maps are too small for bytes to be worth their noise."""
SHARE = 4
"""Of the directions of sources one in so many is remembered: about as many as a node's children have channels."""
FAINT = 1e-3
"""Sources are taken to have at least this share of their mean energy in every direction."""
TINY = torch.finfo(torch.float32).tiny
LARGEST = 127
HEADROOM = 1.05
"""Rounding pushes neighbours up; without room they would be cut off."""
BLOCK = 16
"""Columns rounded one by one before the others hear of it."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which real planes make up each of K matrices.

    Tensors are real: a bin and the bin of the opposite frequency hold conjugate gains, and one that is its own opposite
    a real one. Of singleton bins as many planes are independent as the node has coordinates, and only these are kept.
    """

    own: Tensor
    """(S,) the matrices that are kept."""
    kept: Tensor
    """(K,) place in ``own`` of the matrix, or of its conjugate."""
    real: Tensor
    """(K,) plane of the real part."""
    imaginary: Tensor
    """(K,) plane of the imaginary part; that of the real part where there is none."""
    sign: Tensor
    """(K,) of the imaginary part: 1, -1 for a conjugate, 0 where there is none."""

    @classmethod
    def of(cls, basis: Basis, partition: Partition, key: str) -> Layout:
        """For the weight ``key`` of a map. Factors of a gain are not determined by it and keep all their planes."""
        return cls._of(basis, partition.count, partition.kind == "singleton" and key == "gain")

    @classmethod
    @cache
    def _of(cls, basis: Basis, count: int, mirrored: bool) -> Layout:
        if basis.trivial:
            return cls.mirrored(list(range(count)))
        return cls.mirrored(opposites(basis) if mirrored else [-1] * count)

    @classmethod
    def mirrored(cls, opposite: list[int]) -> Layout:
        """From the conjugate of each matrix: itself, another one, or none (-1)."""
        own: list[int] = []
        rows: list[tuple[int, int, int, int]] = []  # kept, real, imaginary, sign
        planes = 0
        for place, other in enumerate(opposite):
            if 0 <= other < place:
                kept, real, imaginary, _ = rows[other]
                rows.append((kept, real, imaginary, -1))
                continue
            parts = 1 if other == place else 2
            rows.append((len(own), planes, planes + parts - 1, parts - 1))
            own.append(place)
            planes += parts
        return cls(torch.tensor(own), *torch.tensor(rows).T.contiguous())

    @property
    def planes(self) -> int:
        return int(self.imaginary.max()) + 1


def opposites(basis: Basis) -> list[int]:
    """The stored bin of the opposite frequency of each stored bin; -1 where only one of the two is stored."""
    shape = torch.tensor(basis.spectrum_shape)
    places = torch.cartesian_prod(*map(torch.arange, basis.spectrum_shape)).reshape(-1, len(shape))
    opposite = -places % torch.tensor(basis.coords)
    strides = torch.tensor([prod(basis.spectrum_shape[axis + 1 :]) for axis in range(len(shape))])
    return torch.where((opposite < shape).all(1), (opposite * strides).sum(1), -1).tolist()


@dataclass(frozen=True, eq=False)
class Packed:
    """Matrices ``(K, R, C)`` in planes of halves or bytes with a scale for each row; indexing unpacks a few of them."""

    values: Tensor
    """(P, R, C) float16 or int8."""
    scales: Tensor
    """(S, R) bfloat16."""
    layout: Layout
    dtype: torch.dtype
    """Of the matrices when unpacked."""

    def __post_init__(self) -> None:
        expected = (self.layout.planes, *self.values.shape[1:]), (len(self.layout.own), *self.values.shape[1:2])
        if (tuple(self.values.shape), tuple(self.scales.shape)) != expected:
            raise ValueError(f"planes {tuple(self.values.shape)} and scales {tuple(self.scales.shape)} of other maps")

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.layout.kept), self.values.shape[1], self.values.shape[2]

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes

    def to(self, device: torch.device, non_blocking: bool = False) -> Packed:
        move = (device, None, non_blocking)
        return replace(self, values=self.values.to(*move), scales=self.scales.to(*move))

    @property
    def real(self) -> torch.dtype:
        """Of the parts of the matrices when unpacked."""
        return self.dtype.to_real()

    def parts(self) -> Iterator[slice]:
        """A few matrices at a time."""
        count, rows, columns = self.shape
        step = max(1, CHUNK_BYTES // (rows * columns * self.real.itemsize))
        return (slice(start, min(start + step, count)) for start in range(0, count, step))

    def __getitem__(self, part: slice | int | Tensor) -> Tensor:
        if isinstance(part, int):
            return self[part : part + 1][0]
        scale, sign = self._factors(part)
        first = self.values[self.layout.real[part]] * scale
        if not self.dtype.is_complex:
            return first
        return torch.complex(first, self.values[self.layout.imaginary[part]] * (scale * sign))

    def times(self, columns: Tensor) -> Tensor:
        """Every matrix times its own columns: ``(K, C, B)`` -> ``(K, R, B)``.

        Real products of the planes as they are, a few at a time; signs and scales are put to the results, which are
        smaller. A plane is converted into the same small piece of memory each time, which stays in the cache.
        """
        rows = columns.mT  # (K, B, C), how spectra stand in memory
        sides = torch.cat([rows.real, rows.imag], 1) if rows.is_complex() else rows
        room = self.values.new_empty(next(self.parts()).stop, *self.shape[1:], dtype=self.real)
        found = [self._product(part, sides[part], room) for part in self.parts()]
        return (torch.cat(found) if len(found) > 1 else found[0]).mT

    def _product(self, part: slice, sides: Tensor, room: Tensor) -> Tensor:
        """Rows ``(k, 2 B, C)``, first their real parts, times the matrices of a part: ``(k, B, R)``."""
        scale, sign = self._factors(part)
        scale = scale.mT
        first = torch.bmm(sides, self._planes(self.layout.real[part], room).mT) * scale
        if not self.dtype.is_complex:
            return first
        own, other = first.chunk(2, 1)
        if not self.layout.sign[part].any():
            return torch.complex(own, other)
        second = torch.bmm(sides, self._planes(self.layout.imaginary[part], room).mT) * (scale * sign)
        crossed, straight = second.chunk(2, 1)
        return torch.complex(own - straight, other + crossed)

    def _planes(self, places: Tensor, room: Tensor) -> Tensor:
        return room[: len(places)].copy_(self.values.index_select(0, places.to(self.values.device)))

    def _factors(self, part: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Scales ``(k, R, 1)`` of the rows and signs ``(k, 1, 1)`` of the imaginary parts."""
        device = self.values.device
        scale = self.scales[self.layout.kept[part].to(device)].to(self.real).unsqueeze(-1)
        return scale, self.layout.sign[part].to(device, self.real).reshape(-1, 1, 1)


def pack(matrices: Tensor, layout: Layout, precision: str, strong: Tensor | None) -> Packed:
    """``(K, R, C)`` in halves, or in bytes rounded with regard to the ``strong`` directions of the matrices kept."""
    _, rows, columns = matrices.shape
    bytewise = precision == "int8"
    kind = torch.int8 if bytewise else torch.float16
    values = torch.empty(layout.planes, rows, columns, dtype=kind)
    scales = torch.empty(len(layout.own), rows, dtype=torch.bfloat16)
    packed = Packed(values, scales, layout, matrices.dtype)
    step = next(packed.parts()).stop
    for start in range(0, len(layout.own), step):
        part = slice(start, start + step)
        own = layout.own[part]
        found = matrices[own].cpu()
        planes = torch.view_as_real(found) if found.is_complex() else found.unsqueeze(-1)
        top = planes.abs().amax((-1, -2)).clamp(min=torch.finfo(torch.bfloat16).tiny)
        scales[part] = top * (HEADROOM / LARGEST) if bytewise else top
        found = found / scales[part].to(top.dtype).unsqueeze(-1)
        if bytewise:
            found = _nearest(found) if strong is None else _rounded(found, unpaired(strong[part]).to(found.dtype))
        values[layout.real[own]] = found.real.to(kind)
        if found.is_complex():
            paired = layout.sign[own] != 0
            values[layout.imaginary[own][paired]] = found.imag[paired].to(kind)
    return packed


def _rounded(matrices: Tensor, strong: Tensor) -> Tensor:
    """``(K, R, C)`` rounded to whole numbers so that little of the error is seen by sources.

    With sources of covariance ``L L*`` an error E costs ``|E L|^2``. Column by column from the last one, each is moved,
    before it is rounded, by what the errors made so far do to its term of that sum: noise ends up in directions that
    sources hardly have. ``strong`` is S of the covariance ``S* S + I`` (up to a factor). The channels where
    sources are faintest come last, when none is left to make up for an error.
    """
    count = matrices.shape[-1]
    order = strong.abs().square().sum(1).argsort(-1)  # (K, C)
    across = order.unsqueeze(1).expand_as(matrices)
    strong = strong.gather(2, order.unsqueeze(1).expand_as(strong))
    matrices = matrices.gather(2, across)
    identity = torch.eye(count, dtype=strong.dtype)
    factor = torch.linalg.cholesky(strong.mH @ strong + identity)
    factor = factor / torch.diagonal(factor, dim1=1, dim2=2).unsqueeze(1)  # unit diagonal
    errors = torch.zeros_like(matrices)
    for high in range(count, 0, -BLOCK):
        low = max(0, high - BLOCK)
        moved = matrices[:, :, low:high] + errors[:, :, high:] @ factor[:, high:, low:high]
        for place in range(high - 1, low - 1, -1):
            here = slice(place, place + 1)
            errors[:, :, here] = matrices[:, :, here] - _nearest(moved[:, :, place - low : place - low + 1])
            moved[:, :, : place - low] += errors[:, :, here] * factor[:, here, low:place]
    return torch.empty_like(matrices).scatter_(2, across, matrices - errors)


def _nearest(values: Tensor) -> Tensor:
    parts = torch.view_as_real(values) if values.is_complex() else values
    parts = parts.round().clamp(-LARGEST, LARGEST)
    return torch.view_as_complex(parts) if values.is_complex() else parts


def strongest(moments: Tensor) -> Tensor | None:
    """The directions in which a group's sources are strong, of their moments ``X X*`` ``(K, C, C)``.

    ``(K, k, C)`` in halves, complex ones ``(..., 2)``: S such that ``S* S + I`` is the sources' covariance up to a
    factor, what rounding must respect. ``None`` where there are too few channels. Found by a Cholesky factorisation
    that takes the largest pivot first and breaks off.
    """
    if moments.dim() != 3 or moments.shape[-1] <= FEW:
        return None
    groups, channels = moments.shape[:2]
    each = torch.arange(groups, device=moments.device)
    single = torch.complex64 if moments.is_complex() else torch.float32
    left = moments.diagonal(dim1=1, dim2=2).real.float()  # (K, C) energy that is not explained yet
    found = torch.zeros(groups, channels // SHARE, channels, dtype=single, device=moments.device)
    mean = left.mean(-1).clamp(min=TINY)
    faint = FAINT * mean
    for place in range(found.shape[1]):
        energy, pivot = left.max(-1)
        sofar = found[:, :place]
        explained = torch.bmm(sofar[each, :, pivot].conj().unsqueeze(1), sofar).squeeze(1)
        scaled = (moments[each, pivot].to(single) - explained) / torch.maximum(energy, faint).sqrt().unsqueeze(-1)
        found[:, place] = torch.where((energy > faint).unsqueeze(-1), scaled, 0)
        left = (left - found[:, place].abs().square()).clamp(min=0)
    return _kept(found, mean, left.mean(-1))


def strongest_axes(values: Tensor, vectors: Tensor) -> Tensor | None:
    """The same of the moments' principal axes: eigenvalues ``(K, r)``, rising, and eigenvectors ``(K, C, r)``."""
    channels = vectors.shape[1]
    if channels <= FEW:
        return None
    count = min(channels // SHARE, values.shape[1])
    weak, strong = values.split([values.shape[1] - count, count], 1)
    found = (vectors[..., -count:] * strong.sqrt().to(vectors.real.dtype).unsqueeze(1)).mH.flip(1).resolve_conj()
    return _kept(found, (values.sum(1) / channels).clamp(min=TINY), weak.sum(1) / channels)


def _kept(found: Tensor, mean: Tensor, left: Tensor) -> Tensor:
    """Directions relative to the mean energy that is left beside them, in halves."""
    found = found / torch.maximum(left, FAINT * mean).sqrt().reshape(-1, 1, 1).to(found.real.dtype)
    return (torch.view_as_real(found) if found.is_complex() else found).half().cpu()


def unpaired(strong: Tensor) -> Tensor:
    """Single precision again, and complex where there are pairs."""
    return torch.view_as_complex(strong.float()) if strong.dim() == 4 else strong.float()
