"""Frontiers: deepest non-overlapping children, with the structural edges kept beside them."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.boundaries import boundary_dag
from tests.analytic import tiny


@cache
def graph(name: str) -> sgfi.TensorGraph:
    return sgfi.capture(tiny(name), tiny(name).inputs(2))


def test_a_chain_has_one_child_each() -> None:
    dag = boundary_dag(graph("chain"), ["input", "act1", "conv2"], "conv3")
    assert dag.frontiers == dag.edges == {"input": ("act1",), "act1": ("conv2",), "conv2": ("conv3",)}


def test_a_candidate_upstream_of_another_is_dropped_but_its_edge_is_kept() -> None:
    dag = boundary_dag(graph("nested"), ["input", "v", "w", "add"], "last")
    assert set(dag.edges["v"]) == {"w", "add"}
    assert dag.frontiers["v"] == ("add",)
    assert dag.frontiers["w"] == ("add",)


def test_a_way_around_does_not_save_a_candidate() -> None:
    dag = boundary_dag(graph("around"), ["input", "v", "w", "u"], "last")
    assert set(dag.edges["v"]) == {"w", "u"} and dag.frontiers["v"] == ("u",)
    assert set(dag.edges["w"]) == {"u", "last"} and dag.frontiers["w"] == ("last",)


def test_children_side_by_side_are_all_kept() -> None:
    dag = boundary_dag(graph("fork"), ["input", "v", "a", "b"], "out")
    assert set(dag.frontiers["v"]) == {"a", "b"} == set(dag.edges["v"])


def test_order_is_topological_whatever_the_order_given() -> None:
    names = ["add", "w", "input", "v"]
    assert boundary_dag(graph("nested"), names, "last").fitted == ("input", "v", "w", "add")


def test_boundaries_that_do_not_reach_the_target_are_left_out() -> None:
    dag = boundary_dag(graph("fork"), ["input", "v", "a", "b"], "a")
    assert dag.fitted == ("input", "v") and dag.frontiers["v"] == ("a",)


def test_every_fitted_node_has_a_child_and_reaches_the_target() -> None:
    for name in ("nested", "around", "fork", "tokens", "gate"):
        model = tiny(name)
        plan = sgfi.plan(graph(name), target=model.target, boundaries="full")
        for node in plan.fitted:
            assert plan.children(node) and set(plan.children(node)) <= set(plan.edges(node))
            kept = plan.children(node)
            assert not any(a in plan.graph.ancestors(b) for a in kept for b in kept)


def test_reading_the_batch_size_is_not_a_path() -> None:
    class Sized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.out = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            h = self.fc(x)
            return self.out(h + torch.zeros(x.shape[0], 4))

    sized = sgfi.capture(Sized().eval(), torch.randn(2, 3))
    dag = boundary_dag(sized, ["input", "fc"], "out")
    assert dag.edges == {"input": ("fc",), "fc": ("out",)}


@pytest.mark.parametrize("target", ["block.add", "block"])
def test_a_residual_stream(target: str) -> None:
    dag = boundary_dag(graph("tokens"), ["input", "embed", "block.add"], target)
    assert dag.frontiers["embed"] == ("block.add",)
