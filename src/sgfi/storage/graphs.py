"""A captured graph as a file: JSON for what is computed, safetensors for the weights; nothing in it can run.

Only ATen operators and a few operations on sizes are named in the file, and nothing else is looked up when it is read.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, fx

from sgfi.errors import StoreError
from sgfi.graph import Node, TensorGraph
from sgfi.graph.programs import Exported
from sgfi.graph.tensor_graph import NodeTable
from sgfi.graph.values import value
from sgfi.storage.files import write_tensors

VERSION, GRAPH = 1, "graph"
BATCH = 7919
"""Stands for the free batch size in recorded shapes: a prime, so that no other size is taken for it."""
ON_SIZES: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod", "getitem", "neg")
}
KINDS = {"dtype": torch.dtype, "memory_format": torch.memory_format, "layout": torch.layout}
MOST_NODES = 1 << 17


class UnstorableGraph(ValueError):
    """Something in the graph has no place in the file."""


def save_graph(graph: TensorGraph, file: Path) -> None:
    """One .safetensors file with the graph in its metadata. An :class:`UnstorableGraph` where that cannot be."""
    if graph.sides or graph.exported.most is not None or graph.exported.onload is not None:
        raise UnstorableGraph("side inputs, a bound of the batch, or weights that are kept elsewhere")
    record = {
        "version": VERSION,
        "model_class": graph.model_class,
        "bound": list(graph.bound),
        "weight_names": dict(graph.weight_names),
        "tensors": {name: node.name for name, node in graph.exported.tensors.items()},
        "outputs": [None if node is None else node.name for node in graph.exported.outputs],
        "table": [_row(node) for node in graph.nodes.values()],
        "ops": [_op(node) for node in graph.exported.graph.nodes],
    }
    write_tensors(file, {name: tensor.clone() for name, tensor in graph.constants.items()}, {GRAPH: json.dumps(record)})


def load_graph(file: Path) -> TensorGraph:
    """What :func:`save_graph` wrote."""
    try:
        with safe_open(file, framework="pt") as opened:
            record = json.loads((opened.metadata() or {})[GRAPH])
            constants = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a mapping)
        if record["version"] != VERSION or len(record["ops"]) > MOST_NODES:
            raise ValueError(f"version {record['version']}, {len(record['ops'])} ops")
        made = fx.Graph()
        nodes: dict[str, fx.Node] = {}
        for op in record["ops"]:
            nodes[op["name"]] = _made(made, op, nodes, constants)
        outputs = tuple(None if own is None else nodes[own] for own in record["outputs"])
        tensors = {name: nodes[own] for name, own in record["tensors"].items()}
        exported = Exported(made, tensors, constants, outputs)
        table = NodeTable(_node(row) for row in record["table"])
        weights = {str(own): str(name) for own, name in record["weight_names"].items()}
        device = torch.device("cpu")
        return TensorGraph(table, record["model_class"], device, exported, weights, tuple(record["bound"]))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
        raise StoreError(
            f"a captured graph in {file.name}", f"{type(error).__name__}: {str(error)[:200]}", "Capture it again."
        ) from error


def _row(node: Node) -> dict[str, Any]:
    return asdict(node) | {"dtype": str(node.dtype)}


def _node(row: dict[str, Any]) -> Node:
    listed = {key: tuple(row[key]) for key in ("shape", "coord_axes", "aliases")}
    return Node(**{**row, **listed, "dtype": _named("dtype", row["dtype"])})


def _op(node: fx.Node) -> dict[str, Any]:
    stack = [[key, path, str(kind)] for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items()]
    return {
        "name": node.name,
        "op": node.op,
        "target": _target_name(node),
        "args": _packed(node.args),
        "kwargs": {key: _packed(own) for key, own in node.kwargs.items()},
        "value": _shadow(value(node)),
        "stack": stack,
    }


def _made(graph: fx.Graph, op: dict[str, Any], nodes: dict[str, fx.Node], constants: dict[str, Tensor]) -> fx.Node:
    if op["op"] == "placeholder":
        node = graph.placeholder(op["name"])
    elif op["op"] == "output":
        node = graph.output(_unpacked(op["args"], nodes)[0])
    else:
        args = _unpacked(op["args"], nodes)
        kwargs = {key: _unpacked(own, nodes) for key, own in op["kwargs"].items()}
        node = graph.create_node("call_function", _target(op["target"]), args, kwargs, op["name"])
    if not op["name"].isidentifier() or (op["name"] in constants and node.name != op["name"]):
        raise ValueError(f"the name {op['name']!r}")
    node.meta["val"] = constants[op["name"]] if op["name"] in constants else _shown(op["value"])
    node.meta["nn_module_stack"] = {key: (path, kind) for key, path, kind in op["stack"]}
    return node


def _target_name(node: fx.Node) -> str:
    if node.op in ("placeholder", "output"):
        return ""
    if isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten":
        return str(node.target)
    if node.op == "call_function" and ON_SIZES.get(getattr(node.target, "__name__", "")) is node.target:
        return node.target.__name__  # type: ignore[union-attr]
    raise UnstorableGraph(f"the operator {node.target}")


def _target(name: str) -> Callable[..., Any]:
    if name in ON_SIZES:
        return ON_SIZES[name]
    space, op, overload = name.split(".")
    value = getattr(getattr(torch.ops.aten, op), overload)
    if space != "aten" or not isinstance(value, torch._ops.OpOverload):
        raise ValueError(f"the operator {name!r}")
    return value


def _packed(argument: Any) -> Any:
    """JSON for an argument: nodes by name, torch's constants by kind and name."""
    if isinstance(argument, fx.Node):
        return {"node": argument.name}
    if isinstance(argument, (list, tuple)):
        return [_packed(own) for own in argument]
    for kind, cls in KINDS.items():
        if isinstance(argument, cls):
            return {kind: str(argument)}
    if isinstance(argument, torch.device):
        return {"device": str(argument)}
    if argument is None or isinstance(argument, (bool, int, float, str)):
        return argument
    raise UnstorableGraph(f"an argument of type {type(argument).__name__}")


def _unpacked(stored: Any, nodes: dict[str, fx.Node]) -> Any:
    if isinstance(stored, list):
        return tuple(_unpacked(own, nodes) for own in stored)
    if isinstance(stored, dict):
        ((kind, own),) = stored.items()
        return nodes[own] if kind == "node" else torch.device("cpu") if kind == "device" else _named(kind, own)
    return stored


def _named(kind: str, name: str) -> Any:
    value = getattr(torch, name.removeprefix("torch."))
    if not isinstance(value, KINDS[kind]):
        raise ValueError(f"the {kind} {name!r}")
    return value


def _shadow(recorded: Any) -> Any:
    """What is kept of a node's value: shape and dtype with a number for the batch, or the number itself."""
    if isinstance(recorded, Tensor):
        return {"shape": [_size(size) for size in recorded.shape], "dtype": str(recorded.dtype)}
    if isinstance(recorded, (list, tuple)):
        return [_shadow(own) for own in recorded]
    if isinstance(recorded, (torch.SymInt, int, float, bool)):
        return _size(recorded)
    return None


def _size(size: Any) -> Any:
    if not isinstance(size, torch.SymInt):
        return size
    expression = size.node.expr
    return int(expression.subs(dict.fromkeys(expression.free_symbols, BATCH)))


def _shown(stored: Any) -> Any:
    if isinstance(stored, dict):
        return torch.empty(stored["shape"], dtype=_named("dtype", stored["dtype"]), device="meta")
    return tuple(map(_shown, stored)) if isinstance(stored, list) else stored
