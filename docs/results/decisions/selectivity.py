"""How alike the inverses of different cells of one photograph are: mean cosine between them, stage by stage.

    python docs/results/decisions/selectivity.py MAPS PHOTOGRAPH TENSOR [TENSOR ...]
    python docs/results/decisions/selectivity.py --children CALIBRATION HELD_OUT PHOTOGRAPH

The second form fits EfficientNet-Lite0 (64 px, 256 images, target blocks.3.2) on true and on online children.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import sgfi
from sgfi.cli.loading import open_family
from sgfi.decisions import coord_grid, query_all, support
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.vision.data import open_data, read_image
from sgfi.vision.models import load_model


def likeness(family: sgfi.MapFamily, x: torch.Tensor, target: str, stage: str) -> str:
    grid = coord_grid(family.plan.boundary[target].node, x.shape[-2:])
    found = query_all(family, x, grid, stage=stage)
    rows = torch.nn.functional.normalize(found.flatten(1).double())
    count = len(rows)
    mean = ((rows @ rows.T).sum() - count) / (count * count - count)
    mass = support(found, grid).measures()["self_mass"]
    return f"{target} {stage}: {count} cells, mean cosine {mean:.3f}, self mass {mass:.3f} (uniform {1 / count:.3f})"


def fitted_both_ways(calibration: str, held_out: str, photograph: str) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=64)
    assert loaded.preprocessing is not None
    batches = list(open_data(calibration, loaded, 32, 256))
    held = torch.cat(list(open_data(held_out, loaded, 16, 16)))
    x = read_image(photograph, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, loaded.example), target="blocks.3.2")
    for children in ("true", "online"):
        family = sgfi.calibrate(plan, batches, children=children, progress=False)
        for stage in ("first", "final"):
            cosine = pixel_cosine(sgfi.invert(family, held, stage=stage).value, held).mean()
            print(children, likeness(family, x, plan.target, stage), f"held-out pixel cosine {cosine:.3f}", flush=True)


def main() -> None:
    if sys.argv[1] == "--children":
        fitted_both_ways(*sys.argv[2:5])
        return
    opened = open_family(Path(sys.argv[1]))
    assert opened.loaded.preprocessing is not None
    x = read_image(sys.argv[2], opened.loaded.preprocessing)
    for target in sys.argv[3:]:
        for stage in ("raw", "first", "final"):
            print(likeness(opened.family, x, target, stage), flush=True)


if __name__ == "__main__":
    main()
