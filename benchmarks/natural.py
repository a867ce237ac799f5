"""What a natural inverse costs, in forward passes of the same model at batch 1, measured in one run.

One channel of a ResNet50 at 224 pixels (random weights: the cost hardly depends on them) at three depths, at the point
and along the default path, without the share; the first picture of a new model, from the module to a picture with its
share; and 49 cells in one sweep against single ones, each query by itself and with a shared ensemble: of a Vision
Transformer with random weights at 112 pixels, and, where ``SGFI_ASSETS`` is set, of DeiT-tiny at 224 pixels and of
EfficientNet-Lite0 at 64 pixels with real ones. Processor time, one thread.
"""

from __future__ import annotations

import json
import time
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import RESULTS, command, network, parser, photographs, table, timed, write
from sgfi.inversion import Query
from sgfi.natural import Solver

TARGETS = ("layer2.3.add", "layer3.5.add", "layer4.2.add")


PARTS = ("channels", "first", "vit", "deit", "lite0")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    known = RESULTS / "natural.json"
    result = json.loads(known.read_text()) if known.is_file() and set(given.parts) < set(PARTS) else {}
    result = {
        name: part for name, part in result.items() if name in ("forwards", "first_picture", "sweeps", "commands")
    }
    commands = result.setdefault("commands", {})
    for part in given.parts:
        commands[part] = command()
        if part == "channels":
            result["forwards"] = channel_costs(given.size, given.rounds)
        elif part == "first":
            result["first_picture"] = first_picture(given.size)
        else:
            result.setdefault("sweeps", {})[part] = sweep_costs(*SWEEPS[part](), given.rounds)
    write("natural", {**vars(given), **result}, report(result))


def report(result: dict[str, Any]) -> str:
    blocks = []
    if "forwards" in result:
        rows = [[name, row["point"], row["path"]] for name, row in result["forwards"].items()]
        head = ["one channel of ResNet50 at", "point (forward passes)", "path (forward passes)"]
        blocks.append(table(head, rows))
    if "first_picture" in result:
        first = result["first_picture"]
        blocks.append(
            f"First picture of a new ResNet50: {first['cpu']:.1f} s of processor time ({first['wall']:.1f} s)."
        )
    heads = ["single_forwards", "none_over_single", "ensemble_over_single", "none_steps", "ensemble_steps"]
    heads += ["none_residual", "ensemble_residual"]
    rows = [[name, *(row[head] for head in heads)] for name, row in result.get("sweeps", {}).items()]
    return "\n\n".join([*blocks, table(["49 cells in one sweep", *heads], rows)])


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


def first_picture(size: int) -> dict[str, float]:
    """Seconds from a module to a picture of a cell with its share, nothing fitted and nothing kept from before."""
    import torchvision

    model, x = torchvision.models.resnet50(weights=None).eval().requires_grad_(False), torch.randn(1, 3, size, size)
    cpu, wall = time.process_time(), time.perf_counter()
    lens = sgfi.natural(sgfi.capture(model, x))
    answer = sgfi.invert(lens, x, "layer3.5.add", channels=[3], coords=[(7, 7)])
    assert answer.share is not None
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def sweep_costs(model: Any, x: Tensor, preprocessing: Any, cells: list[Query], rounds: int) -> dict[str, float]:
    """Processor time of 49 cells in one sweep over the mean of single ones, each by itself and with an ensemble."""
    graph = sgfi.capture(model, x)
    lenses = {kind: sgfi.natural(graph, preprocessing, solver=Solver(preconditioner=kind)) for kind in KINDS}
    some = cells[3::7]  # seven of them, alone
    sweeps: dict[str, list] = {}
    ways = {"forward": lambda: model(x), "single": lambda: [sgfi.sweep(lenses["none"], x, [cell]) for cell in some]}
    for kind, lens in lenses.items():
        ways[kind] = lambda kind=kind, lens=lens: sweeps.__setitem__(kind, sgfi.sweep(lens, x, cells))
    seconds = {name: spent["cpu"] for name, spent in timed(ways, rounds, warm=rounds > 1).items()}
    single = seconds["single"] / len(some)
    costs = {"single_forwards": single / seconds["forward"]}
    for kind in KINDS:
        costs[f"{kind}_over_single"] = seconds[kind] / single
        costs[f"{kind}_steps"] = float(torch.cat([answer.steps for answer in sweeps[kind]]).double().mean())
        costs[f"{kind}_residual"] = float(torch.cat([answer.residual for answer in sweeps[kind]]).max())
    return costs


KINDS = ("none", "ensemble")
Sweep = tuple[Any, Tensor, Any, list[Query]]


def _vit() -> Sweep:
    import timm

    model = timm.models.VisionTransformer(img_size=112, patch_size=16, embed_dim=192, depth=12, num_heads=3)
    cells = [Query("blocks.5", None, [token]) for token in range(1, 50)]
    return model.eval().requires_grad_(False), torch.randn(1, 3, 112, 112), None, cells


def _deit() -> Sweep:
    loaded = network("deit_tiny", 224)
    tokens = [1 + 14 * row + column for row in range(0, 14, 2) for column in range(0, 14, 2)]
    return loaded.model, _photograph(loaded), loaded.preprocessing, [Query("blocks.5", None, [at]) for at in tokens]


def _lite0() -> Sweep:
    loaded = network("efficientnet_lite0", 64)
    cells = [Query("blocks.2.1", None, [(row, column)]) for row in range(7) for column in range(7)]
    return loaded.model, _photograph(loaded), loaded.preprocessing, cells


def _photograph(loaded: Any) -> Tensor:
    return photographs(0, 1, loaded.preprocessing, seed=7)[1]


SWEEPS = {"vit": _vit, "deit": _deit, "lite0": _lite0}


if __name__ == "__main__":
    main()
