"""The derivative of an op: by its rule or, where there is none, from autograd, alone."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, fx

from sgfi.derivatives.rules.ops import RULES, Argument, Linear, OpCall, OpDerivative, Rule
from sgfi.errors import DerivativeError, first_line

Answer = TypeVar("Answer", Linear, OpDerivative)
_without_forward_mode: set[Any] = set()
"""Ops that turned out to have no forward-mode rule, so that it is tried once only."""
_forward_mode_lock = Lock()
"""torch has one level of forward mode for the whole process."""


def derive(call: OpCall, active: Callable[[fx.Node], bool], item: int | None = None) -> OpDerivative:
    """The derivative of an op, or of one of its outputs, with respect to the active tensors it reads."""
    arguments = call.arguments(active)
    derivative = _derived(call, tuple(arguments), tuple(arguments.values()), item)
    out = call.out if item is None else call.out[item]
    return derivative.between([call.at(argument).dtype for argument in arguments], out.dtype)


def _derived(
    call: OpCall, arguments: tuple[Argument, ...], nodes: tuple[fx.Node, ...], item: int | None
) -> OpDerivative:
    rule = Rule() if call.is_complex else RULES.usable(call.name) or Rule()
    if rule.joint is not None:
        derivative = _by_rule(call, OpDerivative, rule.joint, arguments, nodes)
        if derivative is not None:
            return derivative
    linears: list[Linear | None] = []
    for argument in arguments:
        linear = _by_rule(call, Linear, rule.of, argument, item) if rule.of is not None else None
        linears.append(linear or by_autograd(call, argument, item))
    return OpDerivative.of(nodes, linears)


def _by_rule(call: OpCall, kind: type[Answer], rule: Callable[..., Answer | None], *args: Any) -> Answer | None:
    """What a rule answers; an error that names the plug-in whose rule fails."""
    plugin = RULES.plugin(call.name)
    if plugin is None:
        return rule(call, *args)
    try:
        answer = rule(call, *args)
        if answer is None or isinstance(answer, kind):
            return answer
        got = f"a {type(answer).__name__}"
    except Exception as error:  # whatever a plug-in does
        got = f"{type(error).__name__}: {first_line(error)}"
    raise DerivativeError(
        f"a {kind.__name__} or None for {call.title} from the derivative rule {plugin}",
        got,
        "Correct or uninstall that package: without a rule autograd is used.",
    )


def by_autograd(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    """One op's derivative from autograd, one direction at a time; ``None`` where it passes none."""

    def run(value: Tensor) -> Tensor:
        out = call.run_at(argument, value)
        return out if item is None else out[item]

    leaf = call.at(argument).detach().requires_grad_()
    with torch.enable_grad():
        out = run(leaf)
    if call.is_random and item is None:
        call.out = out.detach()  # value and derivative of one draw
    if not out.requires_grad:
        return None

    def pull(c: Tensor) -> Tensor:
        pulled = [torch.autograd.grad(out, leaf, each, retain_graph=True, materialize_grads=True)[0] for each in c]
        return torch.stack(pulled)

    def push(t: Tensor) -> Tensor:
        if call.target not in _without_forward_mode and not call.is_random:
            pushed = _forward_mode_stack(call, run, leaf.detach(), t)
            if pushed is not None:
                return pushed
            _without_forward_mode.add(call.target)
        try:
            return torch.stack([_double_backward(out, leaf, each) for each in t])
        except (NotImplementedError, RuntimeError) as error:
            raise DerivativeError(
                f"a forward derivative (JVP) of {call.title}",
                f"neither a forward-mode rule nor a differentiable backward ({first_line(error)})",
                "Write this op in terms of others, or make the backward that it registers differentiable.",
            ) from error

    return Linear(push, pull)


def _forward_mode_stack(
    call: OpCall, run: Callable[[Tensor], Tensor], point: Tensor, tangents: Tensor
) -> Tensor | None:
    """The tangents pushed one by one; ``None`` for an op that has no forward mode or loses the tangent."""
    try:
        pushed = [_forward_mode(run, point, tangent) for tangent in tangents]
    except (NotImplementedError, RuntimeError) as error:
        if not _lacks_rule(error):
            raise
        return None
    return None if any(each is None for each in pushed) else torch.stack(pushed)  # type: ignore[arg-type]


def _forward_mode(run: Callable[[Tensor], Tensor], point: Tensor, tangent: Tensor) -> Tensor | None:
    with _forward_mode_lock:
        _load_forward_rules()
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(run(forward_ad.make_dual(point, tangent))).tangent


def _double_backward(out: Tensor, leaf: Tensor, tangent: Tensor) -> Tensor:
    """The pull is linear in its cotangent; its own pull is the push."""
    probe = torch.zeros_like(out, requires_grad=True)
    with torch.enable_grad():
        (pulled,) = torch.autograd.grad(out, leaf, probe, create_graph=True, materialize_grads=True)
        if pulled.requires_grad:
            return torch.autograd.grad(pulled, probe, tangent, materialize_grads=True)[0]
    (backward,) = torch.autograd.grad(out, leaf, torch.ones_like(out), retain_graph=True, materialize_grads=True)
    if backward.any():
        raise RuntimeError("the backward cannot be differentiated")
    return torch.zeros_like(out)


@cache
def _load_forward_rules() -> None:
    """torch compiles some forward rules on first use, with a warning about its own compiler that no user can act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _lacks_rule(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "forward ad" in text or "forward-mode" in text or "jvp" in text
