"""Metamers through the network: exact for a linear model, sensible for a bent one."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import SgfiError
from sgfi.evaluation.metamers import metamers
from sgfi.inversion import Query
from tests.analytic import Line, tiny
from tests.natural.dense import TIGHT, lens_of


def _linear(ridge: float) -> tuple[sgfi.NaturalInverse, torch.Tensor]:
    torch.manual_seed(0)
    model = Line(torch.randn(6, 6, dtype=torch.float64)).eval()
    inputs = torch.randn(40, 6, dtype=torch.float64)
    graph = sgfi.capture(model, inputs[:2])
    return sgfi.natural(graph, sgfi.prior([inputs]), ridge=ridge), torch.randn(3, 6, dtype=torch.float64)


def test_a_linear_model_cannot_tell_its_metamers() -> None:
    lens, x = _linear(1e-10)
    for size in (None, 0.3):
        changed = metamers(lens, x, Query("fc", [1, 4]), 5, size)
        assert changed.own.shape == (5, 3) and changed.own.max() < 1e-3 and changed.others.min() > 0.02
        assert changed.control_own.min() > 1e-3 and changed.spared.max() < 0.1
    torch.testing.assert_close(changed.length, torch.full((5, 3), 0.3, dtype=torch.float64))


def test_without_an_answer_a_sample_is_a_draw_like_its_control() -> None:
    """An enormous lambda: nothing is known, nothing is spared."""
    lens, x = _linear(1e5)
    changed = metamers(lens, x, Query("fc", [1, 4]), 200)
    assert 0.5 < float(changed.spared.median()) < 2


def test_corrections_bring_the_feature_back() -> None:
    lens, x, query = lens_of("relu", solver=TIGHT), tiny("relu").inputs(2, seed=3), Query(tiny("relu").target, [2])
    own = [float(metamers(lens, x, query, 4, corrections=number).own.mean()) for number in (0, 2, 4)]
    assert own[1] < 0.5 * own[0] and own[2] < own[1]
    assert metamers(lens, x, query, 4, corrections=4).others.min() > 0.05


def test_of_a_whole_tensor_there_is_no_rest_to_compare_with() -> None:
    lens, x = _linear(1.0)
    for query in (Query("fc"), Query("fc", directions=torch.linalg.qr(torch.randn(6, 6))[0])):
        changed = metamers(lens, x, query, 2)
        assert changed.spared.isnan().all() and changed.others.isnan().all() and changed.own.isfinite().all()


def test_misuse_is_named() -> None:
    lens, x = _linear(1.0)
    for inputs, query, words in [(None, Query("fc"), "a tensor"), (x, 1, "sgfi.Query")]:
        with pytest.raises(SgfiError, match=words):
            metamers(lens, inputs, query)  # type: ignore[arg-type]
    for arguments, words in [
        ({"size": 0.0}, "size"),
        ({"size": "a"}, "size"),
        ({"count": 0}, "one sample"),
        ({"corrections": -1}, "corrections"),
    ]:
        with pytest.raises(SgfiError, match=words):
            metamers(lens, x, Query("fc", [1]), **arguments)
