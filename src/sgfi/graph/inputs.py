"""Inputs that fit a captured graph."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph.tensor_graph import TensorGraph


def check_input(graph: TensorGraph, x: Tensor) -> None:
    """Shape, dtype, device and finiteness of a batch of inputs."""
    sizes = graph.input.shape[1:]
    shape = "(B, " + ", ".join(map(str, sizes)) + ")"
    if not isinstance(x, Tensor):
        raise QueryError(f"a tensor of shape {shape}", type(x).__name__, "Convert it with torch.as_tensor.")
    if x.dim() != len(sizes) + 1 or tuple(x.shape[1:]) != sizes or len(x) == 0:
        raise QueryError(f"inputs of shape {shape}", str(tuple(x.shape)), "Capture fixes every size but the batch.")
    if x.dtype != graph.input.dtype:
        raise QueryError(
            f"inputs of dtype {graph.input.dtype}", str(x.dtype), "Convert them yourself; nothing is cast."
        )
    if x.device != graph.device:
        raise QueryError(f"inputs on {graph.device}", str(x.device), "Move them to the model's device.")
    if not torch.isfinite(x).all():
        raise QueryError("finite inputs", "NaN or infinity", "Clean or drop the affected samples.")
