"""Capture with its derivatives checked at the example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from sgfi.derivatives.check import Inspection, check_whole
from sgfi.derivatives.linearisation import Linearisation
from sgfi.derivatives.own_backward import check_own_backward, check_own_forward
from sgfi.graph import TensorGraph
from sgfi.graph.arguments import Arguments, Example, arguments
from sgfi.graph.attention import FUSED
from sgfi.graph.capture import trace
from sgfi.graph.programs import full_precision
from sgfi.graph.wrappers import unwrapped


def capture(
    model: nn.Module,
    example: Example,
    *,
    invert: str | int | None = None,
    bound: Mapping[str, Any] | None = None,
    batch_axis: int | Mapping[str, int] = 0,
    attention: str = "fused",
    check: bool = True,
) -> TensorGraph:
    """Capture every differentiable floating tensor between the model's input and its outputs.

    ``example`` is one batch of inputs, ``(B, ...)``; the batch size stays free, all other sizes are fixed by it. A
    model of several arguments has them by name, ``{"pixel_values": x, "input_ids": ids}`` (nested as the forward takes
    them), or in order, ``(x, ids)``; ``invert`` names the one that is inverted (``"batch.image"`` inside another). The
    other tensors are side inputs: one for each sample, given again with every batch that is inverted. ``bound`` holds
    further forward arguments (a causal mask, say) the same for every sample; a bound tensor must broadcast over the
    batch. ``batch_axis``: where the model itself has the batch, 1 for sequence-first ones; the example, and every
    tensor here, has it in front all the same. ``attention="open"`` writes fused attention out, so that its scores and
    weights are tensors too. The model is left exactly as it was; its weights are shared, not copied. Of a wrapped model
    (``torch.compile``, DataParallel, PEFT, NNsight, TransformerLens) the one inside is captured.

    ``check`` compares at the example every kind of op's derivatives with each other and with a finite difference, and
    the whole with the model's own backward: an op whose derivative is missing or wrong is an error that names it, and
    so is a forward whose backward is not its derivative (``detach``, ``no_grad``, a custom ``autograd.Function``).
    Without it the derivative is that of what the forward computes, unchecked.
    """
    model = unwrapped(model)
    how = arguments(model, example, invert, bound, batch_axis)
    graph = trace(model, how, attention)
    if check:
        check_graph(graph, model, how)
    return graph


def capture_with(
    model: nn.Module, example: Example, names: Iterable[str], invert: str | int | None = None
) -> TensorGraph:
    """Captured so that the names can be found: with attention open where only that has them."""
    model = unwrapped(model)
    how = arguments(model, example, invert, None, 0)
    graph = trace(model, how)
    missing = [name for name in names if name not in graph.nodes]
    if missing and any(node.target is FUSED for node in graph.exported.graph.nodes):
        opened = trace(model, how, "open")
        if all(name in opened.nodes for name in missing):
            graph = opened
    check_graph(graph, model, how)
    return graph


def check_graph(graph: TensorGraph, model: nn.Module, how: Arguments) -> None:
    """The derivatives of a captured model at the first sample of the example."""
    if how.x.device.type == "meta":
        return
    graph = graph.bind(graph.example_sides)
    with torch.inference_mode(False), torch.no_grad(), full_precision():
        x = how.x[:1].detach().clone()
        inspected = Inspection(graph, x)
        if graph.exported.onload is not None:  # all derivatives together would need all weights together
            check_own_forward(graph, model, how.first(1), inspected.values)
            return
        local = inspected.at("input")
        check_whole(graph, local)
        if not check_own_backward(graph, model, how.first(1), local):
            pair = Linearisation(graph, {"input": local.segment.outputs}, torch.cat([x, 0.9 * x]))
            check_own_backward(graph, model, how.first(1).repeated(2), pair.at("input"))
