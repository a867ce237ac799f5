"""Calibration by two processes under torchrun (gloo) against one, the same threads each: rate, difference of maps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import sgfi
from benchmarks.common import HERE, parser, table, write


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="resnet18", help="of torchvision, with random weights")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--samples", type=int, default=256)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--modes", nargs="+", default=["true", "online"])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--worker", help="used by the program itself")
    given = options.parse_args()
    if given.worker:
        worker(given)
        return
    rows, results = [], {}
    for mode in given.modes:
        runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(given.repeats):
                for count in runs:  # in turns, so that a busy machine is busy for both
                    runs[count].append(launch(count, mode, Path(folder)))
            difference = largest_difference(given, mode, Path(folder))
        least = {key: {count: min(run[key] for run in runs[count]) for count in runs} for key in ("wall", "processor")}
        gains = {key: seconds[1] / seconds[2] for key, seconds in least.items()}
        results[mode] = {"seconds": runs, "gains": gains, "relative_difference": difference}
        rate = f"{given.samples / least['wall'][1]:.1f}"
        rows.append([mode, rate, f"{gains['wall']:.2f}x", f"{gains['processor']:.2f}x", f"{difference:.1e}"])
    head = [
        "children",
        "images/s, one process",
        "two processes, by the clock",
        "by processor time of the busier process",
    ]
    head.append("largest relative difference of a map")
    write("processes", {**vars(given), "load": os.getloadavg()[0], "results": results}, table(head, rows))


def launch(count: int, mode: str, folder: Path) -> dict[str, float]:
    """Seconds in ``sgfi.calibrate``, the most of any process."""
    known = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    run += ["-m", "benchmarks.processes", *sys.argv[1:], "--worker", f"{mode}:{folder}"]
    subprocess.run(run, env=known, cwd=HERE.parent, check=True, capture_output=True)
    reports = [json.loads((folder / f"{count}.{rank}.json").read_text()) for rank in range(count)]
    return {key: max(report[key] for report in reports) for key in reports[0]}


def worker(given: Any) -> None:
    mode, folder = given.worker.split(":", 1)
    torch.set_num_threads(1)
    plan, batches = job(given)
    clocks = {"wall": time.perf_counter, "processor": time.process_time}
    start = {key: clock() for key, clock in clocks.items()}
    family = sgfi.calibrate(plan, batches, children=mode, progress=False, distributed=True)
    taken = {key: clock() - start[key] for key, clock in clocks.items()}
    count, rank = os.environ["WORLD_SIZE"], os.environ["RANK"]
    (Path(folder) / f"{count}.{rank}.json").write_text(json.dumps(taken))
    if rank == "0":
        sgfi.save(family, Path(folder) / f"maps{count}", overwrite=True)


def job(given: Any) -> tuple[sgfi.Plan, list[torch.Tensor]]:
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.get_model(given.model).eval()
    batches = list(torch.randn(given.samples, 3, given.size, given.size).split(given.batch))
    return sgfi.plan(sgfi.capture(model, batches[0])), batches


def largest_difference(given: Any, mode: str, folder: Path) -> float:
    """Over all maps: the norm of the difference beside the norm of the map."""
    graph = job(given)[0].graph
    single, pair = (sgfi.load(folder / f"maps{count}", graph).maps for count in (1, 2))
    pairs = [
        (a.weights["gain"], b.weights["gain"]) for name in single for a, b in zip(single[name], pair[name], strict=True)
    ]
    return max(float((a[:] - b[:]).norm() / a[:].norm()) for a, b in pairs)


if __name__ == "__main__":
    main()
