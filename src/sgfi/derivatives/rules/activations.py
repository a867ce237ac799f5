"""Activations, normalisation, attention and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, fx

from sgfi.derivatives.rules import cpu
from sgfi.derivatives.rules.ops import Argument, Linear, OpCall, OpDerivative, aten, rule
from sgfi.derivatives.rules.shapes import from_end


@rule("relu")
def _relu(call: OpCall, argument: Argument, item: int | None) -> Linear:
    slope = call.out.sign()
    return Linear(lambda t: t * slope, lambda c: c * slope)


@rule(
    *("gelu", "silu", "sigmoid", "tanh", "hardtanh", "relu6", "hardswish", "hardsigmoid", "elu", "leaky_relu", "mish"),
    *("softplus", "exp", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "erf", "abs", "neg"),
    *("clamp", "pow"),
)
def _pointwise(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    """A factor per entry, taken from autograd once."""
    if argument[0] != "self" or any(isinstance(call.get(key), Tensor) for key in ("exponent", "min", "max")):
        return None
    leaf = call.at(argument).detach().requires_grad_()
    with torch.enable_grad():
        out = call.run_at(argument, leaf)
    call.out = out.detach()
    (slope,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
    return Linear(lambda t: t * slope, lambda c: c * slope)


@rule("native_dropout", "dropout")
def _dropout(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    """Nothing in evaluation; where a forward insists on it, the entries of this very draw."""
    if not call["train"]:
        return Linear(lambda t: t, lambda c: c)
    if item != 0:
        return None
    factor = call.out[1] / (1 - call["p"])
    return Linear(lambda t: t * factor, lambda c: c * factor)


@rule("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    x = call["input"]
    if argument[0] != "input" or item not in (None, 0) or call.get("training", False) or call["running_var"] is None:
        return None
    scale = (call["running_var"] + call["eps"]).rsqrt()
    scale = scale if call["weight"] is None else scale * call["weight"]
    factor = scale.to(x.dtype).reshape(-1, *[1] * (x.dim() - 2))
    return Linear(lambda t: t * factor, lambda c: c * factor)


@rule("layer_norm", "native_layer_norm")
def _layer_norm(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    if argument[0] != "input" or item not in (None, 0):
        return None
    x, weight, shape = call["input"], call["weight"], list(call["normalized_shape"])
    out, mean, rstd = torch.native_layer_norm(x, shape, weight, call["bias"], call["eps"])
    if item is None:
        call.out = out

    def project(t: Tensor, scale: Tensor | None) -> Tensor:
        at_point = [each.expand(len(t), *each.shape).contiguous() for each in (x, mean, rstd)]  # the kernel's layout
        only_input = [True, False, False]
        return aten.native_layer_norm_backward(t, at_point[0], shape, *at_point[1:], scale, None, only_input)[0]

    def push(t: Tensor) -> Tensor:
        return project(t, None) if weight is None else project(t, None) * weight

    return Linear(push, lambda c: project(c, weight))


def _softmax_derivative(t: Tensor, p: Tensor, dim: int) -> Tensor:
    """The derivative of a softmax with output p, which is its own transpose."""
    return aten._softmax_backward_data(t, p.expand_as(t), dim, t.dtype)


@rule("softmax", "_softmax")
def _softmax(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    if call.out.dtype != call.at(argument).dtype:
        return None
    p, dim = call.out, from_end(call["dim"], call.at(argument).dim())
    return Linear(lambda t: _softmax_derivative(t, p, dim), lambda c: _softmax_derivative(c, p, dim))


@rule("scaled_dot_product_attention", joint=True)
def _attention(call: OpCall, arguments: tuple[Argument, ...], nodes: tuple[fx.Node, ...]) -> OpDerivative | None:
    q, k, v = (call[key] for key in ("query", "key", "value"))
    names = [name for name, _ in arguments]
    if "attn_mask" in names or call["dropout_p"] or len({tensor.shape[:-2] for tensor in (q, k, v)}) > 1:
        return None
    scale = call.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    mask = call["attn_mask"]
    if mask is not None and mask.dtype == torch.bool:
        mask = q.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)  # the kernel only adds
    call.out, p = cpu.attention(q, k, v, mask, call["is_causal"], scale)
    q, k = q * scale, k * scale  # the derivative only needs them scaled

    # The axis of directions stands beside the rows, (..., N, Q, d): one product per head for all directions.

    def rows(t: Tensor, matrix: Tensor) -> Tensor:
        """(..., N, Q, a) times what all directions share, (..., a, b) -> (..., N, Q, b)."""
        return (t.flatten(-3, -2) @ matrix).unflatten(-2, t.shape[-3:-1])

    def through_softmax(t: Tensor) -> Tensor:
        return _softmax_derivative(t, p.unsqueeze(-2), -1)

    def push(tangents: Sequence[Tensor | None]) -> Tensor | None:
        given = {name: t for name, t in zip(names, tangents, strict=True) if t is not None}
        parts, scores = [], []
        if "query" in given:
            scores.append(rows(given["query"].movedim(0, -2), k.mT))
        if "key" in given:
            stacked = given["key"].movedim(0, -3)  # (..., Q, N, d)
            scores.append((q @ stacked.flatten(-3, -2).mT).unflatten(-1, stacked.shape[-3:-1]))
        if scores:
            parts.append(rows(through_softmax(scores[0] if len(scores) == 1 else scores[0] + scores[1]), v))
        if "value" in given:
            stacked = given["value"].movedim(0, -2)  # (..., N, Q, d)
            parts.append((p @ stacked.flatten(-2)).unflatten(-1, stacked.shape[-2:]))
        return (parts[0] if len(parts) == 1 else parts[0] + parts[1]).movedim(-2, 0)

    def pull(c: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        want = dict(zip(names, wanted, strict=True))
        c = c.movedim(0, -2).contiguous()  # (..., N, Q, d)
        pulled: dict[str, Tensor] = {}
        if want.get("query") or want.get("key"):
            scores = through_softmax(rows(c, v.mT))
        if want.get("query"):
            pulled["query"] = rows(scores, k).movedim(-2, 0)
        if want.get("key"):
            pulled["key"] = (scores.flatten(-2).mT @ q).unflatten(-2, scores.shape[-2:]).movedim(-3, 0)
        if want.get("value"):
            pulled["value"] = (p.mT @ c.flatten(-2)).unflatten(-1, c.shape[-2:]).movedim(-2, 0)
        return [pulled.get(name) for name in names]

    return OpDerivative(nodes, push, pull)


@rule("max_pool2d", "max_pool2d_with_indices")
def _max_pool(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    x = call["self"]
    if x.dim() != 4 or item not in (None, 0):
        return None
    options = [call.get(key) for key in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    if item is None:
        call.out, indices = cpu.max_pool(x, options)
    else:
        indices = call.out[1]
    flat, after = indices.flatten(-2), indices.shape[-2:]

    def push(t: Tensor) -> Tensor:
        return t.flatten(-2).gather(-1, flat.expand(len(t), *flat.shape)).unflatten(-1, after)

    def pull(c: Tensor) -> Tensor:
        whole = c.new_zeros(*c.shape[:3], x.shape[2] * x.shape[3])
        return whole.scatter_add_(-1, flat.expand(len(c), *flat.shape), c.flatten(-2)).unflatten(-1, x.shape[2:])

    return Linear(push, pull)


@rule("avg_pool2d", "adaptive_avg_pool2d")
def _average_pool(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    x = call["self"]
    if x.dim() != 4:
        return None

    def push(t: Tensor) -> Tensor:
        return call.run({"self": t.flatten(0, 1)}).unflatten(0, (len(t), -1))

    def pull(c: Tensor) -> Tensor:
        leaf = c.new_zeros(len(c) * len(x), *x.shape[1:]).requires_grad_()
        with torch.enable_grad():
            out = call.run({"self": leaf})
        return torch.autograd.grad(out, leaf, c.flatten(0, 1))[0].unflatten(0, (len(c), -1))

    return Linear(push, pull)
