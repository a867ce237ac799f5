"""How the derivative of each op acts at a point, without running the op again.

A frozen model's ops are known, and so is what is linear about them: a convolution is its own derivative, an activation
is a factor per entry, a normalisation or a softmax a projection. Each rule says both ways, ``push`` (tangents forward)
and ``pull`` (cotangents back). Tangents and cotangents always carry a leading axis of Q directions, ``(Q, *shape)``, so
many queries go through one product. An op without a rule is left to autograd, alone.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, fx

aten = torch.ops.aten
Place = tuple[str, int | None]
"""An argument by its name in the op's schema; with a position where the argument is a list of tensors."""


class Linear(NamedTuple):
    """The derivative with respect to one argument. Law: ``<push t, c> = <t, pull c>``."""

    push: Callable[[Tensor], Tensor]
    """(Q, *argument shape) -> (Q, *output shape)."""
    pull: Callable[[Tensor], Tensor]


class Step(NamedTuple):
    """The derivative of one op: linear in each of the ``inputs`` it reads."""

    inputs: tuple[fx.Node, ...]
    push: Callable[[Sequence[Tensor | None]], Tensor | None]
    """A tangent (or None for zero) for each input -> the output's."""
    pull: Callable[[Tensor, Sequence[bool]], Sequence[Tensor | None]]
    """The output's cotangent, and which inputs want theirs -> a cotangent for each input."""


class Call:
    """One op of the graph with the values it reads, or others ``instead``; ``out`` is computed on first use."""

    def __init__(
        self, node: fx.Node, values: Callable[[Any], Any], instead: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.node, self.target = node, node.target
        schema = getattr(node.target, "_schema", None)
        declared = schema.arguments if schema else []
        names = [one.name for one in declared] or [str(place) for place in range(len(node.args))]
        self._nodes = dict(zip(names, node.args, strict=False)) | node.kwargs
        self._only_named = [one.name for one in declared if one.kwarg_only]
        defaults = {one.name: one.default_value for one in declared if one.has_default_value()}
        self._values = {
            name: values(self._nodes[name]) if name in self._nodes else defaults[name]
            for name in dict.fromkeys([*names, *node.kwargs])
            if name in self._nodes or name in defaults
        }
        self._values.update(instead)
        self._out: Any = None

    @property
    def name(self) -> str:
        return str(getattr(self.target, "_opname", getattr(self.target, "__name__", self.target)))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def at(self, place: Place) -> Tensor:
        name, index = place
        return self._values[name] if index is None else self._values[name][index]

    def places(self, active: Callable[[fx.Node], bool]) -> dict[Place, fx.Node]:
        """Where the op reads tensors that the derivative passes through."""
        found: dict[Place, fx.Node] = {}
        for name, arg in self._nodes.items():
            entries = enumerate(arg) if isinstance(arg, (list, tuple)) else [(None, arg)]
            found |= {(name, i): entry for i, entry in entries if isinstance(entry, fx.Node) and active(entry)}
        return found

    @property
    def out(self) -> Any:
        if self._out is None:
            self._out = self.run({})
        return self._out

    @out.setter
    def out(self, found: Any) -> None:
        """A rule that gets the output along with what it keeps, from a kernel that tells more."""
        self._out = found

    def run(self, changed: Mapping[str, Any]) -> Any:
        values = {**self._values, **changed}
        named = {name: values.pop(name) for name in self._only_named if name in values}
        return self.target(*values.values(), **named)  # type: ignore[operator]

    def run_at(self, place: Place, value: Tensor) -> Any:
        name, index = place
        if index is None:
            return self.run({name: value})
        entries = list(self._values[name])
        entries[index] = value
        return self.run({name: entries})


@dataclass(frozen=True)
class Rule:
    """One op's derivative: ``of(call, place, item)`` for one argument, or ``joint(call, places)`` for all at once.

    ``item`` tells which output of an op with several is meant. ``None`` says: not this case, ask autograd.
    """

    of: Callable[[Call, Place, int | None], Linear | None] | None = None
    joint: Callable[[Call, tuple[Place, ...], tuple[fx.Node, ...]], Step | None] | None = None


RULES: dict[str, Rule] = {}


def rule(*names: str, joint: bool = False) -> Callable:
    """Register a rule for ops by their name without overload."""

    def keep(function: Callable) -> Callable:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = Rule(joint=function) if joint else Rule(of=function)
        return function

    return keep


def derive(call: Call, active: Callable[[fx.Node], bool], item: int | None = None) -> Step:
    """The derivative of an op, or of one of its outputs, with respect to the active tensors it reads."""
    places = call.places(active)
    nodes = tuple(places.values())
    found = RULES.get(call.name, Rule())
    if found.joint is not None:
        step = found.joint(call, tuple(places), nodes)
        if step is not None:
            return step
    linears: list[Linear | None] = []
    for place in places:
        linear = found.of(call, place, item) if found.of is not None else None
        linears.append(linear or _by_autograd(call, place, item))
    return Step(nodes, partial(_push, linears), partial(_pull, linears))


def _push(linears: Sequence[Linear | None], tangents: Sequence[Tensor | None]) -> Tensor | None:
    total: Tensor | None = None
    for linear, tangent in zip(linears, tangents, strict=True):
        if linear is not None and tangent is not None:
            pushed = linear.push(tangent)
            total = pushed if total is None else total + pushed
    return total


def _pull(linears: Sequence[Linear | None], cotangent: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
    return [
        linear.pull(cotangent) if linear is not None and want else None
        for linear, want in zip(linears, wanted, strict=True)
    ]


# ------------------------------------------------------------------- shapes


def _reduced(cotangent: Tensor, shape: Sequence[int]) -> Tensor:
    """Summed over what was broadcast: ``(Q, *big)`` -> ``(Q, *shape)``."""
    extra = cotangent.dim() - 1 - len(shape)
    if extra:
        cotangent = cotangent.sum(tuple(range(1, 1 + extra)))
    wide = tuple(i for i, size in enumerate(shape, 1) if size == 1 and cotangent.shape[i] > 1)
    return cotangent.sum(wide, keepdim=True) if wide else cotangent


def _broadcast(tangent: Tensor, shape: Sequence[int]) -> Tensor:
    """``(Q, *small)`` -> ``(Q, *shape)``."""
    if tangent.shape[1:] == tuple(shape):
        return tangent
    lifted = tangent.reshape(len(tangent), *[1] * (len(shape) + 1 - tangent.dim()), *tangent.shape[1:])
    return lifted.expand(len(tangent), *shape)


def _back(dim: int, dims: int) -> int:
    """A dimension counted from the end, where the axis of directions does not move it."""
    return dim - dims if dim >= 0 else dim


def _each(value: Any, count: int) -> list[int]:
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    return found * count if len(found) == 1 else found


@rule("view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze")
def _reshape(call: Call, at: Place, item: int | None) -> Linear:
    before, after = call.at(at).shape, call.out.shape
    return Linear(lambda t: t.reshape(len(t), *after), lambda c: c.reshape(len(c), *before))


@rule("clone", "contiguous", "alias", "to", "_to_copy")
def _same(call: Call, at: Place, item: int | None) -> Linear:
    before, after = call.at(at).dtype, call.out.dtype
    return Linear(lambda t: t.to(after), lambda c: c.to(before))


@rule("permute", "transpose", "t")
def _permute(call: Call, at: Place, item: int | None) -> Linear:
    dims = call.at(at).dim()
    order = list(range(dims))
    if call.name == "permute":
        order = [dim % dims for dim in call["dims"]]
    elif dims > 1:
        one, two = (call[key] % dims for key in ("dim0", "dim1")) if call.name == "transpose" else (0, 1)
        order[one], order[two] = order[two], order[one]
    back = [order.index(dim) + 1 for dim in range(dims)]
    return Linear(lambda t: t.permute(0, *(dim + 1 for dim in order)), lambda c: c.permute(0, *back))


@rule("expand")
def _expand(call: Call, at: Place, item: int | None) -> Linear:
    before, after = call.at(at).shape, call.out.shape
    return Linear(lambda t: _broadcast(t, after), lambda c: _reduced(c, before))


@rule("slice", "select", "narrow")
def _piece(call: Call, at: Place, item: int | None) -> Linear:
    shape, dim = call.at(at).shape, _back(call["dim"], call.at(at).dim())

    def part(whole: Tensor) -> Tensor:
        return call.run({at[0]: whole, "dim": dim})

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


def take_apart(call: Call, active: Callable[[fx.Node], bool]) -> Step | None:
    """The derivative of an op whose outputs together are its argument; ``None`` for any other op with several outputs.

    It pushes a tangent to a tuple of them, and pulls the cotangents of all outputs at once.
    """
    if call.name not in ("split", "split_with_sizes", "chunk", "unbind"):
        return None
    x, shapes = call["self"], [one.shape for one in call.out]
    dim = _back(call["dim"], x.dim())
    join = partial(torch.stack if call.name == "unbind" else torch.cat, dim=dim)

    def pull(c: Any, wanted: Sequence[bool]) -> list[Tensor | None]:
        some = next(iter(c.values()))
        zero = some.new_zeros(())
        return [join([c[i] if i in c else zero.expand(len(some), *shape) for i, shape in enumerate(shapes)])]

    return Step(tuple(call.places(active).values()), lambda t: call.run({"self": t[0], "dim": dim}), pull)


def one_of(owner: fx.Node, item: int) -> Step:
    """One output of an op that takes a tensor apart."""
    push: Callable[[Any], Tensor] = lambda tangents: tangents[0][item]  # noqa: E731
    pull: Callable[[Tensor, Sequence[bool]], Any] = lambda c, wanted: [Pieces({item: c})]  # noqa: E731
    return Step((owner,), push, pull)


def passed(owner: fx.Node) -> Step:
    """A tensor as it is."""
    nothing = Linear(lambda t: t, lambda c: c)
    return Step((owner,), partial(_push, [nothing]), partial(_pull, [nothing]))


@rule("cat", joint=True)
def _cat(call: Call, places: tuple[Place, ...], nodes: tuple[fx.Node, ...]) -> Step | None:
    parts, dims = call["tensors"], call.out.dim()
    if any(part.dim() != dims for part in parts):
        return None
    dim = _back(call.get("dim", 0), dims)
    shapes, sizes = [part.shape for part in parts], [part.shape[dim] for part in parts]
    dtype, device = call.out.dtype, call.out.device

    def push(tangents: Sequence[Tensor | None]) -> Tensor:
        given = {at[1]: t for at, t in zip(places, tangents, strict=True) if t is not None}
        count = len(next(iter(given.values())))
        zero = torch.zeros((), dtype=dtype, device=device)
        return torch.cat(
            [given[i] if i in given else zero.expand(count, *shape) for i, shape in enumerate(shapes)], dim
        )

    def pull(c: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        found = c.split(sizes, dim)
        return [found[at[1] or 0] if want else None for at, want in zip(places, wanted, strict=True)]

    return Step(nodes, push, pull)


@rule("roll")
def _roll(call: Call, at: Place, item: int | None) -> Linear | None:
    dims = [_back(dim, call.at(at).dim()) for dim in call.get("dims") or ()]
    if not dims:
        return None
    shifts = list(call["shifts"])
    return Linear(lambda t: t.roll(shifts, dims), lambda c: c.roll([-shift for shift in shifts], dims))


@rule("pad", "constant_pad_nd")
def _pad(call: Call, at: Place, item: int | None) -> Linear | None:
    if call.get("mode", "constant") != "constant":
        return None
    sides = list(call["pad"])
    pad = torch.nn.functional.pad
    return Linear(lambda t: pad(t, sides), lambda c: pad(c, [-side for side in sides]))


@rule("masked_fill")
def _masked(call: Call, at: Place, item: int | None) -> Linear | None:
    mask = call["mask"]
    if at[0] != "self" or call.at(at).shape != call.out.shape:
        return None
    return Linear(lambda t: t.masked_fill(mask, 0), lambda c: c.masked_fill(mask, 0))


@rule("mean", "sum")
def _total(call: Call, at: Place, item: int | None) -> Linear:
    shape = call.at(at).shape
    chosen = call.get("dim")
    chosen = [chosen] if isinstance(chosen, int) else list(chosen or range(len(shape)))
    dims = [_back(dim, len(shape)) for dim in chosen]
    kept = [1 if i - len(shape) in dims else size for i, size in enumerate(shape)]
    after = call.out.shape
    weight = 1 / math.prod(shape[dim] for dim in dims) if call.name == "mean" else 1.0

    def push(t: Tensor) -> Tensor:
        return (t.sum(dims) if dims else t).mul(weight).reshape(len(t), *after)

    return Linear(push, lambda c: (c * weight).reshape(len(c), *kept).expand(len(c), *shape))


# ------------------------------------------------------------------- sums and products


@rule("add", "sub")
def _add(call: Call, at: Place, item: int | None) -> Linear:
    shape, after = call.at(at).shape, call.out.shape
    weight = call.get("alpha", 1) if at[0] == "other" else 1
    weight = -weight if at[0] == "other" and call.name == "sub" else weight
    scaled = (lambda t: t) if weight == 1 else (lambda t: t * weight)
    return Linear(lambda t: scaled(_broadcast(t, after)), lambda c: scaled(_reduced(c, shape)))


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
    return Linear(lambda t: _broadcast(t, after) * factor, lambda c: _reduced(c * factor, shape))


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
        return Linear(lambda t: lift(t) @ right, lambda c: _reduced(c @ right.mT, shape))
    return Linear(lambda t: left @ lift(t), lambda c: _reduced(left.mT @ c, shape))


@rule("conv1d", "conv2d", "conv3d", "convolution")
def _convolution(call: Call, at: Place, item: int | None) -> Linear | None:
    weight, x = call["weight"], call["input"]
    plain = not isinstance(call["padding"], str) and not call.get("transposed")
    if at[0] != "input" or x.dim() != weight.dim() or not plain:
        return None
    n = weight.dim() - 2
    stride, padding, dilation = (_each(call[key], n) for key in ("stride", "padding", "dilation"))
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


# ------------------------------------------------------------------- activations, normalisation, pooling


@rule("relu")
def _relu(call: Call, at: Place, item: int | None) -> Linear:
    slope = call.out.sign()
    return Linear(lambda t: t * slope, lambda c: c * slope)


@rule(
    *("gelu", "silu", "sigmoid", "tanh", "hardtanh", "relu6", "hardswish", "hardsigmoid", "elu", "leaky_relu", "mish"),
    *("softplus", "exp", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "square", "sin", "cos", "erf", "abs", "neg"),
    *("clamp", "pow"),
)
def _pointwise(call: Call, at: Place, item: int | None) -> Linear | None:
    """A factor per entry, taken from autograd once."""
    if at[0] != "self" or any(isinstance(call.get(key), Tensor) for key in ("exponent", "min", "max")):
        return None
    leaf = call.at(at).detach().requires_grad_()
    with torch.enable_grad():
        out = call.run_at(at, leaf)
    call.out = out.detach()
    (slope,) = torch.autograd.grad(out, leaf, torch.ones_like(out))
    return Linear(lambda t: t * slope, lambda c: c * slope)


@rule("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(call: Call, at: Place, item: int | None) -> Linear | None:
    x = call["input"]
    if at[0] != "input" or item not in (None, 0) or call.get("training", False) or call["running_var"] is None:
        return None
    scale = (call["running_var"] + call["eps"]).rsqrt()
    scale = scale if call["weight"] is None else scale * call["weight"]
    factor = scale.to(x.dtype).reshape(-1, *[1] * (x.dim() - 2))
    return Linear(lambda t: t * factor, lambda c: c * factor)


@rule("layer_norm", "native_layer_norm")
def _layer_norm(call: Call, at: Place, item: int | None) -> Linear | None:
    if at[0] != "input" or item not in (None, 0):
        return None
    x, weight, shape = call["input"], call["weight"], list(call["normalized_shape"])
    out, mean, rstd = torch.native_layer_norm(x, shape, weight, call["bias"], call["eps"])
    if item is None:
        call.out = out

    def project(t: Tensor, scale: Tensor | None) -> Tensor:
        at_point = [one.expand(len(t), *one.shape).contiguous() for one in (x, mean, rstd)]  # the kernel wants them so
        return aten.native_layer_norm_backward(t, at_point[0], shape, *at_point[1:], scale, None, [True, False, False])[
            0
        ]

    def push(t: Tensor) -> Tensor:
        return project(t, None) if weight is None else project(t, None) * weight

    return Linear(push, lambda c: project(c, weight))


def _softened(t: Tensor, p: Tensor, dim: int) -> Tensor:
    """The derivative of a softmax with output p, which is its own transpose."""
    return aten._softmax_backward_data(t, p.expand_as(t), dim, t.dtype)


@rule("softmax", "_softmax")
def _softmax(call: Call, at: Place, item: int | None) -> Linear | None:
    if call.out.dtype != call.at(at).dtype:
        return None
    p, dim = call.out, _back(call["dim"], call.at(at).dim())
    return Linear(lambda t: _softened(t, p, dim), lambda c: _softened(c, p, dim))


@rule("scaled_dot_product_attention", joint=True)
def _attention(call: Call, places: tuple[Place, ...], nodes: tuple[fx.Node, ...]) -> Step | None:
    q, k, v = (call[key] for key in ("query", "key", "value"))
    names = [name for name, _ in places]
    if "attn_mask" in names or call["dropout_p"] or len({one.shape[:-2] for one in (q, k, v)}) > 1:
        return None
    scale = call.get("scale") or 1 / math.sqrt(q.shape[-1])
    mask = call["attn_mask"]
    if mask is not None and mask.dtype == torch.bool:
        mask = q.new_zeros(mask.shape).masked_fill(~mask, -torch.inf)  # the kernel below only adds
    if mask is None and not call["is_causal"]:
        p = torch.softmax((q * scale) @ k.mT, -1)
        call.out = p @ v
    else:
        call.out, p = aten._scaled_dot_product_attention_math(q, k, v, mask, 0.0, call["is_causal"], scale=scale)
    q, k = q * scale, k * scale  # the derivative reads them only so

    # Directions stand beside the rows, (..., N, Q, d): each head makes one product for all of them.

    def rows(t: Tensor, matrix: Tensor) -> Tensor:
        """(..., N, Q, a) times what all directions share, (..., a, b) -> (..., N, Q, b)."""
        return (t.flatten(-3, -2) @ matrix).unflatten(-2, t.shape[-3:-1])

    def soften(t: Tensor) -> Tensor:
        return _softened(t, p.unsqueeze(-2), -1)

    def push(tangents: Sequence[Tensor | None]) -> Tensor | None:
        given = {name: t for name, t in zip(names, tangents, strict=True) if t is not None}
        parts, scores = [], []
        if "query" in given:
            scores.append(rows(given["query"].movedim(0, -2), k.mT))
        if "key" in given:
            stacked = given["key"].movedim(0, -3)  # (..., Q, N, d)
            scores.append((q @ stacked.flatten(-3, -2).mT).unflatten(-1, stacked.shape[-3:-1]))
        if scores:
            parts.append(rows(soften(scores[0] if len(scores) == 1 else scores[0] + scores[1]), v))
        if "value" in given:
            stacked = given["value"].movedim(0, -2)  # (..., N, Q, d)
            parts.append((p @ stacked.flatten(-2)).unflatten(-1, stacked.shape[-2:]))
        return (parts[0] if len(parts) == 1 else parts[0] + parts[1]).movedim(-2, 0)

    def pull(c: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        want = dict(zip(names, wanted, strict=True))
        c = c.movedim(0, -2).contiguous()  # (..., N, Q, d)
        found: dict[str, Tensor] = {}
        if want.get("query") or want.get("key"):
            scores = soften(rows(c, v.mT))
        if want.get("query"):
            found["query"] = rows(scores, k).movedim(-2, 0)
        if want.get("key"):
            found["key"] = (scores.flatten(-2).mT @ q).unflatten(-2, scores.shape[-2:]).movedim(-3, 0)
        if want.get("value"):
            found["value"] = (p.mT @ c.flatten(-2)).unflatten(-1, c.shape[-2:]).movedim(-2, 0)
        return [found.get(name) for name in names]

    return Step(nodes, push, pull)


@rule("max_pool2d", "max_pool2d_with_indices")
def _max_pool(call: Call, at: Place, item: int | None) -> Linear | None:
    x = call["self"]
    if x.dim() != 4 or item not in (None, 0):
        return None
    given = [call.get(key) for key in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")]
    if item is None:  # in the order of pixels: three times faster on the CPU, conversions included
        found = aten.max_pool2d_with_indices(x.contiguous(memory_format=torch.channels_last), *given)
        call.out, places = (one.contiguous() for one in found)
    else:
        places = call.out[1]
    flat, after = places.flatten(-2), places.shape[-2:]

    def push(t: Tensor) -> Tensor:
        return t.flatten(-2).gather(-1, flat.expand(len(t), *flat.shape)).unflatten(-1, after)

    def pull(c: Tensor) -> Tensor:
        found = c.new_zeros(*c.shape[:3], x.shape[2] * x.shape[3])
        return found.scatter_add_(-1, flat.expand(len(c), *flat.shape), c.flatten(-2)).unflatten(-1, x.shape[2:])

    return Linear(push, pull)


@rule("avg_pool2d", "adaptive_avg_pool2d")
def _average_pool(call: Call, at: Place, item: int | None) -> Linear | None:
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


# ------------------------------------------------------------------- any other op


_without_forward_mode: set[Any] = set()
"""Ops that turned out to have no forward-mode rule: found out once, asked no more."""


def _by_autograd(call: Call, at: Place, item: int | None) -> Linear | None:
    """One op's derivative from autograd, one direction at a time; ``None`` where it passes none."""

    def run(value: Tensor) -> Tensor:
        found = call.run_at(at, value)
        return found if item is None else found[item]

    leaf = call.at(at).detach().requires_grad_()
    with torch.enable_grad():
        out = run(leaf)
    if not out.requires_grad:
        return None

    def pull(c: Tensor) -> Tensor:
        pulled = [torch.autograd.grad(out, leaf, one, retain_graph=True, materialize_grads=True)[0] for one in c]
        return torch.stack(pulled)

    def push(t: Tensor) -> Tensor:
        if call.target not in _without_forward_mode:
            try:
                return torch.stack([_forward_mode(run, leaf.detach(), one) for one in t])
            except (NotImplementedError, RuntimeError) as error:
                if not _lacks_rule(error):
                    raise
                _without_forward_mode.add(call.target)
        return torch.stack([_double_backward(out, leaf, one) for one in t])

    return Linear(push, pull)


def _forward_mode(run: Callable[[Tensor], Tensor], point: Tensor, tangent: Tensor) -> Tensor:
    _load_forward_rules()
    with forward_ad.dual_level():
        dual = run(forward_ad.make_dual(point, tangent))
        found = forward_ad.unpack_dual(dual).tangent
        return torch.zeros_like(dual) if found is None else found


def _double_backward(out: Tensor, leaf: Tensor, tangent: Tensor) -> Tensor:
    """The pull is linear in its cotangent; its own pull is the push."""
    probe = torch.zeros_like(out, requires_grad=True)
    with torch.enable_grad():
        (pulled,) = torch.autograd.grad(out, leaf, probe, create_graph=True, materialize_grads=True)
        if not pulled.requires_grad:
            return torch.zeros_like(out)
        return torch.autograd.grad(pulled, probe, tangent, materialize_grads=True)[0]


@cache
def _load_forward_rules() -> None:
    """torch compiles some forward rules on first use and warns of its own old compiler: not the user's affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _lacks_rule(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "forward ad" in text or "forward-mode" in text or "jvp" in text
