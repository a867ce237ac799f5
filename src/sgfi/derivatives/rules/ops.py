"""One op of the graph as it is called, and what a rule says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
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


def push_all(linears: Sequence[Linear | None], tangents: Sequence[Tensor | None]) -> Tensor | None:
    total: Tensor | None = None
    for linear, tangent in zip(linears, tangents, strict=True):
        if linear is not None and tangent is not None:
            pushed = linear.push(tangent)
            total = pushed if total is None else total + pushed
    return total


def pull_all(linears: Sequence[Linear | None], cotangent: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
    return [
        linear.pull(cotangent) if linear is not None and want else None
        for linear, want in zip(linears, wanted, strict=True)
    ]
