"""The natural inverse against dense formulas: value, share and lambda, for every kind of query."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import QueryError, SgfiError
from sgfi.evaluation.trust import trust
from sgfi.figures.answers import opacity_of
from sgfi.inversion import Query, checked_query
from sgfi.natural import lens as module
from sgfi.natural import solution
from sgfi.natural.grid import GridPrior
from sgfi.natural.lens import NaturalInverse, natural
from sgfi.natural.path import Path
from sgfi.natural.solution import NotConverged, Solver
from tests.analytic import captured, tiny
from tests.natural.dense import QUERIES, TIGHT, Dense, dense_of, fitted_prior, lens_of, query_of
from tests.oracle import evaluate

CASES = [(name, number) for name, queries in QUERIES.items() for number in range(len(queries))]


def answer_target(lens: NaturalInverse, name: str, x: Tensor, dense: Dense) -> Tensor:
    """(n,) t of one input (1, ...), before masking."""
    mu = lens.prior.mean
    if lens.target_value == "tangent":
        return dense.J @ (x - mu).flatten()
    both = evaluate(tiny(name), torch.cat([x, mu.unsqueeze(0)]))[tiny(name).target]
    return (both[0] - both[1]).flatten()


def assert_dense(lens: NaturalInverse, name: str, query: Query, x: Tensor) -> None:
    """Value, share and lambda of every input of a batch."""
    (answer,) = lens.answer(x, [query])
    for number in range(len(x)):
        sample = x[number : number + 1]
        dense = dense_of(lens, name, query, sample)
        t = answer_target(lens, name, sample, dense)
        expected = (dense.estimator @ t).reshape(sample[0].shape)
        torch.testing.assert_close(answer.value[number], expected, rtol=0, atol=1e-8)
        share = dense.share(sample.shape[1:], lens.prior.channel_axis)
        torch.testing.assert_close(answer.share[number], share, rtol=0, atol=1e-8)
        detail = share
        if isinstance(lens.prior, GridPrior):
            detail = dense.detail_share(sample.shape[1:], lens.prior.channel_axis)
        torch.testing.assert_close(answer.detail_share[number], detail, rtol=0, atol=1e-8)
        assert float(answer.ridge[number]) == pytest.approx(dense.ridge, rel=1e-10)  # alone as in the batch
        projected = (dense.P * t).reshape(answer.states[tiny(name).target][number].shape)
        torch.testing.assert_close(answer.states[tiny(name).target][number], projected, rtol=0, atol=1e-10)
    assert answer.share_is_exact and answer.residual.max() < 1e-8 and answer.states["input"] is answer.value


@pytest.mark.parametrize(("name", "number"), CASES)
def test_value_share_and_lambda_are_the_dense_ones(name: str, number: int) -> None:
    for jacobian in ("point", "path"):
        assert_dense(lens_of(name, jacobian), name, query_of(name, number), tiny(name).inputs(2, seed=3))


@pytest.mark.parametrize("rule", ["gauss", "midpoint", "half"])
def test_other_settings_are_the_dense_ones(rule: str) -> None:
    lens = lens_of("chain", Path(3, rule), ridge=0.3, target_value="difference")
    assert_dense(lens, "chain", query_of("chain", 1), tiny("chain").inputs(2, seed=3))


@pytest.mark.parametrize("preconditioner", ["none", "diagonal", "ensemble"])
@pytest.mark.parametrize(("name", "number"), [("chain", 0), ("chain", 1), ("tokens", 1), ("vector", 1)])
def test_conjugate_gradients_reach_the_exact_answer(name: str, number: int, preconditioner: str) -> None:
    """At the same lambda: it is estimated from draws where rows are not written out, so it is read off the answer."""
    lens, query = lens_of(name, solver=replace(TIGHT, preconditioner=preconditioner)), query_of(name, number)
    x = tiny(name).inputs(2, seed=3)
    (answer,) = lens.answer(x, [query])
    assert answer.residual.max() <= 1e-13 and answer.steps.min() > 0 and answer.share_is_exact
    for index in range(len(x)):
        dense = dense_of(lens, name, query, x[index : index + 1])
        expected = dense.estimator @ answer_target(lens, name, x[index : index + 1], dense)
        torch.testing.assert_close(answer.value[index].flatten(), expected, rtol=0, atol=1e-8)
        share = dense.share(x.shape[1:], lens.prior.channel_axis)
        torch.testing.assert_close(answer.share[index], share, rtol=0, atol=1e-8)


def test_many_queries_share_an_ensemble_and_agree_with_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only how they are solved changes: fewer steps, the same answers, the same lambda; and again in a second run."""
    x, queries = tiny("chain").inputs(2, seed=3), [Query("conv3", [c, (c + 1) % 5]) for c in range(5)]
    lens = lens_of("chain", solver=TIGHT)
    alone = [lens.answer(x, [query])[0] for query in queries]
    monkeypatch.setattr(solution, "MANY", 5)
    together, again = lens.answer(x, queries), lens.answer(x, queries)
    for single, many, same in zip(alone, together, again, strict=True):
        torch.testing.assert_close(many.value, single.value, rtol=0, atol=1e-9)
        assert many.ridge.equal(single.ridge) and many.value.equal(same.value) and not many.steps.equal(single.steps)
    rough = replace(lens, solver=replace(TIGHT, tolerance=0.05, ensemble=200))
    steps = sum(int(answer.steps.sum()) for answer in rough.answer(x, queries))
    assert steps < sum(int(rough.answer(x, [query])[0].steps.sum()) for query in queries)


def test_the_estimated_share_comes_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE_DRAWS", 400)
    monkeypatch.setattr(module, "SHARE_EXACT", 0)
    x, query = tiny("chain").inputs(1, seed=3), query_of("chain", 1)
    (answer,) = lens_of("chain", solver=replace(TIGHT, tolerance=1e-3)).answer(x, [query])
    dense = dense_of(lens_of("chain"), "chain", query, x)
    dense = replace(dense, ridge=float(answer.ridge[0]))
    torch.testing.assert_close(answer.share[0], dense.share((2, 5, 6), 1), rtol=0, atol=0.08)
    assert answer.share.min() >= 0 and answer.share.max() <= 1 and not answer.share_is_exact


def test_queries_of_several_targets_and_sizes_are_each_answered_as_alone() -> None:
    queries = [
        Query("conv3", [1]),
        Query("act1", [0]),
        Query("conv3"),
        Query("conv3", [1, 2]),
        Query("conv3", None, [(0, 0)]),
    ]
    x = tiny("chain").inputs(3, seed=3)
    for solver in (Solver(), replace(TIGHT, tolerance=1e-11, exact_up_to=9)):
        lens = lens_of("chain", solver=solver)
        together = sgfi.sweep(lens, x, queries)
        for query, answer in zip(queries, together, strict=True):
            (alone,) = lens.answer(x, [query])
            assert answer.query is query
            torch.testing.assert_close(answer.value, alone.value, rtol=0, atol=1e-9)
            torch.testing.assert_close(answer.share, alone.share, rtol=0, atol=1e-9)
            torch.testing.assert_close(answer.ridge, alone.ridge)


def test_an_answer_does_not_depend_on_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, query = tiny("chain").inputs(3, seed=3), query_of("chain", 1)
    for solver in (Solver(), TIGHT):
        lens = lens_of("chain", solver=solver)
        (whole,) = lens.answer(x, [query])
        (alone,) = lens.answer(x[1:2], [query])
        torch.testing.assert_close(whole.value[1:2], alone.value, rtol=0, atol=1e-10)
        torch.testing.assert_close(whole.share[1:2], alone.share, rtol=0, atol=1e-10)
        with monkeypatch.context() as patch:
            patch.setattr(module, "ACTIVATIONS", 1)
            (parts,) = lens.answer(x, [query])
        torch.testing.assert_close(parts.value, whole.value, rtol=0, atol=1e-10)


def test_a_terminal_replaces_what_was_registered() -> None:
    lens, query, x = lens_of("chain"), query_of("chain", 1), tiny("chain").inputs(1, seed=3)
    terminal = torch.randn(1, 5, 3, 3, dtype=torch.float64)
    (answer,) = lens.answer(x, [query], terminal=terminal)
    dense = dense_of(lens, "chain", query, x)
    torch.testing.assert_close(answer.value.flatten(), dense.estimator @ terminal.flatten(), rtol=0, atol=1e-8)


def test_earlier_stages_are_the_gradient_and_the_gradient_under_the_prior() -> None:
    lens, query = lens_of("chain", target_value="tangent"), query_of("chain", 1)
    x = tiny("chain").inputs(1, seed=3)
    dense = dense_of(lens, "chain", query, x)
    pulled = dense.J.mT @ dense.projector @ dense.J @ (x - lens.prior.mean).flatten()
    raw, first = (lens.answer(x, [query], stage=stage)[0] for stage in ("raw", "first"))
    torch.testing.assert_close(raw.value.flatten(), pulled, rtol=0, atol=1e-9)
    torch.testing.assert_close(first.value.flatten(), lens.prior.dense() @ pulled, rtol=0, atol=1e-9)
    torch.testing.assert_close(raw.share[0], dense.share((2, 5, 6), 1), rtol=0, atol=1e-8)


@pytest.mark.parametrize("exact", [True, False])
def test_a_share_is_of_the_weights_of_its_answer(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE_EXACT", 256 if exact else 1)
    model, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval(), torch.randn(2, 4)
    lens = natural(sgfi.capture(model, x), sgfi.prior([torch.randn(50, 4)]))
    (read,), (late,) = (lens.answer(x, [Query("2")], stage="raw") for _ in range(2))
    before = read.share
    model[0].weight.data.mul_(2)
    assert read.share is before
    for name in ("share", "detail_share"):
        with pytest.raises(QueryError, match="weights changed since this answer"):
            getattr(late, name)
    model[0].weight.data.div_(2)
    torch.testing.assert_close(late.share, before)


def test_a_state_is_of_inputs_of_the_model() -> None:
    x, lens = tiny("chain").inputs(2, seed=3), lens_of("chain")
    with pytest.raises(QueryError, match=r"dtype torch\.float64; got torch\.float32"):
        lens.state(x.float())


def test_a_system_that_is_left_unsolved_is_warned_of() -> None:
    x, query = tiny("chain").inputs(2, seed=3), query_of("chain", 0)
    short, solved = (lens_of("chain", ridge=1e-4, solver=Solver(steps, exact_up_to=0)) for steps in (1, 400))
    with pytest.warns(NotConverged, match=r"residual of at most 0\.05 for conv3; got .* after 1 steps.*Solver\(steps="):
        (answer,) = short.answer(x, [query])
    with pytest.warns(NotConverged, match="2 queries"):
        short.answer(x, [query, query_of("chain", 1)])
    with pytest.warns(NotConverged, match="samples"):
        short.samples(x, query, 2)
    assert answer.residual.max() > 0.1 and f"residual {float(answer.residual.max()):.2g}" in repr(answer)
    assert "residual" in repr(solved.answer(x, [query])[0]) and solved.samples(x, query, 2).isfinite().all()
    assert "residual" not in repr(lens_of("chain").answer(x, [query_of("chain", 3)])[0])  # solved exactly
    assert short.answer(x, [query], stage="first")[0].residual.isnan().all()


def test_a_share_is_estimated_from_solved_draws_or_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE_EXACT", 0)
    x, query = tiny("chain").inputs(2, seed=3), query_of("chain", 0)
    known = lens_of("chain", ridge=1e-4, solver=Solver(400, 1e-6, exact_up_to=0)).answer(x, [query])[0]
    short = lens_of("chain", ridge=1e-4, solver=Solver(1, exact_up_to=0))
    with pytest.warns(NotConverged):
        one_step = short.answer(x, [query])[0]
    torch.testing.assert_close(one_step.share, known.share, rtol=0, atol=0.05)
    monkeypatch.setattr(Solver, "steps", 1)
    with pytest.warns(NotConverged):
        unsolved = short.answer(x, [query])[0]
    assert unsolved.share.isnan().all() and unsolved.detail_share.isnan().all()
    assert opacity_of(unsolved) == (None, None)


def test_runs_repeat_and_leave_the_random_state_alone() -> None:
    x, query = tiny("chain").inputs(2, seed=3), query_of("chain", 0)
    lens = lens_of("chain", solver=Solver(exact_up_to=0))
    before = torch.get_rng_state()
    (first,), (second,) = lens.answer(x, [query]), lens.answer(x, [query])
    assert first.value.equal(second.value) and first.share.equal(second.share)
    assert lens.samples(x, query, 2).equal(lens.samples(x, query, 2))
    assert torch.get_rng_state().equal(before)
    with torch.inference_mode():
        (inside,) = lens.answer(x, [query])
    assert inside.value.equal(first.value)


def test_misuse_is_named() -> None:
    graph, fitted, x = captured("chain"), fitted_prior("chain"), tiny("chain").inputs(1)
    for arguments, words in [
        ({"prior": None}, "sgfi.prior"),
        ({"prior": fitted_prior("vector")}, "a prior of inputs"),
        ({"jacobian": "line"}, "Jacobian"),
        ({"jacobian": Path(), "points": 3}, "points once"),
        ({"points": 0}, "one point"),
        ({"ridge": 0}, "positive ridge"),
        ({"ridge": -1.0}, "positive ridge"),
        ({"target_value": "H"}, "target value"),
        ({"solver": 3}, "Solver"),
    ]:
        with pytest.raises(SgfiError, match=words):
            natural(graph, **{"prior": fitted, **arguments})
    for settings, words in [
        ({"steps": 0}, "steps"),
        ({"tolerance": 0}, "tolerance"),
        ({"preconditioner": "x"}, "preconditioner"),
        ({"ensemble": 0}, "ensemble"),
    ]:
        with pytest.raises(SgfiError, match=words):
            Solver(**settings)
    with pytest.raises(SgfiError, match="captured graph"):
        natural(tiny("chain"))
    lens = natural(graph, fitted)
    for queries, words in [
        ([], "at least one query"),
        (Query("conv3"), "list"),
        ([3], "a int"),
        ([Query("input")], "downstream"),
        ([Query("conv9")], "Did you mean"),
        ([Query("conv3", [9])], "channels"),
    ]:
        with pytest.raises(SgfiError, match=words):
            sgfi.sweep(lens, x, queries)
    with pytest.raises(SgfiError, match="stage"):
        sgfi.sweep(lens, x, [Query("conv3")], stage="last")
    with pytest.raises(SgfiError, match="terminal"):
        lens.answer(x, [Query("conv3")], terminal=torch.zeros(1))
    with pytest.raises(SgfiError, match="finite"):
        lens.answer(x, [Query("conv3")], terminal=torch.full((1, 5, 3, 3), torch.nan, dtype=torch.float64))
    with pytest.raises(SgfiError, match="one sample"):
        lens.samples(x, Query("conv3"), 0)
    with pytest.raises(SgfiError, match="inputs of shape"):
        sgfi.sweep(lens, x[0], [Query("conv3")])


class Overflowing(torch.nn.Module):
    """A softmax written without its guard: infinity over infinity for a large input."""

    def forward(self, x: Tensor) -> Tensor:
        e = (300 * x).exp()
        return e / e.sum(1, keepdim=True)


def test_a_feature_that_is_not_finite_is_refused_and_no_blank_picture() -> None:
    x = torch.rand(2, 3, 4, 4)
    lens = natural(sgfi.capture(Overflowing().eval(), 0.01 * x), sgfi.prior([0.01 * torch.rand(16, 3, 4, 4)]))
    assert torch.isfinite(sgfi.invert(lens, 0.01 * x, "div").value).all()
    for queries in ([Query("div")], [Query("div", 0)] * 40, [Query("div", 0, [(1, 1)])]):
        with pytest.raises(SgfiError, match="finite"):
            sgfi.sweep(lens, x[:1] + 1, queries)


def test_a_share_is_that_of_the_answer_whatever_becomes_of_the_input() -> None:
    lens, x = lens_of("chain", "path"), tiny("chain").inputs(2, seed=3)
    before = sgfi.invert(lens, x, channels=1)
    expected = sgfi.invert(lens, x.clone(), channels=1).share
    x.mul_(5).add_(1)
    torch.testing.assert_close(before.share, expected, rtol=0, atol=0)


def test_large_batches_of_small_queries_are_answered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, x = lens_of("chain", "point"), tiny("chain").inputs(5, seed=3)
    query = Query(lens.node().name, 0)
    whole = sgfi.sweep(lens, x, [query])[0]
    numbers = lens._selection(query).count
    monkeypatch.setattr(module, "ROWS_MEMORY", 2 * numbers * x[0].numel() * x.element_size())
    assert [len(part) for _, part in lens._parts(x, query)] == [2, 2, 1]
    parts = sgfi.sweep(lens, x, [query])[0]
    torch.testing.assert_close(parts.value, whole.value)
    torch.testing.assert_close(parts.share, whole.share)


def test_a_query_as_text_is_the_query() -> None:
    lens, x, query = lens_of("chain", "point"), tiny("chain").inputs(2, seed=3), Query("conv3", 1, [(0, 2)])
    asked = sgfi.invert(lens, x, query)
    for answer in (
        sgfi.invert(lens, x, "conv3:1@0,2"),
        sgfi.invert(lens, x, "conv3", 1, [(0, 2)]),
        sgfi.sweep(lens, x, ["conv3:1@0,2"])[0],
        trust(lens, x, "conv3:1@0,2").inverse,
    ):
        assert answer.query == query
        torch.testing.assert_close(answer.value, asked.value)
    assert lens.samples(x, "conv3:1", 2).equal(lens.samples(x, Query("conv3", 1), 2))
    assert sgfi.invert(lens, x, "conv3").query == Query("conv3")  # a name alone
    with pytest.raises(SgfiError, match="beside channels"):
        sgfi.invert(lens, x, "conv3:1", channels=2)
    with pytest.raises(SgfiError, match="expected a query <node>"):
        sgfi.invert(lens, x, "conv3:x")
    with pytest.raises(SgfiError, match="into one list"):
        sgfi.sweep(lens, x, "conv3:1")  # type: ignore[arg-type]


def test_the_name_of_a_tensor_comes_before_the_query_it_might_be() -> None:
    class Named(dict):
        def __contains__(self, name: object) -> bool:
            return name == "block:3"

    graph = type("Graph", (), {"nodes": Named()})()
    assert checked_query("block:3", graph) == Query("block:3") and checked_query("block:4", graph) == Query("block", 4)


def test_as_many_terminals_as_queries() -> None:
    lens, x = lens_of("chain", "point"), tiny("chain").inputs(2, seed=3)
    state = lens.state(x)
    with pytest.raises(SgfiError, match="terminal"):
        sgfi.sweep(lens, x, [Query(channels=0)] * 3, terminal=torch.stack([state] * 5))
    both = [Query("act1", 0), Query("act2", 0), Query("act1", 1), Query("act2", 1)]
    with pytest.raises(SgfiError, match="one for each"):  # two for each of two tensors
        sgfi.sweep(lens, x, both, terminal=torch.stack([lens.state(x, "act1")] * 2))


def test_a_prior_whose_channels_stand_elsewhere_is_refused() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2)).eval(), torch.randn(20, 2, 40).cumsum(2)
    graph = sgfi.capture(model, x[:2])
    with pytest.raises(QueryError, match="channel_axis=1"):
        sgfi.natural(graph, sgfi.prior([x]))  # (B, C, L) is taken for tokens over time
    lens = sgfi.natural(graph, sgfi.prior([x], kind="grid", channel_axis=1))
    assert sgfi.invert(lens, x[:1], "0", 1).share.shape == (1, 40)


def test_settings_that_would_be_left_out_are_refused() -> None:
    graph = sgfi.capture(nn.Sequential(nn.Conv2d(3, 2, 3)).eval(), torch.randn(2, 3, 8, 8))
    with pytest.raises(QueryError, match="points"):
        sgfi.natural(graph, jacobian="point", points=4)
    plain, curved = (
        sgfi.natural(graph, jacobian=path).describe() for path in (Path(3), Path(3, curve=lambda x, mu, n: mu + 0 * x))
    )
    assert plain != curved and "curve" not in plain


def test_a_guessed_channel_axis_refuses_no_prior() -> None:
    """Behind a reshape nothing tells which axis of the input holds the channels."""

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.Linear(4 * 4 * 3, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.read(x.flatten(1))

    x = torch.randn(30, 4, 4, 3)
    lens = natural(sgfi.capture(Flat().eval(), x[:2]), sgfi.prior([x], kind="grid", channel_axis=3))
    assert sgfi.invert(lens, x[:1], "read", 1).share.shape == (1, 4, 4)
