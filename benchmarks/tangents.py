"""Maps fitted on tangents against the paper's and the natural inverse: does the picture answer the query?

Removal (best at own), likeness of two queries' pictures, random targets, and swapped targets: the operating point from
one photograph, the whole target from another, and which of the two the picture shows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from sgfi.derivatives import push_forward
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.random_targets import noise_like
from sgfi.evaluation.removal import removal

TARGETS = ("blocks.2.1", "blocks.4.1", "blocks.6.0.bn3")
FITS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "online": {"children": "online"},
    "tangents1": {"on": "tangents1"},
    "tangents4": {"on": "tangents4"},
    "tangents16": {"on": "tangents16"},
    "tangents1 online": {"on": "tangents1", "children": "online"},
    "tangents4 online": {"on": "tangents4", "children": "online"},
}
QUERIES, NATURAL = 16, "natural"
ADDITIVE, DIFFERENCE = ", additive gauge", ", H(x) - H(mu)"
SCORES = {
    "best_at_own": "best at own",
    "likeness": "likeness",
    "random": "random target",
    "whole": "whole tensor",
    "swap_target": "swap: target's photograph",
    "swap_point": "swap: operating point's",
}


@dataclass(frozen=True)
class Way:
    """An estimator, and whether it is asked about ``J (x - mu)`` instead of its own ``H(x) - H(mu)``."""

    estimator: Any
    tangent: bool = False

    def state(self, x: Tensor, target: str) -> Tensor:
        if not self.tangent:
            return self.estimator.state(x, target)
        name = self.estimator.node(target).name
        return push_forward(self.estimator.graph, [name], x, x - self.estimator.origin)[name]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--calibration", type=int, default=512)
    options.add_argument("--held-out", type=int, default=24)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--fits", default=",".join([NATURAL, *FITS]), help="separated by commas")
    options.add_argument("--maps", help="folder that keeps the fitted maps")
    given = options.parse_args()
    torch.set_num_threads(1)
    loaded = network("efficientnet_lite0", given.size)
    fit, held = photographs(given.calibration, given.held_out, loaded.preprocessing)
    graph, batches = sgfi.capture(loaded.model, fit[:2]), list(fit.split(32))
    prior = sgfi.prior(batches)
    seconds: dict[str, float] = {}
    rows: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as spare:
        for name in given.fits.split(","):
            start = time.perf_counter()
            if name == NATURAL:
                ways = {f"{name}, {kind}": Way(sgfi.natural(graph, prior, kind)) for kind in ("path", "point")}
            else:
                folder = Path(given.maps or spare) / name.replace(" ", "-")
                family = sgfi.calibrate(sgfi.plan(graph), batches, progress=False, checkpoint=folder, **FITS[name])
                ways = _ways(name, family)
            seconds[name] = round(time.perf_counter() - start, 1)
            rows |= measured(ways, held, prior)
            report = {**{k: v for k, v in vars(given).items() if k != "maps"}, "seconds_to_fit": seconds, "rows": rows}
            write("tangents", report, _table(rows))


def _ways(name: str, family: sgfi.MapFamily) -> dict[str, Way]:
    if family.mean is None:
        return {name: Way(family), name + ADDITIVE: Way(family.in_gauge("additive"))}
    return {name: Way(family, tangent=True), name + DIFFERENCE: Way(family)}


def measured(ways: Mapping[str, Way], held: Tensor, prior: Any) -> dict[str, dict[str, float]]:
    """``way, target, kind`` -> mean scores over the photographs."""
    rows = {}
    for (name, way), target in product(ways.items(), TARGETS):
        whole = _whole(way, target, held)
        for kind in ("channels", "cells"):
            scores = [_queried(way, target, kind, x, prior) for x in held.split(1)]
            rows[f"{name}, {target}, {kind}"] = {k: sum(s[k] for s in scores) / len(scores) for k in scores[0]} | whole
            print(name, target, kind, rows[f"{name}, {target}, {kind}"], flush=True)
    return rows


def _queried(way: Way, target: str, kind: str, x: Tensor, prior: Any) -> dict[str, float]:
    """Of the strongest channels, or of cells spread over the target, of one photograph."""
    graph = way.estimator.graph
    node = graph.nodes[target]
    state = way.state(x, target)
    (activation,) = graph.program(("input",), (node.name,))(x)
    cells = list(product(*map(range, node.coord_shape)))
    step = max(1, len(cells) // QUERIES)
    strongest = activation[0].flatten(1).square().sum(1).topk(QUERIES).indices.tolist()
    queries = {
        "channels": [sgfi.Query(node.name, channel) for channel in strongest],
        "cells": [sgfi.Query(node.name, None, [cell]) for cell in cells[step // 2 :: step][:QUERIES]],
    }[kind]
    noise = torch.stack([noise_like(state, query.selection(node), seed) for seed, query in enumerate(queries)])
    values, randoms = (
        [inverse.value for inverse in sgfi.sweep(way.estimator, x, queries, terminal=terminal)]
        for terminal in (state, noise)
    )
    unit = F.normalize(torch.cat(values).flatten(1), dim=1)
    alike = (unit @ unit.mT).abs()
    cosines = [pixel_cosine(random, value).abs() for random, value in zip(randoms, values, strict=True)]
    taken = removal(graph, x, queries, values, prior)
    return {
        "best_at_own": float(taken.best_at_own.mean()),
        "own": float(taken.own.mean()),
        "others": float(taken.others.mean()),
        "best_at_own_energy": float(removal(graph, x, queries, values, prior, "energy").best_at_own.mean()),
        "likeness": float((alike.sum() - len(unit)) / (len(unit) ** 2 - len(unit))),
        "random": float(torch.cat(cosines).mean()),
    }


def _whole(way: Way, target: str, held: Tensor) -> dict[str, float]:
    """Cosines of pictures of the whole tensor with photographs, each about its own mean colour."""
    parts = []
    for x, other in zip(held.split(8), held.roll(-1, 0).split(8), strict=True):
        own, elsewhere = way.state(x, target), way.state(other, target)
        value, swapped = (sgfi.invert(way.estimator, x, target, terminal=t).value for t in (own, elsewhere))
        parts.append(torch.stack([_likeness(value, x), _likeness(swapped, other), _likeness(swapped, x)]))
    return dict(zip(("whole", "swap_target", "swap_point"), torch.cat(parts, 1).mean(1).tolist(), strict=True))


def _likeness(one: Tensor, two: Tensor) -> Tensor:
    return pixel_cosine(*(picture - picture.mean((2, 3), keepdim=True) for picture in (one, two)))


def _table(rows: Mapping[str, Mapping[str, float]]) -> str:
    return table(
        ["picture", *SCORES.values()], [[name, *(row[score] for score in SCORES)] for name, row in rows.items()]
    )


if __name__ == "__main__":
    main()
