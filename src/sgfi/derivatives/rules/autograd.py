"""The derivative of an op: by its rule or, where there is none, from autograd, alone."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor, fx

from sgfi.derivatives.rules.ops import RULES, Argument, Linear, OpCall, OpDerivative, Rule

_without_forward_mode: set[Any] = set()
"""Ops that turned out to have no forward-mode rule, so that it is tried once only."""
_forward_mode_lock = Lock()
"""torch has one level of forward mode for the whole process."""


def derive(call: OpCall, active: Callable[[fx.Node], bool], item: int | None = None) -> OpDerivative:
    """The derivative of an op, or of one of its outputs, with respect to the active tensors it reads."""
    arguments = call.arguments(active)
    nodes = tuple(arguments.values())
    rule = RULES.get(call.name, Rule())
    if rule.joint is not None:
        derivative = rule.joint(call, tuple(arguments), nodes)
        if derivative is not None:
            return derivative
    linears: list[Linear | None] = []
    for argument in arguments:
        linear = rule.of(call, argument, item) if rule.of is not None else None
        linears.append(linear or by_autograd(call, argument, item))
    return OpDerivative.of(nodes, linears)


def by_autograd(call: OpCall, argument: Argument, item: int | None) -> Linear | None:
    """One op's derivative from autograd, one direction at a time; ``None`` where it passes none."""

    def run(value: Tensor) -> Tensor:
        out = call.run_at(argument, value)
        return out if item is None else out[item]

    leaf = call.at(argument).detach().requires_grad_()
    with torch.enable_grad():
        out = run(leaf)
    if not out.requires_grad:
        return None

    def pull(c: Tensor) -> Tensor:
        pulled = [torch.autograd.grad(out, leaf, each, retain_graph=True, materialize_grads=True)[0] for each in c]
        return torch.stack(pulled)

    def push(t: Tensor) -> Tensor:
        if call.target not in _without_forward_mode:
            try:
                return torch.stack([_forward_mode(run, leaf.detach(), each) for each in t])
            except (NotImplementedError, RuntimeError) as error:
                if not _lacks_rule(error):
                    raise
                _without_forward_mode.add(call.target)
        return torch.stack([_double_backward(out, leaf, each) for each in t])

    return Linear(push, pull)


def _forward_mode(run: Callable[[Tensor], Tensor], point: Tensor, tangent: Tensor) -> Tensor:
    _load_forward_rules()
    with _forward_mode_lock, forward_ad.dual_level():
        dual = run(forward_ad.make_dual(point, tangent))
        pushed = forward_ad.unpack_dual(dual).tangent
        return torch.zeros_like(dual) if pushed is None else pushed


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
    """torch compiles some forward rules on first use, with a warning about its own compiler that no user can act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _lacks_rule(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "forward ad" in text or "forward-mode" in text or "jvp" in text
