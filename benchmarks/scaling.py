"""Calibrating large networks on ImageNet, on paper: bytes, FLOPs and passes of real plans by the real scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

import sgfi
from benchmarks.common import parser, table, write
from sgfi.calibration.schedule import MemoryPlan
from sgfi.calibration.settings import FitSettings
from sgfi.settings import as_bytes, readable
from sgfi.spectral import Moments, MomentShape
from sgfi.spectral.quantise import Layout

DERIVATIVES = 5
"""Forwards' worth of derivatives over both stages: a VJP; then a VJP, a JVP (values and tangents: two) and a VJP."""
SOLVE = 4 / 3
"""Multiply-adds of one solve in units of C^3: Cholesky 1/3, two triangular solves of C columns 1."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=["convnext_base", "vit_l_16"], help="of torchvision")
    options.add_argument("--images", type=int, default=1_281_167, help="ImageNet's training set")
    options.add_argument("--cards", type=int, default=8)
    options.add_argument("--memory", default="24GiB", help="of one card")
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--tflops", type=float, default=20.0, help="sustained by one card: an assumption")
    options.add_argument("--link", type=float, default=10.0, help="GB/s between cards: an assumption")
    given = options.parse_args()
    check = checked()
    results = {name: carried(name, given) for name in given.models}
    labels = list(next(iter(results.values()))["told"])
    rows = [[label, *(found["told"][label] for found in results.values())] for label in labels]
    sides = [["FLOPs of derivatives, counted beside calculated", f"{check['flops_counted_over_calculated']:.2f}"]]
    sides.append(["seconds, measured beside calculated", f"{check['seconds_measured_over_calculated']:.2f}"])
    text = "\n\n".join(
        [table(["", *given.models], rows), table(["the same arithmetic here, ResNet18 at 64 px", ""], sides)]
    )
    write("scaling", {**vars(given), "results": results, "check": check}, text)


def costs(plan: sgfi.Plan) -> list[dict[str, Any]]:
    """What one map of each node takes, whatever the machine."""
    rows = []
    for name in plan.fitted:
        boundary = plan.boundary[name]
        count, channels, dtype = boundary.partition.count, boundary.channels, boundary.basis.dtype(torch.float32)
        numbers = boundary.operator.size(count, channels)
        product = 8 if dtype.is_complex else 2  # real operations of a multiply-add
        planes = Layout.of(boundary.basis, boundary.partition).planes
        rows.append(
            {
                "node": name,
                "channels": channels,
                "bins": count,
                "map_bytes": numbers * dtype.itemsize,
                "int8_bytes": planes * channels * (channels + 1),
                "moment_bytes": count * MomentShape(channels).numbers() * dtype.itemsize,
                "moment_flops_per_image": 2 * product * numbers,
                "solve_flops": product * SOLVE * count * channels**3,
            }
        )
    return rows


def total(rows: list[dict[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows)


def carried(name: str, given: Any) -> dict[str, Any]:
    """One model on one card and on several."""
    import torchvision

    with torch.device("meta"):
        hollow = torchvision.models.get_model(name)
    model = hollow.to_empty(device="cpu").eval()  # shapes are all that counts; nothing is computed with it but FLOPs
    for weight in model.parameters():
        torch.nn.init.constant_(weight, 1e-3)
    x = torch.zeros(1, 3, 224, 224)
    plan = sgfi.plan(sgfi.capture(model, torch.cat([x, x])))
    forward, values = counted(plan, x)
    rows = costs(plan)
    weights = sum(tensor.nbytes for tensor in plan.graph.constants.values())
    room = as_bytes(given.memory) - weights - given.batch * values
    schedule = passes(plan, room)
    derivatives = forward * (2 * sum(schedule["turns"]) + DERIVATIVES * schedule["repeats"])
    moments = 2 * total(rows, "moment_flops_per_image")
    solves = 2 * total(rows, "solve_flops")
    flops = given.images * (derivatives + moments) + solves
    sent = 2 * (total(rows, "moment_bytes") + total(rows, "map_bytes"))
    seconds = flops / (given.tflops * 1e12)
    together = seconds / given.cards + sent / (given.link * 1e9)
    few = (4096 * (derivatives + moments) + solves) / (given.tflops * 1e12)
    told = {
        "fitted nodes": len(rows),
        "one map of a node, largest": readable(max(row["map_bytes"] for row in rows)),
        "family (two maps a node), complex64": readable(2 * total(rows, "map_bytes")),
        "family, int8": readable(2 * total(rows, "int8_bytes")),
        "moments of all nodes at once": readable(total(rows, "moment_bytes")),
        f"room on a card of {given.memory} beside weights and a batch of {given.batch}": readable(room),
        "passes over the data, true children": 2 * sum(schedule["turns"]),
        "passes over the data, online children": schedule["online"],
        "states carried per image, online": readable(
            12 * max(prod(plan.boundary[node].basis.shape) for node in plan.fitted)
        ),
        "forward, GFLOP an image": f"{forward / 1e9:.1f}",
        "forwards and derivatives of all passes, GFLOP an image": f"{derivatives / 1e9:.0f}",
        "moments of both maps, GFLOP an image": f"{moments / 1e9:.0f}",
        "all solves, PFLOP": f"{solves / 1e15:.2f}",
        f"{given.images:,} images, PFLOP": f"{flops / 1e15:.0f}",
        f"on one card at {given.tflops:g} TFLOP/s, hours": f"{seconds / 3600:.1f}",
        f"sent between {given.cards} cards": readable(sent),
        f"on {given.cards} cards at {given.link:g} GB/s, hours": f"{together / 3600:.1f}",
        "4,096 images on one card, minutes": f"{few / 60:.1f}",
    }
    return {"nodes": rows, "schedule": schedule, "forward_flops": forward, "value_bytes": values, "told": told}


def counted(plan: sgfi.Plan, x: torch.Tensor) -> tuple[float, int]:
    """FLOPs of one forward, and bytes of all values it leaves for derivatives, of one image."""
    program = plan.graph.program(("input",), (plan.target,))
    kept: dict[int, int] = {}
    weights = {tensor.data_ptr() for tensor in plan.graph.constants.values()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with FlopCounterMode(display=False) as counter:
        program(x)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        program(x.clone().requires_grad_())
    return counter.get_total_flops(), sum(kept.values())


def passes(plan: sgfi.Plan, room: int) -> dict[str, Any]:
    """How the scheduler would go over the data within a memory bound."""
    memory = MemoryPlan.within(plan, FitSettings(), samples=0, budget=int(room))
    rounds = memory.rounds(())
    turns = [max(len(memory.chunks(name)) for name in names) for names in rounds]
    online = MemoryPlan.within(plan, FitSettings(children="online"), samples=0, budget=int(room)).passes(())
    repeats = sum(turn * len(names) for turn, names in zip(turns, rounds, strict=True)) / len(plan.fitted)
    return {"waves": [len(names) for names in rounds], "turns": turns, "repeats": repeats, "online": online}


def checked() -> dict[str, float]:
    """The same arithmetic on a network small enough to be run: counted FLOPs, and seconds from rates measured here."""
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18().eval()
    batches = list(torch.randn(64, 3, 64, 64).split(16))
    plan = sgfi.plan(sgfi.capture(model, batches[0]))
    forward, _ = counted(plan, batches[0][:1])
    diagonal = sgfi.plan(plan.graph, operator="diagonal")  # no products but the model's own
    sgfi.calibrate(diagonal, batches[:2], progress=False)
    with FlopCounterMode(display=False) as counter:
        sgfi.calibrate(diagonal, batches[:2], progress=False)
    calculated = 32 * forward * (2 + DERIVATIVES)
    rows = costs(plan)
    rates = measured_rates(plan, batches[0], forward, rows)
    expected = (
        64 * forward * (2 + DERIVATIVES) / rates["forward"]
        + 64 * 2 * total(rows, "moment_flops_per_image") / rates["moments"]
        + 2 * total(rows, "solve_flops") / rates["solves"]
    )
    seconds = took(lambda: sgfi.calibrate(plan, batches, progress=False), repeats=2)
    return {
        "flops_counted_over_calculated": counter.get_total_flops() / calculated,
        "seconds_measured": seconds,
        "seconds_measured_over_calculated": seconds / expected,
        **{f"gflops_{key}": rate / 1e9 for key, rate in rates.items()},
    }


def measured_rates(plan: sgfi.Plan, x: torch.Tensor, forward: float, rows: list[dict[str, Any]]) -> dict[str, float]:
    """FLOP/s of the three kinds of work on this machine."""
    name = max(plan.fitted, key=lambda node: plan.boundary[node].channels)
    row = next(row for row in rows if row["node"] == name)
    boundary = plan.boundary[name]
    dtype = boundary.basis.dtype(torch.float32)
    spectrum = torch.randn(boundary.basis.bins, boundary.channels, 256, dtype=dtype)
    moments = Moments.empty(boundary.partition, boundary.channels, dtype)
    moments.update(spectrum, spectrum)
    run = plan.graph.program(("input",), (plan.target,))
    return {
        "forward": len(x) * forward / took(lambda: run(x)),
        "moments": 256 * row["moment_flops_per_image"] / took(lambda: moments.update(spectrum, spectrum)),
        "solves": row["solve_flops"] / took(lambda: boundary.operator.solve(moments, 0.01)),
    }


def took(work: Callable[[], object], repeats: int = 3) -> float:
    """The least of a few times, after one to warm up."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken[1:])


if __name__ == "__main__":
    main()
