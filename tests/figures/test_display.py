"""Display rules: percentiles, symmetry, and no noise blown up into a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgfi.errors import DataError
from sgfi.figures.display import natural_scale, natural_view, signed_scale, signed_view


def test_natural_uses_percentiles_of_the_whole_tensor() -> None:
    x = torch.linspace(0, 100, 3 * 101 * 10, dtype=torch.float64).reshape(3, 101, 10)
    scale = natural_scale([x])
    assert (scale.low, scale.high) == pytest.approx((1.0, 99.0))
    view = natural_view(x)
    assert view.shape == (101, 10, 3) and view.min() == 0 and view.max() == 1
    assert view[50, 5, 1] == pytest.approx((float(x[1, 50, 5]) - 1) / 98)


def test_signed_keeps_zero_in_the_middle() -> None:
    x = torch.zeros(3, 4, 4)
    x[:, 0, 0], x[:, 1, 1] = 6.0, -2.0
    scale = signed_scale([x])
    assert scale.low == -scale.high
    view = signed_view(x)
    assert view[2, 2] == 0.5 and view[0, 0] > 0.5 > view[1, 1]


def test_a_shared_scale_comes_from_all() -> None:
    small, large = torch.randn(3, 9, 9), 100 * torch.randn(3, 9, 9)
    shared = natural_scale([small, large])
    assert np.ptp(natural_view(small, shared)) < 0.2 < np.ptp(natural_view(large, shared))


@pytest.mark.parametrize("make", [natural_scale, signed_scale])
def test_nothing_is_drawn_as_nothing(make) -> None:
    noise = 1e-9 * torch.randn(3, 5, 5)
    assert make([torch.zeros(3, 5, 5)]).note == "exactly zero"
    assert make([noise], reference=1.0).note.startswith("negligible")
    assert make([noise]).note == ""  # nothing to compare with: its own range is all there is
    for tensor, reference in ((torch.zeros(3, 5, 5), 0.0), (noise, 1.0)):
        scale = make([tensor], reference)
        assert scale.flat and (scale.apply(tensor.numpy()) == 0.5).all()


def test_a_constant_with_rounding_noise_is_flat() -> None:
    tensor = 7 + 1e-6 * torch.randn(3, 5, 5, dtype=torch.float64)
    assert natural_scale([tensor]).note == "constant"
    assert (natural_view(tensor) == 0.5).all()


def test_grey_tensors_become_grey_pictures() -> None:
    view = natural_view(torch.randn(1, 4, 4))
    assert view.shape == (4, 4, 3) and (view[..., 0] == view[..., 2]).all()


@pytest.mark.parametrize("wrong", [torch.zeros(2, 3, 4, 4), torch.full((3, 2, 2), float("nan"))])
def test_what_cannot_be_drawn_is_an_error(wrong: torch.Tensor) -> None:
    with pytest.raises(DataError):
        natural_view(wrong)
