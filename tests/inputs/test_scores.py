"""A loss as a feature: the natural inverse of one number against the dense formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import sgfi
from sgfi.errors import SgfiError
from sgfi.inputs.scores import Scored, cross_entropy
from tests.analytic import tiny
from tests.natural.dense import fitted_prior


def test_a_loss_is_answered_as_the_dense_formula_has_it() -> None:
    model, x, fitted = tiny("chain"), tiny("chain").inputs(1, seed=3), fitted_prior("chain")
    graph = sgfi.capture(cross_entropy(model, 1), torch.cat([x, x]))
    assert graph.nodes["conv3"].name == "model.conv3" and graph.nodes["logits"].shape == (None, 1)
    (answer,) = sgfi.sweep(sgfi.natural(graph, fitted, "point"), x, [sgfi.Query("logits")])

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(model(flat.reshape(x.shape)), torch.tensor([1]))

    gradient, covariance = torch.autograd.functional.jacobian(loss, x.flatten()), fitted.dense()
    response = gradient @ covariance @ gradient
    registered = gradient @ (x - fitted.mean).flatten()
    expected = covariance @ gradient * registered / (response + float(answer.ridge))
    torch.testing.assert_close(answer.value.flatten(), expected, rtol=0, atol=1e-9)


def test_a_score_of_another_shape_is_named() -> None:
    with pytest.raises(SgfiError, match="one number"):
        sgfi.capture(Scored(tiny("chain"), lambda logits: logits), tiny("chain").inputs(2))
