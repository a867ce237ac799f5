"""Ops that move, repeat or sum entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from sgfi.derivatives.rules.ops import Argument, Linear, OpCall, OpDerivative, rule


def reduced(cotangent: Tensor, shape: Sequence[int]) -> Tensor:
    """Summed over what was broadcast: ``(Q, *big)`` -> ``(Q, *shape)``."""
    extra = cotangent.dim() - 1 - len(shape)
    if extra:
        cotangent = cotangent.sum(tuple(range(1, 1 + extra)))
    wide = tuple(i for i, size in enumerate(shape, 1) if size == 1 and cotangent.shape[i] > 1)
    return cotangent.sum(wide, keepdim=True) if wide else cotangent


def broadcast(tangent: Tensor, shape: Sequence[int]) -> Tensor:
    """``(Q, *small)`` -> ``(Q, *shape)``."""
    if tangent.shape[1:] == tuple(shape):
        return tangent
    lifted = tangent.reshape(len(tangent), *[1] * (len(shape) + 1 - tangent.dim()), *tangent.shape[1:])
    return lifted.expand(len(tangent), *shape)


def from_end(dim: int, dims: int) -> int:
    """A dimension counted from the end, where the axis of directions does not move it."""
    return dim - dims if dim >= 0 else dim


def per_axis(option: Any, count: int) -> list[int]:
    """An option of a convolution that is given for every axis or once for all."""
    numbers = list(option) if isinstance(option, (list, tuple)) else [option]
    return numbers * count if len(numbers) == 1 else numbers


@rule("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
def _reshape(call: OpCall, argument: Argument, item: int | None) -> Linear:
    before, after = call.at(argument).shape, call.out.shape
    return Linear(lambda t: t.reshape(len(t), *after), lambda c: c.reshape(len(c), *before))


@rule("clone", "contiguous", "alias", "to", "_to_copy", "detach")
def _same(call: OpCall, argument: Argument, item: int | None) -> Linear:
    """``detach`` too: it is the derivative of what is computed. Capture refuses models whose own backward differs."""
    before, after = call.at(argument).dtype, call.out.dtype
    return Linear(lambda t: t.to(after), lambda c: c.to(before))


@rule("copy")
def _copy(call: OpCall, argument: Argument, item: int | None) -> Linear:
    """An assignment: what was there before does not matter, what is written is cast and broadcast."""
    before, after = call.at(argument), call.out
    if argument[0] != "src":
        return Linear(
            lambda t: after.new_zeros(()).expand(len(t), *after.shape),
            lambda c: before.new_zeros(()).expand(len(c), *before.shape),
        )
    return Linear(
        lambda t: broadcast(t.to(after.dtype), after.shape), lambda c: reduced(c, before.shape).to(before.dtype)
    )


@rule("permute", "transpose", "t")
def _permute(call: OpCall, argument: Argument, item: int | None) -> Linear:
    dims = call.at(argument).dim()
    order = list(range(dims))
    if call.name == "permute":
        order = [dim % dims for dim in call["dims"]]
    elif dims > 1:
        first, second = (call[key] % dims for key in ("dim0", "dim1")) if call.name == "transpose" else (0, 1)
        order[first], order[second] = order[second], order[first]
    inverse = [order.index(dim) + 1 for dim in range(dims)]
    return Linear(lambda t: t.permute(0, *(dim + 1 for dim in order)), lambda c: c.permute(0, *inverse))


@rule("expand")
def _expand(call: OpCall, argument: Argument, item: int | None) -> Linear:
    before, after = call.at(argument).shape, call.out.shape
    return Linear(lambda t: broadcast(t, after), lambda c: reduced(c, before))


@rule("slice", "select", "narrow")
def _piece(call: OpCall, argument: Argument, item: int | None) -> Linear:
    shape, dim = call.at(argument).shape, from_end(call["dim"], call.at(argument).dim())

    def part(whole: Tensor) -> Tensor:
        return call.run({argument[0]: whole, "dim": dim})

    def pull(c: Tensor) -> Tensor:
        whole = c.new_zeros(len(c), *shape)
        part(whole).copy_(c)
        return whole

    return Linear(part, pull)


class Pieces(dict[int, Tensor]):
    """Cotangents of some outputs of an op that takes a tensor apart, until all of them are there."""

    def __add__(self, other: Pieces) -> Pieces:
        shared = {item: self[item] + other[item] for item in self.keys() & other.keys()}
        return Pieces({**self, **other, **shared})


def split_derivative(call: OpCall, active: Callable[[fx.Node], bool]) -> OpDerivative | None:
    """The derivative of an op whose outputs together are its argument; ``None`` for any other op with several outputs.

    It pushes a tangent to a tuple of them, and pulls the cotangents of all outputs at once.
    """
    if call.name not in ("split", "split_with_sizes", "chunk", "unbind"):
        return None
    x, shapes = call["self"], [piece.shape for piece in call.out]
    dim = from_end(call["dim"], x.dim())
    join = partial(torch.stack if call.name == "unbind" else torch.cat, dim=dim)

    def pull(c: Any, wanted: Sequence[bool]) -> list[Tensor | None]:
        piece = next(iter(c.values()))
        zero = piece.new_zeros(())
        return [join([c[i] if i in c else zero.expand(len(piece), *shape) for i, shape in enumerate(shapes)])]

    return OpDerivative(tuple(call.arguments(active).values()), lambda t: call.run({"self": t[0], "dim": dim}), pull)


def item_derivative(owner: fx.Node, item: int) -> OpDerivative:
    """One output of an op that takes a tensor apart."""
    push: Callable[[Any], Tensor] = lambda tangents: tangents[0][item]  # noqa: E731
    pull: Callable[[Tensor, Sequence[bool]], Any] = lambda c, wanted: [Pieces({item: c})]  # noqa: E731
    return OpDerivative((owner,), push, pull)


@rule("cat", joint=True)
def _cat(call: OpCall, arguments: tuple[Argument, ...], nodes: tuple[fx.Node, ...]) -> OpDerivative | None:
    parts, dims = call["tensors"], call.out.dim()
    if any(part.dim() != dims for part in parts):
        return None
    dim = from_end(call.get("dim", 0), dims)
    shapes, sizes = [part.shape for part in parts], [part.shape[dim] for part in parts]
    dtype, device = call.out.dtype, call.out.device

    def push(tangents: Sequence[Tensor | None]) -> Tensor:
        given = {index: t for (_, index), t in zip(arguments, tangents, strict=True) if t is not None}
        count = len(next(iter(given.values())))
        zero = torch.zeros((), dtype=dtype, device=device)
        return torch.cat(
            [given[i] if i in given else zero.expand(count, *shape) for i, shape in enumerate(shapes)], dim
        )

    def pull(c: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        pieces = c.split(sizes, dim)
        return [pieces[index or 0] if want else None for (_, index), want in zip(arguments, wanted, strict=True)]

    return OpDerivative(nodes, push, pull)


@rule("roll")
def _roll(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    dims = [from_end(dim, call.at(argument).dim()) for dim in call.get("dims") or ()]
    if not dims:
        return None
    shifts = list(call["shifts"])
    return Linear(lambda t: t.roll(shifts, dims), lambda c: c.roll([-shift for shift in shifts], dims))


@rule("pad", "constant_pad_nd")
def _pad(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    if call.get("mode", "constant") != "constant":
        return None
    sides = list(call["pad"])
    pad = torch.nn.functional.pad
    return Linear(lambda t: pad(t, sides), lambda c: pad(c, [-side for side in sides]))


@rule("masked_fill")
def _masked(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    mask = call["mask"]
    if argument[0] != "self" or call.at(argument).shape != call.out.shape:
        return None
    return Linear(lambda t: t.masked_fill(mask, 0), lambda c: c.masked_fill(mask, 0))


@rule("mean", "sum")
def _total(call: OpCall, argument: Argument, item: int | None) -> Linear:
    shape = call.at(argument).shape
    chosen = call.get("dim")
    chosen = [chosen] if isinstance(chosen, int) else list(chosen or range(len(shape)))
    dims = [from_end(dim, len(shape)) for dim in chosen]
    kept = [1 if i - len(shape) in dims else size for i, size in enumerate(shape)]
    after = call.out.shape
    weight = 1 / math.prod(shape[dim] for dim in dims) if call.name == "mean" else 1.0

    def push(t: Tensor) -> Tensor:
        return (t.sum(dims) if dims else t).mul(weight).reshape(len(t), *after)

    return Linear(push, lambda c: (c * weight).reshape(len(c), *kept).expand(len(c), *shape))
