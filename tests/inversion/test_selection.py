"""Selections: masks and directions as one projector, and calibrated maps asked along directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.errors import QueryError
from sgfi.graph import Node
from sgfi.inversion import Query, Selections
from tests.analytic import tiny
from tests.test_engine_against_oracle import STAGES, TOLERANCE, engine, gaps, oracle

NODES = {
    "first": Node("n", (None, 5, 3, 4), "conv", "", 1, (2, 3)),
    "last": Node("n", (None, 3, 4, 5), "linear", "", 3, (1, 2)),
    "tokens": Node("n", (None, 6, 5), "linear", "", 2, (1,)),
    "vector": Node("n", (None, 5), "linear", "", 1, ()),
}
"""Every node has five channels."""


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def queries(node: Node) -> list[Query]:
    at = [tuple(size - 1 for size in node.coord_shape), tuple(0 for _ in node.coord_shape)]
    cells = {"coords": at} if at[0] else {}
    asked = [Query("n"), Query("n", [3, 1]), Query("n", directions=rows(2, 5)), Query("n", directions=rows(1, 5))]
    if cells:
        asked += [Query("n", [2], **cells), Query("n", directions=rows(3, 5), **cells)]
        asked += [Query("n", directions=rows(2, 3, 5), **cells)]
        asked += [Query("n", directions=rows(torch.Size(node.coord_shape).numel(), 2, 5))]
    return asked


@pytest.mark.parametrize("kind", NODES)
def test_select_and_spread_are_adjoint_and_their_product_a_projector(kind: str) -> None:
    node = NODES[kind]
    shape = node.shape[1:]
    states, others = rows(2, 3, *shape, seed=1), rows(2, 3, *shape, seed=2)
    asked = queries(node)
    for query in asked:
        selection = query.selection(node)
        numbers = rows(2, 3, selection.count, seed=3)
        torch.testing.assert_close(selection.select(selection.spread(numbers)), numbers)
        torch.testing.assert_close(
            (selection.select(states) * numbers).sum(), (states * selection.spread(numbers)).sum()
        )
        projected = selection.project(states)
        torch.testing.assert_close(projected, selection.spread(selection.select(states)))
        torch.testing.assert_close(selection.project(projected), projected)
        torch.testing.assert_close((projected * others).sum(), (states * selection.project(others)).sum())
        assert selection.count == query.size(node) * (len(query.coords) if query.coords else _positions(node))
        assert (projected[..., ~selection.mask] == 0).all()
        chosen = torch.tensor([0, selection.count - 1])
        torch.testing.assert_close(
            selection.rows(chosen, states), selection.spread(torch.eye(selection.count).double())[chosen]
        )
    stack = Selections.of(query.selection(node) for query in asked)
    together = stack.project(states[0])
    for query, own in zip(asked, together, strict=True):
        torch.testing.assert_close(own, query.selection(node).project(states[0]), rtol=0, atol=0)


def _positions(node: Node) -> int:
    return torch.Size(node.coord_shape).numel()


@pytest.mark.parametrize("kind", NODES)
def test_only_the_span_counts_and_one_hot_rows_are_channels(kind: str) -> None:
    node, made = NODES[kind], rows(2, 5)
    mixed = rows(2, 2, seed=4) @ made
    for other in (made * torch.tensor([[1e30], [-3e-30]]).double(), made.flip(0), mixed, made.numpy(), made.tolist()):
        first, second = (Query("n", directions=given).selection(node) for given in (made, other))
        state = rows(*node.shape[1:], seed=5)
        torch.testing.assert_close(second.project(state), first.project(state), rtol=0, atol=1e-12)
    hot = torch.zeros(2, 5)
    hot[0, 3], hot[1, 1] = -7, 0.5
    selection = Query("n", directions=hot).selection(node)
    assert selection.basis is None and selection.mask.equal(Query("n", [1, 3]).mask(node))


def test_queries_with_directions_compare_by_content() -> None:
    made = rows(2, 5)
    assert (
        Query("n", directions=made) == Query("n", directions=made.clone()) != Query("n", directions=rows(2, 5, seed=1))
    )
    assert len({Query("n", directions=made), Query("n", directions=made.clone()), Query("n")}) == 2
    assert Query("n", None, [(0, 0)], made).toward("m") == Query("m", None, [(0, 0)], made)
    assert "2 directions in 5 channels" in str(Query("n", directions=made))


WRONG: list[tuple[Any, str]] = [
    (rows(2, 4), "directions"),
    (rows(6, 5), "directions"),
    (rows(2, 2, 2, 5), "One row"),
    (torch.zeros(0, 5), "One row"),
    (torch.zeros(1, 5), "none of them zero"),
    (torch.full((1, 5), torch.nan), "finite"),
    (torch.ones(1, 5, dtype=torch.bool), "One row"),
    (torch.ones(1, 5, dtype=torch.complex64), "One row"),
    (torch.stack([rows(5), 2 * rows(5)]), "independent"),
    (rows(3, 2, 5), "coordinate"),
    ("probe.pt", "tensor or an array"),
    ([[1, "x"]], "tensor or an array"),
]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_wrong_directions_are_refused(given: Any, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        Query("n", None, [(0, 0), (1, 1)], given).selection(NODES["first"])


def test_channels_and_directions_exclude_each_other() -> None:
    with pytest.raises(QueryError, match="both"):
        Query("n", [1], directions=rows(1, 5))
    family, x = engine("chain"), tiny("chain").inputs(1, seed=9)
    with pytest.raises(QueryError, match="a query beside"):
        sgfi.invert(family, x, Query(directions=rows(1, 5)), channels=[1])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["chain", "channels_last", "tokens", "vector"])
def test_maps_along_directions_are_the_oracles(name: str, stage: str) -> None:
    family, dense, x = engine(name), oracle(name), tiny(name).inputs(2, seed=9)
    node = family.node()
    cells = [tuple(size - 1 for size in node.coord_shape), tuple(0 for _ in node.coord_shape)]
    asked: list[dict[str, Any]] = [{"directions": rows(2, node.channels)}]
    if node.coord_shape:
        asked += [{"directions": rows(1, node.channels), "coords": cells}]
        asked += [{"directions": rows(2, 2, node.channels), "coords": cells}]
    alone = [sgfi.invert(family, x, Query(**query), stage=stage) for query in asked]
    together = sgfi.sweep(family, x, [Query(**query) for query in asked], stage=stage)
    for query, single, other in zip(asked, alone, together, strict=True):
        expected = dense.invert(x, stage=stage, **query)
        assert max(gaps(single, expected).values()) < TOLERANCE
        assert max(gaps(other, expected).values()) < TOLERANCE


def test_one_hot_directions_and_channels_give_the_same_maps_bit_by_bit() -> None:
    family, x = engine("chain"), tiny("chain").inputs(2, seed=9)
    hot = np.zeros((2, family.node().channels))
    hot[0, 3], hot[1, 1] = 2.0, -1.0
    terminal = rows(2, *family.node().shape[1:])
    inverse = sgfi.invert(family, x, Query(directions=hot, coords=[(0, 1)]), terminal=terminal)
    other = sgfi.invert(family, x, channels=[1, 3], coords=[(0, 1)], terminal=terminal)
    assert inverse.value.equal(other.value)


def test_maps_are_linear_in_the_target_along_directions() -> None:
    family, x = engine("chain"), tiny("chain").inputs(2, seed=9)
    query, shape = Query(directions=rows(2, 5)), family.node().shape[1:]
    first, second = rows(2, *shape, seed=1), rows(2, *shape, seed=2)
    values = [sgfi.invert(family, x, query, terminal=t).value for t in (first, second, 2 * first - 3 * second)]
    torch.testing.assert_close(values[2], 2 * values[0] - 3 * values[1], rtol=1e-9, atol=1e-9)
