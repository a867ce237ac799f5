"""Sums, products and convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sgfi.derivatives.rules.calls import Call, Linear, Place, aten, rule
from sgfi.derivatives.rules.shapes import broadcast, each, reduced


@rule("add", "sub")
def _add(call: Call, at: Place, item: int | None) -> Linear:
    shape, after = call.at(at).shape, call.out.shape
    weight = call.get("alpha", 1) if at[0] == "other" else 1
    weight = -weight if at[0] == "other" and call.name == "sub" else weight
    scaled = (lambda t: t) if weight == 1 else (lambda t: t * weight)
    return Linear(lambda t: scaled(broadcast(t, after)), lambda c: scaled(reduced(c, shape)))


@rule("mul", "div")
def _mul(call: Call, at: Place, item: int | None) -> Linear | None:
    if call.get("rounding_mode") is not None:
        return None
    first = at[0] == "self"
    if call.name == "mul":
        factor = call["other" if first else "self"]
    else:
        factor = 1 / call["other"] if first else -call.out / call["other"]
    shape, after = call.at(at).shape, call.out.shape
    return Linear(lambda t: broadcast(t, after) * factor, lambda c: reduced(c * factor, shape))


@rule("linear")
def _linear(call: Call, at: Place, item: int | None) -> Linear | None:
    weight = call["weight"]
    if at[0] != "input" or weight.dim() != 2:
        return None
    return Linear(lambda t: torch.nn.functional.linear(t, weight), lambda c: torch.matmul(c, weight))


@rule("matmul", "mm", "bmm")
def _matmul(call: Call, at: Place, item: int | None) -> Linear | None:
    left, right = (call[key] for key in (("self", "other") if call.name == "matmul" else ("self", "mat2")))
    if left.dim() < 2 or right.dim() < 2:
        return None
    shape = call.at(at).shape
    dims = max(left.dim(), right.dim())

    def lift(t: Tensor) -> Tensor:
        return t.reshape(len(t), *[1] * (dims + 1 - t.dim()), *t.shape[1:])

    if at[0] == "self":
        return Linear(lambda t: lift(t) @ right, lambda c: reduced(c @ right.mT, shape))
    return Linear(lambda t: left @ lift(t), lambda c: reduced(left.mT @ c, shape))


@rule("conv1d", "conv2d", "conv3d", "convolution")
def _convolution(call: Call, at: Place, item: int | None) -> Linear | None:
    weight, x = call["weight"], call["input"]
    plain = not isinstance(call["padding"], str) and not call.get("transposed")
    if at[0] != "input" or x.dim() != weight.dim() or not plain:
        return None
    n = weight.dim() - 2
    stride, padding, dilation = (each(call[key], n) for key in ("stride", "padding", "dilation"))
    if call["groups"] == 1 and _patches(x, weight, stride, padding, dilation):
        return _patch_product(x, weight)
    options = (stride, padding, dilation, False, [0] * n, call["groups"])
    shape = x.shape[1:]
    # Back to a few colours, oneDNN was twice to three times slower on the CPU than the kernel it replaces.
    direct = n == 2 and x.device.type == "cpu" and shape[0] <= 4 and call["groups"] == 1 and set(dilation) == {1}

    # Cells that a strided convolution of single cells jumps over get nothing: two to four times faster by themselves.
    jumps = call["groups"] == 1 and math.prod(weight.shape[2:]) == 1 and max(stride) > 1 and not any(padding)
    reached = tuple(slice(None, None, step) for step in (1, 1, *stride))

    def push(t: Tensor) -> Tensor:
        return aten.convolution(t.flatten(0, 1), weight, None, *options).unflatten(0, (len(t), -1))

    def pull(c: Tensor) -> Tensor:
        flat = c.flatten(0, 1)
        if jumps:
            whole = flat.new_zeros(len(flat), *shape)
            whole[reached] = aten.convolution(flat, weight.transpose(0, 1), None, [1] * n, *options[1:])
            return whole.unflatten(0, (len(c), -1))
        like = flat.new_empty(()).expand(len(flat), *shape)  # only its shape is read
        if direct:
            found = aten._slow_conv2d_backward(
                flat, like, weight, weight.shape[2:], stride, padding, [True, False, False]
            )
        else:
            found = aten.convolution_backward(flat, like, weight, None, *options, [True, False, False])
        return found[0].unflatten(0, (len(c), -1))

    return Linear(push, pull)


def _patches(x: Tensor, weight: Tensor, stride: list[int], padding: list[int], dilation: list[int]) -> bool:
    """Whether a convolution cuts the picture into patches: a plain matrix product, several times faster as one."""
    kernel = weight.shape[2:]
    return (
        len(kernel) == 2
        and max(kernel) > 1
        and list(kernel) == stride
        and not any(padding)
        and set(dilation) == {1}
        and all(size % patch == 0 for size, patch in zip(x.shape[2:], kernel, strict=True))
    )


def _patch_product(x: Tensor, weight: Tensor) -> Linear:
    batch, channels, height, width = x.shape
    outputs, _, down, across = weight.shape
    grid = (height // down, width // across)
    matrix = weight.flatten(1)  # (O, C * patch)

    def push(t: Tensor) -> Tensor:
        cut = t.reshape(-1, channels, grid[0], down, grid[1], across).permute(0, 2, 4, 1, 3, 5)
        mixed = cut.reshape(-1, matrix.shape[1]) @ matrix.T
        return mixed.reshape(len(t), batch, *grid, outputs).permute(0, 1, 4, 2, 3)

    def pull(c: Tensor) -> Tensor:
        mixed = c.permute(0, 1, 3, 4, 2).reshape(-1, outputs) @ matrix
        cut = mixed.reshape(-1, *grid, channels, down, across).permute(0, 3, 1, 4, 2, 5)
        return cut.reshape(len(c), batch, channels, height, width)

    return Linear(push, pull)
