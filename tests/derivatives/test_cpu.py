"""Special cases for the CPU: other kernels, the same numbers; one switch turns them off."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode

import sgfi
from sgfi.derivatives import Linearisation
from sgfi.derivatives.rules.cpu import plain_kernels, specialised

W = torch.randn(6, 4, 3, 3, dtype=torch.float64)
SPECIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "few channels": lambda x: conv2d(x, W, stride=2, padding=1),
    "single cells": lambda x: conv2d(x, W[..., :1, :1], stride=(2, 3)),
    "patches": lambda x: conv2d(x, W, stride=3),
    "max pool": lambda x: max_pool2d(x, 3, 2, 1),
    "attention": lambda x: scaled_dot_product_attention(x, x.sin(), x.cos()),
}


class Kernels(TorchDispatchMode):
    """The kernels that were run, with the memory order of what they read."""

    def __init__(self) -> None:
        super().__init__()
        self.used: set[object] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        last = [
            t.is_contiguous(memory_format=torch.channels_last) for t in args if isinstance(t, Tensor) and t.dim() == 4
        ]
        self.used.add((func, *last))
        return func(*args, **(kwargs or {}))


class Applied(nn.Module):
    def __init__(self, op: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.start, self.op = nn.Linear(6, 6), op

    def forward(self, x: Tensor) -> Tensor:
        return self.op(self.start(x)).sin()


def linearised(graph: sgfi.TensorGraph, x: Tensor) -> tuple[list[Tensor], set[object]]:
    """Output, pulled and pushed (three directions each), and the kernels used."""
    torch.manual_seed(0)
    end = list(graph.nodes)[-1]
    with Kernels() as kernels:
        local = Linearisation(graph, {"start": [end]}, x).at("start")
        cotangents, tangents = (torch.randn(3, *t.shape, dtype=t.dtype) for t in (local.outputs[0], local.source))
        results = [local.outputs[0], local.vjp([cotangents]), local.jvp(tangents)[0]]
    return results, kernels.used


@pytest.mark.parametrize("case", SPECIAL)
def test_the_switch_changes_the_kernels_and_not_the_numbers(case: str) -> None:
    x = torch.randn(2, 4, 9, 6, dtype=torch.float64)
    graph = sgfi.capture(Applied(SPECIAL[case]).double().eval(), x)
    linearised(graph, x)  # what is made once is made
    special, used = linearised(graph, x)
    with plain_kernels():
        plain, general = linearised(graph, x)
    assert used != general
    for ours, theirs in zip(special, plain, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_switch_is_back_on_after_an_error() -> None:
    def fail() -> None:
        with plain_kernels():
            raise RuntimeError(specialised())

    with pytest.raises(RuntimeError, match="False"):
        fail()
    assert specialised()
