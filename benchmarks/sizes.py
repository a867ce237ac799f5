"""Full, small and chosen families beside each other: time, bytes, memory, latency, alignment, selectivity.

``--network NAME`` measures one network and merges it into the result file; ``--growth`` plots costs over pixels,
channels and samples. Each family is fitted in a process of its own, whose peak memory is its own.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import resource
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sgfi
from benchmarks.common import RESULTS, network, parser, photographs, table, timed, write
from benchmarks.online import floor
from sgfi.calibration import choose_sizes
from sgfi.evaluation.controls import swap
from sgfi.evaluation.metrics import displayed, pixel_cosine, relative_error, ssim
from sgfi.evaluation.removal import removal_of
from sgfi.evaluation.selectivity import selectivity
from sgfi.evaluation.statistics import bootstrap
from sgfi.evaluation.trust import trust

FAMILIES = ("full", "small", "chosen")
"""Or a number of bytes the plan meets (``2GiB``), also for the choice (``chosen:2GiB``)."""
SHOWN = {
    "pixel_cosine": "pixel cosine",
    "ssim": "SSIM",
    "relative_error": "relative error",
    "removal": "removal, best at own",
    "swap": "swap: to the target's picture",
    "likeness": "likeness of channels",
    "random": "random target: absolute cosine with the answer",
}


@dataclass(frozen=True)
class Subject:
    """A network at a size; without real weights it is fitted to noise, and costs are all that is measured."""

    model: str
    pixels: int
    real: bool = True

    def load(self) -> Any:
        if self.real:
            return network(self.model, self.pixels)
        from sgfi.inputs.models import load_model

        return load_model(f"torchvision:{self.model}", weights="none", size=self.pixels)

    def inputs(self, loaded: Any, count: int, held_out: int) -> tuple[Tensor, Tensor]:
        """To fit to, and held out."""
        if self.real:
            return photographs(count, held_out, loaded.preprocessing)
        noise = torch.randn(count + held_out, *loaded.example.shape[1:], generator=torch.Generator().manual_seed(0))
        return noise[:count], noise[count:]


NETWORKS = {
    "lite0-64": Subject("efficientnet_lite0", 64),
    "mobilenet_v2-64": Subject("mobilenet_v2", 64),
    "mobilenet_v2-96": Subject("mobilenet_v2", 96),
    "mobilenet_v2-224": Subject("mobilenet_v2", 224),
    "deit_tiny-224": Subject("deit_tiny", 224),
    "resnet50-112": Subject("resnet50", 112),
    "resnet50-224": Subject("resnet50", 224),
    "vit_b_16-224": Subject("vit_b_16", 224, real=False),
}


@dataclass(frozen=True)
class Task:
    """One family of one network."""

    network: str
    family: str
    calibration: int
    held_out: int
    images: int
    preset: str
    length: bool
    boundaries: tuple[str, ...]
    children: str | None

    @property
    def label(self) -> str:
        """The family and what of it is not the paper's."""
        extra = [part for part in self.boundaries if part != "stage"] + ["lengths"] * self.length
        extra += [f"{self.children} children"] * bool(self.children)
        return ", ".join([self.family, *extra, *[self.preset] * (self.preset != "paper")])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--network", nargs="+", default=["lite0-64"], choices=list(NETWORKS))
    options.add_argument("--families", nargs="+", default=list(FAMILIES))
    options.add_argument("--calibration", type=int, default=256)
    options.add_argument("--held-out", type=int, default=64)
    options.add_argument("--images", type=int, default=8, help="images of removal, swap and likeness")
    options.add_argument("--preset", default="paper")
    options.add_argument("--length", action="store_true")
    options.add_argument("--boundaries", nargs="+", default=["stage"], help="stage stem: also those of the stem")
    options.add_argument("--children", choices=("true", "online"), help="in place of the preset's")
    options.add_argument("--costs", action="store_true", help="bytes and a walk without maps only")
    options.add_argument("--merge", nargs="+", type=Path, default=[], help="only add the rows of other result files")
    options.add_argument("--growth", action="store_true")
    given = options.parse_args()
    if given.growth:
        growth()
        return
    if given.merge:
        for file in given.merge:
            for name, families in json.loads(file.read_text())["networks"].items():
                merge(name, families)
        return
    for name in given.network:
        if given.costs:
            merge(name, costs(name))
            continue
        for family in given.families:
            counts = given.calibration, given.held_out, given.images
            task = Task(name, family, *counts, given.preset, given.length, tuple(given.boundaries), given.children)
            merge(name, {task.label: in_own_process(task)})


def in_own_process(task: Task) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (task,))


def measure(task: Task) -> dict[str, Any]:
    torch.set_num_threads(1)
    subject = NETWORKS[task.network]
    loaded = subject.load()
    fit, held = subject.inputs(loaded, task.calibration, task.held_out)
    batches = list(fit.split(16))
    graph = sgfi.capture(loaded.model, fit[:2])
    before, cpu, wall = peak(), time.process_time(), time.perf_counter()
    size, _, budget = task.family.partition(":")
    plan = sgfi.plan(graph, boundaries=list(task.boundaries), size="full" if size == "chosen" else size)
    if size == "chosen":
        plan = choose_sizes(plan, batches, budget or None)
    choosing = time.process_time() - cpu
    how = {"preset": task.preset, "children": task.children, "length": task.length}
    family = sgfi.calibrate(plan, batches, progress=False, **how)
    seconds = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "choosing_cpu": choosing}
    return {
        **vars(task),
        "fitted_nodes": len(plan.fitted),
        "target": plan.target,
        "bytes": family.bytes,
        "seconds": seconds,
        "peak_bytes": peak(),
        "peak_before_bytes": before,
        "groups": {
            name: [plan.boundary[name].partition.count, plan.boundary[name].operator.name] for name in plan.fitted
        },
        "latency": latency(family, held[:1]),
        "scores": scores(family, held, fit, loaded.preprocessing, task.images) if subject.real else {},
    }


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def latency(family: sgfi.MapFamily, x: Tensor) -> dict[str, float]:
    """Processor seconds of one inversion, and how many times a forward and VJP, or the walk without maps, that is."""
    ways = {
        "inversion": partial(sgfi.invert, family, x),
        "forward_and_vjp": partial(sgfi.invert, family, x, stage="raw"),
        "floor": partial(floor, family.plan, x),
    }
    taken = {name: seconds["cpu"] for name, seconds in timed(ways, 5).items()}
    ratios = {f"times_{name}": taken["inversion"] / taken[name] for name in ("forward_and_vjp", "floor")}
    return {**taken, **ratios}


def scores(family: sgfi.MapFamily, held: Tensor, fit: Tensor, preprocessing: Any, images: int) -> dict[str, Any]:
    """Means with bootstrap intervals over images."""
    values = torch.cat([sgfi.invert(family, x).value for x in held.split(16)])
    x = held[:images]
    channels = family.node().channels
    queries = [sgfi.Query(channels=[index * channels // 16]) for index in range(16)]
    judged = removal_of(family, x, queries, sgfi.prior(list(fit.split(32))))
    rows = {
        "pixel_cosine": pixel_cosine(values, held),
        "ssim": displayed(ssim, preprocessing)(values, held),
        "relative_error": relative_error(values, held),
        "removal": judged.best_at_own.mean(1),
        "swap": swap(family, x)["H_A J_B"]["to_A"],
        "likeness": selectivity(family, x)["channels"]["likeness"],
        "random": random_targets(family, x, queries[::4]),
    }
    return {name: interval(row) for name, row in rows.items()}


def random_targets(family: sgfi.MapFamily, x: Tensor, queries: list[sgfi.Query]) -> Tensor:
    """(B,) absolute cosine of random targets' pictures with the answers, mean over queries."""
    controls = [trust(family, x, query, count=0).random for query in queries]
    return torch.stack([control for control in controls if control is not None]).mean(0)


def interval(row: Tensor) -> dict[str, float]:
    found = bootstrap(row.double().tolist())
    return {"mean": found.mean, "low": found.low, "high": found.high, "images": len(row)}


def costs(name: str) -> dict[str, Any]:
    """What can be said without a fit: bytes of the maps, and one inversion without any."""
    torch.set_num_threads(1)
    loaded = NETWORKS[name].load()
    graph = sgfi.capture(loaded.model, loaded.example)
    x = torch.randn(1, *loaded.example.shape[1:])
    plan = sgfi.plan(graph)
    taken = timed({"floor": partial(floor, plan, x)}, 3)["floor"]["cpu"]
    return {
        size: {"network": name, "family": size, "bytes": planned.map_bytes, "latency": {"floor": taken}}
        for size, planned in (("full", plan), ("small", sgfi.plan(graph, size="small")))
    }


def merge(name: str, families: dict[str, Any]) -> None:
    file = RESULTS / "sizes.json"
    known = json.loads(file.read_text())["networks"] if file.is_file() else {}
    known.setdefault(name, {}).update(families)
    head = ["network", "family", "photographs", "maps", "calibration, cpu s", "peak"]
    head += ["inversion, times the walk without maps", "times a forward and VJP", *SHOWN.values()]
    rows = [row(network, label, entry) for network, own in known.items() for label, entry in own.items()]
    write("sizes", {"networks": known}, table(head, rows))


def row(name: str, label: str, entry: dict[str, Any]) -> list[str]:
    mib, taken, measured = 2**20, entry.get("latency", {}), entry.get("scores", {})
    return [
        name,
        label,
        str(entry.get("calibration", "")),
        f"{entry['bytes'] / mib:.0f} MiB",
        f"{entry['seconds']['cpu']:.0f}" if "seconds" in entry else "not run",
        f"{entry['peak_bytes'] / mib:.0f} MiB" if "peak_bytes" in entry else "",
        *(f"{taken[key]:.2f}" if key in taken else "" for key in ("times_floor", "times_forward_and_vjp")),
        *("{mean:.3f} ({low:.3f}, {high:.3f})".format(**measured[key]) if key in measured else "" for key in SHOWN),
    ]


class Plain(nn.Sequential):
    """Six convolutions of one width, two of which halve the picture."""

    def __init__(self, width: int) -> None:
        widths = [3, *[width] * 6]
        layers = [nn.Conv2d(a, b, 3, 1 + (i in (1, 3)), 1) for i, (a, b) in enumerate(itertools.pairwise(widths))]
        super().__init__(*[part for layer in layers for part in (layer, nn.Tanh())])


def growth() -> None:
    """Seconds and bytes over pixels, channels and samples of a plain network with random weights."""
    import matplotlib.pyplot as plt

    torch.set_num_threads(1)
    base = {"pixels": 32, "channels": 32, "samples": 64}
    over = {"pixels": (16, 32, 48, 64), "channels": (16, 32, 64, 128), "samples": (32, 64, 128, 256)}
    curves: dict[str, Any] = {}
    for axis, values in over.items():
        for value in values:
            setting = base | {axis: value}
            for size in ("full", "small"):
                curves.setdefault(axis, {}).setdefault(size, []).append({axis: value, **cost(size=size, **setting)})
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.4), sharey="row")
    for column, (axis, families) in zip(axes.T, curves.items(), strict=True):
        for size, points in families.items():
            for panel, key in zip(column, ("seconds", "mib"), strict=True):
                panel.loglog([point[axis] for point in points], [point[key] for point in points], "o-", label=size)
                panel.set_xticks(over[axis], map(str, over[axis]))
                panel.minorticks_off()
        column[1].set_xlabel(axis)
    axes[0, 0].set_yticks((0.3, 1, 3), ("0.3", "1", "3"))
    axes[0, 0].set_ylabel("calibration, cpu s")
    axes[1, 0].set_ylabel("maps, MiB")
    axes[0, 0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(RESULTS / "sizes_growth.png", dpi=110)
    rows = [
        [axis, point[axis], size, point["seconds"], f"{point['mib']:.1f}"]
        for axis, families in curves.items()
        for size, points in families.items()
        for point in points
    ]
    write("sizes_growth", {"base": base, "curves": curves}, table(["over", "", "family", "cpu s", "MiB"], rows))


def cost(pixels: int, channels: int, samples: int, size: str) -> dict[str, float]:
    torch.manual_seed(0)
    x = torch.randn(samples, 3, pixels, pixels)
    graph = sgfi.capture(Plain(channels).eval(), x[:2])
    names = [str(2 * index + 1) for index in range(5)]
    plan, start = sgfi.plan(graph, "11", names, size=size), time.process_time()
    family = sgfi.calibrate(plan, list(x.split(16)), progress=False)
    return {"seconds": time.process_time() - start, "mib": family.bytes / 2**20}


if __name__ == "__main__":
    main()
