"""All 49 patch queries of one image in one sweep, against single queries: the ratio in one run.

Vision Transformers with 7x7 patches and random weights (the cost does not depend on them), their maps fitted on a few
random inputs. Single queries and sweeps alternate, so that a busy machine slows both; the ratio is that of the medians.
"""

from __future__ import annotations

from typing import Any

import torch

import sgfi
from benchmarks.common import parser, table, timed, write
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
            measured = ratio(family, x, target, given.rounds)
            results[f"{width}/{target}"] = measured
            seconds = [measured["seconds"][way]["cpu"] for way in ("single", "sweep")]
            rows.append([width, target, *seconds, measured["cpu"], measured["wall"]])
    head = ["width", "target", "one query (cpu s)", "49 queries in one sweep (cpu s)", "ratio, cpu", "ratio, clock"]
    write(f"coordinates_{given.threads}_threads", {**vars(given), "queries": 49, "results": results}, table(head, rows))


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
    ways = {
        "single": lambda: sgfi.invert(family, x, target, coords=[grid.coords[24]]),
        "sweep": lambda: query_all(family, x, grid),
    }
    seconds = timed(ways, rounds)
    return {
        "seconds": seconds,
        **{clock: seconds["sweep"][clock] / seconds["single"][clock] for clock in ("cpu", "wall")},
    }


if __name__ == "__main__":
    main()
