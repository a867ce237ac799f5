"""Leave-one-out by leverage against fits that really leave one out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Moments, MomentShape, Partition, operator_named
from sgfi.spectral.prior import GRID, OWN, shared
from sgfi.spectral.ridge import chosen, fixed

BINS, CHANNELS, SAMPLES = 3, 4, 9
MANY = 14
"""Channels, more than samples."""


def spectra(noise: float = 0.5, channels: int = CHANNELS) -> tuple[Tensor, Tensor]:
    to = torch.randn(BINS, channels, channels, dtype=torch.complex128)
    x = torch.randn(BINS, channels, SAMPLES, dtype=torch.complex128)
    return x, to @ x + noise * torch.randn(BINS, channels, SAMPLES, dtype=torch.complex128)


def moments(x: Tensor, y: Tensor, full: bool = False) -> Moments:
    bare = x.shape[1] > x.shape[2]
    found = Moments.empty(Partition.of("singleton", BINS), MomentShape(x.shape[1], bare=bare and not full), x.dtype)
    found.update(x, y)
    return found


def refitted(x: Tensor, y: Tensor, shift: float) -> Tensor:
    """Every sample predicted by a ridge fit to the others, one honest fit after the other."""
    out = torch.empty_like(y)
    for left_out in range(SAMPLES):
        rest = [sample for sample in range(SAMPLES) if sample != left_out]
        one, two = x[:, :, rest], y[:, :, rest]
        normal = one @ one.mH + SAMPLES * shift * torch.eye(x.shape[1])
        out[:, :, left_out] = (two @ one.mH @ torch.linalg.inv(normal) @ x[:, :, left_out, None])[..., 0]
    return out


@pytest.mark.parametrize("relative", [0.01, 1.0])
def test_leverage_tells_what_a_fit_without_the_sample_predicts(relative: float) -> None:
    x, y = spectra()
    operator, partition = operator_named("full"), Partition.of("singleton", BINS)
    solution = operator.solve(moments(x, y), relative, whiten=True)
    unseen = operator.unseen(solution, x, y, partition, SAMPLES)
    assert unseen is not None
    torch.testing.assert_close(unseen, refitted(x, y, moments(x, y).ridge(relative)))


@pytest.mark.parametrize(("channels", "noise"), [(CHANNELS, 3.0), (MANY, 0.1)])
def test_the_chosen_ridge_is_the_one_that_refitting_would_choose(channels: int, noise: float) -> None:
    """For what the map of all bins leaves of samples it has not seen; with fewer samples than channels too."""
    torch.manual_seed(3)
    x, y = spectra(noise, channels)
    found = moments(x, y)
    batches = [(x[..., :5], y[..., :5]), (x[..., 5:], y[..., 5:])]
    prior = shared(batches)
    left = y - prior.unseen(x, y)
    shifts = [relative * found.ridge(1.0) for relative in GRID]
    errors = torch.stack([(refitted(x, left, shift) - left).abs().square().sum((1, 2)) for shift in shifts])
    for row, relative in enumerate(GRID):
        whitener = fixed(moments(x, left, full=True), relative, whiten=True).whitener
        assert whitener is not None
        leverage = (whitener @ x).abs().square().sum(1) / SAMPLES
        errors[row, leverage.amax(1) > OWN] = torch.inf  # mere repetition of a sample is not considered
    best = torch.tensor(shifts)[errors.argmin(0)]
    fit = chosen(moments(x, y), batches, whiten=True)
    usable = errors.min(0).values < left.abs().square().sum((1, 2))
    assert usable.any()
    torch.testing.assert_close(fit.ridge[usable].double(), best[usable].double())
    one = int(usable.nonzero()[0])
    same = fixed(moments(x, left, full=True), float(fit.ridge[one]) / found.ridge(1.0), whiten=True)
    torch.testing.assert_close(fit.gain[one], same.gain[one] + prior.gain)
    assert fit.whitener is not None and same.whitener is not None
    assert fit.whitener.shape == (BINS, min(channels, SAMPLES), channels)
    torch.testing.assert_close((fit.whitener[one] @ x[one]).norm(dim=0), (same.whitener[one] @ x[one]).norm(dim=0))


def test_fewer_samples_than_channels_and_some_of_them_alike() -> None:
    """Axes that no sample has: neither divided by nor invented."""
    x, y = spectra(channels=MANY)
    x[..., 1], y[..., 1] = x[..., 0], y[..., 0]
    x[1] = 0
    fit = chosen(moments(x, y), [(x, y)], whiten=True)
    assert torch.isfinite(fit.gain).all() and fit.whitener is not None and torch.isfinite(fit.whitener).all()
    assert fit.prior is not None
    torch.testing.assert_close(fit.gain[1], fit.prior.gain.to(fit.gain))


def test_leaving_out_reaches_through_the_prior() -> None:
    """Only what a sample says of itself may differ: the unseen prediction does not follow its own target."""
    x, y = spectra()
    operator, partition = operator_named("full"), Partition.of("singleton", BINS)
    solution = operator.solve(moments(x, y), "auto", whiten=True, samples=[(x, y)])
    seen = operator.apply(solution.weights, x, partition)
    unseen = operator.unseen(solution, x, y, partition, SAMPLES)
    assert unseen is not None and solution.prior is not None
    assert (y - unseen).norm() > (y - seen).norm()


def test_where_nothing_more_can_be_predicted_the_map_of_all_bins_stays() -> None:
    x, _ = spectra()
    y = torch.randn(BINS, CHANNELS, SAMPLES, dtype=torch.complex128)
    y[0] = 100 * y[0] * (1 + torch.arange(SAMPLES) % 2 * 1e3)
    fit = chosen(moments(x, y), [(x, y)], whiten=True)
    for group in range(BINS):
        if torch.isinf(fit.ridge[group]):
            assert fit.prior is not None and torch.equal(fit.gain[group].real, fit.prior.gain)
    assert torch.isfinite(fit.gain).all()
    assert fit.whitener is not None and torch.isfinite(fit.whitener).all()


def test_a_dead_source_gives_zero_never_nan() -> None:
    x, y = spectra()
    dead = torch.zeros_like(x)
    fit = chosen(moments(dead, y), [(dead, y)], whiten=True)
    assert torch.equal(fit.gain, torch.zeros_like(fit.gain))


def test_groups_share_one_choice() -> None:
    x, y = spectra()
    partition = Partition.of([0, 1, 0], BINS)
    found = Moments.empty(partition, CHANNELS, x.dtype)
    found.update(x, y)
    fit = chosen(found, [(x, y)], whiten=False)
    assert fit.gain.shape == (2, CHANNELS, CHANNELS)
    assert fit.ridge.shape == (2,)
    assert fit.whitener is None


def test_groups_of_positions_have_ridges_of_their_own() -> None:
    """One position's sources are a thousand times larger; the other's fit must not be held back for it."""
    x, y = torch.randn(2, BINS, CHANNELS, SAMPLES, dtype=torch.float64)
    x[0] *= 1e3
    partition = Partition.of([0, 1, 1], BINS)
    found = Moments.empty(partition, CHANNELS, x.dtype)
    found.update(x, y)
    fit = operator_named("causal").solve(found, 0.01)
    for group, members in enumerate(partition.members):
        one, two = (part[members].transpose(0, 1).reshape(CHANNELS, -1) for part in (x, y))
        normal = one @ one.T
        normal += 0.01 * normal.diagonal().mean() * torch.eye(CHANNELS)
        torch.testing.assert_close(fit.weights["gain"][group], two @ one.T @ torch.linalg.inv(normal))
    assert fit.ridge[0] > 1e5 * fit.ridge[1]
    alike = operator_named("full").solve(found, 0.01)
    assert alike.ridge[0] == alike.ridge[1]
