"""The stored rFFT: orthonormal, invertible for every axis order and size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Basis, Moments, Partition, operator_named
from sgfi.spectral import basis as bases

CASES = {
    "vector": Basis(1, (), (5,)),
    "pooled": Basis(1, (2, 3), (4, 1, 1)),
    "even line": Basis(1, (2,), (3, 6)),
    "odd line": Basis(1, (2,), (3, 7)),
    "tokens": Basis(2, (1,), (5, 3)),
    "many tokens": Basis(2, (1,), (bases.LINE + 1, 2)),
    "even map": Basis(1, (2, 3), (3, 4, 6)),
    "odd map": Basis(1, (2, 3), (3, 5, 7)),
    "mixed map": Basis(1, (2, 3), (2, 4, 5)),
    "channels last": Basis(3, (1, 2), (4, 6, 3)),
    "channels in the middle": Basis(2, (1, 3), (4, 3, 5)),
    "one of two coordinates is single": Basis(1, (2, 3), (3, 1, 6)),
    "last coordinate is single": Basis(1, (2, 3), (3, 6, 1)),
    "volume": Basis(1, (2, 3, 4), (2, 3, 4, 5)),
}


def sample(basis: Basis, batch: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, *basis.shape, dtype=dtype)


def multiplicity(basis: Basis) -> Tensor:
    """(F,) how often a stored bin occurs in the full spectrum: 2, or 1 where the last axis mirrors itself."""
    if basis.trivial:
        return torch.ones(1, dtype=torch.float64)
    size = basis.coords[-1]
    last = torch.full((size // 2 + 1,), 2.0, dtype=torch.float64)
    last[0] = 1
    if size % 2 == 0:
        last[-1] = 1
    return last.expand(basis.spectrum_shape).reshape(-1)


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(case: str) -> None:
    basis, x = CASES[case], sample(CASES[case])
    spectrum = basis.analyse(x)
    assert spectrum.shape == (basis.bins, basis.channels, 2)
    back = basis.synthesise(spectrum)
    torch.testing.assert_close(back, x, rtol=1e-12, atol=1e-12)
    assert back.is_contiguous()


@pytest.mark.parametrize("case", CASES)
def test_energy_is_kept(case: str) -> None:
    """Parseval: mirrored bins are stored once and count twice; every stored bin by itself is orthonormal."""
    basis, x = CASES[case], sample(CASES[case])
    power = basis.analyse(x).abs().square().sum((1, 2))
    torch.testing.assert_close((multiplicity(basis) * power).sum(), x.square().sum())


@pytest.mark.parametrize("case", ["even map", "channels last", "volume", "tokens", "many tokens", "odd line"])
def test_bins_are_those_of_rfftn_in_tensor_order(case: str) -> None:
    basis, x = CASES[case], sample(CASES[case])
    direct = torch.fft.rfftn(x, dim=basis.coord_axes, norm="ortho")
    expected = direct.movedim(basis.channel_axis, 1).flatten(2)  # (B, C, F)
    torch.testing.assert_close(basis.analyse(x), expected.permute(2, 1, 0))


@pytest.mark.parametrize("case", ["vector", "pooled"])
def test_without_coordinates_nothing_is_transformed(case: str) -> None:
    basis, x = CASES[case], sample(CASES[case])
    spectrum = basis.analyse(x)
    assert not spectrum.is_complex() and basis.bins == 1
    assert torch.equal(spectrum[0].T, x.flatten(1))


def test_dtypes() -> None:
    for basis, real in ((CASES["even map"], False), (CASES["vector"], True)):
        for dtype, spectral in ((torch.float32, torch.complex64), (torch.float64, torch.complex128)):
            expected = dtype if real else spectral
            assert basis.dtype(dtype) == expected == basis.analyse(sample(basis, dtype=dtype)).dtype
            assert basis.synthesise(basis.analyse(sample(basis, dtype=dtype))).dtype == dtype


def test_a_tensor_in_any_memory_format() -> None:
    basis, x = CASES["even map"], sample(CASES["even map"])
    strided = x.to(memory_format=torch.channels_last)
    assert not strided.is_contiguous()
    torch.testing.assert_close(basis.analyse(strided), basis.analyse(x))


@pytest.mark.parametrize("case", CASES)
def test_the_channels_of_a_sample_stand_together(case: str) -> None:
    assert CASES[case].analyse(sample(CASES[case])).mT.is_contiguous()


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("basis", CASES.values(), ids=CASES)
def test_maps_of_blocks_keep_real_tensors_real(basis: Basis, width: int) -> None:
    partition = Partition.of(f"blocks{width}", basis.bins, blocks=basis.blocks)
    x, y = basis.analyse(sample(basis, 9)), basis.analyse(sample(basis, 9))
    moments = Moments.empty(partition, basis.channels, x.dtype)
    moments.update(x, y)
    operator = operator_named("full")
    mapped = operator.apply(operator.solve(moments, 0.1).weights, x, partition)
    torch.testing.assert_close(basis.analyse(basis.synthesise(mapped)), mapped)
