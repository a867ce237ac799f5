"""Any other op: its derivative from autograd, alone."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from sgfi.derivatives.rules.calls import Call, Linear, Place

_without_forward_mode: set[Any] = set()
"""Ops that turned out to have no forward-mode rule: found out once, asked no more."""


def by_autograd(call: Call, at: Place, item: int | None) -> Linear | None:
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
