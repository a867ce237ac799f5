"""A depth ladder.   python examples/depth_ladder.py OUT.png PHOTO...

Whole tensors from shallow to deep, at the point: what a layer as a whole still determines of the input. The first
tensor holds nearly everything; then fine detail goes, then outlines, and layout and colour stay longest.
"""

import sys
import warnings

import torch

import sgfi
from sgfi.figures import save_figure
from sgfi.figures.answers import Painter, natural_ladder
from sgfi.inputs import load_model, read_image
from sgfi.inversion import depth_targets
from sgfi.natural import NotConverged, Solver


def main(out: str, *photos: str, size: int = 64, steps: int = 160) -> None:
    loaded = load_model("pip:efficientnet_lite0", size=size)
    x = torch.cat([read_image(photo, loaded.preprocessing) for photo in photos])
    graph = sgfi.capture(loaded.model, loaded.example)
    lens = sgfi.natural(graph, loaded.preprocessing, jacobian="point", ridge=0.03, solver=Solver(steps=steps))
    targets = depth_targets(lens, 5)
    warnings.simplefilter("ignore", NotConverged)  # the residuals are printed
    inverses = [sgfi.invert(lens, x, target) for target in targets]
    painter = Painter(lens.prior.mean, loaded.preprocessing)
    save_figure(natural_ladder(inverses, x, painter, [lens.node(name) for name in targets]), out, overwrite=True)
    print(
        "residuals: "
        + ", ".join(f"{target} {inverse.residual.max():.2f}" for target, inverse in zip(targets, inverses, strict=True))
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
