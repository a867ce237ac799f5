"""Networks whose numbers are very small or very large: the same inverse, or an error."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import CalibrationError, QueryError

SCALES = [1e-25, 1e-15, 1e-9, 1e-6, 1e6, 1e9, 1e12, 1e18, 1e25]
WAYS: dict[str, dict] = {"paper": {}, "auto": {"children": "online", "ridge": "auto"}}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 2, stride=2)).eval()


def scaled(scale: float, dtype: torch.dtype) -> nn.Sequential:
    """The last layer's output times ``scale``: an inverse that does not depend on units is the same."""
    model = copy.deepcopy(network()).to(dtype)
    with torch.no_grad():
        model[2].weight.mul_(scale)
        model[2].bias.mul_(scale)
    return model


def inputs(count: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(count)).to(dtype)


def inverse(scale: float, dtype: torch.dtype, way: str) -> Tensor:
    graph = sgfi.capture(scaled(scale, dtype), inputs(2, dtype))
    family = sgfi.calibrate(sgfi.plan(graph, "2", ["1"]), [inputs(32, dtype)], progress=False, **WAYS[way])
    return sgfi.invert(family, inputs(3, dtype), channels=[1]).value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("way", WAYS)
def test_the_unit_of_a_layer_does_not_matter_or_is_refused(way: str, dtype: torch.dtype) -> None:
    expected = inverse(1.0, dtype, way)
    answered = []
    for scale in SCALES:
        try:
            rescaled = inverse(scale, dtype, way)
        except CalibrationError:
            continue
        answered.append(scale)
        assert (rescaled - expected).norm() < 1e-2 * expected.norm(), scale
    assert {1e-6, 1e6, 1e9} <= set(answered)
    assert 1e18 in answered or dtype == torch.float32


@pytest.mark.parametrize("scale", [1e-25, 1e-15, 1e18])
def test_a_natural_inverse_does_not_depend_on_the_unit(scale: float) -> None:
    values = []
    for factor in (1.0, scale):
        lens = sgfi.natural(sgfi.capture(scaled(factor, torch.float32), inputs(2, torch.float32)), jacobian="point")
        values.append(sgfi.invert(lens, inputs(2, torch.float32), "2", channels=[1]).value)
    assert (values[1] - values[0]).norm() < 1e-3 * values[0].norm()


def test_an_inverse_that_is_no_number_is_an_error() -> None:
    graph = sgfi.capture(network(), inputs(2, torch.float32))
    family = sgfi.calibrate(sgfi.plan(graph, "2", ["1"]), [inputs(8, torch.float32)], progress=False)
    terminal = torch.full((1, 3, 3, 3), 3e38)
    with pytest.raises(QueryError, match="finite"):
        sgfi.invert(family, inputs(1, torch.float32), terminal=terminal)
    with torch.no_grad():
        next(iter(family.maps["1"])).weights["gain"].fill_(float("nan"))
    with pytest.raises(QueryError, match="first at '1'"):
        sgfi.invert(family, inputs(1, torch.float32))
