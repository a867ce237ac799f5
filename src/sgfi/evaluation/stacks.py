"""Stacks of changed inputs ``(Q, B, *input)``: their lengths, and the states they lead to."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.graph import TensorGraph

ROWS = 64
"""Inputs per forward pass."""
TINY = 1e-30
"""What a length is divided by at the least."""


def lengths(stack: Tensor) -> Tensor:
    """(Q, B, ...) -> (Q, B)"""
    return stack.flatten(2).norm(dim=2)


def state(graph: TensorGraph, target: str, inputs: Tensor) -> Tensor:
    """(N, *input) -> (N, *target), a part of the inputs at a time."""
    program = graph.program(("input",), (target,))
    return torch.cat([program(part)[0] for part in inputs.split(ROWS)])
