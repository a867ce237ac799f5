"""`sgfi recipes check`: self-tests pass on what is right, and planted faults are named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.boundaries.recipes import RECIPES, Recipe
from sgfi.derivatives import LocalMap
from sgfi.derivatives.rules.ops import RULES, Linear, Rule
from sgfi.inputs import LoadedModel
from sgfi.report.recipe_check import check_recipe, passed_by


class Skips(nn.Module):
    """``two`` is read by ``three`` and, around it, by the last sum; ``three`` also reads ``one``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.one(x)
        z = self.two(y.tanh())
        return self.three(z + y) + 2 * z


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], object]:
    """The check of a recipe that names these tensors."""
    loaded = LoadedModel("skips", Skips().eval(), None, (3, 6, 6))

    def check(names: list[str]):  # type: ignore[no-untyped-def]
        monkeypatch.setitem(RECIPES, "planted", Recipe("Skips", lambda structure: names))
        return check_recipe(loaded, "planted")

    return check


def test_a_recipe_on_every_path_passes(asked) -> None:  # type: ignore[no-untyped-def]
    checked = asked(["one", "add_1"])
    assert checked.passed and checked.remarks == (), str(checked)
    assert [test.name for test in checked.tests] == ["derivatives", "frontier", "round trip"]
    assert "recipe planted (sgfi's own): 2 fitted nodes, target add_1" in str(checked)


def test_boundaries_that_no_frontier_has_are_remarked_on(asked) -> None:  # type: ignore[no-untyped-def]
    """Paths lead around ``two`` and ``three`` to the last sum: with it as a boundary, nothing is repaired from them."""
    checked = asked(["one", "two", "three", "add_1"])
    assert checked.plan.children("one") == ("add_1",) and checked.passed
    assert checked.remarks == tuple(
        f"{name}: in no other boundary's frontier, so it is left out" for name in ("two", "three")
    )


def test_paths_that_pass_by_a_frontier_are_seen() -> None:
    """Named by hand, ``two`` stays; ``three`` is downstream of it and alone in ``one``'s frontier."""
    graph = sgfi.capture(Skips().eval(), torch.randn(2, 3, 6, 6))
    plan = sgfi.plan(graph, "add_1", ["one", "two", "three"])
    assert plan.children("one") == ("three",) and passed_by(plan) == ["one"]


def test_a_boundary_without_a_layer_behind_it_is_remarked_on(asked) -> None:  # type: ignore[no-untyped-def]
    checked = asked(["one", "tanh", "two"])
    assert [remark.partition(":")[0] for remark in checked.remarks] == ["one"] and "no layer" in checked.remarks[0]


def test_a_boundary_beside_the_target_is_remarked_on(asked) -> None:  # type: ignore[no-untyped-def]
    assert asked(["one", "three", "mul"]).remarks == ("three does not reach the target and is no boundary",)


def test_a_wrong_derivative_fails(asked, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    wrong = Rule(of=lambda call, argument, item: Linear(lambda t: 2 * t, lambda c: 2 * c))
    monkeypatch.setitem(RULES, "tanh", wrong)
    checked = asked(["one", "add_1"])
    assert not checked.passed and "FAILED  derivatives: expected aten.tanh" in str(checked)


def test_a_lost_part_of_the_frontier_fails(asked, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """Planted: the walk forgets half of what a node's children hand back."""
    whole = LocalMap.vjp
    monkeypatch.setattr(
        LocalMap,
        "vjp",
        lambda self, cotangents: whole(self, [c / 2 if self.segment.outputs == ("tanh",) else c for c in cotangents]),
    )
    checked = asked(["tanh", "two"])
    assert not checked.passed and "FAILED  frontier" in str(checked)
