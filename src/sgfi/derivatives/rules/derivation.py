"""The derivative of an op by its rule, or by autograd where there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import fx

from sgfi.derivatives.rules.autograd import by_autograd
from sgfi.derivatives.rules.calls import RULES, Call, Linear, Rule, Step, pull_all, push_all


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
        linears.append(linear or by_autograd(call, place, item))
    return Step(nodes, partial(push_all, linears), partial(pull_all, linears))
