"""From a PyTorch module to a frozen :class:`TensorGraph`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram, export
from torch.export.graph_signature import InputKind

from sgfi.errors import CaptureError
from sgfi.graph import axes, names
from sgfi.graph.programs import Exported, derivable_kernels
from sgfi.graph.tensor_graph import Node, NodeTable, TensorGraph
from sgfi.graph.values import is_floating, is_tensor, op_name, parents, value

MACHINERY = (
    *("/torch/export/", "/torch/_", "/torch/fx/", "/torch/utils/", "/torch/nn/modules/module.py"),
    *("/sgfi/graph/", "/inspect.py", "/contextlib.py", "<string>"),
)
"""Parts of file names that mark a frame as tracing machinery rather than model code."""


def capture(model: nn.Module, example: Tensor, *, bound: Mapping[str, Any] | None = None) -> TensorGraph:
    """Capture every differentiable floating tensor between the model's input and its outputs.

    ``example`` is one batch of inputs, ``(B, ...)``; the batch size stays free, all other sizes are fixed by it.
    ``bound`` holds further forward arguments (an attention mask, say) constant; a bound tensor must broadcast over
    the batch. The model is left exactly as it was; its weights are shared, not copied.
    """
    _check(model, example)
    program = _export(model, example, dict(bound or {}))
    source = _input_placeholder(program)
    tensors = _differentiable(program.graph, source)
    nodes = _nodes(program.graph, source, tensors)
    graph = TensorGraph(
        nodes=NodeTable(nodes),
        model_class=f"{type(model).__module__}.{type(model).__qualname__}",
        device=example.device,
        exported=Exported(
            program.graph, dict(zip((node.name for node in nodes), tensors, strict=True)), _constants(program)
        ),
        weight_names=_weight_names(program),
        bound=tuple(sorted(bound or {})),
    )
    _check_independence(graph, example)
    return graph


class _Bound(nn.Module):
    """The model with some keyword arguments held; module paths gain no prefix (see :func:`_export`)."""

    def __init__(self, model: nn.Module, bound: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        self.bound = bound

    def forward(self, x: Tensor) -> Any:
        return self.model(x, **self.bound)


def _check(model: nn.Module, example: Tensor) -> None:
    if not isinstance(model, nn.Module):
        raise CaptureError("a torch.nn.Module", type(model).__name__, "Wrap the function in a module.")
    training = [name or "the model itself" for name, module in model.named_modules() if module.training]
    if training:
        raise CaptureError(
            "a frozen model in evaluation mode",
            f"training mode in {training[0]!r}" + (f" and {len(training) - 1} more modules" * (len(training) > 1)),
            "Call model.eval() first: batch norm and dropout must not couple or disturb samples.",
        )
    if not isinstance(example, Tensor) or not example.is_floating_point() or example.dim() < 2 or not len(example):
        got = (
            f"{example.dtype} of shape {tuple(example.shape)}"
            if isinstance(example, Tensor)
            else type(example).__name__
        )
        raise CaptureError(
            "a floating-point example batch (B, ...)",
            got,
            "Convert and normalise the inputs; for token models see sgfi.language.embedding_model.",
        )
    if example.dtype not in (torch.float32, torch.float64):
        raise CaptureError("float32 or float64", str(example.dtype), "Call model.float() and convert the inputs.")
    weights = next(iter(model.parameters()), None)
    if weights is not None and weights.is_floating_point() and weights.dtype != example.dtype:
        raise CaptureError(
            f"an example of the model's dtype {weights.dtype}", str(example.dtype), "Convert the example or the model."
        )
    if weights is not None and weights.device != example.device:
        raise CaptureError(
            f"an example on the model's device {weights.device}", str(example.device), "Move the example or the model."
        )


def _export(model: nn.Module, example: Tensor, bound: dict[str, Any]) -> ExportedProgram:
    """A functional graph with a dynamic batch, traced with two samples (one would be specialised away)."""
    example = example.detach()
    pair = example[:2] if len(example) >= 2 else torch.cat([example, example])
    module = _Bound(model, bound).eval() if bound else model
    try:
        with torch.no_grad(), derivable_kernels, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = export(module, (pair,), dynamic_shapes=({0: Dim("batch")},), strict=False)
            program = traced.run_decompositions({})
    except Exception as error:  # torch.export raises many kinds; all mean the same to the caller
        raise CaptureError(
            "a model that torch.export can trace with a free batch size",
            f"{type(error).__name__} in {_failed_call(error)}: {str(error).strip().splitlines()[0][:300]}",
            "Check that the example has a batch axis and the model is not compiled; rewrite data-dependent control "
            "flow or shapes in that call, bind extra arguments with bound={...} "
            "(bound tensors must broadcast over the batch), or capture the part of the model you need.",
        ) from error
    if bound:
        _strip_prefix(program.graph, "model")
    return program


def _failed_call(error: BaseException) -> str:
    """The last frame of the traceback that lies in model code."""
    where, trace = "the model's forward", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not any(part in file.replace("\\", "/") for part in MACHINERY):
            where = f"{trace.tb_frame.f_code.co_name} ({file.rpartition('/')[2]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return where


def _strip_prefix(graph: fx.Graph, prefix: str) -> None:
    """Module paths as the caller knows them, without the wrapper's attribute name."""
    for node in graph.nodes:
        stack = node.meta.get("nn_module_stack")
        if stack:
            node.meta["nn_module_stack"] = {
                key: (path.removeprefix(prefix).removeprefix("."), kind) for key, (path, kind) in stack.items()
            }


def _input_placeholder(program: ExportedProgram) -> fx.Node:
    (name,) = program.graph_signature.user_inputs[:1]
    return next(node for node in program.graph.nodes if node.name == name)


def _constants(program: ExportedProgram) -> dict[str, Tensor]:
    """Weights, buffers and lifted constants by placeholder name, detached (storage shared with the model)."""
    held: dict[str, Tensor] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            target = spec.target or ""
            constant = program.state_dict.get(target, program.constants.get(target))
            if isinstance(constant, Tensor):
                held[spec.arg.name] = constant.detach()  # type: ignore[union-attr]
    return held


def _weight_names(program: ExportedProgram) -> dict[str, str]:
    return {spec.arg.name: spec.target or spec.arg.name for spec in program.graph_signature.input_specs}  # type: ignore[union-attr]


def _differentiable(graph: fx.Graph, source: fx.Node) -> list[fx.Node]:
    """Floating tensors with a differentiable dependence on the input, in topological order, input first."""
    reached, tensors = {source}, [source]
    for node in graph.nodes:
        if node is source or node.op == "output" or not any(parent in reached for parent in parents(node)):
            continue
        if is_tensor(node) and not is_floating(node):
            continue  # an index or a mask: no derivative passes
        reached.add(node)
        if is_floating(node):
            tensors.append(node)
    return tensors


def _nodes(graph: fx.Graph, source: fx.Node, tensors: list[fx.Node]) -> list[Node]:
    batch = str(value(source).shape[0])  # type: ignore[attr-defined]
    channel = axes.infer(graph, source)
    named = names.assign(tensors[1:]) | {source: ("input", ())}
    nodes = []
    for tensor in tensors:
        shape = axes.describe(value(tensor), batch)  # type: ignore[arg-type]
        axis = channel.get(tensor)
        plain = bool(shape) and shape[0] is None and all(isinstance(size, int) for size in shape[1:])
        axis = axis if plain and axis and axis < len(shape) else None
        coords = tuple(dim for dim in range(1, len(shape)) if dim != axis) if axis is not None else ()
        name, aliases = named[tensor]
        path = names.module_path(tensor)
        nodes.append(Node(name, shape, op_name(tensor), path, axis, coords, value(tensor).dtype, aliases))  # type: ignore[attr-defined]
    return nodes


def _check_independence(graph: TensorGraph, example: Tensor) -> None:
    """A sample's tensors must not depend on what else is in the batch: moments are sums over samples."""
    last = next(
        (name for name, node in reversed(list(graph.nodes.items())) if node.shape and node.shape[0] is None), "input"
    )
    if example.device.type == "meta" or last == "input":
        return
    sample = example[:1].detach()
    program = graph.program(("input",), (last,))
    with torch.no_grad():
        (alone,), (together,) = program(sample), program(torch.cat([sample, 0.7 * sample.flip(-1) + 0.3]))
    if torch.isfinite(alone).all() and not torch.allclose(
        together[:1], alone, rtol=1e-2, atol=1e-3 * float(alone.abs().max())
    ):
        raise CaptureError(
            "a model whose samples do not influence each other",
            f"{last!r} of one sample changes with the rest of its batch",
            "Look for normalisation over the batch (batch norm without running statistics) or pooling across samples.",
        )
