"""Calibration against the paper's way, images a second, and how its time grows with images and with nodes."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import RESULTS, parser, table, write
from benchmarks.paper import PaperWay

RIDGE = 0.01


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=["resnet18", "vit"])
    options.add_argument("--size", type=int, default=112)
    options.add_argument("--samples", type=int, default=64)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--growth", type=int, nargs="+", default=[32, 64, 128, 192, 256])
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    results = [compared(name, given.size, given.samples, given.batch) for name in given.models]
    grown = growth(given.size // 2, given.growth, given.batch)
    head = ["model", "fitted nodes", "ours (images/s)", "the paper's (images/s)", "times faster"]
    head += ["times faster than the paper's with one forward for all nodes"]
    rows = [
        [
            result["model"],
            result["nodes"],
            *(result["images_per_second"][way] for way in ("ours", "paper")),
            *result["faster"],
        ]
        for result in results
    ]
    lines = [[f"time against {what}", line["slope"], line["intercept"], line["r2"]] for what, line in grown.items()]
    text = table(head, rows) + "\n\n" + table(["ResNet18", "seconds for each", "seconds at none", "R^2"], lines)
    draw(grown)
    write("calibration", {**vars(given), "results": results, "growth": grown}, text)


def planned(name: str, size: int, dtype: torch.dtype = torch.float32) -> sgfi.Plan:
    torch.manual_seed(0)
    if name == "resnet18":
        import torchvision

        model = torchvision.models.resnet18()
    else:
        import timm

        model = timm.models.VisionTransformer(img_size=size, patch_size=16, embed_dim=192, depth=12, num_heads=3)
    graph = sgfi.capture(model.eval().requires_grad_(False).to(dtype), torch.randn(2, 3, size, size, dtype=dtype))
    return sgfi.plan(graph)


def check(name: str, size: int = 64, samples: int = 12) -> None:
    """Both ways must give the same maps: in double precision, where rounding does not grow through a dozen nodes."""
    plan = planned(name, size, torch.float64)
    batches = list(torch.randn(samples, 3, size, size, dtype=torch.float64).split(4))
    paper = PaperWay(plan)
    gains = paper.gains(calibrated(plan, batches)), paper.calibrate(batches, RIDGE, shared=True)
    inverse, expected = (paper.invert(gain, batches[0]) for gain in gains)
    apart = float((inverse - expected).norm() / expected.norm())
    assert apart < 1e-6, f"both ways must give the same inverse, and differ by {apart} in double precision"


def compared(name: str, size: int, samples: int, batch: int) -> dict[str, Any]:
    """Both ways on the same images: true children, two stages, solves included."""
    check(name)
    plan = planned(name, size)
    batches = list(torch.randn(samples, 3, size, size).split(batch))
    paper = PaperWay(plan)
    gains: dict[str, Any] = {}
    ways = {
        "ours": lambda: gains.update(ours=paper.gains(calibrated(plan, batches))),
        "shared": lambda: gains.update(paper=paper.calibrate(batches, RIDGE, shared=True)),
        "paper": lambda: paper.calibrate(batches, RIDGE, shared=False),
    }
    calibrated(plan, batches[:1])  # warms up
    seconds = {way: spent(work) for way, work in ways.items()}
    inverse, expected = (paper.invert(gains[way], batches[0]) for way in ("ours", "paper"))
    apart = float((inverse - expected).norm() / expected.norm())
    return {
        "model": name,
        "nodes": len(plan.fitted),
        "seconds": seconds,
        "images_per_second": {way: samples / taken for way, taken in seconds.items()},
        "faster": [seconds["paper"] / seconds["ours"], seconds["shared"] / seconds["ours"]],
        "relative_difference": apart,
    }


def calibrated(plan: sgfi.Plan, batches: list[Tensor]) -> sgfi.MapFamily:
    return sgfi.calibrate(plan, batches, ridge=RIDGE, progress=False)


def spent(work: Any) -> float:
    """Processor seconds: what a busy machine disturbs least."""
    start = time.process_time()
    work()
    return time.process_time() - start


def growth(size: int, counts: list[int], batch: int) -> dict[str, dict[str, Any]]:
    """Time of a ResNet18 calibration by the number of images and by the number of fitted nodes."""
    plan = planned("resnet18", size)
    calibrated(plan, [torch.randn(batch, 3, size, size)])
    images = list(torch.randn(max(counts), 3, size, size).split(batch))
    by_images = [spent(lambda n=n: calibrated(plan, images[: n // batch])) for n in counts]
    names, by_nodes = list(plan.fitted[1:]), []
    nodes = list(range(1, len(plan.fitted) + 1, 2))
    for count in nodes:
        some = sgfi.plan(plan.graph, plan.target, ["input", *names[: count - 1], plan.target])
        by_nodes.append(spent(lambda some=some: calibrated(some, images[:8])))
    return {"images": line(counts, by_images), "nodes": line(nodes, by_nodes)}


def line(x: list[int], y: list[float]) -> dict[str, Any]:
    """The least-squares line and how much of the variance it explains."""
    a, b = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    slope = ((a - a.mean()) * (b - b.mean())).sum() / (a - a.mean()).square().sum()
    left = (b - b.mean() - slope * (a - a.mean())).square().sum()
    return {
        "at": x,
        "seconds": y,
        "slope": float(slope),
        "intercept": float(b.mean() - slope * a.mean()),
        "r2": float(1 - left / (b - b.mean()).square().sum()),
    }


def draw(grown: dict[str, dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    for axis, (what, line) in zip(axes, grown.items(), strict=True):
        ends = [0, max(line["at"])]
        axis.plot(ends, [line["intercept"] + line["slope"] * end for end in ends], color="0.6", zorder=1)
        axis.scatter(line["at"], line["seconds"], zorder=2)
        axis.set(xlabel=f"number of {what}", ylabel="processor seconds", ylim=(0, None), xlim=(0, None))
        axis.set_title(f"calibration time against {what}, R² {line['r2']:.3f}", fontsize=10)
    figure.savefig(RESULTS / "calibration.png", dpi=110)


if __name__ == "__main__":
    main()
