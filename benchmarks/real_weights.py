"""Pixel cosine of a real network at its deepest target: the paper's calibration, online and cross-fitted children."""

from __future__ import annotations

import time

import torch

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from sgfi.evaluation.metrics import pixel_cosine

MODES: dict[str, dict] = {
    "paper": {"children": "true", "ridge": 0.01, "stages": 2},
    "online": {"children": "online", "ridge": 0.01, "stages": 2},
    "cross-fitted": {"children": "cross-fitted", "ridge": "auto", "stages": "auto"},
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="efficientnet_lite0", help="efficientnet_lite0, deit_tiny, mobilenet_v2")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--calibration", type=int, default=512)
    options.add_argument("--held-out", type=int, default=96)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    options.add_argument("--quiet", action="store_true")
    given = options.parse_args()

    loaded = network(given.model, given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, fit[:2]))
    depths = [plan.fitted[index] for index in (2, len(plan.fitted) // 2)]
    rows, results = [], {}
    for mode in given.modes:
        start = time.perf_counter()
        family = sgfi.calibrate(plan, list(fit.split(given.batch)), progress=not given.quiet, **MODES[mode])
        seconds = time.perf_counter() - start
        deepest = {stage: cosine(family, held, stage, given.batch) for stage in ("raw", "first", "final")}
        shallower = {name: cosine(family, held, "final", given.batch, name) for name in depths}
        results[mode] = {
            **MODES[mode],
            **deepest,
            "shallower_targets_final": shallower,
            "map_bytes": family.bytes,
            "calibration_seconds": seconds,
            "maps_per_node": {name: len(maps) for name, maps in family.maps.items()},
        }
        rows.append([mode, *deepest.values(), *shallower.values(), f"{family.bytes / 2**20:.0f} MiB"])
        head = ["calibration", "raw", "first", "final", *(f"final from {name}" for name in depths), "maps"]
        write(
            f"real_weights_{given.model}_{given.size}px_c{given.calibration}",
            {"fitted_nodes": len(plan.fitted), "target": plan.target, **vars(given), "results": results},
            table(head, rows),
        )


def cosine(family: sgfi.MapFamily, images: torch.Tensor, stage: str, batch: int, target: str | None = None) -> float:
    values = torch.cat([sgfi.invert(family, x, target=target, stage=stage).value for x in images.split(batch)])
    return float(pixel_cosine(values, images).mean())


if __name__ == "__main__":
    main()
