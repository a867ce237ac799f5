"""Peak memory of a calibration whose family is several times larger than its budget."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import torch

import sgfi
from benchmarks.common import parser, table, write
from sgfi.settings import as_bytes, readable


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--budget", default="1.25GiB")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--samples", type=int, default=32)
    options.add_argument("--children", default="true")
    given = options.parse_args()
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet50().eval()
    batches = list(torch.randn(given.samples, 3, given.size, given.size).split(8))
    plan = sgfi.plan(sgfi.capture(model, batches[0]))
    forward = _peak(lambda: _retained_forward(plan, batches[0]))
    with tempfile.TemporaryDirectory() as folder:
        maps = Path(folder) / "maps"
        start = time.perf_counter()
        peak = _peak(
            lambda: sgfi.calibrate(
                plan, batches, children=given.children, memory=given.budget, checkpoint=maps, progress=True
            )
        )
        seconds = time.perf_counter() - start
        family = sum(file.stat().st_size for file in maps.glob("*.safetensors"))
    budget = as_bytes(given.budget)
    result = {
        "family_bytes": family,
        "budget_bytes": budget,
        "forward_bytes": forward,
        "peak_bytes": peak,
        "within": peak <= budget + forward,
        "seconds": seconds,
    }
    head = ["family on disk", "budget", "model's own forward and backward", "peak while calibrating", "within both"]
    row = [*(readable(value) for value in (family, budget, forward, peak)), "yes" if result["within"] else "no"]
    write("memory", {**vars(given), **result}, table(head, [row]))


def _retained_forward(plan: sgfi.Plan, x: torch.Tensor) -> None:
    """What the model needs by itself: one forward with its graph kept, and one backward to the input."""
    leaf = x.clone().requires_grad_()
    (state,) = plan.graph.program(("input",), (plan.target,))(leaf)
    torch.autograd.grad(state, leaf, state.detach())


def _peak(work) -> int:
    """The highest private resident memory above what was there before, sampled while ``work`` runs."""
    before, highest, done = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.005):
            highest = max(highest, _resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    work()
    done.set()
    watcher.join()
    return max(0, highest - before)


def _resident() -> int:
    """Resident bytes that are not reclaimable file cache (memory-mapped maps on disk are)."""
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return int(fields["RssAnon"].split()[0]) * 1024


if __name__ == "__main__":
    main()
