"""Packed matrices: nothing kept twice, little lost, and least of it in the directions of the sources."""

from __future__ import annotations

from math import prod

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Basis, Moments, MomentShape, Operator, Partition, WienerMap, operator_named, quantise
from sgfi.spectral.quantise import (
    SOURCES,
    Layout,
    Packed,
    covariance_factor,
    covariance_factor_of_axes,
    decoded,
    opposites,
    pack,
)

COORDS = [(6,), (7,), (4, 6), (5, 4), (3, 5), (2, 2), (1, 4), (4, 2, 6), (3, 2, 5)]


def basis(coords: tuple[int, ...], channels: int = 3) -> Basis:
    return Basis(1, tuple(range(2, 2 + len(coords))), (channels, *coords))


def singleton(grid: Basis) -> Partition:
    return Partition.of("singleton", grid.bins)


@pytest.mark.parametrize("coords", COORDS)
def test_opposite_bins_of_real_tensors_are_conjugate(coords: tuple[int, ...]) -> None:
    grid = basis(coords)
    spectrum = grid.analyse(torch.randn(2, 3, *coords, dtype=torch.float64))
    for index, other in enumerate(opposites(grid)):
        if other >= 0:
            torch.testing.assert_close(spectrum[index], spectrum[other].conj().resolve_conj())


@pytest.mark.parametrize("coords", COORDS)
def test_as_many_planes_as_coordinates(coords: tuple[int, ...]) -> None:
    grid = basis(coords)
    assert Layout.of(grid, singleton(grid)).planes == prod(coords)
    assert Layout.of(grid, singleton(grid), conjugate=False).planes == 2 * grid.bins
    assert Layout.of(grid, Partition.of("shared", grid.bins)).planes == 2


def hermitian(grid: Basis, rows: int, columns: int) -> Tensor:
    """Gains as a fit gives them: conjugate at opposite bins, real where a bin is its own opposite."""
    gains = torch.randn(grid.bins, rows, columns, dtype=torch.complex128)
    for index, other in enumerate(opposites(grid)):
        if other >= 0:
            gains[index] = gains[other].conj() if other < index else gains[index]
            gains[index] = gains[index].real + 0j if other == index else gains[index]
    return gains


@pytest.mark.parametrize("coords", COORDS)
def test_halves_hold_eleven_bits_of_every_bin(coords: tuple[int, ...]) -> None:
    grid = basis(coords)
    gains = hermitian(grid, 4, 5) * torch.logspace(-12, 12, 4, dtype=torch.float64).reshape(-1, 1)  # beyond a half
    small = pack(gains, Layout.of(grid, singleton(grid)), "half", None)
    row = gains.abs().amax(-1, keepdim=True)
    assert ((small[:] - gains).abs() <= 2**-10 * row).all()
    assert small.shape == gains.shape and small[:].dtype == gains.dtype
    assert torch.equal(small[1:2], small[:][1:2])


@pytest.mark.parametrize("kind", ["singleton", "shared", "custom"])
def test_a_packed_map_acts_as_its_matrices_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantise, "CHUNK_BYTES", 2 * 3 * 3 * 16)  # two matrices at a time
    grid = basis((4, 5))
    choice = {"custom": torch.arange(grid.bins) % 4}.get(kind, kind)
    partition = Partition.of(choice, grid.bins)
    gains = hermitian(grid, 3, 3) if kind == "singleton" else torch.randn(partition.count, 3, 3, dtype=torch.complex128)
    whole = WienerMap(grid, partition, Operator(), {"gain": gains})
    small = whole.packed("half")
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    gain = small.weights["gain"]
    assert isinstance(gain, Packed)
    opened = WienerMap(grid, partition, Operator(), {"gain": gain[:]})
    torch.testing.assert_close(small(x), opened(x))
    torch.testing.assert_close(small(x), whole(x), rtol=0, atol=5e-3)
    assert not small(torch.zeros_like(x)).any()
    assert small.bytes < whole.bytes / 3
    assert small.packed("half").weights["gain"] is gain


def sources(channels: int, count: int = 3) -> tuple[Tensor, Moments]:
    """Sources with a few strong directions, as backpropagated signals have them, and their moments."""
    strong = torch.randn(count, channels, 6, dtype=torch.complex64) * 30
    x = strong @ torch.randn(count, 6, 300, dtype=torch.complex64)
    x = x + torch.randn(count, channels, 300, dtype=torch.complex64)
    moments = Moments.empty(Partition.of("singleton", count), channels, torch.complex64)
    moments.update(x, x)
    return x, moments


def test_error_feedback_keeps_rounding_noise_out_of_the_sources() -> None:
    channels = 64
    x, moments = sources(channels)
    layout = Layout.mirrored([-1] * 3)
    gains = torch.randn(3, channels, channels, dtype=torch.complex64)
    small = pack(gains, layout, "int8", covariance_factor(moments.xx))
    assert small.values.dtype == torch.int8
    plain = pack(gains, layout, "int8", None)
    lost, lost_plainly = (((matrices[:] - gains) @ x).norm() / (gains @ x).norm() for matrices in (small, plain))
    assert lost < lost_plainly / 3
    assert (plain[:] - gains).norm() / gains.norm() < 0.02


def test_strong_directions_are_the_covariance_of_the_sources() -> None:
    _, moments = sources(64)
    strong = covariance_factor(moments.xx)
    assert strong is not None and strong.dtype == torch.float16 and strong.shape == (3, 16, 64, 2)
    spanned = decoded(strong)
    for group in range(3):
        ours, theirs = spanned[group].mH @ spanned[group] + torch.eye(64), moments.xx[group]
        torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=1e-3)


def test_axes_and_moments_tell_the_same_covariance() -> None:
    _, moments = sources(64)
    values, vectors = torch.linalg.eigh(moments.xx)
    ours, theirs = covariance_factor_of_axes(values, vectors), covariance_factor(moments.xx)
    assert ours is not None and theirs is not None and ours.shape == theirs.shape
    for pair in zip(decoded(ours), decoded(theirs), strict=True):
        from_axes, from_moments = (part.mH @ part + torch.eye(64) for part in pair)
        torch.testing.assert_close(from_axes / from_axes.norm(), from_moments / from_moments.norm(), rtol=0, atol=2e-3)
    assert covariance_factor_of_axes(values[:, :48], vectors[:, :48, :48]) is None


def test_axes_of_fewer_samples_than_directions_are_all_kept() -> None:
    x = torch.randn(2, 64, 5, dtype=torch.complex64)
    values, vectors = torch.linalg.eigh(x.mH @ x)
    strong = covariance_factor_of_axes(values, x @ vectors / values.sqrt().unsqueeze(1))
    assert strong is not None and strong.shape == (2, 5, 64, 2)
    spanned = decoded(strong)
    ours, theirs = spanned.mH @ spanned, x @ x.mH
    torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=1e-3)


def test_directions_of_fewer_dimensions_than_are_asked_for() -> None:
    x = torch.randn(2, 64, 3, dtype=torch.complex64) @ torch.randn(2, 3, 40, dtype=torch.complex64)
    moments = Moments.empty(Partition.of("singleton", 2), 64, torch.complex64)
    moments.update(x, x)
    strong = covariance_factor(moments.xx)
    assert strong is not None and torch.isfinite(strong).all()
    assert strong[:, :3].any() and not strong[:, 3:].any()


def test_no_directions_where_there_is_nothing_to_gain() -> None:
    partition = Partition.of("singleton", 2)
    assert covariance_factor(Moments.empty(partition, MomentShape(64, full=False), torch.complex64).xx) is None
    assert covariance_factor(Moments.empty(partition, 48, torch.complex64).xx) is None
    silent = covariance_factor(Moments.empty(partition, 64, torch.complex64).xx)
    assert silent is not None and not silent.any()


def test_a_row_of_zeros_stays_zero() -> None:
    gains = torch.zeros(1, 20, 20)
    gains[0, 1] = 1
    layout = Layout.mirrored([0])
    for precision, strong in (("half", None), ("int8", None), ("int8", torch.zeros(1, 2, 20))):
        small = pack(gains, layout, precision, strong)
        assert not small[:][0, 0].any() and torch.allclose(small[:][0, 1], torch.ones(20), atol=0.05)


def test_planes_of_another_node_are_refused() -> None:
    with pytest.raises(ValueError, match="other maps"):
        Packed(torch.zeros(3, 2, 2), torch.zeros(2, 2), Layout.mirrored([-1, 0]), torch.complex64)


def test_a_map_is_its_tensors() -> None:
    """In full and packed; the factor of the sources comes along, those of opposite bins once, and is no weight."""
    grid, channels = basis((4, 5), 52), 52
    x = grid.analyse(torch.randn(60, channels, 4, 5))
    moments = Moments.empty(singleton(grid), channels, x.dtype)
    moments.update(x, x)
    for name in ("full", "diagonal+rank3"):
        operator = operator_named(name)
        wiener = WienerMap(grid, singleton(grid), operator, operator.solve(moments, 0.01).weights)
        rows = torch.randn(2, channels, 4, 5)
        for precision in ("full", "half", "int8"):
            packed = wiener.packed(precision)
            tensors = packed.tensors()
            restored = WienerMap.from_tensors(grid, singleton(grid), operator, tensors, torch.float32)
            assert torch.equal(restored(rows), packed(rows)) and restored.bytes == packed.bytes
            assert restored.tensors().keys() == tensors.keys()
            assert restored.unpacked.keys() == wiener.unpacked.keys() and SOURCES not in wiener.unpacked
            assert (SOURCES in tensors) == (precision == "full" == name)
    assert len(wiener.unpacked["left"]) == grid.bins == 12


def test_int8_of_a_loaded_map_is_that_of_the_fitted_one() -> None:
    grid, channels = basis((4, 5), 52), 52
    gains = hermitian(grid, channels, channels).to(torch.complex64)
    factor = covariance_factor(gains @ gains.mH)
    assert factor is not None
    fitted = WienerMap(grid, singleton(grid), Operator(), {"gain": gains, SOURCES: factor})
    tensors = fitted.tensors()
    assert len(tensors[SOURCES]) == len(Layout.of(grid, singleton(grid)).own) < grid.bins == len(factor)
    loaded = WienerMap.from_tensors(grid, singleton(grid), Operator(), tensors, torch.float32)
    assert fitted.packable("int8") and loaded.packable("int8")
    both = (wiener.packed("int8").tensors() for wiener in (fitted, loaded))
    (ours, theirs), expected = both, {"gain.values", "gain.scales"}
    assert ours.keys() == theirs.keys() == expected and all(torch.equal(ours[key], theirs[key]) for key in expected)
    assert ours["gain.values"].dtype == torch.int8
    unknown = WienerMap(grid, singleton(grid), Operator(), {"gain": gains})
    assert not unknown.packable("int8") and unknown.packable("half") and unknown.packable("full")
