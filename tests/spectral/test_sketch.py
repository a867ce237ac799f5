"""The Johnson-Lindenstrauss sketch of the channels."""

from __future__ import annotations

import torch

from sgfi.spectral.sketch import ROWS, sketch


def test_few_channels_are_left_as_they_are() -> None:
    rows = torch.randn(3, ROWS, 5)
    assert sketch(rows) is rows


def test_energies_are_kept_on_average_and_the_signs_are_always_the_same() -> None:
    torch.manual_seed(0)
    rows = torch.randn(2, 300, 400, dtype=torch.complex64)
    sums = sketch(rows)
    assert sums.shape == (2, ROWS, 400)
    torch.testing.assert_close(sums.abs().square().sum(), rows.abs().square().sum(), rtol=0.05, atol=0)
    assert torch.equal(sums, sketch(rows))
