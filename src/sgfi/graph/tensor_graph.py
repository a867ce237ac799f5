"""The frozen tensor-level DAG of a model."""

from __future__ import annotations

import hashlib
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx

from sgfi.errors import PlanError, QueryError, did_you_mean
from sgfi.graph.arguments import split_inputs
from sgfi.graph.cache import Cache
from sgfi.graph.programs import Exported, Program, Schedule, SideInputs, extract
from sgfi.graph.raw import raw_bytes
from sgfi.graph.segments import Segment, find_segment
from sgfi.graph.values import parents


@dataclass(frozen=True)
class Node:
    """One differentiable floating tensor of the model.

    ``shape`` has ``None`` where the batch stands (always axis 0 of a node that can be a boundary) and a string
    such as ``"64*B"`` where the batch is folded into another axis. ``channel_axis`` is ``None`` when no channel
    axis is known; ``coord_axes`` are all axes but the batch and the channel.
    """

    name: str
    shape: tuple[int | str | None, ...]
    op: str
    module: str
    channel_axis: int | None
    coord_axes: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    aliases: tuple[str, ...] = ()

    @property
    def channels(self) -> int:
        """Number of channels; 0 when the node has no channel axis."""
        return 0 if self.channel_axis is None else int(self.shape[self.channel_axis])  # type: ignore[arg-type]

    @property
    def coord_shape(self) -> tuple[int, ...]:
        return tuple(int(self.shape[axis]) for axis in self.coord_axes)  # type: ignore[arg-type]


class NodeTable(Mapping[str, Node]):
    """Canonical names in topological order; a lookup accepts every alias."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._canonical = {alias: node.name for node in self._nodes.values() for alias in node.aliases}
        self._canonical.update({name: name for name in self._nodes})

    def canonical(self, name: str) -> str:
        """The canonical form of a name or alias; an error that suggests close names otherwise."""
        if not isinstance(name, str) or name not in self._canonical:
            raise PlanError(
                "the name of a tensor in the graph",
                repr(name),
                did_you_mean(str(name)[:200], self._canonical) or "print(graph) lists every name.",
            )
        return self._canonical[name]

    def __getitem__(self, name: str) -> Node:
        return self._nodes[self.canonical(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._canonical

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(frozen=True, eq=False)
class TensorGraph:
    """Everything the model computes between its input and its outputs, captured once.

    ``nodes`` maps names to :class:`Node` in topological order; the input is ``"input"``. Weights are shared with
    the model (not copied), never written, and identified by ``fingerprint``.
    """

    nodes: NodeTable
    model_class: str
    """Qualified class of the captured model, e.g. ``torchvision.models.resnet.ResNet``."""
    device: torch.device
    exported: Exported = field(repr=False)
    weight_names: Mapping[str, str]
    """fx placeholder name -> qualified name in the model."""
    bound: tuple[str, ...] = ()
    """Names of the forward arguments beside the inverted one: fixed at capture, or given with every sample."""
    invert: str = ""
    """The name of the inverted argument, where it was named."""
    model: weakref.ref[torch.nn.Module] | None = field(repr=False, default=None)
    """The captured model, as long as it lives."""
    owned: Mapping[str, str] = field(repr=False, default_factory=dict)
    """fx placeholder name -> where the model itself holds the tensor, of those that it holds."""
    cache: Cache = field(repr=False, default_factory=Cache)
    """Programs, schedules, segments and the fingerprint."""
    side_values: Mapping[str, Tensor] = field(repr=False, default_factory=dict)
    """By fx placeholder name, the side inputs that are bound now: (1, ...) for any batch, or (B, ...)."""
    example_sides: Mapping[str, Tensor] = field(repr=False, default_factory=dict)
    """By name, (1, ...) the side inputs of the example's first sample."""

    @property
    def input(self) -> Node:
        return self.nodes["input"]

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of the side inputs: tensors that the model takes with every sample."""
        return tuple(self.exported.sides.values())

    @cached_property
    def side_inputs(self) -> SideInputs:
        return SideInputs(self.exported.sides, self.side_values)

    def split(self, inputs: Tensor | Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The inverted tensor of a batch, and its side inputs by name; a tensor alone has none."""
        if not self.invert and not self.sides:
            return inputs, {}  # type: ignore[return-value]
        return split_inputs(inputs, self.invert, self.sides)

    def bind(self, sides: Mapping[str, Tensor]) -> TensorGraph:
        """The same graph with side inputs bound: one sample's, (1, ...), for any input, or each one's, (B, ...)."""
        example, placeholders = self.example_sides, {name: key for key, name in self.exported.sides.items()}
        for name, value in sides.items():
            if name not in placeholders:
                hint = did_you_mean(str(name), self.sides) or "Bind it at capture, with bound={...}."
                raise QueryError(f"a side input among {list(self.sides)}", repr(name), hint)
            own, dense = example[name], isinstance(value, Tensor) and value.layout == torch.strided
            if not dense or value.shape[1:] != own.shape[1:] or value.dtype != own.dtype or not len(value):
                got = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
                raise QueryError(
                    f"{name!r} of {own.dtype} (B, {', '.join(map(str, own.shape[1:]))})", got, "Capture fixes the rest."
                )
        new = {placeholders[name]: value.detach().clone() for name, value in sides.items()}
        return replace(self, side_values={**self.side_values, **new})

    @property
    def constants(self) -> Mapping[str, Tensor]:
        """Weights and buffers by fx placeholder name."""
        return self.exported.constants

    @property
    def fingerprint(self) -> str:
        """SHA-256 of every weight and buffer the graph reads as they are now: name, dtype, shape and bytes.

        Worked out again when a checksum of the bytes differs: no way of writing to a weight goes unseen.
        """
        return self.cache.get("fingerprint", self._digest, tuple(map(_checksum, self.constants.values())))

    def check_weights(self) -> None:
        """The model must still hold the tensors that the graph reads; an error that names one that was exchanged."""
        model = self.model() if self.model is not None else None
        for placeholder, path in self.owned.items() if model is not None else ():
            held, now = self.constants[placeholder], own_tensor(model, path)
            if now is None or now.data_ptr() != held.data_ptr() or now.shape != held.shape:
                raise QueryError(
                    "the weights that were captured",
                    f"{path!r}, " + ("exchanged for another tensor since" if now is not None else "gone since"),
                    "Capture the model again (new or wrapped layers, a new parameter, .data = and .to() do this).",
                )

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for placeholder in sorted(self.constants, key=lambda key: self.weight_names[key]):
            tensor = self.constants[placeholder]
            digest.update(f"{self.weight_names[placeholder]} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(raw_bytes(tensor))
        return digest.hexdigest()

    @property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        return self.cache.get("ancestors", self._all_ancestors)

    def _all_ancestors(self) -> dict[str, frozenset[str]]:
        """For every named tensor, the named tensors strictly upstream of it."""
        names = self.exported.names
        upstream: dict[fx.Node, frozenset[str]] = {}
        for node in self.exported.graph.nodes:
            reached: set[str] = set()
            for parent in parents(node):
                reached |= upstream.get(parent, frozenset())
                if parent in names:
                    reached.add(names[parent])
            upstream[node] = frozenset(reached)
        return {name: upstream[fx_node] for name, fx_node in self.exported.tensors.items()}

    def ancestors(self, name: str) -> frozenset[str]:
        """Names of the tensors strictly upstream of ``name``."""
        return self._ancestors[self.nodes.canonical(name)]

    def ends(self, among: Iterable[str] | None = None) -> tuple[str, ...]:
        """Of all tensors, or of some, the outputs and those that no other of them reads; never the input."""
        names = list(self.nodes if among is None else among)
        read = set().union(*(self.ancestors(name) for name in names))
        outputs = {self.exported.names.get(node) for node in self.exported.outputs if node is not None}
        return tuple(name for name in names if name != "input" and (name not in read or name in outputs))

    def parents(self, name: str) -> tuple[str, ...]:
        """Names of the nearest named tensors that ``name`` reads."""
        names = self.exported.names
        nearest: dict[str, None] = {}
        stack = list(parents(self.exported.tensors[self.nodes.canonical(name)]))
        while stack:
            parent = stack.pop()
            if parent in names:
                nearest[names[parent]] = None
            else:
                stack.extend(parents(parent))
        return tuple(nearest)

    def program(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Program:
        """The computation from named inputs to named outputs."""
        program = self.cache.get(("program", inputs, outputs), lambda: extract(self.exported, inputs, outputs))
        return program.bound(self.side_inputs)

    def schedule(self, outputs: tuple[str, ...], known: tuple[str, ...] = ("input",)) -> Schedule:
        """In which order the model computes named tensors from known ones."""
        return self.cache.get(("schedule", outputs, known), lambda: Schedule.of(self.exported, outputs, known))

    def segment(self, source: str, outputs: Sequence[str]) -> Segment:
        """The local map from ``source`` to ``outputs``."""
        key = ("segment", source, tuple(outputs))
        segment = self.cache.get(key, lambda: find_segment(self.exported, source, outputs))
        return replace(segment, program=segment.program.bound(self.side_inputs)) if self.sides else segment

    def table(self) -> str:
        """A readable tree: one line a tensor, indented by module, with op, shape and axes."""
        rows = [("name", "op", "shape", "channel", "coordinates")]
        for node in self.nodes.values():
            shape = "x".join("B" if size is None else str(size) for size in node.shape)
            channel = "-" if node.channel_axis is None else str(node.channel_axis)
            coords = ",".join(map(str, node.coord_axes)) or "-"
            indent = "  " * node.module.count(".")
            rows.append((indent + node.name, node.op, shape, channel, coords))
        head, *lines = text_table(rows).splitlines()
        return "\n".join([head, "-" * len(head), *lines])

    def names(self) -> str:
        """A table of every tensor's name and the further names it answers to."""
        rows = [("name", "also"), *((node.name, ", ".join(node.aliases)) for node in self.nodes.values())]
        head, *lines = text_table(rows).splitlines()
        return "\n".join([head, "-" * len(head), *lines])

    def __str__(self) -> str:
        head = f"TensorGraph of {self.model_class}: {len(self.nodes)} tensors, {len(self.constants)} weights"
        return f"{head}\n{self.table()}"

    def __repr__(self) -> str:
        return f"<TensorGraph {self.model_class} {len(self.nodes)} tensors>"


def _checksum(tensor: Tensor) -> int:
    """Of the content; ten times as fast as a digest that one may not forge."""
    return zlib.crc32(raw_bytes(tensor)) if tensor.numel() else 0


def own_tensor(model: object, path: str) -> Tensor | None:
    """What a model holds under a qualified name; not what a property or a parametrization works out."""
    for name in path.split("."):
        parts = vars(model) if isinstance(model, torch.nn.Module) else {}
        registered = (parts.get(kind, {}) for kind in ("_modules", "_parameters", "_buffers"))
        model = next((own[name] for own in registered if name in own), parts.get(name))
    return model if isinstance(model, Tensor) else None


def check_input(graph: TensorGraph, x: Tensor) -> None:
    """Shape, dtype, device and finiteness of a batch of inputs; and that the model's weights are the captured ones."""
    sizes = graph.input.shape[1:]
    shape = "(B, " + ", ".join(map(str, sizes)) + ")"
    if not isinstance(x, Tensor):
        raise QueryError(f"a tensor of shape {shape}", type(x).__name__, "Convert it with torch.as_tensor.")
    if x.dim() != len(sizes) + 1 or tuple(x.shape[1:]) != sizes or len(x) == 0:
        raise QueryError(f"inputs of shape {shape}", str(tuple(x.shape)), "Capture fixes every size but the batch.")
    if x.layout != torch.strided or x.is_meta:
        raise QueryError("dense inputs with data", f"{x.layout} on {x.device}", "Make them dense: x.to_dense().")
    if x.dtype != graph.input.dtype:
        raise QueryError(
            f"inputs of dtype {graph.input.dtype}", str(x.dtype), "Convert them yourself; nothing is cast."
        )
    if x.device != graph.device:
        raise QueryError(f"inputs on {graph.device}", str(x.device), "Move them to the model's device.")
    if not torch.isfinite(x).all():
        raise QueryError("finite inputs", "NaN or infinity", "Clean or drop the affected samples.")
    graph.check_weights()


def text_table(rows: Sequence[Sequence[str]], align: str | None = None) -> str:
    """Aligned columns for a terminal; ``align`` has one sign per column, ``<`` (left, as all without it) or ``>``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = [f"{side}{width}" for side, width in zip(align or "<" * len(widths), widths, strict=True)]
    return "\n".join("  ".join(map(format, row, columns)).rstrip() for row in rows)
