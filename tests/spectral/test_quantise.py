"""Packed matrices: nothing kept twice, little lost, and least of it where sources look."""

from __future__ import annotations

from math import prod

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Basis, Layout, Moments, MomentShape, Operator, Packed, Partition, WienerMap, strongest
from sgfi.spectral import quantise as packing
from sgfi.spectral.quantise import opposites, pack, strongest_axes, unpaired

COORDS = [(6,), (7,), (4, 6), (5, 4), (3, 5), (2, 2), (1, 4), (4, 2, 6), (3, 2, 5)]


def basis(coords: tuple[int, ...], channels: int = 3) -> Basis:
    return Basis(1, tuple(range(2, 2 + len(coords))), (channels, *coords))


def singleton(found: Basis) -> Partition:
    return Partition.of("singleton", found.bins)


@pytest.mark.parametrize("coords", COORDS)
def test_opposite_bins_of_real_tensors_are_conjugate(coords: tuple[int, ...]) -> None:
    found = basis(coords)
    spectrum = found.analyse(torch.randn(2, 3, *coords, dtype=torch.float64))
    for place, other in enumerate(opposites(found)):
        if other >= 0:
            torch.testing.assert_close(spectrum[place], spectrum[other].conj().resolve_conj())


@pytest.mark.parametrize("coords", COORDS)
def test_as_many_planes_as_coordinates(coords: tuple[int, ...]) -> None:
    found = basis(coords)
    assert Layout.of(found, singleton(found), "gain").planes == prod(coords)
    assert Layout.of(found, singleton(found), "left").planes == 2 * found.bins
    assert Layout.of(found, Partition.of("shared", found.bins), "gain").planes == 2


def hermitian(found: Basis, rows: int, columns: int) -> Tensor:
    """Gains as a fit gives them: conjugate at opposite bins, real where a bin is its own opposite."""
    gains = torch.randn(found.bins, rows, columns, dtype=torch.complex128)
    for place, other in enumerate(opposites(found)):
        if other >= 0:
            gains[place] = gains[other].conj() if other < place else gains[place]
            gains[place] = gains[place].real + 0j if other == place else gains[place]
    return gains


@pytest.mark.parametrize("coords", COORDS)
def test_halves_hold_eleven_bits_of_every_bin(coords: tuple[int, ...]) -> None:
    found = basis(coords)
    gains = hermitian(found, 4, 5) * torch.logspace(-12, 12, 4, dtype=torch.float64).reshape(-1, 1)  # beyond a half
    small = pack(gains, Layout.of(found, singleton(found), "gain"), "half", None)
    row = gains.abs().amax(-1, keepdim=True)
    assert ((small[:] - gains).abs() <= 2**-10 * row).all()
    assert small.shape == gains.shape and small[:].dtype == gains.dtype
    assert torch.equal(small[1:2], small[:][1:2]) and torch.equal(small[0], small[:][0])


@pytest.mark.parametrize("kind", ["singleton", "shared", "custom"])
def test_a_packed_map_acts_as_its_matrices_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "CHUNK_BYTES", 2 * 3 * 3 * 16)  # two matrices at a time
    found = basis((4, 5))
    choice = {"custom": torch.arange(found.bins) % 4}.get(kind, kind)
    partition = Partition.of(choice, found.bins)
    gains = (
        hermitian(found, 3, 3) if kind == "singleton" else torch.randn(partition.count, 3, 3, dtype=torch.complex128)
    )
    whole = WienerMap(found, partition, Operator(), {"gain": gains})
    small = whole.packed("half")
    x = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    gain = small.weights["gain"]
    assert isinstance(gain, Packed)
    opened = WienerMap(found, partition, Operator(), {"gain": gain[:]})
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


def test_rounding_keeps_its_noise_out_of_the_sources() -> None:
    channels = 64
    x, moments = sources(channels)
    layout = Layout.mirrored([-1] * 3)
    gains = torch.randn(3, channels, channels, dtype=torch.complex64)
    small = pack(gains, layout, "int8", strongest(moments.xx))
    assert small.values.dtype == torch.int8
    plain = pack(gains, layout, "int8", None)
    lost, lost_plainly = (((one[:] - gains) @ x).norm() / (gains @ x).norm() for one in (small, plain))
    assert lost < lost_plainly / 3
    assert (plain[:] - gains).norm() / gains.norm() < 0.02


def test_strong_directions_are_the_covariance_of_the_sources() -> None:
    _, moments = sources(64)
    strong = strongest(moments.xx)
    assert strong is not None and strong.dtype == torch.float16 and strong.shape == (3, 16, 64, 2)
    spanned = unpaired(strong)
    for group in range(3):
        ours, theirs = spanned[group].mH @ spanned[group] + torch.eye(64), moments.xx[group]
        torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=1e-3)


def test_axes_and_moments_tell_the_same_covariance() -> None:
    _, moments = sources(64)
    values, vectors = torch.linalg.eigh(moments.xx)
    ours, theirs = strongest_axes(values, vectors), strongest(moments.xx)
    assert ours is not None and theirs is not None and ours.shape == theirs.shape
    for one, other in zip(unpaired(ours), unpaired(theirs), strict=True):
        found, known = (part.mH @ part + torch.eye(64) for part in (one, other))
        torch.testing.assert_close(found / found.norm(), known / known.norm(), rtol=0, atol=2e-3)
    assert strongest_axes(values[:, :48], vectors[:, :48, :48]) is None


def test_axes_of_fewer_samples_than_directions_are_all_kept() -> None:
    x = torch.randn(2, 64, 5, dtype=torch.complex64)
    values, vectors = torch.linalg.eigh(x.mH @ x)
    strong = strongest_axes(values, x @ vectors / values.sqrt().unsqueeze(1))
    assert strong is not None and strong.shape == (2, 5, 64, 2)
    spanned = unpaired(strong)
    ours, theirs = spanned.mH @ spanned, x @ x.mH
    torch.testing.assert_close(ours / ours.norm(), theirs / theirs.norm(), rtol=0, atol=1e-3)


def test_directions_of_fewer_dimensions_than_are_asked_for() -> None:
    x = torch.randn(2, 64, 3, dtype=torch.complex64) @ torch.randn(2, 3, 40, dtype=torch.complex64)
    moments = Moments.empty(Partition.of("singleton", 2), 64, torch.complex64)
    moments.update(x, x)
    strong = strongest(moments.xx)
    assert strong is not None and torch.isfinite(strong).all()
    assert strong[:, :3].any() and not strong[:, 3:].any()


def test_no_directions_where_there_is_nothing_to_gain() -> None:
    partition = Partition.of("singleton", 2)
    assert strongest(Moments.empty(partition, MomentShape(64, full=False), torch.complex64).xx) is None
    assert strongest(Moments.empty(partition, 48, torch.complex64).xx) is None
    silent = strongest(Moments.empty(partition, 64, torch.complex64).xx)
    assert silent is not None and not silent.any()


def test_a_row_of_zeros_stays_zero() -> None:
    gains = torch.zeros(1, 20, 20)
    gains[0, 1] = 1
    layout = Layout.mirrored([0])
    for precision, strong in (("half", None), ("int8", None), ("int8", torch.zeros(1, 2, 20))):
        small = pack(gains, layout, precision, strong)
        assert not small[0][0].any() and torch.allclose(small[0][1], torch.ones(20), atol=0.05)


def test_planes_of_another_node_are_refused() -> None:
    with pytest.raises(ValueError, match="other maps"):
        Packed(torch.zeros(3, 2, 2), torch.zeros(2, 2), Layout.mirrored([-1, 0]), torch.complex64)
