"""Laws of the method that hold whatever the numbers are: linearity, restart, recomposition, batches."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import CalibrationError
from tests.analytic import Tiny, captured, tiny

NAMES = ["chain", "fork", "nested", "tokens", "vector", "pooled"]
STAGES = ["raw", "first", "final"]
CHILDREN = ["true", "online"]
PRECISIONS = [(n, torch.float64) for n in NAMES]
PRECISIONS += [(n, torch.float32) for n in ("chain", "fork", "tokens")]


@cache
def model_of(name: str, dtype: torch.dtype) -> Tiny:
    return tiny(name) if dtype == torch.float64 else copy.deepcopy(tiny(name)).to(dtype)


@cache
def plan_of(name: str, dtype: torch.dtype = torch.float64) -> sgfi.Plan:
    model, double = model_of(name, dtype), dtype == torch.float64
    return sgfi.plan(
        captured(name) if double else sgfi.capture(model, model.inputs(2).to(dtype)),
        target=model.target,
        boundaries=list(model.boundaries),
        axes=model.channel_axis,
    )


@cache
def family_of(name: str, children: str = "true", dtype: torch.dtype = torch.float64, stages: int = 2) -> sgfi.MapFamily:
    x = tiny(name).inputs(8).to(dtype)
    return sgfi.calibrate(plan_of(name, dtype), [x[:5], x[5:]], children=children, stages=stages, progress=False)


def inputs(name: str, count: int = 3, dtype: torch.dtype = torch.float64, seed: int = 5) -> Tensor:
    return tiny(name).inputs(count, seed=seed).to(dtype)


def target_like(name: str, x: Tensor, seed: int = 0) -> Tensor:
    """Any tensor of the target's shape will do as a terminal."""
    shape = plan_of(name).graph.nodes[tiny(name).target].shape
    g = torch.Generator().manual_seed(seed)
    return torch.randn(len(x), *shape[1:], generator=g, dtype=torch.float64).to(x.dtype)


def gap(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).norm() / expected.norm()).item()


def near(inverse: sgfi.Inverse, expected: dict[str, Tensor], tolerance: float) -> None:
    assert set(inverse.states) == set(expected)
    for name, right in expected.items():
        assert gap(inverse.states[name], right) <= tolerance, name


def mixed(weights: Sequence[float], parts: Sequence[sgfi.Inverse]) -> dict[str, Tensor]:
    """The weighted sum of inverses, state by state."""
    return {name: sum(w * p.states[name] for w, p in zip(weights, parts, strict=True)) for name in parts[0].states}


# ------------------------------------------------------------------- linear in the terminal state


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("name", "dtype"), PRECISIONS)
def test_a_zero_target_gives_exactly_zero(name: str, stage: str, dtype: torch.dtype) -> None:
    for children in CHILDREN:
        x = inputs(name, dtype=dtype)
        nothing = torch.zeros_like(target_like(name, x))
        inverse = sgfi.invert(family_of(name, children, dtype), x, terminal=nothing, stage=stage)
        assert torch.equal(inverse.value, torch.zeros_like(x))
        assert all(torch.equal(t, torch.zeros_like(t)) for t in inverse.states.values())


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("name", "dtype"), PRECISIONS)
def test_scaling_and_superposition(name: str, stage: str, dtype: torch.dtype) -> None:
    x = inputs(name, dtype=dtype)
    family = family_of(name, "online", dtype)
    a, b = target_like(name, x, 1), target_like(name, x, 2)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12

    def inverted(terminal: Tensor) -> sgfi.Inverse:
        return sgfi.invert(family, x, terminal=terminal, channels=[0, 2], stage=stage)

    ya, yb = inverted(a), inverted(b)
    near(inverted(-3.7 * a), mixed([-3.7], [ya]), tolerance)
    near(inverted(a + b), mixed([1, 1], [ya, yb]), tolerance)
    near(inverted(0.3 * a - 2 * b), mixed([0.3, -2], [ya, yb]), tolerance)


# ------------------------------------------------------------------- restart


@pytest.mark.parametrize(
    ("name", "through"),
    [
        ("chain", "conv2"),
        ("chain", "act1"),
        ("nested", "add"),
        ("nested", "v"),
        ("fork", "v"),
        ("tokens", "block"),
        ("tokens", "embed"),
        ("vector", "fc2"),
        ("pooled", "pool"),
    ],
)
@pytest.mark.parametrize("children", CHILDREN)
def test_restart_at_a_repaired_state_continues_identically(name: str, through: str, children: str) -> None:
    """``through`` is a node that every path to the target passes: its state says all there is."""
    family, x = family_of(name, children), inputs(name)
    for stage in ("first", "final"):
        whole = sgfi.invert(family, x, channels=[0, 2], stage=stage)
        again = sgfi.invert(family, x, target=through, terminal=whole.states[through], stage=stage)
        assert len(again.states) >= 2
        near(again, {n: whole.states[n] for n in again.states}, 1e-13)


@pytest.mark.parametrize(("name", "through"), [("chain", "conv2"), ("nested", "add")])
def test_raw_restarts_after_the_division_is_undone(name: str, through: str) -> None:
    """Raw divides once, by |S| at its own terminal, so a restart first takes the new division back."""
    family, x = family_of(name), inputs(name)
    node = family.plan.graph.nodes[through]
    width = node.shape[node.channel_axis]
    whole = sgfi.invert(family, x, stage="raw")
    again = sgfi.invert(family, x, target=through, terminal=width * whole.states[through], stage="raw")
    upstream = [n for n in again.states if n != through]
    assert upstream
    for n in upstream:
        assert gap(again.states[n], whole.states[n]) <= 1e-13


# ------------------------------------------------------------------- recomposition


def parts_of(name: str, x: Tensor, stage: str) -> tuple[list[sgfi.Inverse], list[float]]:
    family = family_of(name, "online")
    width = sum(len(p) for p in parts_for(name))
    parts = [sgfi.invert(family, x, channels=p, stage=stage) for p in parts_for(name)]
    return parts, [len(p) / width for p in parts_for(name)]


def parts_for(name: str) -> list[list[int]]:
    """A partition of the target's channels into unequal parts."""
    node = plan_of(name).graph.nodes[tiny(name).target]
    rest = list(range(3, node.shape[node.channel_axis]))
    return [[0], [1, *rest], [2]]


@pytest.mark.parametrize("stage", ["raw", "first"])
@pytest.mark.parametrize("name", NAMES)
def test_a_channel_partition_recomposes_the_whole(name: str, stage: str) -> None:
    """raw, first: y(S) is linear in the seed P_S H / |S|, so the mean with weights |S_i|/C is y."""
    x = inputs(name)
    parts, weights = parts_of(name, x, stage)
    whole = sgfi.invert(family_of(name, "online"), x, stage=stage)
    recomposed = mixed(weights, parts)
    for n in family_of(name).plan.fitted:
        assert gap(recomposed[n], whole.states[n]) <= 1e-12


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_final_is_affine_in_one_over_the_number_of_channels(name: str, stages: int) -> None:
    """final: y(S) = A[P_S H] / |S| + B[P_S H] with linear A, B, because corrections read y_T undivided.

    A terminal that lives on channel 1 alone is the same under every mask that keeps channel 1, so
    only |S| changes: three sizes must lie on one line in 1/|S|, with a slope and an offset.
    """
    x, family = inputs(name), family_of(name, "online", stages=stages)
    node = plan_of(name).graph.nodes[tiny(name).target]
    width = node.shape[node.channel_axis]
    alone = keep(target_like(name, x), node.channel_axis, [1])
    sizes = [1, 2, width]
    inverses = [sgfi.invert(family, x, terminal=alone, channels=c) for c in ([1], [1, 2], list(range(width)))]
    for n in family.plan.fitted:
        y = [f.states[n] for f in inverses]
        slope = (y[0] - y[1]) / (1 / sizes[0] - 1 / sizes[1])
        offset = y[0] - slope / sizes[0]
        assert gap(slope / sizes[2] + offset, y[2]) <= 1e-10
        assert offset.norm() > 1e-4 * y[2].norm()  # not linear: this is what recomposition misses


def keep(t: Tensor, axis: int, channels: list[int]) -> Tensor:
    kept = torch.zeros_like(t)
    index = torch.tensor(channels)
    return kept.index_copy(axis, index, t.index_select(axis, index))


@pytest.mark.parametrize("name", NAMES)
def test_final_recomposes_once_the_offset_is_known(name: str) -> None:
    """The weighted mean of parts misses sum_i (1 - |S_i|/C) B[P_i H], and that is all it misses.

    The parts of one terminal at one |S| add up to the whole without any weight (superposition).
    """
    x, family = inputs(name), family_of(name, "online")
    node = plan_of(name).graph.nodes[tiny(name).target]
    width = node.shape[node.channel_axis]
    whole = sgfi.invert(family, x)
    parts, weights = parts_of(name, x, "final")
    masked = [keep(whole.states[node.name], node.channel_axis, p) for p in parts_for(name)]
    wide = [sgfi.invert(family, x, terminal=t) for t in masked]
    near_all = mixed([1.0] * len(wide), wide)
    naive = mixed(weights, parts)
    for n in family.plan.fitted:
        assert gap(near_all[n], whole.states[n]) <= 1e-12
        assert gap(naive[n], whole.states[n]) > 1e-4
        missing = torch.zeros_like(whole.states[n])
        for part, all_, channels in zip(parts, wide, parts_for(name), strict=True):
            s = len(channels)  # y = A/s + B and y' = A/C + B give B = (C y' - s y) / (C - s)
            offset = (width * all_.states[n] - s * part.states[n]) / (width - s)
            missing += (1 - s / width) * offset
        assert gap(naive[n] + missing, whole.states[n]) <= 1e-10


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["chain", "tokens"])
def test_coordinates_add_up_without_weights(name: str, stage: str) -> None:
    """Coordinates do not enter the divisor, so the cells of the target sum to it at every stage."""
    x, family = inputs(name, 2), family_of(name)
    node = plan_of(name).graph.nodes[tiny(name).target]
    sizes = [node.shape[a] for a in node.coord_axes]
    cells = torch.cartesian_prod(*(torch.arange(n) for n in sizes)).reshape(-1, len(sizes))
    inverses = [sgfi.invert(family, x, coords=[tuple(c)], stage=stage) for c in cells.tolist()]
    near(sgfi.invert(family, x, stage=stage), mixed([1.0] * len(inverses), inverses), 1e-12)


# ------------------------------------------------------------------- batches


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_its_samples_one_by_one(name: str, stage: str) -> None:
    x, family = inputs(name, 4), family_of(name, "online")
    other = target_like(name, x)
    whole = sgfi.invert(family, x, channels=[0, 2], terminal=other, stage=stage)
    ones = [
        sgfi.invert(family, a, channels=[0, 2], terminal=t, stage=stage)
        for a, t in zip(x.split(1), other.split(1), strict=True)
    ]
    near(whole, {n: torch.cat([o.states[n] for o in ones]) for n in whole.states}, 1e-12)


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("name", NAMES)
def test_any_batch_split_gives_the_same_maps(name: str, children: str) -> None:
    calibration, x = tiny(name).inputs(8), inputs(name)
    splits: list[tuple[int, ...]] = [(8,), (1,) * 8, (1, 4, 3), (5, 3)]
    inverses = [
        sgfi.invert(
            sgfi.calibrate(plan_of(name), calibration.split(s), children=children, progress=False),
            x,
        )
        for s in splits
    ]
    for inverse in inverses[1:]:
        near(inverse, dict(inverses[0].states), 1e-10)


@pytest.mark.parametrize("children", CHILDREN)
def test_the_order_of_calibration_inputs_does_not_matter(children: str) -> None:
    calibration, x = tiny("fork").inputs(8), inputs("fork")
    turned = sgfi.calibrate(plan_of("fork"), [calibration.flip(0)], children=children, progress=False)
    near(sgfi.invert(turned, x), dict(sgfi.invert(family_of("fork", children), x).states), 1e-10)


class Counted:
    """Batches that count how often they are walked through."""

    def __init__(self, batches: Sequence[Tensor]) -> None:
        self.batches, self.passes = batches, 0

    def __iter__(self) -> Iterator[Tensor]:
        self.passes += 1
        return iter(self.batches)


@pytest.mark.parametrize("children", CHILDREN)
@pytest.mark.parametrize("name", ["chain", "fork", "tokens"])
def test_a_memory_budget_costs_passes_and_changes_nothing(name: str, children: str) -> None:
    """Lower the budget until a node no longer fits: every fit before that is the same fit."""
    x = inputs(name)
    free = Counted(tiny(name).inputs(8).split(3))
    family = sgfi.calibrate(plan_of(name), free, children=children, progress=False)
    expected = dict(sgfi.invert(family, x).states)
    budget, walked = 2**18, []
    while budget > 2**8:
        tight = Counted(free.batches)
        try:
            family = sgfi.calibrate(plan_of(name), tight, children=children, memory=budget, progress=False)
        except CalibrationError:
            break
        near(sgfi.invert(family, x), expected, 1e-10)
        walked.append(tight.passes)
        budget = budget * 5 // 6
    assert budget > 2**8  # some budget is refused
    assert walked == sorted(walked) and walked[0] >= free.passes
    if children == "true":  # online calibration takes one node at a time anyway
        assert walked[-1] > free.passes


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ["chain", "fork", "vector"])
def test_a_stored_family_answers_the_same(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Also in double precision, whose complex numbers the file format holds as pairs."""
    family, x = family_of(name, "online", dtype), inputs(name, dtype=dtype)
    sgfi.save(family, tmp_path / "maps")
    loaded = sgfi.load(tmp_path / "maps", model_of(name, dtype))
    for maps in loaded.maps.values():
        for weight in (w for wiener_map in maps for w in wiener_map.weights.values()):
            assert weight.data_ptr() % weight.element_size() == 0  # kernels crash on less
    expected, answer = sgfi.invert(family, x), sgfi.invert(loaded, x)
    near(answer, dict(expected.states), 1e-5 if dtype == torch.float32 else 1e-13)


def test_calibrating_twice_gives_the_same_bits() -> None:
    x = inputs("tokens")
    calibration = list(tiny("tokens").inputs(8).split(3))
    once, twice = (sgfi.invert(sgfi.calibrate(plan_of("tokens"), calibration, progress=False), x) for _ in range(2))
    assert all(torch.equal(once.states[n], twice.states[n]) for n in once.states)


# ------------------------------------------------------------------- the model is left alone

HOOKS = [key for key in vars(nn.Module()) if "hook" in key]


def portrait(model: nn.Module) -> dict[str, Any]:
    """Everything about a model that an engine has no business changing."""
    return {
        "state": {k: v.clone() for k, v in model.state_dict().items()},
        "where": {k: v.data_ptr() for k, v in model.state_dict(keep_vars=True).items()},
        "flags": {k: m.training for k, m in model.named_modules()},
        "learns": {k: p.requires_grad for k, p in model.named_parameters()},
        "slopes": {k: p.grad for k, p in model.named_parameters()},
        "hooks": {k: [list(getattr(m, h) or ()) for h in HOOKS] for k, m in model.named_modules()},
        "fields": {k: sorted(vars(m)) for k, m in model.named_modules()},
        "forward": {k: m.forward.__func__ for k, m in model.named_modules()},
    }


def same_portrait(before: dict[str, Any], after: dict[str, Any]) -> None:
    states = before.pop("state"), after.pop("state")
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert before == after


@pytest.mark.parametrize("name", ["relu", "residual", "tokens"])
def test_the_model_is_left_as_it_was(name: str) -> None:
    model = copy.deepcopy(tiny(name))
    for i, p in enumerate(model.parameters()):
        p.requires_grad_(i % 2 == 0)
    heard: list[str] = []
    first = next(m for m in model.modules() if not list(m.children()))
    first.register_forward_hook(lambda *_: heard.append("hook"))
    calibration, x = model.inputs(6), model.inputs(2, seed=5)
    copies = calibration.clone(), x.clone()
    before, grad = portrait(model), torch.is_grad_enabled()
    graph = sgfi.capture(model, x)
    plan = sgfi.plan(graph, target=model.target, boundaries=list(model.boundaries))
    same_portrait(dict(before), portrait(model))
    for children in CHILDREN:
        family = sgfi.calibrate(plan, [calibration], children=children, progress=False)
        for stage in STAGES:
            inverse = sgfi.invert(family, x, channels=[0], stage=stage)
            assert not any(t.requires_grad for t in inverse.states.values())
        sgfi.sweep(family, x, [sgfi.Query(channels=[0]), sgfi.Query(channels=[1])])
    same_portrait(dict(before), portrait(model))
    assert torch.equal(calibration, copies[0]) and torch.equal(x, copies[1])
    assert torch.is_grad_enabled() == grad
    heard.clear()
    model(x)
    assert heard == ["hook"]


def test_the_portrait_sees_a_change() -> None:
    changes: list[Callable[[nn.Module], object]] = [
        lambda m: m.train(),
        lambda m: next(m.parameters()).requires_grad_(False),
        lambda m: m.register_forward_hook(lambda *_: None),
        lambda m: m.register_buffer("extra", torch.zeros(1)),
        lambda m: next(m.parameters()).data.add_(1e-12),
        lambda m: m.float(),
    ]
    for change in changes:
        model = copy.deepcopy(tiny("chain"))
        before = portrait(model)
        change(model)
        with pytest.raises(AssertionError):
            same_portrait(before, portrait(model))
