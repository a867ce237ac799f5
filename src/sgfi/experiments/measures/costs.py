"""One calibration, many queries: what a family answers without another fit, and what all of it costs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

import sgfi
from sgfi.calibration.memory import peak, reset_peak
from sgfi.evaluation import baselines
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.registry import (
    Table,
    evaluation_batches,
    evaluation_inputs,
    measure,
    over_batches,
    scores,
)
from sgfi.inversion import depth_targets


@measure()
def reuse(
    case: Case, *, depths: int = 4, channels: Sequence[int] = (0, 1, 2, 3), group: int = 8, images: int | None = None
) -> Table:
    """One family: several depths, single channels of the target and a group of them, nothing fitted again."""
    queries = {f"depth {name}": sgfi.Query(target=name) for name in depth_targets(case.family, depths)}
    width = case.plan.boundary[case.plan.target].channels
    queries |= {f"channel {channel}": sgfi.Query(channels=[channel]) for channel in channels if channel < width}
    queries[f"{min(group, width)} channels"] = sgfi.Query(channels=list(range(min(group, width))))

    def each(x: Tensor) -> Rows:
        inverses = sgfi.sweep(case.family, x, list(queries.values()))
        return {label: scores(case, inverse.value, x) for label, inverse in zip(queries, inverses, strict=True)}

    return over_batches(case, images, each)


@measure()
def latency(
    case: Case, *, queries: int = 4, repeats: int = 3, timed_steps: int = 20, search: Mapping[str, Any] | None = None
) -> Table:
    """Seconds per query at batch one when images, depths, channels or all of them vary; a search's steps beside it.

    The search is timed over ``timed_steps`` and multiplied up to its full length.
    """
    declared = baselines.Search.from_dict(search or {})
    x = evaluation_inputs(case, queries)
    depths = depth_targets(case.family, queries)
    width = case.plan.boundary[case.plan.target].channels
    loads: dict[str, list[tuple[Tensor, dict[str, Any]]]] = {
        "images": [(image, {}) for image in x.split(1)],
        "depths": [(x[:1], {"target": depths[i % len(depths)]}) for i in range(queries)],
        "channels": [(x[:1], {"channels": [i % width]}) for i in range(queries)],
        "mixed": [
            (x[i : i + 1], {"target": depths[i % len(depths)]} if i % 2 else {"channels": [i % width]})
            for i in range(len(x))
        ],
    }
    short = replace(declared, steps=timed_steps)
    table: Table = {}
    for label, load in loads.items():
        spent = []
        for _ in range(repeats):
            start = time.perf_counter()
            for image, query in load:
                sgfi.invert(case.family, image, **query)
            spent.append((time.perf_counter() - start) / len(load))
        start = time.perf_counter()
        for image, query in load:
            target = query.get("target", case.plan.target)
            state = forward_states(case.plan.graph, image, [target])[case.plan.graph.nodes.canonical(target)]
            baselines.preimage(case.plan, state, short, 0, target)
        step = (time.perf_counter() - start) / (len(load) * timed_steps)
        table[label] = {"closed_form_seconds": min(spent), "search_seconds": step * declared.steps}
    return table


@measure()
def resources(case: Case, *, images: int | None = None) -> Table:
    """Fitted nodes, size of the maps, calibration time and peak memory, online time and peak memory."""
    family, facts = case.family, case.facts
    reset_peak()
    start, count = time.perf_counter(), 0
    for x in evaluation_batches(case, images):
        sgfi.invert(family, x)
        count += len(x)
    costs = {
        "nodes": len(family.maps),
        "maps_mib": family.bytes / 2**20,
        "calibration_seconds": facts["seconds"],
        "calibration_peak_mib": _mib(facts["peak_bytes"]),
        "online_ms_an_image": 1000 * (time.perf_counter() - start) / count,
        "online_peak_mib": _mib(peak()),
    }
    return {"family": costs}


def _mib(size: int | None) -> float:
    return float("nan") if size is None else size / 2**20
