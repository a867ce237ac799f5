"""Controls that are controls: neighbours other than the query itself, noise that differs between tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import sgfi
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.random_targets import noise_like
from sgfi.evaluation.trust import Trust, neighbours, trust
from sgfi.graph import Node
from sgfi.natural import NaturalInverse, Solver, photograph_prior


def lens() -> NaturalInverse:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 3, padding=1)).double().eval()
    return sgfi.natural(sgfi.capture(model, torch.randn(2, 3, 6, 6, dtype=torch.float64)))


def node() -> Node:
    return lens().node("2")


def test_a_query_with_a_star_is_not_its_own_neighbour() -> None:
    row = sgfi.Query.parse("2:1@0,*")
    written = sgfi.Query("2", 1, [(0, column) for column in range(6)])
    assert [set(near.coords or ()) for near in neighbours(row, node())] == [
        set(near.coords or ()) for near in neighbours(written, node())
    ]
    assert neighbours(sgfi.Query.parse("2:1@*,*"), node()) == []


def test_no_neighbours_are_none() -> None:
    x = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    for query in (sgfi.Query("2", 1, [(2, 2)]), sgfi.Query("2", None, [(2, 2)]), sgfi.Query("2", 1)):
        assert neighbours(query, node(), 0) == []
        assert trust(lens(), x, query, count=0).neighbours is None


def test_random_directions_are_no_control_where_they_span_what_was_asked() -> None:
    few, most = (sgfi.Query("2", None, [(2, 2)], torch.eye(4, dtype=torch.float64)[:rows]) for rows in (2, 3))
    assert len(neighbours(few, node())) == 4 and neighbours(most, node()) == []


def test_tensors_of_a_group_are_given_noise_of_their_own() -> None:
    estimator, x = lens(), torch.randn(1, 3, 6, 6, dtype=torch.float64)
    terminals: list[torch.Tensor] = []

    class Kept(NaturalInverse):
        def answer(self, x, queries, terminal=None, stage="final"):
            terminals.append(terminal)
            return super().answer(x, queries, terminal, stage)

    own = Kept(*(getattr(estimator, name) for name in ("graph", "prior", "path", "ridge", "target_value", "solver")))
    trust(own, x, sgfi.Query("0") + sgfi.Query("2"))
    noise = max(terminals, key=torch.Tensor.numel)[-1].flatten()  # of a draw, both tensors in a row
    first, second = noise.chunk(2)
    assert abs(float(torch.cosine_similarity(first, second, 0))) < 0.5
    state, chosen = estimator.state(x, "2"), sgfi.Query("2").selection(node())
    torch.testing.assert_close(noise_like(state, chosen, 3).norm(), state.norm())


def test_an_answer_of_zero_follows_nothing() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, padding=1)).eval()
    nn.init.constant_(model[0].bias[2:3], -1e3)  # off everywhere
    graph, x = sgfi.capture(model, torch.randn(2, 3, 8, 8)), torch.randn(2, 3, 8, 8)
    silent, heard = (trust(sgfi.natural(graph), x, sgfi.Query("1", channel)) for channel in (2, 1))
    assert not silent.inverse.value.any() and silent.verdict() == "silent" != heard.verdict()
    assert "registered nothing" in silent.sentence() and "registered nothing" not in heard.sentence()


def cosines_of_draws(estimator: sgfi.Estimator, x: torch.Tensor, query: sgfi.Query, count: int) -> torch.Tensor:
    """(count, B) absolute cosines of random targets' pictures with the answer, each solved for."""
    state, chosen = estimator.state(x, query.target), query.selection(estimator.node(query.target))
    noise = [noise_like(state, chosen, 100 + draw) for draw in range(count)]
    answer, *rest = sgfi.sweep(estimator, x, [query] * (count + 1), terminal=torch.stack([state, *noise]))
    return torch.stack([pixel_cosine(other.value, answer.value) for other in rest]).abs()


def test_the_random_control_of_few_numbers_is_that_of_very_many_draws_whatever_the_seed() -> None:
    x, query = torch.randn(2, 3, 6, 6, dtype=torch.float64), sgfi.Query("2", None, [(2, 2)])
    expected = cosines_of_draws(lens(), x, query, 2000).mean(0)
    first, second = (trust(lens(), x, query, seed=seed) for seed in (0, 7))
    assert first.random is not None and first.draws > 1000 and first.error is not None and first.error.max() < 0.01
    torch.testing.assert_close(first.random, expected, rtol=0, atol=0.03)
    assert first.random.equal(second.random) and first.verdict() == second.verdict()
    drawn, again = (checked.controls["random target"] for checked in (first, second))
    assert not drawn.allclose(again)
    terminal = noise_like(lens().state(x, "2"), query.selection(node()), 7)
    torch.testing.assert_close(again, sgfi.invert(lens(), x, query, terminal=terminal).value)


def test_the_random_control_of_many_numbers_is_near_that_of_very_many_draws_and_says_how_near() -> None:
    iterative = Solver(exact_up_to=0, tolerance=1e-9, steps=200)
    estimator, x = replace(lens(), solver=iterative), torch.randn(2, 3, 6, 6, dtype=torch.float64)
    query = sgfi.Query("2", 1)
    expected = cosines_of_draws(estimator, x, query, 600).mean(0)
    for seed in (0, 50, 100):
        checked = trust(estimator, x, query, seed=seed)
        assert checked.draws == 3 and checked.random is not None and checked.error is not None
        torch.testing.assert_close(checked.random, expected, rtol=0, atol=0.06)
        assert (checked.error > 0).all() and " ± " in checked.sentence()


@pytest.mark.parametrize("limit", [0, 256])
def test_the_adjoint_of_an_answer(limit: int) -> None:
    estimator = replace(lens(), solver=Solver(exact_up_to=limit, tolerance=1e-12, steps=400))
    x, query = torch.randn(2, 3, 6, 6, dtype=torch.float64), sgfi.Query("2", [0, 2])
    terminal, picture = torch.randn(2, 4, 6, 6, dtype=torch.float64), torch.randn_like(x)
    value = sgfi.invert(estimator, x, query, terminal=terminal).value
    pulled = estimator.adjoint(x, query, picture)
    torch.testing.assert_close((value * picture).flatten(1).sum(1), (terminal * pulled).flatten(1).sum(1))


def test_a_mean_within_its_error_of_the_threshold_gives_no_verdict() -> None:
    inverse = sgfi.Inverse(torch.ones(1, 2), {}, sgfi.Query("2"), "final")

    def checked(random: float) -> Trust:
        return Trust(inverse, torch.tensor([random]), 100, None, None, {}, None, draws=3, error=torch.tensor([0.1]))

    assert [checked(random).verdict() for random in (0.25, 0.35, 0.65, 0.75)] == [
        "untried",
        "unclear",
        "unclear",
        "operating point",
    ]
    assert "Cannot tell" in checked(0.4).sentence() and "0.40 ± 0.10 of 3 random targets, threshold 0.50" in str(
        checked(0.4).sentence()
    )
    assert Trust(inverse, None, 4, None, None, {}).threshold == 0.9
    assert Trust(inverse, None, 9, None, None, {}).threshold == pytest.approx(2 / 3)


def test_every_control_has_the_cosine_of_its_own_picture() -> None:
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    checked = trust(lens(), x, "2:1@*,2")
    assert list(checked.cosines) == ["random target", "another input's target"]
    for label, cosine in checked.cosines.items():
        torch.testing.assert_close(cosine, pixel_cosine(checked.controls[label], checked.inverse.value))
    torch.testing.assert_close(checked.cosines["another input's target"], checked.swapped)


@pytest.mark.parametrize("ridge", [1.0, 0.1])
def test_an_adjoint_is_solved_whatever_the_ridge(ridge: float) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1)).double().eval()
    prior = photograph_prior((24, 24), dtype=torch.float64)
    x = prior.mean + prior.draw(1, prior.mean, 9)
    estimator, query = sgfi.natural(sgfi.capture(model, x), prior, ridge=ridge), sgfi.Query("2")
    value = sgfi.invert(estimator, x, query).value
    solved = replace(estimator, solver=Solver(steps=2000, tolerance=1e-9)).adjoint(x, query, value / value.norm())
    assert float(estimator.adjoint(x, query, value / value.norm()).norm() / solved.norm()) == pytest.approx(1, abs=0.03)


def test_units_of_a_group_do_not_change_its_random_control() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(24, 10, bias=False), nn.Linear(24, 40, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([self.a(x), self.b(x)], 1)

    torch.manual_seed(0)
    model, x = Two().double().eval(), torch.randn(3, 24, dtype=torch.float64)
    prior, scores = sgfi.prior([torch.randn(200, 24, dtype=torch.float64)]), []
    for scale in (1.0, 100.0):
        with torch.no_grad():
            model.a.weight.mul_(scale)
        checked = trust(sgfi.natural(sgfi.capture(model, x), prior), x, "a + b")
        assert checked.random is not None
        scores.append(checked.random)
    torch.testing.assert_close(scores[0], scores[1], rtol=1e-6, atol=1e-6)
