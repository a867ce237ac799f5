"""Where the patch queries of a token model have their mass, stage by stage: share at home by magnitude and by energy.

    python docs/results/decisions/support.py MAPS MODEL PHOTOGRAPHS TENSOR [TENSOR ...]

The paper sums magnitudes; squares count the strong pixels more. Photographs: a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from sgfi.cli.loading import open_family
from sgfi.decisions import coord_grid, query_all, support
from sgfi.inputs.data import open_data


def main(maps: str, model: str, photographs: str, *tensors: str) -> None:
    opened = open_family(Path(maps), model)
    x = torch.cat(list(open_data(Path(photographs), opened.loaded, 16, 6)))
    print("| tensor | stage | self mass | the same of squares |\n|---|---|---|---|")
    for tensor in tensors:
        grid = coord_grid(opened.family.plan.boundary[tensor].node, x.shape[-2:])
        for stage in ("raw", "first", "final"):
            by_magnitude, by_energy = [], []
            for image in x.split(1):
                inverses = query_all(opened.family, image, grid, stage=stage)
                by_magnitude.append(support(inverses, grid).measures()["self_mass"])
                length = inverses.norm(dim=1, keepdim=True)
                by_energy.append(support(inverses * length, grid).measures()["self_mass"])
            shares = (sum(own) / len(own) for own in (by_magnitude, by_energy))
            print(f"| {tensor} | {stage} | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
