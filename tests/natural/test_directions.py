"""The natural inverse along directions, against dense formulas and the laws of a selection."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.evaluation.trust import trust
from sgfi.inversion import Query, Selection
from sgfi.natural.lens import NaturalInverse
from sgfi.natural.solution import Solver
from tests.analytic import tiny
from tests.natural.dense import TIGHT, Dense, averaged_jacobian, lens_of
from tests.oracle import Axes, onto_span

ROUTES = {"exact": Solver(), "conjugate gradients": TIGHT}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("chain", {"count": 2}),
    ("chain", {"count": 1, "coords": [(1, 2), (0, 0)]}),
    ("chain", {"count": 2, "coords": [(1, 2), (0, 0)], "each": True}),
    ("channels_last", {"count": 2, "coords": [(3, 5)]}),
    ("tokens", {"count": 3}),
    ("tokens", {"count": 1, "coords": [(4,), (2,)], "each": True}),
    ("causal", {"count": 1, "coords": [(3,)]}),
    ("vector", {"count": 2}),
]


def rows(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def query_of(name: str, count: int, coords: list[tuple[int, ...]] | None = None, each: bool = False) -> Query:
    width = lens_of(name).node(tiny(name).target).channels
    shape = (len(coords or ()), count, width) if each else (count, width)
    return Query(tiny(name).target, None, coords, rows(*shape))


def dense_of(lens: NaturalInverse, name: str, query: Query, x: Tensor) -> Dense:
    node = lens.node(query.target)
    axes = Axes(node.channel_axis or 1, tuple(int(size) for size in node.shape[1:]))  # type: ignore[arg-type]
    units = torch.eye(torch.Size(axes.shape).numel(), dtype=torch.float64).reshape(-1, *axes.shape)
    assert query.directions is not None
    chosen = onto_span(units, axes, query.coords, query.directions.rows)
    chosen = (chosen * Query(query.target, None, query.coords).mask(node)).flatten(1)
    matrix = averaged_jacobian(tiny(name), node.name, x, lens.prior.mean, lens.path.rule, lens.path.points)
    (answer,) = lens.answer(x, [query])
    return Dense(matrix, lens.prior.dense(), chosen, float(answer.ridge[0]))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("name", "asked"), CASES)
def test_value_and_share_are_the_dense_ones(name: str, asked: dict[str, Any], route: str) -> None:
    lens, query = lens_of(name, solver=ROUTES[route], target_value="tangent"), query_of(name, **asked)
    x = tiny(name).inputs(2, seed=3)
    (answer,) = lens.answer(x, [query])
    for number in range(len(x)):
        sample = x[number : number + 1]
        dense = dense_of(lens, name, query, sample)
        t = dense.J @ (sample - lens.prior.mean).flatten()
        torch.testing.assert_close(answer.value[number].flatten(), dense.estimator @ t, rtol=0, atol=1e-8)
        share = dense.share(sample.shape[1:], lens.prior.channel_axis)
        torch.testing.assert_close(answer.share[number], share, rtol=0, atol=1e-8)
        state = answer.states[tiny(name).target][number].flatten()
        torch.testing.assert_close(state, dense.projector @ t, rtol=0, atol=1e-10)
    assert answer.share_is_exact


@pytest.mark.parametrize("route", ROUTES)
def test_queries_with_and_without_directions_are_each_answered_as_alone(route: str) -> None:
    """Rows of masks are shared, rows of directions are not, and each query finds its own among them."""
    queries = [
        Query("conv3", directions=rows(2, 5)),
        Query("conv3", [1]),
        Query("conv3", None, [(0, 1)], rows(1, 5, seed=1)),
        Query("conv3", [1, 2], [(0, 0)]),
        Query("conv3", None, [(0, 1)], rows(1, 5, seed=2)),
    ]
    lens, x = lens_of("chain", solver=ROUTES[route]), tiny("chain").inputs(2, seed=3)
    for query, answer in zip(queries, sgfi.sweep(lens, x, queries), strict=True):
        (alone,) = lens.answer(x, [query])
        torch.testing.assert_close(answer.value, alone.value, rtol=0, atol=1e-9)
        torch.testing.assert_close(answer.share, alone.share, rtol=0, atol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_one_hot_rows_are_channels_and_only_the_span_counts(route: str) -> None:
    lens, x = lens_of("chain", solver=ROUTES[route]), tiny("chain").inputs(1, seed=3)
    hot = torch.zeros(2, 5)
    hot[0, 3], hot[1, 1] = -2.0, 0.5
    (directed,) = lens.answer(x, [Query("conv3", directions=hot)])
    (channels,) = lens.answer(x, [Query("conv3", [1, 3])])
    assert directed.value.equal(channels.value) and directed.share.equal(channels.share)
    made = rows(2, 5)
    (plain,) = lens.answer(x, [Query("conv3", directions=made)])
    for other in (1e6 * made, made.flip(0), rows(2, 2, seed=7) @ made):
        (same,) = lens.answer(x, [Query("conv3", directions=other)])
        torch.testing.assert_close(same.value, plain.value, rtol=0, atol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_the_answer_is_linear_in_the_target_and_reads_the_span_only(route: str) -> None:
    lens, x, query = lens_of("chain", solver=ROUTES[route]), tiny("chain").inputs(1, seed=3), query_of("chain", 2)
    first, second = rows(1, 5, 3, 3, seed=1), rows(1, 5, 3, 3, seed=2)
    selection = query.selection(lens.node("conv3"))
    outside = 1e3 * (second - selection.project(second))
    values = [lens.answer(x, [query], t)[0].value for t in (first, second, 2 * first - 3 * second, first + outside)]
    torch.testing.assert_close(values[2], 2 * values[0] - 3 * values[1], rtol=0, atol=1e-8)
    torch.testing.assert_close(values[3], values[0], rtol=0, atol=1e-8)


def test_samples_and_controls_work_along_directions() -> None:
    lens, x = lens_of("chain"), tiny("chain").inputs(2, seed=3)
    query = Query("conv3", None, [(1, 1)], rows(2, 5))
    assert lens.samples(x, query, 2).shape == (2, *x.shape)
    controls = trust(lens, x, query)
    assert controls.numbers == 2 and controls.random is not None and controls.neighbours is not None


def test_a_wrong_basis_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: rows that are not orthonormal, and rows at the wrong coordinates."""
    lens, x, query = lens_of("chain", target_value="tangent"), tiny("chain").inputs(1, seed=3), query_of("chain", 2)
    dense = dense_of(lens, "chain", query, x)
    expected = dense.estimator @ dense.J @ (x - lens.prior.mean).flatten()
    made = query.selection(lens.node("conv3"))
    assert made.basis is not None and made.positions is not None
    for wrong in (replace(made, basis=2 * made.basis), replace(made, positions=made.positions.roll(1)[:4])):
        with monkeypatch.context() as patch:
            patch.setattr(Query, "selection", lambda *_, wrong=wrong: wrong)
            (answer,) = lens.answer(x, [query])
        assert isinstance(wrong, Selection)
        assert (answer.value.flatten() - expected).abs().max() > 1e-3
