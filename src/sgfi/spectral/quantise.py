"""Weights in half precision or int8: everything that knows how they are packed.

Matrices become real planes of float16 or int8 with a scale per row, and conjugate ones are kept once. int8 is rounded
with GPTQ-style error feedback, which needs the covariance of what the map reads; a fit therefore hands a truncated
factor of it on, under :data:`SOURCES` beside its weights (:func:`with_factor`). Operators multiply by :func:`product`
and :func:`chunks`, and files hold :func:`as_tensors`: whether weights are packed makes no difference to either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import prod

import torch
from torch import Tensor

from sgfi.spectral.basis import Basis
from sgfi.spectral.partition import Partition

PRECISIONS = ("full", "half", "int8")
SOURCES = "sources"
"""Among a map's weights: the factor of its sources' covariance. Not a weight itself."""
VALUES, SCALES = ".values", ".scales"
"""Endings of the tensors of a packed weight."""
CHUNK_BYTES = 2 << 20
"""Planes unpacked at once, unless one is larger: enough for good products, little enough for a processor's cache."""
NARROW = 48
"""Channels up to which maps are too small for int8 to be worth its noise."""
RANK_SHARE = 4
"""The factor's rank is the channels over this: about as many as a node's children have channels."""
FAINT = 1e-3
"""Sources are taken to have at least this share of their mean energy in every direction."""
TINY = torch.finfo(torch.float32).tiny
LARGEST = 127
HEADROOM = 1.05
"""Error feedback pushes neighbours up; without headroom they would be clipped."""
BLOCK = 16
"""Columns rounded one by one before their errors are fed back to the others."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which real planes make up each of K matrices.

    Tensors are real: a bin and the bin of the opposite frequency hold conjugate gains, and one that is its own opposite
    a real one. Of singleton bins as many planes are independent as the node has coordinates, and only these are kept.
    """

    own: Tensor
    """(S,) the matrices that are kept."""
    kept: Tensor
    """(K,) position in ``own`` of the matrix, or of its conjugate."""
    real: Tensor
    """(K,) plane of the real part."""
    imaginary: Tensor
    """(K,) plane of the imaginary part; that of the real part where there is none."""
    sign: Tensor
    """(K,) of the imaginary part: 1, -1 for a conjugate, 0 where there is none."""

    @classmethod
    def of(cls, basis: Basis, partition: Partition, conjugate: bool = True) -> Layout:
        """``conjugate``: whether opposite frequencies hold conjugate matrices."""
        return cls._of(basis, partition.count, conjugate and partition.kind == "singleton")

    @classmethod
    @cache
    def _of(cls, basis: Basis, count: int, conjugate: bool) -> Layout:
        if basis.trivial:
            return cls.mirrored(list(range(count)))
        return cls.mirrored(opposites(basis) if conjugate else [-1] * count)

    @classmethod
    def mirrored(cls, opposite: list[int]) -> Layout:
        """From the conjugate of each matrix: itself, another one, or none (-1)."""
        own: list[int] = []
        rows: list[tuple[int, int, int, int]] = []  # kept, real, imaginary, sign
        planes = 0
        for index, other in enumerate(opposite):
            if 0 <= other < index:
                kept, real, imaginary, _ = rows[other]
                rows.append((kept, real, imaginary, -1))
                continue
            parts = 1 if other == index else 2
            rows.append((len(own), planes, planes + parts - 1, parts - 1))
            own.append(index)
            planes += parts
        return cls(torch.tensor(own), *torch.tensor(rows).T.contiguous())

    @property
    def planes(self) -> int:
        return int(self.imaginary.max()) + 1


def opposites(basis: Basis) -> list[int]:
    """The stored bin of the opposite frequency of each stored bin; -1 where only one of the two is stored."""
    shape = torch.tensor(basis.spectrum_shape)
    bins = torch.cartesian_prod(*map(torch.arange, basis.spectrum_shape)).reshape(-1, len(shape))
    opposite = -bins % torch.tensor(basis.coords)
    strides = torch.tensor([prod(basis.spectrum_shape[axis + 1 :]) for axis in range(len(shape))])
    return torch.where((opposite < shape).all(1), (opposite * strides).sum(1), -1).tolist()


@dataclass(frozen=True, eq=False)
class Packed:
    """Matrices ``(K, R, C)`` as planes of float16 or int8 with a scale for each row; indexing unpacks some of them."""

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

    def __getitem__(self, part: slice) -> Tensor:
        scale, sign = self._factors(part)
        real = self.values[self.layout.real[part]] * scale
        if not self.dtype.is_complex:
            return real
        return torch.complex(real, self.values[self.layout.imaginary[part]] * (scale * sign))

    def times(self, columns: Tensor) -> Tensor:
        """Every matrix times its own columns: ``(K, C, B)`` -> ``(K, R, B)``.

        Real products of the planes as they are, a few at a time; signs and scales are applied to the results, which are
        smaller. A plane is converted into the same small buffer each time, which stays in the cache.
        """
        rows = columns.mT  # (K, B, C), how spectra stand in memory
        sides = torch.cat([rows.real, rows.imag], 1) if rows.is_complex() else rows
        buffer = self.values.new_empty(next(self.parts()).stop, *self.shape[1:], dtype=self.real)
        products = [self._product(part, sides[part], buffer) for part in self.parts()]
        return (torch.cat(products) if len(products) > 1 else products[0]).mT

    def _product(self, part: slice, sides: Tensor, buffer: Tensor) -> Tensor:
        """Rows ``(k, 2 B, C)``, first their real parts, times the matrices of a part: ``(k, B, R)``."""
        scale, sign = self._factors(part)
        scale = scale.mT
        first = torch.bmm(sides, self._planes(self.layout.real[part], buffer).mT) * scale
        if not self.dtype.is_complex:
            return first
        real, imaginary = first.chunk(2, 1)
        if not self.layout.sign[part].any():
            return torch.complex(real, imaginary)
        second = torch.bmm(sides, self._planes(self.layout.imaginary[part], buffer).mT) * (scale * sign)
        crossed, straight = second.chunk(2, 1)
        return torch.complex(real - straight, imaginary + crossed)

    def _planes(self, indices: Tensor, buffer: Tensor) -> Tensor:
        return buffer[: len(indices)].copy_(self.values.index_select(0, indices.to(self.values.device)))

    def _factors(self, part: slice) -> tuple[Tensor, Tensor]:
        """Scales ``(k, R, 1)`` of the rows and signs ``(k, 1, 1)`` of the imaginary parts."""
        device = self.values.device
        scale = self.scales[self.layout.kept[part].to(device)].to(self.real).unsqueeze(-1)
        return scale, self.layout.sign[part].to(device, self.real).reshape(-1, 1, 1)


Weight = Tensor | Packed
Weights = Mapping[str, Weight]


def product(matrices: Weight, columns: Tensor) -> Tensor:
    """Every matrix times its own columns: ``(K, R, C)``, ``(K, C, B)`` -> ``(K, R, B)``."""
    return matrices.times(columns) if isinstance(matrices, Packed) else torch.bmm(columns.mT, matrices.mT).mT


def chunks(matrices: Weight) -> Iterator[tuple[range, Tensor]]:
    """The matrices in full: all at once, or packed ones a few at a time."""
    parts = matrices.parts() if isinstance(matrices, Packed) else (slice(0, len(matrices)),)
    return ((range(part.start, part.stop), matrices[part]) for part in parts)


def unpacked(weights: Weights) -> dict[str, Tensor]:
    """The weights alone, in full."""
    return {key: weight[:] for key, weight in weights.items() if key != SOURCES}


def packable(weights: Weights, precision: str) -> bool:
    """Wide matrices need the factor of their sources for int8; maps of early versions do not have it."""
    gain = weights.get("gain")
    wide = isinstance(gain, Tensor) and gain.dim() == 3 and gain.shape[-1] > NARROW
    return precision != "int8" or SOURCES in weights or not wide


def packed(weights: Weights, layout: Layout, precision: str) -> Weights:
    """All matrices packed; in half precision where int8 is asked for and there is no factor to round with."""
    if precision == "full":
        return weights
    sources = as_tensors(weights, layout).get(SOURCES)
    precision = "half" if sources is None else precision
    return {
        key: pack(weight, layout, precision, sources) if isinstance(weight, Tensor) and weight.dim() == 3 else weight
        for key, weight in weights.items()
        if key != SOURCES
    }


def as_tensors(weights: Weights, layout: Layout) -> dict[str, Tensor]:
    """What a file has to hold. Factors of opposite frequencies are conjugate like their matrices, and kept once too."""
    tensors: dict[str, Tensor] = {}
    for key, weight in weights.items():
        if isinstance(weight, Packed):
            tensors |= {key + VALUES: weight.values, key + SCALES: weight.scales}
        else:
            twice = key == SOURCES and len(weight) > len(layout.own)
            tensors[key] = weight[layout.own] if twice else weight
    return tensors


def from_tensors(tensors: Mapping[str, Tensor], layout: Layout, dtype: torch.dtype) -> dict[str, Weight]:
    """The weights that :func:`as_tensors` gave, of this ``dtype`` when unpacked."""
    weights: dict[str, Weight] = {}
    for key, tensor in tensors.items():
        name = key.removesuffix(VALUES).removesuffix(SCALES)
        weights[name] = tensor if name == key else Packed(tensors[name + VALUES], tensors[name + SCALES], layout, dtype)
    return weights


def check(weights: Weights, shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype) -> None:
    """Weights of these names, shapes and this ``dtype`` (packed ones when unpacked); a factor of sources may be by."""
    names = weights.keys() - {SOURCES}
    if names != shapes.keys():
        raise ValueError(f"weights {sorted(names)[:10]} in place of {sorted(shapes)}")
    for name, shape in shapes.items():
        weight = weights[name]
        right = weight.dtype == dtype
        if isinstance(weight, Packed):
            right = weight.values.dtype in (torch.float16, torch.int8) and weight.scales.dtype == torch.bfloat16
        if tuple(weight.shape) != shape or not right:
            raise ValueError(f"{name} is {weight.dtype} of shape {tuple(weight.shape)} in place of {dtype} {shape}")
    if SOURCES in weights:
        factor, wide = weights[SOURCES], next(iter(shapes.values()))
        pairs = (2,) if dtype.is_complex else ()
        fits = isinstance(factor, Tensor) and factor.dtype == torch.float16 and factor.dim() == 3 + len(pairs)
        if not fits or tuple(factor.shape[2:]) != (wide[-1], *pairs) or factor.shape[0] > wide[0]:
            raise ValueError(f"{SOURCES} is {tuple(factor.shape)} beside weights {wide}")


def pack(matrices: Tensor, layout: Layout, precision: str, sources: Tensor | None) -> Packed:
    """``(K, R, C)`` in half precision, or int8 rounded with the ``sources`` factors of the matrices that are kept."""
    _, rows, columns = matrices.shape
    integer = precision == "int8"
    dtype = torch.int8 if integer else torch.float16
    values = torch.empty(layout.planes, rows, columns, dtype=dtype)
    scales = torch.empty(len(layout.own), rows, dtype=torch.bfloat16)
    result = Packed(values, scales, layout, matrices.dtype)
    step = next(result.parts()).stop
    for start in range(0, len(layout.own), step):
        part = slice(start, start + step)
        own = layout.own[part]
        chunk = matrices[own].cpu()
        planes = torch.view_as_real(chunk) if chunk.is_complex() else chunk.unsqueeze(-1)
        top = planes.abs().amax((-1, -2)).clamp(min=torch.finfo(torch.bfloat16).tiny)
        scales[part] = top * (HEADROOM / LARGEST) if integer else top
        chunk = chunk / scales[part].to(top.dtype).unsqueeze(-1)
        if integer:
            chunk = _round(chunk) if sources is None else _error_feedback(chunk, decoded(sources[part]).to(chunk.dtype))
        values[layout.real[own]] = chunk.real.to(dtype)
        if chunk.is_complex():
            paired = layout.sign[own] != 0
            values[layout.imaginary[own][paired]] = chunk.imag[paired].to(dtype)
    return result


def _error_feedback(matrices: Tensor, sources: Tensor) -> Tensor:
    """``(K, R, C)`` rounded to whole numbers with GPTQ-style error feedback, so that sources see little of the error.

    With sources of covariance ``L L*`` an error E costs ``|E L|^2``. Column by column from the last one, each is moved,
    before it is rounded, by what the errors made so far do to its term of that sum: noise ends up in directions that
    sources hardly have. ``sources`` is S of the covariance ``S* S + I`` (up to a factor). The channels where
    sources are faintest come last, when none is left to compensate for an error.
    """
    count = matrices.shape[-1]
    order = sources.abs().square().sum(1).argsort(-1)  # (K, C)
    across = order.unsqueeze(1).expand_as(matrices)
    sources = sources.gather(2, order.unsqueeze(1).expand_as(sources))
    matrices = matrices.gather(2, across)
    identity = torch.eye(count, dtype=sources.dtype)
    factor = torch.linalg.cholesky(sources.mH @ sources + identity)
    factor = factor / torch.diagonal(factor, dim1=1, dim2=2).unsqueeze(1)  # unit diagonal
    errors = torch.zeros_like(matrices)
    for high in range(count, 0, -BLOCK):
        low = max(0, high - BLOCK)
        moved = matrices[:, :, low:high] + errors[:, :, high:] @ factor[:, high:, low:high]
        for column in range(high - 1, low - 1, -1):
            here = slice(column, column + 1)
            errors[:, :, here] = matrices[:, :, here] - _round(moved[:, :, column - low : column - low + 1])
            moved[:, :, : column - low] += errors[:, :, here] * factor[:, here, low:column]
    return torch.empty_like(matrices).scatter_(2, across, matrices - errors)


def _round(values: Tensor) -> Tensor:
    parts = torch.view_as_real(values) if values.is_complex() else values
    parts = parts.round().clamp(-LARGEST, LARGEST)
    return torch.view_as_complex(parts) if values.is_complex() else parts


def with_factor(gain: Tensor, factor: Tensor | None) -> dict[str, Tensor]:
    """Fitted weights with the factor of their sources' covariance, where there is one."""
    return {"gain": gain} if factor is None else {"gain": gain, SOURCES: factor}


def covariance_factor(moments: Tensor) -> Tensor | None:
    """A truncated pivoted Cholesky factor of a group's source moments ``X X*`` ``(K, C, C)``.

    ``(K, k, C)`` in half precision, complex ones ``(..., 2)``: S such that ``S* S + I`` is the sources' covariance up
    to a factor. ``None`` where there are too few channels for int8.
    """
    if moments.dim() != 3 or moments.shape[-1] <= NARROW:
        return None
    groups, channels = moments.shape[:2]
    each = torch.arange(groups, device=moments.device)
    single = torch.complex64 if moments.is_complex() else torch.float32
    left = moments.diagonal(dim1=1, dim2=2).real.float()  # (K, C) energy that is not explained yet
    factor = torch.zeros(groups, channels // RANK_SHARE, channels, dtype=single, device=moments.device)
    mean = left.mean(-1).clamp(min=TINY)
    faint = FAINT * mean
    for row in range(factor.shape[1]):
        energy, pivot = left.max(-1)
        above = factor[:, :row]
        explained = torch.bmm(above[each, :, pivot].conj().unsqueeze(1), above).squeeze(1)
        scaled = (moments[each, pivot].to(single) - explained) / torch.maximum(energy, faint).sqrt().unsqueeze(-1)
        factor[:, row] = torch.where((energy > faint).unsqueeze(-1), scaled, 0)
        left = (left - factor[:, row].abs().square()).clamp(min=0)
    return _encoded(factor, mean, left.mean(-1))


def covariance_factor_of_axes(values: Tensor, vectors: Tensor) -> Tensor | None:
    """The same from the moments' principal axes: eigenvalues ``(K, r)``, rising, and eigenvectors ``(K, C, r)``."""
    channels = vectors.shape[1]
    if channels <= NARROW:
        return None
    count = min(channels // RANK_SHARE, values.shape[1])
    weak, strong = values.split([values.shape[1] - count, count], 1)
    factor = (vectors[..., -count:] * strong.sqrt().to(vectors.real.dtype).unsqueeze(1)).mH.flip(1).resolve_conj()
    return _encoded(factor, (values.sum(1) / channels).clamp(min=TINY), weak.sum(1) / channels)


def _encoded(factor: Tensor, mean: Tensor, left: Tensor) -> Tensor:
    """The factor relative to the mean energy that it leaves unexplained, in half precision."""
    factor = factor / torch.maximum(left, FAINT * mean).sqrt().reshape(-1, 1, 1).to(factor.real.dtype)
    return (torch.view_as_real(factor) if factor.is_complex() else factor).half().cpu()


def decoded(factor: Tensor) -> Tensor:
    """Single precision again, and complex where there are pairs."""
    return torch.view_as_complex(factor.float()) if factor.dim() == 4 else factor.float()
