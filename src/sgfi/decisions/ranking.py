"""Which channels and coordinates the decision leans on, to first order: activation times gradient of the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.decisions.readout import Decision, checked_node, margin, output_name, read
from sgfi.graph import Node, TensorGraph, check_input


@dataclass(frozen=True, eq=False)
class Contribution:
    """Activation times gradient of the top1-top2 margin at one tensor.

    Law: for a model that is linear and without bias after the tensor, the contributions of one input sum to its
    margin, and a channel's score is exactly the drop that zeroing the channel causes.
    """

    node: Node
    state: Tensor
    """(B, ...) H, the forward value."""
    gradient: Tensor
    """(B, ...) derivative of the margin with respect to H."""
    decision: Decision

    @property
    def value(self) -> Tensor:
        """(B, ...) entry by entry."""
        return self.state * self.gradient

    @property
    def channels(self) -> Tensor:
        """(B, C) ``s_c = <H_c, d margin / d H_c>``."""
        return self.value.sum(self.node.coord_axes) if self.node.coord_axes else self.value

    @property
    def coords(self) -> Tensor:
        """(B, *coordinate shape) the same, summed over channels."""
        return self.value.sum(self.node.channel_axis)

    @property
    def activation(self) -> Tensor:
        """(B, C) root mean square activation of every channel, which activation-matched controls are matched in."""
        square = self.state.square()
        return (square.mean(self.node.coord_axes) if self.node.coord_axes else square).sqrt()


@torch.inference_mode(False)
def rank(
    graph: TensorGraph, x: Tensor, nodes: Sequence[str | Node], output: str | None = None
) -> dict[str, Contribution]:
    """Contributions at several tensors from one forward and one backward pass; keys are canonical names."""
    check_input(graph, x)
    readout = output_name(graph, output)
    chosen = {node.name: node for node in (checked_node(graph, node, readout) for node in nodes)}
    names = tuple(chosen)
    inner = tuple(name for name in names if name != "input")
    leaf = (x.clone() if x.is_inference() else x.detach()).requires_grad_()
    with torch.enable_grad():
        *states, logits = graph.program(("input",), (*inner, readout))(leaf)
        decision = read(logits)
        values = dict(zip(inner, states, strict=True)) | {"input": leaf}
        total = margin(logits, decision.top, decision.second).sum()
        pulled = torch.autograd.grad(total, [values[name] for name in names], materialize_grads=True)
    return {
        name: Contribution(chosen[name], values[name].detach(), gradient, decision)
        for name, gradient in zip(names, pulled, strict=True)
    }
