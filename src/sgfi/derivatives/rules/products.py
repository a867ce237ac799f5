"""Sums, products and convolutions."""

from __future__ import annotations

import torch
from torch import Tensor

from sgfi.derivatives.rules import cpu
from sgfi.derivatives.rules.ops import Argument, Linear, OpCall, aten, rule
from sgfi.derivatives.rules.shapes import broadcast, per_axis, reduced


@rule("add", "sub")
def _add(call: OpCall, argument: Argument, item: int | None) -> Linear:
    shape, after = call.at(argument).shape, call.out.shape
    weight = call.get("alpha", 1) if argument[0] == "other" else 1
    weight = -weight if argument[0] == "other" and call.name == "sub" else weight
    scaled = (lambda t: t) if weight == 1 else (lambda t: t * weight)
    return Linear(lambda t: scaled(broadcast(t, after)), lambda c: scaled(reduced(c, shape)))


@rule("mul", "div")
def _mul(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    if call.get("rounding_mode") is not None:
        return None
    first = argument[0] == "self"
    if call.name == "mul":
        factor = call["other" if first else "self"]
    else:
        factor = 1 / call["other"] if first else -call.out / call["other"]
    shape, after = call.at(argument).shape, call.out.shape
    return Linear(lambda t: broadcast(t, after) * factor, lambda c: reduced(c * factor, shape))


@rule("linear")
def _linear(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    weight = call["weight"]
    if argument[0] != "input" or weight.dim() != 2:
        return None
    return Linear(lambda t: torch.nn.functional.linear(t, weight), lambda c: torch.matmul(c, weight))


@rule("matmul", "mm", "bmm")
def _matmul(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    left, right = (call[key] for key in (("self", "other") if call.name == "matmul" else ("self", "mat2")))
    if left.dim() < 2 or right.dim() < 2:
        return None
    shape = call.at(argument).shape
    dims = max(left.dim(), right.dim())

    def lift(t: Tensor) -> Tensor:
        return t.reshape(len(t), *[1] * (dims + 1 - t.dim()), *t.shape[1:])

    if argument[0] == "self":
        return Linear(lambda t: lift(t) @ right, lambda c: reduced(c @ right.mT, shape))
    return Linear(lambda t: left @ lift(t), lambda c: reduced(left.mT @ c, shape))


@rule("conv1d", "conv2d", "conv3d", "convolution")
def _convolution(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    weight, x = call["weight"], call["input"]
    plain = not isinstance(call["padding"], str) and not call.get("transposed")
    if argument[0] != "input" or x.dim() != weight.dim() or not plain:
        return None
    n = weight.dim() - 2
    stride, padding, dilation = (per_axis(call[key], n) for key in ("stride", "padding", "dilation"))
    options = (stride, padding, dilation, False, [0] * n, call["groups"])

    def push(t: Tensor) -> Tensor:
        return aten.convolution(t.flatten(0, 1), weight, None, *options).unflatten(0, (len(t), -1))

    def pull(c: Tensor) -> Tensor:
        flat = c.flatten(0, 1)
        like = flat.new_empty(()).expand(len(flat), *x.shape[1:])  # only its shape is read
        back = aten.convolution_backward(flat, like, weight, None, *options, [True, False, False])
        return back[0].unflatten(0, (len(c), -1))

    return cpu.convolution(x, weight, options, Linear(push, pull))
