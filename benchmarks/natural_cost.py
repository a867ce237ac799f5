"""What selectivity costs: best at own at equal size against time, over path points, steps and preconditioners.

EfficientNet-Lite0, real weights, 64 pixels: the 16 strongest channels of ``blocks.2.1`` and 16 cells of ``blocks.4.1``,
which are solved by conjugate gradients. Time in forward passes of one photograph through the whole model, processor
time of this process, both measured in turns in one run; per query, all 16 in one sweep. Photographs as in
``benchmarks.natural_settings``.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import HERE, network, parser, table, write
from benchmarks.natural_settings import asked, unused_photographs
from sgfi.evaluation.removal import removal
from sgfi.natural import Path, Solver

CASES = (("blocks.2.1", "channels"), ("blocks.4.1", "cells"))
FIGURE = HERE.parent / "docs" / "images" / "natural-cost.png"


def variants() -> dict[str, dict[str, Any]]:
    """By family and name: what is varied around the default, tolerance out of the way where steps are counted."""
    made: dict[str, dict[str, Any]] = {}
    for points in (1, 2, 3, 5, 9):
        made[f"points: {points}"] = {"jacobian": "point" if points == 1 else Path(points)}
    for steps in (1, 2, 4, 8, 16):
        made[f"steps: {steps}"] = {"solver": Solver(steps=steps, tolerance=1e-6, exact_up_to=0)}
    for kind in ("diagonal", "ensemble"):
        made[f"{kind}: to tolerance"] = {"solver": Solver(preconditioner=kind, exact_up_to=0)}
        for steps in (1, 2, 4):
            solver = Solver(steps=steps, tolerance=1e-6, preconditioner=kind, exact_up_to=0)
            made[f"{kind}: {steps}"] = {"solver": solver}
    return made


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=6)
    given = options.parse_args()
    torch.set_num_threads(1)
    loaded = network("efficientnet_lite0", 64)
    graph = sgfi.capture(loaded.model, loaded.example)
    lenses = {name: sgfi.natural(graph, loaded.preprocessing, **settings) for name, settings in variants().items()}
    indices, inputs = unused_photographs(given.images, loaded.preprocessing)
    rows: dict[str, dict[str, dict[str, list[float]]]] = {}
    for number, x in enumerate(inputs.split(1), 1):
        loaded.model(x)
        for target, kind, queries in asked(graph, x):
            if (target, kind) not in CASES:
                continue
            for name, lens in lenses.items():
                row = rows.setdefault(f"{target}, {kind}", {}).setdefault(name, {})
                for score, value in one(lens, loaded.model, x, queries).items():
                    row.setdefault(score, []).append(value)
        result = {
            case: {name: {s: statistics.fmean(v) for s, v in row.items()} for name, row in each.items()}
            for case, each in rows.items()
        }
        record = {**vars(given), "photographs": number, "indices": indices, "costs": result}
        heads = ["forwards", "best", "residual", "steps"]
        lines = [[case, name, *(row[h] for h in heads)] for case, each in result.items() for name, row in each.items()]
        write("natural_cost", record, table(["queries", "setting", *heads], lines))
        draw(result)


def one(lens: sgfi.NaturalInverse, model: torch.nn.Module, x: Tensor, queries: list) -> dict[str, float]:
    """Of one photograph: cost of a query in forward passes, best at own, what the solve reached."""
    forward = min(spent(lambda: model(x)) for _ in range(5))
    answers: list = []
    seconds = spent(lambda: answers.extend(sgfi.sweep(lens, x, queries)))
    taken = removal(lens.graph, x, queries, [answer.value for answer in answers], lens.prior)
    return {
        "forwards": seconds / forward / len(queries),
        "best": float(taken.best_at_own.mean()),
        "residual": float(torch.cat([answer.residual for answer in answers]).mean()),
        "steps": float(torch.cat([answer.steps for answer in answers]).double().mean()),
    }


def spent(call: Any) -> float:
    """Processor seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def draw(result: dict[str, Any]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(result), figsize=(8.4, 3.1), sharey=True)
    for axis, (case, rows) in zip(axes, result.items(), strict=True):
        for family, marker in (("points", "o"), ("steps", "s"), ("diagonal", "^"), ("ensemble", "D")):
            own = sorted(
                (row["forwards"], row["best"], name.split(": ")[1])
                for name, row in rows.items()
                if name.startswith(family) and "tolerance" not in name
            )
            label = {"points": "path points, to tolerance", "steps": "steps, no preconditioner"}.get(
                family, f"steps, {family}"
            )
            axis.plot(
                *zip(*[(cost, best) for cost, best, _ in own], strict=True), marker=marker, ms=4, lw=1, label=label
            )
            for cost, best, name in own:
                axis.annotate(name, (cost, best), textcoords="offset points", xytext=(3, -9), fontsize=6.5)
        axis.set(xscale="log", xlabel="forward passes a query, 16 in one sweep", title=case)
        axis.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
        axis.set_xticks([], minor=True)
        axis.title.set_fontsize(9)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("best at own (chance 0.06)")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    with torch.no_grad():
        main()
