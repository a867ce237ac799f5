"""Whether the model's own backward is the derivative of what its forward computes.

A ``detach``, a ``no_grad`` or a custom ``autograd.Function`` inside a forward makes autograd's answer differ from the
derivative of the function, and an exported graph no longer shows them all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._pytree import tree_leaves

from sgfi.derivatives.check import Noise
from sgfi.derivatives.linearisation import LocalMap
from sgfi.errors import CaptureError, DerivativeError, SgfiError
from sgfi.graph.arguments import Arguments, Call
from sgfi.graph.export import unchanged
from sgfi.graph.programs import derivable_kernels
from sgfi.graph.tensor_graph import TensorGraph
from sgfi.graph.values import is_random, made_by

UNEXPLAINED = 0.1
"""A difference whose reason is not found counts from here on: rounding may flip a rectifier."""
STEPS = (1e-2, 1e-3, 1e-4, 1e-5)
"""Of difference quotients of a whole model, relative to its input."""


def check_own_backward(graph: TensorGraph, model: nn.Module, how: Arguments, local: LocalMap) -> bool:
    """Values and VJP of the captured graph against one forward and backward of the model itself, at the same input.

    False where the model does not take this input, or has no backward of its own.
    """
    if any(is_random(node) for node in graph.exported.graph.nodes):
        return True  # another draw every time

    def comparison(outputs: Outputs) -> bool:
        return _agrees(graph, local, outputs, lambda: _stops(model, how, local.source.clone().requires_grad_()))

    try:
        return _run(model, how, local.source.clone().requires_grad_(), comparison)
    except SgfiError:
        raise
    except Exception:  # a model that takes several samples only, or a reentrant checkpoint, say
        return False


def _agrees(graph: TensorGraph, local: LocalMap, outputs: Outputs, stops: Callable[[], list[str]]) -> bool:
    """An error where they differ; false where what was returned cannot be compared."""
    ours = dict(zip(local.segment.outputs, local.outputs, strict=True))
    pairs = _pairs(graph, ours, outputs.leaves)
    if pairs is None:
        return False
    _check_values(ours, pairs)
    noise = Noise()
    cotangents = {name: noise.like(value) if name in pairs else torch.zeros_like(value) for name, value in ours.items()}
    pulled = local.vjp(list(cotangents.values()))
    error = _distance(pulled, outputs.pull(pairs, cotangents))
    if error <= (1e-5 if local.source.dtype == torch.float64 else 2e-2):
        return True
    reasons = stops() + outputs.functions()
    if reasons or (error > UNEXPLAINED and not _is_derivative(local, cotangents, pulled)):
        raise DerivativeError(
            "a model whose own backward is the derivative of what it computes",
            f"a relative difference of {error:.2g}" + (f", from {', '.join(reasons)}" if reasons else ""),
            "Inversion takes the derivative of what the forward computes: remove this, or pass check=False to have "
            "that derivative in spite of it.",
        )
    return True


def check_own_forward(graph: TensorGraph, model: nn.Module, how: Arguments, ours: Mapping[str, Tensor]) -> None:
    """Values of the captured graph against the model's own, which may fetch its weights as it goes."""
    if any(is_random(node) for node in graph.exported.graph.nodes):
        return
    with torch.no_grad(), torch.random.fork_rng(devices=[]), derivable_kernels, unchanged(model):
        leaves = tree_leaves(Call(model, how)(how.x, *(how.sides or {}).values()))
    _check_values(ours, _pairs(graph, ours, leaves) or {})


def _pairs(graph: TensorGraph, ours: Mapping[str, Tensor], leaves: Sequence[Any]) -> dict[str, Tensor] | None:
    """What the model returned, by the name of the tensor it is; ``None`` where it does not take one sample."""
    names = [graph.exported.names.get(node) if node is not None else None for node in graph.exported.outputs]
    if len(names) != len(leaves):
        return None
    tensors = graph.exported.tensors
    returned = {name: leaf for name, leaf in zip(names, leaves, strict=True) if name is not None and name in ours}
    pairs = {name: _in_front(tensors[name], leaf) for name, leaf in returned.items()}
    return None if any(leaf.shape != ours[name].shape for name, leaf in pairs.items()) else pairs


def _check_values(ours: Mapping[str, Tensor], pairs: Mapping[str, Tensor]) -> None:
    for name, leaf in pairs.items():
        error = _distance(ours[name], leaf.detach())
        if error > (1e-6 if leaf.dtype == torch.float64 else 1e-2):
            raise CaptureError(
                "a model that computes the same when it is traced",
                f"{name!r} differs by {error:.2g}, relative",
                "Look for a forward that depends on anything but its arguments and weights.",
            )


def _in_front(node: fx.Node, leaf: Tensor) -> Tensor:
    """What the model returns, with its batch where the graph's tensor has it."""
    moved = node.meta.get(made_by) is not None and isinstance(leaf, Tensor)
    with torch.enable_grad():
        return leaf.permute(node.args[1]) if moved else leaf  # type: ignore[arg-type]


def _is_derivative(local: LocalMap, cotangents: Mapping[str, Tensor], pulled: Tensor) -> bool:
    """Whether difference quotients side with the graph: backwards of PyTorch have errors too.

    Known: batch norm in evaluation, for a cotangent with other strides.
    """
    noise = Noise()
    noise.like(local.source)
    tangent = noise.like(local.source, scaled=True)
    along = (pulled * tangent).double()

    def change(step: float) -> float:
        above, below = (local.segment.program(local.source + sign * step * tangent) for sign in (1, -1))
        parts = [((a - b).double() * c).sum() for a, b, c in zip(above, below, cotangents.values(), strict=True)]
        return float(sum(parts)) / (2 * step)

    return min(abs(change(step) - float(along.sum())) for step in STEPS) <= 0.05 * float(along.norm())


class Outputs:
    """What one eager forward returned, and autograd's way back to its input."""

    def __init__(self, x: Tensor, returned: Any) -> None:
        self.x, self.leaves = x, tree_leaves(returned)

    def pull(self, pairs: Mapping[str, Tensor], cotangents: Mapping[str, Tensor]) -> Tensor:
        reached = {name: leaf for name, leaf in pairs.items() if leaf.requires_grad}
        if not reached:
            return torch.zeros_like(self.x)
        seeds = [cotangents[name] for name in reached]
        (pulled,) = torch.autograd.grad(
            list(reached.values()), self.x, seeds, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return pulled

    def functions(self) -> list[str]:
        """Custom ``autograd.Function`` classes on the way back."""
        waiting = [leaf.grad_fn for leaf in self.leaves if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
        met, named = set(waiting), dict[str, None]()
        while waiting:
            node = waiting.pop()
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                named[f"the autograd.Function {type(node).__name__.removesuffix('Backward')}"] = None
            new = {earlier for earlier, _ in node.next_functions if earlier is not None} - met
            met |= new
            waiting.extend(new)
        return list(named)


def _run(
    model: nn.Module, how: Arguments, x: Tensor, use: Callable[[Outputs], Any], watch: TorchFunctionMode | None = None
) -> Any:
    """What is made of the outputs of a forward with detached weights.

    The weights stay detached until then: a checkpoint runs its part of the forward again in the backward.
    """
    call = _Used(Call(model, how), use)
    held = {name: weight.detach() for name, weight in call.named_parameters()}
    held |= {name: buffer.detach().clone() for name, buffer in call.named_buffers()}
    aside = torch.random.fork_rng(devices=[])
    with torch.enable_grad(), aside, derivable_kernels, unchanged(model), watch or nullcontext():
        return torch.func.functional_call(call, held, (x, *(how.sides or {}).values()))


class _Used(nn.Module):
    """A model, and a function of what it returns."""

    def __init__(self, call: Call, use: Callable[[Outputs], Any]) -> None:
        super().__init__()
        self.call, self.use = call, use
        self.training = call.training

    def forward(self, x: Tensor, *sides: Tensor) -> Any:
        return self.use(Outputs(x, self.call(x, *sides)))


class _Recorder(TorchFunctionMode):
    """Notes the calls that read a tensor with a gradient and return a floating one without."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: dict[str, None] = {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        stops = isinstance(out, Tensor) and out.is_floating_point() and not out.requires_grad
        if stops and any(isinstance(read, Tensor) and read.requires_grad for read in tree_leaves((args, kwargs))):
            name = (resolve_name(function) or str(function)).removeprefix("torch.").removesuffix(".__get__")
            within = "" if torch.is_grad_enabled() else " under no_grad"
            self.stops[f"{name}{within} ({_caller()})"] = None
        return out


def _caller() -> str:
    """The line of the model's own code that is running."""
    frame = sys._getframe(2)
    while frame.f_back is not None and ("/torch/" in frame.f_code.co_filename or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


def _stops(model: nn.Module, how: Arguments, x: Tensor, most: int = 3) -> list[str]:
    """Where gradients end inside the forward."""
    recorder = _Recorder()
    with suppress(Exception):  # a model that cannot be watched: the difference alone is told
        _run(model, how, x, lambda outputs: None, recorder)
    return list(recorder.stops)[:most]


def _distance(left: Tensor, right: Tensor) -> float:
    """Relative; 0 where one is not finite."""
    size = float(torch.maximum(left.norm(), right.norm()))
    error = float((left - right).norm()) / (size or 1.0)
    return error if error < torch.inf else 0.0
