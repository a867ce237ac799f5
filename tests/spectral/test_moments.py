"""Moments are a monoid, and the ridge is one number per node."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Moments, MomentShape, Partition, operator_named
from sgfi.spectral import moments as accumulation

BINS, CHANNELS = 6, 3
PARTITIONS = {
    "singleton": Partition.of("singleton", BINS),
    "shared": Partition.of("shared", BINS),
    "custom": Partition.of([0, 2, 1, 1, 2, 2], BINS),
}


def spectra(samples: int = 9, channels: int = CHANNELS) -> tuple[Tensor, Tensor]:
    x, y = torch.randn(2, BINS, channels, samples, dtype=torch.complex128)
    return x, y + 0.3 * x


def moments(kind: str, *parts: tuple[Tensor, Tensor], full: bool = True, groups: range | None = None) -> Moments:
    channels = parts[0][0].shape[1] if parts else CHANNELS
    sums = Moments.empty(PARTITIONS[kind], MomentShape(channels, full=full), torch.complex128, groups=groups)
    for x, y in parts:
        sums.update(x, y)
    return sums


def same(first: Moments, second: Moments) -> None:
    assert first.count == second.count and first.groups == second.groups
    for field in ("xx", "yx", "energy", "target"):
        torch.testing.assert_close(getattr(first, field), getattr(second, field), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("channels", [2, 6])
def test_means_by_their_definition(kind: str, full: bool, channels: int) -> None:
    x, y = spectra(channels=channels)
    xx, yx = moments(kind, (x, y), full=full).mean()
    for group, bins in enumerate(PARTITIONS[kind].members):
        pairs = [(x[f, :, n], y[f, :, n]) for f in bins.tolist() for n in range(x.shape[-1])]
        for mean, outer in ((xx, [(a, a) for a, _ in pairs]), (yx, [(b, a) for a, b in pairs])):
            expected = torch.stack([torch.outer(left, right.conj()) for left, right in outer]).mean(0)
            torch.testing.assert_close(mean[group], expected if full else expected.diagonal())


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", PARTITIONS)
def test_any_split_merged_in_any_order_is_the_whole(kind: str, full: bool) -> None:
    x, y = spectra()
    whole = moments(kind, (x, y), full=full)
    pieces = [(x[..., a:b], y[..., a:b]) for a, b in ((0, 1), (1, 5), (5, 9))]
    same(moments(kind, *pieces, full=full), whole)
    for order in itertools.permutations(pieces):
        merged = moments(kind, full=full)
        for piece in order:
            merged.merge(moments(kind, piece, full=full))
        same(merged, whole)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_the_empty_moments_change_nothing(kind: str) -> None:
    sums = moments(kind, spectra())
    kept = (sums.xx.clone(), sums.energy.clone(), sums.count)
    sums.merge(moments(kind))
    assert torch.equal(sums.xx, kept[0]) and sums.energy == kept[1] and sums.count == kept[2]


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", ["singleton", "custom"])
def test_a_range_of_groups_is_a_slice_of_the_whole_with_the_same_ridge(kind: str, full: bool) -> None:
    x, y = spectra()
    whole = moments(kind, (x, y), full=full)
    count = PARTITIONS[kind].count
    for groups in (range(1), range(1, count), range(count)):
        part = moments(kind, (x, y), full=full, groups=groups)
        torch.testing.assert_close(part.xx, whole.xx[groups.start : groups.stop])
        torch.testing.assert_close(part.yx, whole.yx[groups.start : groups.stop])
        torch.testing.assert_close(part.mean()[0], whole.mean()[0][groups.start : groups.stop])
        assert part.ridge(0.1) == whole.ridge(0.1)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_the_ridge_by_hand(kind: str) -> None:
    """rho times the mean power over stored bins, channels and samples: the grouping does not matter."""
    x = torch.zeros(BINS, CHANNELS, 2, dtype=torch.complex128)
    x[0, 0, 0], x[5, 2, 1] = 3 + 4j, 1j  # powers 25 and 1 among 6 * 3 * 2 entries
    assert moments(kind, (x, 10 * x)).ridge(0.5) == pytest.approx(0.5 * 26 / 36, rel=1e-14)


def test_the_ridge_of_a_zero_source_is_the_floor() -> None:
    x = torch.zeros(BINS, CHANNELS, 4, dtype=torch.complex128)
    assert moments("singleton", (x, x + 1)).ridge(0.01) == pytest.approx(1e-32, rel=1e-12, abs=0)


def test_size_is_what_is_allocated() -> None:
    for full in (True, False):
        shape = MomentShape(4, full=full)
        moments = Moments.empty(PARTITIONS["custom"], shape, torch.complex64)
        assert 3 * shape.numbers() * torch.complex64.itemsize == moments.xx.nbytes + moments.yx.nbytes


def test_real_moments_of_a_vector_node() -> None:
    x, y = torch.randn(2, 1, 5, 30, dtype=torch.float64)
    sums = Moments.empty(Partition.of("singleton", 1), 5, torch.float64)
    sums.update(x, y)
    torch.testing.assert_close(sums.mean()[1][0], y[0] @ x[0].T / 30)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_sums_in_double_precision_do_not_depend_on_the_order(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulation, "PRODUCT_BYTES", 2 * CHANNELS * CHANNELS * 8)  # two products at a time
    batches = [tuple(part.to(torch.complex64) for part in spectra()) for _ in range(40)]
    totals = []
    for order in (batches, batches[::-1]):
        sums = Moments.empty(PARTITIONS[kind], CHANNELS, torch.complex64, sums=torch.complex128)
        for x, y in order:
            sums.update(x, y)
        totals.append(sums)
    for field in ("xx", "yx"):
        forward, backward = (getattr(sums, field) for sums in totals)
        assert forward.dtype == torch.complex128
        assert (forward - backward).norm() < 1e-14 * forward.norm()
    x, y = (torch.cat(parts, -1).to(torch.complex128) for parts in zip(*batches, strict=True))
    exact = moments(kind, (x, y))
    torch.testing.assert_close(totals[0].yx, exact.yx, rtol=1e-5, atol=1e-4)
    assert totals[0].mean()[0].dtype == torch.complex64


def test_maps_of_sums_in_double_precision_are_in_that_of_the_spectra() -> None:
    x, y = (part.to(torch.complex64) for part in spectra(40))
    for name in ("full", "diagonal", "diagonal+rank2"):
        operator, kinds = operator_named(name), (None, torch.complex128)
        solved = []
        for kind in kinds:
            sums = Moments.empty(
                PARTITIONS["singleton"], MomentShape(CHANNELS, full=operator.full), torch.complex64, sums=kind
            )
            sums.update(x, y)
            solved.append(operator.solve(sums, 0.01).weights)
        for key, weight in solved[0].items():
            if name != "diagonal+rank2":  # the factors of a product have no sign of their own
                torch.testing.assert_close(solved[1][key], weight, rtol=1e-4, atol=1e-5)
            assert solved[1][key].dtype == weight.dtype == torch.complex64
