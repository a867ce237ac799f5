"""Tensors of sequence-first models, with the batch moved to the front.

Inside such a model tensors are ``(L, B, D)``. A named tensor has its batch first here: after every op that makes a
tensor with the batch elsewhere stands a permutation, which is what is named, and before every reader one back.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from sgfi.graph.values import is_floating, made_by, value

PERMUTE, COPY = torch.ops.aten.permute.default, torch.ops.aten.clone.default


def batch_first(graph: fx.Graph, source: fx.Node) -> None:
    """Permutations put into the graph, in place; nothing is computed differently."""
    batch = str(value(source).shape[0])  # type: ignore[attr-defined]
    for node in list(graph.nodes):
        axis = _batch_axis(node, batch)
        if axis and node.op == "call_function":
            _name_in_front(graph, node, axis)


def _batch_axis(node: fx.Node, batch: str) -> int | None:
    """Where a floating tensor has the batch, if it has it once."""
    if not is_floating(node):
        return None
    sizes = [str(size) for size in value(node).shape]  # type: ignore[attr-defined]
    return sizes.index(batch) if sizes.count(batch) == 1 else None


def _name_in_front(graph: fx.Graph, node: fx.Node, axis: int) -> None:
    rank = value(node).dim()  # type: ignore[attr-defined]
    there = [axis, *(dim for dim in range(rank) if dim != axis)]
    back = [there.index(dim) for dim in range(rank)]
    users = [user for user in node.users if user.op != "output"]
    front = _inserted(graph, node, PERMUTE, (node, there), node)
    front.meta[made_by] = node
    for user in users:  # in the reader's own module, so that who returns what stays as it was
        with graph.inserting_before(user):
            moved = _call(graph, PERMUTE, (front, back), user)
            copied = _call(graph, COPY, (moved,), user, memory_format=torch.contiguous_format)
        for each in (moved, copied):
            each.meta[made_by] = None
        user.replace_input_with(node, copied)
    for output in [user for user in node.users if user.op == "output"]:
        output.replace_input_with(node, front)


def _inserted(graph: fx.Graph, after: fx.Node, target: Any, args: tuple, like: fx.Node) -> fx.Node:
    with graph.inserting_after(after):
        return _call(graph, target, args, like)


def _call(graph: fx.Graph, target: Any, args: tuple, like: fx.Node, **options: Any) -> fx.Node:
    """A call in the module of another node."""
    call = graph.call_function(target, args, options)
    call.meta["nn_module_stack"] = like.meta.get("nn_module_stack")
    with value(args[0]).fake_mode:  # type: ignore[attr-defined]
        call.meta["val"] = target(value(args[0]), *args[1:], **options)
    return call
