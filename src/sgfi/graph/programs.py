"""Pieces of the captured graph as plain callables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from sgfi.graph.values import is_symbolic, value

if TYPE_CHECKING:
    from sgfi.graph.tensor_graph import TensorGraph


@contextmanager
def derivable_kernels() -> Iterator[None]:
    """Attention by the plain kernel: the fused ones have neither forward-mode nor double-backward rules."""
    with sdpa_kernel(SDPBackend.MATH):
        yield


class Program:
    """A pure callable from a few tensors to a few tensors of the captured graph."""

    def __init__(self, module: fx.GraphModule) -> None:
        self._forward = module.forward
        self._module = module

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        with derivable_kernels():
            return self._forward(*inputs)


def extract(graph: TensorGraph, inputs: tuple[str, ...], outputs: tuple[str, ...], cuts: Mapping[str, bool]) -> Program:
    """The computation from ``inputs`` to ``outputs``; everything it needs must follow from the inputs and weights.

    ``cuts`` names tensors after which the derivative chain is broken: what follows reads a detached copy, which is a
    fresh leaf that requires a gradient where the mapping says True. A cut tensor yields two outputs, itself (before
    the cut) and, at the end of the tuple in the order of ``cuts``, the copy.
    """
    tensors = graph._tensors
    sources = [tensors[name] for name in inputs]
    wanted = [tensors[name] for name in outputs]
    piece = fx.Graph()
    made: dict[fx.Node, fx.Node] = {node: piece.placeholder(f"in_{i}") for i, node in enumerate(sources)}
    copies = dict(made)
    holder = torch.nn.Module()
    batch = value(tensors["input"]).shape[0]  # type: ignore[attr-defined]
    names = graph._names

    for node in _needed(graph, set(sources), wanted, batch):
        if node in made:
            continue
        if node.name in graph.constants:
            holder.register_buffer(node.name, graph.constants[node.name], persistent=False)
            copy = piece.get_attr(node.name)
        elif _reads_batch(node, batch):
            copy = piece.call_function(torch.ops.aten.sym_size.int, (made[sources[0]], 0))
        else:
            copy = piece.node_copy(node, lambda old: copies[old])
        made[node] = copies[node] = copy
        if names.get(node) in cuts:
            copies[node] = piece.call_function(_leaf if cuts[names[node]] else torch.detach, (copy,))
    piece.output(tuple([made[node] for node in wanted] + [copies[tensors[name]] for name in cuts]))
    return Program(fx.GraphModule(holder, piece))


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _reads_batch(node: fx.Node, batch: object) -> bool:
    """Whether a node is the bare batch size: any input of a piece can tell it."""
    return is_symbolic(node) and node.target is torch.ops.aten.sym_size.int and str(value(node)) == str(batch)


def _needed(graph: TensorGraph, sources: set[fx.Node], wanted: list[fx.Node], batch: object) -> list[fx.Node]:
    """The nodes between the sources and the wanted ones, in topological order."""
    needed, stack = set(), list(wanted)
    while stack:
        node = stack.pop()
        if node in needed or node in sources:
            continue
        needed.add(node)
        if not _reads_batch(node, batch):
            stack.extend(node.all_input_nodes)
    return [node for node in graph._fx.nodes if node in needed]
