"""Names by which other libraries call the same tensors, as further aliases.

torchvision
    ``<module path>.<function>``, as its feature extraction calls what a function returned: ``flatten``,
    ``encoder.reshape``. Where torchvision's numbering collides with a module path (``ln_1``), the module is meant.
timm
    ``feature_info.2``: the third entry of a model's ``feature_info``.
TransformerLens
    ``blocks.3.hook_resid_post``, ``blocks.3.attn.hook_pattern`` and so on, for models of stacked blocks with one
    attention each. The numbers are those of the hook; axes stay in the model's order, so ``hook_q``, ``hook_k``,
    ``hook_v`` and ``hook_z`` have heads before positions.
wrappers
    a first path component that every module shares (``lm.``) may be left out.

A name that is taken already keeps its meaning. Modules that pass their input on in evaluation mode (dropout, identity)
are no tensors of their own and have no names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from torch import fx, nn

from sgfi.graph.names import module_path
from sgfi.graph.tensor_graph import Node, NodeTable, TensorGraph

Named = Iterator[tuple[str, str]]
"""Pairs of a tensor's name and a further alias."""
ATTENTION = ("scaled_dot_product_attention", "softmax")


def with_library_names(graph: TensorGraph, model: nn.Module) -> TensorGraph:
    """The same graph, whose tensors answer to the names of other libraries too."""
    taken = {name for node in graph.nodes.values() for name in (node.name, *node.aliases)}
    further: dict[str, list[str]] = defaultdict(list)
    for names in (_wrapped(graph), _functions(graph), _feature_info(graph, model), _hooks(graph)):
        for name, alias in names:
            if alias not in taken:
                taken.add(alias)
                further[name].append(alias)
    nodes = [replace(node, aliases=(*node.aliases, *further[node.name])) for node in graph.nodes.values()]
    return replace(graph, nodes=NodeTable(nodes))


def _wrapped(graph: TensorGraph) -> Named:
    first = {node.module.partition(".")[0] for node in graph.nodes.values() if node.module}
    if len(first) != 1:
        return
    prefix = f"{first.pop()}."
    for node in graph.nodes.values():
        for name in (node.name, *node.aliases):
            if name.startswith(prefix):
                yield node.name, name.removeprefix(prefix)


def _functions(graph: TensorGraph) -> Named:
    """What each call of a function returned: the last tensor that it made."""
    last: dict[tuple[str, str], tuple[str, str]] = {}
    for name, tensor in graph.exported.tensors.items():
        call, function = tensor.meta.get("torch_fn") or ("", "")
        if call and not function.endswith("multi_head_attention_forward"):
            last[module_path(tensor), call] = name, function.rpartition(".")[2]
    seen: Counter[str] = Counter()
    for (path, _), (name, function) in last.items():
        stem = f"{path}.{function}" if path else function
        yield name, f"{stem}_{seen[stem]}" if seen[stem] else stem
        seen[stem] += 1


def _feature_info(graph: TensorGraph, model: nn.Module) -> Named:
    info: Any = getattr(model, "feature_info", None)
    entries = info if isinstance(info, list) else getattr(info, "info", None)
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        module = entry.get("module") if isinstance(entry, dict) else None
        if isinstance(module, str) and module in graph.nodes:
            yield graph.nodes[module].name, f"feature_info.{index}"


def _hooks(graph: TensorGraph) -> Named:
    blocks = _blocks(graph)
    for number, path in enumerate(blocks):
        inside = [node for node in graph.nodes.values() if f"{node.module}.".startswith(f"{path}.")]
        yield from ((name, f"blocks.{number}.{hook}") for name, hook in _block_hooks(graph, path, inside))


def _blocks(graph: TensorGraph) -> list[str]:
    """Paths of the blocks of a transformer, in order: numbered alike, one attention each."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for node in graph.nodes.values():
        match = re.match(r"(.*?)(\d+)(?:\.|$)", node.module)
        if match and node.op in ATTENTION:
            counts[match[1]][match[1] + match[2]] += 1
    stacks = [list(paths) for paths in counts.values() if set(paths.values()) == {1}]
    return max(stacks, key=len, default=[])


def _block_hooks(graph: TensorGraph, path: str, inside: list[Node]) -> Named:
    """Pairs of a tensor's name and a hook inside a block."""
    (attention,) = (node for node in inside if node.op in ATTENTION)
    sums = [node.name for node in inside if node.op == "add" and node.module == path]
    after = graph.nodes[path] if path in graph.nodes else None  # noqa: SIM401 (a miss raises)
    names = {node.name for node in inside}
    outside = [parent for node in inside for parent in graph.parents(node.name) if parent not in names]
    if after is not None:
        before = next((name for name in outside if graph.nodes[name].shape == after.shape), None)
        yield from [(before, "hook_resid_pre")] if before else []
        yield after.name, "hook_resid_post"
    child = f"{path}.{attention.module.removeprefix(f'{path}.').partition('.')[0]}"
    yield from _attention_hooks(graph, attention)
    if after is None or len(sums) < 2 or sums[-1] != after.name:
        return  # normalised after the sum: no stream of sums
    yield sums[0], "hook_resid_mid"
    if child in graph.nodes:
        yield graph.nodes[child].name, "hook_attn_out"
    mlp = next((name for name in ("mlp", "feed_forward", "ffn") if f"{path}.{name}" in graph.nodes), None)
    if mlp is not None:
        yield graph.nodes[f"{path}.{mlp}"].name, "hook_mlp_out"
        hidden = [n.name for n in inside if f"{n.module}.".startswith(f"{path}.{mlp}.") and _wider(n, after)]
        yield from zip([*hidden[:1], *hidden[-1:]], ("mlp.hook_pre", "mlp.hook_post"), strict=False)


def _wider(node: Node, stream: Node) -> bool:
    return node.channel_axis is not None and node.channels != stream.channels


def _attention_hooks(graph: TensorGraph, attention: Node) -> Named:
    """Queries, keys, values and what heads put out; scores and weights where attention is open."""
    tensor, names = graph.exported.tensors[attention.name], graph.exported.names
    if attention.op == "softmax":
        yield attention.name, "attn.hook_pattern"
        mixing = _next_matmul(tensor, lambda node: list(node.users))
        scores = _next_matmul(tensor, lambda node: node.all_input_nodes)
        yield from [(names[tensor.all_input_nodes[0]], "attn.hook_attn_scores")] if scores is not None else []
        if scores is None or mixing is None:
            return
        (query, key), value, result = scores.all_input_nodes, mixing.all_input_nodes[1], mixing
        key = key.all_input_nodes[0] if "transpose" in str(key.target) else key
    else:
        (query, key, value), result = tensor.all_input_nodes[:3], tensor
    for own, letter in ((query, "q"), (key, "k"), (value, "v"), (result, "z")):
        if own in names:
            yield names[own], f"attn.hook_{letter}"


def _next_matmul(tensor: fx.Node, step: Callable[[fx.Node], list[fx.Node]]) -> fx.Node | None:
    """The nearest matrix product, following first inputs or first readers."""
    while step(tensor):
        tensor = step(tensor)[0]
        if "matmul" in str(tensor.target):
            return tensor
    return None
