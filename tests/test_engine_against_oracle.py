"""The engine against the dense oracle: every state, stage and kind of query, and planted errors."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.errors import SgfiError
from tests.analytic import MODELS, Tiny, captured, numb, tiny
from tests.oracle import MISTAKES, Axes, Oracle, calibrated, evaluate, frontier

COUNT = 7
STAGES = ("raw", "first", "final")
TOLERANCE = 1e-8


def ragged(x: Tensor) -> list[Tensor]:
    """Uneven batches: three, one, two, three, one, two, ..."""
    sizes = itertools.cycle([3, 1, 2])
    batches, at = [], 0
    while at < len(x):
        step = next(sizes)
        batches.append(x[at : at + step])
        at += step
    return batches


KNOWN: dict[str, Any] = {}


def remembered(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Fit once per model and setting: fitted things are never changed."""

    def get(name: str, count: int = COUNT, **setting: Any) -> Any:
        key = f"{fit.__name__} {name} {count} {sorted(setting.items())}"
        if key not in KNOWN:
            KNOWN[key] = fit(name, count, **setting)
        return KNOWN[key]

    return get


@remembered
def engine(name: str, count: int, **setting: Any) -> sgfi.MapFamily:
    """The engine's family of a tiny model, with the keywords of ``oracle.Setting``."""
    model = tiny(name)
    declared = {k: setting.pop(k) for k in ("partition", "operator") if k in setting}
    plan = sgfi.plan(
        captured(name),
        target=model.target,
        boundaries=list(model.boundaries),
        axes=model.channel_axis,
        **declared,
    )
    return sgfi.calibrate(plan, ragged(model.inputs(count)), progress=False, **setting)


@remembered
def oracle(name: str, count: int, **setting: Any) -> Oracle:
    return calibrated(tiny(name), tiny(name).inputs(count), **setting)


def gaps(inverse: sgfi.Inverse, expected: Mapping[str, Tensor]) -> dict[str, float]:
    """Relative distance of every state; the two must speak of the same nodes."""
    assert set(inverse.states) == set(expected)
    assert torch.equal(inverse.value, inverse.states["input"])
    result = {}
    for name, right in expected.items():
        assert inverse.states[name].shape == right.shape
        scale = right.norm().item()
        gap = (inverse.states[name] - right).norm().item()
        result[name] = gap / scale if scale else gap
    return result


def agree(inverse: sgfi.Inverse, expected: Mapping[str, Tensor], what: str = "") -> None:
    far = {n: gap for n, gap in gaps(inverse, expected).items() if not gap <= TOLERANCE}
    assert not far, f"{what}: {far}"


def some_coords(axes: Axes) -> list[tuple[int, ...]] | None:
    """Two cells that are not mirror images of one another, or None where there are no coordinates."""
    if not axes.sizes:
        return None
    first = tuple(0 for _ in axes.sizes)
    return sorted({first, (*(n // 2 for n in axes.sizes[:-1]), axes.sizes[-1] - 1)})


def unchanged(model: Tiny, target: str) -> bool:
    """Whether every node upstream of ``target`` has the frontier it has for the model's own target."""
    for v in model.boundaries:
        kids = frontier(model, model.boundaries, target, v)
        if v != target and kids and kids != frontier(model, model.boundaries, model.target, v):
            return False
    return True


def queries(model: Tiny, fitted: Oracle, x: Tensor) -> Iterator[dict[str, Any]]:
    """Whole target, channels, coordinates, both, shallower targets, and each with a swapped terminal."""
    other = evaluate(model, model.inputs(len(x), seed=77))
    for target in model.boundaries[:0:-1]:
        if not unchanged(model, target):
            continue
        axes = fitted.axes[target]
        channels = sorted({0, axes.channels - 1})
        coords = some_coords(axes)
        yield {"target": target}
        yield {"target": target, "channels": channels, "coords": coords}
        if target == model.target:
            yield {"target": target, "channels": [1]}
            yield {"target": target, "coords": coords}
            yield {"target": target, "terminal": other[target]}
            yield {"target": target, "terminal": other[target], "channels": channels}


def compare(name: str, x: Tensor, family: sgfi.MapFamily, fitted: Oracle, few: bool = False) -> int:
    """Compare queries at every stage; the number of inversions compared.

    ``few``: the whole target and a part of it, repaired. Raw and depth do not see the setting.
    """
    asked = list(queries(tiny(name), fitted, x))[: 2 if few else None]
    stages = STAGES[1:] if few else STAGES
    for query, stage in itertools.product(asked, stages):
        expected = fitted.invert(x, stage=stage, **query)
        agree(sgfi.invert(family, x, stage=stage, **query), expected, f"{stage} {query.keys()}")
    return len(asked) * len(stages)


# ------------------------------------------------------------------- every model


@pytest.mark.parametrize("children", ["true", "online"])
@pytest.mark.parametrize("name", MODELS)
def test_every_state_of_every_query(name: str, children: str) -> None:
    x = tiny(name).inputs(3, seed=2)
    done = compare(name, x, engine(name, children=children), oracle(name, children=children))
    assert done >= 3 * 6


@pytest.mark.parametrize("name", MODELS)
def test_frontiers_are_the_papers(name: str) -> None:
    model = tiny(name)
    plan = sgfi.plan(captured(name), target=model.target, boundaries=list(model.boundaries))
    assert list(plan.fitted) == list(model.boundaries[:-1])
    for v in plan.fitted:
        assert set(plan.children(v)) == set(frontier(model, model.boundaries, model.target, v))


@pytest.mark.parametrize("name", MODELS)
def test_inferred_channel_axes_are_the_declared_ones(name: str) -> None:
    model = tiny(name)
    inferred = {n: captured(name).nodes[n].channel_axis for n in model.boundaries}
    assert inferred == model.channel_axis


def test_full_mode_puts_a_boundary_at_every_tensor() -> None:
    model = tiny("everything")
    plan = sgfi.plan(captured("everything"), target=model.target, boundaries="full")
    assert tuple(plan.fitted) == model.boundaries[:-1]
    assert set(plan.children("fc1")) == {"add"}
    family = sgfi.calibrate(plan, ragged(model.inputs(COUNT)), progress=False)
    assert compare("everything", model.inputs(2, seed=2), family, oracle("everything")) > 18


@pytest.mark.parametrize(("name", "target"), [("nested", "w"), ("around", "w"), ("around", "u")])
def test_a_target_that_changes_a_frontier_is_refused(name: str, target: str) -> None:
    changed = not unchanged(tiny(name), target)
    family, x = engine(name), tiny(name).inputs(1)
    assert changed
    with pytest.raises(SgfiError):
        sgfi.invert(family, x, target=target)


# ------------------------------------------------------------------- every setting

IDS = {
    "act1": torch.tensor([0, 1, 2, 2, 1, 0, 2, 2, 2, 2, 3, 3, 0, 0, 1, 2, 2, 2, 2, 2]),  # 5x6
    "conv2": torch.tensor([0, 1, 1, 1, 1, 2]),  # 3x3
}
SETTINGS = {
    "shared": {"partition": "shared"},
    "shared online": {"partition": "shared", "children": "online"},
    "diagonal": {"operator": "diagonal"},
    "diagonal shared": {"operator": "diagonal", "partition": "shared"},
    "gamma": {"operator": "gamma"},
    "gamma online": {"operator": "gamma", "children": "online"},
    "one stage": {"stages": 1},
    "three stages": {"stages": 3},
    "four stages online": {"stages": 4, "children": "online"},
    "small ridge": {"ridge": 1e-4},
    "large ridge": {"ridge": 0.5, "children": "online"},
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["chain", "tokens", "fork", "pooled"])
def test_settings(name: str, setting: str) -> None:
    x = tiny(name).inputs(2, seed=3)
    done = compare(name, x, *(f(name, **SETTINGS[setting]) for f in (engine, oracle)), few=True)
    assert done == 4


CAUSAL = {
    "one matrix": {"operator": "causal", "partition": "shared"},
    "one matrix online": {"operator": "causal", "partition": "shared", "children": "online"},
    "one a position": {"operator": "causal", "stages": 3},
    "groups of positions": {"operator": "causal", "partition": torch.tensor([0, 1, 1, 2])},
    "kernel": {"operator": "causal+2", "partition": "shared", "children": "online"},
    "kernel longer than the text": {"operator": "causal+6"},
    "causal at the input only": {"operator": {"input": "causal"}, "partition": "shared"},
}


@pytest.mark.parametrize("setting", CAUSAL)
def test_causal_operators(setting: str) -> None:
    model, x = tiny("two layers"), tiny("two layers").inputs(2, seed=3)
    family, fitted = (f("two layers", **CAUSAL[setting]) for f in (engine, oracle))
    for position in range(model.sample[0]):
        for stage in STAGES:
            query = {"coords": [(position,)], "stage": stage}
            agree(sgfi.invert(family, x, **query), fitted.invert(x, **query), f"{stage} at {position}")
    assert compare("two layers", x, family, fitted) >= 3 * 6


@pytest.mark.parametrize("operator", ["full", "diagonal", {"act1": "diagonal", "input": "gamma"}])
@pytest.mark.parametrize("children", ["true", "online"])
def test_any_grouping_of_bins_and_a_choice_per_node(operator, children: str) -> None:
    setting = {
        "partition": {**IDS, "input": "shared"},
        "operator": operator,
        "children": children,
    }
    x = tiny("chain").inputs(2, seed=3)
    assert compare("chain", x, *(f("chain", **setting) for f in (engine, oracle)), few=True) == 4


@pytest.mark.parametrize(("name", "count"), [("vector", 4), ("vector", 24), ("chain", 2), ("chain", 14), ("tokens", 3)])
@pytest.mark.parametrize("children", ["true", "online"])
def test_fewer_and_more_samples_than_channels(name: str, count: int, children: str) -> None:
    x = tiny(name).inputs(2, seed=3)
    family, fitted = (f(name, count, children=children) for f in (engine, oracle))
    assert compare(name, x, family, fitted, few=True) == 4


@pytest.mark.parametrize("name", ["chain", "fork", "tokens", "vector", "pooled", "weights"])
def test_the_maps_themselves(name: str) -> None:
    """States cannot tell a source from a multiple of it (the relative ridge follows), maps can."""
    family, fitted = engine(name, children="online"), oracle(name, children="online")
    wrong = oracle(name, children="online", mistakes=frozenset({"children averaged"}))
    for v, right in fitted.maps.items():
        for k, expected in enumerate(right):
            gain = family.maps[v][k].weights["gain"]  # (F, C, C), bins in row-major order
            assert gain.shape == expected.shape and gain.dtype == expected.dtype
            assert (gain - expected).norm() <= TOLERANCE * expected.norm(), (v, k)
        several = len(fitted.frontier(tiny(name).target, v)) > 1
        gap = (family.maps[v][0].weights["gain"] - wrong.maps[v][0]).norm() / right[0].norm()
        assert (gap > 0.5) == several


def test_a_dead_channel_is_zero_and_a_dead_segment_is_zero() -> None:
    model, x = numb(), numb().inputs(3, seed=2)
    for dtype in (torch.float64, torch.float32):
        silent = copy.deepcopy(model).to(dtype)
        plan = sgfi.plan(sgfi.capture(silent, x.to(dtype)), target="fc3", boundaries=["fc1", "fc2"])
        family = sgfi.calibrate(plan, [model.inputs(6).to(dtype)], progress=False)
        inverse = sgfi.invert(family, x.to(dtype))
        assert torch.equal(inverse.value, torch.zeros_like(inverse.value))
        assert inverse.states["fc1"].any()
    states = sgfi.invert(engine("dead"), tiny("dead").inputs(2, seed=2)).states
    assert not states["act1"][:, 1].any() and states["act1"][:, 2].any()


def test_a_float32_model_is_near_the_oracle() -> None:
    """Single precision all the way: the same numbers to what single precision can carry."""
    for name in ("chain", "tokens"):
        model = copy.deepcopy(tiny(name)).float()
        x = tiny(name).inputs(2, seed=2)
        plan = sgfi.plan(
            sgfi.capture(model, x.float()),
            target=model.target,
            boundaries=list(model.boundaries),
            axes=model.channel_axis,
        )
        batches = [b.float() for b in ragged(model.inputs(COUNT))]
        family = sgfi.calibrate(plan, batches, progress=False)
        inverse = sgfi.invert(family, x.float())
        assert inverse.value.dtype == torch.float32
        assert max(gaps(inverse, oracle(name).invert(x)).values()) < 1e-3


def test_a_sweep_is_its_queries_one_by_one() -> None:
    for name in ("chain", "fork", "tokens", "vector"):
        x, fitted = tiny(name).inputs(3, seed=2), oracle(name)
        asked = [q for q in queries(tiny(name), fitted, x) if "terminal" not in q]
        for stage in STAGES:
            inverses = sgfi.sweep(engine(name), x, [sgfi.Query(**q) for q in asked], stage=stage)
            assert len(inverses) == len(asked)
            for inverse, query in zip(inverses, asked, strict=True):
                agree(inverse, fitted.invert(x, stage=stage, **query), f"{name} {query}")


# ------------------------------------------------------------------- planted errors

PLANTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "no channel mean": ("fork", {}, {}),
    "children averaged in fit": ("fork", {}, {"stage": "first"}),
    "children averaged in inversion": ("fork", {}, {"stage": "first"}),
    "ridge per frequency": ("chain", {}, {"stage": "first"}),
    "ridge over groups": ("chain", {"partition": IDS}, {}),
    "ridge counts the goal": ("chain", {}, {"stage": "first"}),
    "parseval weights": ("chain", {"partition": "shared"}, {}),
    "centred": ("chain", {}, {}),
    "conjugate": ("chain", {}, {}),
    "residual divided": ("fork", {}, {}),
    "residual from seed": ("chain", {}, {}),
    "correction fits the state": ("chain", {}, {}),
    "true child in residual": ("chain", {}, {}),
    "all channels for selected": ("chain", {}, {"channels": [0, 3], "stage": "first"}),
    "coordinates divide": ("chain", {}, {"coords": [(0, 0), (2, 1)], "stage": "raw"}),
    "mask after seed only": ("chain", {}, {"channels": [0, 3]}),
    "true children online": ("chain", {"children": "online"}, {"stage": "first"}),
    "true children online in source": ("chain", {"children": "online"}, {"stage": "first"}),
    "true children online in residual": ("chain", {"children": "online"}, {}),
    "nested kept": ("nested", {}, {}),
    "nested held": ("nested", {}, {}),
    "raw per node": ("chain", {}, {"stage": "raw"}),
    "residual beyond the query": ("two layers", {"operator": "causal", "partition": "shared"}, {"coords": [(1,)]}),
    "kernel backwards": ("two layers", {"operator": "causal+2", "partition": "shared"}, {"coords": [(2,)]}),
}
"""For each mistake a model, a setting and a query in which it must show."""


def test_every_mistake_that_can_show_is_planted() -> None:
    assert set(PLANTED) == set(MISTAKES) - {"children averaged"}  # a gauge: see test_oracle


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_error_is_seen(mistake: str) -> None:
    name, setting, query = PLANTED[mistake]
    x = tiny(name).inputs(3, seed=2)
    inverse = sgfi.invert(engine(name, **setting), x, **query)
    agree(inverse, oracle(name, **setting).invert(x, **query))
    wrong = oracle(name, **setting, mistakes=frozenset({mistake})).invert(x, **query)
    with pytest.raises(AssertionError):
        agree(inverse, wrong)
    assert max(gaps(inverse, wrong).values()) > 1e-3
