"""Kernels and formulations that are faster on a CPU and give the same numbers as the general ones.

One switch turns all of them off: a linearisation made inside ``with plain_kernels():`` uses none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from sgfi.derivatives.rules.ops import Linear, aten

_plain: ContextVar[bool] = ContextVar("plain_kernels", default=False)


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Every op by its general rule, for what is linearised inside."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def specialised() -> bool:
    """Whether special cases are in use."""
    return not _plain.get()


def max_pool(x: Tensor, options: Sequence) -> tuple[Tensor, Tensor]:
    """Values and indices. In the order of pixels (channels last) three times faster, conversions included."""
    if specialised() and x.device.type == "cpu":
        x = x.contiguous(memory_format=torch.channels_last)
    values, indices = aten.max_pool2d_with_indices(x, *options)
    return values.contiguous(), indices.contiguous()


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Output and weights. Without a mask two products and a softmax take two thirds of the kernel's time."""
    if mask is None and not causal and specialised() and q.device.type == "cpu":
        weights = torch.softmax((q * scale) @ k.mT, -1)
        return weights @ v, weights
    return aten._scaled_dot_product_attention_math(q, k, v, mask, 0.0, causal, scale=scale)


def convolution(x: Tensor, weight: Tensor, options: tuple, general: Linear) -> Linear:
    """The derivative of a convolution of x with the options of ``aten.convolution``; mostly the ``general`` one."""
    stride, padding, dilation, _, _, groups = options
    if not specialised() or x.device.type != "cpu" or groups != 1:
        return general
    kernel, pull = weight.shape[2:], None
    if math.prod(kernel) == 1 and max(stride) > 1 and not any(padding):
        pull = _single_cell_pull
    elif len(kernel) == 2 and set(dilation) == {1}:
        whole = all(size % step == 0 for size, step in zip(x.shape[2:], kernel, strict=True))
        if list(kernel) == list(stride) and max(kernel) > 1 and not any(padding) and whole:
            return _patch_product(x, weight)
        pull = _few_channel_pull if x.shape[1] <= 4 else None
    if pull is None:
        return general
    return Linear(general.push, lambda c: pull(c.flatten(0, 1), x, weight, options).unflatten(0, (len(c), -1)))


def _single_cell_pull(c: Tensor, x: Tensor, weight: Tensor, options: tuple) -> Tensor:
    """Cells that a strided 1x1 convolution skips get nothing: two to four times faster without them."""
    stride, *rest = options
    whole = c.new_zeros(len(c), *x.shape[1:])
    reached = tuple(slice(None, None, step) for step in (1, 1, *stride))
    whole[reached] = aten.convolution(c, weight.transpose(0, 1), None, [1] * len(stride), *rest)
    return whole


def _few_channel_pull(c: Tensor, x: Tensor, weight: Tensor, options: tuple) -> Tensor:
    """Back to a few colours, oneDNN was two to three times slower than the kernel it replaces."""
    like = c.new_empty(()).expand(len(c), *x.shape[1:])  # only its shape is read
    only_input = [True, False, False]
    return aten._slow_conv2d_backward(c, like, weight, weight.shape[2:], *options[:2], only_input)[0]


def _patch_product(x: Tensor, weight: Tensor) -> Linear:
    """A convolution that cuts the picture into patches, as a matrix product: several times faster."""
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
