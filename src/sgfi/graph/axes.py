"""Which axis of a tensor holds channels.

The axis follows the op that made the tensor (convolution, batch norm, pooling: 1; linear, layer norm, embedding,
attention output: last; attention weights ``(B, h, N, N)``: 1) and is carried through element-wise ops, permutes and
reshapes. ``None`` means that no axis could be told apart; the user may still name one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor, fx

from sgfi.graph.values import is_tensor, op_name, parents, value

AxisRule = Callable[[fx.Node, dict[fx.Node, "int | None"]], "int | None"]
_RULES: dict[str, AxisRule] = {}

FIRST = (
    "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d batch_norm group_norm "
    "instance_norm max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest2d upsample_bilinear2d "
    "pixel_shuffle pixel_unshuffle grid_sampler_2d"
).split()
LAST = "linear layer_norm rms_norm fused_rms_norm embedding addmm scaled_dot_product_attention lstm gru".split()


def infer(graph: fx.Graph, source: fx.Node) -> dict[fx.Node, int | None]:
    """Channel axis of every tensor that depends on ``source``; channel and batch axes never coincide."""
    axes: dict[fx.Node, int | None] = {source: _input_axis(source)}
    for node in graph.nodes:
        if node is source or not any(parent in axes for parent in parents(node)):
            continue
        axes[node] = _RULES.get(op_name(node), _elementwise)(node, axes)
    return axes


def _rule(*ops: str) -> Callable[[AxisRule], AxisRule]:
    def register(rule: AxisRule) -> AxisRule:
        for op in ops:
            if op in _RULES:
                raise ValueError(f"a second axis rule for {op}")
            _RULES[op] = rule
        return rule

    return register


def _rank(node: fx.Node) -> int:
    return value(node).dim() if is_tensor(node) else 0  # type: ignore[attr-defined]


def _shape(node: fx.Node) -> list:
    return list(value(node).shape)  # type: ignore[attr-defined]


def _input_axis(source: fx.Node) -> int | None:
    """The input's channel axis is told by its first reader: 1 for convolutions, the last for linear layers."""
    rank = _rank(source)
    if rank < 2:
        return None
    for user in source.users:
        if op_name(user) in FIRST:
            return 1
        if op_name(user) in LAST:
            return rank - 1
    return rank - 1 if rank <= 3 else 1


def _operand(node: fx.Node, axes: dict[fx.Node, int | None]) -> fx.Node | None:
    """The first operand that depends on the input, one with a known axis before one without."""
    reading = [parent for parent in parents(node) if parent in axes]
    known = [parent for parent in reading if axes[parent] is not None]
    return (known or reading or [None])[0]


def _vector(node: fx.Node) -> int | None:
    """A ``(B, D)`` tensor has only one axis to offer."""
    return 1 if _rank(node) == 2 else None


@_rule(*FIRST)
def _first(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    return 1


@_rule(*LAST)
def _last(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    return _rank(node) - 1 if is_tensor(node) else None


def _elementwise(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """Same rank: the operand's axis. Broadcast: aligned from the right. Anything else: a vector or unknown."""
    if not is_tensor(node):  # a tuple of tensors: its items ask again
        operand = _operand(node, axes)
        return axes[operand] if operand is not None else None
    for operand in (parent for parent in parents(node) if axes.get(parent) is not None):
        shift = _rank(node) - (_rank(operand) or _rank(node))
        axis = axes[operand] + shift  # type: ignore[operator]
        if shift >= 0 and axis < _rank(node):
            return axis
    return _vector(node)


@_rule("matmul", "bmm", "mm", "baddbmm")
def _product(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    left, right = (list(parents(node)) * 2)[:2]
    rank, contracted = _rank(node), axes.get(right)
    if right not in axes or contracted is None:
        return rank - 1
    if left not in axes:
        return contracted if contracted == rank - 1 else rank - 1
    if contracted == _rank(right) - 1:  # weights x values: the values' channels
        return rank - 1
    return 1 if rank == 4 else None  # queries x keys: the heads of (B, h, N, N)


@_rule("permute")
def _permute(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis, order = axes[node.args[0]], node.args[1]  # type: ignore[index]
    rank = len(order)  # type: ignore[arg-type]
    return None if axis is None else [dim % rank for dim in order].index(axis)  # type: ignore[union-attr,operator]


@_rule("transpose", "swapaxes")
def _transpose(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis, rank = axes[node.args[0]], _rank(node)  # type: ignore[index]
    one, two = node.args[1] % rank, node.args[2] % rank  # type: ignore[operator]
    return {one: two, two: one}.get(axis, axis)  # type: ignore[arg-type]


@_rule("t", "numpy_T")
def _turn(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis = axes[node.args[0]]  # type: ignore[index]
    return None if axis is None else _rank(node) - 1 - axis


@_rule("unsqueeze")
def _unsqueeze(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis = axes[node.args[0]]  # type: ignore[index]
    return None if axis is None else axis + (axis >= node.args[1] % _rank(node))  # type: ignore[operator]


def _without(node: fx.Node, axes: dict[fx.Node, int | None], gone: set[int]) -> int | None:
    """The operand's axis after some axes are dropped."""
    axis = axes[node.args[0]]  # type: ignore[index]
    if axis is None or axis in gone:
        return _vector(node)
    return axis - sum(dim < axis for dim in gone)


@_rule("squeeze", "select", "unbind")
def _drop(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _operand(node, axes)
    if operand is None or not is_tensor(operand):
        return _item(node, axes)
    dims = node.args[1] if len(node.args) > 1 else [d for d, n in enumerate(_shape(operand)) if n == 1]
    rank = _rank(operand)
    gone = {dim % rank for dim in (dims if isinstance(dims, (list, tuple)) else [dims])}  # type: ignore[operator]
    if op_name(node) == "squeeze":
        gone = {dim for dim in gone if _shape(operand)[dim] == 1}
    return _without(node, axes, gone)


def _item(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _operand(node, axes)
    return axes[operand] if operand is not None else None


@_rule("mean", "sum", "amax", "amin", "logsumexp", "std", "var", "norm")
def _reduce(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand: fx.Node = node.args[0]  # type: ignore[assignment]
    if not is_tensor(operand) or _rank(operand) == _rank(node):
        return _elementwise(node, axes)
    dims = node.args[1] if len(node.args) > 1 else list(range(_rank(operand)))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    return _without(node, axes, {dim % _rank(operand) for dim in dims})  # type: ignore[operator,union-attr]


@_rule("view", "reshape", "flatten", "unflatten", "unsafe_view")
def _reshape(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """The output axis that covers the same run of memory, else the one that starts (or ends) with it."""
    operand: fx.Node = node.args[0]  # type: ignore[assignment]
    axis, before, after = axes[operand], _shape(operand), _shape(node)
    if axis is None or len(after) == 2:
        return _vector(node)
    for same in (
        lambda out: _span(after, out) == _span(before, axis),
        lambda out: _span(after, out)[0] == _span(before, axis)[0] and after[out] != 1,
        lambda out: _span(after, out)[1] == _span(before, axis)[1] and after[out] != 1,
    ):
        found = [out for out in range(1, len(after)) if same(out)]
        if found:
            return found[-1] if axis == len(before) - 1 else found[0]
    return None


def _span(shape: list, axis: int) -> tuple[str, str]:
    """Elements before an axis, and elements after it, as text (sizes may be symbolic)."""
    return str(prod(shape[:axis])), str(prod(shape[axis + 1 :]))


def batch_axes(shape: torch.Size, batch: object) -> list[int]:
    """Axes whose size depends on the batch symbol."""
    return [axis for axis, size in enumerate(shape) if not isinstance(size, int) and str(batch) in str(size)]


def describe(tensor: Tensor, batch: str) -> tuple[int | str | None, ...]:
    """A shape with ``None`` for the batch and ``"64*B"`` where the batch is folded into an axis."""

    def size(found: object) -> int | str | None:
        if isinstance(found, int):
            return found
        text = str(found)
        return None if text == batch else text.replace(batch, "B")

    return tuple(size(found) for found in tensor.shape)
