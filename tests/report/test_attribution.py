"""The adapter for attribution code: the same numbers as a query."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import SgfiError
from tests.analytic import captured, tiny
from tests.natural.dense import fitted_prior


def test_a_layer_by_module_or_name_gives_the_answer_of_its_query() -> None:
    model, x, fitted = tiny("chain"), tiny("chain").inputs(3, seed=3), fitted_prior("chain")
    lens = sgfi.natural(captured("chain"), fitted)
    mix = torch.tensor([[1.0, 0, -1, 0, 2]])
    for layer in (model.conv3, "conv3"):
        method = sgfi.NaturalAttribution(model, layer, prior=fitted)
        for target, coords, directions in ((1, None, None), ([1, 3], [(0, 1)], None), (None, None, mix)):
            expected = sgfi.invert(lens, x, sgfi.Query("conv3", target, coords, directions)).value
            attribution = method.attribute(x, target, coords, directions)
            torch.testing.assert_close(attribution, expected)
    output = sgfi.NaturalAttribution(model, prior=fitted).attribute(x, 1)
    torch.testing.assert_close(output, sgfi.invert(lens, x, "head", 1).value)
    with pytest.raises(SgfiError, match="inside the model"):
        sgfi.NaturalAttribution(model, torch.nn.Linear(2, 2))
    with pytest.raises(SgfiError, match="Module"):
        sgfi.NaturalAttribution(lambda x: x)
