"""Plans: which boundaries, with which axes, partitions and operators, and what is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import PlanError
from tests.analytic import tiny


@cache
def graph(name: str) -> sgfi.TensorGraph:
    return sgfi.capture(tiny(name), tiny(name).inputs(2))


def plan(
    name: str = "chain", target: str | None = "conv3", boundaries: Any = ("act1", "conv2"), **more: Any
) -> sgfi.Plan:
    return sgfi.plan(graph(name), target=target, boundaries=boundaries, **more)


# ------------------------------------------------------------------- boundaries and targets


def test_a_list_implies_the_input_and_the_target() -> None:
    listed_plan = plan(boundaries=["conv2"])
    assert listed_plan.fitted == ("input", "conv2") and listed_plan.target == "conv3"
    assert listed_plan.boundaries == ("input", "conv2", "conv3") and listed_plan.mode == "custom"
    assert listed_plan.fitted == plan(boundaries=["conv3", "input", "conv2", "conv2"]).fitted


def test_an_empty_list_is_one_fit_from_input_to_target() -> None:
    single_fit = plan(boundaries=[])
    assert single_fit.fitted == ("input",) and single_fit.children("input") == ("conv3",)


def test_any_iterable_of_names_and_aliases_in_any_order() -> None:
    ordered_plan = plan(boundaries=(name for name in ["conv2", "act1.tanh"]))
    assert ordered_plan.fitted == ("input", "act1", "conv2")


def test_a_list_can_add_to_the_recipe() -> None:
    recipe, more = plan(target=None, boundaries="stage"), plan(target=None, boundaries=["stage", "act1"])
    assert "act1" not in recipe.boundary and set(more.boundary) == {*recipe.boundary, "act1"}
    assert more.target == recipe.target and (recipe.mode[:6], more.mode) == ("stage:", "custom")
    assert plan(target=None, boundaries=["stage"]).description == recipe.description


def test_a_list_can_open_the_stem() -> None:
    model = torch.nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.MaxPool2d(2))
    captured = sgfi.capture(model.eval(), torch.randn(2, 3, 14, 14))
    assert sgfi.plan(captured).fitted == ("input", "2") and sgfi.plan(captured).target == "4"
    opened = sgfi.plan(captured, boundaries=["stage", "stem"])
    assert (opened.fitted, opened.target, opened.mode) == (("input", "0", "1", "2"), "4", "custom")
    assert sgfi.plan(captured, "1", ["stage", "stem"]).fitted == ("input", "0")  # as far as it reaches the target


def test_a_tensor_called_stem_or_stage_can_still_be_named() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.stage, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 2, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.stage(self.stem(x).relu()).relu())

    captured = sgfi.capture(Named().eval(), torch.randn(2, 3, 9, 9))
    assert sgfi.plan(captured, "last", ["stem"]).fitted == ("input", "stem")
    assert sgfi.plan(captured, "last", ["stage"]).fitted == ("input", "stage")
    assert sgfi.plan(captured).mode == "stage:generic"


def test_what_the_recipe_has_beyond_the_target_is_left_out_but_not_what_was_named() -> None:
    target = plan(target=None, boundaries="stage").fitted[-1]
    assert plan(target=target, boundaries=["stage"]).target == target
    with pytest.raises(PlanError, match="'conv3', which does not reach it"):
        plan(target="conv2", boundaries=["stage", "conv3"])


def test_full_takes_every_tensor_with_a_channel_axis_on_a_path_to_the_target() -> None:
    full_plan = plan(boundaries="full")
    upstream = graph("chain").ancestors("conv3")
    axes = {name for name, node in graph("chain").nodes.items() if node.channel_axis is not None}
    assert set(full_plan.fitted) == upstream & axes and {"conv1", "act1", "act2"} <= set(full_plan.fitted)
    assert "head" not in full_plan.boundary


def test_a_name_that_does_not_reach_the_target_is_named() -> None:
    with pytest.raises(PlanError, match=r"'conv3', which does not reach it"):
        plan(target="conv2", boundaries=["act1", "conv3"])


def test_unknown_names_suggest_close_ones() -> None:
    with pytest.raises(PlanError, match=r"'conv33'.*Did you mean 'conv3'"):
        plan(target="conv33")
    with pytest.raises(PlanError, match=r"'akt1'.*'act1'"):
        plan(boundaries=["akt1"])
    with pytest.raises(PlanError, match=r"'conv9'.*'conv"):
        plan(axes={"conv9": 1})
    with pytest.raises(PlanError, match="lists every name"):
        plan(target="zzzzzzzz")


@pytest.mark.parametrize("mode", ["full", ["act1"]])
def test_a_target_is_needed_outside_stage_mode(mode: Any) -> None:
    with pytest.raises(PlanError, match="target="):
        plan(target=None, boundaries=mode)


def test_the_input_is_no_target() -> None:
    with pytest.raises(PlanError, match="downstream of the input"):
        plan(target="input", boundaries=[])


@pytest.mark.parametrize("wrong", ["stages", "conv2", None, 3])
def test_a_wrong_boundary_mode_is_refused(wrong: Any) -> None:
    with pytest.raises(PlanError, match="list of names"):
        plan(boundaries=wrong)


def test_a_model_is_not_a_graph() -> None:
    with pytest.raises(PlanError, match="capture"):
        sgfi.plan(tiny("chain"), target="conv3", boundaries=[])  # type: ignore[arg-type]


def test_children_and_edges_of_a_node_that_is_not_fitted() -> None:
    for ask in (plan().children, plan().edges):
        with pytest.raises(PlanError, match="fitted node"):
            ask("conv3")
        with pytest.raises(PlanError, match="fitted node"):
            ask("conv1")


# ------------------------------------------------------------------- axes


class Square(nn.Module):
    """A tensor (B, 4, 4) whose axes nothing tells apart, and one with the batch folded away."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        folded = torch.tanh(h.flatten(0, 1))
        return self.out(folded.view(h.shape) + h @ h.transpose(1, 2))


@cache
def square() -> sgfi.TensorGraph:
    return sgfi.capture(Square().eval(), torch.randn(2, 4, 4))


def test_an_override_moves_the_channel_axis() -> None:
    usual, moved = plan(), plan(axes={"conv2": 3})
    assert (usual.boundary["conv2"].node.channel_axis, usual.boundary["conv2"].channels) == (1, 3)
    assert moved.boundary["conv2"].node.channel_axis == 3 and moved.boundary["conv2"].node.coord_axes == (1, 2)
    assert graph("chain").nodes["conv2"].channel_axis == 1, "the graph itself is untouched"
    assert plan(axes={"conv2": -1}).boundary["conv2"].node.channel_axis == 3


@pytest.mark.parametrize("axis", [0, 4, -4, -5, "1", 1.0, True])
def test_an_impossible_axis_is_refused(axis: Any) -> None:
    with pytest.raises(PlanError, match="channel axis between 1 and 3"):
        plan(axes={"conv2": axis})


def test_axes_must_be_a_mapping() -> None:
    with pytest.raises(PlanError, match="mapping"):
        plan(axes=[1])


def test_an_axis_for_a_node_outside_the_plan_is_refused() -> None:
    with pytest.raises(PlanError, match="'conv1'"):
        plan(axes={"conv1": 1})


def test_a_node_without_a_channel_axis_asks_for_one() -> None:
    unknown = [name for name, node in square().nodes.items() if node.channel_axis is None and None in node.shape]
    assert unknown, "the model has a tensor whose axes cannot be told apart"
    with pytest.raises(PlanError, match="axes="):
        sgfi.plan(square(), target="out", boundaries=[unknown[0]])
    assert unknown[0] in sgfi.plan(square(), target="out", boundaries=[unknown[0]], axes={unknown[0]: 1}).fitted


def test_a_node_with_the_batch_folded_away_cannot_be_a_boundary() -> None:
    folded = next(name for name, node in square().nodes.items() if node.shape[0] is not None)
    with pytest.raises(PlanError, match="batch"):
        sgfi.plan(square(), target="out", boundaries=[folded], axes={folded: 1})


# ------------------------------------------------------------------- partitions and operators


def test_one_choice_for_all_and_a_choice_by_node() -> None:
    shared = plan(partition="shared", operator="diagonal")
    assert {b.partition.count for b in shared.boundary.values()} == {1}
    assert {shared.boundary[name].operator.name for name in shared.fitted} == {"diagonal"}
    mixed = plan(partition={"conv2": [0, 0, 0, 1, 1, 1]}, operator={"act1": "gamma", "input": "diagonal+rank3"})
    assert [mixed.boundary[name].operator.name for name in mixed.fitted] == ["diagonal+rank3", "gamma", "full"]
    assert [mixed.boundary[name].partition.kind for name in mixed.fitted] == ["singleton", "shared", "custom"]
    assert mixed.boundary["conv2"].partition.count == 2
    tied = plan(partition="blocks2")
    assert [tied.boundary[name].partition.count for name in tied.fitted] == [9, 9, 6]  # 5x6 twice, 3x3


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"partition": "grouped"}, "'grouped'"),
        ({"partition": {"conv2": [0, 1]}}, r"6 integer group ids for 'conv2'"),
        ({"partition": {"conv2": torch.zeros(6)}}, "float32"),
        ({"partition": {"conv2": object()}}, "'conv2'"),
        ({"partition": {"conv7": "shared"}}, "Did you mean"),
        ({"partition": {"conv1": "shared"}}, "'conv1'"),
        ({"operator": "low-rank"}, "'low-rank'"),
        ({"operator": "diagonal+rank0"}, "rank0"),
        ({"operator": {"conv2": "fuller"}}, "'fuller'"),
        ({"operator": {"conv1": "gamma"}}, "'conv1'"),
        ({"operator": None}, "None"),
    ],
)
def test_wrong_partitions_and_operators_are_refused(more: dict, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(**more)


# ------------------------------------------------------------------- another target, pictures


def test_toward_a_shallower_target_keeps_the_frontiers() -> None:
    shallower = plan().toward("conv2")
    assert shallower.target == "conv2" and shallower.fitted == ("input", "act1")
    assert shallower.frontiers == {"input": ("act1",), "act1": ("conv2",)}
    assert plan().toward("conv3").fitted == plan().fitted


def test_toward_names_the_node_whose_frontier_would_differ() -> None:
    nested = plan("nested", target="last", boundaries=["v", "w", "add"])
    with pytest.raises(PlanError, match=r"'v' would repair from \['w'\] instead of \['add'\]"):
        nested.toward("w")


@pytest.mark.parametrize("target", ["conv1", "head", "input"])
def test_toward_something_that_is_not_a_boundary(target: str) -> None:
    with pytest.raises(PlanError, match="among the boundaries"):
        plan().toward(target)


def test_toward_an_unknown_name_suggests() -> None:
    with pytest.raises(PlanError, match="Did you mean"):
        plan().toward("conv22")


def test_the_table_tells_every_boundary() -> None:
    mixed_plan = plan(operator={"act1": "diagonal"})
    lines = mixed_plan.table().splitlines()
    rows = {line.split()[0]: line for line in lines[1:]}
    assert list(rows) == list(mixed_plan.boundaries)
    assert "Bx4x5x6" in rows["act1"] and "diagonal" in rows["act1"] and "conv2" in rows["act1"]
    assert "(target)" in rows["conv3"] and " 20 " in rows["act1"]
    assert str(mixed_plan).endswith(mixed_plan.table()) and "3 fitted" in repr(mixed_plan)
