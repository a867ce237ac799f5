"""Which axis of a tensor holds channels.

The axis follows the op that made the tensor (convolution, batch norm, pooling: 1; linear, layer norm, embedding,
attention output: last; attention weights ``(B, h, N, N)``: 1) and is carried through element-wise ops, permutes and
reshapes. ``None`` means that no axis could be inferred; the user may still name one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, fx

from sgfi.errors import PluginError, first_line
from sgfi.graph.values import is_tensor, made_by, op_name, parents, value
from sgfi.plugins import Registry

AxisRule = Callable[[fx.Node, dict[fx.Node, "int | None"]], "int | None"]


def _accepted(name: str, given: Any) -> AxisRule:
    if not callable(given):
        raise TypeError(f"an axis rule is a function of a node and the axes so far, not a {type(given).__name__}")
    return given


AXIS_RULES: Registry[AxisRule] = Registry("axis rule", "sgfi.axes", _accepted)
"""By op, as :func:`~sgfi.graph.values.op_name` spells it."""

FIRST = (
    "conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d batch_norm group_norm "
    "instance_norm max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d upsample_nearest2d upsample_bilinear2d "
    "upsample_bicubic2d pixel_shuffle pixel_unshuffle grid_sampler_2d im2col col2im"
).split()
LAST = "linear rms_norm fused_rms_norm embedding addmm scaled_dot_product_attention lstm gru".split()


def infer(graph: fx.Graph, source: fx.Node) -> dict[fx.Node, int | None]:
    """Channel axis of every tensor that depends on ``source``; channel and batch axes never coincide."""
    axes: dict[fx.Node, int | None] = {source: _input_axis(source)}
    for node in graph.nodes:
        if node is source or not any(parent in axes for parent in parents(node)):
            continue
        axes[node] = _permute(node, axes) if made_by in node.meta else _axis(node, axes)
    return axes


def _axis(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """By the op's rule. A plug-in's that fails is named, and the axis stays unknown."""
    op = op_name(node)
    rule = AXIS_RULES.usable(op) or _elementwise
    plugin = AXIS_RULES.plugin(op)
    if plugin is None:
        return rule(node, axes)
    rank, got = _rank(node), ""
    try:
        axis = rule(node, axes)
        if axis is None or (type(axis) is int and 0 < axis < rank):
            return axis
        got = repr(axis)
    except Exception as error:  # whatever a plug-in does
        got = f"{type(error).__name__}: {first_line(error)}"
    wanted = f"a channel axis of 1 to {rank - 1}, or None, from the axis rule {plugin}"
    AXIS_RULES.warn(PluginError(wanted, got, "Correct or uninstall that package."))
    return None


def _rule(*ops: str) -> Callable[[AxisRule], AxisRule]:
    def register(rule: AxisRule) -> AxisRule:
        for op in ops:
            AXIS_RULES.register(op, rule)
        return rule

    return register


def _args(node: fx.Node) -> Any:
    """The arguments of a call: their types depend on the op."""
    return node.args


def _rank(node: fx.Node) -> int:
    """Number of axes of a tensor, or of the first tensor of a tuple."""
    first = value(node)
    first = first[0] if isinstance(first, (tuple, list)) and first else first
    return first.dim() if isinstance(first, Tensor) else 0


def _shape(node: fx.Node) -> list:
    return list(value(node).shape)  # type: ignore[attr-defined]


def _input_axis(source: fx.Node) -> int | None:
    """By its first reader; without one, the last of up to three axes, else 1."""
    rank = _rank(source)
    if rank < 2:
        return None
    read = read_axis(source)
    if read is None:
        return rank - 1 if rank <= 3 else 1
    return read or None


def read_axis(source: fx.Node) -> int | None:
    """The input's channel axis as its first reader has it: 1 for convolutions, the last for linear layers.

    Element-wise ops and permutes on the way are followed; ``None`` where no reader tells, 0 where one has the batch
    there, which are no channels.
    """
    rank = _rank(source)
    waiting = [(source, list(range(rank)))]  # a tensor, and where each of its axes stood in the input
    while waiting:
        node, origin = waiting.pop(0)
        for user in node.users:
            op, rule = op_name(user), AXIS_RULES.usable(op_name(user)) or _elementwise
            if op in FIRST:
                return origin[1]
            if op in LAST or _norms_channels(user):
                return origin[-1]
            if _rank(user) == rank and is_tensor(user) and rule in (_elementwise, _layer_norm, _permute):
                waiting.append((user, [origin[dim] for dim in _order(user)]))
    return None


def _operand(node: fx.Node, axes: dict[fx.Node, int | None]) -> fx.Node | None:
    """The first operand that depends on the input, one with a known axis before one without."""
    reading = [parent for parent in parents(node) if parent in axes]
    known = [parent for parent in reading if axes[parent] is not None]
    return next(iter(known or reading), None)


def _vector(node: fx.Node) -> int | None:
    """A ``(B, D)`` tensor has only one axis to offer."""
    return 1 if _rank(node) == 2 else None


@_rule(*FIRST)
def _first(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    return 1


@_rule(*LAST)
def _last(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    return _rank(node) - 1 if is_tensor(node) else None


@_rule("layer_norm")
def _layer_norm(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    return _last(node, axes) if _norms_channels(node) else _elementwise(node, axes)


def _norms_channels(node: fx.Node) -> bool:
    """A layer norm over the last axis alone; over several axes it does not say where channels stand."""
    return op_name(node) == "layer_norm" and isinstance(_args(node)[1], (list, tuple)) and len(_args(node)[1]) == 1


def _elementwise(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """Same rank: the operand's axis. Broadcast: aligned from the right. Anything else: a vector or unknown.

    Where operands disagree, the one made first decides: a residual stream before its branch.
    """
    if not is_tensor(node):  # a tuple of tensors: its items ask again
        return _item(node, axes)
    rank = _rank(node)
    candidates = {
        parent: axis + rank - _rank(parent)
        for parent in sorted(parents(node), key=_rank, reverse=True)
        if (axis := axes.get(parent)) is not None and axis < _rank(parent) <= rank
    }
    if len(set(candidates.values())) > 1:
        return candidates[next(parent for parent in axes if parent in candidates)]
    return next(iter(candidates.values()), _vector(node))


@_rule("matmul", "bmm", "mm", "baddbmm")
def _product(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    left, right = _args(node)[-2:]
    rank, channel = _rank(node), axes.get(right)
    if right not in axes or channel is None:
        return rank - 1
    if left not in axes:  # weights from the left: channels stay where they stood
        return channel + rank - _rank(right)
    if channel == _rank(right) - 1:
        return rank - 1  # weights x values: the values' channels
    return rank - 3 if rank >= 4 else None  # queries x keys: the heads of (B, h, N, N)


@_rule("einsum")
def _einsum(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """The letter of the operand's channels; if it is summed over: with weights their new letter, else the heads."""
    equation, operands = _args(node)[:2]
    terms, _, out = equation.replace(" ", "").partition("->")
    letters = dict(zip(operands, terms.split(","), strict=True))
    if "." in equation or not out:
        return _vector(node)
    known = [letters[operand][axes[operand]] for operand in letters if axes.get(operand) is not None]
    kept = [letter for letter in known if letter in out]
    fixed = "".join(term for operand, term in letters.items() if operand not in axes)
    moving = "".join(term for operand, term in letters.items() if operand in axes)
    if kept:
        return out.index(kept[-1])
    new = [letter for letter in out if letter in fixed and letter not in moving]
    if known and new:
        return out.index(new[-1])
    return len(out) - 3 if known and len(out) >= 4 else _vector(node)


@_rule("permute", "transpose", "swapaxes", "t", "numpy_T")
def _permute(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis = axes[_args(node)[0]]
    return None if axis is None else _order(node).index(axis)


def _order(node: fx.Node) -> list[int]:
    """For every axis of a result, the axis of its operand; an op that does not move axes keeps them."""
    rank, op = _rank(node), "permute" if node.target is torch.ops.aten.permute.default else op_name(node)
    order = list(range(rank))
    if op == "permute":
        return [dim % rank for dim in _args(node)[1]]
    if op in ("transpose", "swapaxes"):
        first, second = (dim % rank for dim in _args(node)[1:3])
        order[first], order[second] = second, first
    return order[::-1] if op in ("t", "numpy_T") else order


@_rule("stack")
def _stack(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _operand(node, axes)
    axis = axes[operand] if operand is not None else None
    dim = _args(node)[1] if len(_args(node)) > 1 else 0
    return None if axis is None else axis + (axis >= dim % _rank(node))


@_rule("unsqueeze")
def _unsqueeze(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    axis = axes[_args(node)[0]]
    return None if axis is None else axis + (axis >= _args(node)[1] % _rank(node))


def _without(node: fx.Node, axes: dict[fx.Node, int | None], gone: set[int]) -> int | None:
    """The operand's axis after some axes are dropped."""
    axis = axes[_args(node)[0]]
    if axis is None or axis in gone:
        return _vector(node)
    return axis - sum(dim < axis for dim in gone)


@_rule("squeeze", "select", "unbind")
def _drop(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _operand(node, axes)
    if operand is None or not is_tensor(operand):
        return _item(node, axes)
    ones = [dim for dim, size in enumerate(_shape(operand)) if isinstance(size, int) and size == 1]
    dims = _args(node)[1] if len(_args(node)) > 1 else (ones if op_name(node) == "squeeze" else 0)
    rank = _rank(operand)
    gone = {dim % rank for dim in (dims if isinstance(dims, (list, tuple)) else [dims])}
    if op_name(node) == "squeeze":
        gone &= set(ones)
    return _without(node, axes, gone)


def _item(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _operand(node, axes)
    return axes[operand] if operand is not None else None


@_rule("mean", "sum", "prod", "amax", "amin", "max", "min", "median", "logsumexp", "std", "var", "linalg_vector_norm")
def _reduce(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    operand = _args(node)[0]
    if not is_tensor(operand) or _rank(operand) == _rank(node):  # an item of a tuple, or the axes are kept
        return _elementwise(node, axes)
    position, rank = 2 if op_name(node) == "linalg_vector_norm" else 1, _rank(operand)
    dims = _args(node)[position] if len(_args(node)) > position else None
    if dims is None or isinstance(dims, bool):
        return None  # everything is summed up
    return _without(node, axes, {dim % rank for dim in (dims if isinstance(dims, (list, tuple)) else [dims])})


@_rule("view", "reshape", "flatten", "unflatten", "unsafe_view")
def _reshape(node: fx.Node, axes: dict[fx.Node, int | None]) -> int | None:
    """The output axis that covers the same run of memory, else one that starts or ends with it.

    A last axis that is split keeps its channels last (``(B, N, 3 h d)`` to ``(B, N, 3, h, d)``: d, as in the
    attention output); any other keeps them first (``(B, C, H, W)`` to ``(B, C, H W)``).
    """
    operand = _args(node)[0]
    axis, before, after = axes[operand], _shape(operand), _shape(node)
    if axis is None or len(after) == 2:
        return _vector(node)
    left, right = _span(before, axis)
    spans = {out: _span(after, out) for out in range(1, len(after))}
    starts = [out for out, span in spans.items() if span[0] == left and after[out] != 1]
    ends = [out for out, span in spans.items() if span[1] == right and after[out] != 1]
    same = [out for out, span in spans.items() if span == (left, right)]
    last = axis == len(before) - 1
    fitting = same or (ends or starts if last else starts or ends)
    return None if not fitting else fitting[-1] if last else fitting[0]


def _span(shape: list, axis: int) -> tuple[str, str]:
    """Elements before an axis, and elements after it, as text (sizes may be symbolic)."""
    return str(prod(shape[:axis])), str(prod(shape[axis + 1 :]))


def describe(tensor: Tensor, batch: str) -> tuple[int | str | None, ...]:
    """A shape with ``None`` for the batch and ``"64*B"`` where the batch is folded into an axis."""

    def described(size: object) -> int | str | None:
        return size if isinstance(size, int) else None if str(size) == batch else str(size).replace(batch, "B")

    return tuple(map(described, tensor.shape))
