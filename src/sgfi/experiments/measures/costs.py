"""One calibration, many queries: what a family answers without another fit, and what all of it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from torch import Tensor

import sgfi
from sgfi.calibration.memory import peak, reset_peak
from sgfi.evaluation import baselines
from sgfi.evaluation.representation import forward_states
from sgfi.evaluation.rows import Rows
from sgfi.experiments.cases import Case
from sgfi.experiments.measures.estimators import MAPS_ALONE, by_estimator
from sgfi.experiments.measures.registry import (
    Depths,
    Table,
    boundaries_at,
    evaluation_batches,
    evaluation_inputs,
    measure,
    over_batches,
    scores,
)
from sgfi.inversion import Estimator, depth_targets
from sgfi.inversion.estimator import spread
from sgfi.settings import check_keys


@measure()
def reuse(
    case: Case,
    *,
    depths: int | Depths = 4,
    channels: Sequence[int] = (0, 1, 2, 3),
    group: int = 8,
    images: int | None = None,
    estimators: Sequence[str] = MAPS_ALONE,
) -> Table:
    """One family: several depths, single channels of the target and a group of them, nothing fitted again.

    ``depths``: which boundaries, by number or name, or how many of them.
    """
    targets = case.plan.boundaries[1:]
    chosen = spread(targets, depths) if isinstance(depths, int) else boundaries_at(case, depths)
    queries = {f"depth {name}": sgfi.Query(target=name) for name in chosen}
    width = case.plan.boundary[case.plan.target].channels
    queries |= {f"channel {channel}": sgfi.Query(channels=[channel]) for channel in channels if channel < width}
    queries[f"{min(group, width)} channels"] = sgfi.Query(channels=list(range(min(group, width))))

    def take(estimator: Estimator) -> Table:
        def each(x: Tensor) -> Rows:
            inverses = sgfi.sweep(estimator, x, list(queries.values()))
            pictures = [inverse.value + estimator.origin for inverse in inverses]
            return {label: scores(case, picture, x) for label, picture in zip(queries, pictures, strict=True)}

        return over_batches(case, images, each)

    return by_estimator(case, estimators, take)


LOADS = ("images", "depths", "channels", "mixed")
"""What varies from query to query."""


@measure()
def latency(
    case: Case,
    *,
    queries: int = 8,
    repeats: int = 3,
    loads: Sequence[str] = LOADS,
    timed_steps: int = 20,
    search: Mapping[str, Any] | None = None,
) -> Table:
    """Seconds per query at batch one when images, depths, channels or all of them vary; a search's steps beside it.

    The closed form: the median over ``repeats`` of the mean over queries. The search: the mean over queries, timed
    over ``timed_steps`` and multiplied up to its full length.
    """
    declared = baselines.Search.from_dict(search or {})
    short = replace(declared, steps=min(timed_steps, declared.steps))
    check_keys(dict.fromkeys(loads), dict.fromkeys(LOADS), "loads")
    table: Table = {}
    for label in loads:
        load = _load(case, label, queries)
        spent = [_timed(load, lambda image, query: sgfi.invert(case.family, image, **query)) for _ in range(repeats)]
        step = _timed(load, lambda image, query: _searched(case, image, query, short)) / short.steps
        table[label] = {"closed_form_seconds": median(spent), "search_seconds": step * declared.steps}
    return table


Load = list[tuple[Tensor, dict[str, Any]]]


def _load(case: Case, label: str, queries: int) -> Load:
    """Images (1, ...) with what is asked about them."""
    x, depths = evaluation_inputs(case, queries), depth_targets(case.family, queries)
    width = case.plan.boundary[case.plan.target].channels
    asked: dict[str, Load] = {
        "images": [(image, {}) for image in x.split(1)],
        "depths": [(x[:1], {"target": depths[i % len(depths)]}) for i in range(queries)],
        "channels": [(x[:1], {"channels": [i % width]}) for i in range(queries)],
        "mixed": [
            (x[i : i + 1], {"target": depths[i % len(depths)]} if i % 2 else {"channels": [i % width]})
            for i in range(len(x))
        ],
    }
    return asked[label]


def _timed(load: Load, answer: Callable[[Tensor, dict[str, Any]], Any]) -> float:
    """Seconds a query."""
    start = time.perf_counter()
    for image, query in load:
        answer(image, query)
    return (time.perf_counter() - start) / len(load)


def _searched(case: Case, image: Tensor, query: Mapping[str, Any], search: baselines.Search) -> Tensor:
    target = case.plan.graph.nodes.canonical(query.get("target", case.plan.target))
    (state,) = forward_states(case.plan.graph, image, [target]).values()
    return baselines.preimage(case.plan, state, search, 0, target)


@measure()
def storage(case: Case) -> Table:
    """Fitted nodes and size of all maps, from the plan alone: weights and images do not enter, nothing is fitted."""
    return {"plan": {"nodes": len(case.plan.fitted), "maps_gib": case.plan.map_bytes / 2**30}}


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
