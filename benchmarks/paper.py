"""The paper's way, written plainly: autograd over one retained graph, JVPs by double backward, a gain for every bin.

What the other benchmarks compare with. Its answers are checked against the package's before anything is timed.
"""

from __future__ import annotations

import torch
from torch import Tensor

import sgfi
from sgfi.graph.programs import Program
from sgfi.spectral import Basis

Gains = dict[str, list[Tensor]]
"""By node: a (F, C, C) gain for each stage."""


class PaperWay:
    """Calibration and inversion of one plan as the paper's algorithms say."""

    def __init__(self, plan: sgfi.Plan) -> None:
        self.plan = plan
        self._names = tuple(name for name in plan.boundaries if name != "input")
        self._forward: Program = plan.graph.program(("input",), self._names)

    def gains(self, family: sgfi.MapFamily) -> Gains:
        """A fitted family's maps, each group's gain copied to all of its bins."""
        return {
            name: [wiener.weights["gain"][wiener.partition.groups] for wiener in maps]
            for name, maps in family.maps.items()
        }

    def invert(self, gains: Gains, x: Tensor) -> Tensor:
        values = self._states(x)
        states = {self.plan.target: values[self.plan.target].detach()}
        for name in reversed(self.plan.fitted):
            children = [values[child] for child in self.plan.children(name)]
            states[name] = self._repair(
                name, values[name], children, [states[u] for u in self.plan.children(name)], gains
            )
        return states["input"]

    def calibrate(self, batches: list[Tensor], ridge: float, *, shared: bool) -> Gains:
        """Node after node, each with forward passes of its own; ``shared`` gives all nodes the benefit of one."""
        gains: Gains = {name: [] for name in self.plan.fitted}
        for _ in range(2):
            for nodes in [self.plan.fitted] if shared else [(name,) for name in self.plan.fitted]:
                for name, moments in self._accumulated(nodes, batches, gains).items():
                    gains[name].append(solved(*moments, sum(map(len, batches)), ridge))
        return gains

    def _accumulated(
        self, nodes: tuple[str, ...], batches: list[Tensor], gains: Gains
    ) -> dict[str, tuple[Tensor, Tensor]]:
        sums: dict[str, tuple[Tensor, Tensor]] = {}
        for x in batches:
            values = self._states(x)
            for name in nodes:
                children = [values[child] for child in self.plan.children(name)]
                states = [child.detach() for child in children]
                y = self._repair(name, values[name], children, states, gains, stages=1) if gains[name] else None
                source = self._source(name, values[name], children, states, y)
                target = values[name].detach() if y is None else values[name].detach() - y
                read, wanted = (spectrum(self.plan.boundary[name].basis, part).flatten(2) for part in (source, target))
                xx = torch.einsum("bcf,bdf->fcd", read, read.conj())
                yx = torch.einsum("bcf,bdf->fcd", wanted, read.conj())
                sums[name] = (sums[name][0] + xx, sums[name][1] + yx) if name in sums else (xx, yx)
        return sums

    def _states(self, x: Tensor) -> dict[str, Tensor]:
        with torch.enable_grad():
            leaf = x.clone().requires_grad_()
            return dict(zip(self._names, self._forward(leaf), strict=True)) | {"input": leaf}

    def _source(self, name: str, at: Tensor, children: list[Tensor], states: list[Tensor], y: Tensor | None) -> Tensor:
        if y is not None:
            return _vjp(children, at, [s - pushed for s, pushed in zip(states, _jvp(children, at, y), strict=True)])
        sizes = [self.plan.boundary[child].channels for child in self.plan.children(name)]
        return _vjp(children, at, [state / size for state, size in zip(states, sizes, strict=True)])

    def _repair(
        self, name: str, at: Tensor, children: list[Tensor], states: list[Tensor], gains: Gains, stages: int = 2
    ) -> Tensor:
        basis, y = self.plan.boundary[name].basis, None
        for gain in gains[name][:stages]:
            step = mapped(basis, gain, self._source(name, at, children, states, y))
            y = step if y is None else y + step
        assert y is not None
        return y


def spectrum(basis: Basis, tensor: Tensor) -> Tensor:
    """(B, C, d...) of a tensor in any axis order."""
    first = tensor.movedim(basis.channel_axis, 1)
    return torch.fft.rfftn(first, dim=tuple(range(2, first.dim())), norm="ortho")


def mapped(basis: Basis, gain: Tensor, source: Tensor) -> Tensor:
    bins = spectrum(basis, source)
    mixed = torch.einsum("fdc,bcf->bdf", gain, bins.flatten(2)).reshape(bins.shape)
    back = torch.fft.irfftn(mixed, s=basis.coords, dim=tuple(range(2, bins.dim())), norm="ortho")
    return back.movedim(1, basis.channel_axis)


def solved(xx: Tensor, yx: Tensor, samples: int, ridge: float) -> Tensor:
    """``S_YX (S_XX + lambda I)^-1`` of every bin at once, in double precision."""
    dtype = xx.dtype
    xx, yx = (moment.to(torch.complex128) / samples for moment in (xx, yx))
    diagonal = torch.diagonal(xx, dim1=1, dim2=2)
    diagonal += ridge * diagonal.real.mean()
    return torch.linalg.solve(xx, yx, left=False).to(dtype)


def _vjp(outputs: list[Tensor], source: Tensor, cotangents: list[Tensor]) -> Tensor:
    return torch.autograd.grad(outputs, source, cotangents, retain_graph=True)[0]


def _jvp(outputs: list[Tensor], source: Tensor, tangent: Tensor) -> tuple[Tensor, ...]:
    probes = [torch.zeros_like(output, requires_grad=True) for output in outputs]
    (pulled,) = torch.autograd.grad(outputs, source, probes, create_graph=True, retain_graph=True)
    return torch.autograd.grad(pulled, probes, tangent, retain_graph=True)
