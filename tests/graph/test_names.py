"""The naming rules, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sgfi.decisions.readout import output_name
from sgfi.errors import PlanError
from sgfi.graph import TensorGraph, capture


def named(model: nn.Module, *shape: int, **options: object) -> TensorGraph:
    return capture(model.eval(), torch.randn(2, *shape), **options)


class Block(nn.Module):
    """A residual block whose ReLU is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.relu = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.conv2(self.relu(self.conv1(x))) + x)


class Sum(nn.Module):
    """A block that returns its sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


def test_the_input_is_called_input_and_comes_first() -> None:
    assert next(iter(named(nn.Sequential(nn.Linear(3, 2)), 3).nodes)) == "input"


def test_order_is_that_of_the_computation() -> None:
    expected = ["input", "0.conv1", "0.relu", "0.conv2", "0.add", "0.relu_1", "1.conv", "1"]
    assert list(named(nn.Sequential(Block(), Sum()), 3, 4, 4).nodes) == expected


def test_a_tensor_has_the_name_of_the_deepest_module_that_returns_it() -> None:
    graph = named(nn.Sequential(nn.Sequential(nn.Sequential(nn.Conv2d(3, 3, 1)))), 3, 4, 4)
    assert "0.0.0" in list(graph.nodes)
    assert graph.nodes["0.0.0"].aliases[:2] == ("0.0", "0")


def test_a_functional_result_is_module_path_and_op() -> None:
    node = named(nn.Sequential(Block()), 3, 4, 4).nodes["0.add"]
    assert (node.name, node.op, node.module) == ("0.add", "add", "0")


def test_at_top_level_it_is_just_the_op() -> None:
    class Flat(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.relu() + 1).relu() * 2

    assert list(named(Flat(), 3).nodes) == ["input", "relu", "add", "relu_1", "mul"]


def test_repeats_are_numbered_within_their_module() -> None:
    class Twice(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return ((x + 1) * 3 + 2) * 4

    nodes = list(named(nn.Sequential(Twice(), Twice(), nn.Linear(3, 3)), 3).nodes)
    assert nodes == ["input", "0.add", "0.mul", "0.add_1", "0", "1.add", "1.mul", "1.add_1", "1", "2"]


def test_a_module_called_again_is_numbered() -> None:
    graph = named(nn.Sequential(Block(), nn.Conv2d(3, 1, 1)), 3, 4, 4)
    assert graph.nodes["0.relu"].shape == graph.nodes["0.relu_1"].shape
    assert "0.relu" in graph.ancestors("0.relu_1")


def test_a_parent_module_called_again_numbers_what_it_returns() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Sum()

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x)).relu()

    nodes = list(named(Shared(), 3, 4, 4).nodes)
    assert nodes == ["input", "block.conv", "block", "block.conv_1", "block_1", "relu"]


def test_every_enclosing_module_that_returns_it_is_an_alias() -> None:
    graph = named(nn.Sequential(nn.Sequential(Sum(), Sum()), nn.Conv2d(3, 1, 1)), 3, 4, 4)
    assert graph.nodes["0.1"].aliases == ("0", "0.1.add")
    assert graph.nodes["0"].name == "0.1"
    assert graph.nodes["0.1.add"].name == "0.1"


def test_an_alias_finds_the_canonical_name_everywhere() -> None:
    graph = named(nn.Sequential(Sum(), nn.Conv2d(3, 1, 1)), 3, 4, 4)
    assert "0.add" in graph.nodes
    assert graph.nodes.canonical("0.add") == "0"
    assert graph.ancestors("0.add") == graph.ancestors("0")


def test_a_module_that_returns_several_tensors_names_none() -> None:
    class Split(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return self.one(x), self.two(x)

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.split = Split()

        def forward(self, x: Tensor) -> Tensor:
            left, right = self.split(x)
            return left * right

    graph = named(Joined(), 3)
    assert list(graph.nodes) == ["input", "split.one", "split.two", "mul"]
    assert "split" not in graph.nodes


def test_modules_that_change_nothing_leave_no_name() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Identity(), nn.Dropout(), nn.Linear(3, 2))
    assert list(named(model, 3).nodes) == ["input", "0", "3"]


def test_a_module_named_like_an_op_keeps_its_name() -> None:
    class Adder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.add = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return (x + 1) * 2 + self.add(x)

    graph = named(nn.Sequential(Adder(), nn.Tanh()), 3)
    assert graph.nodes["0.add"].op == "linear"
    assert [name for name, node in graph.nodes.items() if node.op == "add"] == ["0.add_1", "0"]


def test_a_module_named_input_does_not_hide_the_input() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.input = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.input(x) * 2

    graph = named(Odd(), 3)
    assert graph.nodes["input"].shape == (None, 3)
    assert sorted(node.op for node in graph.nodes.values()) == ["input", "linear", "mul"]


def test_names_are_unique_and_aliases_clash_with_none() -> None:
    graph = named(nn.Sequential(Block(), Sum(), nn.Sequential(Block(), Sum())), 3, 4, 4)
    every = [name for node in graph.nodes.values() for name in (node.name, *node.aliases)]
    assert len(every) == len(set(every))


def test_bound_arguments_leave_paths_as_the_caller_knows_them() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            return self.layer(x) * scale

    assert list(named(Scaled(), 3, bound={"scale": torch.tensor(2.0)}).nodes) == ["input", "layer", "mul"]


def test_an_unknown_name_suggests_a_close_one() -> None:
    graph = named(nn.Sequential(Block(), nn.Conv2d(3, 1, 1)), 3, 4, 4)
    with pytest.raises(PlanError, match=r"0\.conv2"):
        graph.nodes["0.conv3"]


class Returning(nn.Module):
    """A body and a head; ``returned`` makes of their tensors what the forward returns."""

    def __init__(self, returned: Callable[[Tensor, Tensor, Tensor], Any], counts: bool = False) -> None:
        super().__init__()
        self.body, self.head, self.returned, self.counts = nn.Linear(3, 6), nn.Linear(6, 4), returned, counts
        self.register_buffer("average", torch.zeros(6))

    def forward(self, x: Tensor) -> Any:
        h = self.body(x).tanh()
        if self.counts:
            self.average.mul_(0.9).add_(0.1 * h.mean(0))
        return self.returned(x, h, self.head(h))


@pytest.mark.parametrize(
    "returned",
    [
        lambda x, h, y: {"features": h, "logits": y},
        lambda x, h, y: {"all": [h, {"logits": y}], "features": h},
        lambda x, h, y: (y.argmax(1), y, h),  # an index
        lambda x, h, y: (x, y),  # the input itself
        lambda x, h, y: (None, torch.ones(2), y),  # constants
        lambda x, h, y: (y.mean(), y),  # no batch
        lambda x, h, y: [y, h],
    ],
)
def test_logits_is_the_output_of_that_key_else_the_first_with_the_batch(returned: Callable) -> None:
    graph = named(Returning(returned), 3)
    assert graph.nodes["logits"].name == "head"


def test_a_buffer_that_the_forward_writes_to_is_not_the_output() -> None:
    graph = named(Returning(lambda x, h, y: y, counts=True), 3)
    assert graph.nodes["logits"].name == "head" and output_name(graph) == "head"
