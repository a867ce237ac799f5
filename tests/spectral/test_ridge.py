"""Leave-one-out by leverage against fits that really leave one out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgfi.spectral import Moments, MomentShape, Partition, operator_named
from sgfi.spectral.ridge import solve, solve_leave_one_out
from sgfi.spectral.shrinkage import MAX_LEVERAGE, RIDGES, SharedGain

BINS, CHANNELS, SAMPLES = 3, 4, 9
MANY = 14
"""Channels, more than samples."""


def spectra(noise: float = 0.5, channels: int = CHANNELS) -> tuple[Tensor, Tensor]:
    to = torch.randn(BINS, channels, channels, dtype=torch.complex128)
    x = torch.randn(BINS, channels, SAMPLES, dtype=torch.complex128)
    return x, to @ x + noise * torch.randn(BINS, channels, SAMPLES, dtype=torch.complex128)


def moments(x: Tensor, y: Tensor, full: bool = False) -> Moments:
    bare = x.shape[1] > x.shape[2]
    sums = Moments.empty(Partition.of("singleton", BINS), MomentShape(x.shape[1], bare=bare and not full), x.dtype)
    sums.update(x, y)
    return sums


def refitted(x: Tensor, y: Tensor, shift: float) -> Tensor:
    """Every sample predicted by a ridge fit to the others, with a fit of its own."""
    out = torch.empty_like(y)
    for left_out in range(SAMPLES):
        rest = [sample for sample in range(SAMPLES) if sample != left_out]
        sources, targets = x[:, :, rest], y[:, :, rest]
        normal = sources @ sources.mH + SAMPLES * shift * torch.eye(x.shape[1])
        out[:, :, left_out] = (targets @ sources.mH @ torch.linalg.inv(normal) @ x[:, :, left_out, None])[..., 0]
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
    sums = moments(x, y)
    batches = [(x[..., :5], y[..., :5]), (x[..., 5:], y[..., 5:])]
    shared = SharedGain.fit(batches)
    residual = y - shared.unseen(x, y)
    shifts = [relative * sums.ridge(1.0) for relative in RIDGES]
    errors = torch.stack([(refitted(x, residual, shift) - residual).abs().square().sum((1, 2)) for shift in shifts])
    for row, relative in enumerate(RIDGES):
        whitener = solve(moments(x, residual, full=True), relative, whiten=True).whitener
        assert whitener is not None
        leverage = (whitener @ x).abs().square().sum(1) / SAMPLES
        errors[row, leverage.amax(1) > MAX_LEVERAGE] = torch.inf  # mere repetition of a sample is not considered
    best = torch.tensor(shifts)[errors.argmin(0)]
    fit = solve_leave_one_out(moments(x, y), batches, whiten=True)
    usable = errors.min(0).values < residual.abs().square().sum((1, 2))
    assert usable.any()
    torch.testing.assert_close(fit.ridge[usable].double(), best[usable].double())
    group = int(usable.nonzero()[0])
    same = solve(moments(x, residual, full=True), float(fit.ridge[group]) / sums.ridge(1.0), whiten=True)
    torch.testing.assert_close(fit.weights["gain"][group], same.weights["gain"][group] + shared.gain)
    assert fit.whitener is not None and same.whitener is not None
    assert fit.whitener.shape == (BINS, min(channels, SAMPLES), channels)
    expected = (same.whitener[group] @ x[group]).norm(dim=0)
    torch.testing.assert_close((fit.whitener[group] @ x[group]).norm(dim=0), expected)


def test_fewer_samples_than_channels_and_some_of_them_alike() -> None:
    """Axes that no sample has: neither divided by nor invented."""
    x, y = spectra(channels=MANY)
    x[..., 1], y[..., 1] = x[..., 0], y[..., 0]
    x[1] = 0
    fit = solve_leave_one_out(moments(x, y), [(x, y)], whiten=True)
    assert torch.isfinite(fit.weights["gain"]).all() and fit.whitener is not None and torch.isfinite(fit.whitener).all()
    assert fit.shrunk_to is not None
    torch.testing.assert_close(fit.weights["gain"][1], fit.shrunk_to.gain.to(fit.weights["gain"]))


def test_leaving_out_reaches_through_the_shrinkage_target() -> None:
    """Only what a sample says of itself may differ: the unseen prediction does not follow its own target."""
    x, y = spectra()
    operator, partition = operator_named("full"), Partition.of("singleton", BINS)
    solution = operator.solve(moments(x, y), "auto", whiten=True, samples=[(x, y)])
    seen = operator.apply(solution.weights, x, partition)
    unseen = operator.unseen(solution, x, y, partition, SAMPLES)
    assert unseen is not None and solution.shrunk_to is not None
    assert (y - unseen).norm() > (y - seen).norm()


def test_where_nothing_more_can_be_predicted_the_map_of_all_bins_stays() -> None:
    x, _ = spectra()
    y = torch.randn(BINS, CHANNELS, SAMPLES, dtype=torch.complex128)
    y[0] = 100 * y[0] * (1 + torch.arange(SAMPLES) % 2 * 1e3)
    fit = solve_leave_one_out(moments(x, y), [(x, y)], whiten=True)
    for group in range(BINS):
        if torch.isinf(fit.ridge[group]):
            assert fit.shrunk_to is not None and torch.equal(fit.weights["gain"][group].real, fit.shrunk_to.gain)
    assert torch.isfinite(fit.weights["gain"]).all()
    assert fit.whitener is not None and torch.isfinite(fit.whitener).all()


def test_a_dead_source_gives_zero_never_nan() -> None:
    x, y = spectra()
    dead = torch.zeros_like(x)
    fit = solve_leave_one_out(moments(dead, y), [(dead, y)], whiten=True)
    assert not fit.weights["gain"].any()


def test_groups_share_one_choice() -> None:
    x, y = spectra()
    partition = Partition.of([0, 1, 0], BINS)
    sums = Moments.empty(partition, CHANNELS, x.dtype)
    sums.update(x, y)
    fit = solve_leave_one_out(sums, [(x, y)], whiten=False)
    assert fit.weights["gain"].shape == (2, CHANNELS, CHANNELS)
    assert fit.ridge.shape == (2,)
    assert fit.whitener is None


def test_groups_of_positions_have_ridges_of_their_own() -> None:
    """One position's sources are a thousand times larger; the other's fit must not be held back for it."""
    x, y = torch.randn(2, BINS, CHANNELS, SAMPLES, dtype=torch.float64)
    x[0] *= 1e3
    partition = Partition.of([0, 1, 1], BINS)
    sums = Moments.empty(partition, CHANNELS, x.dtype)
    sums.update(x, y)
    fit = operator_named("causal").solve(sums, 0.01)
    for group, members in enumerate(partition.members):
        sources, targets = (part[members].transpose(0, 1).reshape(CHANNELS, -1) for part in (x, y))
        normal = sources @ sources.T
        normal += 0.01 * normal.diagonal().mean() * torch.eye(CHANNELS)
        torch.testing.assert_close(fit.weights["gain"][group], targets @ sources.T @ torch.linalg.inv(normal))
    assert fit.ridge[0] > 1e5 * fit.ridge[1]
    alike = operator_named("full").solve(sums, 0.01)
    assert alike.ridge[0] == alike.ridge[1]
