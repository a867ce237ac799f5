"""Do inverses still answer the query? Likeness of the inverses of different cells and channels, by calibration."""

from __future__ import annotations

import torch
from torch import Tensor

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from benchmarks.real_weights import MODES
from sgfi.evaluation.metrics import pixel_cosine


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="efficientnet_lite0")
    options.add_argument("--target", default="blocks.3.2")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--calibration", type=int, default=256)
    options.add_argument("--held-out", type=int, default=32)
    options.add_argument("--images", type=int, default=6)
    options.add_argument("--channels", type=int, default=16)
    given = options.parse_args()
    loaded = network(given.model, given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, fit[:2]), target=given.target)
    sizes = plan.boundary[plan.target].basis.coords
    cells = [sgfi.Query(coords=[tuple(cell)]) for cell in torch.cartesian_prod(*map(torch.arange, sizes)).tolist()]
    channels = [sgfi.Query(channels=[channel]) for channel in range(given.channels)]
    x = held[: given.images]
    rows, results = [], {}
    for mode, setting in MODES.items():
        family = sgfi.calibrate(plan, list(fit.split(32)), progress=False, **setting)
        scores = {
            "pixel_cosine": float(pixel_cosine(sgfi.invert(family, held).value, held).mean()),
            "cells_first": likeness(family, x, cells, "first"),
            "cells_final": likeness(family, x, cells, "final"),
            "channels_first": likeness(family, x, channels, "first"),
            "channels_final": likeness(family, x, channels, "final"),
        }
        results[mode] = setting | scores
        rows.append([mode, *scores.values()])
        head = ["calibration", "pixel cosine", "cells, first", "cells, final", "channels, first", "channels, final"]
        write("selectivity", {**vars(given), "results": results}, table(head, rows))
    results["raw"] = {"cells": likeness(family, x, cells, "raw"), "channels": likeness(family, x, channels, "raw")}
    write("selectivity", {**vars(given), "results": results}, table(head, rows))


def likeness(family: sgfi.MapFamily, x: Tensor, queries: list[sgfi.Query], stage: str) -> float:
    """Mean absolute cosine between the inverses of two different queries on one image (sign left aside)."""
    values = torch.stack([inverse.value for inverse in sgfi.sweep(family, x, queries, stage=stage)])  # (Q, B, ...)
    rows = torch.nn.functional.normalize(values.flatten(2).transpose(0, 1).double(), dim=-1)  # (B, Q, P)
    alike = (rows @ rows.transpose(1, 2)).abs()
    count = len(queries)
    return float((alike.sum((1, 2)) - count).mean() / (count * count - count))


if __name__ == "__main__":
    main()
