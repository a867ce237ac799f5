"""Streaming moments are a monoid, and determine the shrinkage covariance."""

from __future__ import annotations

import pytest
import torch

from sgfi.natural.moments import Moments


def _samples(count: int = 40, width: int = 6) -> torch.Tensor:
    return torch.randn(count, width, dtype=torch.float64) @ torch.randn(width, width, dtype=torch.float64) + 3


def test_ledoit_wolf_in_units_of_each_deviation_is_scikit_learns() -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    x = _samples()
    for zero, moments in ((False, Moments.of(x.unsqueeze(0)).centred()), (True, Moments.of(x.unsqueeze(0)))):
        deviation = x.square().mean(0).sqrt() if zero else x.std(0, correction=0)
        theirs = torch.as_tensor(covariance.ledoit_wolf((x / deviation).numpy(), assume_centered=zero)[0])
        expected = theirs * torch.outer(deviation, deviation)
        torch.testing.assert_close(moments.shrunk()[0], expected, rtol=1e-10, atol=1e-12)


def test_a_change_of_units_changes_the_units_of_the_covariance_alone() -> None:
    x, units = _samples(10), torch.logspace(-4, 4, 6, dtype=torch.float64)
    plain, scaled = (Moments.of(own.unsqueeze(0)).centred().shrunk()[0] for own in (x, x * units))
    torch.testing.assert_close(scaled / torch.outer(units, units), plain, rtol=1e-9, atol=0)
    torch.testing.assert_close(plain.diagonal(), x.var(0, correction=0), rtol=1e-9, atol=0)


def test_moments_of_parts_merge_to_those_of_the_whole() -> None:
    x = _samples()
    parts = [Moments.of(part.unsqueeze(0)) for part in x.split([1, 16, 23])]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    whole = Moments.of(x.unsqueeze(0))
    for name in ("count", "first", "second", "third", "fourth"):
        torch.testing.assert_close(getattr(merged, name), getattr(whole, name), rtol=1e-12, atol=0)


def test_two_samples_of_many_numbers_still_give_a_definite_matrix() -> None:
    shrunk = Moments.of(_samples(2, 30).unsqueeze(0)).centred().shrunk()[0]
    assert torch.linalg.eigvalsh(shrunk).min() >= -1e-12
