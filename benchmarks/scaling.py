"""Calibrating large networks, on paper: bytes, FLOPs and passes of real plans by the real scheduler."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
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


IMAGENET, WINDOWS, TOKENS = 1_281_167, 100_000, 128
"""ImageNet's training set; for language models windows of that many tokens."""


@dataclass(frozen=True)
class Subject:
    """A network of a size, and what it would be calibrated on."""

    build: Callable[[], tuple[torch.nn.Module, torch.Tensor]]
    """The model and two samples, on the meta device: shapes are all that counts."""
    samples: int
    sizes: tuple[str, ...] = ("full", "small")
    """What is asked of the plan; ``"shared"`` is the least, one matrix a node."""


def vision(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    import torchvision

    return torchvision.models.get_model(name).eval(), torch.zeros(2, 3, 224, 224)


def language() -> tuple[torch.nn.Module, torch.Tensor]:
    """Llama's architecture at 7B, which is the library's default configuration."""
    import transformers

    from sgfi.language import embedding_model

    lm = transformers.LlamaForCausalLM(transformers.LlamaConfig()).eval()
    return embedding_model(lm), torch.zeros(2, TOKENS, lm.config.hidden_size)


SUBJECTS = {
    "convnext_base": Subject(partial(vision, "convnext_base"), IMAGENET),
    "vit_l_16": Subject(partial(vision, "vit_l_16"), IMAGENET),
    "llama_7b": Subject(language, WINDOWS, ("small", "shared")),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=list(SUBJECTS), choices=list(SUBJECTS))
    options.add_argument("--cards", type=int, default=8)
    options.add_argument("--memory", default="24GiB", help="of one card")
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--tflops", type=float, default=20.0, help="sustained by one card: an assumption")
    options.add_argument("--link", type=float, default=10.0, help="GB/s between cards, and to the host: an assumption")
    given = options.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for name in given.models:
        results |= carried(name, given)
    labels = list(next(iter(results.values()))["table"])
    rows = [[label, *(result["table"][label] for result in results.values())] for label in labels]
    check = checked()
    sides = [["FLOPs of derivatives, counted beside calculated", f"{check['flops_counted_over_calculated']:.2f}"]]
    sides.append(["seconds, measured beside calculated", f"{check['seconds_measured_over_calculated']:.2f}"])
    text = "\n\n".join([table(["", *results], rows), table(["the same arithmetic here, ResNet18 at 64 px", ""], sides)])
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


def carried(name: str, given: Any) -> dict[str, dict[str, Any]]:
    """One model in every size."""
    subject = SUBJECTS[name]
    with torch.device("meta"):
        model, pair = subject.build()
        graph = sgfi.capture(model, pair)
    results = {}
    for size in subject.sizes:
        plan = sgfi.plan(graph, partition="shared") if size == "shared" else sgfi.plan(graph, size=size)
        costs_of = Costs.of(plan, subject.samples, given)
        results[f"{name}, {size}"] = {**asdict(costs_of), "table": tabled(costs_of, given)}
    return results


@dataclass(frozen=True)
class Costs:
    """A plan on one card and on several."""

    nodes: list[dict[str, Any]]
    samples: int
    weights: int
    """Bytes of the model, as far as its target."""
    onloaded: int
    """Bytes of the weights that are on the card: all, or where they leave no room those of the largest segment."""
    room: int
    """Bytes on a card beside those and a batch."""
    schedule: dict[str, Any]
    forward: float
    """FLOPs of one forward to the target, of one sample."""
    value_bytes: int
    """That derivatives keep of a sample."""
    derivatives: float
    """FLOPs of all forwards and derivatives, of one sample."""
    state_bytes: int
    """Of the largest boundary, of a sample, with its source and its repaired state."""

    @classmethod
    def of(cls, plan: sgfi.Plan, samples: int, given: Any) -> Costs:
        forward, values = counted(plan)
        held = {name: tensor.nbytes for name, tensor in plan.graph.constants.items()}
        segments = [plan.graph.segment(name, plan.children(name)).nodes for name in plan.fitted]
        reads = [{read.name for node in nodes for read in node.all_input_nodes} & held.keys() for nodes in segments]
        weights, card = sum(held[name] for name in set().union(*reads)), as_bytes(given.memory)
        largest = max(sum(held[name] for name in names) for names in reads)
        apart = weights + given.batch * values > card // 2
        room = card - (largest if apart else weights) - given.batch * values // (len(segments) if apart else 1)
        schedule = passes(plan, room)
        forwards = 2 * sum(schedule["turns"]) * (2 if apart else 1)
        derivatives = forward * (forwards + DERIVATIVES * schedule["repeats"])
        states = 12 * max(prod(plan.boundary[node].basis.shape) for node in plan.fitted)
        onloaded = largest if apart else weights
        return cls(costs(plan), samples, weights, onloaded, room, schedule, forward, values, derivatives, states)

    @property
    def moments(self) -> float:
        """FLOPs of both maps' moments, of one sample."""
        return 2 * total(self.nodes, "moment_flops_per_image")

    @property
    def solves(self) -> float:
        return 2 * total(self.nodes, "solve_flops")

    def flops(self, samples: int) -> float:
        return samples * (self.derivatives + self.moments) + self.solves

    def fetched(self, samples: int, batch: int) -> float:
        """Bytes of weights brought to the card: twice in every pass over every batch, where they are kept elsewhere."""
        apart = self.onloaded < self.weights
        return apart * 2.0 * self.weights * 2 * sum(self.schedule["turns"]) * samples / batch

    @property
    def sent(self) -> float:
        """Bytes between cards: every moment and every map once."""
        return 2 * (total(self.nodes, "moment_bytes") + total(self.nodes, "map_bytes"))


def tabled(costs_of: Costs, given: Any) -> dict[str, str]:
    rows, link = costs_of.nodes, given.link * 1e9

    def hours(samples: int, cards: int) -> float:
        sent = costs_of.sent * (cards > 1) + costs_of.fetched(samples, given.batch) / cards
        return (costs_of.flops(samples) / (given.tflops * 1e12) / cards + sent / link) / 3600

    return {
        "fitted nodes": str(len(rows)),
        "matrices of one map, all nodes": str(int(total(rows, "bins"))),
        "one map of a node, largest": readable(max(row["map_bytes"] for row in rows)),
        "family (two maps a node), complex64": readable(2 * total(rows, "map_bytes")),
        "family, int8": readable(2 * total(rows, "int8_bytes")),
        "moments of all nodes at once": readable(total(rows, "moment_bytes")),
        "weights of the model as far as the target": readable(costs_of.weights),
        "weights on the card": readable(costs_of.onloaded),
        f"room on a card of {given.memory} beside them and a batch of {given.batch}": readable(costs_of.room),
        "passes over the data, true children": str(2 * sum(costs_of.schedule["turns"])),
        "passes over the data, online children": str(costs_of.schedule["online"]),
        "states carried per sample, online": readable(costs_of.state_bytes),
        "forward, GFLOP a sample": f"{costs_of.forward / 1e9:.1f}",
        "forwards and derivatives of all passes, GFLOP a sample": f"{costs_of.derivatives / 1e9:.0f}",
        "moments of both maps, GFLOP a sample": f"{costs_of.moments / 1e9:.0f}",
        "all solves, PFLOP": f"{costs_of.solves / 1e15:.3f}",
        "samples": f"{costs_of.samples:,}",
        "all of them, PFLOP": f"{costs_of.flops(costs_of.samples) / 1e15:.0f}",
        f"on one card at {given.tflops:g} TFLOP/s, hours": f"{hours(costs_of.samples, 1):.1f}",
        f"sent between {given.cards} cards": readable(costs_of.sent),
        f"on {given.cards} cards at {given.link:g} GB/s, hours": f"{hours(costs_of.samples, given.cards):.1f}",
        "4,096 samples on one card, minutes": f"{60 * hours(4096, 1):.1f}",
    }


def counted(plan: sgfi.Plan) -> tuple[float, int]:
    """FLOPs of one forward, and bytes of all values it leaves for derivatives, of one sample."""
    program = plan.graph.program(("input",), (plan.target,))
    x = torch.zeros(1, *plan.graph.input.shape[1:], device=plan.graph.device)  # type: ignore[arg-type]
    kept: dict[int, int] = {}
    weights = {tensor.untyped_storage()._cdata for tensor in plan.graph.constants.values()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        program(x)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        program(x.requires_grad_())
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
    forward, _ = counted(plan)
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
