"""Small questions about the values an exported fx graph carries."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import fx

NICKNAMES = {
    "native_batch_norm_legit_no_training": "batch_norm",
    "native_batch_norm": "batch_norm",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "max_pool2d_with_indices": "max_pool2d",
    "unsafe_view": "view",
    "to_copy": "to",
}


made_by = "sgfi_made_by"
"""Key of a node's notes: of a permutation for sequence-first models, the node that it shows with the batch in front;
``None`` for the way back, which has no name. See :mod:`sgfi.graph.layout`."""


def value(node: fx.Node) -> object:
    """The fake value of a node: a tensor, a tuple, a symbolic integer, or None."""
    return node.meta.get("val")


def is_tensor(node: fx.Node) -> bool:
    return isinstance(value(node), torch.Tensor)


def is_floating(node: fx.Node) -> bool:
    tensor = value(node)
    return isinstance(tensor, torch.Tensor) and tensor.dtype.is_floating_point


def is_complex(node: fx.Node) -> bool:
    tensor = value(node)
    return isinstance(tensor, torch.Tensor) and tensor.dtype.is_complex


def carries_derivative(node: fx.Node) -> bool:
    """A floating or complex tensor; through indices and masks no derivative passes."""
    return is_floating(node) or is_complex(node)


def is_random(node: fx.Node) -> bool:
    """Whether an op draws random numbers when it runs; dropout in evaluation, or with a share of zero, does not."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    switches = [given.get(name, False) for name in ("train", "training", "dropout_p") if name in names]
    return all(switches)


def is_symbolic(node: fx.Node) -> bool:
    """Arithmetic on sizes: looks like an edge from the input, carries no derivative."""
    return isinstance(value(node), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def parents(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes whose tensors ``node`` reads (size reads left out)."""
    return (parent for parent in node.all_input_nodes if not is_symbolic(parent))


def op_name(node: fx.Node) -> str:
    """``aten.add.Tensor`` -> ``add``; an item of a tuple carries the name of the op that made the tuple."""
    if node.op == "placeholder":
        return "input"
    if node.meta.get(made_by) is not None:
        return op_name(node.meta[made_by])
    if node.target is operator.getitem:
        return op_name(node.args[0])  # type: ignore[arg-type]
    name = str(getattr(node.target, "_opname", None) or getattr(node.target, "__name__", node.target))
    name = name.lstrip("_").split(".")[0]
    return NICKNAMES.get(name, name)
