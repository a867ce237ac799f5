"""The exported program behind a tensor graph, and pieces of it as plain callables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock

import torch
from torch import Tensor, fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from sgfi.errors import QueryError, first_line
from sgfi.graph.attention import kernel
from sgfi.graph.values import is_symbolic, value


@dataclass(frozen=True, eq=False)
class Exported:
    """What ``torch.export`` recorded: fx nodes, reached by the names of the tensors they make."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    tensors: Mapping[str, fx.Node] = field(default_factory=dict)
    """Every named tensor's node."""
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights and buffers by fx placeholder name."""
    outputs: tuple[fx.Node | None, ...] = ()
    """For every leaf of what the model returns, the node that makes it; ``None`` for plain values."""
    sides: Mapping[str, str] = field(default_factory=dict)
    """Names of the side inputs by fx placeholder name."""
    onload: torch.device | None = None
    """Where constants are brought when they are read, where they are kept elsewhere."""
    most: int | None = None
    """The largest batch that the graph is the model's own computation for, where the model has such a bound."""

    def weight(self, name: str) -> Tensor:
        """A constant by placeholder name, on the device."""
        return self.constants[name] if self.onload is None else self.constants[name].to(self.onload)

    def check_batch(self, size: int) -> None:
        """A batch that the model computes in another way is an error."""
        if self.most is not None and size > self.most:
            raise QueryError(
                f"at most {self.most} inputs at once: from there on the model takes another way",
                str(size),
                "Ask about fewer at a time.",
            )

    @cached_property
    def names(self) -> dict[fx.Node, str]:
        """The name of the tensor that a node makes, where it has one."""
        return {node: name for name, node in self.tensors.items()}


class DerivableKernels:
    """Attention by the plain kernel while a model is traced, as :func:`sgfi.graph.attention.plain_attention` runs it.

    torch keeps this choice for the whole process, which is why nothing but tracing makes it. The first thread to enter
    makes it, the last to leave takes it back, both in one context, since torch remembers part of it there.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._choice, self._context = Lock(), 0, ExitStack(), copy_context()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._context.run(self._choice.enter_context, sdpa_kernel(SDPBackend.MATH))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._context.run(self._choice.close)


derivable_kernels = DerivableKernels()


@contextmanager
def full_precision() -> Iterator[None]:
    """A caller's ``torch.autocast`` would round what we compute: it is off inside."""
    with ExitStack() as off:
        for device in ("cpu", "cuda", "mps", "xpu"):
            if torch.is_autocast_enabled(device):
                off.enter_context(torch.autocast(device, enabled=False))
        yield


@contextmanager
def indices_in_range(exported: Exported) -> Iterator[None]:
    """Kernels complain of an index that a table does not have; where side inputs bring indices, so do we."""
    try:
        yield
    except (IndexError, RuntimeError) as error:
        if not exported.sides or not re.search("index.* out of (range|bounds)", str(error)):
            raise
        raise QueryError(
            f"side inputs {list(exported.sides.values())} with indices that the model has",
            first_line(error),
            "Check token ids, positions and labels.",
        ) from error


class SideInputs:
    """Values of side inputs, by fx placeholder name: one sample's, which holds for any batch, or one of each sample."""

    def __init__(self, names: Mapping[str, str], values: Mapping[str, Tensor] | None = None) -> None:
        self._names, self.values = names, dict(values or {})

    def at(self, placeholder: str, batch: int) -> Tensor:
        """(batch, ...)"""
        if placeholder not in self.values:
            name = self._names[placeholder]
            raise QueryError(
                f"the side input {name!r} that belongs to the input",
                "none",
                f"Pass both by name, as at capture, or bind it first: graph.bind({{{name!r}: tensor}}).",
            )
        value = self.values[placeholder]
        if len(value) not in (1, batch):
            raise QueryError(
                f"side inputs {self._names[placeholder]!r} of one sample, or of each of {batch}",
                str(len(value)),
                "Bind those of one sample, or give them with their inputs.",
            )
        return value if len(value) == batch else value.expand(batch, *value.shape[1:])


class Program:
    """A pure callable from a few tensors to a few tensors of the captured graph."""

    def __init__(
        self, module: fx.GraphModule, exported: Exported, reads: tuple[str, ...] = (), sides: SideInputs | None = None
    ) -> None:
        self._forward = module.forward if exported.onload is None else Onloading(module, exported).run
        self._module, self._exported = module, exported
        self.reads, self._sides = reads, sides
        """Placeholders of the side inputs that it reads."""

    def bound(self, sides: SideInputs) -> Program:
        """The same computation with the values of side inputs."""
        return Program(self._module, self._exported, self.reads, sides) if self.reads else self

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        inputs = tuple(own.contiguous() for own in inputs)  # a forward's own call of it is not traced
        self._exported.check_batch(len(inputs[0]))
        with full_precision(), indices_in_range(self._exported):
            if not self.reads:
                return self._forward(*inputs)
            assert self._sides is not None
            return self._forward(*inputs, *(self._sides.at(name, len(inputs[0])) for name in self.reads))


class Onloading(fx.Interpreter):
    """A piece run op by op: a weight is fetched when the first op reads it, and let go after the last."""

    def __init__(self, module: fx.GraphModule, exported: Exported) -> None:
        super().__init__(module)
        self._exported = exported

    def fetch_attr(self, target: str) -> Tensor:
        return self._exported.weight(target)


def extract(exported: Exported, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Program:
    """The computation from ``inputs`` to ``outputs``; everything it needs must follow from the inputs and weights."""
    tensors = exported.tensors
    sources = [tensors[name] for name in inputs]
    wanted = [tensors[name] for name in outputs]
    piece = fx.Graph()
    made: dict[fx.Node, fx.Node] = {node: piece.placeholder(f"in_{i}") for i, node in enumerate(sources)}
    holder, nodes = torch.nn.Module(), needed(exported, set(sources), wanted)
    sides = [node for node in nodes if node.name in exported.sides]
    made |= {node: piece.placeholder(node.name) for node in sides}
    for node in nodes:
        if node in made:
            continue
        if node.name in exported.constants:
            held = exported.constants[node.name] if exported.onload is None else None
            holder.register_buffer(node.name, held, persistent=False)
            copy = piece.get_attr(node.name)
        elif reads_batch(exported, node):
            copy = piece.call_function(torch.ops.aten.sym_size.int, (made[sources[0]], 0))
        else:
            copy = piece.node_copy(node, lambda old: made[old])
            copy.target = kernel(node.target) if node.op == "call_function" else node.target
        made[node] = copy
    piece.output(tuple(made[node] for node in wanted))
    return Program(fx.GraphModule(holder, piece), exported, tuple(node.name for node in sides))


def reads_batch(exported: Exported, node: fx.Node) -> bool:
    """Whether a node is the bare batch size: any input of a piece has it."""
    batch = value(exported.tensors["input"]).shape[0]  # type: ignore[attr-defined]
    return is_symbolic(node) and node.target is torch.ops.aten.sym_size.int and str(value(node)) == str(batch)


def needed(exported: Exported, sources: set[fx.Node], wanted: list[fx.Node]) -> list[fx.Node]:
    """The nodes between the sources and the wanted ones, in topological order, weights just before their readers."""
    between, stack = set(), list(wanted)
    while stack:
        node = stack.pop()
        if node in between or node in sources:
            continue
        between.add(node)
        if not reads_batch(exported, node):
            stack.extend(node.all_input_nodes)
    order: dict[fx.Node, None] = {}
    for node in exported.graph.nodes:
        if node in between and node.name not in exported.constants:
            order.update(dict.fromkeys(read for read in node.all_input_nodes if read.name in exported.constants))
            order[node] = None
    return [node for node in order if node in between]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The order in which the model computes some tensors from others, op by op."""

    nodes: tuple[fx.Node, ...]
    batch: frozenset[fx.Node]
    """Nodes that are the bare batch size."""
    done: dict[fx.Node, tuple[fx.Node, ...]]
    """Nodes whose values nobody reads after a node."""

    @classmethod
    def of(cls, exported: Exported, outputs: tuple[str, ...], known: tuple[str, ...]) -> Schedule:
        sources, wanted = ([exported.tensors[name] for name in names] for names in (known, outputs))
        nodes = needed(exported, set(sources), wanted)
        batch = frozenset(node for node in nodes if reads_batch(exported, node))
        last = {read: node for node in nodes if node not in batch for read in node.all_input_nodes}
        done: dict[fx.Node, list[fx.Node]] = {}
        for read, reader in last.items():
            done.setdefault(reader, []).append(read)
        return cls(tuple(nodes), batch, {node: tuple(read) for node, read in done.items()})
