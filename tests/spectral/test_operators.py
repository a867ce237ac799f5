"""Operator families against dense solves with numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from sgfi.errors import PlanError
from sgfi.spectral import Basis, Moments, MomentShape, Operator, Partition, WienerMap, operator_named, operators
from sgfi.spectral import ridge as ridges

BINS = 5
PARTITIONS = {
    "singleton": Partition.of("singleton", BINS),
    "shared": Partition.of("shared", BINS),
    "custom": Partition.of([0, 1, 1, 2, 0], BINS),
}
NAMES = ["full", "diagonal", "gamma", "diagonal+rank2", "diagonal+rank8"]


def spectra(channels: int, samples: int = 11) -> tuple[Tensor, Tensor]:
    """Coloured sources and targets that depend on them by a matrix of every bin, with noise."""
    colour, to = torch.randn(2, BINS, channels, channels, dtype=torch.complex128)
    x = colour @ torch.randn(BINS, channels, samples, dtype=torch.complex128)
    return x, to @ x + 0.2 * torch.randn(BINS, channels, samples, dtype=torch.complex128)


def fitted(
    name: str, x: Tensor, y: Tensor, kind: str, ridge: float = 0.05
) -> tuple[Operator, dict[str, Tensor], float]:
    operator, partition = operator_named(name), PARTITIONS[kind]
    sums = Moments.empty(partition, MomentShape(x.shape[1], full=operator.full), x.dtype)
    sums.update(x, y)
    return operator, operator.solve(sums, ridge).weights, sums.ridge(ridge)


def group_means(x: Tensor, y: Tensor, bins: Tensor) -> tuple[np.ndarray, np.ndarray]:
    columns = [part[bins].permute(1, 0, 2).reshape(part.shape[1], -1).numpy() for part in (x, y)]
    sources, targets = columns
    return sources @ sources.conj().T / sources.shape[1], targets @ sources.conj().T / sources.shape[1]


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("channels", [2, 6])
def test_full_is_the_dense_wiener_matrix(kind: str, channels: int) -> None:
    x, y = spectra(channels)
    operator, weights, shift = fitted("full", x, y, kind)
    for group, bins in enumerate(PARTITIONS[kind].members):
        xx, yx = group_means(x, y, bins)
        expected = yx @ np.linalg.inv(xx + shift * np.eye(channels))
        np.testing.assert_allclose(weights["gain"][group].numpy(), expected, rtol=1e-9, atol=1e-11)
    out = operator.apply(weights, x, PARTITIONS[kind])
    for index, group in enumerate(PARTITIONS[kind].groups.tolist()):
        torch.testing.assert_close(out[index], weights["gain"][group] @ x[index])


@pytest.mark.parametrize("kind", PARTITIONS)
def test_diagonal_is_a_ratio_per_channel(kind: str) -> None:
    x, y = spectra(4)
    operator, weights, shift = fitted("diagonal", x, y, kind)
    for group, bins in enumerate(PARTITIONS[kind].members):
        xx, yx = group_means(x, y, bins)
        expected = np.diag(yx) / (np.diag(xx).real + shift)
        np.testing.assert_allclose(weights["gain"][group].numpy(), expected, rtol=1e-10)
    out = operator.apply(weights, x, PARTITIONS[kind])
    for index, group in enumerate(PARTITIONS[kind].groups.tolist()):
        torch.testing.assert_close(out[index], weights["gain"][group][:, None] * x[index])


def test_gamma_is_the_diagonal_of_one_group() -> None:
    x, y = spectra(4)
    gamma, diagonal = fitted("gamma", x, y, "shared"), fitted("diagonal", x, y, "shared")
    assert gamma[0].tied and torch.equal(gamma[1]["gain"], diagonal[1]["gain"])


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_diagonal_and_rank_r_by_svd(kind: str, rank: int) -> None:
    """The best rank-r part of the regularised objective: the leading singular vectors of E X* L^-*."""
    x, y = spectra(4)
    _, weights, shift = fitted(f"diagonal+rank{rank}", x, y, kind)
    for group, bins in enumerate(PARTITIONS[kind].members):
        xx, yx = group_means(x, y, bins)
        diagonal = np.diag(yx) / (np.diag(xx) + shift)
        left_over = yx - np.diag(diagonal) @ xx
        values, vectors = np.linalg.eigh(xx + shift * np.eye(4))
        root = vectors @ np.diag(values**-0.5) @ vectors.conj().T
        u, _, _ = np.linalg.svd(left_over @ root)
        projector = u[:, :rank] @ u[:, :rank].conj().T
        expected = np.diag(diagonal) + projector @ left_over @ np.linalg.inv(xx + shift * np.eye(4))
        parts = {key: weights[key][group].numpy() for key in weights}
        gain = np.diag(parts["diagonal"]) + parts["left"] @ parts["right"]
        np.testing.assert_allclose(gain, expected, rtol=1e-8, atol=1e-9)
        assert parts["left"].shape == (4, rank) and parts["right"].shape == (rank, 4)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_enough_rank_is_full_but_for_the_ridge_on_the_diagonal(kind: str) -> None:
    """With r >= C the correction is the full Wiener map of E = Y - diag X on X.

    The sum then is G_full + diag (I - S (S + lambda)^-1) = G_full + lambda diag (S + lambda)^-1: not the full map
    itself, because the diagonal is not shrunk again, but equal to it as the ridge vanishes.
    """
    x, y = spectra(3, samples=40)
    for ridge in (0.05, 1e-9):
        _, full, shift = fitted("full", x, y, kind, ridge)
        _, many, _ = fitted("diagonal+rank8", x, y, kind, ridge)
        for group, bins in enumerate(PARTITIONS[kind].members):
            xx, _ = group_means(x, y, bins)
            extra = shift * np.diag(many["diagonal"][group].numpy()) @ np.linalg.inv(xx + shift * np.eye(3))
            gain = torch.diag(many["diagonal"][group]) + many["left"][group] @ many["right"][group]
            np.testing.assert_allclose(gain.numpy(), full["gain"][group].numpy() + extra, rtol=1e-7, atol=1e-8)
            if ridge < 1e-6:
                np.testing.assert_allclose(gain.numpy(), full["gain"][group].numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_more_capacity_leaves_less(kind: str) -> None:
    x, y = spectra(4, samples=60)
    left = []
    for name in ("diagonal", "diagonal+rank1", "diagonal+rank3", "full"):
        operator, weights, _ = fitted(name, x, y, kind, 1e-6)
        left.append((y - operator.apply(weights, x, PARTITIONS[kind])).abs().square().sum().item())
    assert left == sorted(left, reverse=True) and left[-1] < 0.8 * left[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64])
def test_a_zero_source_gives_zero_weights(name: str, dtype: torch.dtype) -> None:
    x = torch.zeros(BINS, 3, 6, dtype=dtype)
    operator, weights, _ = fitted(name, x, torch.randn(BINS, 3, 6, dtype=dtype), "shared")
    out = operator.apply(weights, x, PARTITIONS["shared"])
    assert all(w.isfinite().all() for w in weights.values()) and not out.any()
    for key in ("gain", "diagonal", "right"):
        assert key not in weights or not weights[key].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.complex128, torch.complex64])
def test_a_dead_channel_stays_zero(name: str, dtype: torch.dtype) -> None:
    """Silent in source and target: its row and its column are exactly zero, and nothing is NaN."""
    x, y = (part.to(dtype) for part in spectra(4))
    x[:, 1], y[:, 1] = 0, 0
    kind = "shared" if name == "gamma" else "singleton"
    operator, weights, _ = fitted(name, x, y, kind)
    assert all(w.isfinite().all() for w in weights.values())
    out = operator.apply(weights, torch.randn(BINS, 4, 3, dtype=dtype), PARTITIONS[kind])
    assert out[:, [0, 2, 3]].abs().sum() > 0
    torch.testing.assert_close(out[:, 1], torch.zeros_like(out[:, 1]), rtol=0, atol=1e-6)
    heard = torch.zeros(BINS, 4, 3, dtype=dtype)
    heard[:, 1] = 1
    torch.testing.assert_close(
        operator.apply(weights, heard, PARTITIONS[kind]), torch.zeros_like(heard), rtol=0, atol=1e-6
    )


def test_fewer_samples_than_channels_in_single_precision() -> None:
    x, y = (part.to(torch.complex64) for part in spectra(6, samples=2))
    _, weights, shift = fitted("full", x, y, "singleton", 0.01)
    xx, yx = group_means(x.to(torch.complex128), y.to(torch.complex128), torch.tensor([3]))
    expected = yx @ np.linalg.inv(xx + shift * np.eye(6))
    np.testing.assert_allclose(weights["gain"][3].numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["full", "diagonal+rank2"])
def test_solving_a_few_groups_at_a_time_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = spectra(4)
    _, whole, _ = fitted(name, x, y, "singleton")
    monkeypatch.setattr(ridges, "SOLVE_BYTES", 1)
    _, pieces, _ = fitted(name, x, y, "singleton")
    assert all(torch.equal(whole[key], pieces[key]) for key in whole)


@pytest.mark.parametrize("name", NAMES)
def test_size_is_the_numbers_held(name: str) -> None:
    for channels in (3, 12):
        x, y = spectra(channels)
        operator, weights, _ = fitted(name, x, y, "custom")
        assert operator.size(3, channels) == sum(w.numel() for w in weights.values())


def test_a_map_is_linear_and_keeps_leading_axes() -> None:
    basis = Basis(1, (2,), (4, 8))  # 5 stored bins
    x, y = spectra(4)
    operator, weights, _ = fitted("full", x, y, "custom")
    wiener = WienerMap(basis, PARTITIONS["custom"], operator, weights)
    first, second = torch.randn(2, 3, 4, 8, dtype=torch.float64)
    stacked = wiener(torch.stack([first, second]))
    assert stacked.shape == (2, 3, 4, 8)
    torch.testing.assert_close(stacked[1], wiener(second))
    torch.testing.assert_close(wiener(2 * first - second), 2 * wiener(first) - wiener(second))
    assert not wiener(torch.zeros_like(first)).any()


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize("name", [*NAMES, "causal", "causal+1", "causal+2", "causal+7"])
def test_adjoint_of_every_operator(name: str, kind: str) -> None:
    partition = PARTITIONS["shared" if name == "gamma" else kind]
    x, y = spectra(4)
    operator = operator_named(name)
    shape = MomentShape(4, full=operator.full, width=operator.width(4))
    sums = Moments.empty(partition, shape, x.dtype)
    sums.update(operator.reads(x), y)
    weights = operator.solve(sums, 0.05).weights
    turned, adjoint = operator.adjoint(weights)
    there, back = operator.apply(weights, x, partition), turned.apply(adjoint, y, partition)
    torch.testing.assert_close((there.conj() * y).sum(), (x.conj() * back).sum())


def test_resampled_gains_lie_on_the_line_between_their_neighbours() -> None:
    operator, (old, new) = operator_named("full"), (Basis(2, (1,), (size, 2)) for size in (8, 16))
    gain = torch.randn(5, 2, 2, dtype=torch.complex128)
    finer = operator.resampled({"gain": gain}, Partition.of("singleton", 5), old, new)["gain"]
    torch.testing.assert_close(finer[::2], gain)
    torch.testing.assert_close(finer[1::2], (gain[1:] + gain[:-1]) / 2)
    shared = operator.resampled({"gain": gain[:1]}, Partition.of("shared", 5), old, new)["gain"]
    assert torch.equal(shared, gain[:1])
    assert operator.repartitioned(Partition.of("singleton", 5), 9) == "singleton"
    with pytest.raises(PlanError, match="custom"):
        operator.repartitioned(PARTITIONS["custom"], 9)


def test_positions_keep_their_own_matrices_at_another_length() -> None:
    causal, gain = operator_named("causal"), torch.randn(5, 2, 2)
    bases = {size: Basis(2, (1,), (size, 2), positional=True) for size in (3, 5, 6)}
    singles = Partition.of("singleton", 5)
    assert torch.equal(causal.resampled({"gain": gain}, singles, bases[5], bases[3])["gain"], gain[:3])
    with pytest.raises(PlanError, match="at most 5 tokens"):
        causal.resampled({"gain": gain}, singles, bases[5], bases[6])
    groups = Partition.of([0, 0, 1, 2, 2], 5)
    assert causal.repartitioned(groups, 7) == [0, 0, 1, 2, 2, 2, 2] and causal.repartitioned(groups, 3) == [0, 0, 1]
    assert torch.equal(causal.resampled({"gain": gain[:3]}, groups, bases[5], bases[3])["gain"], gain[:2])


@pytest.mark.parametrize("name", ["fuller", "rank8", "diagonal+rank", "diagonal+rank-1", "diagonal+rank08", ""])
def test_unknown_operators_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match="operator among full, causal"):
        operator_named(name)


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(PlanError, match="Did you mean 'diagonal'"):
        operator_named("diagnal")


def test_a_new_operator_needs_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "OPERATORS", dict(operators.OPERATORS))

    class Halved(Operator):
        """Half of everything."""

    assert operators.operator("halved")(Halved) is Halved
    assert isinstance(operator_named("halved"), Halved)
    with pytest.raises(ValueError, match="second operator named 'full'"):
        operators.operator("full")(Halved)
    assert type(operator_named("full")) is Operator


def test_resampled_low_rank_maps_do_not_depend_on_how_they_are_factorised() -> None:
    """A factorisation is fixed up to a rotation of every bin; its products are what is interpolated."""
    torch.manual_seed(0)
    old, new = (Basis(1, (2,), (4, length)) for length in (16, 32))
    operator, partition = operator_named("diagonal+rank2"), Partition.of("singleton", old.bins)
    left, right = torch.randn(4, 2, dtype=old.dtype(torch.float64)), torch.randn(2, 4, dtype=old.dtype(torch.float64))
    signs = torch.tensor([1.0, -1.0]).repeat(old.bins)[: old.bins].reshape(-1, 1, 1)
    weights = {"diagonal": torch.ones(old.bins, 4).to(left), "left": signs * left, "right": signs * right}
    longer = operator.resampled(weights, partition, old, new)
    product = longer["left"] @ longer["right"]
    torch.testing.assert_close(product, (left @ right).expand(new.bins, 4, 4))
    assert longer["left"].shape == (new.bins, 4, 2)
    same = operator.resampled(weights, partition, old, old)
    assert same["left"] is weights["left"]
