"""The exported program behind a tensor graph: fx nodes, reached by the names of the tensors they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor, fx


@dataclass(frozen=True, eq=False)
class Exported:
    """What ``torch.export`` recorded, with our names."""

    graph: fx.Graph = field(default_factory=fx.Graph)
    tensors: Mapping[str, fx.Node] = field(default_factory=dict)
    """Every named tensor's node."""
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights and buffers by fx placeholder name."""

    @cached_property
    def names(self) -> dict[fx.Node, str]:
        """The name of the tensor that a node makes, where it has one."""
        return {node: name for name, node in self.tensors.items()}
