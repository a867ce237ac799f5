"""Controls on families whose answers are known, and on the tiny models of the oracle."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import DataError, QueryError
from sgfi.evaluation import controls, paths
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.representation import forward_states, reencoding, separation
from sgfi.evaluation.rows import average, partner
from sgfi.inversion.estimator import spread
from tests.analytic import captured, tiny
from tests.estimators import Backpropagation
from tests.evaluation.known import orthogonal_family, signs, square_family


def family_of(name: str, **options) -> sgfi.MapFamily:
    model = tiny(name)
    plan = sgfi.plan(captured(name), target=model.target, boundaries=list(model.boundaries))
    return sgfi.calibrate(plan, [model.inputs(12)], progress=False, **options)


def means(rows) -> dict:
    return {(label, score): float(value.mean()) for label, row in rows.items() for score, value in row.items()}


@pytest.mark.parametrize("name", ["chain", "fork", "tokens"])
def test_zero_is_exactly_zero(name: str) -> None:
    scores = controls.zero(family_of(name), tiny(name).inputs(3, seed=5))
    assert (scores["zero"]["norm_ratio"] == 0).all()


def test_outputs_follow_the_operating_point_where_the_target_forgets_it() -> None:
    family, x = square_family(), signs(8, 9)
    scores = means(controls.swap(family, x))
    for row, to, away in [("H_A J_B", "to_B", "to_A"), ("H_B J_A", "to_A", "to_B"), ("H_A J_A", "to_A", "to_B")]:
        assert scores[row, to] > 0.99 and abs(scores[row, away]) < 0.1
    scores = means(controls.shuffles(family, x))
    assert scores["terminal shuffle", "to_input"] > 0.99 and abs(scores["terminal shuffle", "to_target"]) < 0.1
    assert scores["source shuffle", "to_new"] > 0.99 and abs(scores["source shuffle", "to_old"]) < 0.1


def test_outputs_follow_the_target_where_the_operating_point_does_not_matter() -> None:
    family = orthogonal_family()
    x = torch.randn(5, 6, dtype=torch.float64)
    scores = means(controls.shuffles(family, x))
    assert scores["terminal shuffle", "to_target"] > 1 - 1e-9 and scores["source shuffle", "to_old"] > 1 - 1e-9


def test_interpolation_walks_from_one_image_to_the_other() -> None:
    family, x = square_family(), signs(8, 9)
    rows = controls.interpolation(family, x, (0, 0.25, 0.5, 0.75, 1))
    assert torch.allclose(rows["0"]["to_A"], controls.shuffles(family, x)["same"]["own"])
    steps = [float(row["to_A"].mean()) for row in rows.values()]
    assert steps == sorted(steps, reverse=True)
    assert controls.crossover(rows)["crossover"]["at"] == pytest.approx(0.5, abs=0.02)
    apart = {"0": {"to_A": [1.0], "to_B": [0.0]}, "1": {"to_A": [1.0], "to_B": [0.5]}}
    assert controls.crossover(apart)["crossover"]["at"] != controls.crossover(apart)["crossover"]["at"]  # NaN


def test_noise_on_the_source_moves_little() -> None:
    scores = means(controls.source_noise(square_family(), signs(4, 9), (0.01, 0.1)))
    assert scores["0", "change"] == 0 < scores["0.01", "change"] < scores["0.1", "change"] < 0.02


def test_channels_of_an_orthogonal_layer_have_orthogonal_inverses() -> None:
    x = torch.randn(4, 6, dtype=torch.float64)
    assert controls.channel_diversity(orthogonal_family(), x)["channels"]["pairwise_cosine"].abs().max() < 1e-3
    with pytest.raises(QueryError, match="two channels"):
        controls.channel_diversity(orthogonal_family(), x, [1])


@pytest.mark.parametrize("name", ["residual", "tokens"])
def test_laws_of_the_walk(name: str) -> None:
    family, x = family_of(name), tiny(name).inputs(3, seed=5)
    for row in controls.linearity(family, x).values():
        assert row["error"].max() < 1e-10
    scores = controls.recomposition(family, x)
    assert scores["raw"]["error"].max() < 1e-10 and scores["first"]["error"].max() < 1e-10
    assert scores["final"]["error"].max() > 1e-6  # affine in 1/|S|: not a rounding error
    scores = controls.composition(family, x)
    assert scores["restart"]["error"].max() < 1e-10 < scores["direct"]["error"].max()
    assert controls.public_path(family, x)["public"]["largest_difference"].max() < 1e-12


def test_composition_restarts_where_the_family_can_answer() -> None:
    """A fork's middle boundary has another frontier as a target: the control passes it over."""
    family, x = family_of("fork"), tiny("fork").inputs(3, seed=5)
    assert set(family.plan.fitted) - {"input"} > set(family.targets) - {family.target}
    assert controls.composition(family, x)["restart"]["error"].max() < 1e-10


def test_composition_needs_a_middle() -> None:
    with pytest.raises(QueryError, match="between"):
        controls.composition(square_family(), signs(2))


def test_true_child_oracle_is_a_walk_on_forward_states() -> None:
    model, family = tiny("chain"), family_of("chain")
    x = model.inputs(3, seed=5)
    for update, _ in paths.trace(family, x, true_children=True):
        truth = forward_states(family.graph, x, update.children)
        assert all(torch.equal(given, truth[u]) for given, u in zip(update.given, update.children, strict=True))
    # a single update reads the target itself, where the true child is the deployed one
    rows = controls.true_child_oracle(square_family(), signs(3, 9))
    assert torch.allclose(rows["deployed"]["pixel_cosine"], rows["oracle (diagnostic)"]["pixel_cosine"])


def test_perturbed_targets() -> None:
    scores = means(controls.perturbations(orthogonal_family(), torch.randn(6, 6, dtype=torch.float64)))
    assert scores["clean", "to_clean"] == pytest.approx(1) and scores["16 bits", "to_clean"] > 1 - 1e-6
    assert scores["noise 0.1", "to_clean"] == pytest.approx(1 / (1 + 0.1**2) ** 0.5, abs=0.01)
    assert scores["4 bits", "to_clean"] < scores["8 bits", "to_clean"] < 1
    assert scores["dropout 0.5", "to_clean"] == pytest.approx(0.5**0.5, abs=0.2)


def test_mechanism_of_an_exact_inverse() -> None:
    rows = paths.mechanism(orthogonal_family(), torch.randn(3, 6, dtype=torch.float64))
    assert all(value.max() < 1e-6 for row in rows.values() for value in row.values())


def test_second_stage_lowers_the_error_it_was_fitted_on() -> None:
    family, x = family_of("tokens"), tiny("tokens").inputs(12)
    for update, truth in paths.trace(family, x, true_children=True):
        first, final = ((y - truth).square().sum() for y in update.estimates)
        assert final < first
    assert set(paths.mechanism(family, x)) == {*family.plan.fitted, "all nodes"}


def test_path_error_by_hand() -> None:
    """At one node: the JVP of the state against the child's state, on either geometry."""
    family, x = square_family(), signs(4, 9)
    y = sgfi.invert(family, x).states
    for at in (x, partner(x)):
        error = paths.path_nmse(family.plan, y, at, ["input"])["input"]
        missed = (2 * at * y["input"] - y["square"]).square().sum((1, 2, 3)) / y["square"].square().sum((1, 2, 3))
        assert torch.allclose(error, missed)


def test_faithful_states_prefer_their_own_geometry() -> None:
    scores = means(paths.faithfulness(square_family(), signs(8, 9)))
    assert scores["path", "node_win"] == 1 and scores["path", "gap"] > 1 and scores["path", "state_margin"] > 0.5
    assert abs(scores["path", "branch_cosine"]) < 0.2


def test_probed_nodes_span_the_path() -> None:
    plan = family_of("chain").plan
    assert spread(plan.fitted, 2) == [plan.fitted[0], plan.fitted[-1]]
    assert spread(plan.fitted, 7) == list(plan.fitted)
    assert paths.probes(plan) == list(plan.fitted[1:]) and plan.fitted[0] == "input"  # the paper's begin behind it
    assert set(paths.faithfulness(family_of("chain"), tiny("chain").inputs(4, seed=5))) >= {*paths.probes(plan)}
    assert paths.probes(square_family().plan) == ["input"]


def test_reencoding_of_an_exact_inverse() -> None:
    family, x = orthogonal_family(), torch.randn(6, 6, dtype=torch.float64)
    rows = reencoding(family, sgfi.invert(family, x), x)
    assert rows["matched"]["reencoding_cosine"].min() > 1 - 1e-9
    assert (
        separation({k: {s: v.tolist() for s, v in row.items()} for k, row in rows.items()})["matched"]["roc_auc"] == 1
    )


def test_controls_take_any_estimator() -> None:
    """Backpropagation has no maps and no plan; it is linear in the target, and recomposes exactly."""
    estimator, x = Backpropagation(captured("tokens"), ("block.add", "norm")), tiny("tokens").inputs(4, seed=5)
    assert (controls.zero(estimator, x)["zero"]["norm_ratio"] == 0).all()
    for row in controls.linearity(estimator, x).values():
        assert row["error"].max() < 1e-10
    for row in controls.recomposition(estimator, x).values():
        assert row["error"].max() < 1e-10
    raw = sgfi.invert(family_of("tokens"), x, stage="raw").value
    own = controls.shuffles(estimator, x)["same"]["own"]
    torch.testing.assert_close(own, pixel_cosine(raw, x))
    swapped = controls.swap(estimator, x)
    torch.testing.assert_close(swapped["H_A J_A"]["to_A"], own)
    torch.testing.assert_close(swapped["H_B J_B"]["to_B"], partner(own))
    scores = means(controls.perturbations(estimator, x))
    assert scores["clean", "to_clean"] == pytest.approx(1) and scores["dropout 0.5", "to_clean"] < 0.999
    assert reencoding(estimator, sgfi.invert(estimator, x), x)["matched"]["reencoding_cosine"].shape == (4,)
    with pytest.raises(QueryError, match="between"):  # no state on the way: nothing to restart at
        controls.composition(estimator, x)


def test_pairs_need_two() -> None:
    with pytest.raises(DataError, match="two images"):
        partner(torch.zeros(1, 3))
    assert average({"a": {"s": torch.ones(2)}, "b": {"s": torch.zeros(2), "t": torch.ones(2)}})["s"].tolist() == [
        0.5,
        0.5,
    ]
