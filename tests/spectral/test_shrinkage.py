"""The shrinkage target: one real matrix for all bins."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Moments, Partition, SharedGain
from sgfi.spectral.ridge import solve_leave_one_out

BINS, CHANNELS = 12, 5


def spectra(samples: int, noise: float, dtype: torch.dtype = torch.complex128) -> tuple[Tensor, Tensor, Tensor]:
    to = torch.randn(CHANNELS, CHANNELS, dtype=torch.float64)
    power = torch.logspace(2, -2, BINS, dtype=torch.float64).reshape(-1, 1, 1)
    x = power * torch.randn(BINS, CHANNELS, samples, dtype=dtype)
    return to, x, to.to(dtype) @ x + power * noise * torch.randn(BINS, CHANNELS, samples, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.complex128, torch.float64])
def test_a_map_that_is_the_same_at_every_bin_is_found(dtype: torch.dtype) -> None:
    to, x, y = spectra(200, 0.01, dtype)
    target = SharedGain.fit([(x[..., :80], y[..., :80]), (x[..., 80:], y[..., 80:])])
    torch.testing.assert_close(target.gain, to, atol=0.01, rtol=0)
    torch.testing.assert_close(target(x), target.gain.to(dtype) @ x)


def test_unseen_is_what_a_fit_without_that_column_says() -> None:
    """Real columns, where leaving one out by its leverage is exact."""
    _, x, y = spectra(6, 0.5, torch.float64)
    target = SharedGain.fit([(x, y)])
    power = x.square().mean((1, 2), keepdim=True)
    xs, ys = (part.div(power.sqrt()).transpose(0, 1).reshape(CHANNELS, -1) for part in (x, y))
    columns = xs.shape[1]
    shift = torch.linalg.inv(target.whitener.mT @ target.whitener) - xs @ xs.mT / columns
    for column in (0, 7, 40):
        rest = [other for other in range(columns) if other != column]
        gain = ys[:, rest] @ xs[:, rest].mT @ torch.linalg.inv(xs[:, rest] @ xs[:, rest].mT + columns * shift)
        bin_, sample = divmod(column, 6)
        torch.testing.assert_close(target.unseen(x, y)[bin_, :, sample], gain @ x[bin_, :, sample])


def test_few_samples_are_enough_where_bins_agree() -> None:
    """Fewer samples than channels: a map of its own for every bin cannot be found, the one of all bins can."""
    to, x, y = spectra(4, 0.05)
    moments = Moments.empty(Partition.of("singleton", BINS), CHANNELS, x.dtype)
    moments.update(x, y)
    fit = solve_leave_one_out(moments, [(x, y)], whiten=False)
    torch.testing.assert_close(fit.weights["gain"], to.to(x.dtype).expand_as(fit.weights["gain"]), atol=0.2, rtol=0)


def test_bins_that_differ_keep_maps_of_their_own() -> None:
    torch.manual_seed(5)
    to = torch.randn(BINS, CHANNELS, CHANNELS, dtype=torch.complex128)
    x = torch.randn(BINS, CHANNELS, 300, dtype=torch.complex128)
    moments = Moments.empty(Partition.of("singleton", BINS), CHANNELS, x.dtype)
    moments.update(x, to @ x)
    fit = solve_leave_one_out(moments, [(x, to @ x)], whiten=False)
    torch.testing.assert_close(fit.weights["gain"], to, atol=0.01, rtol=0)


def test_dead_bins_and_dead_sources_give_zero() -> None:
    _, x, y = spectra(9, 0.1)
    x[3] = 0
    assert torch.isfinite(SharedGain.fit([(x, y)]).gain).all()
    dead = SharedGain.fit([(torch.zeros_like(x), y)])
    assert not dead.gain.any() and not dead.unseen(torch.zeros_like(x), y).any()
