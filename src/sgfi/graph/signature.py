"""What a captured forward is, apart from its weights: its ops with their attributes, in order."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import fx

from sgfi.graph.programs import Exported

PLACEMENT = ("device", "layout", "pin_memory", "memory_format")
"""Where numbers lie, not what they are."""


def signature(exported: Exported) -> tuple[tuple[str, str], ...]:
    """For every op in topological order its name, and a hash of its attributes and of which results it reads.

    Names and arguments that have their default do not count.
    """
    index = {node: number for number, node in enumerate(exported.graph.nodes)}
    return tuple(
        (str(node.target), _hash(_attributes(node, index)))
        for node in exported.graph.nodes
        if node.op == "call_function"
    )


def _attributes(node: fx.Node, index: dict[fx.Node, int]) -> list[str]:
    schema = getattr(node.target, "_schema", None)
    declared = schema.arguments if schema else []
    names = [argument.name for argument in declared] or [str(number) for number in range(len(node.args))]
    defaults = {argument.name: argument.default_value for argument in declared if argument.has_default_value()}
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return [
        f"{name}={_text(value, index)}"
        for name, value in sorted(given.items())
        if name not in PLACEMENT and not (name in defaults and _same(value, defaults[name]))
    ]


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and not isinstance(value, fx.Node) and value == default


def _text(value: Any, index: dict[fx.Node, int]) -> str:
    if isinstance(value, fx.Node):
        return f"%{index[value]}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_text(item, index) for item in value) + "]"
    return value.type if isinstance(value, torch.device) else repr(value)


def _hash(parts: list[str]) -> str:
    return hashlib.sha256(";".join(parts).encode()).hexdigest()[:8]
