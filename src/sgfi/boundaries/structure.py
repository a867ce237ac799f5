"""Structural questions to a tensor graph: residual sums, joins, blocks, the trunk, the final norm.

Recipes ask these instead of matching names, so that one recipe serves every depth and width of a family, and models
nobody wrote a recipe for are read from their graph alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sgfi.graph import Node, TensorGraph
from sgfi.graph.names import ModuleCall, calls, outputs
from sgfi.graph.values import value

NORMS = frozenset("batch_norm layer_norm group_norm instance_norm rms_norm fused_rms_norm".split())
CONVOLUTIONS = frozenset("conv1d conv2d conv3d convolution conv_transpose1d conv_transpose2d conv_transpose3d".split())
LAYERS = CONVOLUTIONS | frozenset("linear addmm bilinear lstm gru".split())
PRODUCTS = frozenset("matmul mm bmm".split())
ACTIVATIONS = frozenset(
    "relu relu6 hardtanh clamp silu gelu hardswish hardsigmoid sigmoid tanh elu selu celu leaky_relu mish "
    "softplus prelu".split()
)
POOLS = frozenset("max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d".split())
GLOBAL_POOLS = frozenset(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d mean amax sum logsumexp".split()
)


@dataclass(frozen=True)
class Block:
    """One call of one module."""

    path: str
    kind: str
    """Class name of the module, without its package."""
    tensors: tuple[str, ...]
    """Everything made inside, in topological order."""
    output: str | None
    """The tensor it returns; None when several leave."""


class Structure:
    """What stands where in one graph. Answers are canonical names in topological order.

    ``order`` gives every tensor's position; ``usable`` are the tensors with a channel axis: the possible boundaries.
    """

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.order = {name: position for position, name in enumerate(graph.nodes)}
        self.usable = tuple(name for name, node in graph.nodes.items() if node.channel_axis is not None)

    def node(self, name: str) -> Node:
        return self.graph.nodes[name]

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        return {name: self.graph.parents(name) for name in self.order}

    @cached_property
    def readers(self) -> dict[str, tuple[str, ...]]:
        readers: dict[str, list[str]] = {name: [] for name in self.order}
        for name, read in self.parents.items():
            for parent in read:
                readers[parent].append(name)
        return {name: tuple(names) for name, names in readers.items()}

    # Modules.

    @cached_property
    def _modules(self) -> tuple[Block, ...]:
        """Every module call that makes a tensor, the root first."""
        kinds: dict[ModuleCall, str] = {}
        inside: dict[ModuleCall, list[str]] = {}
        for name in self.order:
            tensor = self.graph.exported.tensors[name]
            stack = (tensor.meta.get("nn_module_stack") or {}).values()
            kind = {path: str(full).rpartition(".")[2] for path, full in stack}
            for call in calls(tensor):
                kinds[call] = kind[call.path]
                inside.setdefault(call, []).append(name)
        root = Block("", self.graph.model_class.rpartition(".")[2], tuple(self.order), None)
        return root, *(Block(c.path, kinds[c], tuple(inside[c]), self._returned.get(c)) for c in kinds)

    @cached_property
    def _returned(self) -> dict[ModuleCall, str]:
        names = {tensor: name for name, tensor in self.graph.exported.tensors.items()}
        returned = outputs(self.graph.exported.tensors.values())
        return {call: names[tensor] for tensor, made_by in returned.items() for call in made_by}

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Class names of the model and of all its modules that make a tensor, without packages."""
        return frozenset(block.kind for block in self._modules)

    def blocks(self, *kinds: str) -> tuple[Block, ...]:
        """The calls of modules of these classes, in the order of the computation."""
        return tuple(block for block in self._modules if block.kind in kinds)

    def block_outputs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the tensors that some module returns."""
        returned = set(self._returned.values())
        return tuple(name for name in names if name in returned)

    def block_input(self, block: Block) -> str:
        """The tensor a block works on: the last one made outside that the inside reads."""
        inside = set(block.tensors)
        return self._latest({parent for name in inside for parent in self.parents[name]} - inside)

    # Paths.

    def _upstream(self, name: str) -> frozenset[str]:
        return self.graph.ancestors(name) | {name}

    def _latest(self, names: Iterable[str]) -> str:
        return max(names, key=self.order.__getitem__)

    def common_source(self, names: Iterable[str]) -> str:
        """The deepest tensor on which all of them depend (or which is one of them)."""
        return self._latest(frozenset.intersection(*(self._upstream(name) for name in names)))

    def between(self, source: str, sink: str) -> tuple[str, ...]:
        """Tensors on paths from ``source`` (left out) to ``sink`` (included)."""
        between = [name for name in self._upstream(sink) if source in self.graph.ancestors(name)]
        return tuple(sorted(between, key=self.order.__getitem__))

    def trunk(self, sink: str) -> tuple[str, ...]:
        """The tensors that every path from the input to ``sink`` passes through, both ends included."""
        line = sorted(self._upstream(sink), key=self.order.__getitem__)
        position = {name: index for index, name in enumerate(line)}
        trunk, reach = [], 0
        for index, name in enumerate(line):
            if reach <= index:  # no edge jumps over this tensor
                trunk.append(name)
            reach = max([reach, *(position[reader] for reader in self.readers[name] if reader in position)])
        return tuple(trunk)

    # Kinds of tensors.

    def is_layer(self, name: str) -> bool:
        """A convolution, a linear layer, or a product with something that does not depend on the input."""
        op = self.node(name).op
        return op in LAYERS or (op in PRODUCTS and len(self.parents[name]) == 1)

    @cached_property
    def largest_kernel(self) -> int:
        """The longest side of any convolution's kernel; 0 without convolutions."""
        weights = [
            self.graph.exported.tensors[name].args[1] for name in self.order if self.node(name).op in CONVOLUTIONS
        ]
        return max((size for weight in weights for size in value(weight).shape[2:]), default=0)  # type: ignore

    def spatial(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those with coordinate axes, if any has."""
        names = tuple(names)
        return tuple(name for name in names if self.node(name).coord_axes) or names

    def laid_out(self, name: str) -> str:
        """The reshape through which alone a tensor is read, if it lays the same channels out on more axes.

        timm's Swin adds on tokens ``(B, H*W, C)`` and hands on ``(B, H, W, C)``: the map has the meaningful spectrum.
        """
        if len(self.readers[name]) != 1 or self.node(self.readers[name][0]).op not in ("view", "reshape"):
            return name
        tokens, layout = self.node(name), self.node(self.readers[name][0])
        finer = layout.channels == tokens.channels and len(layout.coord_axes) > len(tokens.coord_axes)
        return layout.name if finer else name

    def is_parametric(self, name: str) -> bool:
        return self.is_layer(name) or self.node(name).op in NORMS

    def normed(self, layer: str) -> str:
        """The norm that alone reads a layer's output, else the layer's output itself."""
        readers = self.readers[layer]
        return readers[0] if len(readers) == 1 and self.node(readers[0]).op in NORMS else layer

    def separated(self, source: str, sink: str) -> bool:
        """Whether a parametric layer stands between two tensors, or no path does."""
        steps = self.between(source, sink)
        return not steps or any(self.is_parametric(step) for step in steps)

    # Joins.

    @cached_property
    def residual_adds(self) -> tuple[str, ...]:
        """Sums of two branches of one source, with a parametric layer on at least one of them.

        Both operands have the shape of the sum and depend on the input, so biases, position embeddings and
        attention masks do not count, nor does ``x + 0.0447 x^3`` inside a tanh-GELU or a rotary embedding
        (no layer between source and sum), nor the sum of two pooled descriptors inside a channel gate. A
        sum that only another residual sum reads is a term of the longer sum, not a boundary of its own. Sums
        without coordinates (two classifier heads averaged, say) are left out where others have them.
        """
        sums = [name for name in self.usable if self.node(name).op == "add" and self._joins_branches(name, 2)]
        whole = [name for name in sums if not (len(self.readers[name]) == 1 and self.readers[name][0] in sums)]
        return self.spatial(whole)

    @cached_property
    def concatenations(self) -> tuple[str, ...]:
        """Concatenations of two or more branches of one source, with a parametric layer on at least one."""
        return tuple(name for name in self.usable if self.node(name).op == "cat" and self._joins_branches(name))

    def _joins_branches(self, name: str, exactly: int | None = None) -> bool:
        operands = self.parents[name]
        if len(operands) < 2 or (exactly is not None and len(operands) != exactly):
            return False
        shape = self.node(name).shape
        if exactly is not None and any(self.node(operand).shape != shape for operand in operands):
            return False
        source = self.common_source(operands)
        branches = [self.between(source, operand) for operand in operands]
        if all(any(self.node(step).op in GLOBAL_POOLS for step in branch) for branch in branches):
            return False
        return any(self.is_parametric(step) for branch in branches for step in branch)

    def join_source(self, name: str) -> str:
        """Where the branches of a sum or a concatenation part: the input of its block."""
        return self.common_source(self.parents[name])

    def final_norm(self, after: str) -> str | None:
        """The norm that follows a tensor, with the tensor's shape and no layer between."""
        shape = self.node(after).shape
        norm_modules = {block.output for block in self._modules if "norm" in block.kind.lower()}
        for name, position in self.order.items():
            if position <= self.order[after] or after not in self.graph.ancestors(name):
                continue
            if self.is_layer(name):
                return None
            if (self.node(name).op in NORMS or name in norm_modules) and self.node(name).shape == shape:
                return name
        return None
