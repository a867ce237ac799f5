"""The layers of a causal language model in its graph, and the plans that invert them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sgfi.boundaries import Plan, plan
from sgfi.errors import PlanError, did_you_mean
from sgfi.graph import TensorGraph

PARTS = {"attention": ("attn", "self_attn", "attention"), "mlp": ("mlp", "fc2"), "residual": ("",)}
"""The parts of a layer that can be targets, and their modules in GPT-2, GPT-NeoX, Llama-style models and OPT."""
FAMILIES = {
    "paper": {"operator": "full", "partition": "shared"},
    "per-frequency": {"operator": "full", "partition": "singleton"},
    "causal": {"operator": "causal", "partition": "shared"},
    "causal-first-apart": {"operator": "causal", "partition": "first-apart"},
    "causal-per-position": {"operator": "causal", "partition": "singleton"},
}
"""Operator families for token streams; ``causal+<k>`` too, one kernel over k later positions for all positions.

The first token is where later ones attend when they look for nothing (an attention sink). Its states and sources are
many times larger than the others', so that a least-squares map shared with it serves it alone: hence the first apart.
"""


@dataclass(frozen=True)
class Anatomy:
    """The module paths of a model's layers, first layer first."""

    graph: TensorGraph
    blocks: tuple[str, ...]

    def tensor(self, layer: int, part: str = "residual") -> str:
        """The canonical name of a layer's output, or of the output of its attention or MLP. Layers count from one."""
        if part not in list(PARTS):
            raise PlanError(f"a part among {list(PARTS)}", repr(part), did_you_mean(str(part), PARTS))
        if type(layer) is not int or not 1 <= layer <= len(self.blocks):
            raise PlanError(f"a layer from 1 to {len(self.blocks)}", repr(layer), "Layers count from one.")
        names = [f"{self.blocks[layer - 1]}.{module}".rstrip(".") for module in PARTS[part]]
        for name in names:
            if name in self.graph.nodes:
                return self.graph.nodes.canonical(name)
        raise PlanError(f"one of {names} in the graph", "none of them", "Name the target yourself with sgfi.plan.")


def anatomy(graph: TensorGraph) -> Anatomy:
    """Find the layers: the numbered modules ``<list>.0``, ``<list>.1``, ... whose outputs are tensors of the graph."""
    known = [alias for name, node in graph.nodes.items() for alias in (name, *node.aliases)]
    lists: dict[str, set[int]] = {}
    for name in known:
        numbered = re.fullmatch(r"((?:\w+\.)*[a-z]\w*)\.(\d+)", name)
        if numbered:
            lists.setdefault(numbered[1], set()).add(int(numbered[2]))
    if not lists:
        raise PlanError("a model with numbered layers", "none in its graph", "Name the tensors yourself.")
    prefix = max(lists, key=lambda name: len(lists[name]))
    return Anatomy(graph, tuple(f"{prefix}.{index}" for index in range(max(lists[prefix]) + 1)))


def token_plan(
    graph: TensorGraph, layer: int = 6, part: str = "attention", family: str = "causal", spacing: int = 2
) -> Plan:
    """The paper's language plan: the outputs of every second block before the target's layer are boundaries.

    ``family`` is one of ``FAMILIES`` or ``causal+<k>``; the paper's own is ``"paper"``, one complex matrix for all
    frequencies.
    """
    if not isinstance(graph, TensorGraph):
        raise PlanError("a captured graph", type(graph).__name__, "Pass sgfi.capture(embedding_model(lm), embeddings).")
    if type(spacing) is not int or spacing < 1:
        raise PlanError("a spacing of one layer or more", repr(spacing), "The paper uses 2.")
    chosen = FAMILIES.get(str(family))
    if chosen is None and re.fullmatch(r"causal\+[1-9]\d*", str(family)):
        chosen = {"operator": family, "partition": "shared"}
    if chosen is None:
        known = f"a family among {list(FAMILIES)} or 'causal+<k>'"
        raise PlanError(known, repr(family), did_you_mean(str(family), FAMILIES))
    body = anatomy(graph)
    target = body.tensor(layer, part)
    inner = [body.tensor(earlier) for earlier in range(spacing, layer, spacing)]
    return plan(graph, target, inner, partition=chosen["partition"], operator=chosen["operator"])
