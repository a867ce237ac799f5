"""The derivative of an op by its rule, or by autograd where there is none."""

from __future__ import annotations

from collections.abc import Callable

from torch import fx

from sgfi.derivatives.rules.autograd import by_autograd
from sgfi.derivatives.rules.ops import RULES, Linear, OpCall, OpDerivative, Rule


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
