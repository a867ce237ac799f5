"""One forward pass of an input, with the derivatives of every local map at hand."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from sgfi.derivatives.rules import OpCall, OpDerivative, derive, item_derivative, split_derivative
from sgfi.graph.attention import kernel
from sgfi.graph.programs import indices_in_range
from sgfi.graph.segments import Segment
from sgfi.graph.tensor_graph import TensorGraph
from sgfi.graph.values import carries_derivative


@dataclass(frozen=True, eq=False)
class LocalMap:
    """A segment at one forward point: VJP and JVP of ``f_{u<-v,x}``.

    Law: ``<J t, c> = <t, J* c>`` for every tangent t at the source and cotangents c at the frontier.
    Tangents and cotangents may carry one more leading axis, ``(Q, B, ...)``: Q of them through one pass.
    """

    segment: Segment
    source: Tensor
    """(B, ...) H_v."""
    outputs: tuple[Tensor, ...]
    """(B, ...) the frontier's values."""
    externals: tuple[Tensor, ...]
    """What the segment reads that is not downstream of the source."""
    start: fx.Node
    ends: tuple[fx.Node, ...]
    derivatives: Mapping[fx.Node, OpDerivative]

    def vjp(self, cotangents: Sequence[Tensor]) -> Tensor:
        """``sum_u J_{u<-v}* c_u``, of the shape of ``H_v``."""
        return self.pull(cotangents, (self.start,))[self.start]

    def pull(self, cotangents: Sequence[Tensor], wanted: Sequence[fx.Node]) -> dict[fx.Node, Tensor]:
        """The cotangents pulled back to tensors of the segment, shallowest last."""
        stacked = cotangents[0].dim() > self.outputs[0].dim()
        flow = {end: c if stacked else c.unsqueeze(0) for end, c in zip(self.ends, cotangents, strict=True)}
        inside = {self.start, *self.segment.nodes}
        pulled: dict[fx.Node, Tensor] = {}
        for node in reversed(self.segment.nodes):
            cotangent = flow.pop(node, None)
            if cotangent is None:
                continue
            if node in wanted:
                pulled[node] = cotangent
            derivative = self.derivatives[node]
            parts = derivative.pull(cotangent, [read in inside for read in derivative.inputs])
            for read, part in zip(derivative.inputs, parts, strict=True):
                if part is not None:
                    flow[read] = flow[read] + part if read in flow else part
        count = (len(cotangents[0]) if stacked else 1, *self.source.shape)
        pulled[self.start] = flow.get(self.start, self.source.new_zeros(())).expand(count)
        return {node: tensor if stacked else tensor.squeeze(0) for node, tensor in pulled.items()}

    def jvp(self, tangent: Tensor) -> tuple[Tensor, ...]:
        """``J_{u<-v} t`` for every u of the frontier."""
        stacked = tangent.dim() > self.source.dim()
        flow = {self.start: tangent if stacked else tangent.unsqueeze(0)}
        inner = {node: self.derivatives[node] for node in self.segment.nodes if node in self.derivatives}
        readers = Counter(read for each in inner.values() for read in set(each.inputs)) + Counter(self.ends)
        for node, derivative in inner.items():
            tangents = [flow.get(read) for read in derivative.inputs]
            pushed = derivative.push(tangents) if any(t is not None for t in tangents) else None
            if pushed is not None:
                flow[node] = pushed
            for read in set(derivative.inputs):
                readers[read] -= 1
                if not readers[read]:
                    flow.pop(read, None)
        count = len(tangent) if stacked else 1
        pushed_out = [
            flow.get(end, output.new_zeros(())).expand(count, *output.shape)
            for end, output in zip(self.ends, self.outputs, strict=True)
        ]
        return tuple(t if stacked else t.squeeze(0) for t in pushed_out)


class Linearisation:
    """The model's forward at ``x``; of every op between a source and its frontier, the derivative is kept.

    ``frontiers`` maps each source to its children. One pass serves every local map: a local map is all the ops on
    paths from its source to its frontier, also where another boundary lies between them. ``known`` are values of an
    earlier forward at the same ``x``, none of them inside a segment: what only they need is not computed again.

    Where weights are kept elsewhere, several local maps would hold all of them: each is then made when it is asked for,
    by another forward of its segment, and holds the weights of that one.
    """

    def __init__(
        self,
        graph: TensorGraph,
        frontiers: Mapping[str, Sequence[str]],
        x: Tensor,
        keep: Iterable[str] = (),
        known: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._graph = graph
        self._segments = {source: graph.segment(source, children) for source, children in frontiers.items()}
        self._apart: dict[str, Linearisation] | None = {} if graph.exported.onload and len(frontiers) > 1 else None
        """Where local maps are made apart, those that are open."""
        together = self._segments.values() if self._apart is None else ()
        self._readers = Counter(node for segment in together for node in segment.nodes)
        held = {name for segment in self._segments.values() for name in (*segment.outputs, *segment.externals)}
        wanted = tuple(name for name in graph.nodes if name in held | {*frontiers, *keep} and name != "input")
        self._derivatives: dict[fx.Node, OpDerivative] = {}
        self._batch = len(x)
        graph.exported.check_batch(len(x))
        own = x.detach().clone(memory_format=torch.contiguous_format)  # the caller may write to x later
        with indices_in_range(graph.exported):
            self.values = self._forward({"input": own, **(known or {})}, wanted)
        """H of every boundary, of what segments read beside them, and of every tensor named in ``keep``."""

    @torch.no_grad()
    def _forward(self, known: dict[str, Tensor], wanted: tuple[str, ...]) -> dict[str, Tensor]:
        graph, schedule = self._graph, self._graph.schedule(wanted, tuple(known))
        tensors, names = graph.exported.tensors, graph.exported.names
        active = {node for node in self._readers if carries_derivative(node)} | {tensors[s] for s in self._segments}
        values: dict[fx.Node, Any] = {tensors[name]: value for name, value in known.items()}
        calls: dict[fx.Node, OpCall] = {}
        kept, batch = dict(known), self._batch
        for node in schedule.nodes:
            values[node] = batch if node in schedule.batch else self._value(node, values, calls, active)
            if names.get(node) in wanted:
                kept[names[node]] = values[node]
            for read in schedule.done.get(node, ()):
                values.pop(read, None)
                calls.pop(read, None)
        return kept

    def _value(
        self, node: fx.Node, values: dict[fx.Node, Any], calls: dict[fx.Node, OpCall], active: set[fx.Node]
    ) -> Any:
        """A node's value; on the way, the derivative of an op that a local map needs."""
        if node.name in self._graph.constants:
            return self._graph.exported.weight(node.name)
        if node.name in self._graph.exported.sides:
            return self._graph.side_inputs.at(node.name, self._batch)

        def look_up(argument: Any) -> Any:
            return fx.node.map_arg(argument, lambda read: values[read])

        if node not in self._readers:
            return kernel(node.target)(*look_up(node.args), **look_up(node.kwargs))
        if node.target is operator.getitem and node.args[0] in calls:
            owner, item = cast(tuple[fx.Node, int], node.args)
            if owner in self._derivatives:
                self._derivatives[node] = item_derivative(owner, item)
            elif carries_derivative(node):
                self._keep(node, self._derive(calls[owner], active, item))
            return values[owner][item]
        call = OpCall(node, look_up)
        if carries_derivative(node):
            self._keep(node, self._derive(call, active))
        elif not isinstance(node.meta.get("val"), Tensor):
            calls[node] = call
            split = split_derivative(call, active.__contains__)
            if split is not None:
                self._derivatives[node] = split
        return call.out

    def _derive(self, call: OpCall, active: set[fx.Node], item: int | None = None) -> OpDerivative:
        return derive(call, active.__contains__, item)

    def _keep(self, node: fx.Node, derivative: OpDerivative) -> None:
        self._derivatives[node] = derivative

    def at(self, source: str) -> LocalMap:
        """The local map of one boundary at this input."""
        if self._apart is not None:
            return self._alone(source).at(source)
        segment, tensors = self._segments[source], self._graph.exported.tensors
        outputs, externals = (
            tuple(self.values[name] for name in names) for names in (segment.outputs, segment.externals)
        )
        ends = tuple(tensors[name] for name in segment.outputs)
        return LocalMap(segment, self.values[source], outputs, externals, tensors[source], ends, self._derivatives)

    def _alone(self, source: str) -> Linearisation:
        """One local map at the same point."""
        assert self._apart is not None
        if source not in self._apart:
            segment = self._segments[source]
            known = {name: self.values[name] for name in (source, *segment.externals)}
            x = self.values["input"]
            self._apart[source] = Linearisation(self._graph, {source: segment.outputs}, x, known=known)
        return self._apart[source]

    def release(self, source: str) -> None:
        """Free what a local map keeps, once its last derivative is taken."""
        if self._apart is not None:
            alone = self._apart.pop(source, None)
            if alone is not None:
                alone.release(source)
            return
        for node in self._segments.pop(source).nodes:
            self._readers[node] -= 1
            if not self._readers[node]:
                self._derivatives.pop(node, None)


def backpropagate(
    graph: TensorGraph, target: str, names: Sequence[str], x: Tensor, cotangent: Tensor
) -> dict[str, Tensor]:
    """Ordinary backpropagation of a cotangent at ``target`` to each of ``names`` and the input."""
    inner = [name for name in ("input", *names) if name != target]
    point = Linearisation(graph, {"input": [target]}, x, keep=inner)
    pulled = point.at("input").pull([cotangent], [graph.exported.tensors[name] for name in inner])
    stack = cotangent.shape[: cotangent.dim() - point.values[target].dim()]
    return {
        name: pulled.get(graph.exported.tensors[name], x.new_zeros(())).expand(*stack, *point.values[name].shape)
        for name in inner
    }


@torch.no_grad()
def push_forward(graph: TensorGraph, names: Sequence[str], x: Tensor, tangent: Tensor) -> dict[str, Tensor]:
    """``J_{v<-input} t`` at each of ``names``, all of them by one JVP at ``x``."""
    inner = [name for name in names if name != "input"]
    pushed = Linearisation(graph, {"input": inner}, x).at("input").jvp(tangent) if inner else ()
    return {"input": tangent, **dict(zip(inner, pushed, strict=True))}
