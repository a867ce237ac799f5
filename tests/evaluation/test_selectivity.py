"""Inverses that answer their queries, inverses that do not, and the two numbers that tell them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.selectivity import compare, likeness, selectivity
from sgfi.spectral import WienerMap
from tests.analytic import tiny
from tests.estimators import Backpropagation
from tests.evaluation.known import orthogonal_family, signs, square_family
from tests.natural.dense import lens_of


def batch() -> torch.Tensor:
    return torch.randn(3, 6, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def test_orthogonal_channels_are_unlike_and_excite_themselves() -> None:
    scores = selectivity(orthogonal_family(), batch())["channels"]
    torch.testing.assert_close(scores["likeness"], torch.zeros(3, dtype=torch.float64), atol=1e-3, rtol=0)
    assert torch.equal(scores["excites_itself"], torch.ones(3, dtype=torch.float64))


def test_one_template_for_all_is_caught() -> None:
    """Maps that answer every query with one and the same picture: all alike, and whose it is cannot be told."""
    family = orthogonal_family()
    node = family.maps["input"][0]
    gain = torch.zeros_like(node.weights["gain"])
    gain[0, :, :] = 1.0  # every row and column: the sum of whatever comes in, in every channel
    template = WienerMap(node.basis, node.partition, node.operator, {"gain": gain})
    collapsed = replace(family, maps={"input": (template,)})
    scores = selectivity(collapsed, batch())["channels"]
    torch.testing.assert_close(scores["likeness"], torch.ones(3, dtype=torch.float64))
    assert (scores["excites_itself"] < 1).all()  # ties among inverses of one sign go, by rounding, to any of them


def test_cells_of_a_pointwise_model_stay_apart() -> None:
    scores = selectivity(square_family(), signs(2, 5), channels=3, cells=4)
    assert set(scores) == {"channels", "cells"}
    assert (scores["cells"]["excites_itself"] == 1).all()


def test_selectivity_takes_any_estimator() -> None:
    """Backpropagation through an orthogonal layer is its inverse: channels stay apart."""
    family = orthogonal_family()
    rows = selectivity(Backpropagation(family.graph, (family.target,)), batch())
    assert set(rows) == {"channels"} and (rows["channels"]["excites_itself"] == 1).all()
    assert rows["channels"]["likeness"].max() < 1e-9


def test_one_query_cannot_be_compared() -> None:
    with pytest.raises(QueryError, match="two queries"):
        compare(orthogonal_family(), batch(), [sgfi.Query(channels=[0])])


def test_a_group_of_tensors_is_not_judged_by_its_first() -> None:
    lens, x = lens_of("chain"), tiny("chain").inputs(2, seed=3)
    group = sgfi.Query("conv3", [0]) + sgfi.Query("act1", [0])
    with pytest.raises(QueryError, match="a query about one tensor"):
        compare(lens, x, [group, sgfi.Query("conv3", [1])])


def test_pictures_that_are_zero_are_alike_to_nothing() -> None:
    pictures = torch.zeros(2, 3, 5)
    assert likeness(pictures).tolist() == [0, 0]
    pictures[1, :2, 0] = 1  # two alike, one dead: a pair in three
    torch.testing.assert_close(likeness(pictures)[1], torch.tensor(1 / 3))
