"""Queries: what may be asked, what is refused, and what an answer holds."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import sgfi
from sgfi.errors import PlanError, QueryError
from tests.analytic import tiny

STAGES = ["raw", "first", "final"]


@cache
def family(name: str = "chain") -> sgfi.MapFamily:
    model = tiny(name)
    plan = sgfi.plan(
        sgfi.capture(model, model.inputs(2)),
        target=model.target,
        boundaries=list(model.boundaries),
        axes=model.channel_axis,
    )
    return sgfi.calibrate(plan, [model.inputs(8)], progress=False)


def inputs(name: str = "chain", count: int = 2) -> Tensor:
    return tiny(name).inputs(count, seed=9)


def same(first: sgfi.Inverse, second: sgfi.Inverse, tolerance: float = 1e-10) -> None:
    assert first.states.keys() == second.states.keys()
    for name in first.states:
        torch.testing.assert_close(first.states[name], second.states[name], rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------- what is refused

CHANNELS: list[Any] = [
    [],
    [5],
    [-1],
    [0, 0],
    [0, 7, -3],
    [True],
    [1.0],
    ["1"],
    [[1]],
    "01",
    b"01",
    2.0,
    {0: 1},
    (c for c in [0, 1]),
    torch.tensor([0.5]),
    torch.tensor([True, False, True, True, False]),
    torch.tensor([[0, 1]]),
    np.array([0.0]),
    [None],
]
COORDS: list[Any] = [
    [],
    [(0, 3)],
    [(3, 0)],
    [(-1, 0)],
    [(0, 0), (1, 1), (0, 0)],
    [(0,)],
    [(0, 0, 0)],
    [1],
    [()],
    [(True, 0)],
    [(0.0, 1)],
    ["00"],
    [("0", "1")],
    "0,1",
    (0, 1),
    3,
    2.5,
    [None],
    [((0, 1), 1)],
    {(0, 0): 1},
    torch.tensor([[0.0, 1.0]]),
    torch.tensor([0, 1]),
    (c for c in [(0, 0)]),
]


@pytest.mark.parametrize("channels", CHANNELS)
def test_wrong_channels(channels: Any) -> None:
    with pytest.raises(QueryError, match="distinct channels of 'conv3' between 0 and 4"):
        sgfi.invert(family(), inputs(), channels=channels)


def test_one_channel_may_be_a_number() -> None:
    single, listed = (sgfi.invert(family(), inputs(), channels=channels).value for channels in (np.int64(3), [3]))
    assert torch.equal(single, listed)


@pytest.mark.parametrize("coords", COORDS)
def test_wrong_coords(coords: Any) -> None:
    with pytest.raises(QueryError, match=r"distinct coordinates of 'conv3' within \(3, 3\)"):
        sgfi.invert(family(), inputs(), coords=coords)


def test_a_vector_has_no_coordinates() -> None:
    with pytest.raises(QueryError, match="coordinates of 'fc3'"):
        sgfi.invert(family("vector"), inputs("vector"), coords=[0])


def test_one_wrong_query_of_many_is_refused() -> None:
    with pytest.raises(QueryError, match=r"got \[9\]"):
        sgfi.sweep(family(), inputs(), [sgfi.Query(channels=[0]), sgfi.Query(channels=[9])])


@pytest.mark.parametrize("queries", [[], sgfi.Query(), [{"channels": [0]}], [None]])
def test_a_sweep_wants_a_list_of_queries(queries: Any) -> None:
    with pytest.raises(QueryError, match=r"[Qq]uer"):
        sgfi.sweep(family(), inputs(), queries)


def bad_inputs() -> dict[str, tuple[Any, str]]:
    x = inputs()
    spoilt = x.clone()
    spoilt[1, 0, 2, 2] = float("nan")
    endless = x.clone()
    endless[0, 0, 0, 0] = float("inf")
    return {
        "one sample without a batch": (x[0], r"\(2, 5, 6\)"),
        "channels": (x[:, :1], r"\(2, 1, 5, 6\)"),
        "size": (x[..., :5], r"\(2, 2, 5, 5\)"),
        "empty": (x[:0], r"\(0, 2, 5, 6\)"),
        "single precision": (x.float(), "float32"),
        "integers": (x.long(), "int64"),
        "meta": (x.to("meta"), "meta"),
        "nan": (spoilt, "NaN"),
        "infinite": (endless, "NaN or infinity"),
        "numpy": (x.numpy(), "ndarray"),
        "nothing": (None, "NoneType"),
    }


@pytest.mark.parametrize("kind", bad_inputs())
def test_wrong_inputs(kind: str) -> None:
    x, message = bad_inputs()[kind]
    with pytest.raises(QueryError, match=message):
        sgfi.invert(family(), x)


@pytest.mark.parametrize("stage", ["Final", "second", "", None, 1, ["raw"]])
def test_wrong_stages(stage: Any) -> None:
    with pytest.raises(QueryError, match="raw"):
        sgfi.invert(family(), inputs(), stage=stage)


@pytest.mark.parametrize("stage", STAGES)
def test_wrong_terminals(stage: str) -> None:
    right = torch.randn(2, 5, 3, 3, dtype=torch.float64)
    nan = right.clone()
    nan[0, 0, 0, 0] = float("nan")
    for terminal, message in [
        (right[:1], r"\(1, 5, 3, 3\)"),
        (right[:, :4], r"\(2, 4, 3, 3\)"),
        (right.float(), "float32"),
        (nan, "NaN"),
        (right.numpy(), "ndarray"),
    ]:
        with pytest.raises(QueryError, match=message):
            sgfi.invert(family(), inputs(), terminal=terminal, stage=stage)


def test_wrong_targets() -> None:
    with pytest.raises(PlanError, match="Did you mean"):
        sgfi.invert(family(), inputs(), target="conv22")
    with pytest.raises(PlanError, match="among the boundaries"):
        sgfi.invert(family(), inputs(), target="conv1")
    with pytest.raises(PlanError, match="'v' would repair from"):
        sgfi.invert(family("nested"), inputs("nested"), target="w")


# ------------------------------------------------------------------- what is answered


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(("target", "upstream"), [(None, {"input", "act1", "conv2"}), ("conv2", {"input", "act1"})])
def test_states_are_the_input_what_is_upstream_and_the_target(target: str | None, upstream: set, stage: str) -> None:
    x = inputs()
    inverse = sgfi.invert(family(), x, target=target, stage=stage)
    assert set(inverse.states) == upstream | {target or "conv3"}
    assert next(iter(inverse.states)) == "input" and list(inverse.states)[-1] == (target or "conv3")
    assert inverse.value is inverse.states["input"] and inverse.value.shape == x.shape
    assert inverse.stage == stage and inverse.query == sgfi.Query(target)
    for name, state in inverse.states.items():
        assert state.shape[1:] == family().plan.graph.nodes[name].shape[1:]
        assert state.dtype == x.dtype and not state.requires_grad and not state.is_inference()


def test_a_fork_s_branches_beside_the_target_have_no_state() -> None:
    inverse = sgfi.invert(family("fork"), inputs("fork"), target="v")
    assert set(inverse.states) == {"input", "v"}


@pytest.mark.parametrize("stage", STAGES)
def test_masked_entries_are_exactly_zero(stage: str) -> None:
    x, huge = inputs(), torch.full((2, 5, 3, 3), 1e300, dtype=torch.float64)
    inverse = sgfi.invert(family(), x, channels=[1, 4], coords=[(0, 2), (2, 1)], terminal=huge, stage=stage)
    keep = torch.zeros(5, 3, 3, dtype=torch.bool)
    for channel in (1, 4):
        keep[channel, 0, 2] = keep[channel, 2, 1] = True
    state = inverse.states["conv3"]
    assert torch.equal(state, torch.where(keep, huge, 0.0))
    whole = sgfi.invert(family(), x, stage=stage).states["conv3"]
    torch.testing.assert_close(whole, family_forward(x))


def family_forward(x: Tensor) -> Tensor:
    return family().plan.graph.program(("input",), ("conv3",))(x)[0]


@pytest.mark.parametrize(
    ("channels", "coords"),
    [
        (torch.tensor([1, 3]), torch.tensor([[0, 1], [2, 2]])),
        (np.array([1, 3]), np.array([[0, 1], [2, 2]])),
        ((1, np.int64(3)), [torch.tensor([0, 1]), [2, 2]]),
        (range(1, 4, 2), ((0, 1), (2, 2))),
        ({1, 3}, {(0, 1), (2, 2)}),
    ],
)
def test_any_way_of_writing_a_query(channels: Any, coords: Any) -> None:
    same(
        sgfi.invert(family(), inputs(), channels=channels, coords=coords),
        sgfi.invert(family(), inputs(), channels=[1, 3], coords=[(0, 1), (2, 2)]),
        0,
    )


def test_tokens_take_bare_integers() -> None:
    x = inputs("tokens")
    same(sgfi.invert(family("tokens"), x, coords=[0, 3]), sgfi.invert(family("tokens"), x, coords=[(0,), (3,)]), 0)
    state = sgfi.invert(family("tokens"), x, channels=[2], coords=[3]).states["norm"]
    assert state[:, 3, 2].all() and state.count_nonzero() == 2


@pytest.mark.parametrize("stage", STAGES)
def test_a_sweep_over_targets_is_its_queries_one_by_one(stage: str) -> None:
    x = inputs()
    queries = [
        sgfi.Query(channels=[0]),
        sgfi.Query("conv2", channels=[0, 2]),
        sgfi.Query(coords=[(1, 1)]),
        sgfi.Query("act1", [3], [(4, 5)]),
        sgfi.Query("conv2"),
        sgfi.Query("conv3", [0]),
    ]
    inverses = sgfi.sweep(family(), x, queries, stage=stage)
    assert [inverse.query for inverse in inverses] == queries
    for inverse, query in zip(inverses, queries, strict=True):
        same(inverse, sgfi.invert(family(), x, query.target, query.channels, query.coords, stage=stage))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_caller_s_gradient_mode_does_not_matter(mode: type, stage: str) -> None:
    expected = sgfi.invert(family(), inputs(), stage=stage)
    with mode():
        x = inputs().clone()
        inverse = sgfi.invert(family(), x, stage=stage)
        swept = sgfi.sweep(family(), x, [sgfi.Query(), sgfi.Query(channels=[0])], stage=stage)[0]
    same(inverse, expected, 0)
    same(swept, expected)
    assert not inverse.value.is_inference()


def test_an_input_that_wants_a_gradient_is_left_alone() -> None:
    x = inputs().requires_grad_()
    inverse = sgfi.invert(family(), x)
    assert x.grad is None and x.requires_grad and not inverse.value.requires_grad
    x.sum().backward()


def test_the_input_is_not_written_to() -> None:
    x = inputs()
    kept = x.clone()
    for stage in STAGES:
        sgfi.invert(family(), x, stage=stage)
    assert torch.equal(x, kept)


def test_a_terminal_is_masked_and_read_from_elsewhere() -> None:
    x, other = inputs(), family_forward(tiny("chain").inputs(2, seed=10))
    inverse = sgfi.invert(family(), x, channels=[2], terminal=other)
    assert torch.equal(inverse.states["conv3"][:, 2], other[:, 2]) and not inverse.states["conv3"][:, 0].any()
    own = sgfi.invert(family(), x, terminal=family_forward(x))
    same(own, sgfi.invert(family(), x))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", ["chain", "tokens"])
def test_parts_add_up_in_the_additive_gauge(kind: str, stage: str) -> None:
    additive, x = family(kind).in_gauge("additive"), inputs(kind)
    channels = additive.node().channels
    parts = [list(range(start, channels, 3)) for start in range(3)]
    whole = sgfi.invert(additive, x, stage=stage).value
    answers = sgfi.sweep(additive, x, [sgfi.Query(channels=part) for part in parts], stage=stage)
    torch.testing.assert_close(sum(answer.value for answer in answers), whole)
    torch.testing.assert_close(whole, sgfi.invert(family(kind), x, stage=stage).value)


def test_the_paper_s_gauge_does_not_add_up_in_the_final_stage() -> None:
    x, channels = inputs(), family().node().channels
    parts = [list(range(start, channels, 2)) for start in range(2)]
    answers = sgfi.sweep(family(), x, [sgfi.Query(channels=part) for part in parts])
    total = sum(len(part) / channels * answer.value for part, answer in zip(parts, answers, strict=True))
    assert (total - sgfi.invert(family(), x).value).abs().max() > 1e-6
    with pytest.raises(QueryError, match="gauge"):
        family().in_gauge("sum")


@pytest.mark.parametrize("target", [torch.zeros(6), torch.zeros(2, 0), [], 3.5])
def test_a_target_that_is_no_name_is_named(target: object) -> None:
    model = (
        torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Conv2d(4, 2, 3, padding=1)).double().eval()
    )
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    graph = sgfi.capture(model, x)
    family = sgfi.calibrate(sgfi.plan(graph, "1", ["0"]), [x], progress=False)
    for estimator in (family, sgfi.natural(graph, sgfi.prior([x]))):
        with pytest.raises(sgfi.errors.SgfiError, match="name of a tensor"):
            sgfi.invert(estimator, x, target, coords=[(3, 2)])  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [set(), 1.5, None, sgfi.MapFamily])
def test_what_is_no_estimator_is_named(given: object) -> None:
    for asked in ({"channels": 1}, {"target": "two", "coords": [(0, 0)]}, {}):
        with pytest.raises(QueryError, match="expected an estimator"):
            sgfi.invert(given, torch.zeros(1, 3, 4, 4), **asked)  # type: ignore[arg-type]
