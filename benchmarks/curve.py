"""What the learning curve after every calibration costs: its share of the processor time of the same run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

import sgfi
from benchmarks.calibration import planned, spent
from benchmarks.common import parser, table, write

WAYS = {"paper": {"preset": "paper"}, "online": {"children": "online"}, "aligned": {"preset": "aligned"}}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--models", nargs="+", default=["resnet18", "vit"])
    options.add_argument("--size", type=int, default=112)
    options.add_argument("--samples", type=int, default=128)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    results = [measured(name, way, given) for name in given.models for way in WAYS]
    head = ["model", "fit", "calibration without the curve, cpu s", "curve, cpu s", "times as long with it"]
    rows = [
        [each["model"], each["fit"], *(f"{each[key]:.2f}" for key in ("rest", "curve", "ratio"))] for each in results
    ]
    write("curve", {**vars(given), "results": results}, table(head, rows))


def measured(name: str, way: str, given: Any) -> dict[str, Any]:
    """One calibration with a watch around its curve, after a small one that warms up."""
    plan = planned(name, given.size)
    batches = list(torch.randn(given.samples, 3, given.size, given.size).split(given.batch))
    calibration, curves = import_module("sgfi.calibration.calibrate"), []
    plain = calibration.learning_curve

    def watched(*arguments: Any) -> Any:
        made: list[Any] = []
        curves.append(spent(lambda: made.append(plain(*arguments))))
        return made[0]

    calibration.learning_curve = watched
    try:
        sgfi.calibrate(plan, batches[:2], progress=False, **WAYS[way])
        curves.clear()
        total = spent(lambda: sgfi.calibrate(plan, batches, progress=False, **WAYS[way]))
    finally:
        calibration.learning_curve = plain
    (curve,) = curves
    rest = total - curve
    return {"model": name, "fit": way, "rest": rest, "curve": curve, "ratio": total / rest}


if __name__ == "__main__":
    main()
