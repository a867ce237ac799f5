"""What holds of every natural inverse, whatever the model."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.inversion import Query
from sgfi.natural.lens import natural
from sgfi.natural.path import Path
from sgfi.natural.prior import prior
from sgfi.natural.solution import Solver
from sgfi.natural.solve import Problem
from tests.analytic import Line, captured, tiny
from tests.natural.dense import TIGHT, Dense, averaged_jacobian, fitted_prior, lens_of, query_of, selected

ROUTES = {
    "exact": Solver(),
    "conjugate gradients": TIGHT,
    "ensemble": replace(TIGHT, preconditioner="ensemble", ensemble=8),
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["chain", "tokens", "vector"])
def test_a_zero_target_gives_exactly_zero(name: str, route: str) -> None:
    lens, x = lens_of(name, solver=ROUTES[route]), tiny(name).inputs(2, seed=3)
    query = query_of(name, 1)
    zero = torch.zeros_like(lens.answer(x, [query])[0].states[tiny(name).target])
    (answer,) = lens.answer(x, [query], terminal=zero)
    assert not answer.value.any() and not answer.residual.any()
    (at_the_mean,) = lens.answer(lens.prior.mean.unsqueeze(0), [query])
    assert at_the_mean.value.abs().max() < 1e-12


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["chain", "tokens"])
def test_the_answer_is_linear_in_the_target(name: str, route: str) -> None:
    lens, x, query = lens_of(name, solver=ROUTES[route]), tiny(name).inputs(2, seed=3), query_of(name, 1)
    shape = lens.answer(x, [query])[0].states[tiny(name).target].shape
    first, second = torch.randn(2, *shape, dtype=torch.float64)
    parts = [lens.answer(x, [query], terminal=terminal)[0] for terminal in (first, second, 2 * first - 30 * second)]
    torch.testing.assert_close(parts[2].value, 2 * parts[0].value - 30 * parts[1].value, rtol=0, atol=1e-8)
    assert parts[0].ridge.equal(parts[2].ridge)


def test_numbers_outside_the_query_are_not_read() -> None:
    lens, x, query = lens_of("chain"), tiny("chain").inputs(1, seed=3), query_of("chain", 1)
    terminal = torch.randn(1, 5, 3, 3, dtype=torch.float64)
    other = terminal.clone()
    other[:, [0, 2, 4]] = 1e6
    for solver in ROUTES.values():
        value, changed = (
            replace(lens, solver=solver).answer(x, [query], terminal=t)[0].value for t in (terminal, other)
        )
        assert value.equal(changed)


@pytest.mark.parametrize("name", ["chain", "tokens", "vector"])
def test_the_share_lies_between_zero_and_one_and_grows_with_the_query(name: str) -> None:
    """lambda is the tensor's or the position's, however many channels are asked for."""
    x, graph = tiny(name).inputs(1, seed=3), captured(name)
    channels = graph.nodes[tiny(name).target].channels
    shares, absolute = [], None
    for size in range(1, channels + 1):
        query = Query(tiny(name).target, list(range(size)))
        (answer,) = lens_of(name).answer(x, [query])
        absolute = absolute or float(answer.ridge[0])
        assert float(answer.ridge[0]) == absolute
        shares.append(answer.share)
    assert min(share.min() for share in shares) >= 0 and max(share.max() for share in shares) <= 1
    for smaller, larger in pairwise(shares):
        assert (larger >= smaller - 1e-10).all()
    assert shares[-1].mean() > shares[0].mean() + 0.01


@pytest.mark.parametrize("name", ["chain", "tokens", "causal"])
def test_the_share_grows_with_the_positions_asked_about(name: str) -> None:
    x, node = tiny(name).inputs(1, seed=3), captured(name).nodes[tiny(name).target]
    cells = list(product(*map(range, node.coord_shape)))
    shares = [
        lens_of(name).answer(x, [Query(node.name, None, cells[:size])])[0].share for size in range(1, len(cells) + 1)
    ]
    for smaller, larger in pairwise(shares):
        assert (larger >= smaller - 1e-10).all()
    assert shares[-1].mean() > shares[0].mean() + 0.01


def test_a_share_of_a_larger_prior_part_falls_with_lambda() -> None:
    x, query = tiny("chain").inputs(1, seed=3), query_of("chain", 1)
    shares = [lens_of("chain", ridge=ridge).answer(x, [query])[0].share for ridge in (1e-4, 1e-2, 1.0)]
    assert (shares[0] > shares[1]).all() and (shares[1] > shares[2]).all()


@pytest.mark.parametrize("jacobian", ["point", "path"])
def test_an_invertible_linear_model_is_inverted(jacobian: str) -> None:
    matrix = torch.randn(5, 5, dtype=torch.float64) + 3 * torch.eye(5, dtype=torch.float64)
    model = Line(matrix).eval()
    graph = sgfi.capture(model, torch.randn(2, 5, dtype=torch.float64))
    fitted = prior([torch.randn(40, 5, dtype=torch.float64) + 1])
    x = torch.randn(3, 5, dtype=torch.float64)
    (answer,) = natural(graph, fitted, jacobian, ridge=1e-12).answer(x, [Query("fc")])
    torch.testing.assert_close(answer.value, x - fitted.mean, rtol=0, atol=1e-8)
    torch.testing.assert_close(answer.share, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-8)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["causal", "two layers"])
def test_later_tokens_change_nothing(name: str, route: str) -> None:
    model, lens = tiny(name), lens_of(name, solver=ROUTES[route])
    x, last = model.inputs(2, seed=3), 2
    later = x.clone()
    later[:, last + 1 :] = torch.randn_like(later[:, last + 1 :])
    queries = [Query(model.target, None, [last]), Query(model.target, [1, 4], [1, last])]
    for here, there in zip(lens.answer(x, queries), lens.answer(later, queries), strict=True):
        assert not here.value[:, last + 1 :].any()
        assert here.value[:, : last + 1].abs().amax((1, 2)).min() > 0
        torch.testing.assert_close(here.value, there.value, rtol=0, atol=1e-12)
        torch.testing.assert_close(here.share, there.share, rtol=0, atol=1e-12)
        if route == "exact":
            assert not here.share[:, last + 1 :].any()


def test_a_feature_that_hears_nothing_says_nothing() -> None:
    """A dead channel: zero and finite, with any target."""
    lens, x = lens_of("dead"), tiny("dead").inputs(1, seed=3)
    query = Query("act1", [1])
    for solver in (Solver(), Solver(exact_up_to=0)):
        terminal = torch.randn(1, 4, 5, 6, dtype=torch.float64)
        (answer,) = replace(lens, solver=solver).answer(x, [query], terminal=terminal)
        assert not answer.value.any() and not answer.share.any()
        assert torch.isfinite(answer.ridge).all() and torch.isfinite(answer.residual).all()


def test_samples_keep_what_the_feature_registered_and_vary_as_the_posterior() -> None:
    model, count = tiny("chain"), 4000
    x, query = model.inputs(1, seed=3), Query("conv3", [1, 3])
    lens = lens_of("chain", ridge=1e-3, target_value="tangent")
    (answer,) = lens.answer(x, [query])
    mu = lens.prior.mean
    matrix = averaged_jacobian(model, "conv3", x, mu, "half", 3)
    dense = Dense(matrix, lens.prior.dense(), selected((5, 3, 3), 1, query), float(answer.ridge[0]))
    deviations = (lens.samples(x, query, count, seed=5) - mu)[:, 0].flatten(1)  # (count, N)
    registered = (matrix @ (x - mu).flatten())[dense.P]
    kept = deviations @ matrix.mT[:, dense.P]
    prior_spread = (matrix @ dense.S @ matrix.mT).diagonal()[dense.P].sqrt()
    assert ((kept - registered).std(0) / prior_spread).max() < 0.1
    torch.testing.assert_close(deviations.mean(0), answer.value.flatten(), rtol=0, atol=0.12)
    posterior = dense.S - dense.explained
    torch.testing.assert_close(deviations.mT.cov(), posterior, rtol=0, atol=0.08 * float(posterior.max()))


def test_samples_by_conjugate_gradients_are_the_exact_ones() -> None:
    x, query = tiny("chain").inputs(2, seed=3), Query("conv3", [1, 3])
    exact = lens_of("chain")
    loose = lens_of("chain", solver=TIGHT)
    torch.testing.assert_close(loose.samples(x, query, 3), exact.samples(x, query, 3), rtol=0, atol=1e-8)


def test_a_float32_model_is_answered_in_float32() -> None:
    model = Line(torch.randn(6, 6, dtype=torch.float64)).float().eval()
    graph = sgfi.capture(model, torch.randn(2, 6))
    x = torch.randn(4, 6)
    lens = natural(graph, prior([torch.randn(40, 6)]), Path(2, "gauss"))
    for solver in (Solver(), Solver(exact_up_to=0, steps=30, tolerance=1e-5)):
        (answer,) = replace(lens, solver=solver).answer(x, [Query("fc")])
        assert answer.value.dtype == torch.float32 and answer.ridge.dtype == torch.float64
        assert answer.residual.max() < 1e-4


def test_lambda_is_relative_to_the_mean_response() -> None:
    """Draws from the prior estimate ``diag(J S J*)``; many of them come near it."""
    lens, x = lens_of("chain"), tiny("chain").inputs(1, seed=3)
    problem = lens._problem(x, lens.node("conv3"))
    many = Problem(problem.jacobian, problem.prior, 0.01, Solver(probes=4000), 1)
    matrix = averaged_jacobian(tiny("chain"), "conv3", x, lens.prior.mean, "half", 3)
    expected = (matrix @ fitted_prior("chain").dense() @ matrix.mT).diagonal().reshape(1, 5, 3, 3)
    torch.testing.assert_close(many.response, expected, rtol=0.15, atol=0)
    assert float(many.ridge(torch.ones(5, 3, 3, dtype=torch.bool))) == pytest.approx(
        0.01 * float(expected.mean()), rel=0.05
    )


class Weights(nn.Module):
    """Causal attention of two heads: the first token's weights never change."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 6, bias=False) for _ in range(3))
        self.soft = nn.Softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part(x).unflatten(2, (2, 3)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        weights = self.soft((query @ key.transpose(-1, -2)).masked_fill(hidden, -1e9))
        return (weights @ value).transpose(1, 2).flatten(2)


def test_a_position_that_never_responds_does_not_set_lambda() -> None:
    torch.manual_seed(0)
    model, x = Weights().double().eval(), torch.randn(1, 5, 4, dtype=torch.float64)
    lens = sgfi.natural(sgfi.capture(model, x), sgfi.prior([torch.randn(100, 5, 4, dtype=torch.float64)]))
    part, whole, masked = (sgfi.invert(lens, x, query) for query in ("soft:1@3,1", "soft:1@3,*", "soft:1@0,0"))
    assert part.share is not None and whole.share is not None and masked.share is not None
    assert (whole.share >= part.share - 1e-9).all() and 0 < float(whole.ridge) <= float(part.ridge)
    assert float(masked.ridge) == 1 and not masked.value.any()  # nothing responds: any number would do
