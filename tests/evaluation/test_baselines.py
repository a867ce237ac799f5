"""Search, broken families, other seeds, finite-DAG diagnostics and the local oracle, where answers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.calibration.calibrate import fit
from sgfi.calibration.settings import FitSettings
from sgfi.derivatives import Linearisation
from sgfi.errors import DataError, QueryError
from sgfi.evaluation.baselines import (
    SEEDS,
    Search,
    permuted,
    preimage,
    preimages,
    seed_named,
    seeded_inverse,
)
from sgfi.evaluation.controls import target_state
from sgfi.evaluation.metrics import nmse, pixel_cosine
from sgfi.evaluation.stability import LinearUpdate, node_means, stability
from sgfi.evaluation.theory import directions, local_oracle
from sgfi.inversion.update import Maps, Seed
from tests.analytic import captured, tiny
from tests.evaluation.known import orthogonal_family


def family_of(name: str, **options) -> sgfi.MapFamily:
    model = tiny(name)
    plan_options = {key: options.pop(key) for key in ("operator", "partition") if key in options}
    plan = sgfi.plan(captured(name), target=model.target, boundaries=list(model.boundaries), **plan_options)
    return sgfi.calibrate(plan, list(model.inputs(12).split(6)), progress=False, **options)


def seeded_maps(plan: sgfi.Plan, batches: list[Tensor], seed: Seed, maps: int = 2) -> Maps:
    return fit(FitSettings(maps=maps, seed=seed), plan, batches, progress=False).maps


# Iterative search.


def test_search_finds_the_only_preimage_of_an_orthogonal_layer() -> None:
    family, x = orthogonal_family(), torch.randn(3, 6, dtype=torch.float64)
    state = target_state(family, x)
    estimate = preimage(family.plan, state, Search(steps=250, energy=0.0), seed=0)
    assert pixel_cosine(estimate, x).min() > 0.999 and nmse(target_state(family, estimate), state).max() < 1e-3


def test_search_depends_on_its_seed_and_on_nothing_else() -> None:
    family, x = family_of("chain"), tiny("chain").inputs(2, seed=5)
    state, short = target_state(family, x), Search(steps=5)
    first, again, other = (preimage(family.plan, state, short, seed) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.allclose(first, other)


def test_penalties_pull_where_they_should() -> None:
    family, x = family_of("chain"), tiny("chain").inputs(2, seed=5)
    state = target_state(family, x)
    free = preimage(family.plan, state, Search(steps=60, variation=0, energy=0, jitter=0), 0)
    smooth = preimage(family.plan, state, Search(steps=60, variation=30, energy=0, jitter=0), 0)
    small = preimage(family.plan, state, Search(steps=60, variation=0, energy=30, jitter=0), 0)
    assert smooth.diff(dim=-1).abs().mean() < 0.5 * free.diff(dim=-1).abs().mean()
    assert small.square().mean() < 0.5 * free.square().mean()


def test_a_search_looked_at_on_the_way_is_a_shorter_search() -> None:
    family, x = family_of("chain"), tiny("chain").inputs(2, seed=5)
    state = target_state(family, x)
    by_steps = preimages(family.plan, state, Search(), 0, (2, 5))
    assert list(by_steps) == [2, 5] and all(
        torch.equal(by_steps[steps], preimage(family.plan, state, Search(steps=steps), 0)) for steps in by_steps
    )


def test_the_scale_of_the_search_s_terms_is_what_is_declared() -> None:
    """A sum over n numbers with weight w is a mean with weight n w; Adam itself does not see a common factor."""
    family, x = family_of("chain"), tiny("chain").inputs(1, seed=5)
    state, options = target_state(family, x), {"steps": 3, "jitter": 0, "variation": 0.0}
    mean = preimage(family.plan, state, Search(**options, energy=float(x[0].numel())), 0)
    total = preimage(family.plan, state, Search(**options, energy=1.0, penalties="sum"), 0)
    torch.testing.assert_close(mean, total)
    relative = preimage(family.plan, state, Search(**options, energy=1.0), 0)
    scaled = {"mean": state[0].numel(), "sum": 1.0}
    for discrepancy, numbers in scaled.items():
        weight = float(state.square().sum()) / numbers
        same = preimage(family.plan, state, Search(**options, energy=weight, discrepancy=discrepancy), 0)
        torch.testing.assert_close(same, relative, rtol=1e-4, atol=1e-5)  # Adam adds 1e-8 to the gradient's length
    with pytest.raises(QueryError, match="penalties among"):
        Search(penalties="median")


def test_search_settings_are_declared() -> None:
    with pytest.raises(DataError, match="Did you mean 'steps'"):
        Search.from_dict({"step": 3})


# Broken families and other seeds.


def test_permuted_maps_keep_their_matrices() -> None:
    family = family_of("chain")
    moved = permuted(family)
    for name in family.plan.fitted:
        for original, other in zip(family.maps[name], moved.maps[name], strict=True):
            assert original.weights["gain"].abs().sum() == pytest.approx(float(other.weights["gain"].abs().sum()))
    assert not torch.equal(family.maps["input"][0].weights["gain"], moved.maps["input"][0].weights["gain"])


@pytest.mark.parametrize("name", ["fork", "tokens"])
def test_mean_seed_is_the_engine_and_constant_seed_its_gauge(name: str) -> None:
    """``fork`` has nodes with several children of unequal channel counts only where the gauge is not absorbed."""
    family, x = family_of(name), tiny(name).inputs(3, seed=5)
    batches = list(tiny(name).inputs(12).split(6))
    mean = seeded_inverse(family.plan, seeded_maps(family.plan, batches, SEEDS["mean"]), x, SEEDS["mean"])
    assert torch.allclose(mean, sgfi.invert(family, x).value, atol=1e-10)


def test_constant_seed_is_absorbed_in_a_chain() -> None:
    plan, x = family_of("chain").plan, tiny("chain").inputs(3, seed=5)
    batches = list(tiny("chain").inputs(12).split(6))
    inverses = [
        seeded_inverse(plan, seeded_maps(plan, batches, SEEDS[kind]), x, SEEDS[kind]) for kind in ("mean", "constant")
    ]
    assert torch.allclose(*inverses, atol=1e-9)


def test_uniform_seed_forgets_the_target() -> None:
    """Its first stage does not change with the target; only the correction reads it."""
    plan = family_of("chain").plan
    maps = seeded_maps(plan, [tiny("chain").inputs(12)], SEEDS["uniform"], maps=1)
    x = tiny("chain").inputs(2, seed=5)
    point = Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
    pulled = [
        point.at("conv2").vjp([SEEDS["uniform"](scale * point.values["conv3"], plan.boundary["conv3"])])
        for scale in (1.0, 7.0)
    ]
    assert torch.equal(*pulled) and seeded_inverse(plan, maps, x, SEEDS["uniform"]).abs().max() > 0


@pytest.mark.parametrize("name", ["chain", "tokens"])
def test_metric_seeds_even_out_the_spread_of_a_state(name: str) -> None:
    """An energy v of the samples they were made of becomes v / (v + floor): of every direction, or of every channel."""
    plan, x = family_of(name).plan, tiny(name).inputs(200)
    boundary = plan.boundary[plan.children(plan.fitted[-1])[0]]
    (state,) = plan.graph.program(("input",), (boundary.name,))(x)
    before = spread(state, boundary)
    for kind, energies in (("whitened", torch.linalg.eigvalsh), ("scaled", torch.diagonal)):
        seed = seed_named(kind, plan, list(x.split(40)))
        after, known = energies(spread(boundary.channels * seed(state, boundary), boundary)), energies(before)
        torch.testing.assert_close(after, known / (known + 0.01 * before.diagonal().mean()))


def spread(state: Tensor, boundary: sgfi.boundaries.Boundary) -> Tensor:
    """(C, C): the second moment of a state's channels."""
    rows = state.movedim(boundary.basis.channel_axis, -1).flatten(0, -2)
    return rows.mT @ rows / len(state)


def test_a_metric_seed_changes_the_inverse_and_is_linear_in_the_state() -> None:
    plan, x = family_of("chain").plan, tiny("chain").inputs(3, seed=5)
    batches = list(tiny("chain").inputs(12).split(6))
    seeds = {kind: seed_named(kind, plan, batches) for kind in ("mean", "whitened")}
    inverses = [seeded_inverse(plan, seeded_maps(plan, batches, seed), x, seed) for seed in seeds.values()]
    assert not torch.allclose(*inverses, atol=1e-6)
    boundary, seed = plan.boundary["conv3"], seeds["whitened"]
    first, second = (torch.randn(2, *boundary.basis.shape, dtype=torch.float64) for _ in range(2))
    torch.testing.assert_close(seed(2 * first - second, boundary), 2 * seed(first, boundary) - seed(second, boundary))
    assert not seed(torch.zeros_like(first), boundary).any()


def test_seeded_inverse_needs_maps() -> None:
    plan = family_of("chain").plan
    with pytest.raises(QueryError, match="at least one map"):
        seeded_inverse(plan, dict.fromkeys(plan.fitted, ()), tiny("chain").inputs(2), SEEDS["mean"])


# Stability.


@pytest.mark.parametrize("operator", ["full", "diagonal", "gamma", "diagonal+rank2"])
@pytest.mark.parametrize("name", ["chain", "tokens"])
def test_adjoint_of_every_operator_family(name: str, operator: str) -> None:
    family = family_of(name, operator=operator)
    for maps in family.maps.values():
        for wiener in maps:
            a, b = (torch.randn(2, *wiener.basis.shape, dtype=torch.float64) for _ in "ab")
            assert float((wiener(a) * b).sum()) == pytest.approx(float((a * wiener.adjoint()(b)).sum()), rel=1e-9)


def updates(family: sgfi.MapFamily, x: Tensor):
    plan = family.plan
    point = Linearisation(plan.graph, plan.dag.frontiers, x, keep=[plan.target])
    for name in plan.fitted:
        channels = [plan.boundary[u].channels for u in plan.children(name)]
        yield (
            name,
            [point.values[u] for u in plan.children(name)],
            LinearUpdate(point.at(name), family.maps[name], channels),
        )


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_adjoint_of_the_local_update(stages: int) -> None:
    family, x = family_of("fork", stages=stages), tiny("fork").inputs(2, seed=5)
    for _, states, update in updates(family, x):
        z = [torch.randn_like(state) for state in states]
        y = update(z)
        w = torch.randn_like(y)
        turned = update.adjoint(w)
        assert float((y * w).sum()) == pytest.approx(
            sum(float((a * b).sum()) for a, b in zip(z, turned, strict=True)), rel=1e-9
        )


def test_gain_is_the_operator_norm() -> None:
    family, x = family_of("chain"), tiny("chain").inputs(1, seed=5)
    for _, (state,), update in updates(family, x):
        columns = torch.eye(state.numel(), dtype=torch.float64).reshape(-1, *state.shape)
        dense = torch.stack([update([column]).flatten() for column in columns], 1)
        assert float(update.gains(80)[0]) == pytest.approx(float(torch.linalg.matrix_norm(dense, 2)), rel=1e-3)


@pytest.mark.parametrize("name", ["fork", "residual"])
def test_recursion_is_exact_and_errors_stay_within_the_bound(name: str) -> None:
    rows = stability(family_of(name), tiny(name).inputs(3, seed=5), iterations=60)
    for row in rows.values():
        assert row["recursion_error"].max() < 1e-9 and row["within_bound"].min() == 1
        assert (row["error"] <= row["bound"] * (1 + 1e-4)).all()
    deepest = next(iter(rows.values()))
    assert torch.allclose(deepest["error"], deepest["defect"])  # its child is the target itself
    assert node_means({k: {s: v.tolist() for s, v in row.items()} for k, row in rows.items()}, "depth")[0] == 1


# The local oracle.


def test_local_lmmse_is_the_natural_adjoint() -> None:
    family, model = family_of("chain"), tiny("chain")
    basis = directions(family, model.inputs(40).split(20), "act1", 8)
    assert torch.allclose(basis[0].T @ basis[0], torch.eye(8, dtype=torch.float64), atol=1e-10)
    rows = local_oracle(family, model.inputs(3, seed=5), "act1", basis, draws=400)
    assert rows["natural adjoint"]["difference_from_lmmse"].max() < 1e-9
    assert torch.allclose(rows["local LMMSE"]["nmse"], rows["natural adjoint"]["nmse"])
    for other in ("raw adjoint", "rescaled adjoint", "deployed G"):
        assert (rows["local LMMSE"]["nmse"] < rows[other]["nmse"]).all()
    assert (rows["rescaled adjoint"]["nmse"] < 1).all()


def test_directions_need_enough_inputs() -> None:
    with pytest.raises(QueryError, match="Ask for fewer"):
        directions(family_of("chain"), [tiny("chain").inputs(4)], "act1", 8)


def test_forced_families_are_the_only_way_to_other_weights() -> None:
    family = family_of("chain")
    strange = replace(family, fingerprint="0" * 64)
    with pytest.raises(QueryError, match="calibrate again"):
        sgfi.invert(strange, tiny("chain").inputs(2))
    assert torch.equal(
        sgfi.invert(replace(strange, forced=True), tiny("chain").inputs(2)).value,
        sgfi.invert(family, tiny("chain").inputs(2)).value,
    )


def test_permuted_maps_are_all_moved() -> None:
    family = family_of("chain")
    for seed in range(4):
        moved = permuted(family, seed)
        for name, maps in family.maps.items():
            for own, other in zip(maps, moved.maps[name], strict=True):
                same = (own.unpacked["gain"] == other.unpacked["gain"]).flatten(1).all(1)
                assert own.partition.count == 1 or not same.any()


def test_a_search_over_tokens_shifts_tokens_and_no_channels() -> None:
    plan = family_of("tokens").plan
    (state,) = plan.graph.program(("input",), (plan.target,))(tiny("tokens").inputs(1, seed=3))
    shifts: list[tuple] = []
    original = torch.Tensor.roll

    def roll(self: Tensor, shift: Any, axes: Any = None) -> Tensor:
        shifts.append(tuple(axes))
        return original(self, shift, axes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "roll", roll)
        preimages(plan, state, Search(steps=2, jitter=1), 0, (2,))
    assert shifts == [(1,), (1,)]
