"""Batch norms fused into the convolution before them: with fixed statistics the two are one convolution.

Saves a pass over memory in the forward and in every derivative.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable

from torch import Tensor, fx
from torch.nn.utils.fusion import fuse_conv_bn_weights

from sgfi.derivatives.rules import OpCall
from sgfi.derivatives.rules.cpu import specialised
from sgfi.graph import TensorGraph

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "convolution"}
NORMS = {"batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm"}


def fusible(graph: TensorGraph, wanted: tuple[str, ...], known: tuple[str, ...]) -> dict[fx.Node, fx.Node]:
    """Convolutions, each with the batch norm that is the only reader of its output, which is not wanted by itself.

    Among what the model computes on the way from ``known`` tensors to ``wanted`` ones.
    """
    if not specialised():
        return {}
    ends = {graph.exported.tensors[name] for name in (*wanted, *known)}
    return graph.cache.get(("fusible", wanted, known), lambda: _pairs(graph, graph.schedule(wanted, known).nodes, ends))


def _pairs(graph: TensorGraph, nodes: Iterable[fx.Node], wanted: Collection[fx.Node]) -> dict[fx.Node, fx.Node]:
    pairs = {}
    for norm in nodes:
        conv = norm.args[0] if norm.args else None
        if not (_named(norm, NORMS) and isinstance(conv, fx.Node) and _named(conv, CONVOLUTIONS)):
            continue
        alone = set(conv.users) == {norm} and conv not in wanted and all(item.args[1] == 0 for item in _items(norm))
        if alone and _fixed(graph, conv) and _fixed(graph, norm) and _affine(_call(graph, conv), _call(graph, norm)):
            pairs[conv] = norm
    return pairs


def fused_norms(pairs: dict[fx.Node, fx.Node]) -> dict[fx.Node, fx.Node]:
    """The convolution that does the work of each norm, and of the item that holds the norm's output."""
    return {node: conv for conv, norm in pairs.items() for node in (norm, *_items(norm))}


def fused_weights(graph: TensorGraph, conv: fx.Node, norm: fx.Node) -> dict[str, Tensor]:
    """Weight and bias of the one convolution; kept until the model's own change."""
    read = [node.name for node in (*conv.all_input_nodes, *norm.all_input_nodes) if node.name in graph.constants]
    return graph.cache.get(
        ("fused", conv), lambda: _fused(_call(graph, conv), _call(graph, norm)), graph.weights_version(read)
    )


def _fused(conv: OpCall, norm: OpCall) -> dict[str, Tensor]:
    running = norm["running_mean"], norm["running_var"], norm["eps"]
    weight, bias = fuse_conv_bn_weights(conv["weight"], conv["bias"], *running, norm["weight"], norm["bias"])
    return {"weight": weight.detach(), "bias": bias.detach()}


def _call(graph: TensorGraph, node: fx.Node) -> OpCall:
    """The op with its weights for arguments; what it reads of the input is ``None``."""
    return OpCall(node, lambda argument: fx.node.map_arg(argument, lambda read: graph.constants.get(read.name)))


def _fixed(graph: TensorGraph, node: fx.Node) -> bool:
    """Whether all an op reads beside its first argument are weights."""
    return all(read.name in graph.constants for read in node.all_input_nodes if read is not node.args[0])


def _affine(conv: OpCall, norm: OpCall) -> bool:
    return not conv.get("transposed") and not norm.get("training", False) and norm["running_var"] is not None


def _named(node: fx.Node, names: set[str]) -> bool:
    return getattr(node.target, "_opname", None) in names


def _items(norm: fx.Node) -> list[fx.Node]:
    return [user for user in norm.users if user.target is operator.getitem]
