"""Plans that fit into a number of bytes."""

from __future__ import annotations

import pytest
import torch

import sgfi
from sgfi.errors import PlanError


@pytest.fixture(scope="module")
def graph() -> sgfi.TensorGraph:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 16, 2, stride=2), torch.nn.Conv2d(16, 4, 1)]
    return sgfi.capture(torch.nn.Sequential(*layers).double().eval(), torch.randn(2, 3, 16, 16, dtype=torch.float64))


def planned(graph: sgfi.TensorGraph, **how: object) -> sgfi.Plan:
    return sgfi.plan(graph, "2", ["0", "1"], **how)  # type: ignore[arg-type]


def groups(plan: sgfi.Plan) -> dict[str, int]:
    return {name: plan.boundary[name].partition.count for name in plan.fitted}


def test_the_bytes_of_a_plan_are_those_of_its_maps(graph: sgfi.TensorGraph) -> None:
    plan = planned(graph, size="small")
    batches = [torch.randn(8, 3, 16, 16, dtype=torch.float64) for _ in range(3)]
    family = sgfi.calibrate(plan, batches, progress=False)
    assert family.bytes == 2 * plan.map_bytes  # double precision


def test_small_ties_blocks_of_four(graph: sgfi.TensorGraph) -> None:
    full, small = planned(graph), planned(graph, size="small")
    assert planned(graph, size="full").description == full.description
    assert groups(small) == groups(planned(graph, partition="blocks4"))
    assert small.map_bytes < full.map_bytes / 4


def test_a_budget_is_met_and_a_larger_one_is_never_coarser(graph: sgfi.TensorGraph) -> None:
    full, before = planned(graph), None
    least = 2 * 8 * (3 * 3 + 8 * 8 + 16 * 16)  # one complex matrix a node, two maps
    for budget in (least, least * 3, least * 9, least * 40, full.map_bytes):
        plan = planned(graph, size=budget)
        assert plan.map_bytes <= budget
        assert before is None or all(now >= then for now, then in zip(groups(plan).values(), before, strict=True))
        before = list(groups(plan).values())
    assert groups(plan) == groups(full) and planned(graph, size="1GiB").description == full.description
    assert groups(planned(graph, size=least)) == {"input": 1, "0": 1, "1": 1}


def test_the_largest_maps_are_tied_first(graph: sgfi.TensorGraph) -> None:
    full = planned(graph)
    plan = planned(graph, size=full.map_bytes - 1)
    largest = max(full.fitted, key=lambda name: full.boundary[name].map_bytes)
    assert [name for name in full.fitted if groups(plan)[name] < groups(full)[name]] == [largest]


@pytest.mark.parametrize("size", ["tiny", 0, -5, "3 parsecs", None, True])
def test_a_size_that_is_none_is_named(graph: sgfi.TensorGraph, size: object) -> None:
    with pytest.raises(PlanError, match="4GiB"):
        planned(graph, size=size)


def test_what_cannot_be_met_is_said(graph: sgfi.TensorGraph) -> None:
    with pytest.raises(PlanError, match=r"at least 5\.1 KiB"):
        planned(graph, size=100)
    with pytest.raises(PlanError, match="not both"):
        planned(graph, size="small", partition="blocks2")
