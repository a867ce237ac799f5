"""What a natural inverse costs, in forward passes of the same model at batch 1, measured in one run.

One channel of a ResNet50 at 224 pixels (random weights: the cost hardly depends on them) at three depths, at the point
and along the default path, without the share; and 49 cells of a Vision Transformer in one sweep against single ones.
"""

from __future__ import annotations

import torch

import sgfi
from benchmarks.common import parser, table, timed, write

TARGETS = ("layer2.3.add", "layer3.5.add", "layer4.2.add")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    costs = channel_costs(given.size, given.rounds)
    sweep = token_sweep(given.rounds)
    rows = [[name, row["point"], row["path"]] for name, row in costs.items()]
    head = ["one channel of ResNet50 at", "point (forward passes)", "path (forward passes)"]
    text = table(head, rows) + f"\n\n49 cells of a ViT in one sweep: {sweep:.1f} single ones (cpu time)."
    write("natural", {**vars(given), "forwards": costs, "sweep_of_49_over_single": sweep}, text)


def channel_costs(size: int, rounds: int) -> dict[str, dict[str, float]]:
    """By target: forward passes' processor time that one channel takes at the point and along the path."""
    import torchvision

    model, x = torchvision.models.resnet50(weights=None).eval().requires_grad_(False), torch.randn(1, 3, size, size)
    graph = sgfi.capture(model, x)
    lenses = {"point": sgfi.natural(graph, jacobian="point"), "path": sgfi.natural(graph)}
    costs = {}
    for target in TARGETS:
        ways = {"forward": lambda: model(x)}
        for name, lens in lenses.items():
            ways[name] = lambda lens=lens, target=target: sgfi.invert(lens, x, target, channels=[3])
        seconds = {name: spent["cpu"] for name, spent in timed(ways, rounds).items()}
        costs[target] = {name: seconds[name] / seconds["forward"] for name in lenses}
    return costs


def token_sweep(rounds: int) -> float:
    """Processor time of 49 cells in one sweep over that of one cell."""
    import timm

    model = timm.models.VisionTransformer(img_size=112, patch_size=16, embed_dim=192, depth=12, num_heads=3)
    x = torch.randn(1, 3, 112, 112)
    lens = sgfi.natural(sgfi.capture(model.eval().requires_grad_(False), x))
    cells = [sgfi.Query("blocks.5", None, [token]) for token in range(1, 50)]
    seconds = timed(
        {"one": lambda: sgfi.sweep(lens, x, cells[24:25]), "all": lambda: sgfi.sweep(lens, x, cells)}, rounds
    )
    return seconds["all"]["cpu"] / seconds["one"]["cpu"]


if __name__ == "__main__":
    main()
