"""Removal against a model whose answer is known: a linear one, where every effect is an inner product."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sgfi
from sgfi.errors import QueryError
from sgfi.evaluation.removal import Trial, removal, removal_of
from sgfi.evaluation.trust import Trust, neighbours, trust
from sgfi.natural import Prior
from tests.analytic import Line, captured, tiny
from tests.natural.dense import lens_of

QUERIES = [sgfi.Query("fc", channel) for channel in range(4)]


def linear() -> tuple[sgfi.TensorGraph, torch.Tensor, Prior, torch.Tensor]:
    matrix = torch.randn(4, 6, dtype=torch.float64)
    graph = sgfi.capture(Line(matrix).eval(), torch.randn(2, 6, dtype=torch.float64))
    fitted = sgfi.prior([torch.randn(40, 6, dtype=torch.float64) @ torch.randn(6, 6, dtype=torch.float64)])
    return graph, matrix, fitted, torch.randn(3, 6, dtype=torch.float64)


@pytest.mark.parametrize("scale", ["size", "response", "energy"])
def test_effects_of_a_linear_model_are_inner_products(scale: str) -> None:
    graph, matrix, fitted, x = linear()
    pictures = [torch.randn_like(x) for _ in QUERIES]
    measured = removal(graph, x, QUERIES, pictures, fitted, scale, share=0.2)
    deviation = (x - fitted.mean) @ matrix.mT  # (B, 4)
    inverse = torch.linalg.inv(fitted.dense())
    for index, picture in enumerate(pictures):
        for row in range(len(x)):
            change, whole = picture[row], x[row] - fitted.mean
            if scale == "size":
                factor = 0.2 * whole.norm() / change.norm()
            elif scale == "energy":
                factor = 0.2 * ((whole @ inverse @ whole) / (change @ inverse @ change)).sqrt()
            else:
                factor = 0.2 * deviation[row, index] / (matrix @ change)[index]
            effect = factor * (matrix @ change) / deviation[row]
            torch.testing.assert_close(measured.effect[row, index], effect)
            torch.testing.assert_close(measured.size[row, index], factor.abs() * change.norm() / whole.norm())
    trial = Trial.of(graph, x, QUERIES, fitted)
    pushed = trial.pushed(pictures)
    unit = torch.stack(pictures) / torch.stack(pictures).norm(dim=2, keepdim=True)  # (Q, B, 6)
    torch.testing.assert_close(pushed, (unit @ matrix.mT / deviation).transpose(0, 1))
    torch.testing.assert_close(trial.removal(pictures, scale, 0.2, pushed).effect, measured.effect)


def test_a_trial_keeps_the_input_as_it_was() -> None:
    graph, _, fitted, x = linear()
    pictures = [torch.randn_like(x) for _ in QUERIES]
    expected, trial = removal(graph, x, QUERIES, pictures, fitted), Trial.of(graph, x, QUERIES, fitted)
    x.zero_()
    torch.testing.assert_close(trial.removal(pictures).effect, expected.effect)


def test_who_is_best_at_its_own() -> None:
    """Orthogonal features: each picture is its own row and takes nothing from the others."""
    graph = sgfi.capture(Line(torch.eye(4, dtype=torch.float64)).eval(), torch.randn(2, 4, dtype=torch.float64))
    fitted, x = sgfi.prior([torch.randn(50, 4, dtype=torch.float64)]), torch.randn(2, 4, dtype=torch.float64) + 3
    rows = torch.eye(4, dtype=torch.float64)
    own = removal(graph, x, QUERIES, [row * (x - fitted.mean) for row in rows], fitted, "response")
    assert own.best_at_own.eq(1).all() and own.others.abs().max() < 1e-12
    torch.testing.assert_close(own.own, torch.full_like(own.own, 0.15))
    moved = removal(graph, x, QUERIES, [row * (x - fitted.mean) for row in rows.roll(1, 0)], fitted)
    assert moved.best_at_own.eq(0).all()
    tied = removal(graph, x, QUERIES, [x - fitted.mean] * 4, fitted)
    torch.testing.assert_close(tied.best_at_own, torch.full_like(tied.own, 0.25))
    blank = removal(graph, x, QUERIES, [torch.zeros_like(x)] * 4, fitted)
    assert not blank.effect.any() and not blank.size.any()


def test_an_estimator_s_own_answers_and_misuse() -> None:
    lens, x = lens_of("chain"), tiny("chain").inputs(2, seed=3)
    queries = [sgfi.Query("conv3", channel) for channel in (0, 2)]
    ours = removal_of(lens, x, queries, lens.prior)
    values = [answer.value for answer in sgfi.sweep(lens, x, queries)]
    torch.testing.assert_close(ours.effect, removal(lens.graph, x, queries, values, lens.prior).effect)
    assert ours.own.mean() > ours.others.mean()
    torch.testing.assert_close(removal_of(lens, x, ["conv3:0", "conv3:2"], lens.prior).effect, ours.effect)
    with pytest.raises(QueryError, match=r"sgfi\.Query"):
        removal_of(lens, x, [0, 2], lens.prior)  # type: ignore[list-item]
    for wrong in (
        {"scale": "length"},
        {"pictures": values[:1]},
        {"queries": [sgfi.Query("conv3"), sgfi.Query("act1")]},
        {"queries": [sgfi.Query(), sgfi.Query()]},
    ):
        with pytest.raises(QueryError):
            removal(
                **{"graph": lens.graph, "x": x, "queries": queries, "pictures": values, "prior": lens.prior, **wrong}
            )


def test_controls_are_the_answers_to_other_targets() -> None:
    lens, x, query = lens_of("chain"), tiny("chain").inputs(3, seed=3), sgfi.Query("conv3", [1])
    verdict = trust(lens, x, query)
    swapped = sgfi.invert(lens, x, "conv3", [1], terminal=verdict.inverse.states["conv3"].roll(1, 0)).value
    torch.testing.assert_close(verdict.controls["another input's target"], swapped)
    cosine = torch.nn.functional.cosine_similarity(swapped.flatten(1), verdict.inverse.value.flatten(1))
    assert verdict.swapped is not None and verdict.neighbours is not None
    torch.testing.assert_close(verdict.swapped, cosine)
    assert (verdict.random.abs() <= 1 + 1e-9).all() and "random target" in verdict.sentence()
    alone = trust(lens, x[:1], query)
    assert alone.swapped is None
    given = trust(lens, x[:1], query, others=x[1:2])
    elsewhere = sgfi.invert(lens, x[1:2], "conv3", [1]).states["conv3"]
    expected = sgfi.invert(lens, x[:1], "conv3", [1], terminal=elsewhere).value
    torch.testing.assert_close(given.controls["another input's target"], expected)


def test_a_query_of_one_number_has_no_random_control() -> None:
    single = trust(lens_of("chain"), tiny("chain").inputs(2, seed=3), sgfi.Query("conv3", [1], [(1, 1)]))
    assert single.random is None and single.numbers == 1 and "only scale" in single.sentence()
    assert list(single.controls) == ["neighbour :1@0,0", "neighbour :1@0,2"]
    assert single.swapped is None and single.targets is None  # it could only be plus or minus one


def test_maps_that_show_the_operating_point_are_said_to() -> None:
    """An estimator that answers with the input whatever it is asked."""

    class Photograph:
        def __init__(self, lens: sgfi.NaturalInverse) -> None:
            self.graph, self.target, self.targets, self.node = lens.graph, lens.target, lens.targets, lens.node
            self.state = lens.state

        def answer(self, x, queries, terminal=None, stage="final"):  # type: ignore[no-untyped-def]
            state = torch.ones(len(x), 5, 3, 3, dtype=x.dtype)
            return [sgfi.Inverse(x, {"input": x, "conv3": state}, query, stage) for query in queries]

    verdict = trust(Photograph(lens_of("chain")), tiny("chain").inputs(2, seed=3), sgfi.Query("conv3", [1]))
    assert "operating point" in verdict.sentence() and verdict.random.min() > 0.999


def planted(random: float, swapped: float | None, neighbours: float | None, targets: float | None = None) -> Trust:
    """An answer whose controls are what we say."""
    inverse = sgfi.Inverse(torch.ones(1, 2), {}, sgfi.Query("conv3"), "final")
    score = lambda value: None if value is None else torch.tensor([value])  # noqa: E731
    return Trust(inverse, score(random), 100, score(swapped), score(neighbours), {}, score(targets))


@pytest.mark.parametrize(
    ("scores", "verdict", "words"),
    [
        (
            (0.1, 0.2, 0.1, 0.1),
            "follows",
            "follows its target (mean absolute cosine 0.10 of 0 random targets, threshold 0.50",
        ),
        ((0.1, 0.88, 0.1, 0.1), "swapped", "(cosine 0.88), though the two targets differ (cosine 0.10)"),
        ((0.1, -0.99, 0.1, 0.1), "swapped", "nearly this one, reversed (cosine -0.99)"),
        (
            (0.1, 0.88, 0.1, 0.9),
            "swapped",
            "the two targets are alike themselves (cosine 0.90), so this pair cannot tell",
        ),
        ((0.1, 0.88, 0.95, None), "swapped", "another input's target gives nearly this one (cosine 0.88)."),
        ((0.9, 0.88, 0.1, 0.1), "operating point", "random targets give nearly the same (mean absolute cosine 0.90"),
        ((0.6, 0.88, 0.1, 0.1), "operating point", "random targets give similar ones (mean absolute cosine 0.60"),
        ((0.1, 0.2, 0.95, 0.1), "alike", "hardly this query's own"),
        ((0.1, None, 0.2, None), "untried", "no other input's target was tried"),
        ((0.1, None, 0.95, None), "alike", "hardly this query's own"),
    ],
)
def test_a_picture_is_said_to_follow_its_target_only_where_no_control_gives_it(scores, verdict, words) -> None:  # type: ignore[no-untyped-def]
    checked = planted(*scores)
    assert checked.verdict() == verdict and words in checked.sentence()
    assert ("follows" in checked.sentence()) == (verdict == "follows")


def test_an_answer_that_only_scales_with_its_target_is_not_said_to_follow_it() -> None:
    """Planted: the picture is the operating point times the target's mean, so that random targets, whose means are
    small and of either sign, look unlike while another input's target gives the same picture."""

    class Scaled:
        def __init__(self, lens: sgfi.NaturalInverse) -> None:
            self.graph, self.target, self.targets, self.node = lens.graph, lens.target, lens.targets, lens.node

        def state(self, x, target=None):  # type: ignore[no-untyped-def]
            numbers = torch.linspace(-1, 1, 45, dtype=x.dtype).reshape(5, 3, 3)
            return 1 + torch.stack([numbers.roll(11 * row, 0) for row in range(len(x))])

        def answer(self, x, queries, terminal=None, stage="final"):  # type: ignore[no-untyped-def]
            noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
            means = [t.flatten(1).mean(1).reshape(-1, *[1] * (x.dim() - 1)) for t in terminal]
            values = [mean * x + (mean - 1).abs() * index * noise for index, mean in enumerate(means)]
            return [sgfi.Inverse(v, {"input": v}, query, stage) for v, query in zip(values, queries, strict=True)]

    checked = trust(Scaled(lens_of("chain")), tiny("chain").inputs(2, seed=3), sgfi.Query("conv3"))
    assert float(checked.swapped[0]) > 0.99 and checked.verdict() == "swapped"
    assert "follows" not in checked.sentence() and "another input's target gives nearly this one" in checked.sentence()


def test_the_cosine_of_two_targets_is_over_what_the_query_selects() -> None:
    lens, x = lens_of("chain"), tiny("chain").inputs(2, seed=3)
    checked = trust(lens, x, sgfi.Query("conv3", [1]))
    own = lens.state(x, "conv3")[:, 1].flatten(1)
    assert checked.targets is not None
    torch.testing.assert_close(checked.targets, torch.cosine_similarity(own, own.roll(1, 0)))


def test_neighbours_stand_beside_the_query() -> None:
    node = captured("chain").nodes["conv3"]
    assert neighbours(sgfi.Query("conv3"), node) == []
    near = neighbours(sgfi.Query("conv3", None, [(1, 1)]), node)
    assert len(near) == 4 and all(q.coords != ((1, 1),) for q in near)
    corner = neighbours(sgfi.Query("conv3", None, [(0, 0)]), node)
    assert all(min(q.coords[0]) >= 0 for q in corner) and corner  # type: ignore[index]
    others = neighbours(sgfi.Query("conv3", [2]), node)
    assert others and all(q.channels != (2,) for q in others)


def test_what_cannot_be_removed_is_refused() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2), nn.Tanh(), nn.Conv1d(4, 3, 3)).eval()
    x, queries = torch.randn(2, 2, 12), [sgfi.Query("2", 0)]
    prior, graph = sgfi.prior([torch.randn(40, 2, 12)], kind="grid", channel_axis=1), sgfi.capture(model, x)
    for picture in (torch.randn(2, 1, 12), torch.full_like(x, torch.nan), None, x.numpy()):
        with pytest.raises(QueryError, match="finite pictures"):
            removal(graph, x, queries, [picture], prior)  # type: ignore[list-item]
    for share in (-1, 0, "a", True, float("nan")):
        with pytest.raises(QueryError, match="positive share"):
            removal(graph, x, queries, [x], prior, share=share)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match=r"prior\.resized"):
        removal(graph, x, queries, [x], prior.resized((2, 6)))
    with pytest.raises(QueryError):
        removal(graph, x, [0], [x], prior)  # type: ignore[list-item]
    with pytest.raises(QueryError, match="captured graph"):
        removal(model, x, queries, [x], prior)  # type: ignore[arg-type]
