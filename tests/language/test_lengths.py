"""Maps of one length at another."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

import sgfi
from sgfi.errors import PlanError, QueryError
from sgfi.language import embedding_model, token_plan, transfer


@pytest.fixture(scope="module")
def graphs(lm) -> dict[int, sgfi.TensorGraph]:
    return {size: sgfi.capture(embedding_model(lm, layers=3), torch.randn(2, size, 16)) for size in (5, 8, 12)}


def fitted(lm, graph: sgfi.TensorGraph, family: str) -> sgfi.MapFamily:
    torch.manual_seed(1)
    x = lm.get_input_embeddings()(torch.randint(0, 20, (48, 8)))
    return sgfi.calibrate(token_plan(graph, 3, family=family), x.split(16), progress=False)


@pytest.mark.parametrize("family", ["causal", "causal+2", "causal-first-apart", "causal-per-position"])
def test_a_shorter_text_is_its_prefix(lm, graphs, family: str) -> None:
    """What causal maps say of a prefix does not depend on what follows it, nor on whether anything does."""
    whole = fitted(lm, graphs[8], family)
    x = lm.get_input_embeddings()(torch.randint(0, 20, (3, 8)))
    for position in (2, 4):
        long = sgfi.invert(whole, x, coords=[position]).value
        short = sgfi.invert(transfer(whole, graphs[5]), x[:, :5], coords=[position]).value
        torch.testing.assert_close(short, long[:, :5], atol=1e-4, rtol=1e-3)


def test_gains_are_interpolated_on_the_normalised_grid(lm, graphs) -> None:
    family = fitted(lm, graphs[8], "per-frequency")  # bins 0, 1/8 .. 4/8
    moved = transfer(family, graphs[12])  # bins 0, 1/12 .. 6/12
    old, new = (fit.maps["input"][0].weights["gain"] for fit in (family, moved))
    assert len(old) == 5 and len(new) == 7
    for index, at in ((0, 0.0), (3, 2.0), (6, 4.0)):
        torch.testing.assert_close(new[index], old[int(at)])
    torch.testing.assert_close(new[1], old[0] / 3 + 2 * old[1] / 3)
    assert sgfi.invert(moved, torch.randn(2, 12, 16)).value.shape == (2, 12, 16)
    same = transfer(family, graphs[8])
    assert torch.equal(same.maps["input"][0].weights["gain"], old)


def test_one_matrix_a_position_knows_no_further_ones(lm, graphs) -> None:
    with pytest.raises(PlanError, match="at most 8 tokens"):
        transfer(fitted(lm, graphs[8], "causal-per-position"), graphs[12])


def test_further_positions_join_the_last_group(lm, graphs) -> None:
    family = fitted(lm, graphs[8], "causal-first-apart")
    moved = transfer(family, graphs[12])
    assert moved.plan.boundary["input"].partition.groups.tolist() == [0] + [1] * 11
    x = lm.get_input_embeddings()(torch.randint(0, 20, (3, 12)))
    long, short = (sgfi.invert(fit, x[:, :size], coords=[5]).value for fit, size in ((moved, 12), (family, 8)))
    torch.testing.assert_close(long[:, :8], short, atol=1e-4, rtol=1e-3)
    assert not long[:, 6:].any()


def test_another_checkpoint_is_refused_and_so_are_weights_that_change_later(lm, graphs) -> None:
    family, other = fitted(lm, graphs[8], "causal"), deepcopy(lm)
    moved = transfer(family, sgfi.capture(embedding_model(other, layers=3), torch.randn(2, 5, 16)))
    assert not moved.forced and moved.fingerprint == moved.graph.fingerprint
    with torch.no_grad():
        other.transformer.h[1].mlp.c_fc.weight.add_(0.1)
    with pytest.raises(QueryError, match="changed since"):
        sgfi.invert(moved, torch.randn(2, 5, 16))
    changed = sgfi.capture(embedding_model(other, layers=3), torch.randn(2, 5, 16))
    with pytest.raises(QueryError, match=r"another .*h\.1\.mlp\.c_fc\.weight"):
        transfer(family, changed)
    assert transfer(replace(family, forced=True), changed).forced
