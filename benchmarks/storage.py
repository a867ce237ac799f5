"""Size, pixel cosine and time of a real network's maps in full precision, in halves and in bytes."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from torch import Tensor

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from benchmarks.real_weights import cosine
from sgfi.spectral import PRECISIONS


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="efficientnet_lite0", help="efficientnet_lite0, deit_tiny, mobilenet_v2")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--calibration", type=int, default=256)
    options.add_argument("--held-out", type=int, default=96)
    options.add_argument("--children", default="online")
    options.add_argument("--batch", type=int, default=32)
    given = options.parse_args()
    loaded = network(given.model, given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, fit[:2]))
    targets = list(dict.fromkeys([plan.fitted[2], plan.fitted[len(plan.fitted) // 2], plan.target]))
    family = sgfi.calibrate(plan, list(fit.split(given.batch)), children=given.children, progress=False)
    complex64 = family.bytes
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for precision in PRECISIONS:
            start = time.perf_counter()
            where = sgfi.save(family, Path(folder) / precision, precision=precision)
            saved = time.perf_counter() - start
            kept = sgfi.load(where, plan.graph)
            results[precision] = {
                "bytes": sum(file.stat().st_size for file in where.glob("*.safetensors")),
                "save_seconds": saved,
                "cosine": {name: cosine(kept, held, "final", given.batch, name) for name in targets},
                "milliseconds": {batch: 1e3 * seconds(kept, held[:batch]) for batch in (1, 8)},
            }
    head = ["precision", "on disk", "smaller than complex64", *(f"cosine from {name}" for name in targets)]
    head += ["lowest change", "inversion, batch 1", "batch 8"]
    full = results["full"]
    rows = []
    for precision, measured in results.items():
        measured["times_smaller"] = complex64 / measured["bytes"]
        change = min(measured["cosine"][name] - full["cosine"][name] for name in targets)
        times = [measured["milliseconds"][batch] / full["milliseconds"][batch] for batch in (1, 8)]
        rows.append(
            [
                precision,
                f"{measured['bytes'] / 2**20:.1f} MiB",
                f"{measured['times_smaller']:.2f}x",
                *(f"{value:.4f}" for value in measured["cosine"].values()),
                f"{change:+.4f}",
                *(f"{ratio:.2f}x" for ratio in times),
            ]
        )
    name = f"storage_{given.model}_{given.size}px_c{given.calibration}_{given.children}"
    write(name, {**vars(given), "complex64_bytes": complex64, "results": results}, table(head, rows))


def seconds(family: sgfi.MapFamily, x: Tensor, repeats: int = 5) -> float:
    """Median time of one inversion, after one to warm up."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        sgfi.invert(family, x)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    main()
