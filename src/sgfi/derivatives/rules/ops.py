"""One op of the graph with what it reads, its derivative, and the registry of rules."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx

from sgfi.graph import names
from sgfi.graph.attention import kernel
from sgfi.graph.values import is_complex, is_random
from sgfi.plugins import Registry

aten = torch.ops.aten
Argument = tuple[str, int | None]
"""An argument by its name in the op's schema; with an index where the argument is a list of tensors."""


class Linear(NamedTuple):
    """The derivative with respect to one argument. Law: ``<push t, c> = <t, pull c>``."""

    push: Callable[[Tensor], Tensor]
    """(Q, *argument shape) -> (Q, *output shape)."""
    pull: Callable[[Tensor], Tensor]


class OpDerivative(NamedTuple):
    """The derivative of one op: linear in each of the ``inputs`` it reads."""

    inputs: tuple[fx.Node, ...]
    push: Callable[[Sequence[Tensor | None]], Tensor | None]
    """A tangent (or None for zero) for each input -> the output's."""
    pull: Callable[[Tensor, Sequence[bool]], Sequence[Tensor | None]]
    """The output's cotangent, and which inputs want theirs -> a cotangent for each input."""

    @classmethod
    def of(cls, inputs: tuple[fx.Node, ...], linears: Sequence[Linear | None]) -> OpDerivative:
        """From the derivative with respect to each input; ``None`` where it is zero."""

        def push(tangents: Sequence[Tensor | None]) -> Tensor | None:
            total: Tensor | None = None
            for linear, tangent in zip(linears, tangents, strict=True):
                if linear is not None and tangent is not None:
                    pushed = linear.push(tangent)
                    total = pushed if total is None else total + pushed
            return total

        def pull(cotangent: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
            return [
                linear.pull(cotangent) if linear is not None and want else None
                for linear, want in zip(linears, wanted, strict=True)
            ]

        return cls(inputs, push, pull)

    def between(self, before: Sequence[torch.dtype], after: torch.dtype) -> OpDerivative:
        """With tangents in the output's dtype and cotangents in that of each input, as an op that promotes needs."""
        if all(dtype == after for dtype in before):
            return self

        def push(tangents: Sequence[Tensor | None]) -> Tensor | None:
            pushed = self.push(tangents)
            return None if pushed is None else pushed.to(after)

        def pull(cotangent: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
            parts = self.pull(cotangent, wanted)
            return [None if part is None else part.to(dtype) for part, dtype in zip(parts, before, strict=True)]

        return OpDerivative(self.inputs, push, pull)


class OpCall:
    """One op of the graph with the values it reads; ``out`` is computed on first use."""

    def __init__(self, node: fx.Node, values: Callable[[Any], Any]) -> None:
        self.node, self.target = node, node.target
        schema = getattr(node.target, "_schema", None)
        declared = schema.arguments if schema else []
        names = [argument.name for argument in declared] or [str(index) for index in range(len(node.args))]
        self._nodes = dict(zip(names, node.args, strict=False)) | node.kwargs
        self._keyword_only = [argument.name for argument in declared if argument.kwarg_only]
        defaults = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
        self._values = {
            name: values(self._nodes[name]) if name in self._nodes else defaults[name]
            for name in dict.fromkeys([*names, *node.kwargs])
            if name in self._nodes or name in defaults
        }
        self._out: Any = None

    @property
    def name(self) -> str:
        return str(getattr(self.target, "_opname", getattr(self.target, "__name__", self.target)))

    @property
    def title(self) -> str:
        """How errors name the op: its qualified name, and the module that it stands in."""
        qualified = str(self.target) if hasattr(self.target, "_opname") else self.name
        path = names.module_path(self.node)
        return f"{qualified} in {path!r}" if path else qualified

    @property
    def is_complex(self) -> bool:
        """Whether a complex number goes in or out: rules are for real ones, autograd knows about conjugates."""
        items = (user for user in self.node.users if user.target is operator.getitem)
        return any(is_complex(node) for node in (self.node, *self.node.all_input_nodes, *items))

    @property
    def is_random(self) -> bool:
        return is_random(self.node)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def at(self, argument: Argument) -> Tensor:
        name, index = argument
        return self._values[name] if index is None else self._values[name][index]

    def arguments(self, active: Callable[[fx.Node], bool]) -> dict[Argument, fx.Node]:
        """Through which arguments the op reads tensors that the derivative passes through."""
        reads: dict[Argument, fx.Node] = {}
        for name, arg in self._nodes.items():
            entries = enumerate(arg) if isinstance(arg, (list, tuple)) else [(None, arg)]
            reads |= {(name, i): entry for i, entry in entries if isinstance(entry, fx.Node) and active(entry)}
        return reads

    def converted(self, convert: Callable[[Tensor], Tensor]) -> OpCall:
        """The same op at values of another dtype, say."""
        other = copy(self)
        other._values = {
            name: fx.node.map_aggregate(value, _on_tensors(convert)) for name, value in self._values.items()
        }
        other._out = None
        return other

    @property
    def out(self) -> Any:
        if self._out is None:
            self._out = self.run({})
        return self._out

    @out.setter
    def out(self, out: Any) -> None:
        """Set by a rule whose kernel returns the output along with what the derivative needs."""
        self._out = out

    def run(self, changed: Mapping[str, Any]) -> Any:
        values = {**self._values, **changed}
        keywords = {name: values.pop(name) for name in self._keyword_only if name in values}
        return kernel(self.target)(*values.values(), **keywords)

    def run_at(self, argument: Argument, value: Tensor) -> Any:
        name, index = argument
        if index is None:
            return self.run({name: value})
        entries = list(self._values[name])
        entries[index] = value
        return self.run({name: entries})


def _on_tensors(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Any]:
    return lambda value: function(value) if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class Rule:
    """One op's derivative: ``of(call, argument, item)`` for one argument, or ``joint(call, arguments, nodes)`` for all.

    ``item`` is the index of the output that is meant, for an op with several. ``None`` leaves the case to autograd.
    """

    of: Callable[[OpCall, Argument, int | None], Linear | None] | None = None
    joint: Callable[[OpCall, tuple[Argument, ...], tuple[fx.Node, ...]], OpDerivative | None] | None = None


def _accepted(name: str, given: Any) -> Rule:
    if isinstance(given, Rule):
        return given
    if not callable(given):
        raise TypeError(f"a derivative rule is a function or a Rule, not a {type(given).__name__}")
    return Rule(of=given)


RULES: Registry[Rule] = Registry("derivative rule", "sgfi.derivatives", _accepted)


def rule(*names: str, joint: bool = False) -> Callable:
    """Register a rule for ops by their name without overload."""

    def register(function: Callable) -> Callable:
        for name in names:
            RULES.register(name, Rule(joint=function) if joint else Rule(of=function))
        return function

    return register
