"""The model's decision, and the model as a function of one of its internal tensors.

Everything runs the captured graph of the *original* model. An intervention edits a tensor's forward value and runs
the rest of the graph from there: nothing is attached to the user's model, so there is nothing to undo, and an inverse
never enters the model again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node, TensorGraph, check_input


@dataclass(frozen=True, eq=False)
class Decision:
    """Logits with the class pair that is held fixed while the representation is edited."""

    logits: Tensor
    """(B, classes)."""
    top: Tensor
    """(B,) the predicted class."""
    second: Tensor
    """(B,) the runner-up."""

    @property
    def margin(self) -> Tensor:
        """(B,) logit of the predicted class minus the runner-up's."""
        return margin(self.logits, self.top, self.second)


def margin(logits: Tensor, top: Tensor, second: Tensor) -> Tensor:
    """``z_top - z_second``: (B, classes), (B,), (B,) -> (B,)."""
    rows = torch.arange(len(logits), device=logits.device)
    return logits[rows, top] - logits[rows, second]


def read(logits: Tensor) -> Decision:
    """The decision that logits (B, classes) express."""
    if logits.dim() != 2 or logits.shape[1] < 2:
        raise QueryError(
            "logits of shape (B, classes) with two classes or more",
            str(tuple(logits.shape)),
            "Name the tensor that holds the logits with output=...",
        )
    top, second = logits.detach().topk(2, dim=1).indices.unbind(1)
    return Decision(logits.detach(), top, second)


def output_name(graph: TensorGraph, output: str | None = None) -> str:
    """The tensor that holds the logits: the one named, or the model's own (only) output."""
    if output is not None:
        return graph.nodes.canonical(output)
    names = [name for name, node in graph.exported.tensors.items() if node in graph.exported.outputs]
    if len(names) != 1:
        raise QueryError(
            "a model with one output tensor", f"{len(names)} named ones: {names}", "Name the logits with output=..."
        )
    return names[0]


def checked_node(graph: TensorGraph, node: str | Node, output: str) -> Node:
    """The node itself (an estimator's, with its settled axes) or the graph's by name, if the logits depend on it."""
    node = node if isinstance(node, Node) else graph.nodes[node]
    if node.name not in graph.ancestors(output):
        raise QueryError(
            f"a tensor upstream of the logits {output!r}", repr(node.name), "Choose one that the decision reads."
        )
    if node.channel_axis is None:
        raise QueryError(f"a channel axis for {node.name!r}", "none that could be inferred", "Choose another tensor.")
    return node


def decide(graph: TensorGraph, x: Tensor, output: str | None = None) -> Decision:
    """Predicted class, runner-up and margin of every input."""
    check_input(graph, x)
    with torch.no_grad():
        (logits,) = graph.program(("input",), (output_name(graph, output),))(x)
    return read(logits)


class Split:
    """The model cut at one tensor: its forward value at ``x``, and the logits as a pure function of it.

    Law: ``split.logits(split.state)`` equals the model's own logits. Tensors that the rest of the model reads besides
    the cut one (a residual path around it) are held at their forward values.
    """

    def __init__(self, graph: TensorGraph, x: Tensor, node: str | Node, output: str | None = None) -> None:
        check_input(graph, x)
        self.graph, self.x = graph, x.detach()
        self.output = output_name(graph, output)
        self.node = checked_node(graph, node, self.output)
        self._segment = graph.segment(self.node.name, (self.output,))
        self._held: dict[int, tuple[Tensor, ...]] = {}
        with torch.no_grad():
            state, logits = graph.program(("input",), (self.node.name, self.output))(self.x)
        self.state: Tensor = state
        """(B, ...) the forward value of the cut tensor."""
        self.decision = read(logits)

    def logits(self, state: Tensor) -> Tensor:
        """(n*B, ...) edited values, n for each input in turn (``x`` repeated n times) -> (n*B, classes)."""
        times, rest = divmod(len(state), len(self.x))
        if rest or state.shape[1:] != self.state.shape[1:]:
            raise QueryError(
                f"values of shape (n*{len(self.x)}, ...) like {tuple(self.state.shape)}",
                str(tuple(state.shape)),
                "Repeat whole batches.",
            )
        (logits,) = self._segment.program(state, *self._externals(times))
        return logits

    def _externals(self, times: int) -> tuple[Tensor, ...]:
        """What else the rest of the model reads, for ``x`` repeated; recomputed, so that any layout is right."""
        names = self._segment.externals
        if not names:
            return ()
        if times not in self._held:
            with torch.no_grad():
                repeated = self.x.repeat(times, *[1] * (self.x.dim() - 1))
                others = tuple(name for name in names if name != "input")
                values = dict(zip(others, self.graph.program(("input",), others)(repeated), strict=True))
            self._held = {times: tuple({**values, "input": repeated}[name] for name in names)}
        return self._held[times]
