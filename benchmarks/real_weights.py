"""Pixel cosine of EfficientNet-Lite0 (real ImageNet weights) at its deepest target, true against online children."""

from __future__ import annotations

import time

import torch

import sgfi
from benchmarks.common import parser, photographs, table, write
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.vision.models import load_model


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--calibration", type=int, default=512)
    options.add_argument("--held-out", type=int, default=96)
    options.add_argument("--batch", type=int, default=32)
    given = options.parse_args()

    loaded = load_model("pip:efficientnet_lite0", size=given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, fit[:2]))
    print(plan)
    rows, results = [], {}
    for children in ("true", "online"):
        start = time.perf_counter()
        family = sgfi.calibrate(plan, list(fit.split(given.batch)), children=children)
        seconds = time.perf_counter() - start
        cosines = {stage: cosine(family, held, stage, given.batch) for stage in ("raw", "first", "final")}
        results[children] = {"seconds": seconds, "map_bytes": family.bytes, **cosines}
        rows.append([children, *cosines.values(), f"{seconds:.0f}"])
    head = ["children", "raw", "first", "final", "calibration (s)"]
    write(
        "real_weights",
        {"model": loaded.spec, "fitted_nodes": len(plan.fitted), "target": plan.target, **vars(given), **results},
        table(head, rows),
    )


def cosine(family: sgfi.MapFamily, images: torch.Tensor, stage: str, batch: int) -> float:
    found = torch.cat([sgfi.invert(family, x, stage=stage).value for x in images.split(batch)])
    return float(pixel_cosine(found, images).mean())


if __name__ == "__main__":
    main()
