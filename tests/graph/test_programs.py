"""Programs: pieces of the graph as pure callables."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

import sgfi
from tests.analytic import tiny


@cache
def graph(name: str) -> sgfi.TensorGraph:
    return sgfi.capture(tiny(name), tiny(name).inputs(2))


def test_pieces_compose_to_the_whole() -> None:
    whole, x = graph("chain"), tiny("chain").inputs(3)
    (middle,) = whole.program(("input",), ("conv2",))(x)
    (end,) = whole.program(("conv2",), ("conv3",))(middle)
    torch.testing.assert_close(end, whole.program(("input",), ("conv3",))(x)[0])


def test_a_piece_needs_nothing_upstream_of_its_inputs() -> None:
    """Feeding another value at an inner tensor changes what follows as the modules say."""
    model, other = tiny("chain"), torch.randn(3, 3, 3, 3, dtype=torch.float64)
    (output,) = graph("chain").program(("conv2",), ("conv3",))(other)
    torch.testing.assert_close(output, model.conv3(model.act2(other)))


def test_a_piece_of_a_model_that_reads_the_batch_size_takes_any_batch() -> None:
    model = tiny("tokens")
    for batch in (1, 4):
        h = torch.randn(batch, 5, 6, dtype=torch.float64)
        (output,) = graph("tokens").program(("embed",), ("norm",))(h)
        torch.testing.assert_close(output, model.norm(model.block(h)))


def test_a_program_is_made_once() -> None:
    program = graph("chain").program(("input",), ("conv2",))
    assert graph("chain").program(("input",), ("conv2",)) is program
    assert graph("chain").program(("input",), ("conv3",)) is not program


def test_inputs_are_not_written_to() -> None:
    x = tiny("relu").inputs(2)
    kept = x.clone()
    graph("relu").program(("input",), ("conv3",))(x)
    assert torch.equal(x, kept)


def test_segments_know_what_they_hold_and_what_lies_inside() -> None:
    whole = graph("nested")
    nested, held = whole.segment("v", ["add"]), whole.segment("w", ["add"])
    nested_names, held_names = ({whole.exported.names[node] for node in each.nodes} for each in (nested, held))
    assert {"w", "inner", "skip", "add"} <= nested_names and not nested.externals
    assert held.externals == ("skip",)
    assert "inner" in held_names and "v" not in held_names and "skip" not in held_names


def test_lifted_constants_and_buffers_are_part_of_a_piece() -> None:
    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x) + self.shift + torch.tensor([0.5, 0.0, -0.5])

    model = Shifted().eval()
    shifted = sgfi.capture(model, torch.randn(2, 3))
    h = torch.randn(4, 3)
    (out,) = shifted.program(("fc",), (list(shifted.nodes)[-1],))(h)
    torch.testing.assert_close(out, h + model.shift + torch.tensor([0.5, 0.0, -0.5]))


@pytest.mark.parametrize("name", ["nested", "fork", "tokens"])
def test_ancestors_and_parents_agree(name: str) -> None:
    whole = graph(name)
    for node in whole.nodes:
        read = whole.parents(node)
        expected = set(read).union(*(whole.ancestors(parent) for parent in read)) if read else set()
        assert whole.ancestors(node) == expected
