"""All 49 patch queries of one image in one sweep, against single queries: the ratio in one run.

Vision Transformers with 7x7 patches and random weights (the cost does not depend on them), their maps fitted on a few
random inputs. Single queries and sweeps alternate, so that a busy machine slows both; the ratio is that of the
medians, in processor time of this process and in time on the clock.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

import sgfi
from benchmarks.common import parser, table, write
from sgfi.decisions import coord_grid, query_all


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--widths", type=int, nargs="+", default=[48, 96, 192])
    options.add_argument("--depth", type=int, default=12)
    options.add_argument("--samples", type=int, default=16)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    rows, results = [], {}
    for width in given.widths:
        family, x = fitted(width, given.depth, given.samples)
        for target in ("blocks.0", f"blocks.{given.depth // 2}", "norm"):
            found = ratio(family, x, target, given.rounds)
            results[f"{width}/{target}"] = found
            rows.append(
                [width, target, *(found[key] for key in ("single_cpu", "sweep_cpu", "cpu_ratio", "wall_ratio"))]
            )
    head = ["width", "target", "one query (cpu s)", "49 queries in one sweep (cpu s)", "ratio, cpu", "ratio, clock"]
    write("coordinates", {**vars(given), "queries": 49, "results": results}, table(head, rows))


def fitted(width: int, depth: int, samples: int) -> tuple[sgfi.MapFamily, torch.Tensor]:
    """A class-token ViT of 112 pixels and 16-pixel patches, with maps."""
    import timm

    torch.manual_seed(0)
    model = timm.models.VisionTransformer(
        img_size=112, patch_size=16, embed_dim=width, depth=depth, num_heads=3, num_classes=10
    )
    x = torch.randn(samples, 3, 112, 112)
    plan = sgfi.plan(sgfi.capture(model.eval().requires_grad_(False), x[:2]))
    return sgfi.calibrate(plan, x.split(8), progress=False), x[:1]


def ratio(family: sgfi.MapFamily, x: torch.Tensor, target: str, rounds: int) -> dict[str, Any]:
    """Median seconds of one query and of the whole sweep, and their ratios."""
    grid = coord_grid(family.plan.boundary[target].node, x.shape[-2:])
    assert grid.cells == 49
    single, sweep = [], []
    for place in range(rounds + 1):
        start = _now()
        sgfi.invert(family, x, target, coords=[grid.coords[place]])
        middle = _now()
        query_all(family, x, grid)
        end = _now()
        if place:  # the first round warms up both
            single.append((middle[0] - start[0], middle[1] - start[1]))
            sweep.append((end[0] - middle[0], end[1] - middle[1]))
    (one_cpu, one_wall), (all_cpu, all_wall) = (
        [statistics.median(pair[kind] for pair in times) for kind in (0, 1)] for times in (single, sweep)
    )
    return {
        "single_cpu": one_cpu,
        "sweep_cpu": all_cpu,
        "cpu_ratio": all_cpu / one_cpu,
        "single_wall": one_wall,
        "sweep_wall": all_wall,
        "wall_ratio": all_wall / one_wall,
    }


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


if __name__ == "__main__":
    main()
