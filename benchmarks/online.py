"""Online inversion against the paper's way, against the floor without maps, and against iterative preimage search."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import parser, table, timed, write
from benchmarks.paper import PaperWay
from sgfi.derivatives import Linearisation, LocalMap
from sgfi.spectral import WienerMap

HEAD = [
    *("model", "batch", "ours (cpu s)", "faster than the paper's way", "times the floor, our derivatives"),
    *("times the floor, PyTorch's derivatives", "faster than 2,000 preimage steps"),
]
MODELS = {"resnet18": ("torchvision", 224), "vit_tiny_patch16_224": ("timm", 224)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=list(MODELS))
    options.add_argument("--batches", nargs="+", type=int, default=[8, 1])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    for name in given.models:
        results = measured(name, given.batches, given.repeats)
        rows = [
            [name, result["batch"], result["seconds"]["ours"]["cpu"], *result["ratios"].values()] for result in results
        ]
        parts = list(results[0]["profile"])
        shares = [[name, result["batch"], *(f"{result['profile'][part]:.0%}" for part in parts)] for result in results]
        text = (
            f"{table(HEAD, rows)}\n\nWhere an inversion spends its time:\n\n{table(['model', 'batch', *parts], shares)}"
        )
        write(f"online_{name}", {**vars(given), "results": results}, text)


def measured(name: str, batches: list[int], repeats: int) -> list[dict[str, Any]]:
    model, size = build(name)
    plan = sgfi.plan(sgfi.capture(model, torch.randn(2, 3, size, size)))
    family = sgfi.calibrate(plan, [torch.randn(4, 3, size, size)], progress=False)
    paper = PaperWay(plan)
    gains = paper.gains(family)
    results = []
    for batch in batches:
        x = torch.randn(batch, 3, size, size)
        expected = paper.invert(gains, x)
        difference = float((expected - sgfi.invert(family, x).value).norm() / expected.norm())
        # In double they agree to 1e-10; in single, rounding grows through a dozen nodes of random weights.
        assert difference < 0.1, f"both ways must agree, and differ by {difference}"
        seconds = timed(
            {
                "ours": partial(sgfi.invert, family, x),
                "paper": partial(paper.invert, gains, x),
                "floor": partial(floor, plan, x),
                "plain floor": partial(plain_floor, plan, x),
                "step": partial(preimage_step, plan, x),
            },
            repeats,
        )
        cpu = {way: taken["cpu"] for way, taken in seconds.items()}
        ratios = {
            "faster_than_paper": cpu["paper"] / cpu["ours"],
            "times_the_floor": cpu["ours"] / cpu["floor"],
            "times_the_plain_floor": cpu["ours"] / cpu["plain floor"],
            "faster_than_2000_steps": 2000 * cpu["step"] / cpu["ours"],
        }
        results.append(
            {
                "model": name,
                "batch": batch,
                "seconds": seconds,
                "relative_difference": difference,
                "ratios": ratios,
                "profile": profiled(partial(sgfi.invert, family, x)),
            }
        )
        print(name, batch, ratios, flush=True)
    return results


def build(name: str) -> tuple[torch.nn.Module, int]:
    torch.manual_seed(0)
    library, size = MODELS[name]
    if library == "torchvision":
        import torchvision

        return torchvision.models.get_model(name).eval(), size
    import timm

    return timm.create_model(name).eval(), size


def profiled(work: Callable[[], object]) -> dict[str, float]:
    """Shares of the processor time spent in the forward, the derivatives and the maps, over three runs."""
    parts = {
        "forward": (Linearisation, "__init__"),
        "VJP": (LocalMap, "vjp"),
        "JVP": (LocalMap, "jvp"),
        "maps": (WienerMap, "__call__"),
    }
    spent: Counter[str] = Counter()

    def watched(part: str, method: Callable) -> Callable:
        def run(*args: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return method(*args, **options)
            finally:
                spent[part] += time.process_time() - start

        return run

    kept = {part: getattr(owner, method) for part, (owner, method) in parts.items()}
    try:
        for part, (owner, method) in parts.items():
            setattr(owner, method, watched(part, kept[part]))
        start = time.process_time()
        for _ in range(3):
            work()
        total = time.process_time() - start
    finally:
        for part, (owner, method) in parts.items():
            setattr(owner, method, kept[part])
    shares = {part: spent[part] / total for part in parts}
    return shares | {"the rest": 1 - sum(shares.values())}


@torch.no_grad()
def floor(plan: sgfi.Plan, x: Tensor) -> None:
    """One forward, two VJPs and one JVP of every segment; no maps."""
    point = Linearisation(plan.graph, plan.dag.frontiers, x)
    for name in reversed(plan.fitted):
        local = point.at(name)
        pulled = local.vjp([point.values[child] for child in plan.children(name)])
        local.vjp(local.jvp(pulled))
        point.release(name)


def plain_floor(plan: sgfi.Plan, x: Tensor) -> None:
    """The same of the whole network by PyTorch's own means: a forward with its graph, two VJPs, ``torch.func.jvp``."""
    program = plan.graph.program(("input",), (plan.target,))
    leaf = x.clone().requires_grad_()
    (state,) = program(leaf)
    for _ in range(2):
        (pulled,) = torch.autograd.grad(state, leaf, state.detach(), retain_graph=True)
    with torch.no_grad():
        torch.func.jvp(lambda h: program(h)[0], (x,), (pulled,))


def preimage_step(plan: sgfi.Plan, x: Tensor) -> None:
    """One step of iterative search: forward to the target and a gradient at the input (the optimiser left out)."""
    leaf = x.clone().requires_grad_()
    (state,) = plan.graph.program(("input",), (plan.target,))(leaf)
    torch.autograd.grad(state.square().sum(), leaf)


if __name__ == "__main__":
    main()
