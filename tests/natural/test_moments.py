"""Streaming moments are a monoid, and determine the shrinkage covariance."""

from __future__ import annotations

import pytest
import torch

from sgfi.natural.moments import Moments


def _samples(count: int = 40, width: int = 6) -> torch.Tensor:
    return torch.randn(count, width, dtype=torch.float64) @ torch.randn(width, width, dtype=torch.float64) + 3


def test_ledoit_wolf_is_scikit_learns() -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    x = _samples()
    ours = Moments.of(x.unsqueeze(0)).centred().shrunk()[0]
    torch.testing.assert_close(ours, torch.as_tensor(covariance.ledoit_wolf(x.numpy())[0]), rtol=1e-10, atol=1e-12)
    about_zero = torch.as_tensor(covariance.ledoit_wolf(x.numpy(), assume_centered=True)[0])
    torch.testing.assert_close(Moments.of(x.unsqueeze(0)).shrunk()[0], about_zero, rtol=1e-10, atol=1e-12)


def test_moments_of_parts_merge_to_those_of_the_whole() -> None:
    x = _samples()
    parts = [Moments.of(part.unsqueeze(0)) for part in x.split([1, 16, 23])]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    whole = Moments.of(x.unsqueeze(0))
    for name in ("count", "first", "second", "third", "fourth"):
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=0)


def test_pooled_groups_are_the_moments_of_their_samples() -> None:
    groups = torch.randn(3, 8, 4, dtype=torch.float64)
    pooled = Moments.of(groups).pooled(torch.tensor([0, 1, 0]), 2)
    alone = Moments.of(torch.cat([groups[0], groups[2]]).unsqueeze(0))
    torch.testing.assert_close(pooled.second[0], alone.second[0])
    torch.testing.assert_close(pooled.fourth[:1], alone.fourth)


def test_two_samples_of_many_numbers_still_give_a_definite_matrix() -> None:
    shrunk = Moments.of(_samples(2, 30).unsqueeze(0)).centred().shrunk()[0]
    assert torch.linalg.eigvalsh(shrunk).min() >= -1e-12
