"""The prior of photographs that comes with the package."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError, SgfiError
from sgfi.inversion import Query
from sgfi.natural.lens import natural
from sgfi.natural.photographs import FILE, as_record, default_prior, photograph_prior, pixels
from tests.analytic import captured


def test_the_file_is_small_and_plausible() -> None:
    assert FILE.stat().st_size < 16_000
    measured = pixels()
    assert ((measured.colour > 0.3) & (measured.colour < 0.6)).all()
    assert (torch.linalg.eigvalsh(measured.covariances) > 0).all()
    assert 0.2 < float(measured.variance.mean().sqrt()) < 0.35
    power = measured.spectrum.diagonal(dim1=-2, dim2=-1).sum(-1) / measured.rings.square()
    assert power[0] > 100 * power[-1]  # scenes are smooth
    grey = torch.ones(3, dtype=torch.float64) / 3**0.5
    assert (grey @ measured.spectrum @ grey > 0.8 * measured.spectrum.diagonal(dim1=-2, dim2=-1).sum(-1)).all()
    assert as_record(measured)["rings"] == measured.rings.tolist()


def test_it_is_carried_into_a_models_coordinates_and_size() -> None:
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    plain = photograph_prior((8, 12), (0.0,) * 3, (1.0,) * 3, torch.float64)
    carried = photograph_prior((8, 12), mean, std, torch.float64)
    scale = torch.tensor(std, dtype=torch.float64).repeat_interleave(96)
    torch.testing.assert_close(carried.dense() * torch.outer(scale, scale), plain.dense())
    shifted = carried.mean * torch.tensor(std).reshape(3, 1, 1) + torch.tensor(mean).reshape(3, 1, 1)
    torch.testing.assert_close(shifted, plain.mean, check_dtype=False)
    assert carried.shape == (3, 8, 12) and carried.mean.dtype == torch.float64


def test_grey_is_luminance() -> None:
    grey, colour = photograph_prior((8, 8), (0.0,), (1.0,)), photograph_prior((8, 8), (0.0,) * 3, (1.0,) * 3)
    weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
    torch.testing.assert_close(grey.level[0, 0], weights @ colour.level @ weights)
    assert grey.shape == (1, 8, 8)


def test_a_model_of_colour_pictures_needs_no_data() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Conv2d(4, 5, 3)).eval()
    graph = sgfi.capture(model, torch.randn(2, 3, 12, 12))
    assumed = natural(graph)
    assert assumed.prior.shape == (3, 12, 12)
    own = natural(graph, SimpleNamespace(mean=(127 / 255,) * 3, std=(128 / 255,) * 3))
    expected = (255 * pixels().colour - 127) / 128
    torch.testing.assert_close(own.prior.mean[:, 0, 0], expected)
    (answer,) = own.answer(torch.randn(1, 3, 12, 12), [Query("2", [1])])
    assert torch.isfinite(answer.value).all() and answer.value.abs().max() > 0
    assert answer.share.shape == (1, 12, 12)


def test_other_inputs_need_a_prior_of_their_own() -> None:
    for name in ("chain", "tokens", "vector"):
        with pytest.raises(SgfiError, match=r"sgfi\.prior"):
            default_prior(captured(name))
    with pytest.raises(SgfiError, match="preprocessing"):
        default_prior(captured("relu"), SimpleNamespace(mean=(0.5,), std=(0.5,)))
    with pytest.raises(SgfiError, match="mean and std for every channel"):
        default_prior(captured("relu"), np.zeros(3))  # mean and std are methods of an array
    with pytest.raises(SgfiError, match="positive std"):
        photograph_prior((8, 8), (0.5,) * 3, (0.0,) * 3)


def test_numbers_that_are_none_are_refused() -> None:
    for sizes in (64, None, "ab", (64.0, 64.0), (0, 8)):
        with pytest.raises(QueryError, match="sizes"):
            photograph_prior(sizes)  # type: ignore[arg-type]
    for mean, std in ((0.5, 0.5), (None, None), ((float("nan"),) * 3, (1.0,) * 3), ((0.0,) * 3, (float("inf"),) * 3)):
        with pytest.raises(QueryError, match="mean and a positive std"):
            photograph_prior((8, 8), mean, std)  # type: ignore[arg-type]
    for dtype in ("float32", torch.int64, torch.complex64):
        with pytest.raises(QueryError, match="floating dtype"):
            photograph_prior((8, 8), dtype=dtype)  # type: ignore[arg-type]
