"""From a PyTorch module to a frozen :class:`TensorGraph`."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from sgfi.errors import CaptureError, first_line
from sgfi.graph import axes, names
from sgfi.graph.arguments import Arguments, Example, arguments, key_name
from sgfi.graph.attention import OPENED
from sgfi.graph.export import exported_program
from sgfi.graph.layout import batch_first
from sgfi.graph.libraries import with_library_names
from sgfi.graph.onloading import homes, stand_in
from sgfi.graph.programs import Exported, full_precision
from sgfi.graph.tensor_graph import Node, NodeTable, TensorGraph, own_tensor
from sgfi.graph.values import carries_derivative, is_floating, is_random, is_tensor, made_by, op_name, parents, value
from sgfi.graph.wrappers import unwrapped

ATTENTION = ("fused", "open")


class RandomModel(UserWarning):
    """A model that draws random numbers although it is in evaluation."""


def capture(
    model: nn.Module,
    example: Example,
    *,
    invert: str | int | None = None,
    bound: Mapping[str, Any] | None = None,
    batch_axis: int | Mapping[str, int] = 0,
    attention: str = "fused",
) -> TensorGraph:
    """:func:`sgfi.capture` without its check of derivatives."""
    model = unwrapped(model)
    return trace(model, arguments(model, example, invert, bound, batch_axis), attention)


def trace(model: nn.Module, how: Arguments, attention: str = "fused") -> TensorGraph:
    """Every differentiable floating tensor between the inverted argument of one call and the model's outputs."""
    _check(model, how.x)
    if attention not in ATTENTION:
        raise CaptureError(f"attention among {list(ATTENTION)}", repr(attention), "Choose one of these.")
    with full_precision():
        return _captured(model, how, attention)


def _captured(model: nn.Module, how: Arguments, attention: str) -> TensorGraph:
    device, table = how.x.device, OPENED if attention == "open" else {}
    elsewhere = homes(model, device)
    program, wrapped = exported_program(stand_in(model, device) if elsewhere else model, how, table)
    source, *sides = _input_placeholders(program)
    if any((how.axes or {}).values()):
        batch_first(program.graph, source)
    tensors = _differentiable(program.graph, source)
    outputs = _outputs(program)
    nodes = _nodes(program.graph, source, tensors, _logits(program, source, outputs, tensors))
    _check_nodes(nodes)
    constants, names_of = _constants(program), _weight_names(program)
    paths = {key: names_of[key].removeprefix("model." * wrapped) for key in constants}
    kept = elsewhere.renamed(paths, constants)
    graph = TensorGraph(
        nodes=NodeTable(nodes),
        model_class=f"{type(model).__module__}.{type(model).__qualname__}",
        device=device,
        exported=Exported(
            program.graph,
            dict(zip((node.name for node in nodes), tensors, strict=True)),
            kept if elsewhere else constants,
            outputs,
            {side.name: name for side, name in zip(sides, how.sides or {}, strict=True)},
            device if elsewhere else None,
            _most(program),
        ),
        weight_names=names_of,
        bound=tuple(sorted({**(how.fixed or {}), **(how.sides or {})})),
        invert=how.invert,
        model=None if elsewhere else weakref.ref(model),
        owned={key: path for key, path in paths.items() if own_tensor(model, path) is not None},
        example_sides=how.first(1).sides or {},
    )
    _check_independence(graph.bind(graph.example_sides), how.x)
    graph = with_library_names(graph, model)
    _warn_of_random_numbers(graph)
    return graph


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
    if example.layout != torch.strided:
        raise CaptureError("a dense example", str(example.layout), "Convert it with to_dense().")
    if example.device.type != "meta" and not torch.isfinite(example).all():
        raise CaptureError("a finite example", "NaN or infinity", "Look for a division by zero in its preparation.")
    _check_weights(model, example)


def _check_weights(model: nn.Module, example: Tensor) -> None:
    elsewhere = homes(model, example.device)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.layout != torch.strided or tensor.is_quantized:
            kind = "quantised" if tensor.is_quantized else str(tensor.layout)
            raise CaptureError("dense floating weights", f"{name!r}, {kind}", "Convert it to a dense float tensor.")
        if name in elsewhere:
            continue
        if tensor.device.type == "meta" and example.device.type != "meta":
            raise CaptureError("weights with values", f"{name!r} on the device meta", "Load the weights first.")
        if tensor.device != example.device:
            raise CaptureError(
                f"an example on the device of {name!r}, {tensor.device}",
                str(example.device),
                "Move the example or the model: all weights must be on one device.",
            )
    weights = next(iter(model.parameters()), None)
    if weights is not None and weights.is_floating_point() and weights.dtype != example.dtype:
        raise CaptureError(
            f"an example of the model's dtype {weights.dtype}", str(example.dtype), "Convert the example or the model."
        )


def _input_placeholders(program: ExportedProgram) -> list[fx.Node]:
    """Of the inverted argument, then of the side inputs."""
    by_name = {node.name: node for node in program.graph.nodes}
    return [by_name[name] for name in program.graph_signature.user_inputs if isinstance(name, str)]


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


def _outputs(program: ExportedProgram) -> tuple[fx.Node | None, ...]:
    """The graph's own output node has the tensors as they are now; a permutation may stand before some."""
    by_name = {node.name: node for node in program.graph.nodes}
    made = [by_name.get(leaf) if isinstance(leaf, str) else None for leaf in program.graph_signature.user_outputs]
    fronts = {node.meta[made_by]: node for node in program.graph.nodes if node.meta.get(made_by) is not None}
    return tuple(None if node is None else fronts.get(node, node) for node in made)


def _logits(
    program: ExportedProgram, source: fx.Node, outputs: tuple[fx.Node | None, ...], tensors: list[fx.Node]
) -> fx.Node | None:
    """Of the tensors that the model returns, one under the key ``logits``, else the first that has the batch."""
    spec, batch = program.call_spec.out_spec, value(source).shape[0]  # type: ignore[attr-defined]
    assert spec is not None
    paths = [path for path, _ in pytree.tree_flatten_with_path(pytree.tree_unflatten(outputs, spec))[0]]

    def rank(leaf: tuple[Any, fx.Node]) -> tuple[bool, bool]:
        path, node = leaf
        shape = value(node).shape  # type: ignore[attr-defined]
        return bool(path) and key_name(path[-1]) == names.OUTPUT, bool(shape) and str(shape[0]) == str(batch)

    usable = set(tensors) - {source}
    leaves = [(path, node) for path, node in zip(paths, outputs, strict=True) if node in usable]
    return max(leaves, key=rank)[1] if leaves else None  # type: ignore[arg-type,return-value]


def _most(program: ExportedProgram) -> int | None:
    """The largest batch, where it is bounded."""
    ends = [end.upper for end in program.range_constraints.values() if end.upper.is_Integer]
    return int(min(ends)) if ends else None


def _weight_names(program: ExportedProgram) -> dict[str, str]:
    return {spec.arg.name: spec.target or spec.arg.name for spec in program.graph_signature.input_specs}  # type: ignore[union-attr]


def _differentiable(graph: fx.Graph, source: fx.Node) -> list[fx.Node]:
    """Floating tensors with a differentiable dependence on the input, in topological order, input first."""
    reached, tensors = {source}, [source]
    for node in graph.nodes:
        if node is source or node.op == "output" or not any(parent in reached for parent in parents(node)):
            continue
        if is_tensor(node) and not carries_derivative(node):
            continue  # an index or a mask: no derivative passes
        reached.add(node)
        if is_floating(node) and not (made_by in node.meta and node.meta[made_by] is None):
            tensors.append(node)
    shown = {node.meta[made_by] for node in tensors if made_by in node.meta}
    return [node for node in tensors if node not in shown]


def _nodes(graph: fx.Graph, source: fx.Node, tensors: list[fx.Node], logits: fx.Node | None) -> list[Node]:
    batch = str(value(source).shape[0])  # type: ignore[attr-defined]
    channel = axes.infer(graph, source)
    named = names.assign(tensors[1:], logits) | {source: ("input", ())}
    nodes = []
    for tensor in tensors:
        shape = axes.describe(value(tensor), batch)  # type: ignore[arg-type]
        axis = channel.get(tensor)
        plain = bool(shape) and shape[0] is None and all(isinstance(size, int) for size in shape[1:])
        axis = axis if plain and axis and axis < len(shape) else None
        axis = 1 if axis is None and plain and shape[1:] == (1,) else axis  # one number, a score
        coords = tuple(dim for dim in range(1, len(shape)) if dim != axis) if axis is not None else ()
        name, aliases = named[tensor]
        path = names.module_path(tensor)
        nodes.append(Node(name, shape, op_name(tensor), path, axis, coords, value(tensor).dtype, aliases))  # type: ignore[attr-defined]
    return nodes


def _check_nodes(nodes: list[Node]) -> None:
    """Something to invert, and none of it in half precision."""
    if len(nodes) < 2:
        raise CaptureError(
            "a model that makes floating tensors from its input",
            "none that depends on it and reaches what the forward returns",
            "Let the forward return the tensors of interest: one, a tuple, a list or a dict of them.",
        )
    half = [node for node in nodes if torch.finfo(node.dtype).bits < 32]
    if half:
        raise CaptureError(
            "a model that computes in float32 or float64",
            f"{half[0].dtype} at {half[0].name!r}",
            "Take torch.autocast and .half() out of the forward: derivatives in half precision cannot be checked.",
        )


def _warn_of_random_numbers(graph: TensorGraph) -> None:
    for node in filter(is_random, graph.exported.graph.nodes):
        warnings.warn(
            f"The model draws random numbers ({op_name(node)}): every forward pass and every answer differ. "
            "Switch it off (dropout with training=False, for example), or average over answers.",
            RandomModel,
            stacklevel=2,
        )
        return


def _check_independence(graph: TensorGraph, example: Tensor) -> None:
    """A sample's tensors must not depend on what else is in the batch: moments are sums over samples."""
    last = graph.ends(name for name, node in graph.nodes.items() if node.shape[:1] == (None,) and 0 not in node.shape)
    if example.device.type == "meta" or not last:
        return
    sample = example[:1].detach()
    program = graph.program(("input",), last)
    try:
        with torch.no_grad():
            alone, together = program(sample), program(torch.cat([sample, 0.7 * sample.flip(-1) + 0.3]))
            random = any(is_random(node) for node in graph.exported.graph.nodes)
            again = program(sample) if random else alone
    except Exception as error:  # an op that names a sample of the batch, say
        raise CaptureError(
            "a model that takes any number of samples",
            f"{type(error.__cause__ or error).__name__} for one or two: {first_line(error.__cause__ or error)}",
            "Look for sizes or indices along the batch axis that are fixed, and for ids that the model does not have.",
        ) from error
    for name, own, first, repeated in zip(last, alone, together, again, strict=True):
        if own.isnan().any():
            todo = "Look for NaN among the weights, and for overflow on the way."
            raise CaptureError("a model that makes numbers of its example", f"NaN in {name!r}", todo)
        close = torch.allclose(first[:1], own, rtol=1e-2, atol=1e-3 * float(own.abs().max()))
        if not close and torch.isfinite(own).all() and torch.equal(own, repeated):  # else it draws random numbers
            raise CaptureError(
                "a model whose samples do not influence each other",
                f"{name!r} of one sample changes with the rest of its batch",
                "Look for normalisation over the batch (batch norm without running statistics) or pooling across "
                "samples.",
            )
