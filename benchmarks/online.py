"""Online inversion against the paper's way, against the floor without maps, and against iterative preimage search."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

import sgfi
from benchmarks.common import parser, table, write
from sgfi.graph import Linearisation

MODELS = {
    "resnet18": ("torchvision", 224),
    "vit_tiny_patch16_224": ("timm", 224),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=list(MODELS))
    options.add_argument("--batches", nargs="+", type=int, default=[8, 1])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    rows, results = [], []
    for name in given.models:
        model, size = build(name)
        plan = sgfi.plan(sgfi.capture(model, torch.randn(2, 3, size, size)))
        family = sgfi.calibrate(plan, [torch.randn(4, 3, size, size)], progress=True)
        paper = PaperWay(family)
        for batch in given.batches:
            x = torch.randn(batch, 3, size, size)
            difference = float((paper.invert(x) - sgfi.invert(family, x).value).norm() / paper.invert(x).norm())
            ways = {
                "ours": partial(sgfi.invert, family, x),
                "paper": partial(paper.invert, x),
                "floor": partial(floor, plan, x),
                "step": partial(preimage_step, plan, x),
            }
            seconds = timed(ways, given.repeats)
            found = {
                "model": name,
                "batch": batch,
                "seconds": seconds,
                "relative_difference": difference,
                "times_faster_than_paper": seconds["paper"] / seconds["ours"],
                "times_the_floor": seconds["ours"] / seconds["floor"],
                "times_faster_than_2000_steps": 2000 * seconds["step"] / seconds["ours"],
            }
            results.append(found)
            rows.append([name, batch, *(found[key] for key in found if key.startswith("times"))])
    head = ["model", "batch", "faster than the paper's way", "times the floor", "faster than 2,000 preimage steps"]
    write("online", {**vars(given), "results": results}, table(head, rows))


def build(name: str) -> tuple[torch.nn.Module, int]:
    torch.manual_seed(0)
    library, size = MODELS[name]
    if library == "torchvision":
        import torchvision

        return torchvision.models.get_model(name).eval(), size
    import timm

    return timm.create_model(name).eval(), size


def timed(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each way, taken in turns so that a busy machine is busy for all of them."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if turn:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in taken.items()}


class PaperWay:
    """One retained graph over all boundaries, JVPs by double backward, every bin its own copy of the gain."""

    def __init__(self, family: sgfi.MapFamily) -> None:
        self.plan, self.family = family.plan, family
        names = tuple(name for name in family.plan.boundaries if name != "input")
        self.forward, self.names = family.plan.graph.program(("input",), names), names
        self.gains = {
            name: [one.weights["gain"][one.partition.groups] for one in maps] for name, maps in family.maps.items()
        }

    def invert(self, x: Tensor) -> Tensor:
        plan = self.plan
        leaf = x.clone().requires_grad_()
        found = dict(zip(self.names, self.forward(leaf), strict=True)) | {"input": leaf}
        states = {plan.target: found[plan.target].detach()}
        for name in reversed(plan.fitted):
            children = [found[child] for child in plan.children(name)]
            below = [states[child] for child in plan.children(name)]
            seeds = [y / plan.boundary[u].channels for y, u in zip(below, plan.children(name), strict=True)]
            y = self.apply(name, 0, _vjp(children, found[name], seeds))
            residual = [state - pushed for state, pushed in zip(below, _jvp(children, found[name], y), strict=True)]
            states[name] = y + self.apply(name, 1, _vjp(children, found[name], residual))
        return states["input"]

    def apply(self, name: str, stage: int, source: Tensor) -> Tensor:
        basis = self.plan.boundary[name].basis
        first = source.movedim(basis.channel_axis, 1)  # (B, C, d...)
        axes = tuple(range(2, first.dim()))
        spectrum = torch.fft.rfftn(first, dim=axes, norm="ortho")
        mixed = torch.einsum("fdc,bcf->bdf", self.gains[name][stage], spectrum.flatten(2)).reshape(spectrum.shape)
        back = torch.fft.irfftn(mixed, s=first.shape[2:], dim=axes, norm="ortho")
        return back.movedim(1, basis.channel_axis)


def _vjp(outputs: list[Tensor], source: Tensor, cotangents: list[Tensor]) -> Tensor:
    return torch.autograd.grad(outputs, source, cotangents, retain_graph=True)[0]


def _jvp(outputs: list[Tensor], source: Tensor, tangent: Tensor) -> tuple[Tensor, ...]:
    probes = [torch.zeros_like(output, requires_grad=True) for output in outputs]
    (pulled,) = torch.autograd.grad(outputs, source, probes, create_graph=True, retain_graph=True)
    return torch.autograd.grad(pulled, probes, tangent, retain_graph=True)


@torch.no_grad()
def floor(plan: sgfi.Plan, x: Tensor) -> None:
    """One forward, two VJPs and one JVP of every segment; no maps."""
    point = Linearisation(plan.graph, plan.dag.frontiers, x)
    for name in reversed(plan.fitted):
        local = point.at(name)
        pulled = local.vjp([point.values[child] for child in plan.children(name)])
        local.vjp(local.jvp(pulled))
        point.release(name)


def preimage_step(plan: sgfi.Plan, x: Tensor) -> None:
    """One step of iterative search: forward to the target and a gradient at the input (the optimiser left out)."""
    leaf = x.clone().requires_grad_()
    (state,) = plan.graph.program(("input",), (plan.target,))(leaf)
    torch.autograd.grad(state.square().sum(), leaf)


if __name__ == "__main__":
    main()
