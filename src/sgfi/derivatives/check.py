"""Derivatives that check themselves, at one input: an adjoint identity and a finite difference of every kind of op.

An op's derivative is wrong when ``<J t, c>`` differs from ``<t, J* c>`` for random t and c, or ``J t`` from the
difference quotient along t. Both are taken op by op, so that an error names the op, and in double precision, so that
rounding is not taken for an error. At a kink (a rectifier at zero, a tie of a maximum) the quotients of both sides
differ, and the entry is left out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from sgfi.derivatives.linearisation import Linearisation, LocalMap
from sgfi.derivatives.rules import RULES, OpCall, OpDerivative, derive
from sgfi.errors import DerivativeError, first_line
from sgfi.graph.cache import Cache
from sgfi.graph.tensor_graph import TensorGraph
from sgfi.graph.values import carries_derivative

SEED = 7
KINK = 0.1
"""How much the quotients of both sides may differ at an entry that is compared, in units of the tolerance."""
TODO = "Write this op in terms of others, or correct the derivative that it registers."


class Inspection(Linearisation):
    """A linearisation from the input to the ends of the graph that checks the smallest op of every kind."""

    def __init__(self, graph: TensorGraph, x: Tensor) -> None:
        last = graph.ends()
        self._noise, self._chosen = Noise(), chosen(graph, last)
        super().__init__(graph, {"input": last}, x)

    def _derive(self, call: OpCall, active: set[fx.Node], item: int | None = None) -> OpDerivative:
        if (call.node, item) in self._chosen:
            check_op(call, active, item, self._noise)
        return super()._derive(call, active, item)

    def _keep(self, node: fx.Node, derivative: OpDerivative) -> None:
        """Where weights are kept elsewhere, no derivative is: it would hold the weights it read."""
        if self._graph.exported.onload is None:
            super()._keep(node, derivative)


class Noise:
    """Random tensors that leave the caller's random state alone."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(SEED)

    def like(self, tensor: Tensor, scaled: bool = False) -> Tensor:
        """Standard normal; ``scaled``: of the tensor's own size (one where it is zero) and symmetry."""
        noise = torch.randn(tensor.shape, dtype=tensor.dtype, generator=self._generator).to(tensor.device)
        if scaled and tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2] and tensor.equal(tensor.mT.conj()):
            noise = noise + noise.mT.conj()  # some ops read half of a symmetric matrix
        size = _usual_size(tensor) if scaled and tensor.numel() else 1.0
        return noise * size if 0 < size < torch.inf else noise


def _usual_size(tensor: Tensor) -> float:
    """Root mean square; entries that stand for minus infinity, as masks have, are left out."""
    sizes = tensor.abs()
    return float(sizes[sizes <= 1e30].square().mean().sqrt())


def check_op(call: OpCall, active: set[fx.Node], item: int | None, noise: Noise) -> None:
    """The derivative of one op at one point; an error that names the op where it is missing or wrong."""
    try:
        trial = Trial.of(call.converted(_widened), active, item, noise)
    except DerivativeError:
        raise
    except Exception:  # a kernel without double precision
        try:
            trial = Trial.of(call, active, item, noise)
        except Exception as error:
            raise DerivativeError(f"a derivative of {call.title}", first_line(error), _todo(call)) from error
    if not trial.pushed.isfinite().all() or any(not pulled.isfinite().all() for pulled in trial.pulled):
        return  # no derivative at this point (a root at zero, say): what it makes is not finite, and seen later
    if trial.adjoint_error() > trial.tolerance:
        raise DerivativeError(
            f"{call.title} with <J t, c> = <t, J* c>",
            f"a relative difference of {trial.adjoint_error():.2g}",
            _todo(call),
        )
    if trial.difference_error() > trial.tolerance:
        raise DerivativeError(
            f"{call.title} with the derivative that finite differences have",
            f"a relative difference of {trial.difference_error():.2g}",
            _todo(call),
        )


def _todo(call: OpCall) -> str:
    plugin = RULES.plugin(call.name)
    return TODO if plugin is None else f"Its rule is {plugin}: correct or uninstall that package."


@dataclass(frozen=True, eq=False)
class Trial:
    """One op's derivative along random directions, beside the op on that line."""

    tangents: list[Tensor]
    cotangent: Tensor
    pushed: Tensor
    pulled: list[Tensor]
    at: Callable[[float], Tensor] | None
    """The op at a point of that line; ``None`` for an op that draws random numbers."""

    @classmethod
    def of(cls, call: OpCall, active: set[fx.Node], item: int | None, noise: Noise) -> Trial:
        arguments = list(call.arguments(active.__contains__))
        tangents = [noise.like(call.at(argument), scaled=True) for argument in arguments]
        derivative = derive(call, active.__contains__, item)
        out = call.out if item is None else call.out[item]
        cotangent = noise.like(out)
        pushed = derivative.push([tangent.unsqueeze(0) for tangent in tangents])
        pulled = derivative.pull(cotangent.unsqueeze(0), [True] * len(arguments))

        def at(step: float) -> Tensor:
            changed: dict[str, Any] = {}
            for (name, index), tangent in zip(arguments, tangents, strict=True):
                moved = call.at((name, index)) + step * tangent
                if index is None:
                    changed[name] = moved
                else:
                    changed.setdefault(name, list(call[name]))[index] = moved
            out = call.run(changed)
            return out if item is None else out[item]

        return cls(
            tangents,
            cotangent,
            torch.zeros_like(out) if pushed is None else pushed[0],
            [torch.zeros_like(t) if p is None else p[0] for t, p in zip(tangents, pulled, strict=True)],
            None if call.is_random else at,
        )

    @property
    def tolerance(self) -> float:
        eps = torch.finfo(self.pushed.dtype).eps
        return 1e-3 if eps < 1e-12 else 3e-2 if eps < 1e-5 else 0.3

    def adjoint_error(self) -> float:
        return _disagreement([self.pushed], [self.cotangent], self.tangents, self.pulled).error

    def difference_error(self) -> float:
        """Relative; along a steep line the quotient is taken again with a smaller step."""
        eps = torch.finfo(self.pushed.dtype).eps
        if self.at is None or eps > 1e-5:  # half precision says nothing here
            return 0.0
        error, step = torch.inf, eps ** (1 / 3)
        for smaller in (1, 30, 1000) if eps < 1e-12 else (1,):
            error = min(error, self._quotient_error(step / smaller))
            if error <= self.tolerance:
                break
        return error

    def _quotient_error(self, step: float) -> float:
        """Entries at a kink or a jump, and where the op is not finite, left out."""
        assert self.at is not None
        before, here, after = self.at(-step), self.at(0.0), self.at(step)
        left, right = (here - before) / step, (after - here) / step
        smaller = torch.minimum(left.abs(), right.abs()).nan_to_num(0, 0, 0)
        usual = smaller.square().mean().sqrt()
        smooth = (left - right).abs() <= KINK * self.tolerance * (smaller + usual)  # false where not finite
        rounding = 100 * torch.finfo(here.dtype).eps / step * here.abs()
        off = ((left + right) / 2 - self.pushed).abs()
        off = torch.where(smooth & (off > rounding), off, 0).norm()
        size = torch.maximum(torch.where(smooth, self.pushed, 0).norm(), torch.where(smooth, left, 0).norm())
        return float(off / size) if off > 0 else 0.0


def check_whole(graph: TensorGraph, local: LocalMap) -> None:
    """The adjoint identity of all ops together; where it fails, asked again in double and in single precision.

    Where what the ops make cancels, both products are nothing but rounding, which double precision makes far smaller.
    """
    if _whole(local).error <= (1e-6 if local.source.dtype == torch.float64 else 1e-2):
        return
    try:
        exact, rough = (_whole(_in_precision(graph, local, dtype)) for dtype in (torch.float64, torch.float32))
        wrong = exact.error > 1e-6 and exact.size > 1e-4 * rough.size
    except Exception:  # ops with a fixed dtype between
        exact = _whole(local)
        wrong = exact.error > 0.1
    if wrong:
        raise DerivativeError(
            "a model with <J t, c> = <t, J* c> from its input to its ends",
            f"a relative difference of {exact.error:.2g}",
            "Please report this model; check=False captures it as it is.",
        )


def _in_precision(graph: TensorGraph, local: LocalMap, dtype: torch.dtype) -> LocalMap:
    """The same derivative with weights and input in another precision."""
    constants = {name: _converted(tensor, dtype) for name, tensor in graph.constants.items()}
    other = replace(graph, exported=replace(graph.exported, constants=constants), cache=Cache())
    return Linearisation(other, {"input": local.segment.outputs}, local.source.to(dtype)).at("input")


def _whole(local: LocalMap) -> Disagreement:
    noise = Noise()
    tangent, cotangents = noise.like(local.source), [noise.like(out) for out in local.outputs]
    return _disagreement(local.jvp(tangent), cotangents, [tangent], [local.vjp(cotangents)])


class Disagreement(NamedTuple):
    """How far ``<J t, c>`` is from ``<t, J* c>``."""

    error: float
    """Relative to ``size``; 0 where one of the products is not finite."""
    size: float
    """The usual size of the products."""


def _disagreement(
    pushed: Sequence[Tensor], cotangents: Sequence[Tensor], tangents: Sequence[Tensor], pulled: Sequence[Tensor]
) -> Disagreement:
    def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[float, float]:
        sums = [(first.conj() * second).real.double() for first, second in zip(left, right, strict=True)]
        return sum(float(each.sum()) for each in sums), sum(float(each.square().sum()) for each in sums) ** 0.5

    (ahead, size), (back, other) = inner(pushed, cotangents), inner(tangents, pulled)
    error = abs(ahead - back) / (max(size, other) or 1.0)
    return Disagreement(error if error < torch.inf else 0.0, max(size, other))


def _widened(tensor: Tensor) -> Tensor:
    return _converted(tensor, torch.float64)


def _converted(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Floating and complex tensors in another precision, all others as they are."""
    if tensor.is_floating_point():
        return tensor.to(dtype)
    return tensor.to(dtype.to_complex()) if tensor.is_complex() else tensor


def chosen(graph: TensorGraph, last: Sequence[str]) -> set[tuple[fx.Node, int | None]]:
    """Of every kind of op between the input and the last tensors, the call with the fewest numbers."""
    source = graph.exported.tensors["input"]
    inside = {source, *graph.segment("input", last).nodes}
    smallest: dict[Any, tuple[int, fx.Node, int | None]] = {}
    for node in inside - {source}:
        item = node.args[1] if node.target is operator.getitem else None
        call = node.args[0] if node.target is operator.getitem else node
        if not carries_derivative(node) or not any(read in inside for read in call.all_input_nodes):  # type: ignore[union-attr]
            continue
        kind, size = _kind(call, inside, graph.constants), sum(map(_numel, (node, *call.all_input_nodes)))  # type: ignore
        if (kind, item) not in smallest or size < smallest[kind, item][0]:
            smallest[kind, item] = size, call, item  # type: ignore[assignment]
    return {(call, item) for _, call, item in smallest.values()}


def _numel(node: fx.Node) -> int:
    tensor = node.meta.get("val")
    return prod(size if isinstance(size, int) else 1 for size in tensor.shape) if isinstance(tensor, Tensor) else 0


def _kind(node: fx.Node, inside: set[fx.Node], constants: Mapping[str, Tensor]) -> tuple[Any, str]:
    """Calls that share all of this have the same derivative code, so that one of them is enough.

    Of the sizes count those of a kernel, and elsewhere only whether they are small: rules do not ask for more.
    """

    def shown(read: fx.Node) -> str:
        tensor = read.meta.get("val")
        if not isinstance(tensor, Tensor):
            return type(tensor).__name__
        exact = 2 if read.name in constants and tensor.dim() > 2 else tensor.dim()
        sizes = [size if isinstance(size, int) else "B" for size in tensor.shape]
        small = [size if dim >= exact or size == "B" else min(size, 5) for dim, size in enumerate(sizes)]  # type: ignore
        return f"{tensor.dtype} {small} {'moves' if read in inside else 'held'}"

    return node.target, str(fx.node.map_arg((node.args, node.kwargs), shown))
