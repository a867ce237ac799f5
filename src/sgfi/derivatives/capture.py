"""Capture with its derivatives checked at the example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from sgfi.derivatives.check import Inspection, check_whole
from sgfi.derivatives.linearisation import Linearisation
from sgfi.derivatives.own_backward import check_own_backward
from sgfi.graph import TensorGraph
from sgfi.graph import capture as trace
from sgfi.graph.attention import FUSED
from sgfi.graph.programs import full_precision


def capture(
    model: nn.Module,
    example: Tensor,
    *,
    bound: Mapping[str, Any] | None = None,
    attention: str = "fused",
    check: bool = True,
) -> TensorGraph:
    """Capture every differentiable floating tensor between the model's input and its outputs.

    ``example`` is one batch of inputs, ``(B, ...)``; the batch size stays free, all other sizes are fixed by it.
    ``bound`` holds further forward arguments (an attention mask, say) constant; a bound tensor must broadcast over
    the batch. ``attention="open"`` writes fused attention out, so that its scores and weights are tensors too.
    The model is left exactly as it was; its weights are shared, not copied.

    ``check`` compares at the example every kind of op's derivatives with each other and with a finite difference, and
    the whole with the model's own backward: an op whose derivative is missing or wrong is an error that names it, and
    so is a forward whose backward is not its derivative (``detach``, ``no_grad``, a custom ``autograd.Function``).
    Without it the derivative is that of what the forward computes, unchecked.
    """
    graph = trace(model, example, bound=bound, attention=attention)
    if check:
        check_graph(graph, model, example, bound or {})
    return graph


def capture_with(model: nn.Module, example: Tensor, names: Iterable[str]) -> TensorGraph:
    """Captured so that the names can be found: with attention open where only that has them."""
    graph = trace(model, example)
    missing = [name for name in names if name not in graph.nodes]
    if missing and any(node.target is FUSED for node in graph.exported.graph.nodes):
        opened = trace(model, example, attention="open")
        if all(name in opened.nodes for name in missing):
            graph = opened
    check_graph(graph, model, example, {})
    return graph


def check_graph(graph: TensorGraph, model: nn.Module, example: Tensor, bound: Mapping[str, Any]) -> None:
    """The derivatives of a captured model at the first sample of the example."""
    if example.device.type == "meta":
        return
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        x = example[:1].detach().clone()
        outputs = [graph.exported.names.get(node, "") for node in graph.exported.outputs if node is not None]
        local = Inspection(graph, x, outputs).at("input")
        check_whole(graph, local)
        if not check_own_backward(graph, model, bound, local):
            pair = Linearisation(graph, {"input": local.segment.outputs}, torch.cat([x, 0.9 * x]))
            check_own_backward(graph, model, bound, pair.at("input"))
