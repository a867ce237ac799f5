"""Names for tensors, after the modules that make them.

Canonical: the qualified path of the deepest module whose output the tensor is (``layer4.1.conv2``), else
``<module path>.<op>`` with ``_1``, ``_2``, ... on repeats (``layer4.1.add``), at top level just ``<op>``. A module
called again: ``layer4.1.relu``, ``layer4.1.relu_1``. Aliases: every enclosing module that returns the same tensor,
and the ``<module path>.<op>`` form; ``logits`` for the model's output, of several the one under that key, else the
first that has the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from torch import fx

from sgfi.graph.values import op_name

OUTPUT = "logits"
"""An alias of the model's output, where nothing else is called so."""


@dataclass(frozen=True)
class ModuleCall:
    """One call of one module: its qualified path and how often it had been called before."""

    path: str
    repeat: int

    @property
    def name(self) -> str:
        return f"{self.path}_{self.repeat}" if self.repeat else self.path


def calls(node: fx.Node) -> tuple[ModuleCall, ...]:
    """The module calls around a node, outermost first, the root left out."""
    around = []
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        repeat = key.rpartition("@")[2] if "@" in key else "0"
        if path and not path.startswith("_empty_nn_module_stack"):
            around.append(ModuleCall(path, int(repeat) if repeat.isdigit() else 0))
    return tuple(around)


def module_path(node: fx.Node) -> str:
    inside = calls(node)
    return inside[-1].path if inside else ""


def outputs(tensors: Iterable[fx.Node]) -> dict[fx.Node, list[ModuleCall]]:
    """For each tensor the module calls that return it, outermost first.

    A call returns a tensor when it is the only one made inside that is read outside.
    """
    leaving: dict[ModuleCall, list[fx.Node]] = {}
    for node in tensors:
        users = [set(calls(user)) if user.op != "output" else set() for user in node.users]
        for call in calls(node):
            if any(call not in user for user in users):
                leaving.setdefault(call, []).append(node)
    returned: dict[fx.Node, list[ModuleCall]] = {}
    for call, nodes in leaving.items():
        if len(nodes) == 1:
            returned.setdefault(nodes[0], []).append(call)
    return {node: sorted(by, key=lambda call: call.path.count(".")) for node, by in returned.items()}


def assign(tensors: list[fx.Node], output: fx.Node | None = None) -> dict[fx.Node, tuple[str, tuple[str, ...]]]:
    """Canonical name and aliases of every tensor, in topological order; ``output`` is also called ``logits``."""
    returned = outputs(tensors)
    op_forms = _op_forms(tensors)
    taken: set[str] = {"input"}
    canonical: dict[fx.Node, str] = {}
    for node in tensors:  # module names first: a functional op never takes one
        if node in returned:
            name = returned[node][-1].name
            if name not in taken:
                canonical[node] = name
                taken.add(name)
    for node in tensors:
        if node not in canonical:
            canonical[node] = _free(op_forms[node], taken)
            taken.add(canonical[node])
    named: dict[fx.Node, tuple[str, tuple[str, ...]]] = {}
    for node in tensors:
        aliases = []
        forms = [*(call.name for call in reversed(returned.get(node, []))), op_forms[node]]
        for alias in [*forms, OUTPUT] if node is output else forms:
            if alias not in taken:
                aliases.append(alias)
                taken.add(alias)
        named[node] = (canonical[node], tuple(aliases))
    return named


def _op_forms(tensors: list[fx.Node]) -> dict[fx.Node, str]:
    """``<module path>.<op>``, numbered by repeat within the module."""
    seen: Counter[str] = Counter()
    forms = {}
    for node in tensors:
        path, op = module_path(node), op_name(node)
        stem = f"{path}.{op}" if path else op
        forms[node] = f"{stem}_{seen[stem]}" if seen[stem] else stem
        seen[stem] += 1
    return forms


def _free(name: str, taken: set[str]) -> str:
    """``name``, or the first numbered form of it that is not taken."""
    candidate, repeat = name, 0
    while candidate in taken:
        repeat += 1
        candidate = f"{name}_{repeat}"
    return candidate
