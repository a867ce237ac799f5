"""Resident memory and time of inversion with a family on disk: loaded or streamed, in full precision or in bytes."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import sgfi
from benchmarks.common import HERE, parser, table, write
from benchmarks.online import floor
from sgfi.settings import as_bytes, readable
from sgfi.spectral import WienerMap

WAYS = [("full", False), ("full", True), ("int8", False), ("int8", True)]
QUESTIONS = {f"{question}:{stream}" for question in ("measure", "limited") for stream in (0, 1)}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="resnet50", help="of torchvision, with random weights")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--limit", default="1GiB", help="address space beside the model's own, where the way is tried")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--maps", help="a folder of maps of the model, streamed as it is; larger than memory, say")
    options.add_argument("--batches", nargs="+", type=int, default=[1, 8], help="with --maps")
    options.add_argument("--child", nargs=2, metavar=("FOLDER", "WAY"), help="used by the program itself")
    given = options.parse_args()
    if given.child:
        print(json.dumps(measured(given) if given.child[1] in QUESTIONS else streamed(given)))
        return
    if given.maps:
        existing(given)
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        family = invented(planned(given))
        for precision, stream in WAYS:
            where = Path(folder) / precision
            if not where.exists():
                sgfi.save(family, where, precision=precision)
            record = {"precision": precision, "streamed": stream}
            for question in ("measure", "limited"):
                record |= in_a_process(where, f"{question}:{int(stream)}")
            results.append(record)
    base = results[0]["warm_seconds"]
    head = ["maps", "family on disk", "resident while inverting", f"works within {given.limit}", "time, in page cache"]
    head.append("time, from disk")
    rows = [
        [
            f"{result['precision']}, {'streamed' if result['streamed'] else 'loaded'}",
            readable(result["family_bytes"]),
            readable(result["resident_bytes"]),
            "yes" if result["works"] else "no",
            f"{result['warm_seconds'] / base:.2f}x",
            f"{result['cold_seconds'] / base:.2f}x",
        ]
        for result in results
    ]
    write("streaming", {**vars(given), "results": results}, table(head, rows))


def existing(given: Any) -> None:
    """What streaming a folder that is already there costs, beside the same derivatives without any maps."""
    folder = Path(given.maps)
    results = [{"batch": batch, **in_a_process(folder, str(batch))} for batch in given.batches]
    rows = [
        [
            result["batch"],
            readable(result["family_bytes"]),
            readable(result["memory_bytes"]),
            readable(result["resident_bytes"]),
            f"{result['seconds']:.1f}",
            f"{readable(result['family_bytes'] / result['seconds'])}/s",
            f"{result['seconds'] / result['floor_seconds']:.1f}x",
        ]
        for result in results
    ]
    head = ["batch", "family on disk", "memory of the machine", "resident while inverting", "one inversion (s)"]
    head += ["maps read at", "times the floor without maps"]
    write(f"streaming_{folder.name}", {**vars(given), "results": results}, table(head, rows))


def streamed(given: Any) -> dict[str, Any]:
    folder, batch = Path(given.child[0]), int(given.child[1])
    torch.set_num_threads(1)
    graph = planned(given).graph
    family = sgfi.load(folder, graph, verify=False, stream=True, force=True)  # other weights cost the same
    x = torch.randn(batch, 3, given.size, given.size)
    sgfi.invert(family, x, stage="raw")  # the model's own memory
    bare = timed(lambda: floor(family.plan, x), given.repeats)
    before = resident()
    _reset_peak()
    seconds = timed(lambda: sgfi.invert(family, x), given.repeats)
    return {
        "family_bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "resident_bytes": max(0, _status("VmHWM") - before),
        "seconds": seconds,
        "floor_seconds": bare,
    }


def in_a_process(folder: Path, way: str) -> dict[str, Any]:
    run = [sys.executable, "-m", "benchmarks.streaming", *sys.argv[1:], "--child", str(folder.resolve()), way]
    done = subprocess.run(run, cwd=HERE.parent, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def planned(given: Any) -> sgfi.Plan:
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.get_model(given.model).eval()
    return sgfi.plan(sgfi.capture(model, torch.zeros(2, 3, given.size, given.size)))


def invented(plan: sgfi.Plan) -> sgfi.MapFamily:
    """Maps of the right shapes: their values change neither memory nor time, and fitting them would take long."""

    def invented(name: str) -> WienerMap:
        boundary = plan.boundary[name]
        shape = (boundary.partition.count, boundary.channels, boundary.channels)
        gain = 1e-3 * torch.randn(shape, dtype=boundary.basis.dtype(torch.float32))
        sources = torch.zeros(shape[0], 1, shape[2], *([2] if gain.is_complex() else []), dtype=torch.float16)
        return WienerMap(boundary.basis, boundary.partition, boundary.operator, {"gain": gain, "sources": sources})

    maps = {name: (invented(name), invented(name)) for name in plan.fitted}
    return sgfi.MapFamily(plan, maps, 0.01, "true", 2, plan.graph.fingerprint)


def measured(given: Any) -> dict[str, Any]:
    """In a process of its own, so that nothing but this way has been in its memory."""
    folder, way = Path(given.child[0]), given.child[1]
    question, stream = way.split(":")[0], way.endswith("1")
    torch.set_num_threads(1)
    plan = planned(given)
    x = torch.randn(1, 3, given.size, given.size)
    sgfi.invert(sgfi.load(folder, plan.graph, verify=False, stream=True), x, stage="raw")  # the model's own memory
    if question == "limited":
        return {"works": within(as_bytes(given.limit), lambda: inverted(folder, plan, x, stream))}
    forget(folder)
    before = resident()
    _reset_peak()
    family = inverted(folder, plan, x, stream)
    peak = _status("VmHWM")
    warm = timed(lambda: sgfi.invert(family, x), given.repeats)
    cold = timed(lambda: sgfi.invert(family, x), given.repeats, first=lambda: forget(folder))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {
        "family_bytes": size,
        "resident_bytes": max(0, peak - before),
        "warm_seconds": warm,
        "cold_seconds": cold,
    }


def inverted(folder: Path, plan: sgfi.Plan, x: torch.Tensor, stream: bool) -> sgfi.MapFamily:
    family = sgfi.load(folder, plan.graph, verify=False, stream=stream)
    sgfi.invert(family, x)
    return family


def within(limit: int, work: Callable[[], object]) -> bool:
    """Whether the work can be done with so much more address space than is in use now."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + limit, hard))
    try:
        work()
    except (MemoryError, RuntimeError, OSError, sgfi.SgfiError):
        return False
    return True


def timed(work: Callable[[], object], repeats: int, first: Callable[[], object] = lambda: None) -> float:
    taken = []
    for _ in range(repeats):
        first()
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def forget(folder: Path) -> None:
    """Out of the page cache: the next read comes from the disk (pages that are mapped and in use stay)."""
    for file in folder.glob("*.safetensors"):
        with open(file, "rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident() -> int:
    return _status("VmRSS")


def _status(key: str) -> int:
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines)
    return int(fields[key].split()[0]) * 1024


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
