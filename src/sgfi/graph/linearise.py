"""One forward pass of an input, with the derivatives of every local map at hand."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from sgfi.graph.segments import Segment
from sgfi.graph.tensor_graph import TensorGraph


@dataclass
class LocalMap:
    """A segment at one forward point: VJP and JVP of ``f_{u<-v,x}``.

    Law: ``<J t, c> = <t, J* c>`` for every tangent t at the source and cotangents c at the frontier.
    Tangents and cotangents may carry one more leading axis, ``(Q, B, ...)``: Q of them through one pass.
    """

    segment: Segment
    source: Tensor
    """(B, ...) the leaf H_v."""
    outputs: tuple[Tensor, ...]
    """(B, ...) the frontier's values, each with its graph back to ``source``."""
    externals: tuple[Tensor, ...]

    def vjp(self, cotangents: Sequence[Tensor]) -> Tensor:
        """``sum_u J_{u<-v}* c_u``, of the shape of ``H_v``."""
        stacked = cotangents[0].dim() > self.outputs[0].dim()
        if not any(output.requires_grad for output in self.outputs):  # the local map is constant
            return self.source.new_zeros(
                cotangents[0].shape[: cotangents[0].dim() - self.outputs[0].dim()] + self.source.shape
            )
        (pulled,) = torch.autograd.grad(
            self.outputs,
            self.source,
            tuple(cotangents),
            retain_graph=True,
            materialize_grads=True,
            is_grads_batched=stacked,
        )
        return pulled

    def jvp(self, tangent: Tensor) -> tuple[Tensor, ...]:
        """``J_{u<-v} t`` for every u of the frontier. Forward mode first; remembers where it has no rule."""
        if self.segment.route != "reverse":
            try:
                pushed = self._forward_mode(tangent)
                self.segment.route = "forward"
                return pushed
            except (NotImplementedError, RuntimeError) as error:
                if self.segment.route == "forward" or not _lacks_rule(error):
                    raise
                self.segment.route = "reverse"
        return self._double_backward(tangent)

    def _forward_mode(self, tangent: Tensor) -> tuple[Tensor, ...]:
        _load_forward_rules()
        program, held, point = self.segment.program, self.externals, self.source.detach()
        with torch.no_grad():
            if tangent.dim() > point.dim():
                push = lambda one: torch.func.jvp(lambda h: program(h, *held), (point,), (one,))[1]  # noqa: E731
                return torch.func.vmap(push)(tangent)
            with forward_ad.dual_level():
                duals = program(forward_ad.make_dual(point, tangent), *held)
                tangents = [forward_ad.unpack_dual(dual).tangent for dual in duals]
                return tuple(
                    torch.zeros_like(dual) if found is None else found
                    for dual, found in zip(duals, tangents, strict=True)
                )

    def _double_backward(self, tangent: Tensor) -> tuple[Tensor, ...]:
        """The VJP is linear in its cotangent; its own VJP is the JVP."""
        probes = tuple(torch.zeros_like(output, requires_grad=True) for output in self.outputs)
        with torch.enable_grad():
            (pulled,) = torch.autograd.grad(
                self.outputs, self.source, probes, create_graph=True, materialize_grads=True
            )
            if not pulled.requires_grad:  # the local map is constant
                stack = tangent.shape[: tangent.dim() - self.source.dim()]
                return tuple(output.new_zeros(stack + output.shape) for output in self.outputs)
            return torch.autograd.grad(
                pulled,
                probes,
                tangent,
                materialize_grads=True,
                is_grads_batched=tangent.dim() > self.source.dim(),
            )


def _leaf(x: Tensor) -> Tensor:
    """``x`` without its past; a copy where it comes from inference mode, whose tensors take part in no derivative."""
    return x.clone() if x.is_inference() else x.detach()


@cache
def _load_forward_rules() -> None:
    """torch compiles some forward rules on first use and warns of its own old compiler: not the user's affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _lacks_rule(error: Exception) -> bool:
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "forward ad" in text or "forward-mode" in text or "jvp" in text


class Linearisation:
    """The model's forward at ``x``, cut at boundaries so that one pass serves every local map.

    ``frontiers`` maps each source to its children. Where another boundary lies strictly between a source and its
    frontier, cutting there would lose a path; that segment is run again by itself, uncut.
    """

    def __init__(
        self, graph: TensorGraph, frontiers: Mapping[str, Sequence[str]], x: Tensor, keep: Iterable[str] = ()
    ) -> None:
        self._segments = {source: graph.segment(source, children) for source, children in frontiers.items()}
        children = {child for found in frontiers.values() for child in found}
        cuts = {name: name in frontiers for name in [*frontiers, *children] if name != "input"}
        self._private = {name for name, segment in self._segments.items() if segment.interior & set(cuts)}
        externals = {name for segment in self._segments.values() for name in segment.externals}
        wanted = [name for name in graph.nodes if name in children | set(frontiers) | externals | set(keep)]
        wanted = [name for name in wanted if name != "input"]
        cuts = {name: cuts[name] for name in wanted if name in cuts}

        self._readers = Counter(child for found in frontiers.values() for child in found)

        leaf = _leaf(x).requires_grad_("input" in frontiers)
        with torch.enable_grad():
            found = graph.program(("input",), tuple(wanted), cuts)(leaf)
        self._before = dict(zip(wanted, found[: len(wanted)], strict=True)) | {"input": leaf}
        self._after = self._before | dict(zip(cuts, found[len(wanted) :], strict=True))
        self.values = {name: tensor.detach() for name, tensor in self._after.items()}
        """H of every boundary and of every tensor asked for with ``keep``."""

    def at(self, source: str) -> LocalMap:
        """The local map of one boundary at this input."""
        segment = self._segments[source]
        held = tuple(self.values[name] for name in segment.externals)
        if source not in self._private:
            outputs = tuple(self._before[name] for name in segment.outputs)
            return LocalMap(segment, self._after[source], outputs, held)
        leaf = self.values[source].detach().requires_grad_()
        with torch.enable_grad():
            return LocalMap(segment, leaf, segment.program(leaf, *held), held)

    def release(self, source: str) -> None:
        """Let go of the graph behind a source's frontier once its last derivative is taken."""
        for name in self._segments[source].outputs:
            self._readers[name] -= 1
            if not self._readers[name]:
                self._before.pop(name, None)


def backpropagate(
    graph: TensorGraph, target: str, names: Sequence[str], x: Tensor, cotangent: Tensor
) -> dict[str, Tensor]:
    """Ordinary backpropagation of a cotangent at ``target`` to each of ``names`` and the input."""
    inner = tuple(name for name in names if name not in ("input", target))
    leaf = _leaf(x).requires_grad_()
    with torch.enable_grad():
        state, *found = graph.program(("input",), (target, *inner))(leaf)
        pulled = torch.autograd.grad(
            state,
            [leaf, *found],
            cotangent,
            materialize_grads=True,
            is_grads_batched=cotangent.dim() > state.dim(),
        )
    return dict(zip(("input", *inner), pulled, strict=True))
