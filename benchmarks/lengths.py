"""Relative error and cosine of inverses of a real network, with and without lengths fitted to held-out samples."""

from __future__ import annotations

import statistics
from dataclasses import replace

import torch
from torch import Tensor

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from sgfi.evaluation.metrics import pixel_cosine, relative_error
from sgfi.inversion.estimator import spread

MODES: dict[str, dict] = {
    "paper": {"preset": "paper"},
    "online": {"preset": "paper", "children": "online"},
    "aligned": {"preset": "aligned"},
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="efficientnet_lite0", help="efficientnet_lite0, deit_tiny, mobilenet_v2")
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--calibration", type=int, default=256)
    options.add_argument("--held-out", type=int, default=96)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    given = options.parse_args()

    loaded = network(given.model, given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    plan = sgfi.plan(sgfi.capture(loaded.model, fit[:2]))
    depths = spread([*plan.fitted[1:], plan.target], 4)[1:]
    rows, results = [], {}
    for mode in given.modes:
        for length in (False, True):
            family = sgfi.calibrate(plan, list(fit.split(given.batch)), length=length, progress=False, **MODES[mode])
            measured = {name: scores(family, held, name, given.batch) for name in depths}
            if length:
                for name in depths:
                    measured[name] |= {"handed_on": handed_on(family, held, name, given.batch)}
            results[f"{mode}, length" if length else mode] = {
                **measured,
                "samples": family.samples,
                "lengths": {name: family.lengths[name]["input"] for name in family.lengths},
            }
            for name, row in measured.items():
                rows.append([mode, "yes" if length else "no", name, *row.values(), *([] if length else [""])])
            head = ["calibration", "length", "target", "cosine", "relative error", "least at this cosine", "handed on"]
            facts = {"fitted_nodes": len(plan.fitted), **vars(given), "results": results}
            write(f"lengths_{given.model}_{given.size}px_c{given.calibration}", facts, table(head, rows))


def scores(family: sgfi.MapFamily, images: Tensor, target: str, batch: int) -> dict[str, float]:
    """Means over images; the least relative error that a cosine allows is its sine."""
    values = torch.cat([sgfi.invert(family, x, target=target).value for x in images.split(batch)])
    cosine, error = pixel_cosine(values, images), relative_error(values, images)
    least = (1 - cosine.square()).clamp(min=0).sqrt()
    return {
        name: statistics.fmean(score.tolist())
        for name, score in {"cosine": cosine, "relative_error": error, "least_error": least}.items()
    }


def handed_on(family: sgfi.MapFamily, images: Tensor, target: str, batch: int) -> float:
    """Relative error if lengths were fitted on the way from the deepest target and handed on, in a chain of nodes."""
    own = family.lengths[family.target]
    lengths = {target: {"input": own["input"] / own.get(target, 1.0)}}
    return scores(replace(family, lengths=lengths), images, target, batch)["relative_error"]


if __name__ == "__main__":
    main()
